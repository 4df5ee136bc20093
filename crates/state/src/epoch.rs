//! A number that grows with every start of a broker.
//!
//! Problem: whoever listens must tell a broker that restarted from a replayed message, although it counts its rounds
//! from zero again. Approach: the epoch is the time of day in nanoseconds, or one more than the last epoch
//! where the clock was set back meanwhile. The last one is kept in a file, replaced in one step, so that a
//! crash leaves the old or the new number and nothing between.
//!
//! Worked example: after epoch 900 at a clock of 1000 comes 1000; at a clock that was set back to 500, 901.

use crate::replace;
use std::io;
use std::path::Path;

/// The next epoch, stored in `file` under `state` before it is returned. `above` is what it must exceed besides, for
/// whoever knows of epochs that this host does not.
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
    fn grows_even_when_the_clock_goes_back() {
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
    fn exceeds_what_another_host_had() {
        let state = tempfile::tempdir().expect("a directory");
        let elsewhere = u64::MAX / 2;
        assert_eq!(next(state.path(), "epoch", elsewhere).expect("an epoch"), elsewhere + 1);
        assert_eq!(next(state.path(), "epoch", 0).expect("an epoch"), elsewhere + 2, "it is remembered");
    }

    #[test]
    fn a_damaged_file_is_told() {
        let state = tempfile::tempdir().expect("a directory");
        std::fs::write(state.path().join("epoch-m1"), "7 apples").expect("written");
        let error = next(state.path(), "epoch-m1", 0).expect_err("no number");
        assert!(error.to_string().contains("does not hold a number"), "{error}");
    }
}
