//! `--write`: puts a changed text into the policy's file.
//!
//! Problem: the file is an operator's work, and may be in use. Approach: [`weir_policy::Policy`]
//! changes only the necessary part and proves it; the file is then replaced as a whole, with its
//! permissions, and only if it has not changed since it was read. A name that is a link stays one.

use crate::error::CommandError;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_document::Source;
use weir_policy::language;

/// A policy's file as it was read.
pub(crate) struct PolicyFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

/// A changed line: its number, its old and its new text. One of them is `None` for an added or
/// removed line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChangedLine {
    pub(crate) number: usize,
    pub(crate) was: Option<String>,
    pub(crate) is: Option<String>,
}

impl PolicyFile {
    /// Reads a file, following links, so that it can be written back.
    pub(crate) fn read(path: &Path) -> Result<(Self, Arc<Source>), CommandError> {
        if path == Path::new("-") {
            return Err(CommandError::refused("standard input cannot be written back").hint("name the policy's file"));
        }
        let source = Source::read(path, language::MAX_FILE)?;
        let real = fs::canonicalize(path).map_err(|error| CommandError::cannot_write(path, error))?;
        let bytes = fs::read(&real).map_err(|error| CommandError::cannot_write(&real, error))?;
        Ok((Self { path: real, bytes }, source))
    }

    /// Replaces the file, unless it has changed since it was read.
    pub(crate) fn replace(&self, text: &str) -> Result<Vec<ChangedLine>, CommandError> {
        let mark = if self.bytes.starts_with(MARK) { MARK } else { b"" };
        let old = String::from_utf8_lossy(&self.bytes[mark.len()..]);
        let lines = changed_lines(&old, text);
        if lines.is_empty() {
            return Ok(lines);
        }
        let cannot = |error: std::io::Error| CommandError::cannot_write(&self.path, error);
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let mut beside = tempfile::NamedTempFile::new_in(directory).map_err(cannot)?;
        beside.write_all(mark).and_then(|()| beside.write_all(text.as_bytes())).map_err(cannot)?;
        let permissions = fs::metadata(&self.path).map_err(cannot)?.permissions();
        beside.as_file().set_permissions(permissions).and_then(|()| beside.as_file().sync_all()).map_err(cannot)?;
        if fs::read(&self.path).map_err(cannot)? != self.bytes {
            let path = self.path.display();
            return Err(CommandError::failed(format!("`{path}` was changed while the plan was made"))
                .hint("run the command again"));
        }
        beside.persist(&self.path).map_err(|error| cannot(error.error))?;
        Ok(lines)
    }
}

/// A byte order mark in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The lines between the common beginning and the common end of two texts.
fn changed_lines(old: &str, new: &str) -> Vec<ChangedLine> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let alike = |(a, b): &(&&str, &&str)| a == b;
    let before = old.iter().zip(&new).take_while(alike).count();
    let after = old[before..].iter().rev().zip(new[before..].iter().rev()).take_while(alike).count();
    let (old, new) = (&old[before..old.len() - after], &new[before..new.len() - after]);
    let line = |lines: &[&str], index: usize| lines.get(index).map(|line| line.trim_end_matches('\r').to_owned());
    (0..old.len().max(new.len()))
        .map(|index| ChangedLine { number: before + index + 1, was: line(old, index), is: line(new, index) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_policy::Policy;
    use weir_units::{Bandwidth, ContentionPoint, PerDirection};

    const TEXT: &str = "weir: 1\r\nnetwork: { nic: 1Gb/s, racks: { r1: { uplink: 1Gb/s, machines: [m1] } } }\r\n\
                        services: { s: { match: [ { port: 1 } ] } }\r\ncaps: { rack: 1Gb/s } # é\r\n";

    fn file(directory: &Path, text: &str) -> (PathBuf, PolicyFile, Policy) {
        let path = directory.join("policy.yaml");
        fs::write(&path, text).expect("written");
        let (file, source) = PolicyFile::read(&path).expect("read");
        (path, file, Policy::from_source(&source).expect("sound").0)
    }

    /// Writes a cap of 700 Mb/s.
    fn write(file: &PolicyFile, policy: &Policy, point: ContentionPoint) -> Result<Vec<ChangedLine>, CommandError> {
        let cap = PerDirection::both(Some(Bandwidth::from_mbps(700)));
        file.replace(&policy.write_cap(point, cap).expect("sound").0)
    }

    /// A byte order mark and the line ends of another system stay.
    #[test]
    fn every_byte_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let text = format!("\u{feff}{TEXT}");
        let (path, file, policy) = file(directory.path(), &text);
        let lines = write(&file, &policy, ContentionPoint::Machine).expect("written");
        assert_eq!((lines.len(), lines[0].number), (1, 4));
        let written = fs::read_to_string(&path).expect("text");
        assert_eq!(written, text.replace("{ rack: 1Gb/s", "{ machine: 700Mb/s, rack: 1Gb/s"));
    }

    #[test]
    fn changed_file_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, file, policy) = file(directory.path(), TEXT);
        fs::write(&path, "theirs").expect("written");
        assert!(write(&file, &policy, ContentionPoint::Rack).is_err());
        assert_eq!(fs::read_to_string(&path).expect("text"), "theirs");
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 1, "no other file is left");
    }

    #[test]
    fn lines_that_differ() {
        let shown = |old: &str, new: &str| {
            let lines = changed_lines(old, new);
            let line = |line: ChangedLine| (line.number, line.was.unwrap_or_default(), line.is.unwrap_or_default());
            lines.into_iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(shown("a\nb\nc\n", "a\nB\nc\n"), [(2, "b".to_owned(), "B".to_owned())]);
        assert_eq!(shown("a\nc\n", "a\nb\nc\n"), [(2, String::new(), "b".to_owned())]);
        assert_eq!(shown("a", "a\nb\n"), [(2, String::new(), "b".to_owned()), (3, String::new(), String::new())]);
        assert_eq!(shown("a\r\n", "b\r\n"), [(1, "a".to_owned(), "b".to_owned())]);
        assert!(shown("a\n", "a\n").is_empty());
    }
}
