//! Atomic replacement of a file.
//!
//! A reader gets the old content or the new content, also after a crash: the new content is written
//! to a temporary file in the same directory, which is then renamed.
//!
//! Other users may have write permission for the directory. So the temporary file is created with
//! `O_EXCL`: through a symbolic link planted under its name, root would overwrite the link's
//! target.
//!
//! Only the owner has write permission for the new file, whatever the umask is: no other process appends to it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The mode of a file without secrets.
const READABLE: u32 = 0o644;

/// Replaces the file. After a crash of the host the old content may reappear.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    replace(path, content, READABLE, |_| Ok(()))
}

/// Replaces the file. The new content survives a crash of the host once this has returned.
pub fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    write_and_sync(path, content, READABLE)
}

/// The same with permissions for the owner only.
pub(crate) fn write_secretly(path: &Path, content: &[u8]) -> io::Result<()> {
    write_and_sync(path, content, 0o600)
}

fn write_and_sync(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    replace(path, content, mode, File::sync_all)?;
    sync_directory(path)
}

/// Syncs the directory of `path`, so that the file's name survives a crash of the host.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

fn replace(path: &Path, content: &[u8], mode: u32, sync: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
    };
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.new", std::process::id()));
    let temporary = path.with_file_name(hidden);
    // Left by an earlier process with this process id. Removing a link does not affect its target.
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // O_CREAT with O_EXCL does not follow a link that was planted since.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
    let written = file.write_all(content).and_then(|()| sync(&file));
    let replaced = written.and_then(|()| std::fs::rename(&temporary, path));
    if replaced.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_link_is_not_followed_and_no_temporary_file_remains() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("victim"), "whole").expect("written");
        let planted = [format!(".m1.json.{}.new", std::process::id()), "m1.new".into(), "m1.json".into()];
        for name in &planted {
            std::os::unix::fs::symlink(at("victim"), at(name)).expect("a link");
        }
        for _ in 0..2 {
            write(&at("m1.json"), b"new").expect("written");
            write_durably(&at("m1.json"), b"new").expect("written");
        }
        assert_eq!(std::fs::read_to_string(at("victim")).expect("there"), "whole");
        assert_eq!(std::fs::read_to_string(at("m1.json")).expect("there"), "new");
        assert!(!at(&planted[0]).exists());
        write(&at("nowhere").join("m1.json"), b"").expect_err("no directory");
    }
}
