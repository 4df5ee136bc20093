//! Policies as JSON: every policy of the tree is the same when it is read again.

mod texts;

use std::path::{Path, PathBuf};
use weir_policy::Policy;

/// The policies of the tree.
fn policies() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut directories: Vec<PathBuf> = ["scenarios", "papers", "packaging", "docs"].map(|name| root.join(name)).into();
    let mut found = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory of the tree") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.to_string_lossy().ends_with("policy.yaml") {
                found.push(path);
            }
        }
    }
    found
}

fn same_as_json(policy: &Policy) -> String {
    let json = policy.to_json_text().unwrap_or_else(|errors| panic!("{errors}"));
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(value.is_object(), "{json}");
    let (again, _) = Policy::parse("policy.json", &json).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!((&again, again.digest()), (policy, policy.digest()));
    // The second export has the same text: nothing is lost at each step.
    assert_eq!(again.to_json_text().unwrap_or_else(|errors| panic!("{errors}")), json);
    json
}

#[test]
fn every_policy_of_the_tree_is_the_same_as_json() {
    let policies = policies();
    assert!(policies.len() > 20, "{policies:?}");
    for path in policies {
        let (policy, _) = Policy::read(&path).unwrap_or_else(|errors| panic!("{errors}"));
        same_as_json(&policy);
    }
}

#[test]
fn changed_values_are_in_the_export() {
    let (policy, _) = Policy::parse("policy.yaml", texts::EXAMPLE).unwrap_or_else(|errors| panic!("{errors}"));
    let changed = policy.with("caps.rack=8Gb/s").unwrap_or_else(|errors| panic!("{errors}"));
    assert!(same_as_json(&changed).contains("\"rack\": \"8Gb/s\""));
    assert_ne!(same_as_json(&policy), same_as_json(&changed));
}

/// Equal selectors of pods have one fingerprint, whatever their spelling.
#[test]
fn selectors_of_pods_are_in_the_export() {
    let text = |labels: &str| {
        format!(
            "weir: 1\nnetwork: {{ nic: 1Gb/s, racks: {{ r: {{ uplink: 10Gb/s, machines: [m] }} }} }}\nservices: {{ a: \
             {{ match: [ {{ pod: {{ namespace: shop, name: \"web-*\", labels: \"{labels}\" }} }} ] }} }}\n"
        )
    };
    let read = |labels: &str| Policy::parse("policy.yaml", &text(labels)).unwrap_or_else(|errors| panic!("{errors}")).0;
    let (one, same, other) = (read("app==web, app,!x"), read("!x,app=web"), read("app=web"));
    assert!(same_as_json(&one).contains("app==web, app,!x"));
    assert_eq!(one.digest(), same.digest());
    assert_ne!(one.digest(), other.digest());
}

#[test]
fn names_with_digits_and_quotes_are_texts() {
    let text = "weir: 1\nnetwork: { nic: '1Gb/s', racks: { \"7\": { uplink: 10Gb/s, machines: [ '007', 8 ] } } }\n\
                services: { 9: { match: [ { port: \"80\" } ] } }\n";
    let (policy, _) = Policy::parse("policy.yaml", text).unwrap_or_else(|errors| panic!("{errors}"));
    same_as_json(&policy);
}
