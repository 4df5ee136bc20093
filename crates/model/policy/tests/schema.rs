//! The schema in the tree is the one that the language gives, and it agrees with the reader.

#[path = "../../../model/document/tests/support/validator.rs"]
mod validator;

use serde_json::Value;
use std::path::Path;
use weir_document::{Problems, Source, reference, schema, tree};
use weir_policy::{Policy, language};

mod texts;

fn generated() -> Value {
    schema::schema("Weir policy", &language::POLICY)
}

fn json(text: &str) -> Value {
    let source = Source::from_text("policy.yaml", text);
    let mut problems = Problems::new(&source);
    let root = tree::parse(&source, &mut problems).expect("a tree");
    validator::to_json(&root)
}

#[test]
fn the_file_in_the_tree_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../schemas/policy.schema.json");
    let text = schema::to_file(&generated());
    if std::env::var_os("WEIR_UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &text).expect("schemas/ can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "schemas/policy.schema.json is not what the language gives; run `WEIR_UPDATE_SCHEMA=1 cargo test -p \
         weir-policy --test schema`"
    );
}

/// The part of docs/reference/policy-keys.md behind this line is made from the language.
const MARK: &str = "<!-- What follows is made from the language: `make schema` writes it anew. -->\n";

#[test]
fn the_reference_in_the_tree_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/policy-keys.md");
    let text = std::fs::read_to_string(&path).expect("docs/reference/policy-keys.md");
    let (written, found) = text.split_once(MARK).expect("the line that begins the reference");
    let made = format!("\n{}", reference::tables(&language::POLICY, 2).trim_end()) + "\n";
    if std::env::var_os("WEIR_UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, format!("{written}{MARK}{made}")).expect("docs/ can be written");
    } else {
        assert!(
            found == made,
            "docs/reference/policy-keys.md is not what the language gives; run `WEIR_UPDATE_SCHEMA=1 cargo test -p \
             weir-policy --test schema`"
        );
    }
}

#[test]
fn accepts_good_policies() {
    for text in [texts::EXAMPLE, texts::EVERYTHING, texts::FIG5, texts::FIG6] {
        Policy::parse("policy.yaml", text).expect("the reader accepts it");
        assert_eq!(validator::validate(&generated(), &json(text)), Ok(()));
    }
}

#[test]
fn accepts_lists_and_names() {
    for (from, to) in [
        ("port: 7000-7099", "port: [80, 443, 7000-7099]"),
        ("port: 7000-7099", "port: \"80, 443,7000 - 7099\""),
        ("protocol: tcp", "dscp: [AF31, 28]"),
        ("protocol: tcp", "dscp: EF"),
        ("protocol: tcp", "protocol: 6"),
    ] {
        let text = texts::EXAMPLE.replace(from, to);
        Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(validator::validate(&generated(), &json(&text)), Ok(()), "{to}");
    }
}

/// The schema refuses every mistake that a schema can express.
#[test]
fn the_schema_refuses_like_the_reader() {
    for (from, to) in [
        ("weir: 1", "weir: 2"),
        ("weight: 2", "weigth: 2"),
        ("weight: 2", "weight: 0"),
        ("weight: 2", "weight: -1"),
        ("min: 3Gb/s", "min: 3"),
        ("min: 3Gb/s", "min: 3Gbs"),
        ("min: 3Gb/s", "min: unlimited"),
        ("min: 3Gb/s", "min: [3Gb/s]"),
        ("nic: 10Gb/s", "nic: -10Gb/s"),
        ("uplink: 10Gb/s, ", ""),
        ("machines: [m1, m2]", "machines: []"),
        ("machines: [m1, m2]", "machines: [m1, m/2]"),
        ("  dfs:", "  d/fs:"),
        ("protocol: tcp", "protocol: tpc"),
        ("port: 7000-7099", "port: http"),
        ("port: 7000-7099", "port: 010"),
        ("port: 7000-7099", "port: 80-0443"),
        ("protocol: tcp", "protocol: 06"),
        ("protocol: tcp", "protocol: 256"),
        ("protocol: tcp", "address: 10.0.0.0/08"),
        ("protocol: tcp", "address: \"fd00::/064\""),
        ("protocol: tcp", "dscp: 046"),
        ("protocol: tcp", "dscp: af31"),
        ("protocol: tcp", "dscp: [EF, 64]"),
        ("port: 7000-7099", "port: []"),
        ("port: 7000-7099", "port: \"80,\""),
        ("port: 7000-7099", "port: [80, 0443]"),
        ("weight: 2", "weight: 02"),
        ("min: 3Gb/s", "min: 03Gb/s"),
        ("caps:", "sharing: fair\ncaps:"),
    ] {
        let text = texts::EXAMPLE.replace(from, to);
        assert_ne!(text, texts::EXAMPLE, "{from}");
        assert!(Policy::parse("policy.yaml", &text).is_err(), "{to}");
        assert!(validator::validate(&generated(), &json(&text)).is_err(), "{to}");
    }
}
