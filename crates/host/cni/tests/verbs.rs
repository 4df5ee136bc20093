//! The program against the CNI specification: each verb and version, its output, exit status and errors. None of these
//! invocations changes the host.

use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const VERSIONS: [&str; 4] = ["0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// Runs the program with these variables alone; whether it succeeded, and its output.
fn run(variables: &[(&str, &str)], input: &str) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-cni"));
    command.env_clear().envs(variables.iter().copied());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program");
    // A program that ends without reading its input closes the pipe.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("output");
    (output.status.success(), String::from_utf8(output.stdout).expect("text"))
}

/// The variables of a verb about the interface `eth0`, whose namespace does not exist.
fn attachment(verb: &str) -> Vec<(&str, &str)> {
    let names = [("CNI_CONTAINERID", "4f1a"), ("CNI_IFNAME", "eth0"), ("CNI_NETNS", "/nonexistent/netns")];
    [("CNI_COMMAND", verb), ("CNI_PATH", "/usr/lib/cni")].into_iter().chain(names).collect()
}

fn configuration(version: &str, records: &Path) -> Value {
    json!({"cniVersion": version, "name": "pods", "type": "weir-cni", "records": records,
        "prevResult": {"cniVersion": version, "interfaces": [], "ips": [], "dns": {}}})
}

/// Asserts an error object in this version, and returns its code and message.
fn refused((success, output): (bool, String), version: &str) -> (u64, String) {
    assert!(!success, "{output}");
    let error: Value = serde_json::from_str(&output).expect("an error object");
    let keys: Vec<&String> = error.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["cniVersion", "code", "msg", "details"]);
    assert_eq!(error["cniVersion"], version);
    assert!(error["details"].as_str().is_some_and(|text| !text.is_empty()), "{output}");
    (error["code"].as_u64().expect("a number"), error["msg"].as_str().expect("a text").to_owned())
}

