//! `weir sim` from outside: runs, their files, and what is refused.

mod program;

use program::{
    directory, ended, file, files, json, run, shown, signal, started, text, weir, with_file_limit, with_memory_limit,
};
use serde_json::Value;
use std::path::Path;

/// A scenario of two racks of one machine, short enough for a test.
fn governed(directory: &Path, duration: &str) -> String {
    file(
        directory,
        "p.yaml",
        "weir: 1\nnetwork:\n  nic: 10Mb/s\n  racks:\n    left: { uplink: 10Mb/s, machines: [l] }\n    \
         right: { uplink: 10Mb/s, machines: [r] }\nservices:\n  web: { match: [ { protocol: tcp, port: 80 } ] }\n  \
         bulk: { match: [ { protocol: tcp, port: 9000 } ], rack: { max: 4Mb/s } }\n",
    );
    file(
        directory,
        "s.yaml",
        &format!(
            "scenario: 1\nname: small\npolicy: p.yaml\nduration: {duration}\ntraffic:\n  \
             - {{ service: bulk, from: left, to: right }}\n  - {{ service: web, from: left, to: right, start: 2s }}\n\
             measure: {{ rack: left, direction: tx, every: 500ms }}\n"
        ),
    )
}

/// Messages under a policy have completion times, and no bandwidths of phases.
#[test]
fn messages_under_a_policy() {
    let output = run(&["sim", "scenarios/parley-fig15.scenario.yaml", "--set", "duration=100ms"]);
    let shown = text(&output.stdout);
    assert!(shown.starts_with("Flows\n") && shown.contains("\nCompletion times\n"), "{shown}{}", text(&output.stderr));
    assert!(shown.lines().last().is_some_and(|line| line.contains("packets sent")), "{shown}");
}

