//! Times in which a processor ran no program, or none but those of the highest priority.
//!
//! Problem: a real-time test may fail since a processor of a virtual machine stood still for seconds. The kernel does
//! not always count such a time as `steal` ([`crate::steal`]). Approach: on each processor a thread of the highest
//! ordinary priority sleeps for [`SLEEP`]; a sleep that ends more than [`SHOWN`] late was a standstill. Real-time
//! priorities are not permitted in every control group. Without root nothing is measured.
//!
//! A failure counts all the same, as with stolen time; its line shows where to look first.
//!
//! Worked example: a thread should wake up at 10.02 s and does so at 14.32 s: a standstill of 4.3 s, which every test
//! counts that ran at any time between.
#![expect(clippy::disallowed_methods, reason = "a measurement of real time")]

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A standstill is noticed when it is longer than this; 50 wake-ups a second cost a processor less than 0.1 %.
const SLEEP: Duration = Duration::from_millis(20);
/// Shorter standstills are not recorded. A thread of this priority waits for the slices of the running tests (3 ms
/// each); where the kernel shares processors among sessions first, as long as the weights of its own session (1024) and
/// of theirs (9548) say: 30 ms for each.
pub(crate) const SHOWN: Duration = Duration::from_millis(200);

static STANDSTILLS: Mutex<Vec<Standstill>> = Mutex::new(Vec::new());

#[derive(Debug, Clone, Copy)]
struct Standstill {
    until: Instant,
    length: Duration,
}

/// Watches all processors until the end of the process.
pub(crate) fn watch() {
    // SAFETY: plain system call.
    let processors = usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap_or(0);
    for processor in 0..processors {
        std::thread::spawn(move || {
            if is_permitted(processor) {
                watch_one();
            }
        });
    }
}

/// The longest standstill of a processor that ended after `start`.
pub(crate) fn longest_since(start: Instant) -> Duration {
    longest(&STANDSTILLS.lock().unwrap_or_else(PoisonError::into_inner), start)
}

fn longest(standstills: &[Standstill], start: Instant) -> Duration {
    standstills.iter().filter(|standstill| standstill.until > start).map(|one| one.length).max().unwrap_or_default()
}

/// Binds the calling thread to a processor and gives it the highest ordinary priority, which the kernel sets by thread.
fn is_permitted(processor: usize) -> bool {
    // SAFETY: an all-zero set is valid; the call reads it while it lives.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) == 0
            && libc::setpriority(libc::PRIO_PROCESS, 0, -20) == 0
    }
}

fn watch_one() -> ! {
    loop {
        let begun = Instant::now();
        std::thread::sleep(SLEEP);
        let length = begun.elapsed().saturating_sub(SLEEP);
        if length > SHOWN {
            let one = Standstill { until: Instant::now(), length };
            STANDSTILLS.lock().unwrap_or_else(PoisonError::into_inner).push(one);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_counts_standstills_that_ended_while_it_ran() {
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let one = |until: f64, length: f64| Standstill { until: at(until), length: Duration::from_secs_f64(length) };
        let all = [one(2.0, 0.5), one(14.32, 4.3), one(20.0, 0.2)];
        assert_eq!(longest(&all, at(0.0)), Duration::from_secs_f64(4.3));
        // It began in the middle of a standstill.
        assert_eq!(longest(&all, at(12.0)), Duration::from_secs_f64(4.3));
        assert_eq!(longest(&all, at(15.0)), Duration::from_secs_f64(0.2));
        assert_eq!(longest(&all, at(21.0)), Duration::ZERO);
    }
}
