//! The schema and the reference in the tree are those that the language gives, and both accept the
//! papers in the tree.

#[path = "../../../model/document/tests/support/validator.rs"]
mod validator;

use std::path::{Path, PathBuf};
use weir_document::{Problems, Source, reference, schema, tree};
use weir_experiment::{Experiment, Setting, compute, language};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn papers() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("papers")).expect("papers/");
    let mut papers: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    papers.sort();
    assert!(!papers.is_empty());
    papers
}

#[test]
fn the_file_in_the_tree_is_current() {
    let path = root().join("schemas/paper.schema.json");
    let text = schema::to_file(&schema::schema("Weir paper", &language::PAPER));
    if std::env::var_os("WEIR_UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &text).expect("schemas/ can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "schemas/paper.schema.json is not what the language gives; run `WEIR_UPDATE_SCHEMA=1 cargo test -p \
         weir-experiment --test schema`"
    );
}

/// The part of docs/reference/papers.md behind this line is made from the language.
const MARK: &str = "<!-- What follows is made from the language: `make schema` writes it anew. -->\n";

#[test]
fn the_reference_in_the_tree_is_current() {
    let path = root().join("docs/reference/papers.md");
    let text = std::fs::read_to_string(&path).expect("docs/reference/papers.md");
    let (written, found) = text.split_once(MARK).expect("the line that begins the reference");
    let made = format!("\n{}", reference::tables(&language::PAPER, 2).trim_end()) + "\n";
    if std::env::var_os("WEIR_UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, format!("{written}{MARK}{made}")).expect("docs/ can be written");
    } else {
        assert!(
            found == made,
            "docs/reference/papers.md is not what the language gives; run `WEIR_UPDATE_SCHEMA=1 cargo test -p \
             weir-experiment --test schema`"
        );
    }
}

#[test]
fn the_schema_accepts_the_papers_in_the_tree() {
    let generated = schema::schema("Weir paper", &language::PAPER);
    for path in papers() {
        let source = Source::read(&path, language::MAX_FILE).expect("readable");
        let mut problems = Problems::new(&source);
        let root = tree::parse(&source, &mut problems).expect("a tree");
        assert_eq!(validator::validate(&generated, &validator::to_json(&root)), Ok(()), "{}", path.display());
    }
}

#[test]
fn every_paper_reads_with_its_scenarios_and_is_named_after_its_file() {
    for path in papers() {
        let (experiment, _) = Experiment::read(&path).unwrap_or_else(|refused| panic!("{}", refused.render(false)));
        assert_eq!(Some(experiment.id.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
        assert!(experiment.takes.quick <= weir_units::Duration::from_secs(60), "{}: quick is quick", experiment.id);
    }
}

/// Measures without a run or a datacenter have a value in every paper. Times of a computation are excluded.
#[test]
fn every_computed_value_can_be_computed() {
    for path in papers() {
        let (experiment, _) = Experiment::read(&path).expect("reads");
        let values = experiment.values.iter().filter(|value| value.measure.run().is_none());
        let values = values.filter(|value| value.measure.datacenter().is_none());
        for value in values.filter(|value| !value.measure.is_wall_clock()) {
            let computed = compute::value(&value.measure, Setting::Quick, &|| 0.0);
            let printed = value.published.map(|published| published.value);
            let is_fine = computed.is_ok_and(|reading| reading.value > 0.0 || printed == Some(0.0));
            assert!(is_fine, "{}: {}", experiment.id, value.metric);
        }
    }
}
