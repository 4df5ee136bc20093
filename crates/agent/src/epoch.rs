//! A number that grows with every start of a machine's broker.
//!
//! Problem: peers must tell a broker that restarted from a replayed datagram, although it counts its rounds
//! from zero again. Approach: the epoch is the time of day in nanoseconds, or one more than the last epoch
//! where the clock was set back meanwhile. The last one is kept in a file, replaced in one step, so that a
//! crash leaves the old or the new number and nothing between.

use std::io::{self, Write};
use std::path::Path;

/// The next epoch of `machine`, stored under `state` before it is returned.
pub fn next(state: &Path, machine: &str) -> io::Result<u64> {
    std::fs::create_dir_all(state)?;
    let file = state.join(format!("epoch-{machine}"));
    let last = match std::fs::read_to_string(&file) {
        Ok(text) => text.trim().parse::<u64>().map_err(|_| {
            let reason = format!("{} does not hold a number; delete it if the clock is right", file.display());
            io::Error::new(io::ErrorKind::InvalidData, reason)
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    let epoch = time_of_day().max(last.saturating_add(1));
    let mut temporary = tempfile_in(state, machine)?;
    writeln!(temporary.1, "{epoch}")?;
    temporary.1.sync_all()?;
    std::fs::rename(&temporary.0, &file)?;
    Ok(epoch)
}

fn tempfile_in(state: &Path, machine: &str) -> io::Result<(std::path::PathBuf, std::fs::File)> {
    let path = state.join(format!(".epoch-{machine}-{}", std::process::id()));
    Ok((path.clone(), std::fs::File::create(path)?))
}

#[expect(clippy::disallowed_methods, reason = "the agent is a driver: it gives the time to the core")]
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
        let first = next(state.path(), "m1").expect("an epoch");
        let future = first + 1_000_000_000_000_000;
        std::fs::write(state.path().join("epoch-m1"), future.to_string()).expect("written");
        assert_eq!(next(state.path(), "m1").expect("an epoch"), future + 1);
        assert!(next(state.path(), "m2").expect("an epoch") < future);
        let files = std::fs::read_dir(state.path()).expect("a directory").count();
        assert_eq!(files, 2, "no temporary file is left");
    }

    #[test]
    fn a_damaged_file_is_told() {
        let state = tempfile::tempdir().expect("a directory");
        std::fs::write(state.path().join("epoch-m1"), "7 apples").expect("written");
        let error = next(state.path(), "m1").expect_err("no number");
        assert!(error.to_string().contains("does not hold a number"), "{error}");
    }
}
