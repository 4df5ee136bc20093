//! Tenants before anything runs, from outside: links, queues, routes, reports and refusals.

mod program;

use program::{directory, ended, file, files, json, run, shown, signal, started, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Two spines, levels, services and four tenants, of which two are in several racks.
const POLICY: &str = "weir: 1
network:
  topology: leaf-spine
  racks: 3
  hosts: 3
  spines: 2
  host-link: { rate: 1Gb/s }
  fabric-link: { rate: 1Gb/s }
  slots: 4
  switches: { scheduler: { strict: 3, weighted: 5 } }
levels: { factors: [1], load: 20%, packet: 1538B }
caps: { machine: 900Mb/s }
services:
  web: { match: [ { port: 80, address: 10.1.0.0/16 } ], rack: { min: 200Mb/s }, machine: { min: 50Mb/s } }
  ptp: { match: [ { port: 319, protocol: udp } ], level: 1, order: -1 }
tenants:
  red: { vms: 6, bandwidth: 100Mb/s, match: [ { vni: 5001 } ] }
  blue: { vms: { web: 4, db: 3 }, bandwidth: { web: 50Mb/s, db: 200Mb/s }, match: [ { address: 10.9.0.0/24 } ] }
  green: { vms: 9, bandwidth: 100Mb/s, match: [ { vni: 5002 } ] }
  grey: { vms: 13, bandwidth: 10Mb/s, match: [ { vni: 5003 } ] }
";

/// The example with one thing changed.
fn changed(from: &str, to: &str) -> String {
    let text = POLICY.replacen(from, to, 1);
    assert_ne!(text, POLICY, "{from}");
    text
}

/// Its output with the temporary directory left out.
fn of(directory: &Path, arguments: &[&str]) -> String {
    shown(arguments).replace(&directory.display().to_string(), "DIR")
}

#[test]
fn links_queues_and_routes_of_tenants() {
    let directory = directory();
    let policy = file(directory.path(), "policy.yaml", POLICY);
    let placed = directory.path().join("placed.json").display().to_string();
    let mut all = of(directory.path(), &["check", &policy]);
    all.push_str(&of(directory.path(), &["place", &policy, "--placed", &placed]));
    all.push_str(&of(directory.path(), &["explain", &policy, "grey", "--placed", &placed]));
    all.push_str(&of(directory.path(), &["explain", &policy, "blue"]));
    insta::assert_snapshot!(all);
    // Programs get every link; the parts of each are its rate.
    let checked = json(&run(&["check", &policy, "--placed", &placed, "--json"]));
    let links = checked["tenants"]["links"].as_array().expect("links");
    assert_eq!((links.len(), &checked["tenants"]["places"]), (9 + 6, &Value::from(placed.as_str())));
    for link in links {
        let parts = ["levels_bps", "services_bps", "not_usable_bps", "reserved_bps", "left_bps"];
        let sum: u64 = parts.iter().map(|part| link[part].as_u64().expect("a rate")).sum();
        assert_eq!(Some(sum), link["rate_bps"].as_u64(), "{link}");
    }
    let explained = json(&run(&["explain", &policy, "grey", "--placed", &placed, "--json"]));
    assert_eq!((explained["links"].as_array().map(Vec::len), &explained["tree"]), (Some(7), &Value::from("spine0")));
    assert_eq!(explained["routes"].as_array().map(Vec::len), Some(3));
}

/// Under a umask of 000, which gives all users write permission for each file.
fn run_without_umask(arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new("sh");
    command.args(["-c", "umask 000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_weir")]).args(arguments);
    command.output().expect("runs")
}

/// The mode of each file below a directory, and of the directory.
fn modes(path: &Path) -> BTreeMap<String, u32> {
    let mode = std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    let mut modes = BTreeMap::from([(path.display().to_string(), mode)]);
    for entry in std::fs::read_dir(path).into_iter().flatten() {
        modes.extend(self::modes(&entry.expect("an entry").path()));
    }
    modes
}

