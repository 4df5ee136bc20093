//! Epochs: a number that increases with every start of a broker.
//!
//! Problem: a receiver must distinguish a restarted broker, whose rounds begin at zero again, from
//! a replayed message. Approach: the epoch is the time of day in nanoseconds, or the last epoch
//! plus one if the clock was set back. The last epoch is kept in a file, which is replaced
//! atomically, so that it holds the old or the new number after a crash.
//!
//! Worked example: the last epoch is 900. At a clock of 1000 the next epoch is 1000; at a clock
//! that was set back to 500 it is 901.

use super::replace;
use std::io;
use std::path::Path;

/// Returns the next epoch, after storing it in `file` in the directory `state`. It also exceeds
/// `above`: the epochs of other hosts, where the caller has them.
pub fn next(state: &Path, file: &str, above: u64) -> io::Result<u64> {
    std::fs::create_dir_all(state)?;
    let file = state.join(file);
    let last = match std::fs::read_to_string(&file) {
        Ok(text) => text.trim().parse::<u64>().map_err(|_| {
            let reason = format!("{} does not hold a number; delete it if the clock is right", file.display());
            io::Error::new(io::ErrorKind::InvalidData, reason)
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    let epoch = time_of_day().max(last.max(above).saturating_add(1));
    replace::write_durably(&file, format!("{epoch}\n").as_bytes())?;
    Ok(epoch)
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
        let elsewhere = u64::MAX / 2;
        assert_eq!(next(state.path(), "epoch", elsewhere).expect("an epoch"), elsewhere + 1);
        assert_eq!(next(state.path(), "epoch", 0).expect("an epoch"), elsewhere + 2, "it is stored");
    }

    #[test]
    fn damaged_file_is_an_error() {
        let state = tempfile::tempdir().expect("a directory");
        std::fs::write(state.path().join("epoch-m1"), "7 apples").expect("written");
        let error = next(state.path(), "epoch-m1", 0).expect_err("no number");
        assert!(error.to_string().contains("does not hold a number"), "{error}");
    }
}
