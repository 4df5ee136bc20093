//! Dependencies between crates: from later layers to earlier ones.
//!
//! Problem: one dependency in the wrong direction ties the simulator to Linux, or makes a plan of shares need a C
//! compiler, and nothing fails. Approach: the folders below `crates/` are layers, and [`LAYERS`] states the layers that
//! each may use. Finer rules are in [`RULES`], [`APART`], [`WITHOUT_C`] and [`TERMINAL`]. `[dependencies]` and
//! `[build-dependencies]` count: a test may use anything.
//!
//! Worked example: `weir-linux` in the manifest of `crates/simulate/sim` is refused: `simulate` may not use `host`.

use crate::tree::File;
use std::collections::BTreeMap;

/// A layer and the layers that its crates may use, beside their own.
pub const LAYERS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("decide", &["model"]),
    ("packet", &["model", "decide"]),
    ("simulate", &["model", "decide", "packet"]),
    ("serve", &["model", "decide"]),
    ("host", &["model", "decide", "packet", "simulate", "serve"]),
    ("front", &["model", "decide", "packet", "simulate", "serve", "host"]),
    ("check", &["model", "decide", "packet", "simulate", "serve", "host", "front"]),
];

/// Of the crates of a layer, only these may use another layer.
const RULES: &[(&str, &str, &[&str])] = &[
    // Only the lab runs scenarios on Linux.
    ("host", "simulate", &["lab"]),
    // Workloads, transports and results are data for any backend.
    ("simulate", "packet", &["sim"]),
    // Runs and answers need neither Linux nor a daemon, so that programs without a command line can use them.
    ("front", "host", &["cli"]),
    ("front", "serve", &["cli"]),
];

/// Layers whose crates must not reach a crate: the backends must not use each other.
const APART: &[(&str, &str)] = &[("host", "sim")];

/// Layers and crates that compile no C, not even through others.
const WITHOUT_C: &[&str] =
    &["model", "decide", "serve", "transport", "workload", "scenario", "results", "report", "experiment"];

/// Libraries of others for arguments, terminals and signals, and the only crate that may use them.
const TERMINAL: (&[&str], &str) =
    (&["clap", "clap_complete", "clap_mangen", "indicatif", "ratatui", "signal-hook"], "cli");

/// The crate that compiles the per-packet code.
const C: &str = "datapath";

/// A crate in the tree.
struct Crate {
    layer: String,
    name: String,
    /// Its manifest's path, and the crates that it uses, with the lines that name them.
    path: String,
    uses: Vec<(usize, String)>,
    /// The libraries of [`TERMINAL`] among its dependencies.
    terminal: Vec<(usize, String)>,
}

/// The crates of the tree, from their manifests; `found` gets the manifests that this cannot read.
fn crates(files: &[File], found: &mut Vec<String>) -> Vec<Crate> {
    let is_manifest = |file: &&File| file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml");
    let of = |file: &File| {
        let parts: Vec<&str> = file.path.split('/').collect();
        let ["crates", layer, name, "Cargo.toml"] = parts[..] else {
            found.push(format!("{}:1: not a crate in the folder of a layer", file.path));
            return None;
        };
        let (mut uses, mut terminal, mut counts) = (Vec::new(), Vec::new(), false);
        for (number, line) in (1..).zip(file.text.lines()) {
            if line.starts_with('[') {
                counts = line == "[dependencies]" || line == "[build-dependencies]";
                if !counts && line.contains("dependencies") && line != "[dev-dependencies]" {
                    found.push(format!("{}:{number}: write `{line}` as a table of all dependencies", file.path));
                }
            }
            let Some(name) = line.find(['.', ' ', '=']).map(|end| &line[..end]).filter(|_| counts) else { continue };
            if let Some(used) = name.strip_prefix("weir-") {
                uses.push((number, used.to_owned()));
            } else if TERMINAL.0.contains(&name) {
                terminal.push((number, name.to_owned()));
            }
        }
        Some(Crate { layer: layer.to_owned(), name: name.to_owned(), path: file.path.clone(), uses, terminal })
    };
    files.iter().filter(is_manifest).filter_map(of).collect()
}

/// The crates that one uses, directly or through others.
fn reached<'a>(from: &'a str, of: &BTreeMap<&'a str, &'a Crate>, found: &mut Vec<&'a str>) {
    for (_, used) in of.get(from).map_or(&[][..], |one| &one.uses) {
        if !found.contains(&used.as_str()) {
            found.push(used);
            reached(used, of, found);
        }
    }
}

