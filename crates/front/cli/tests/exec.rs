//! `weir exec`, and agents that share a network among services by control group.

mod agent_pair;
mod common;
#[path = "../../../host/linux/tests/common/groups.rs"]
#[allow(dead_code, reason = "a part is used here")]
mod groups;
mod program;

use agent_pair::{Flow, Pair, end};
use common::{at_least, one_at_a_time, signal, wait_for};
use groups::Groups;
use program::{directory, file, run, text, weir};
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

fn skipped(test: &str) -> bool {
    common::skipped(test) || groups::skipped()
}

/// Services `web` and `db` by groups of the test, and `rest` by a port; `web` receives at most 20 Mb/s.
fn policy(groups: &Groups) -> String {
    format!(
        "weir: 1\nnetwork:\n  nic: 100Mb/s\n  racks: {{ r: {{ uplink: 100Mb/s, machines: [m1, m2] }} }}\n  machines: \
         {{ m1: {{ address: 10.78.0.1 }}, m2: {{ address: 10.78.0.2 }} }}\nservices:\n  web:\n    match: [ {{ \
         cgroup: \"{}\" }} ]\n    machine: {{ rx: {{ max: 20Mb/s }} }}\n  db: {{ match: [ {{ cgroup: \"{}\" }} ] }}\n  \
         rest: {{ match: [ {{ port: 5001 }} ] }}\n",
        groups.path("web-*"),
        groups.path("db"),
    )
}

/// The names of the groups in a group.
fn below(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

#[test]
fn service_without_a_group_is_refused_with_position_cause_and_hint() {
    let directory = directory();
    let policy = file(
        directory.path(),
        "policy.yaml",
        "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m] } } }\nservices:\n  web: { match: \
         [ { cgroup: \"/weir-tests/none/web-*\" } ] }\n  rest: { match: [ { port: 80 } ] }\n",
    );
    let refused = |arguments: &[&str], expected: &[&str]| {
        let output = run(&[&["exec", "--policy", &policy], arguments].concat());
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(expected.iter().all(|part| errors.contains(part)), "{errors}");
    };
    refused(&["rest", "--", "true"], &["policy.yaml:5:18", "names a control group", "{ cgroup: /weir/rest }"]);
    refused(&["wbe", "--", "true"], &["there is no service `wbe`", "did you mean `web`?"]);
    refused(&["web", "--name", "a/b", "--", "true"], &["`a/b` cannot be in the name of a control group", "letters"]);
    refused(&["web"], &["COMMAND"]);
}

#[test]
fn program_has_the_group_the_process_number_and_the_exit_code() {
    if skipped("weir exec") {
        return;
    }
    let (groups, directory) = (Groups::new("x1"), directory());
    let policy = file(directory.path(), "policy.yaml", &policy(&groups));
    let exec = |arguments: &[&str]| {
        let script = "echo $$; sed -n 's/^0:://p' /proc/self/cgroup; exit 7";
        let mut command = weir(&[&["exec", "--policy", &policy], arguments, &["--", "sh", "-c", script]].concat());
        let child = command.stdout(Stdio::piped()).spawn().expect("starts");
        let number = child.id();
        let output = child.wait_with_output().expect("ends");
        assert_eq!(output.status.code(), Some(7));
        let output = text(&output.stdout);
        let (process, group) = output.trim_end().split_once('\n').expect("two lines");
        assert_eq!(process, number.to_string(), "the program has replaced weir");
        (number, group.to_owned())
    };
    let (number, group) = exec(&["web"]);
    assert_eq!(group, groups.path(&format!("web-weir-{number}")));
    assert_eq!(exec(&["web", "--name", "a"]).1, groups.path("web-a"));
    assert_eq!(exec(&["db"]).1, groups.path("db"));
    assert_eq!(exec(&["db", "--name", "b"]).1, groups.path("db/b"));
    let umask = ["-c", "umask 000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_weir"), "exec", "--policy", &policy];
    let umask = Command::new("sh").args(umask).args(["db", "--", "sh", "-c", "umask"]).output().expect("runs");
    assert_eq!(text(&umask.stdout), "0000\n", "the program has its caller's umask: {}", text(&umask.stderr));
    assert_eq!(below(&groups.directory("")), ["db"], "empty groups of programs that have ended are removed");
    // A group of another program stays.
    groups.make("web-own");
    let (number, _) = exec(&["web"]);
    assert_eq!(below(&groups.directory("")), ["web-own", &format!("web-weir-{number}")]);
    // Processes cannot be in a group that distributes resources.
    groups.make("db");
    let controllers = fs::read_to_string(groups.directory("db").join("cgroup.controllers")).expect("readable");
    if let Some(controller) = controllers.split_whitespace().next() {
        let to = groups.directory("db").join("cgroup.subtree_control");
        fs::write(to, format!("+{controller}")).expect("distributed");
        let failed = run(&["exec", "--policy", &policy, "db", "--", "true"]);
        assert!(text(&failed.stderr).contains("--name makes a group below"), "{}", text(&failed.stderr));
        assert_eq!(exec(&["db", "--name", "c"]).1, groups.path("db/c"));
    }
}

