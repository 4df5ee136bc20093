//! The version of the Debian package: `tools/deb-version.sh` in a repository of the test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const RELEASED: &str = "# Changes\n\n## [Unreleased]\n\n## [0.2.0] - 2026-10-01\n\n- a change\n";

/// A repository with this list of changes and the script, all committed.
fn repository(name: &str, changes: &str) -> PathBuf {
    let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if tree.exists() {
        fs::remove_dir_all(&tree).expect("an earlier run's is removed");
    }
    fs::create_dir_all(tree.join("tools")).expect("made");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tools/deb-version.sh");
    fs::copy(script, tree.join("tools/deb-version.sh")).expect("copied");
    fs::write(tree.join("CHANGELOG.md"), changes).expect("written");
    git(&tree, &["init", "--quiet"]);
    git(&tree, &["add", "."]);
    git(&tree, &["-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "--quiet", "--message", "all"]);
    tree
}

fn git(tree: &Path, arguments: &[&str]) {
    let status = Command::new("git").arg("-C").arg(tree).args(arguments).status().expect("git");
    assert!(status.success(), "git {arguments:?}");
}

/// The version that the script prints, without the day.
fn version(tree: &Path) -> String {
    let output = Command::new(tree.join("tools/deb-version.sh")).output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    text.split_once(' ').expect("a version and a day").0.to_owned()
}

/// Whether dpkg takes the second version for an upgrade of the first.
fn is_upgrade(from: &str, to: &str) -> bool {
    Command::new("dpkg").args(["--compare-versions", from, "lt", to]).status().expect("dpkg").success()
}

#[test]
fn a_tree_without_unreleased_changes_has_the_version_of_the_release() {
    assert_eq!(version(&repository("released", RELEASED)), "0.2.0-1");
}

#[test]
fn unreleased_and_uncommitted_changes_have_later_versions() {
    let changes = RELEASED.replace("[Unreleased]\n", "[Unreleased]\n\n- another\n");
    let tree = repository("unreleased", &changes);
    let committed = version(&tree);
    assert!(committed.starts_with("0.2.0+git2") && !committed.contains("dirty"), "{committed}");
    fs::write(tree.join("new"), "").expect("written");
    let dirty = version(&tree);
    assert!(dirty.contains(".dirty"), "{dirty}");
    let order = ["0.2.0-1", &committed, &dirty, "0.2.1-1"];
    for pair in order.windows(2) {
        assert!(is_upgrade(pair[0], pair[1]), "{pair:?}");
    }
}
