//! Every committed seed passes its target: the fuzz targets' regression check, with stable Rust.
//!
//! Seeds named `broken-...` are refused and all others accepted, so that a change of a language
//! cannot turn the corpus into one of refusals unnoticed.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(target)
}

/// Runs all seeds of a target and names those that fail.
fn replay(target: &str, run: fn(&[u8]) -> bool) {
    let directory = fs::read_dir(corpus(target)).expect("the corpus is in the tree");
    let mut paths: Vec<PathBuf> = directory.map(|entry| entry.expect("it can be listed").path()).collect();
    paths.sort();
    assert!(paths.len() >= 5, "{target} has {} seeds", paths.len());
    let failed: Vec<PathBuf> = paths
        .into_iter()
        .filter(|path| {
            let data = fs::read(path).expect("it can be read");
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // Files left by a fuzz run are named by their SHA-1: their expected outcome is unknown.
            let unnamed = name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
            match catch_unwind(|| run(&data)) {
                Ok(accepted) => !unnamed && accepted == name.starts_with("broken-"),
                Err(_) => true,
            }
        })
        .collect();
    assert!(failed.is_empty(), "{target} fails on {failed:#?}");
}

#[test]
fn policy() {
    replay("policy", weir_fuzz_targets::policy);
}

#[test]
fn cni_configuration() {
    replay("cni_configuration", weir_fuzz_targets::cni_configuration);
}

#[test]
fn demands() {
    replay("demands", weir_fuzz_targets::demands);
}

#[test]
fn scenario() {
    replay("scenario", weir_fuzz_targets::scenario);
}

#[test]
fn flow_list() {
    replay("flow_list", weir_fuzz_targets::flow_list);
}

#[test]
fn sizes() {
    replay("sizes", weir_fuzz_targets::sizes);
}

#[test]
fn imported_sizes() {
    replay("imported_sizes", weir_fuzz_targets::imported_sizes);
}

#[test]
fn imported_flows() {
    replay("imported_flows", weir_fuzz_targets::imported_flows);
}

#[test]
fn trace() {
    replay("trace", weir_fuzz_targets::trace);
}

#[test]
fn redaction() {
    replay("redaction", weir_fuzz_targets::redaction);
}

#[test]
fn paper() {
    replay("paper", weir_fuzz_targets::paper);
}

#[test]
fn rack_datagram() {
    replay("rack_datagram", weir_fuzz_targets::rack_datagram);
}

#[test]
fn fabric_datagram() {
    replay("fabric_datagram", weir_fuzz_targets::fabric_datagram);
}

#[test]
fn credit_datagram() {
    replay("credit_datagram", weir_fuzz_targets::credit_datagram);
}

#[test]
fn fabric_stream() {
    replay("fabric_stream", weir_fuzz_targets::fabric_stream);
}

/// The binary seeds are those of the current format. `WEIR_WRITE_SEEDS=1` writes them anew.
#[test]
fn the_binary_seeds_are_of_this_format() {
    let write = std::env::var_os("WEIR_WRITE_SEEDS").is_some();
    let rack = weir_fuzz_targets::rack_datagram_seeds().into_iter().map(|seed| ("rack_datagram", seed));
    let fabric = weir_fuzz_targets::fabric_datagram_seeds().into_iter().map(|seed| ("fabric_datagram", seed));
    let stream = weir_fuzz_targets::fabric_stream_seeds().into_iter().map(|seed| ("fabric_stream", seed));
    let credits = weir_fuzz_targets::credit_datagram_seeds().into_iter().map(|seed| ("credit_datagram", seed));
    for (target, (name, bytes)) in rack.chain(fabric).chain(stream).chain(credits) {
        let path = corpus(target).join(name);
        if write {
            fs::create_dir_all(corpus(target)).expect("it can be created");
            fs::write(&path, &bytes).expect("it can be written");
        }
        let found = fs::read(&path).unwrap_or_default();
        assert!(found == bytes, "{name} is out of date: run this test with WEIR_WRITE_SEEDS=1");
    }
}

/// The sources of the cargo-fuzz binaries, which no other check compiles, the binaries of their
/// manifest and the directories of seeds are those that this file replays.
#[test]
fn targets_have_seeds_and_a_binary() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz");
    let names = |directory: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(fuzz.join(directory)).expect("it is in the tree");
        let path = |entry: std::io::Result<fs::DirEntry>| entry.expect("it can be listed").path();
        entries.map(|entry| path(entry).file_stem().expect("a name").to_string_lossy().into_owned()).collect()
    };
    let replayed =
        include_str!("corpora.rs").lines().filter_map(|line| line.strip_prefix("    replay(\"")?.split('"').next());
    let replayed: BTreeSet<String> = replayed.map(str::to_owned).collect();
    assert!(replayed.len() >= 10, "{replayed:?}");
    assert_eq!(names("corpus"), replayed);
    assert_eq!(names("fuzz_targets"), replayed);
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).expect("the manifest");
    for name in replayed {
        assert!(manifest.contains(&format!("name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\n")), "{name}");
        let source = fs::read_to_string(fuzz.join(format!("fuzz_targets/{name}.rs"))).expect("a source");
        assert!(source.contains(&format!("weir_fuzz_targets::{name}(")), "{name}: {source}");
    }
}