/// A command that cannot be run leaves neither a group nor the process's former group.
#[test]
fn command_that_cannot_run_leaves_no_group() {
    if skipped("weir exec") {
        return;
    }
    let (groups, directory) = (Groups::new("x4"), directory());
    let policy = file(directory.path(), "policy.yaml", &policy(&groups));
    let no_program = file(directory.path(), "text", "no program");
    for (command, code) in [("/nowhere/program", 127), (&no_program, 126)] {
        for service in ["web", "db"] {
            let failed = run(&["exec", "--policy", &policy, service, "--name", "n", "--", command]);
            let errors = text(&failed.stderr);
            assert_eq!(failed.status.code(), Some(code), "{errors}");
            assert!(errors.contains(&format!("cannot run `{command}`")), "{errors}");
            assert_eq!(below(&groups.directory("")), Vec::<String>::new(), "{command} as {service}");
        }
    }
}

/// The limits that someone has set on a group that `weir exec` made hold for the programs after.
#[test]
fn next_start_keeps_its_group_and_the_groups_above() {
    if skipped("weir exec") {
        return;
    }
    let (groups, directory) = (Groups::new("x5"), directory());
    let policy = file(directory.path(), "policy.yaml", &policy(&groups));
    let limit = |name| groups.directory(name).join("cgroup.max.depth");
    let exec = |arguments: &[&str]| {
        // The umask does not keep an agent or a user out of the group.
        let command = [&["-c", "umask 077; exec \"$@\"", "sh", common::WEIR, "exec", "--policy", &policy], arguments];
        assert!(Command::new("sh").args(command.concat()).args(["--", "true"]).status().expect("runs").success());
    };
    exec(&["db"]);
    exec(&["db", "--name", "b"]);
    for (name, depth) in [("db", "7"), ("db/b", "5")] {
        assert_eq!(fs::metadata(groups.directory(name)).expect("it is there").mode() & 0o777, 0o755);
        fs::write(limit(name), depth).expect("set");
    }
    exec(&["db", "--name", "b"]);
    let depth = |name| fs::read_to_string(limit(name)).expect("it is there").trim().to_owned();
    assert_eq!([depth("db"), depth("db/b")], ["7", "5"]);
    exec(&["db", "--name", "c"]);
    assert_eq!((depth("db").as_str(), below(&groups.directory("db"))), ("7", vec!["c".to_owned()]));
}

/// Every process may lock a directory that it can read.
#[test]
fn lock_of_another_process_delays_no_start() {
    if skipped("weir exec") {
        return;
    }
    let (groups, directory) = (Groups::new("x6"), directory());
    let policy = file(directory.path(), "policy.yaml", &policy(&groups));
    let all = groups.directory("");
    let root = all.ancestors().nth(2).expect("the root");
    let lock = fs::File::open(root).expect("a directory");
    lock.lock().expect("locked");
    let mut program = weir(&["exec", "--policy", &policy, "web", "--", "true"]).spawn().expect("starts");
    wait_for("the program's end", 20, || program.try_wait().expect("a child").is_some());
    assert!(program.wait().expect("ends").success());
}

