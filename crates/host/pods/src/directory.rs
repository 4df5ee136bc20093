//! [`Directory`]: reading and writing of records.
//!
//! The directory belongs to its writers' user, who alone may read it. A record that cannot be read is reported beside
//! those that can: one bad file does not hide the pods of a host.

use crate::record::{ATTACHMENT, Attachment, FORMAT, JSON, LABELS, Labels, NameError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The bytes of a record. The store of the API server limits an object to 1.5 MB, its labels among it, and JSON may
/// escape bytes.
const RECORD: u64 = 1 << 22;
/// The letters that a temporary name has beyond that of its record: two dots, a process id of up to ten digits, `.new`.
pub(crate) const TEMPORARY: usize = 16;

/// The directory of records.
#[derive(Debug, Clone)]
pub struct Directory {
    path: PathBuf,
}

/// All records of a directory, in the order of the names of their files.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Records {
    /// The interfaces of pods.
    pub attachments: Vec<Attachment>,
    /// The labels of pods.
    pub labels: Vec<Labels>,
    /// Files that have the name of a record and are none: the name, and why.
    pub refused: Vec<(String, String)>,
}

/// Why records cannot be written or listed.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// A record that no file can be named after.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The file system.
    #[error("{what} {}: {cause}", path.display())]
    Io {
        /// `write`, `remove` or `list`.
        what: &'static str,
        /// The file or the directory.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
}

impl Directory {
    /// The records at a path, [`DIRECTORY`](crate::DIRECTORY) by default. It need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the record of an interface, in place of an earlier one.
    ///
    /// # Errors
    /// A name that a file cannot have, or the file system.
    pub fn write_attachment(&self, record: &Attachment) -> Result<(), RecordsError> {
        self.write(&record.file_name()?, record)
    }

    /// Writes the labels of a pod, in place of earlier ones.
    ///
    /// # Errors
    /// A name that a file cannot have, or the file system.
    pub fn write_labels(&self, record: &Labels) -> Result<(), RecordsError> {
        self.write(&record.file_name()?, record)
    }

    /// Removes the record of a container's interface. Returns whether there was one.
    ///
    /// # Errors
    /// A name that a file cannot have, or the file system.
    pub fn remove_attachment(&self, container: &str, interface: &str) -> Result<bool, RecordsError> {
        self.remove(&Attachment::file_name_of(container, interface)?)
    }

    /// Removes the labels of a pod. Returns whether there were any.
    ///
    /// # Errors
    /// A name that a file cannot have, or the file system.
    pub fn remove_labels(&self, namespace: &str, name: &str) -> Result<bool, RecordsError> {
        self.remove(&Labels::file_name_of(namespace, name)?)
    }

    /// Removes those files of a reading that have the name of a record of labels and are none. Returns their number.
    ///
    /// # Errors
    /// The file system.
    pub fn remove_damaged_labels(&self, records: &Records) -> Result<usize, RecordsError> {
        let mut count = 0;
        for (name, _) in records.refused.iter().filter(|(name, _)| name.starts_with(LABELS)) {
            count += usize::from(self.remove(name)?);
        }
        Ok(count)
    }

    /// The record of a container's interface, if there is one.
    ///
    /// # Errors
    /// A name that a file cannot have, or a file that is no such record.
    pub fn read_attachment(&self, container: &str, interface: &str) -> Result<Option<Attachment>, RecordsError> {
        let path = self.path.join(Attachment::file_name_of(container, interface)?);
        match read(&path).map_err(io::Error::other) {
            Ok(record) => Ok(Some(record)),
            Err(_) if matches!(fs::symlink_metadata(&path), Err(cause) if cause.kind() == io::ErrorKind::NotFound) => {
                Ok(None)
            }
            Err(cause) => Err(RecordsError::Io { what: "read", path, cause }),
        }
    }

    /// Writes a file to the directory and removes it.
    ///
    /// # Errors
    /// The file system.
    pub fn try_write(&self) -> Result<(), RecordsError> {
        let path = self.path.join(format!(".probe.{}.new", std::process::id()));
        let open = || OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let written = self.create().and_then(|()| open()).and_then(|_| fs::remove_file(&path));
        written.map_err(|cause| RecordsError::Io { what: "write", path, cause })
    }

