//! [`Journal`]: the entries of tenants in a file of lines, each with a tenant's newest entry.
//!
//! Problem: a change of one tenant must be on the disk before settings are sent, and a file of 10,000 tenants takes
//! long to write. Approach: changes are appended. A file of which most lines are obsolete is replaced by one with an
//! entry for each tenant, and so is one whose last line may be torn.
//!
//! Worked example: `{"tenant":"red","entry":{…}}`, then `{"tenant":"red","entry":null}`: red has none.

use super::store::{Entry, StoredTenant};
use crate::state::replace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file, under the state directory.
const FILE: &str = "tenant-queues.jsonl";
/// Obsolete lines beyond those of half of the file.
const RESERVE: usize = 1_000;

#[derive(Serialize, Deserialize)]
struct Line {
    tenant: String,
    entry: Option<StoredTenant>,
}

/// The file of entries.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    /// `None` before the first change, and after a failure.
    file: Option<File>,
    lines: usize,
}

impl Journal {
    /// The file in a directory of state, and its entries.
    pub(super) fn open(directory: &Path) -> io::Result<(Self, BTreeMap<String, StoredTenant>)> {
        let path = directory.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let mut kept = BTreeMap::new();
        for (number, line) in text.split_inclusive('\n').enumerate() {
            match serde_json::from_str::<Line>(line) {
                Ok(Line { tenant, entry: Some(entry) }) => drop(kept.insert(tenant, entry)),
                Ok(Line { tenant, entry: None }) => drop(kept.remove(&tenant)),
                // The crash of a host tore it; nothing that follows from it was sent.
                Err(_) if !line.ends_with('\n') => {}
                Err(error) => {
                    let reason = format!("{}, line {}: {error}", path.display(), number + 1);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
                }
            }
        }
        Ok((Self { path, file: None, lines: 0 }, kept))
    }

    /// Appends changes. `all` are the entries with them.
    pub(super) fn append(&mut self, changes: &[Entry], all: &BTreeMap<String, StoredTenant>) -> io::Result<()> {
        let Some(file) = self.file.as_mut().filter(|_| self.lines <= 2 * all.len() + RESERVE) else {
            return self.replace(all);
        };
        let lines = changes.iter().map(|(tenant, entry)| line(tenant, entry.as_ref()));
        let text = lines.collect::<Result<Vec<_>, _>>()?.concat();
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        if written.is_err() {
            self.file = None;
        }
        self.lines += changes.len();
        written
    }

    fn replace(&mut self, all: &BTreeMap<String, StoredTenant>) -> io::Result<()> {
        self.file = None;
        let lines = all.iter().map(|(tenant, entry)| line(tenant, Some(entry)));
        let text = lines.collect::<Result<Vec<_>, _>>()?.concat();
        replace::write_durably(&self.path, text.as_bytes())?;
        self.file = Some(OpenOptions::new().append(true).open(&self.path)?);
        self.lines = all.len();
        Ok(())
    }
}

fn line(tenant: &str, entry: Option<&StoredTenant>) -> io::Result<String> {
    let line = Line { tenant: tenant.to_owned(), entry: entry.cloned() };
    Ok(serde_json::to_string(&line).map_err(io::Error::other)? + "\n")
}