#[test]
fn program_finds_sigpipe_as_weir_was_started() {
    if skipped("weir exec") {
        return;
    }
    let (groups, directory) = (Groups::new("x7"), directory());
    let policy = file(directory.path(), "policy.yaml", &policy(&groups));
    for (trap, expected) in [("trap '' PIPE", true), (":", false)] {
        let script = format!("{trap}; exec \"$@\"");
        let arguments = ["-c", &script, "sh", common::WEIR, "exec", "--policy", &policy, "web", "--"];
        let output = Command::new("sh").args(arguments).args(["grep", "SigIgn", "/proc/self/status"]).output();
        let line = text(&output.expect("runs").stdout);
        let signals = u64::from_str_radix(line.split_whitespace().nth(1).expect("a number"), 16).expect("a number");
        assert_eq!(signals & 1 << (libc::SIGPIPE - 1) != 0, expected, "{trap}: {line}");
    }
}

#[test]
fn program_that_leaves_the_group_of_its_unit_is_warned_of() {
    if skipped("weir exec") {
        return;
    }
    let (groups, directory) = (Groups::new("x8"), directory());
    let policy = file(directory.path(), "policy.yaml", &policy(&groups));
    groups.make("unit");
    let warning = |service: &str, group: &str, unit: bool| {
        let mut command = weir(&["exec", "--policy", &policy, service, "--name", "n", "--", "true"]);
        if unit {
            command.env("INVOCATION_ID", "0123456789abcdef");
        }
        groups.start_in(group, &mut command);
        let output = command.output().expect("runs");
        assert!(output.status.success());
        text(&output.stderr)
    };
    let warned = warning("web", "unit", true);
    let unit = groups.path("unit");
    assert!(
        warned.starts_with(&format!("warning: the program leaves the control group of its systemd unit, `{unit}`"))
    );
    assert!(warned.contains("Slice="), "{warned}");
    assert_eq!(warning("web", "unit", false), "");
    groups.make("db");
    assert_eq!(warning("db", "db", true), "", "to a group below");
}

/// The kernel lets a user move processes only below a group that is the user's.
#[test]
fn user_outside_of_the_delegated_group_is_refused_with_the_way_in() {
    if skipped("weir exec") {
        return;
    }
    let (groups, directory) = (Groups::new("x9"), directory());
    let policy = file(directory.path(), "policy.yaml", &policy(&groups));
    let user = 65_534;
    let own = |path: &Path| std::os::unix::fs::chown(path, Some(user), Some(user)).expect("given");
    own(directory.path());
    for path in ["", "cgroup.procs", "cgroup.subtree_control"] {
        own(&groups.directory("").join(path));
    }
    groups.make("start");
    own(&groups.directory("start/cgroup.procs"));
    let program = directory.path().join("weir");
    // By another process: children of this one would keep a file open that it writes, and no such file can be run.
    assert!(Command::new("cp").arg(common::WEIR).arg(&program).status().expect("runs").success());
    let exec = || {
        let mut command = Command::new(&program);
        command.args(["exec", "--policy", &policy, "web", "--", "true"]);
        command
    };
    let as_user = |mut command: Command| command.uid(user).gid(user).output().expect("runs");
    let refused = as_user(exec());
    let errors = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{errors}");
    assert!(errors.contains("systemd-run --user --scope weir exec"), "{errors}");
    assert_eq!(below(&groups.directory("")), ["start"]);
    // In the delegated group already.
    let mut script = Command::new("sh");
    script.args([
        "-c",
        "echo $$ > \"$1\"; shift; exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"",
        "sh",
    ]);
    let processes = groups.directory("start/cgroup.procs");
    let arguments: Vec<_> = exec().get_args().map(ToOwned::to_owned).collect();
    let entered = script.arg(&processes).arg(&program).args(arguments).output().expect("runs");
    assert!(entered.status.success(), "{}", text(&entered.stderr));
}