/// The violations in all manifests, as `path:line: message`.
pub fn check(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    let all = crates(files, &mut found);
    let of: BTreeMap<&str, &Crate> = all.iter().map(|one| (one.name.as_str(), one)).collect();
    for one in &all {
        let Some((_, may)) = LAYERS.iter().find(|(layer, _)| *layer == one.layer) else {
            found.push(format!("{}:1: `{}` is no layer", one.path, one.layer));
            continue;
        };
        for (line, used) in &one.uses {
            let Some(other) = of.get(used.as_str()) else {
                found.push(format!("{}:{line}: no folder of a layer has {used}", one.path));
                continue;
            };
            let only = RULES.iter().find(|(from, to, _)| (*from, *to) == (&*one.layer, &*other.layer));
            if other.layer != one.layer && !may.contains(&&*other.layer) {
                found.push(format!("{}:{line}: `{}` may not use `{}`", one.path, one.layer, other.layer));
            } else if let Some((from, to, only)) = only
                && !only.contains(&&*one.name)
            {
                found.push(format!("{}:{line}: of `{from}` only {only:?} may use `{to}`", one.path));
            }
        }
        for (line, library) in one.terminal.iter().filter(|_| one.name != TERMINAL.1) {
            found.push(format!("{}:{line}: only {} may use {library}", one.path, TERMINAL.1));
        }
        let mut uses = Vec::new();
        reached(&one.name, &of, &mut uses);
        for (_, other) in APART.iter().filter(|(layer, other)| *layer == one.layer && uses.contains(other)) {
            found.push(format!("{}:1: {} must not reach {other}", one.path, one.name));
        }
        if uses.contains(&C) && (WITHOUT_C.contains(&&*one.layer) || WITHOUT_C.contains(&&*one.name)) {
            found.push(format!("{}:1: {} must compile no C, and uses {C}", one.path, one.name));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(path: &str, uses: &[&str]) -> File {
        let lines: String = uses.iter().map(|name| format!("weir-{name}.workspace = true\n")).collect();
        let text =
            format!("[dependencies]\nthiserror = \"2\"\n{lines}\n[dev-dependencies]\nweir-lab.workspace = true\n");
        File { path: format!("crates/{path}/Cargo.toml"), text }
    }

    #[test]
    fn arrows_against_the_layers_are_refused() {
        let files = [
            manifest("model/units", &[]),
            manifest("decide/alloc", &["units"]),
            manifest("packet/datapath", &["alloc"]),
            manifest("simulate/sim", &["datapath", "linux"]),
            manifest("host/linux", &["sim", "datapath"]),
            manifest("host/lab", &["sim", "results"]),
            manifest("simulate/results", &["gone"]),
            manifest("other", &[]),
            manifest("serve/status", &["alloc"]),
            manifest("odd/other", &[]),
        ];
        let expected = [
            "crates/other/Cargo.toml:1: not a crate in the folder of a layer",
            "crates/simulate/sim/Cargo.toml:4: `simulate` may not use `host`",
            "crates/host/linux/Cargo.toml:3: of `host` only [\"lab\"] may use `simulate`",
            "crates/host/linux/Cargo.toml:1: linux must not reach sim",
            "crates/host/lab/Cargo.toml:1: lab must not reach sim",
            "crates/simulate/results/Cargo.toml:3: no folder of a layer has gone",
            "crates/odd/other/Cargo.toml:1: `odd` is no layer",
        ];
        assert_eq!(check(&files), expected);
    }

    #[test]
    fn libraries_of_the_front_use_no_daemon_and_no_terminal() {
        let mut answers = manifest("front/answers", &["alloc", "linux", "status"]);
        answers.text = answers.text.replace("thiserror = \"2\"", "clap.workspace = true\nclap-less = \"1\"");
        let mut cli = manifest("front/cli", &["answers", "linux", "status"]);
        cli.text = cli.text.replace("thiserror = \"2\"", "signal-hook = { version = \"0.4\" }");
        let others = ["decide/alloc", "host/linux", "serve/status"].map(|path| manifest(path, &[]));
        let files: Vec<File> = [answers, cli].into_iter().chain(others).collect();
        let expected = [
            "crates/front/answers/Cargo.toml:5: of `front` only [\"cli\"] may use `host`",
            "crates/front/answers/Cargo.toml:6: of `front` only [\"cli\"] may use `serve`",
            "crates/front/answers/Cargo.toml:2: only cli may use clap",
        ];
        assert_eq!(check(&files), expected);
    }

    #[test]
    fn pure_crates_that_reach_the_packet_path_are_refused() {
        let files = [
            manifest("packet/datapath", &[]),
            manifest("decide/shaping", &["datapath"]),
            manifest("serve/status", &["shaping"]),
        ];
        let expected = [
            "crates/decide/shaping/Cargo.toml:3: `decide` may not use `packet`",
            "crates/decide/shaping/Cargo.toml:1: shaping must compile no C, and uses datapath",
            "crates/serve/status/Cargo.toml:1: status must compile no C, and uses datapath",
        ];
        assert_eq!(check(&files), expected);
    }
}