/// Packets with credits that were dropped have a line: on switches with one queue other traffic takes their room.
#[test]
fn dropped_packets_with_credits() {
    let directory = directory();
    let policy = "weir: 1
network:
  nic: 1Gb/s
  racks: { r: { uplink: 1Gb/s, machines: [\"m[1-5]\"] } }
  switches: { forwarders: true, buffer: 300kB, queues: 8, scheduler: { strict: 1, weighted: 7 } }
services:
  bulk: { match: [ { protocol: tcp, port: 1 } ], credits: {} }
  web: { match: [ { protocol: tcp, port: 2 } ] }
credits: { share: 60% }
";
    let scenario = "scenario: 1
name: dropped
policy: p.policy.yaml
duration: 200ms
enforcement: shaper
traffic:
  - { service: bulk, from: [m1, m2], to: m5 }
  - { service: web, from: [m2, m3, m4], to: m5, flows: 2 }
measure: { rack: r, direction: rx, every: 100ms }
";
    let lines = |policy: &str| {
        file(directory.path(), "p.policy.yaml", policy);
        let scenario = file(directory.path(), "dropped.scenario.yaml", scenario);
        let output = run(&["sim", &scenario]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let dropped = json(&run(&["sim", &scenario, "--json"]))["counters"]["credits_dropped_packets"].as_u64();
        let line = format!("{} packets with credits dropped, 0 of them after changes", dropped.unwrap_or_default());
        (dropped, text(&output.stdout).contains(&line), text(&output.stdout).contains("packets with credits"))
    };
    assert_eq!(lines(policy), (Some(0), false, false));
    let (dropped, is_counted, _) =
        lines(&policy.replace("queues: 8, scheduler: { strict: 1, weighted: 7 }", "queues: 1, scheduler: plain"));
    assert!(dropped > Some(0) && is_counted, "{dropped:?}");
}

/// Every command that reads a policy for shapers remarks on guarantees beyond the capacity that shapers admit.
#[test]
fn guarantees_that_leave_shapers_nothing() {
    let directory = directory();
    let policy = "weir: 1
network: { nic: 10Gb/s, racks: { a: { uplink: 40Gb/s, machines: [m1] }, b: { uplink: 40Gb/s, machines: [m2] } } }
services:
  web: { match: [ { port: 80 } ], machine: { min: 9.6Gb/s }, latency: { message: 1MB, p99: 1s } }
";
    let policy = file(directory.path(), "p.policy.yaml", policy);
    let scenario = "scenario: 1
name: full
policy: p.policy.yaml
duration: 1ms
traffic: [ { service: web, from: a, to: b } ]
measure: { rack: b, direction: rx, every: 1ms }
";
    let scenario = file(directory.path(), "full.scenario.yaml", scenario);
    let remarks = |arguments: &[&str]| text(&run(arguments).stderr).matches("of the link) that shapers let in").count();
    assert_eq!(remarks(&["plan", &policy]), 1);
    assert_eq!(remarks(&["allocate", &policy, "--demands", "/dev/null"]), 0, "the rack's sharing has the whole link");
    assert_eq!(remarks(&["sim", &scenario]), 1);
    assert_eq!(remarks(&["sim", &scenario, "--check", "--set", "enforcement=none"]), 0);
    let checked = json(&run(&["check", &policy, "--json"]));
    assert_eq!(checked["diagnostics"][0]["line"], 4, "{checked}");
    assert_eq!(checked["diagnostics"][0]["severity"], "note");
}

#[test]
fn a_run_under_a_policy_and_its_report() {
    let directory = directory();
    let scenario = governed(directory.path(), "4s");
    let report = directory.path().join("out/report");
    let report_text = report.display().to_string();
    let checked = run(&["sim", "--check", &scenario]);
    assert!(checked.status.success() && text(&checked.stdout).contains("valid, 2 racks, 2 machines, 2 flows"));

    let first = run(&["sim", &scenario, "--seed", "7", "--json", "--report", &report_text]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let again = run(&["sim", &scenario, "--seed", "7", "--json"]);
    assert_eq!(text(&first.stdout), text(&again.stdout), "the same seed, the same bytes");
    let json: Value = serde_json::from_slice(&first.stdout).expect("JSON");
    assert_eq!((&json["seed"], &json["complete"]), (&Value::from(7), &Value::from(true)));
    assert_eq!((&json["format"], &json["backend"]), (&5.into(), &"sim".into()));
    let policy = &json["policy"];
    assert_eq!(policy["samples"].as_array().map(Vec::len), Some(8));
    assert_eq!(policy["samples"][0]["at_ps"], 500_000_000_000u64);
    assert_eq!(policy["phases"][1]["sending"], serde_json::json!(["bulk", "web"]));
    assert!(policy["phases"][0]["mean_bps"]["bulk"].as_u64().is_some_and(|bps| bps > 1_000_000));
    assert_eq!(std::fs::read(report.join("result.json")).expect("written"), first.stdout);
    let page = std::fs::read_to_string(report.join("report.html")).expect("written");
    assert_eq!(json["statistics"]["all"]["all"]["flows"], 2, "the network's results are in the same file");
    assert_eq!(policy["transfers"][0]["flows"], 1);
    assert!(policy["transfers"][1]["delivered_bytes"].as_u64().is_some_and(|bytes| bytes > 1_000_000), "{json}");
    let drawn = files(&report);
    assert!(drawn.contains_key("flows.csv") && drawn.contains_key("meters.csv"), "{:?}", drawn.keys());
    assert!(run(&["report", &report_text]).status.success());
    assert_eq!(drawn, files(&report), "the pages follow from the files");
    assert!(page.contains("<svg") && page.contains("bulk and web") && page.contains("--seed 7"));
    let position = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    assert!(position("Mean bandwidth by phase") < position("Link utilisation"), "services come first");

    let refused = run(&["sim", &scenario, "--report", &report_text]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--force"), "{}", text(&refused.stderr));
    let forced = run(&["sim", &scenario, "--report", &report_text, "--force"]);
    assert!(forced.status.success() && text(&forced.stdout).contains("Mean bandwidth"));
}

/// A star of four hosts; `traffic` is one entry.
fn star(directory: &Path, duration: &str, traffic: &str) -> String {
    let text = format!(
        "scenario: 1\nname: star\nduration: {duration}\nnetwork:\n  topology: star\n  hosts: 4\n  \
         host-link: {{ rate: 1Gb/s, queue: {{ discipline: ecn, mark: 30kB }} }}\n\
         transport: {{ protocol: dctcp, min-rto: 10ms, ack-delay: 1ms }}\ntraffic:\n  - {traffic}\n\
         measure: {{ every: 1ms }}\n"
    );
    file(directory, "star.scenario.yaml", &text)
}

const SEARCH: &str = "{ kind: random, name: search, from: all, to: all, sizes: 1kB-200kB, load: 40%, flows: 60 }";

#[test]
fn a_run_and_its_files() {
    let directory = directory();
    let scenario = star(directory.path(), "10s", SEARCH);
    let report = directory.path().join("report");
    let report_text = report.display().to_string();
    let first = run(&["sim", &scenario, "--seed", "7", "--json", "--report", &report_text]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let errors = text(&first.stderr);
    assert!(errors.contains("star: 4 hosts, 1 switch, 1 flow group, at most 10 s, seed 7\n"), "{errors}");
    assert!(errors.contains(" simulated in ") && errors.contains("M packet-hops/s"), "{errors}");

    let value = json(&first);
    assert_eq!((&value["format"], &value["seed"], &value["complete"]), (&5.into(), &7.into(), &true.into()));
    let all = &value["statistics"]["all"]["all"];
    assert_eq!((&all["flows"], &all["unfinished"]), (&60.into(), &0.into()));
    for key in ["mean", "p50", "p95", "p99", "p999", "max"] {
        assert!(all["fct_ps"][key].is_u64() && all["slowdown"][key].is_number(), "{key} in {all}");
    }
    for key in ["scenario", "simulated_ps", "sample_interval_ps", "parameters", "groups", "counters", "files"] {
        assert!(!value[key].is_null(), "{key}");
    }
    let written = files(&report);
    let names: Vec<&str> = written.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "command.txt",
            "flows.csv",
            "flows.parquet",
            "group_samples.csv",
            "hosts.csv",
            "link_samples.csv",
            "links.csv",
            "report.html",
            "result.json"
        ]
    );
    assert_eq!(written["result.json"], first.stdout);
    assert_eq!(text(&written["flows.csv"]).lines().count(), 61);
    assert_eq!(text(&written["command.txt"]), format!("weir sim {scenario} --seed 7\n"));
    assert!(text(&written["report.html"]).contains("--seed 7"));

    // Again, with checkers: the same bytes.
    let again = directory.path().join("again").display().to_string();
    let checked = run(&["sim", &scenario, "--seed", "7", "--report", &again, "--checkers"]);
    assert!(text(&checked.stderr).contains("seed 7, checkers on\n"), "{}", text(&checked.stderr));
    assert_eq!(files(Path::new(&again)), written);

    // The page comes from the files alone.
    std::fs::remove_file(report.join("report.html")).expect("removed");
    assert!(run(&["report", &report_text]).status.success());
    assert_eq!(files(&report), written);
}

/// Two short flows finish, and two of 100 MB do not: the mean over all four is as little known as their 99th
/// percentile. The bin of the shortest flow has its mean.
#[test]
fn a_mean_over_unfinished_flows_is_not_known() {
    let directory = directory();
    let sizes = [1_448, 14_480, 100_000_000, 100_000_000];
    let flows: Vec<String> = (0..).zip(sizes).map(|(at, bytes)| format!("0.00{at},h{at},h0,{bytes}\n")).collect();
    let flows = flows.concat().replace("h0,h0", "h3,h0");
    file(directory.path(), "flows.csv", &format!("start_s,src,dst,bytes\n{flows}"));
    let scenario = star(directory.path(), "10ms", "{ kind: list, file: flows.csv }");
    let value = json(&run(&["sim", &scenario, "--json"]));
    let group = &value["statistics"]["all"];
    assert_eq!((&group["all"]["flows"], &group["all"]["unfinished"]), (&4.into(), &2.into()));
    for summary in ["fct_ps", "slowdown"] {
        let (all, short) = (&group["all"][summary], &group["bins"][0][summary]);
        assert!(all["mean"].is_null() && all["p99"].is_null() && all["p50"].is_number(), "{all}");
        assert!(all["finished_mean"].is_number() && short["mean"].is_number(), "{all} and {short}");
    }
    let printed = text(&run(&["sim", &scenario]).stdout);
    let row = printed.lines().filter(|line| line.contains("all") && line.contains("  4           2  "));
    let cells: Vec<Vec<&str>> = row.map(|line| line.split_whitespace().skip(4).collect()).collect();
    assert_eq!(cells.len(), 2, "times and slowdowns: {printed}");
    assert!(cells.iter().all(|cells| cells[0] == "–" && cells.last() == Some(&"–")), "{printed}");

    let out = directory.path().join("sweep").display().to_string();
    let swept = run(&["sim", &scenario, "--sweep", "seed=1,2", "--report", &out]);
    assert!(swept.status.success(), "{}", text(&swept.stderr));
    let row = text(&swept.stdout).lines().last().expect("a row").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(row.ends_with(" 2 4 – – – –"), "{row}");
    let points = text(&files(Path::new(&out))["points.csv"]);
    let mut lines = points.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().expect("a head");
    let all = lines.next().expect("a point");
    let at = |name: &str| all[head.iter().position(|column| *column == name).expect("a column")];
    assert_eq!((at("unfinished"), at("fct_mean_ps"), at("slowdown_mean")), ("2", "", ""), "{points}");
    assert!(at("fct_finished_mean_ps").parse::<u64>().is_ok() && !at("slowdown_finished_mean").is_empty(), "{points}");
}

/// Two coflows of a list, of two and of three flows; the last of these does not end. A fourth flow is in none.
#[test]
fn coflows_of_a_list_are_timed_as_a_whole() {
    let directory = directory();
    file(
        directory.path(),
        "flows.csv",
        "start_us,src,dst,bytes,coflow\n0,h0,h1,1448,5\n500,h1,h2,1448,5\n0,h2,h3,1448,7\n1,h3,h2,1448,7\n\
         2,h0,h3,100000000,7\n0,h1,h0,1448,\n",
    );
    let scenario = star(directory.path(), "10ms", "{ kind: list, name: jobs, file: flows.csv }");
    let report = directory.path().join("report");
    let output = run(&["sim", &scenario, "--json", "--report", &report.display().to_string()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let value = json(&output);
    let coflows = &value["statistics"]["groups"][0]["coflows"];
    assert_eq!((&coflows["coflows"], &coflows["unfinished"]), (&2.into(), &1.into()), "{coflows}");
    assert_eq!((&coflows["fewest_flows"], &coflows["most_flows"]), (&2.into(), &3.into()), "{coflows}");
    assert!(coflows["flows_per_coflow"].is_null() && coflows["cct_ps"]["max"].is_null(), "{coflows}");
    // A frame over two links of 1 Gb/s, 500 µs after the first flow began: 24.2 µs, and 2 µs of delay.
    let took = coflows["cct_ps"]["finished_mean"].as_u64().expect("a time");
    assert!((524_000_000..530_000_000).contains(&took), "{took} ps");
    let flows = text(&files(&report)["flows.csv"]);
    let coflows: Vec<Vec<&str>> = flows.lines().map(|line| line.split(',').skip(2).take(2).collect()).collect();
    let numbers = [["coflow", "coflow_flows"], ["5", "2"], ["7", "3"], ["", ""], ["7", "3"], ["7", "3"], ["5", "2"]];
    let mut seen = coflows.clone();
    let mut expected = numbers.map(Vec::from).to_vec();
    seen.sort_unstable();
    expected.sort_unstable();
    assert_eq!(seen, expected, "{flows}");
    let printed = text(&run(&["sim", &scenario]).stdout);
    assert!(printed.lines().any(|line| line.contains("jobs") && line.contains("2–3")), "{printed}");
    // The same from the written files.
    assert!(run(&["report", &report.display().to_string()]).status.success());
}

/// A run of 200 days with a flow on the last of them.
#[test]
fn a_run_may_last_for_months() {
    let directory = directory();
    let scenario = star(directory.path(), "200d", "{ from: h0, to: h1, size: 1kB, start: 199d }");
    let output = run(&["sim", &scenario, "--set", "measure.every=1d", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let value = json(&output);
    assert_eq!(value["statistics"]["all"]["all"]["unfinished"], 0, "{value}");
    // 1 kB and its headers over two links of 1 Gb/s: some 17 µs, and 2 µs of delay.
    let day = 86_400 * 1_000_000_000_000_u64;
    let after = value["simulated_ps"].as_u64().expect("a time") - 199 * day;
    assert!((17_000_000..25_000_000).contains(&after), "{after} ps");
    let refused = run(&["sim", &scenario, "--check", "--set", "duration=201d"]);
    assert!(text(&refused.stderr).contains("is longer than 200 d"), "{}", text(&refused.stderr));
}

/// A directory of an older version has its command beside it.
#[test]
fn a_report_of_an_older_format_is_refused() {
    let directory = directory();
    let report = directory.path().join("old");
    std::fs::create_dir(&report).expect("a directory");
    file(&report, "command.txt", "weir sim s.yaml --seed 7\n");
    for format in [1, 3, 4] {
        file(&report, "result.json", &format!("{{\"format\": {format}, \"scenario\": \"small\"}}\n"));
        let refused = run(&["report", &report.display().to_string()]);
        let errors = text(&refused.stderr).replace(&report.display().to_string(), "OLD");
        assert_eq!(refused.status.code(), Some(2), "{errors}");
        let expected = format!("`OLD/result.json` has format {format}, and this program reads format 5");
        assert!(errors.contains(&expected), "{errors}");
        assert!(errors.contains("hint: run the command in `OLD/command.txt` again"), "{errors}");
    }
}

/// Two links between the switches a and b, one of which is slow from 1 ms on.
#[test]
fn parallel_links_have_results_of_their_own() {
    let directory = directory();
    let scenario = "scenario: 1\nname: parallel\nduration: 1s\nnetwork:\n  topology: links\n  \
                    hosts: [\"h[1-4]\"]\n  switches: [a, b]\n  links:\n    \
                    - { between: [h1, a], rate: 1Gb/s }\n    - { between: [h2, a], rate: 1Gb/s }\n    \
                    - { between: [h3, b], rate: 1Gb/s }\n    - { between: [h4, b], rate: 1Gb/s }\n    \
                    - { between: [a, b], rate: 1Gb/s }\n    - { between: [a, b], rate: 1Gb/s }\n  \
                    groups: { left: \"h[1-2]\", right: \"h[3-4]\" }\n\
                    traffic: [ { from: left, to: right, flows: 8, size: 20kB } ]\n\
                    events: [ { at: 1ms, do: rate, link: \"a->b#2\", rate: 10Mb/s } ]\n";
    let scenario = file(directory.path(), "parallel.scenario.yaml", scenario);
    let report = directory.path().join("one").display().to_string();
    let output = run(&["sim", &scenario, "--report", &report]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let written = files(Path::new(&report));
    assert!(written.contains_key("result.json") && written.contains_key("report.html"), "{:?}", written.keys());
    let links = text(&written["links.csv"]);
    let row = |name: &str| links.lines().find(|line| line.starts_with(&format!("{name},"))).map(str::to_owned);
    let rows = ["a->b#1", "a->b#2", "b->a#1", "b->a#2"].map(|name| row(name).unwrap_or_else(|| panic!("{links}")));
    assert_ne!(rows[0].split_once(',').map(|row| row.1), rows[1].split_once(',').map(|row| row.1), "{links}");

    let report = directory.path().join("sweep").display().to_string();
    let output = run(&["sim", &scenario, "--sweep", "seed=1,2", "--report", &report, "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let states: Vec<Value> = json(&output)["points"].as_array().expect("points").clone();
    assert!(states.len() == 2 && states.iter().all(|point| point["state"] == "complete"), "{states:?}");
    assert!(text(&files(Path::new(&report))["points/2_seed-2/links.csv"]).contains("a->b#2"));
}

#[test]
fn the_tables_of_a_run() {
    let directory = directory();
    // Alone on their links, so that every number follows from rates and sizes, whatever transports do about queues.
    let two =
        "{ name: small, from: h0, to: h3, size: 1kB, flows: 1 }\n  - { name: large, from: h1, to: h2, size: 14kB }";
    let scenario = star(directory.path(), "10s", two);
    insta::assert_snapshot!("run", text(&run(&["sim", &scenario]).stdout));
}

#[test]
fn values_are_set_from_outside() {
    let directory = directory();
    let scenario = star(directory.path(), "10s", SEARCH);
    let arguments = ["sim", &scenario, "--json", "--set", "traffic[0].flows=9", "--set", "transport.protocol=newreno"];
    let value = json(&run(&arguments));
    assert_eq!(value["parameters"], serde_json::json!({"traffic[0].flows": "9", "transport.protocol": "newreno"}));
    assert_eq!((&value["statistics"]["all"]["all"]["flows"], &value["seed"]), (&9.into(), &1.into()));
    assert_eq!(value["groups"][0]["transport"], "newreno");
    // Both ways to give a seed are one.
    let seeds =
        [["--seed", "5"], ["--set", "seed=5"]].map(|seed| run(&[&["sim", &scenario, "--json"], &seed[..]].concat()));
    assert_eq!(json(&seeds[0])["seed"], 5);
    assert_eq!(seeds[0].stdout, seeds[1].stdout);
}

/// The same as from a file, also in a sweep; what the text names is found from the working directory on.
#[test]
fn a_scenario_from_standard_input() {
    let directory = directory();
    file(directory.path(), "sizes.csv", "size_bytes,cdf\n1000,0.5\n3000,1\n");
    let scenario = star(directory.path(), "10s", &SEARCH.replace("1kB-200kB", "sizes.csv"));
    let sweep = ["--sweep", "seed=1..2", "--report", "points"];
    for options in [&[][..], &["--check"], &sweep] {
        let of = |name: &str| {
            let mut command = weir(&[&["sim", name, "--json"], options].concat());
            command.current_dir(directory.path()).stdin(std::fs::File::open(&scenario).expect("a file"));
            let output = command.output().expect("the program starts");
            assert!(output.status.success(), "{}", text(&output.stderr));
            let _ = std::fs::remove_dir_all(directory.path().join("points"));
            text(&output.stdout)
        };
        assert_eq!(of("-").replace("weir sim -", "weir sim star.scenario.yaml"), of("star.scenario.yaml"));
    }
}

#[test]
fn an_interrupted_run_keeps_completed_points() {
    let directory = directory();
    let governed = governed(directory.path(), "1400min");
    let (child, errors, line) = started(&["sim", &governed, "--json"]);
    assert!(line.contains("small: 2 racks"), "{line}");
    signal(&child, libc::SIGINT);
    let (code, output, rest) = ended(child, errors);
    assert_eq!(code, Some(130), "{rest}");
    assert!(rest.contains("interrupted: the results cover"), "{rest}");
    let value: Value = serde_json::from_slice(&output).expect("JSON");
    assert_eq!(value["complete"], false);
    assert!(value["policy"]["samples"].as_array().is_some_and(|samples| !samples.is_empty()));

    let star = star(directory.path(), "900s", "{ from: \"h[0-2]\", to: h3 }");
    let report = directory.path().join("report");
    let (child, errors, line) = started(&["sim", &star, "--report", &report.display().to_string()]);
    assert!(line.contains("star: 4 hosts"), "{line}");
    signal(&child, libc::SIGTERM);
    let (code, output, rest) = ended(child, errors);
    assert_eq!(code, Some(130), "{rest}");
    assert!(rest.contains("interrupted: the results cover") && rest.contains(" of 900 s"), "{rest}");
    assert!(text(&output).contains("unfinished"), "what is done is printed, too");
    let value: Value = serde_json::from_slice(&files(&report)["result.json"]).expect("JSON");
    assert_eq!(value["complete"], false);
    assert!(text(&files(&report)["report.html"]).contains("Interrupted"));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let directory = directory();
    // The first sample is after more simulated time than the test lasts.
    let scenario = star(directory.path(), "50000s", "{ from: \"h[0-2]\", to: h3 }");
    let long = std::fs::read_to_string(&scenario).expect("text").replace("every: 1ms", "every: 40000s");
    std::fs::write(&scenario, long).expect("written");
    let report = directory.path().join("report");
    let (child, errors, _) = started(&["sim", &scenario, "--report", &report.display().to_string()]);
    signal(&child, libc::SIGINT);
    signal(&child, libc::SIGTERM);
    let (code, _, rest) = ended(child, errors);
    assert_eq!(code, Some(130), "{rest}");
    assert!(files(&report).is_empty());
}

#[test]
fn a_full_disk_leaves_whole_files() {
    let directory = directory();
    let scenario = star(directory.path(), "10s", &SEARCH.replace("flows: 60", "flows: 2000"));
    let report = directory.path().join("report");
    let command = weir(&["sim", &scenario, "--report", &report.display().to_string()]);
    // Hosts and a command fit, two thousand flows do not.
    let output = with_file_limit(command, 20_000).output().expect("starts");
    assert_eq!(output.status.code(), Some(1));
    let errors = text(&output.stderr);
    assert!(errors.contains("error: cannot write `") && errors.contains("flows.csv`: File too large"), "{errors}");
    assert!(errors.contains("hint: make room on the disk"), "{errors}");
    assert_eq!(files(&report).keys().collect::<Vec<_>>(), ["command.txt", "hosts.csv"]);
    // What was simulated is shown all the same.
    assert!(text(&output.stdout).starts_with("Flows\n"), "{}", text(&output.stdout));
}

#[test]
fn refusals() {
    let directory = directory();
    let scenario = star(directory.path(), "10s", SEARCH);
    let full = directory.path().join("full");
    std::fs::create_dir(&full).expect("a directory");
    file(&full, "notes.txt", "mine\n");
    let full = full.display().to_string();
    let new = directory.path().join("new").display().to_string();
    let cases: &[&[&str]] = &[
        &["sim", &scenario, "--report", &full],
        &["sim", &scenario, "--report", &scenario],
        &["sim", &scenario, "--set", "traffic[0].lod=60%", "--report", &new],
        &["sim", &scenario, "--set", "traffic[0].load=100%", "--report", &new],
        &["sim", &scenario, "--set", "traffic[0]", "--report", &new],
        &["sim", &scenario, "--seed", "1", "--set", "seed=2"],
        &["sim", &scenario, "--force"],
        &["sim", &scenario, "--jobs", "2"],
        &["sim", &scenario, "--sweep", "seed=1..3"],
        &["sim", &scenario, "--sweep", "seed=1..3", "--set", "traffic[0].lod=60%"],
        &["sim", &scenario, "--sweep", "sed=1..3"],
        &["sim", &scenario, "--sweep", "seed=1..3; traffic[0].load=20%,40%", "--report", &new],
        &["sim", &scenario, "--sweep", "seed=1,1; traffic[0].load=20%,20%", "--report", &new],
        &["sim", &scenario, "--sweep", "seed=1,2; traffic[0].load=20%,140%", "--report", &new],
        &["sim", &scenario, "--sweep", "seed=1,2; seed=3,4", "--report", &new],
        &["sim", &scenario, "--set", "traffic=[]"],
        &["sim", &scenario, "--sweep", "seed=3..1", "--report", &new],
        &["sim", &scenario, "--sweep", "seed=1,2,1", "--report", &new],
        &["sim", &scenario, "--sweep", "seed=1,2", "--sweep", "seed=3", "--report", &new],
        &["sim", &scenario, "--sweep", "seed=1..1000", "--sweep", "traffic[0].flows=1..1000", "--report", &new],
        &["sim", &scenario, "--sweep", "seed=1,x", "--report", &new],
        &["sim", &scenario, "--sweep", "traffic[0].load=20%,60%,120%", "--report", &new],
        &["sim", &scenario, "--sweep", "seed=1,2", "--report", &full],
        &["sim", &scenario, "--sweep", "seed=1,2", "--report", &scenario],
        &["lab", &scenario],
        &["report", &full],
        &["report", &new],
    ];
    let all: Vec<String> = cases
        .iter()
        .map(|arguments| {
            assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
            shown(arguments).replace(&directory.path().display().to_string(), "DIR")
        })
        .collect();
    insta::assert_snapshot!(all.join("\n"));
    assert!(!Path::new(&new).exists(), "nothing is made for what is refused");
    assert_eq!(files(Path::new(&full)).len(), 1);
}

#[test]
fn a_network_for_a_larger_machine_is_refused() {
    let meminfo = std::fs::read_to_string("/proc/meminfo").expect("Linux");
    let available = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")).expect("a line");
    let kibibytes: u64 = available.trim().trim_end_matches("kB").trim().parse().expect("a number");
    // A hundred thousand racks are ten billion routes of 4 bytes.
    if kibibytes > 39_000_000 {
        let mut errors = std::io::stderr();
        std::io::Write::write_all(&mut errors, b"skipped: a network for a larger machine needs a smaller machine\n")
            .expect("standard error takes a line");
        return;
    }
    let directory = directory();
    let scenario = "scenario: 1\nname: large\nduration: 1s\nnetwork:\n  topology: leaf-spine\n  racks: 100000\n  \
                    hosts: 1\n  spines: 1\n  host-link: { rate: 10Gb/s }\n  fabric-link: { rate: 10Gb/s }\ntraffic:\n  \
                    - { kind: random, from: all, to: all, sizes: 1kB, load: 1%, flows: 1 }\n";
    let scenario = file(directory.path(), "large.scenario.yaml", scenario);
    let output = run(&["sim", &scenario]);
    assert_eq!(output.status.code(), Some(2));
    let errors = text(&output.stderr);
    assert!(errors.contains("100000 hosts") && errors.contains("large.scenario.yaml:6:10"), "{errors}");
    assert!(errors.contains("GB that may be used"), "{errors}");
}

/// As in a batch system, where the machine has more than a program may take.
#[test]
fn a_network_beyond_the_program_s_own_limit_is_refused() {
    let directory = directory();
    let scenario = large(directory.path());
    let output = with_memory_limit(weir(&["sim", &scenario]), 900_000_000).output().expect("the program starts");
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("250000 hosts") && errors.contains("MB that may be used"), "{errors}");
}

/// A network of 250,000 hosts, which takes longer to build than a signal waits for, and one small flow.
fn large(directory: &Path) -> String {
    let text = "scenario: 1\nname: large\nduration: 1s\nnetwork: { topology: fat-tree, k: 100, \
                host-link: { rate: 10Gb/s } }\ntraffic: [ { from: h0, to: h1, size: 1kB } ]\n";
    file(directory, "large.scenario.yaml", text)
}

#[test]
fn a_signal_interrupts_the_construction_of_a_network() {
    let directory = directory();
    let scenario = large(directory.path());
    let (child, errors, line) = started(&["sim", &scenario, "--json"]);
    assert!(line.contains("large: 250000 hosts"), "{line}");
    signal(&child, libc::SIGINT);
    let (code, output, rest) = ended(child, errors);
    assert_eq!((code, output.len()), (Some(130), 0), "{rest}");
    assert!(rest.contains("interrupted: the network was still being built; nothing was simulated"), "{rest}");

    let report = directory.path().join("report").display().to_string();
    let sweep = ["sim", &scenario, "--sweep", "seed=1..3", "--jobs", "1", "--report", &report];
    let (child, errors, line) = started(&sweep);
    assert!(line.contains("large: 3 points"), "{line}");
    signal(&child, libc::SIGINT);
    let (code, _, rest) = ended(child, errors);
    assert_eq!(code, Some(130), "{rest}");
    assert!(rest.contains("0 of 3 points are complete and kept; the same command runs the rest"), "{rest}");
}

/// Scenarios of published experiments that take minutes, and what makes seconds of them.
const SHORTENED: [(&str, &[&str]); 3] = [
    ("parley-fig12", &["duration=600ms", "measure.every=10ms", "traffic[1].start=200ms", "events[0].at=400ms"]),
    ("parley-fig14-full", &["duration=100ms", "measure.every=10ms", "traffic[1].start=20ms", "traffic[0].stop=80ms"]),
    ("parley-table3", &["duration=1500ms"]),
];

#[test]
fn every_example_runs_to_its_end_under_every_checker() {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    let mut examples = 0;
    for entry in std::fs::read_dir(scenarios).expect("scenarios/") {
        let path = entry.expect("an entry").path().display().to_string();
        if !path.ends_with(".scenario.yaml") {
            continue;
        }
        let mut args = vec!["sim", &path, "--checkers", "--json"];
        let shortened = SHORTENED.iter().find(|(name, _)| path.ends_with(&format!("/{name}.scenario.yaml")));
        args.extend(shortened.iter().flat_map(|(_, values)| values.iter().flat_map(|value| ["--set", value])));
        let output = run(&args);
        let real = [("redis", "redis"), ("qjump-testbed", "ptp")];
        if let Some((_, kind)) = real.iter().find(|(name, _)| path.ends_with(&format!("/{name}.scenario.yaml"))) {
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{errors}");
            assert!(errors.contains(&format!("kind: {kind}")) && errors.contains("run it with `weir lab`"), "{errors}");
            continue;
        }
        assert!(output.status.success(), "{path}: {}", text(&output.stderr));
        let value = json(&output);
        assert_eq!(value["complete"], true, "{path}");
        assert!(value["counters"]["packets_delivered"].as_u64().is_some_and(|packets| packets > 0), "{path}");
        examples += 1;
    }
    assert!(examples >= 10, "only {examples} examples were found");
}