#[test]
fn version_lists_all_versions_in_that_of_the_input() {
    let list = |version: &str| json!({"cniVersion": version, "supportedVersions": VERSIONS});
    for (input, version) in [
        (r#"{"cniVersion": "0.4.0"}"#, "0.4.0"),
        (r#"{"cniVersion": "9.9.9"}"#, "9.9.9"),
        ("{}", "1.1.0"),
        ("", "1.1.0"),
    ] {
        let (success, output) = run(&[("CNI_COMMAND", "VERSION")], input);
        assert!(success, "{output}");
        assert_eq!(serde_json::from_str::<Value>(&output).expect("JSON"), list(version), "{input}");
    }
    assert_eq!(refused(run(&[("CNI_COMMAND", "VERSION")], "{"), "1.1.0").0, 6);
}

#[test]
fn del_succeeds_without_namespace_record_and_previous_result() {
    let at = tempfile::tempdir().expect("a directory");
    for version in VERSIONS {
        let mut configuration = configuration(version, &at.path().join("none"));
        let (success, output) = run(&attachment("DEL"), &configuration.to_string());
        assert!(success && output.is_empty(), "{version}: {output}");
        configuration.as_object_mut().expect("an object").remove("prevResult");
        // What ADD has refused: DEL follows each ADD, whatever its result.
        configuration["unknown"] = json!(1);
        configuration["ingressRate"] = json!(7);
        let mut variables = attachment("DEL");
        variables.retain(|(name, _)| *name != "CNI_NETNS");
        let (success, output) = run(&variables, &configuration.to_string());
        assert!(success && output.is_empty(), "{version}: {output}");
    }
    assert!(!at.path().join("none").exists(), "DEL makes no directory");
    // The empty file that remains where a namespace was mounted.
    let stale = at.path().join("cni-1");
    std::fs::write(&stale, "").expect("written");
    let path = stale.to_str().expect("text");
    for path in [path.to_owned(), format!("{path}/ns")] {
        let mut variables = attachment("DEL");
        variables.retain(|(name, _)| *name != "CNI_NETNS");
        variables.push(("CNI_NETNS", &path));
        let (success, output) = run(&variables, &configuration("1.0.0", at.path()).to_string());
        assert!(success && output.is_empty(), "{path}: {output}");
    }
}

#[test]
fn status_refuses_limits_that_every_add_would_refuse() {
    let at = tempfile::tempdir().expect("a directory");
    let mut input = configuration("1.1.0", at.path());
    input["ingressRate"] = json!(1);
    let (code, message) = refused(run(&[("CNI_COMMAND", "STATUS")], &input.to_string()), "1.1.0");
    assert!(code == 7 && message.starts_with("ingressRate"), "{code}: {message}");
    for (key, value, expected) in [("ingres", json!(5), 2), ("egressRate", json!("10M"), 6)] {
        let mut input = configuration("1.1.0", at.path());
        input[key] = value;
        assert_eq!(refused(run(&[("CNI_COMMAND", "STATUS")], &input.to_string()), "1.1.0").0, expected, "{key}");
    }
}

#[test]
fn add_and_check_refuse_with_the_codes_of_the_specification() {
    let at = tempfile::tempdir().expect("a directory");
    for version in ["0.4.0", "1.0.0", "1.1.0"] {
        let valid = configuration(version, at.path());
        let with = |key: &str, value: Value| {
            let mut changed = valid.clone();
            changed[key] = value;
            changed.to_string()
        };
        let without_result = with("prevResult", Value::Null);
        for verb in ["ADD", "CHECK"] {
            let code = |input: &str| refused(run(&attachment(verb), input), version);
            assert_eq!(code(&without_result), (7, "there is no prevResult".into()));
            assert_eq!(code(&with("ingressRate", json!(1))).0, 7);
            assert_eq!(code(&with("ingressRate", json!("10M"))).0, 6);
            let missing = (4, "CNI_NETNS: there is no network namespace /nonexistent/netns".into());
            assert_eq!(code(&valid.to_string()), missing, "{verb} {version}");
        }
        let unknown = refused(run(&attachment("ADD"), &with("ingres", json!(5))), version);
        assert_eq!(unknown, (2, "`ingres` is no key of weir-cni (its value: 5)".into()));
    }
}

#[test]
fn invalid_environment_and_input_are_refused_in_the_newest_version() {
    let at = tempfile::tempdir().expect("a directory");
    let valid = configuration("1.0.0", at.path()).to_string();
    assert_eq!(refused(run(&[], &valid), "1.1.0"), (4, "CNI_COMMAND: it is missing".into()));
    for missing in ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS"] {
        let mut variables = attachment("ADD");
        variables.retain(|(name, _)| *name != missing);
        assert_eq!(refused(run(&variables, &valid), "1.1.0"), (4, format!("{missing}: it is missing")));
    }
    assert_eq!(refused(run(&attachment("ADD"), "not JSON"), "1.1.0").0, 6);
    let old = valid.replace("1.0.0", "0.2.0");
    let message = "the configuration has cniVersion 0.2.0".to_owned();
    assert_eq!(refused(run(&attachment("ADD"), &old), "1.1.0"), (1, message));
}

#[test]
fn verbs_are_refused_before_the_version_that_has_them() {
    let at = tempfile::tempdir().expect("a directory");
    for (verb, first) in [("CHECK", "0.4.0"), ("GC", "1.1.0"), ("STATUS", "1.1.0")] {
        for version in VERSIONS.into_iter().filter(|version| *version < first) {
            let refused = refused(run(&attachment(verb), &configuration(version, at.path()).to_string()), version);
            assert_eq!(refused, (1, format!("{verb} exists since version {first}")));
        }
    }
}

#[test]
fn collection_removes_records_of_its_own_network_that_are_not_listed() {
    let at = tempfile::tempdir().expect("a directory");
    let record = |container: &str, network: &str| {
        let text = json!({"pod": 1, "network": network, "namespace": "shop", "name": container,
            "host_interface": {"name": "weirgone0", "index": 2_000_000_000, "hardware": "02:00:00:00:00:01"},
            "container": container, "netns": "/nonexistent/netns", "interface": "eth0"});
        let path = at.path().join(format!("attachment-{container}:eth0.json"));
        std::fs::write(path, text.to_string()).expect("written");
    };
    record("kept", "pods");
    record("gone", "pods");
    record("other", "storage");
    let mut input = configuration("1.1.0", at.path());
    let without_list = refused(run(&[("CNI_COMMAND", "GC")], &input.to_string()), "1.1.0");
    assert_eq!(without_list, (7, "there is no cni.dev/valid-attachments".into()));
    input["cni.dev/valid-attachments"] = json!([{"containerID": "kept", "ifname": "eth0"}]);
    let (success, output) = run(&[("CNI_COMMAND", "GC")], &input.to_string());
    assert!(success && output.is_empty(), "{output}");
    let left = || {
        let names = std::fs::read_dir(at.path()).expect("listed").map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().expect("text")).collect();
        names.sort();
        names
    };
    assert_eq!(left(), ["attachment-kept:eth0.json", "attachment-other:eth0.json"]);
    // An empty list of Go is null. A damaged record is reported after the others are removed.
    std::fs::write(at.path().join("attachment-bad:eth0.json"), "{").expect("written");
    std::fs::write(at.path().join("labels-shop:bad.json"), "{").expect("written");
    input["cni.dev/valid-attachments"] = Value::Null;
    let (success, output) = run(&[("CNI_COMMAND", "GC")], &input.to_string());
    let bad = at.path().join("attachment-bad:eth0.json").display().to_string();
    assert!(output.contains(&format!("if no such container runs: rm '{bad}'")), "{output}");
    let (code, message) = refused((success, output), "1.1.0");
    assert!(code == 5 && message.contains("attachment-bad:eth0.json: EOF while parsing"), "{code}: {message}");
    assert_eq!(left(), ["attachment-bad:eth0.json", "attachment-other:eth0.json", "labels-shop:bad.json"]);
}