/// Programs that start at the same time delete no group of each other.
#[test]
fn programs_start_together() {
    if skipped("weir exec") {
        return;
    }
    let (groups, directory) = (Groups::new("x2"), directory());
    let policy = file(directory.path(), "policy.yaml", &policy(&groups));
    for _ in 0..5 {
        let start = || weir(&["exec", "--policy", &policy, "web", "--", "true"]).spawn().expect("starts");
        let programs: Vec<_> = (0..8).map(|_| start()).collect();
        for mut program in programs {
            assert!(program.wait().expect("ends").success());
        }
    }
    // One shared group, beside starts that remove it while it is empty.
    for _ in 0..10 {
        let start = |service| weir(&["exec", "--policy", &policy, service, "--", "true"]).spawn().expect("starts");
        let programs = ["db", "web", "db", "web"].map(start);
        for mut program in programs {
            assert!(program.wait().expect("ends").success());
        }
    }
    assert!(run(&["exec", "--policy", &policy, "web", "--name", "last", "--", "true"]).status.success());
    assert_eq!(below(&groups.directory("")), ["web-last"]);
}

fn service<'a>(status: &'a Value, name: &str) -> &'a Value {
    let services = status["services"].as_array().expect("services");
    services.iter().find(|service| service["service"] == name).expect(name)
}

/// Agents limit a service by the groups of its sockets, at the sender by the receiver's feedback; a program of
/// `weir exec` counts as its service.
#[test]
fn agents_limit_services_by_group() {
    if skipped("agents with services by control group") {
        return;
    }
    let _turn = one_at_a_time();
    let groups = Groups::new("x3");
    let pair = Pair::new("wtx");
    fs::write(&pair.policy, policy(&groups)).expect("written");
    let agents = [(&pair.m1, "m1"), (&pair.m2, "m2")].map(|(netns, machine)| pair.running(netns, machine));
    // Made after the agents' start.
    groups.make("web-1");
    groups.make("db");
    wait_for("both agents to match the groups", 10, || {
        ["m1", "m2"].iter().all(|machine| pair.status(machine).is_some_and(|status| status["cgroups"] == 2))
    });
    let flow = |name: &str, port| groups.within(name, || Flow::start(&pair, port));
    let limited = flow("web-1", 7000);
    // The receiver's law holds a flow below the limit for a second if the flow was far above.
    wait_for("the limit", 20, || (at_least(15.0)..21.0).contains(&limited.rate()));
    // A status is up to a second old.
    let kernel = || pair.status("m1").expect("a status")["kernel"].clone();
    wait_for("feedback in the status", 10, || kernel()["feedback_accepted"].as_u64() > Some(0));
    assert_eq!(kernel()["feedback_unclassified"], 0);
    drop(limited);
    let unlimited = flow("db", 7001);
    wait_for("no limit of another group", 20, || unlimited.rate() > at_least(60.0));
    drop(unlimited);

    let sink = pair.m2.run(|| UdpSocket::bind("10.78.0.2:7002")).expect("inside").expect("bound");
    let sent = || pair.status("m1").map(|status| service(&status, "web")["tx"]["bytes"].as_u64()).expect("a status");
    let before = sent();
    let script = "sleep 0.2; i=0; while [ $i -lt 100 ]; do echo 0123456789 > /dev/udp/10.78.0.2/7002; i=$((i+1)); done";
    let mut command: Command = pair.m1.command(common::WEIR).expect("a command");
    command.args(["exec", "web", "--policy"]).arg(&pair.policy).args(["--", "bash", "-c", script]);
    assert!(command.status().expect("runs").success());
    wait_for("its bytes in the status", 5, || sent() >= before.map(|bytes| bytes + 100 * 53));
    drop(sink);
    for agent in agents {
        signal(&agent, libc::SIGTERM);
        let (code, errors) = end(agent);
        assert_eq!(code, Some(0), "{errors}");
    }
}

/// Returns the argument, after a pause if it is false.
#[expect(clippy::disallowed_methods, reason = "tests of real processes wait in real time")]
fn later(is_so: bool) -> bool {
    if !is_so {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    is_so
}
