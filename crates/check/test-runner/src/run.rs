//! The loop: builds, starts what may run, and reports what has ended.
//!
//! All state belongs to the loop; threads send it built binaries and ended processes.
#![expect(clippy::disallowed_methods, reason = "the runner is a driver: threads wait for processes, in real time")]

use crate::busy::Busy;
use crate::cargo::{Binary, Targets, build};
use crate::inventory::{Job, jobs, list};
use crate::lateness::Lateness;
use crate::loads::{Expected, Loads, PURE};
use crate::options::{Options, processors};
use crate::process::{self, Ended, Groups};
use crate::report::{Report, load};
use crate::sandbox;
use crate::schedule::Schedule;
use crate::standstill;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// The table of real-time tests, from the root of the tree.
const LOADS: &str = "tools/realtime-tests";
/// How often the loop looks for an interrupt.
const LOOK: Duration = Duration::from_millis(200);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn interrupt(_signal: i32) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

enum Event {
    Built(Binary),
    /// The build has ended; whether it succeeded.
    BuildEnded(io::Result<bool>),
    JobEnded(usize, io::Result<Ended>),
}

struct Run<'a> {
    options: &'a Options,
    root: PathBuf,
    logs: PathBuf,
    loads: Loads,
    sandboxed: bool,
    groups: Groups,
    sender: Sender<Event>,
    /// All jobs; others name them by index.
    jobs: Vec<Job>,
    schedule: Schedule,
    background: VecDeque<usize>,
    running: BTreeMap<usize, Instant>,
    /// The tests of each built binary of the table, and no names for other binaries.
    seen: BTreeMap<String, Vec<String>>,
    building: bool,
    /// No build has failed.
    built: bool,
    /// Real-time tests may run: all builds before them have ended.
    begun: bool,
    report: Report,
    measured: BTreeMap<(String, String), Expected>,
}

/// Runs the selected tests and commands. Returns the exit status.
pub(crate) fn run(options: &Options) -> io::Result<u8> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: the handler only stores to an atomic.
        unsafe { libc::signal(signal, interrupt as extern "C" fn(i32) as libc::sighandler_t) };
    }
    let started = Instant::now();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize()?;
    let logs =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("test-logs");
    let _lock = clear(&logs)?;
    let text = std::fs::read_to_string(root.join(LOADS))?;
    let loads = Loads::parse(&text).map_err(|error| io::Error::other(format!("{LOADS}: {error}")))?;
    let (sender, receiver) = channel();
    let sandboxed = sandbox::is_possible();
    // One by one in full, with their strict bounds; and without namespaces of their own, where
    // tests would collide.
    let budget = if sandboxed && !options.soak { options.budget } else { 0 };
    let mut run = Run {
        options,
        root,
        logs,
        loads,
        sandboxed,
        groups: Groups::default(),
        sender,
        jobs: Vec::new(),
        schedule: Schedule::new(budget),
        background: VecDeque::new(),
        running: BTreeMap::new(),
        seen: BTreeMap::new(),
        building: false,
        built: true,
        begun: false,
        report: Report::default(),
        measured: BTreeMap::new(),
    };
    standstill::watch();
    let idle = options.soak.then(Lateness::measure);
    let busy = Busy::start(options.busy)?;
    let finished = run.all(&receiver)?;
    drop(busy);
    if let Some(before) = idle {
        println!("the machine before the run: {before}\nafter it: {}", Lateness::measure());
    }
    if finished {
        run.check_selection();
        run.write_measured()?;
    }
    let passed = run.report.close(started.elapsed(), finished);
    Ok(match (finished, passed) {
        (false, _) => 130,
        (true, true) => 0,
        (true, false) => 1,
    })
}

/// Empties the directory of logs, and locks it: two runs would overwrite each other's.
fn clear(logs: &Path) -> io::Result<File> {
    std::fs::create_dir_all(logs)?;
    let lock = File::create(logs.join("lock"))?;
    lock.try_lock().map_err(|_| io::Error::other(format!("another run writes its logs to {}", logs.display())))?;
    for entry in std::fs::read_dir(logs)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            std::fs::remove_file(path)?;
        }
    }
    Ok(lock)
}

/// After an error or a panic, too, no process outlives the run.
impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.groups.stop();
    }
}

