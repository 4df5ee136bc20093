//! `weir top` and `weir dashboard` as a user runs them, over status files and made-up servers.

mod common;
mod fabric_setup;

use common::{signal, weir};
use fabric_setup::{Setup, policy};
use serde_json::Value;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_observe::{Publisher, server};
use weir_policy::Policy;
use weir_status::{AgentStatus, Mode, Status};
use weir_units::Bandwidth;

const POLICY: &str = "weir: 1\nnetwork:\n  nic: 1Gb/s\n  racks: { r1: { uplink: 1Gb/s, machines: [m1, m2] } \
    }\nservices:\n  \
                      a: { match: [ { port: 1 } ], machine: { min: 200Mb/s } }\n  b: { match: [ { port: 2 } ] }\n";

#[expect(clippy::disallowed_methods, reason = "statuses are as old as real ones")]
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

fn status(machine: &str) -> Status {
    let (policy, _) = Policy::parse("policy.yaml", POLICY).expect("sound");
    let mut status = AgentStatus::outline(&policy, policy.network().machine_named(machine).expect("there"));
    (status.mode, status.peers_alive, status.written_ms) = (Some(Mode::Runtime), 1, now_ms());
    let tx = &mut status.services[0].tx;
    (tx.usage, tx.limit) = (Some(Bandwidth::from_mbps(310)), Bandwidth::from_mbps(320));
    (tx.decided_by, tx.demand) = (Some("rack r1".into()), Some(Bandwidth::UNLIMITED));
    Status::Agent(status)
}

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { directory: tempfile::tempdir().expect("a directory") };
        fs::write(files.at("policy.yaml"), POLICY).expect("written");
        fs::write(files.at("m1.json"), status("m1").to_json()).expect("written");
        files
    }
    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn run_in(files: &Files, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = weir(arguments).current_dir(files.directory.path()).output().expect("runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn top_prints_once() {
    let files = Files::new();
    let run = |arguments: &[&str]| run_in(&files, arguments);
    let (code, out, errors) = run(&["top", "--once", "m1.json", "m2.json"]);
    assert_eq!(code, Some(0), "{errors}");
    insta::assert_snapshot!(out);
    let (_, out, _) = run(&["top", "--once", "--filter", "b", "--direction", "rx", "m1.json"]);
    assert!(out.contains("m1       b ") && !out.contains("rack r1"), "{out}");
    let (code, out, _) = run(&["top", "--json", "m1.json", "m2.json"]);
    let all: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &all[0]["name"], &all[0]["lost"]), (Some(0), &Value::from("m1"), &Value::Null));
    assert_eq!(all[0]["status"]["services"][0]["tx"]["decided_by"], "rack r1");
    let why = all[1]["lost"]["why"].as_str().unwrap_or_default();
    assert!(all[1]["status"].is_null() && why.contains("No such file"), "{out}");
    // No server at all.
    let (code, out, _) = run(&["top", "--once", "m2.json"]);
    assert!(code == Some(1) && out.contains("lost for"), "{code:?} {out}");
}

/// An agent that was killed leaves its file, and one that hangs has its last status served.
#[test]
fn top_once_reports_an_old_status_as_lost() {
    let files = Files::new();
    let Status::Agent(mut old) = status("m2") else { unreachable!("an agent's") };
    old.written_ms -= 7_200_000;
    let old = Status::Agent(old);
    fs::write(files.at("m2.json"), old.to_json()).expect("written");
    let publisher = Publisher::new();
    publisher.publish(old);
    let listener = server::listen("127.0.0.1:0".parse().expect("an address")).expect("listens");
    let reader = publisher.reader();
    let agent = server::start("m2", listener, server::Limits::default(), move || reader.router()).expect("starts");
    let url = format!("http://{}", agent.address());
    let (code, out, _) = run_in(&files, &["top", "--json", "m1.json", "m2.json", &url]);
    let all: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &all[0]["lost"]), (Some(0), &Value::Null));
    for (index, clocks) in [(1, ""), (2, ", if that host's clock and this one's agree")] {
        let lost = &all[index]["lost"];
        assert!(lost["for_s"].as_f64().is_some_and(|time| (7_200.0..7_260.0).contains(&time)), "{lost}");
        let why = lost["why"].as_str().expect("a reason");
        assert!(why.starts_with("its status is 72") && why.ends_with(&format!(" s old{clocks}")), "{why}");
        assert_eq!(all[index]["status"]["machine"], "m2");
    }
    let (_, out, _) = run_in(&files, &["top", "--once", "--direction", "tx", "m1.json", "m2.json"]);
    let line = |start: &str| out.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
    assert!(line("m2 ").contains("r1    lost for 2") && !line("m2 ").contains("b/s"), "{out}");
    assert!(line("m2 (lost)  a").contains("310 Mb/s") && line("m1         a").contains("310 Mb/s"), "{out}");
    assert!(line("  m2: its status is 72").ends_with(" s old"), "{out}");
}

