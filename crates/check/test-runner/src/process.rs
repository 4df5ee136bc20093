//! One process with its log, time limit and measured load.
#![expect(
    clippy::disallowed_methods,
    reason = "the runner starts processes, waits for them in real time and measures them"
)]

use crate::standstill;
use crate::steal::Ticks;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The priority of all that computes beside real-time tests. These have weights of 9548 to 335, 28
/// parts of 29 of a processor that both want, and get it at once when they wake up. A lower
/// priority would leave the build nothing beside other programs of the machine.
pub(crate) const BACKGROUND: i32 = 5;
/// The priority of real-time tests: a program of the usual priority on each processor leaves them
/// nine tenths (`sched_prio_to_weight` in the kernel: 9548 to 1024).
pub(crate) const REALTIME: i32 = -10;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Exited(i32),
    Signalled(i32),
    /// Ended after this limit.
    TimedOut(Duration),
}

/// The measurements of an ended process.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) wall: Duration,
    /// Processor time, its descendants' included.
    pub(crate) cpu: Duration,
    /// The part of all processors' time that the hypervisor took meanwhile, 0 to 1.
    pub(crate) stolen: f64,
    /// The longest time in which a processor ran no program meanwhile.
    pub(crate) standstill: Duration,
    pub(crate) log: PathBuf,
}

impl Ended {
    pub(crate) fn succeeded(&self) -> bool {
        self.outcome == Outcome::Exited(0)
    }

    pub(crate) fn output(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}

/// The process groups that run, so that all of them can be ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Groups(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    groups: BTreeSet<u32>,
    stopped: bool,
}

/// Takes its group from the list when dropped.
pub(crate) struct Registered<'a>(&'a Groups, u32);

impl Groups {
    /// Adds a group; where all have been stopped already, this one ends as well.
    pub(crate) fn register(&self, group: u32) -> Registered<'_> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.groups.insert(group);
        if state.stopped {
            kill(group, libc::SIGKILL);
        }
        Registered(self, group)
    }

    /// Ends all processes that run, and those that are registered from now on.
    pub(crate) fn stop(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.stopped = true;
        state.groups.iter().for_each(|group| kill(*group, libc::SIGKILL));
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).groups.remove(&self.1);
    }
}

fn kill(group: u32, signal: i32) {
    // SAFETY: plain system call on a group that this program started.
    unsafe { libc::kill(-(group as i32), signal) };
}

/// Has a command run in a session of its own at a priority; a higher one than the caller's needs
/// root, and is ignored without.
///
/// The kernel shares processors among sessions before it does so among processes (sched(7),
/// autogroup), so both get the priority.
pub(crate) fn with_priority(command: &mut Command, priority: i32) {
    let text = priority.to_string();
    let set = move || {
        // SAFETY: plain system calls; the path is a C string and the text lives meanwhile.
        unsafe {
            libc::setsid();
            // It ends with the thread that waits for it: no process outlives a killed runner.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::setpriority(libc::PRIO_PROCESS, 0, priority);
            let file = libc::open(c"/proc/self/autogroup".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            if file >= 0 {
                libc::write(file, text.as_ptr().cast(), text.len());
                libc::close(file);
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made, and no memory is allocated.
    unsafe { command.pre_exec(set) };
}

/// Runs a command to its end, at most for `limit`, with both outputs in the file `log`.
pub(crate) fn run(
    mut command: Command,
    priority: i32,
    log: &Path,
    limit: Duration,
    groups: &Groups,
) -> io::Result<Ended> {
    with_priority(&mut command, priority);
    let file = File::create(log)?;
    // A file, not a pipe: a descendant that keeps it open does not delay the end.
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let (started, ticks) = (Instant::now(), Ticks::now());
    let child = command.spawn()?;
    let registered = groups.register(child.id());
    let in_time = wait_until(child.id(), limit)?;
    if !in_time {
        kill(child.id(), libc::SIGKILL);
        wait_until(child.id(), Duration::MAX)?;
    }
    let (wall, stolen) = (started.elapsed(), Ticks::now().stolen_since(ticks));
    let standstill = standstill::longest_since(started);
    // Ends the rest of the process group, before the process id can be reused.
    kill(child.id(), libc::SIGKILL);
    drop(registered);
    let (status, cpu) = reap(child.id())?;
    let outcome = match status {
        _ if !in_time => Outcome::TimedOut(limit),
        status if libc::WIFEXITED(status) => Outcome::Exited(libc::WEXITSTATUS(status)),
        status => Outcome::Signalled(libc::WTERMSIG(status)),
    };
    Ok(Ended { outcome, wall, cpu, stolen, standstill, log: log.to_owned() })
}

/// Waits for the end of a child, which stays to be reaped. Returns false if it takes longer than `limit`.
fn wait_until(pid: u32, limit: Duration) -> io::Result<bool> {
    // SAFETY: plain system call on a child that has not been reaped.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let descriptor = i32::try_from(descriptor).ok().filter(|descriptor| *descriptor >= 0);
    let descriptor = descriptor.ok_or_else(io::Error::last_os_error)?;
    let end = Instant::now().checked_add(limit);
    let ended = loop {
        let left =
            end.map_or(-1, |end| i32::try_from(end.duration_since(Instant::now()).as_millis()).unwrap_or(i32::MAX));
        let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which lives during the call.
        match unsafe { libc::poll(&raw mut poll, 1, left) } {
            0 => break Ok(false),
            1.. => break Ok(true),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => break Err(error),
            },
        }
    };
    // SAFETY: the descriptor was opened above.
    unsafe { libc::close(descriptor) };
    ended
}

/// The status of a child that has ended, and the processor time of it and of its descendants.
fn reap(pid: u32) -> io::Result<(i32, Duration)> {
    let mut status = 0;
    // SAFETY: an all-zero rusage is valid; the call fills it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers live during the call.
    if unsafe { libc::wait4(pid as i32, &raw mut status, 0, &raw mut usage) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let time =
        |time: libc::timeval| Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64);
    Ok((status, time(usage.ru_utime) + time(usage.ru_stime)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Ended {
        let log = std::env::temp_dir().join(format!("weir-test-runner-{}-{}", std::process::id(), script.len()));
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let ended = run(command, 0, &log, limit, &Groups::default()).unwrap();
        let copy = Ended { log: PathBuf::new(), ..ended.clone() };
        assert!(copy.output().is_empty());
        fs::remove_file(&log).unwrap();
        ended
    }

    #[test]
    fn outcomes_are_distinguished() {
        let long = Duration::from_secs(60);
        assert_eq!(shell("exit 3", long).outcome, Outcome::Exited(3));
        assert_eq!(shell("kill -9 $$ ;:", long).outcome, Outcome::Signalled(9));
        assert_eq!(
            shell("sleep 60 & wait", Duration::from_millis(50)).outcome,
            Outcome::TimedOut(Duration::from_millis(50))
        );
    }

    #[test]
    fn a_stopped_list_ends_later_processes() {
        let groups = Groups::default();
        groups.stop();
        let mut command = Command::new("sleep");
        command.arg("60");
        let log = std::env::temp_dir().join(format!("weir-test-runner-{}-stop", std::process::id()));
        let ended = run(command, 0, &log, Duration::from_secs(60), &groups).unwrap();
        fs::remove_file(log).unwrap();
        assert_eq!(ended.outcome, Outcome::Signalled(9));
    }
}
