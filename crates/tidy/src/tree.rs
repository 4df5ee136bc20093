//! The files of the tree: what git tracks, or, in an unpacked archive, what lies in the directories that hold sources.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of the tree.
#[derive(Debug, Clone)]
pub struct File {
    /// Path below the root, with `/`.
    pub path: String,
    /// Content; empty where it is not UTF-8.
    pub text: String,
}

/// Directories and files at the root that are built or written, not sources.
const BUILT: [&str; 3] = ["target", "out", ".git"];

/// All text files below `root`: tracked ones, and new ones that git does not ignore.
///
/// # Errors
/// A directory or file that cannot be read.
pub fn files(root: &Path) -> io::Result<Vec<File>> {
    let paths = tracked(root).map_or_else(|| walked(root), Ok)?;
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let Ok(bytes) = std::fs::read(root.join(&path)) else { continue };
        let text = String::from_utf8(bytes).unwrap_or_default();
        files.push(File { path: path.to_string_lossy().replace('\\', "/"), text });
    }
    Ok(files)
}

/// What git lists; `None` without git or outside a work tree.
fn tracked(root: &Path) -> Option<Vec<PathBuf>> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"];
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let list = String::from_utf8(output.stdout).ok()?;
    Some(list.split('\0').filter(|path| !path.is_empty()).map(PathBuf::from).collect())
}

/// Every file below `root` outside of [`BUILT`].
fn walked(root: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut found, mut open) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(root.join(&directory))? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            if BUILT.iter().any(|built| path == Path::new(built)) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                open.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}
