//! The schema in the tree is the one that the language gives, and it accepts the scenarios in the
//! tree.

#[path = "../../../model/document/tests/support/validator.rs"]
mod validator;

use std::path::Path;
use weir_document::{Problems, Source, reference, schema, tree};
use weir_scenario::language;

#[test]
fn the_file_in_the_tree_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../schemas/scenario.schema.json");
    let text = schema::to_file(&schema::schema("Weir scenario", &language::SCENARIO));
    if std::env::var_os("WEIR_UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &text).expect("schemas/ can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "schemas/scenario.schema.json is not what the language gives; run `WEIR_UPDATE_SCHEMA=1 cargo test -p \
         weir-scenario --test schema`"
    );
}

/// The part of docs/reference/scenarios.md behind this line is made from the language.
const MARK: &str = "<!-- What follows is made from the language: `make schema` writes it anew. -->\n";

#[test]
fn the_reference_in_the_tree_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/scenarios.md");
    let text = std::fs::read_to_string(&path).expect("docs/reference/scenarios.md");
    let (written, found) = text.split_once(MARK).expect("the line that begins the reference");
    let made = format!("\n{}", reference::tables(&language::SCENARIO, 2).trim_end()) + "\n";
    if std::env::var_os("WEIR_UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, format!("{written}{MARK}{made}")).expect("docs/ can be written");
    } else {
        assert!(
            found == made,
            "docs/reference/scenarios.md is not what the language gives; run `WEIR_UPDATE_SCHEMA=1 cargo test -p \
             weir-scenario --test schema`"
        );
    }
}

#[test]
fn accepts_the_scenarios_in_the_tree() {
    let generated = schema::schema("Weir scenario", &language::SCENARIO);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(directory).expect("scenarios/") {
        let path = entry.expect("an entry").path();
        if !path.to_string_lossy().ends_with(".scenario.yaml") {
            continue;
        }
        count += 1;
        let source = Source::read(&path, language::MAX_FILE).expect("readable");
        let mut problems = Problems::new(&source);
        let root = tree::parse(&source, &mut problems).expect("a tree");
        assert_eq!(validator::validate(&generated, &validator::to_json(&root)), Ok(()), "{}", path.display());
        weir_scenario::Scenario::read(&path).expect("a good scenario");
    }
    assert!(count > 0);
}
