//! The builds: test binaries by name, each as soon as cargo has built it.

use crate::process::{BACKGROUND, Groups, with_priority};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A test binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binary {
    /// `weir/agent`: the package and the test target; `weir-fabric/lib` and `weir/bin` have the unit tests.
    pub(crate) name: String,
    pub(crate) executable: PathBuf,
    /// The directory of its package, in which its tests run.
    pub(crate) directory: PathBuf,
}

/// Which binaries are built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Targets {
    /// These integration tests, before all else. They are built as part of the workspace, with its
    /// features, so that [`Targets::All`] builds nothing twice.
    Tests(Vec<String>),
    /// All of the workspace, beside tests that run.
    All,
}

/// The cargo executable: `$CARGO`, which `cargo run` sets, else `cargo`.
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// A command without cargo's variables for this package: build scripts depend on them and would run again.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
        {
            command.env_remove(name);
        }
    }
    command
}

/// Builds `targets`, and hands each binary over when it is built. Returns whether all were built;
/// cargo has printed why not.
pub(crate) fn build(targets: &Targets, groups: &Groups, mut built: impl FnMut(Binary)) -> io::Result<bool> {
    let mut command = command(cargo());
    command.args(["test", "--workspace", "--locked", "--no-run", "--message-format=json-render-diagnostics"]);
    match targets {
        Targets::Tests(names) => {
            for name in names {
                command.args(["--test", name]);
            }
        }
        Targets::All => {}
    }
    // In a session of its own, which ends as a whole when the run is interrupted.
    with_priority(&mut command, if *targets == Targets::All { BACKGROUND } else { 0 });
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let _registered = groups.register(child.id());
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            built_by(&line?).into_iter().for_each(&mut built);
        }
    }
    Ok(child.wait()?.success())
}

/// Returns the test binary of a compiler-artifact message, if any.
fn built_by(line: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let target = match message["target"]["kind"][0].as_str()? {
        "test" => message["target"]["name"].as_str()?,
        kind => kind,
    };
    Some(Binary { name: format!("{}/{target}", package(message["package_id"].as_str()?)?), executable, directory })
}

/// The name in a package's id: `path+file:///work/crates/cli#weir@0.1.0`, or `...crates/weir#0.1.0`
/// where the directory has its name.
fn package(id: &str) -> Option<&str> {
    let (path, rest) = id.split_once('#')?;
    match rest.split_once('@') {
        Some((name, _)) => Some(name),
        None => path.rsplit('/').next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_binaries_are_found_among_cargos_messages() {
        let line = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/cli#weir@0.1.0",
            "manifest_path":"/w/crates/front/cli/Cargo.toml","target":{"kind":["test"],"name":"agent"},
            "profile":{"test":true},"executable":"/w/target/debug/deps/agent-1"}"#;
        let binary = built_by(line).unwrap();
        assert_eq!(
            (binary.name.as_str(), binary.directory.as_path()),
            ("weir/agent", Path::new("/w/crates/front/cli"))
        );
        let unit = line.replace(r#"["test"]"#, r#"["lib"]"#).replace("#weir@0.1.0", "#0.1.0");
        assert_eq!(built_by(&unit).unwrap().name, "cli/lib");
        assert_eq!(built_by(&line.replace(r#""test":true"#, r#""test":false"#)), None);
        assert_eq!(built_by(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