#[test]
fn others_have_no_write_permission_for_files() {
    let directory = directory();
    let policy = file(directory.path(), "policy.yaml", POLICY);
    let at = |name: &str| directory.path().join(name);
    let placed = at("placed.json").display().to_string();
    let done = run_without_umask(&["place", &policy, "--placed", &placed]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(modes(&at("placed.json")).into_values().collect::<Vec<_>>(), [0o644], "whatever the umask is");
    let scenario = "scenario: 1\nname: modes\nseed: 1\nduration: 10ms\nnetwork: { topology: dumbbell, hosts: 1, \
                    host-link: { rate: 1Gb/s, delay: 1us }, fabric-link: { rate: 1Gb/s, delay: 1us } }\n\
                    traffic: [ { name: a, from: s0, to: r0, size: 10kB } ]\n";
    let (scenario, report) = (file(directory.path(), "scenario.yaml", scenario), at("out/report"));
    let done = run_without_umask(&["sim", &scenario, "--report", &report.display().to_string()]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let made = modes(&at("out"));
    let with = |permission: u32| made.iter().filter(|(_, mode)| *mode & permission != 0).collect::<Vec<_>>();
    assert_eq!(with(0o002), []);
    assert!(made.len() > 5 && with(0o020).len() == made.len(), "the group's permissions are the umask's: {made:?}");
}

/// With packets spread over equal paths no tenant needs a route, and each reserves on both uplinks.
#[test]
fn spread_tenants_reserve_on_all_equal_paths() {
    let directory = directory();
    let spread = changed("tenants:", "tenant-queues: { paths: spread }\ntenants:");
    let (trees, spread) =
        (file(directory.path(), "trees.yaml", POLICY), file(directory.path(), "spread.yaml", &spread));
    let placed = |policy: &str| json(&run(&["place", policy, "--json"]));
    let (trees, spread) = (placed(&trees), placed(&spread));
    assert_eq!(
        (trees["routes"].as_array().map(Vec::len), spread["routes"].as_array().map(Vec::len)),
        (Some(3), Some(0))
    );
    let links = |placed: &Value| {
        let tenant = placed["tenants"].as_array().expect("tenants").iter().find(|own| own["tenant"] == "grey");
        let links = tenant.expect("grey")["links"].as_array().expect("links").clone();
        links.into_iter().map(|link| link["link"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    let uplinks = |links: Vec<String>| links.into_iter().filter(|link| link.contains("spine")).collect::<Vec<_>>();
    assert_eq!(uplinks(links(&trees)).len(), 3 * 2);
    assert_eq!(uplinks(links(&spread)).len(), 3 * 2 * 2);
}

#[test]
fn strategies_are_compared() {
    let compared = json(&run(&["place", "scenarios/tenants.policy.yaml", "--compare", "--json"]));
    let of = |name: &str| {
        let strategies = compared["strategies"].as_array().expect("a list");
        strategies.iter().find(|own| own["strategy"] == name).expect("a strategy").clone()
    };
    // `blue` has two bandwidths, which Oktopus does not have: 15 of 22 virtual machines.
    let oktopus = of("oktopus");
    assert_eq!((&oktopus["accepted"], &oktopus["accepted_vms"], &oktopus["vms"]), (&2.into(), &15.into(), &22.into()));
    // 300, 2,700 and 800 Mb/s reserved by three tenants; blue shares no link, red two with green.
    let load = of("load");
    assert_eq!((&load["accepted"], &load["mean_cb_bps"]), (&3.into(), &1_266_666_666u64.into()));
    assert!((load["mean_cq"].as_f64().expect("a number") - 4.0 / 3.0).abs() < 1e-9);
    let table = text(&run(&["place", "scenarios/tenants.policy.yaml", "--compare"]).stdout);
    assert!(table.contains("mean c_b") && table.contains("1.33"), "{table}");
}

#[test]
fn a_report_has_the_load_the_ports_and_the_racks() {
    let directory = directory();
    let policy = file(directory.path(), "policy.yaml", POLICY);
    let report = directory.path().join("report");
    let output = run(&["place", &policy, "--report", &report.display().to_string()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let files = files(&report);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let racks = ["rack-leaf0.svg", "rack-leaf1.svg", "rack-leaf2.svg"];
    assert_eq!(names, [&["load.svg", "placement.json"], &racks[..], &["report.html", "tenants.svg"]].concat());
    let page = text(&files["report.html"]);
    for part in
        ["4 of 4 tenants", "Reserved part of links", "4 queues for single tenants", "Rack leaf1", "leaf2-&gt;spine0"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("http://") || page.matches("http://").count() == page.matches("http://www.w3.org/").count());
    let placement: Value = serde_json::from_slice(&files["placement.json"]).expect("JSON");
    assert_eq!(placement["tenants"].as_array().map(Vec::len), Some(4));
}

/// Tenants that cannot fit, and networks that have nothing for them, with the resource and the position.
#[test]
fn refused_tenants() {
    let directory = directory();
    let values: Vec<String> = (1..64).map(|value| value.to_string()).collect();
    let reserved =
        |values: &str| changed("tenants:", &format!("tenant-queues: {{ reserved-dscp: [{values}] }}\ntenants:"));
    let cases = [
        ("bandwidth.yaml", changed("vms: 6, bandwidth: 100Mb/s", "vms: 6, bandwidth: 900Mb/s")),
        ("slots.yaml", changed("vms: 13", "vms: 40")),
        ("no-slots.yaml", changed("slots: 4", "slots: 0")),
        ("overlap.yaml", changed("vni: 5003", "vni: 5002")),
        ("strict.yaml", changed("{ strict: 3, weighted: 5 }", "strict")),
        (
            "one-queue.yaml",
            changed("{ scheduler: { strict: 3, weighted: 5 } }", "{ queues: 1, scheduler: weighted }")
                .replace("levels: { factors: [1], load: 20%, packet: 1538B }\n", "")
                .replace(", level: 1", ""),
        ),
        ("one-weighted.yaml", changed("{ strict: 3, weighted: 5 }", "{ strict: 3, weighted: 1 }")),
        ("overlap-service.yaml", changed("[ { vni: 5003 } ]", "[ { port: 80 } ]")),
        ("dscp.yaml", reserved(&values.join(", "))),
        ("dscp-64.yaml", reserved("8, 64")),
    ];
    let mut all = String::new();
    for (name, written) in cases {
        let policy = file(directory.path(), name, &written);
        all.push_str(&of(directory.path(), &["check", &policy]));
        all.push('\n');
    }
    insta::assert_snapshot!(all);
}

/// Files that do not match the policy are refused with the position, and stay as they were.
#[test]
fn placements_that_do_not_match() {
    let directory = directory();
    let policy = file(directory.path(), "policy.yaml", POLICY);
    let placed = directory.path().join("placed.json").display().to_string();
    assert!(run(&["place", &policy, "--placed", &placed]).status.success());
    let good = std::fs::read_to_string(&placed).expect("the file");
    let cases = [
        ("unknown machine", good.replacen("\"machine\":\"h2\"", "\"machine\":\"h77\"", 1), POLICY.to_owned()),
        ("twice", good.replacen("\"vm\":\"red-1\"", "\"vm\":\"red-0\"", 1), POLICY.to_owned()),
        ("unknown tree", good.replacen("\"tree\": \"leaf1\"", "\"tree\": \"leaf2\"", 1), POLICY.to_owned()),
        ("other machines", good.clone(), changed("vms: 6", "vms: 5")),
        (
            "too much",
            good.clone(),
            changed("bandwidth: 100Mb/s, match: [ { vni: 5002", "bandwidth: 300Mb/s, match: [ { vni: 5002"),
        ),
        ("no slots", good.clone(), changed("slots: 4", "slots: 4\n  machines: { h3: { slots: 2 } }")),
        ("no placement", "{ \"tenants\": 1 }".to_owned(), POLICY.to_owned()),
        ("truncated", good[..good.len() / 2].to_owned(), POLICY.to_owned()),
    ];
    let mut all = String::new();
    for (name, written, own) in cases {
        assert!(written != good || own != POLICY, "{name}");
        let policy = file(directory.path(), "policy.yaml", &own);
        let placed = file(directory.path(), "placed.json", &written);
        for command in ["place", "check"] {
            let output = of(directory.path(), &[command, &policy, "--placed", &placed]);
            let (_, errors) = output.split_once("-- stderr\n").expect("errors");
            assert!(output.contains("exit 2\n"), "{name}: {output}");
            if command == "place" {
                all.push_str(&format!("{name}:\n{errors}\n"));
            }
        }
        assert_eq!(std::fs::read_to_string(&placed).expect("the file"), written, "{name}");
    }
    insta::assert_snapshot!(all);
}

/// A fabric broker that runs as another user reads the file; and of two runs at once one is refused, since it would
/// undo the other.
#[test]
fn a_placement_is_readable_and_continued_by_one_run() {
    let directory = directory();
    let policy = file(directory.path(), "policy.yaml", POLICY);
    let placed = directory.path().join("placed.json");
    let arguments = ["place", &policy, "--placed", &placed.display().to_string()].map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // What the file mode creation mask of this process leaves.
    let plain = std::fs::metadata(&policy).expect("there").permissions().mode();
    for _ in 0..2 {
        assert!(run(&arguments).status.success());
        assert_eq!(std::fs::metadata(&placed).expect("written").permissions().mode(), plain);
    }
    let written = std::fs::read(&placed).expect("the file");
    let lock = std::fs::File::open(directory.path().join("placed.json.lock")).expect("the lock's file");
    lock.try_lock().expect("free");
    std::fs::write(&policy, changed("vms: 6", "vms: 8")).expect("written");
    let output = run(&arguments);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
    assert!(text(&output.stderr).contains("another `weir place` continues the placement"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read(&placed).expect("the file"), written);
    drop(lock);
    assert_ne!(run(&arguments).status.code(), Some(2));
    assert_ne!(std::fs::read(&placed).expect("the file"), written);
}

/// A continued placement has new reservations and DSCP values, and remarks on those of the file that are others.
#[test]
fn edited_reservations_and_values_are_remarked_on_and_written_anew() {
    let directory = directory();
    let policy = file(directory.path(), "policy.yaml", POLICY);
    let placed = directory.path().join("placed.json").display().to_string();
    assert!(run(&["place", &policy, "--placed", &placed]).status.success());
    let good = std::fs::read_to_string(&placed).expect("the file");
    let value = good.lines().find(|line| line.contains("\"dscp\":")).expect("a value");
    let edited = good.replacen(value, "      \"dscp\": 48,", 1).replacen("\"reserved_bps\":", "\"reserved_bps\":7", 1);
    std::fs::write(&placed, &edited).expect("written");
    for command in ["check", "place"] {
        let shown = of(directory.path(), &[command, &policy, "--placed", &placed]);
        assert!(shown.contains("cannot have the DSCP value 48") && shown.contains("bit/s of "), "{shown}");
        assert!(shown.contains("DIR/placed.json:17:44"), "{shown}");
    }
    assert_eq!(std::fs::read_to_string(&placed).expect("the file"), good);
}

/// Ctrl-C keeps the tenants that have a place, and the same command places the rest.
#[test]
fn an_interrupted_placement_continues() {
    let directory = directory();
    let mut policy = "weir: 1\nnetwork: { topology: fat-tree, k: 16, slots: 100, host-link: { rate: 10Gb/s }, \
                      fabric-link: { rate: 40Gb/s } }\ntenants:\n"
        .to_owned();
    for tenant in 0..1500 {
        policy.push_str(&format!("  t{tenant}: {{ vms: 60, bandwidth: 10Mb/s, match: [ {{ vni: {tenant} }} ] }}\n"));
    }
    let policy = file(directory.path(), "policy.yaml", &policy);
    let placed = directory.path().join("placed.json");
    let arguments = ["place", &policy, "--placed", &placed.display().to_string()].map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (child, errors, first) = started(&arguments);
    assert!(first.contains("no weighted queues"), "{first}");
    signal(&child, libc::SIGINT);
    let (code, _, rest) = ended(child, errors);
    let count = || {
        let written: Value = serde_json::from_slice(&std::fs::read(&placed).expect("the file")).expect("JSON");
        written["tenants"].as_array().expect("a list").len()
    };
    let before = count();
    assert!(code == Some(130) && before < 1500 && rest.contains("the same command continues"), "{code:?} {rest}");
    let output = run(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(count(), 1500);
    assert!(text(&output.stdout).contains(&format!("1500 of 1500 placed, {before} before")));
}

/// By virtual machine, its machine in a placement's file.
fn machines(file: &Path) -> BTreeMap<String, String> {
    let placement: Value = serde_json::from_slice(&std::fs::read(file).expect("the file")).expect("JSON");
    let tenants = placement["tenants"].as_array().expect("tenants").iter();
    let vms = tenants.flat_map(|tenant| tenant["vms"].as_array().expect("a list"));
    let text = |value: &Value| value.as_str().expect("a name").to_owned();
    vms.map(|vm| (text(&vm["vm"]), text(&vm["machine"]))).collect()
}

/// Tenants arrive, depart and grow beside virtual machines that an operator has put elsewhere: none of these moves, or
/// has another's name.
#[test]
fn placed_machines_keep_their_places_and_names() {
    let directory = directory();
    let policy = file(directory.path(), "policy.yaml", POLICY);
    let placed = directory.path().join("placed.json");
    let arguments = ["place", &policy, "--placed", &placed.display().to_string()].map(str::to_owned);
    let place = || run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(place().status.success());
    // `red-0` and `red-5` change places, and `red` has an own DSCP value.
    let written = std::fs::read_to_string(&placed).expect("the file");
    let own = written.replacen("\"vm\":\"red-0\",\"machine\":\"h6\"", "\"vm\":\"red-0\",\"machine\":\"h7\"", 1);
    let own = own.replacen("\"vm\":\"red-5\",\"machine\":\"h7\"", "\"vm\":\"red-5\",\"machine\":\"h6\"", 1);
    let (others, red) = own.rsplit_once("\"dscp\": 1").expect("the value of `red`, the last tenant");
    let own = format!("{others}\"dscp\": 33{red}");
    assert!(own != written && own.contains("\"dscp\": 33"), "{written}");
    std::fs::write(&placed, &own).expect("written");
    let before = machines(&placed);
    assert_eq!((before["red-0"].as_str(), before["red-5"].as_str()), ("h7", "h6"));
    // `blue` departs, `azure` arrives, `red` and `grey` grow.
    let blue = POLICY.lines().find(|line| line.contains("blue:")).expect("blue");
    let changed = POLICY.replacen(blue, "  azure: { vms: 2, bandwidth: 300Mb/s, match: [ { vni: 5009 } ] }", 1);
    let changed = changed.replacen("red: { vms: 6,", "red: { vms: 8,", 1).replacen("vms: 13", "vms: 15", 1);
    file(directory.path(), "policy.yaml", &changed);
    let output = place();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.matches("2 more VMs").count() == 2 && shown.contains("4 of 4 placed, 3 before"), "{shown}");
    let after = machines(&placed);
    assert_eq!(after.keys().filter(|vm| vm.starts_with("red-")).count(), 8);
    for (vm, machine) in before.iter().filter(|(vm, _)| !vm.starts_with("blue-")) {
        assert_eq!(after.get(vm), Some(machine), "{vm}");
    }
    let first = std::fs::read_to_string(&placed).expect("the file");
    assert!(first.contains("\"dscp\": 33"), "{first}");
    // What has a place for all is as it was, byte for byte.
    assert!(place().status.success());
    assert_eq!(std::fs::read_to_string(&placed).expect("the file"), first);
    // A tenant that grows beyond the network keeps what it has.
    file(directory.path(), "policy.yaml", &changed.replacen("vms: 15", "vms: 25", 1));
    let output = place();
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("no place for all: grey: 15 virtual machines stay where they are, but"), "{shown}");
    assert!(shown.contains("3 of 4 placed"), "{shown}");
    assert_eq!(machines(&placed), after);
}

/// The place of a file is explained as it is, also where a machine would have room for all of the tenant now.
#[test]
fn a_place_is_explained_as_it_is() {
    let directory = directory();
    let policy = |tenants: &str| {
        format!(
            "weir: 1\nnetwork: {{ nic: 1Gb/s, slots: 4, switches: {{ queues: 8, scheduler: weighted }}, racks: {{ r: \
             {{ uplink: 1Gb/s, machines: [m1, m2] }} }} }}\ntenants:\n{tenants}"
        )
    };
    let (blue, red) = (
        "  blue: { vms: 2, bandwidth: 300Mb/s, match: [ { vni: 1 } ] }\n  green: { vms: 2, bandwidth: 1Mb/s, match: [ \
         { vni: 3 } ] }\n",
        "  red: { vms: 4, bandwidth: 100Mb/s, match: [ { vni: 2 } ] }\n",
    );
    let path = file(directory.path(), "policy.yaml", &policy(&[blue, red].concat()));
    let at = |machine: &str, vms: std::ops::Range<u32>| {
        vms.map(|vm| format!("{{ \"vm\": \"red-{vm}\", \"machine\": \"{machine}\" }}")).collect::<Vec<_>>().join(", ")
    };
    let placement = format!(
        "{{ \"placement\": 1, \"tenants\": [ {{ \"tenant\": \"red\", \"tree\": \"r\", \"vms\": [ {}, {} ] }} ] }}",
        at("m1", 0..2),
        at("m2", 2..4)
    );
    let placed = file(directory.path(), "placed.json", &placement);
    // Others have gone: m1 has room for all of `red`, which has two machines as before.
    let alone = file(directory.path(), "alone.yaml", &policy(red));
    let output = of(directory.path(), &["explain", &alone, "red", "--placed", &placed]);
    for part in [
        "1. Place: below r, on m1 (2) and m2 (2)",
        "a search from now would choose m1",
        "200 Mb/s and 200 Mb/s",
        "m1->r",
        "m2->r",
    ] {
        assert!(output.contains(part), "{part}: {output}");
    }
    assert!(!output.contains("nothing crosses a link"), "{output}");
    let explained = json(&run(&["explain", &alone, "red", "--placed", &placed, "--json"]));
    assert_eq!((&explained["tree"], &explained["search_from_now"]["tree"]), (&"r".into(), &"m1".into()));
    // Beside the others a search would find the place that it has, on one machine.
    let output = of(directory.path(), &["explain", &path, "red"]);
    assert!(
        output.contains("1. Place: m2 (4), on one machine") && output.contains("nothing crosses a link"),
        "{output}"
    );
}

/// A tenant that one search does not place is not refused: another order or another search may place it.
#[test]
fn tenants_without_a_place_by_one_search_are_not_refused() {
    let directory = directory();
    // Five of six below one uplink need 100 Mb/s of it, three of six 300: a fill machine by machine never gets there.
    let lonely = "weir: 1
network:
  topology: leaf-spine
  racks: 2
  hosts: 2
  spines: 1
  host-link: { rate: 1Gb/s }
  fabric-link: { rate: 100Mb/s }
  slots: 3
  machines: { h1: { slots: 2 }, h3: { slots: 2 } }
  switches: { queues: 8, scheduler: weighted }
tenants:
  red: { vms: 6, bandwidth: 100Mb/s, match: [ { vni: 1 } ] }
";
    // 50 Mb/s of a link: `a` has to be on one machine, and the first with room for `b` is the only one for `a`.
    let ordered = "weir: 1
network:
  nic: 50Mb/s
  slots: 3
  machines: { m1: { slots: 4 } }
  switches: { queues: 8, scheduler: weighted }
  racks: { r: { uplink: 1Gb/s, machines: [m1, m2] } }
tenants:
  a: { vms: 4, bandwidth: 100Mb/s, match: [ { vni: 1 } ] }
  b: { vms: 3, bandwidth: 200Mb/s, match: [ { vni: 2 } ] }
";
    let crowded = ordered.replace("m1: { slots: 4 }", "m1: { slots: 4 }, m2: { slots: 5 }").replace("vms: 4", "vms: 5");
    let crowded = crowded.replace("uplink: 1Gb/s, machines: [m1, m2]", "uplink: 1Gb/s, machines: [m1, m2, m3]");
    let crowded = crowded.replace("  a:", "  c: { vms: 3, bandwidth: 200Mb/s, match: [ { vni: 3 } ] }\n  a:");
    let crowded = crowded.replace("m2: { slots: 5 }", "m2: { slots: 5 }, m3: { slots: 2 }");
    let mut all = String::new();
    for (name, policy, options) in [
        ("lonely.yaml", lonely, &["--strategy", "oktopus"][..]),
        ("ordered.yaml", ordered, &["--order", "names"]),
        ("crowded.yaml", &crowded, &[]),
    ] {
        let policy = file(directory.path(), name, policy);
        let shown = of(directory.path(), &["check", &policy]);
        assert!(shown.contains("exit 0\n"), "{shown}");
        let notes = shown.split_once("note:").expect("a note").1;
        all.push_str(&format!("{name}:{notes}\n"));
        // The command of the note places what the default does not.
        assert_eq!(run(&["place", &policy]).status.code(), Some(1), "{name}");
        if !options.is_empty() {
            let arguments = [&["place", policy.as_str()], options].concat();
            assert!(run(&arguments).status.success(), "{arguments:?}");
        }
    }
    insta::assert_snapshot!(all);
}