/// What a terminal would act on in a status from elsewhere is not passed on.
#[test]
fn top_passes_no_escapes_on() {
    let files = Files::new();
    let hostile =
        status("m1").to_json().replace("\"m1\"", "\"\\u001b]0;owned\\u0007\"").replace("rack r1", "\\u001b[2J");
    fs::write(files.at("m1.json"), hostile).expect("written");
    let (code, out, _) = run_in(&files, &["top", "--once", "m1.json"]);
    assert!(code == Some(0) && !out.contains('\u{1b}') && out.contains("owned"), "{out:?}");
}

#[test]
fn top_and_dashboard_refuse_invalid_options() {
    let files = Files::new();
    let policy = "policy.yaml";
    for (arguments, words) in [
        (&["top", "https://m1/status", "--once"][..], "is not an http:// URL"),
        (&["top", "m1.json"], "standard output is no terminal"),
        (&["top", "--policy", policy, "--once"], "the agent of `m1` has no address"),
        (&["dashboard", policy, "--listen", "127.0.0.1:0"], "the agent of `m1` has no address"),
        (&["dashboard", policy, "--listen", "127.0.0.1:0", "--agent", "m7=x"], "the policy has no machine `m7`"),
    ] {
        let (code, _, errors) = run_in(&files, arguments);
        assert!(code == Some(2) && errors.contains(words), "{arguments:?}: {code:?} {errors}");
    }
}

fn get(address: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn the_dashboard_serves_agents_statuses_until_it_ends() {
    let files = Files::new();
    let publisher = Publisher::new();
    publisher.publish(status("m1"));
    let listener = server::listen("127.0.0.1:0".parse().expect("an address")).expect("listens");
    let reader = publisher.reader();
    let agent = server::start("m1", listener, server::Limits::default(), move || reader.router()).expect("starts");
    let mut command = weir(&["dashboard"]);
    command.arg(files.at("policy.yaml")).args(["--listen", "127.0.0.1:0"]);
    command.args(["--agent", &format!("m1=http://{}", agent.address())]);
    command.args(["--agent", &format!("m2={}", files.at("m2.json").display())]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("starts");
    let mut line = String::new();
    BufReader::new(child.stderr.take().expect("piped")).read_line(&mut line).expect("a line");
    let address = line.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let get = |path: &str| get(&address, path).expect("an answer");
    let page = get("/");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("content-security-policy: default-src 'none'"), "{page}");
    common::wait_for("m1 at the dashboard", 20, || {
        get("/api/now?direction=tx").contains("\"constraints\":[\"rack r1\"]")
    });
    let now = get("/api/now?direction=tx");
    assert!(now.contains("310000000") && now.contains("No such file"), "{now}");
    assert!(get("/api/history?machine=m9").starts_with("HTTP/1.1 404"));
    assert!(get("/api/history?machine=m1&span=7").starts_with("HTTP/1.1 400"));
    assert!(get("/api/history?machine=m1&service=a").contains("310000000"));
    assert!(get("/api/history?rack=r1&span=3600").contains("\"step\":10"));
    assert!(get("/api/machine?machine=m1").contains("\"machine\":\"m1\""));
    assert!(get("/api/machine?machine=m2").contains("\"status\":null"));
    signal(&child, libc::SIGTERM);
    assert_eq!(child.wait().expect("ends").code(), Some(0));
}

#[test]
fn a_fabric_broker_serves_the_dashboard_of_all_machines_and_its_own() {
    let setup = Setup::new();
    // Without a server: a dashboard needs addresses, not reachable servers.
    let addresses: Vec<String> = (1..=4).map(|i| format!("m{i}: {{ address: 127.0.0.{i} }}")).collect();
    let machines = format!("  machines: {{ {} }}\nservices:", addresses.join(", "));
    setup.write_policy(&policy("10Gb/s").replacen("services:", &machines, 1));
    // A port that was free a moment ago: the daemon does not report which one it was given.
    let free = server::listen("127.0.0.1:0".parse().expect("an address")).expect("listens");
    let address = free.local_addr().expect("an address").to_string();
    drop(free);
    let mut command = setup.fabric("127.0.0.1:0");
    command.args(["--dashboard", &address]);
    let broker = setup.start_as("fabric", command);
    let page = get(&address, "/").expect("the page");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<title>Weir</title>"), "{page}");
    let now = || -> Value {
        let answer = get(&address, "/api/now").expect("an answer");
        serde_json::from_str(answer.split_once("\r\n\r\n").expect("a body").1).expect("JSON")
    };
    common::wait_for("the broker's own status", 20, || now()["fabric"][0]["leads"] == true);
    let shown = now();
    assert_eq!(shown["fabric"][0]["name"], broker.url());
    assert_eq!(
        (&shown["fabric"][0]["racks"], &shown["fabric"][0]["same_policy"]),
        (&Value::from(2), &Value::from(true))
    );
    let machines = shown["machines"].as_array().expect("machines");
    assert!(machines.len() == 4 && machines.iter().all(|machine| machine["lost"].is_object()), "{shown}");
    let (code, output) = broker.end(libc::SIGTERM);
    assert_eq!(code, Some(0), "{output}");
    assert!(get(&address, "/").is_err(), "the dashboard ends with its broker");
}
