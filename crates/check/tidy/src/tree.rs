//! The files of the tree: what git tracks, or, in an unpacked archive, what lies in the directories that hold sources.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of the tree.
#[derive(Debug, Clone)]
pub struct File {
    /// Path below the root, with `/`.
    pub path: String,
    /// Content; empty for a binary file.
    pub text: String,
}

/// Directories and files at the root that are built or written, not sources.
const BUILT: [&str; 3] = ["target", "out", ".git"];
/// Files that need not be UTF-8, by the beginning or the end of their paths.
const BINARY: [&str; 2] = ["fuzz/corpus/", ".png"];

/// All files below `root`: tracked ones, and new ones that git does not ignore. A tracked file that
/// was deleted is absent.
///
/// # Errors
/// A directory or file that cannot be read, or a text file that is not UTF-8.
pub fn files(root: &Path) -> io::Result<Vec<File>> {
    let paths = tracked(root).map_or_else(|| walked(root), Ok)?;
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let name = path.to_string_lossy().replace('\\', "/");
        let bytes = match std::fs::read(root.join(&path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            read => read.map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?,
        };
        files.push(file(name, bytes)?);
    }
    Ok(files)
}

fn file(path: String, bytes: Vec<u8>) -> io::Result<File> {
    let is_binary = BINARY.iter().any(|name| path.starts_with(name) || path.ends_with(name));
    match String::from_utf8(bytes) {
        Ok(text) => Ok(File { path, text }),
        Err(_) if is_binary => Ok(File { path, text: String::new() }),
        Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, format!("{path}: {error}"))),
    }
}

/// The files that git lists; `None` without git or outside a work tree.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_not_utf8_is_an_error() {
        let bytes = || vec![b'a', 0xff];
        assert!(file("docs/a.md".to_owned(), bytes()).is_err_and(|error| error.to_string().starts_with("docs/a.md: ")));
        assert_eq!(file("fuzz/corpus/x/y".to_owned(), bytes()).expect("a binary file").text, "");
        assert_eq!(file("docs/pictures/a.png".to_owned(), bytes()).expect("a binary file").text, "");
    }
}
