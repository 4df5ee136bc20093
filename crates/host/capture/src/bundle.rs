//! The file of a bundle: a tar archive with a manifest.
//!
//! `MANIFEST` has one line for each source: SHA-256, size, number of redactions, name, and source, between tabs. A
//! source that could not be read has `-` for the first three, and the reason behind its source.

use crate::redact::Redactor;
use crate::sources::Item;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The name of the list of all files.
pub const MANIFEST: &str = "MANIFEST";

/// A file of a bundle, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its path in the archive.
    pub name: String,
    /// The file or the command that it is from.
    pub source: String,
    /// Its text, or why there is none.
    pub content: Result<String, String>,
    /// The number of secrets that were removed.
    pub redactions: usize,
}

/// The files of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// In the order of the archive.
    pub files: Vec<File>,
}

impl Bundle {
    /// Removes the secrets of all items.
    pub fn of(items: &[Item]) -> Self {
        let texts = items.iter().flat_map(|item| [item.source.as_str(), text(&item.content)]);
        let redactor = Redactor::of(texts);
        let file = |item: &Item| {
            let (source, in_source) = redactor.redact(&item.source);
            let (content, in_content) = redactor.redact(text(&item.content));
            let content = if item.content.is_ok() { Ok(content) } else { Err(content) };
            File { name: item.name.clone(), source, content, redactions: in_source + in_content }
        };
        Self { files: items.iter().map(file).collect() }
    }

    /// The text of `MANIFEST`.
    pub fn manifest(&self) -> String {
        let mut text = "# sha256\tbytes\tredactions\tname\tsource\n".to_owned();
        for File { name, source, content, redactions } in &self.files {
            let line = match content {
                Ok(content) => format!("{}\t{}\t{redactions}\t{name}\t{source}", sha256(content), content.len()),
                Err(reason) => format!("-\t-\t-\t{name}\t{source}: {}", reason.replace('\n', " ")),
            };
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// Writes a new file that only its owner can read, with `seconds` since 1970 as the time of all files. A file that
    /// is not whole is removed.
    ///
    /// # Errors
    /// The file exists, or cannot be written.
    pub fn write(&self, path: &Path, seconds: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        self.archive(file, seconds).and_then(|file| file.sync_all()).inspect_err(|_| {
            // The first error is reported.
            let _ = fs::remove_file(path);
        })
    }

    fn archive<W: Write>(&self, to: W, seconds: u64) -> io::Result<W> {
        let mut archive = tar::Builder::new(to);
        let mut append = |name: &str, text: &str| {
            let mut header = tar::Header::new_ustar();
            header.set_size(text.len() as u64);
            header.set_mode(0o600);
            header.set_mtime(seconds);
            archive.append_data(&mut header, name, text.as_bytes())
        };
        append(MANIFEST, &self.manifest())?;
        for file in &self.files {
            if let Ok(content) = &file.content {
                append(&file.name, content)?;
            }
        }
        archive.into_inner()
    }
}

/// The content, or why there is none.
fn text(content: &Result<String, String>) -> &str {
    match content {
        Ok(text) | Err(text) => text,
    }
}

fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Read as _;
    use std::os::unix::fs::MetadataExt as _;

    fn item(name: &str, content: Result<&str, &str>) -> Item {
        let content = content.map(str::to_owned).map_err(str::to_owned);
        Item { name: name.to_owned(), source: format!("/etc/{name}"), content }
    }

    /// The files of an archive.
    fn read(path: &Path) -> BTreeMap<String, String> {
        let mut archive = tar::Archive::new(fs::File::open(path).expect("there"));
        let entries = archive.entries().expect("an archive").map(|entry| {
            let mut entry = entry.expect("an entry");
            let name = entry.path().expect("a path").display().to_string();
            let mut text = String::new();
            entry.read_to_string(&mut text).expect("text");
            (name, text)
        });
        entries.collect()
    }

    #[test]
    fn archive_has_all_files_and_their_digests() {
        let items = [item("a.conf", Ok("password=Mellon77\n")), item("b", Ok("Mellon77")), item("c", Err("not there"))];
        let bundle = Bundle::of(&items);
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("bundle.tar");
        bundle.write(&path, 1_796_000_000).expect("written");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        let files = read(&path);
        assert_eq!(files.keys().collect::<Vec<_>>(), ["MANIFEST", "a.conf", "b"]);
        assert_eq!((files["a.conf"].as_str(), files["b"].as_str()), ("password=[redacted]\n", "[redacted]"));
        let lines: Vec<Vec<&str>> = files[MANIFEST].lines().skip(1).map(|line| line.split('\t').collect()).collect();
        for line in &lines[..2] {
            assert_eq!((line[0], line[2]), (sha256(&files[line[3]]).as_str(), "1"), "{line:?}");
        }
        assert_eq!(lines[2], ["-", "-", "-", "c", "/etc/c: not there"]);
    }

    #[test]
    fn existing_file_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("bundle.tar");
        fs::write(&path, "mine").expect("written");
        let error = Bundle::of(&[]).write(&path, 0).expect_err("there");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).expect("there"), "mine");
    }
}