    /// All records. A directory that does not exist has none.
    ///
    /// # Errors
    /// A directory that cannot be listed. Files that cannot be read are in [`Records::refused`].
    pub fn read_all(&self) -> Result<Records, RecordsError> {
        let error = |cause| RecordsError::Io { what: "list", path: self.path.clone(), cause };
        let entries = match fs::read_dir(&self.path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Records::default()),
            entries => entries.map_err(error)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            // No record has a name of other characters than those of UTF-8.
            names.extend(entry.map_err(error)?.file_name().into_string().ok());
        }
        names.retain(|name| name.ends_with(JSON));
        names.sort_unstable();
        let mut records = Records::default();
        for name in names {
            let read = if name.starts_with(ATTACHMENT) {
                let of = |record: &Attachment| record.file_name();
                self.take(&name, of).map(|record| records.attachments.extend(record))
            } else if name.starts_with(LABELS) {
                let of = |record: &Labels| record.file_name();
                self.take(&name, of).map(|record| records.labels.extend(record))
            } else {
                Ok(())
            };
            if let Err(cause) = read {
                records.refused.push((name, cause));
            }
        }
        Ok(records)
    }

    /// The record in a file, which has to have the name that follows from the record; none if it has been removed.
    fn take<T: DeserializeOwned>(
        &self,
        name: &str,
        of: impl Fn(&T) -> Result<String, NameError>,
    ) -> Result<Option<T>, String> {
        let path = self.path.join(name);
        let record = match read(&path) {
            // Removed since the list was made.
            Err(_) if !path.exists() => return Ok(None),
            record => record?,
        };
        match of(&record) {
            Ok(own) if own == name => Ok(Some(record)),
            Ok(own) => Err(format!("it has the record of {own}")),
            Err(error) => Err(error.to_string()),
        }
    }

    fn write(&self, name: &str, record: &impl Serialize) -> Result<(), RecordsError> {
        let path = self.path.join(name);
        let error = |cause| RecordsError::Io { what: "write", path: path.clone(), cause };
        let mut text = serde_json::to_vec_pretty(record).map_err(|cause| error(cause.into()))?;
        text.push(b'\n');
        self.create().map_err(error)?;
        let temporary = self.path.join(format!(".{name}.{}.new", std::process::id()));
        // Left by an earlier process with this process id.
        match fs::remove_file(&temporary) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(error(cause)),
            _ => {}
        }
        let open = |path: &Path| OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let written = open(&temporary).and_then(|mut file| file.write_all(&text));
        let written = written.and_then(|()| fs::rename(&temporary, &path));
        written.map_err(|cause| {
            // The first error is reported; there may be nothing to remove.
            let _ = fs::remove_file(&temporary);
            error(cause)
        })
    }

    /// Creates the directory for its user alone; directories above it are readable, as systemd creates them.
    fn create(&self) -> io::Result<()> {
        if let Ok(found) = fs::metadata(&self.path)
            && found.is_dir()
        {
            return self.narrow(&found);
        }
        if let Some(parent) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
        }
        match DirBuilder::new().mode(0o700).create(&self.path) {
            // By another writer meanwhile.
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            created => created,
        }
    }

    /// Takes the permissions of others from an empty directory of this user: the kubelet makes a directory that a
    /// container mounts readable for all. A directory with files may have another purpose, and stays as it is.
    fn narrow(&self, found: &fs::Metadata) -> io::Result<()> {
        // SAFETY: plain system call without arguments.
        let own = found.uid() == unsafe { libc::geteuid() };
        // With one of the upper bits, as of /tmp, an administrator chose the permissions.
        let is_wider = found.mode() & 0o077 != 0 && found.mode() & 0o7000 == 0;
        if own && is_wider && fs::read_dir(&self.path)?.next().is_none() {
            fs::set_permissions(&self.path, fs::Permissions::from_mode(0o700))?;
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<bool, RecordsError> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(cause) => Err(RecordsError::Io { what: "remove", path, cause }),
        }
    }
}

/// The version that every record of every format has.
#[derive(Deserialize)]
struct Version {
    pod: u32,
}

/// Reads a record, or gives the reason why it is none.
fn read<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let mut text = Vec::new();
    // A pipe under the name of a record would otherwise block the reader.
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(|error| error.to_string())?;
    if !file.metadata().is_ok_and(|of| of.is_file()) {
        return Err("it is not a regular file".into());
    }
    File::take(file, RECORD + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > RECORD {
        return Err(format!("it is longer than {RECORD} bytes"));
    }
    let Version { pod } = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if pod != FORMAT {
        return Err(format!("its format is {pod}, and this version of Weir reads {FORMAT}"));
    }
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}
