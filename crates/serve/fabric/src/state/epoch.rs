//! Epochs: a number that increases with every start of a broker.
//!
//! Problem: a receiver must distinguish a restarted broker, whose rounds begin at zero again, from
//! a replayed message. Approach: the epoch is the time of day in nanoseconds, or the last epoch
//! plus one if the clock was set back. The last epoch is kept in a file, which is replaced
//! atomically, so that it holds the old or the new number after a crash.
//!
//! The file may be lost or damaged, or the clock may have been ahead once. Then the number goes down, and the hosts
//! that received the higher one send it back (`weir_control::epoch`).
//!
//! Worked example: the last epoch is 900. At a clock of 1000 the next epoch is 1000; at a clock
//! that was set back to 500 it is 901.

use super::replace;
use std::io;
use std::path::{Path, PathBuf};
use tracing::warn;
use weir_control::LARGEST_CLAIM;

/// The largest number that a file may have. A notice leads to [`LARGEST_CLAIM`] and one more; after that only starts
/// increase it.
const LARGEST: u64 = LARGEST_CLAIM + (1 << 32);

/// Returns the next epoch, after storing it in `file` in the directory `state`. It also exceeds
/// `above`: the epochs of other hosts, where the caller has them.
///
/// A file without a usable number is logged and replaced.
///
/// # Errors
///
/// The directory or the file cannot be read or written. [`io::ErrorKind::InvalidData`] if `above` leaves no number.
pub fn next(state: &Path, file: &str, above: u64) -> io::Result<u64> {
    let (file, last) = last(state, file)?;
    let next = last.max(above).checked_add(1).filter(|next| *next <= LARGEST).ok_or_else(|| {
        let reason = format!(
            "no epoch is left above {above}, which another host stored: remove it there (for brokers of \
                              a cluster the key `epoch` in etcd), and {}; then restart all",
            file.display()
        );
        io::Error::new(io::ErrorKind::InvalidData, reason)
    })?;
    let epoch = time_of_day().max(next);
    replace::write_durably(&file, format!("{epoch}\n").as_bytes())?;
    Ok(epoch)
}

/// Stores an epoch that is in force already, unless the file has a higher one: the next start has a higher one than
/// both.
///
/// # Errors
///
/// The directory or the file cannot be read or written.
pub fn raise(state: &Path, file: &str, epoch: u64) -> io::Result<()> {
    let (file, last) = last(state, file)?;
    if epoch > last { replace::write_durably(&file, format!("{epoch}\n").as_bytes()) } else { Ok(()) }
}

/// The path of the file, and the number in it; 0 without a usable one.
fn last(state: &Path, file: &str) -> io::Result<(PathBuf, u64)> {
    std::fs::create_dir_all(state)?;
    let file = state.join(file);
    let text = match std::fs::read(&file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((file, 0)),
        Err(error) => return Err(error),
    };
    let has = match text.parse::<u64>() {
        Ok(number) if number <= LARGEST => return Ok((file, number)),
        Ok(_) => "has a number that no start reaches",
        Err(_) if text.is_empty() => "is empty",
        Err(_) => "does not have a number",
    };
    warn!(
        "{} {has} in place of that of the last start: the time of day takes its place, and a higher one if other hosts \
         have received one",
        file.display()
    );
    Ok((file, 0))
}

#[expect(clippy::disallowed_methods, reason = "daemons are drivers: they give the time to the core")]
fn time_of_day() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch_increases_when_the_clock_is_set_back() {
        let state = tempfile::tempdir().expect("a directory");
        let first = next(state.path(), "epoch-m1", 0).expect("an epoch");
        let future = first + 1_000_000_000_000_000;
        std::fs::write(state.path().join("epoch-m1"), future.to_string()).expect("written");
        assert_eq!(next(state.path(), "epoch-m1", 0).expect("an epoch"), future + 1);
        assert!(next(state.path(), "epoch-m2", 0).expect("an epoch") < future);
        let files = std::fs::read_dir(state.path()).expect("a directory").count();
        assert_eq!(files, 2, "no temporary file is left");
    }

    #[test]
    fn epoch_exceeds_the_given_minimum() {
        let state = tempfile::tempdir().expect("a directory");
        let elsewhere = LARGEST_CLAIM - 1;
        assert_eq!(next(state.path(), "epoch", elsewhere).expect("an epoch"), elsewhere + 1);
        assert_eq!(next(state.path(), "epoch", 0).expect("an epoch"), elsewhere + 2, "it is stored");
    }

    #[test]
    fn a_file_without_a_usable_number_is_replaced() {
        let state = tempfile::tempdir().expect("a directory");
        let file = state.path().join("epoch-m1");
        let above = u64::MAX.to_string();
        for text in ["", "\n", "7 apples", "-1", "\u{fffd}", &above, &(LARGEST + 1).to_string()] {
            std::fs::write(&file, text).expect("written");
            let before = time_of_day();
            let epoch = next(state.path(), "epoch-m1", 0).expect("an epoch");
            assert!((before..=time_of_day()).contains(&epoch), "`{text}` leads to {epoch}");
            assert_eq!(std::fs::read_to_string(&file).expect("text"), format!("{epoch}\n"));
        }
        std::fs::write(&file, [0xff, 0xfe]).expect("written");
        assert!(next(state.path(), "epoch-m1", 0).is_ok());
        // The largest claim of another host, and the starts after it.
        std::fs::write(&file, (LARGEST_CLAIM + 1).to_string()).expect("written");
        assert_eq!(next(state.path(), "epoch-m1", 0).expect("an epoch"), LARGEST_CLAIM + 2);
    }

    #[test]
    fn no_number_is_used_twice_at_the_end() {
        let state = tempfile::tempdir().expect("a directory");
        for above in [LARGEST, u64::MAX] {
            let error = next(state.path(), "epoch", above).expect_err("no number is left");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(error.to_string().contains("epoch; then restart all"), "{error}");
        }
        assert_eq!(next(state.path(), "epoch", LARGEST - 1).expect("the last one"), LARGEST);
        assert!(next(state.path(), "epoch", 0).is_err());
    }

    #[test]
    fn a_raised_epoch_is_stored_and_never_lowered() {
        let state = tempfile::tempdir().expect("a directory");
        let future = time_of_day() + 1_000_000_000_000_000;
        raise(state.path(), "epoch-m1", future).expect("stored");
        raise(state.path(), "epoch-m1", 5).expect("stored");
        assert_eq!(next(state.path(), "epoch-m1", 0).expect("an epoch"), future + 1);
    }
}