impl Run<'_> {
    /// Returns false if the run was interrupted.
    fn all(&mut self, receiver: &Receiver<Event>) -> io::Result<bool> {
        let targets = self.realtime_targets();
        if self.options.realtime && !targets.is_empty() {
            self.build(Targets::Tests(targets));
            if !self.until(receiver, |run| !run.building)? {
                return Ok(false);
            }
        }
        self.begun = !self.options.soak;
        // Where that build failed, the next one would, too.
        let needs_all = self.options.pure
            || self.loads.binaries().iter().any(|name| is_unit(name) && !self.seen.contains_key(*name));
        if self.report.is_clean() && needs_all {
            self.build(Targets::All);
        }
        if !self.until(receiver, |run| !run.building)? {
            return Ok(false);
        }
        let commands = self.options.beside.clone();
        commands.into_iter().for_each(|command| self.add(Job::Command(command)));
        if self.options.pure && self.options.words.is_empty() {
            self.add(Job::Doc);
        }
        if !self.begun {
            // Real-time tests in full need a quiet machine.
            if !self.until(receiver, |run| run.is_idle())? {
                return Ok(false);
            }
            self.begun = true;
        }
        if !self.until(receiver, |run| run.is_done())? {
            return Ok(false);
        }
        let tests: Vec<Job> = self.jobs.iter().filter(|job| matches!(job, Job::Realtime { .. })).cloned().collect();
        for round in 2..=self.options.repeat {
            println!("round {round} of {}", self.options.repeat);
            tests.iter().for_each(|test| self.add(test.clone()));
            if !self.until(receiver, |run| run.is_done())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A selection that matches no test, and a row of the table without a test, are failures: a
    /// test that is renamed would lose its namespaces or would not run.
    fn check_selection(&mut self) {
        let options = self.options;
        if self.jobs.is_empty() && !options.words.is_empty() {
            self.report.fail(&format!("the selection: no name contains {}", options.words.join(" or ")));
        }
        // Whether or not a test failed: a stale row must not wait for a run without failures.
        if options.words.is_empty() && self.built {
            for row in self.loads.unmatched(&self.seen) {
                self.report.fail(&format!("{LOADS}: there is no test {row}"));
            }
        }
    }

    /// The integration tests of the table.
    fn realtime_targets(&self) -> Vec<String> {
        let names = self.loads.binaries().into_iter().filter(|name| !is_unit(name));
        let targets: BTreeSet<&str> = names.filter_map(|name| name.split_once('/')).map(|(_, target)| target).collect();
        targets.into_iter().map(str::to_owned).collect()
    }

    fn build(&mut self, targets: Targets) {
        self.building = true;
        let (sender, groups) = (self.sender.clone(), self.groups.clone());
        std::thread::spawn(move || {
            // The receiver is gone after an interrupt.
            let built = build(&targets, &groups, |binary| drop(sender.send(Event::Built(binary))));
            drop(sender.send(Event::BuildEnded(built)));
        });
    }

    /// Handles events until `done`; false after an interrupt.
    fn until(&mut self, receiver: &Receiver<Event>, done: impl Fn(&Run<'_>) -> bool) -> io::Result<bool> {
        loop {
            self.start();
            if done(self) {
                return Ok(true);
            }
            if INTERRUPTED.load(Ordering::Relaxed) {
                self.interrupt(receiver);
                return Ok(false);
            }
            match receiver.recv_timeout(LOOK) {
                Ok(Event::Built(binary)) => self.take(&binary)?,
                Ok(Event::BuildEnded(built)) => {
                    self.building = false;
                    if !built? {
                        self.built = false;
                        self.report.fail("the build");
                    }
                }
                Ok(Event::JobEnded(index, ended)) => self.end(index, &ended?),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("no thread is left")),
            }
        }
    }

    /// Ends all processes and waits for their ends.
    fn interrupt(&mut self, receiver: &Receiver<Event>) {
        println!("interrupted: ending {} processes", self.running.len() + usize::from(self.building));
        self.schedule.stop();
        self.background.clear();
        self.groups.stop();
        while !self.running.is_empty() || self.building {
            match receiver.recv() {
                Ok(Event::JobEnded(index, _)) => drop(self.running.remove(&index)),
                Ok(Event::BuildEnded(_)) => self.building = false,
                Ok(Event::Built(_)) => {}
                Err(_) => return,
            }
        }
    }

    /// Takes the jobs of a binary that was built.
    fn take(&mut self, binary: &Binary) -> io::Result<()> {
        if self.seen.contains_key(&binary.name) {
            return Ok(());
        }
        let listed = self.loads.binaries().contains(&binary.name.as_str());
        let tests = if listed { list(binary, &self.groups)? } else { Vec::new() };
        jobs(binary, listed.then_some(&tests), &self.loads, self.options).into_iter().for_each(|job| self.add(job));
        self.seen.insert(binary.name.clone(), tests);
        Ok(())
    }

    fn add(&mut self, job: Job) {
        let index = self.jobs.len();
        self.report.expect_another();
        match &job {
            Job::Realtime { expected, .. } => self.schedule.add(index, *expected),
            // They need cargo's lock, one after the other, and take longest.
            Job::Command(_) | Job::Doc => {
                let first =
                    self.background.iter().filter(|index| !matches!(self.jobs[**index], Job::Pure { .. })).count();
                self.background.insert(first, index);
            }
            Job::Pure { binary, .. } => {
                let seconds = |index: usize| match &self.jobs[index] {
                    Job::Pure { binary, .. } => self.loads.pure_seconds(&binary.name),
                    _ => u32::MAX,
                };
                let own = self.loads.pure_seconds(&binary.name);
                let first = self.background.iter().filter(|index| seconds(**index) >= own).count();
                self.background.insert(first, index);
            }
        }
        self.jobs.push(job);
    }

    fn is_done(&self) -> bool {
        self.is_idle() && self.schedule.is_done()
    }

    /// Whether nothing runs, and nothing but real-time tests is left.
    fn is_idle(&self) -> bool {
        !self.building && self.background.is_empty() && self.running.is_empty()
    }

    /// Starts all that may run now. Real-time tests wait for the first build, which takes all
    /// processors; the others for all builds.
    fn start(&mut self) {
        let is_realtime = |run: &Self, index: usize| matches!(run.jobs[index], Job::Realtime { .. });
        let in_background = self.running.keys().filter(|index| !is_realtime(self, **index)).count();
        if !self.building {
            // One for each processor.
            for _ in in_background..processors() {
                let Some(index) = self.next_in_background() else { break };
                self.spawn(index);
            }
        }
        while self.begun
            && let Some(index) = self.schedule.start()
        {
            self.spawn(index);
        }
    }

    /// The next job of the background, of which one at a time needs cargo's lock.
    fn next_in_background(&mut self) -> Option<usize> {
        let needs_lock = |index: &usize| matches!(self.jobs[*index], Job::Command(_) | Job::Doc);
        let locked = self.running.keys().any(needs_lock);
        let position = self.background.iter().position(|index| !(locked && needs_lock(index)))?;
        self.background.remove(position)
    }

    fn spawn(&mut self, index: usize) {
        let job = &self.jobs[index];
        let name: String =
            job.name().chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).take(150).collect();
        let log = self.logs.join(format!("{name}-{index}.log"));
        let command = job.command(&self.root, self.options, self.sandboxed);
        let (priority, limit) = (job.priority(), job.limit(self.options));
        let (sender, groups) = (self.sender.clone(), self.groups.clone());
        self.running.insert(index, Instant::now());
        std::thread::spawn(move || {
            // The receiver is gone after an interrupt.
            drop(sender.send(Event::JobEnded(index, process::run(command, priority, &log, limit, &groups))));
        });
    }

    fn end(&mut self, index: usize, ended: &Ended) {
        self.running.remove(&index);
        let job = self.jobs[index].clone();
        let mut running: Vec<(&usize, &Instant)> = self.running.iter().collect();
        running.sort_by_key(|(_, started)| **started);
        let running: Vec<String> = running.into_iter().map(|(index, _)| self.jobs[*index].name()).collect();
        self.report.ended(&job, ended, &job.rerun(self.options), &running);
        self.schedule.ended(index);
        let seconds = ended.wall.as_secs_f64().ceil() as u32;
        let key = match job {
            Job::Realtime { binary, test, .. } => (binary.name, test),
            // The order of shorter ones does not matter.
            Job::Pure { binary, .. } if seconds >= 10 => (binary.name, PURE.to_owned()),
            _ => return,
        };
        let percent = (load(ended.wall, ended.cpu) * 100.0).ceil() as u32;
        let row = self.measured.entry(key).or_insert(Expected { load: 0, seconds: 0 });
        *row = Expected { load: row.load.max(percent), seconds: row.seconds.max(seconds) };
    }

    fn write_measured(&self) -> io::Result<()> {
        let Some(path) = &self.options.measured else { return Ok(()) };
        std::fs::write(path, self.loads.with(&self.measured).text())
    }
}

/// Whether a name of the table stands for unit tests.
fn is_unit(name: &str) -> bool {
    name.ends_with("/lib") || name.ends_with("/bin")
}
