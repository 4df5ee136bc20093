//! The runs and the datacenters of published experiments, on threads: their values and figures.
//!
//! Problem: an experiment is up to some tens of runs of very different lengths, `--all` is all of
//! them, and a user needs all cores busy and no results lost to Ctrl-C. Approach: every run with
//! every seed is a job of one pool, whatever its experiment is, and so is every datacenter that is
//! filled with tenants; a job keeps readings and lines of figures and frees its packets' results at
//! once, whether or not its files can be written. Other values are computed afterwards, when no run
//! takes the processor: some of them are times of a computation.
//!
//! Worked example: two experiments of three runs, one of them with two seeds, are seven jobs; after Ctrl-C in the
//! fifth, the values of the first four are known and the others have no reading.

mod figures;

pub use figures::Drawing;

use crate::papers::Papers;
use crate::pool::{self, Event, PointEnd, Status, run_all};
use crate::sweep::{Setting as Change, command};
use crate::{Stop, Stopwatch, results, run_files, text};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use weir_experiment::figure::Line;
use weir_experiment::{Experiment, Outcome, Reading, RunData, Setting, Verdict, compute, datacenter, outcomes};
use weir_results::{FileError, ResultsDirectory};
use weir_scenario::Scenario;
use weir_sim::{Options, Progress, RunOutcome};

/// The reason why experiments have no results.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentsError {
    /// Threads that cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(std::io::Error),
}

/// The results of one backend for an experiment.
#[derive(Debug)]
pub struct BackendRun {
    /// `sim` or `lab`.
    pub backend: &'static str,
    /// The first seed.
    pub seed: u64,
    /// By value of the experiment; `None` for values that this backend does not measure.
    pub outcomes: Vec<Option<Outcome>>,
    /// By figure.
    pub figures: Vec<Drawing>,
    /// Whether everything was run to its end.
    pub complete: bool,
    /// Runs that failed, and why.
    pub failures: Vec<String>,
    /// The names of runs whose files cannot be written, with the reasons. Their results are among the outcomes.
    pub unwritten: Vec<(String, FileError)>,
    /// Wall-clock seconds.
    pub wall_s: f64,
}

impl BackendRun {
    /// Whether all compared values agree.
    pub fn agrees(&self) -> bool {
        let is_fine = |outcome: &Outcome| matches!(outcome.verdict, Verdict::Shown | Verdict::Agrees);
        self.failures.is_empty() && self.outcomes.iter().flatten().all(is_fine)
    }
}

/// All runs of experiments in the simulator.
#[derive(Debug)]
pub struct Work<'a> {
    /// The tree that the experiments were read from.
    pub papers: &'a Papers,
    /// The experiments.
    pub experiments: Vec<&'a Experiment>,
    /// Quick or full.
    pub setting: Setting,
    /// The first seed of every run, if not the scenario's.
    pub seed: Option<u64>,
    /// The directory of the runs' files.
    pub directory: Option<&'a Path>,
    /// Ends the runs under way early.
    pub stop: &'a Stop,
}

/// The subject of a job: an index into an experiment's runs or datacenters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Run(usize),
    Datacenter(usize),
}

/// One run or one datacenter with one seed.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    experiment: usize,
    subject: Subject,
    /// The index of the seed.
    seed: u32,
}

/// The results of a job.
struct Done {
    job: Job,
    /// By value of this run or datacenter.
    readings: Vec<(usize, Option<Reading>)>,
    /// By figure that shows it; only of the first seed.
    lines: Vec<(usize, Vec<Line>)>,
    complete: bool,
    /// Why its files cannot be written.
    unwritten: Option<FileError>,
}

impl Work<'_> {
    /// Runs all `jobs`, `cores` at a time; one result for each experiment. `on` is called on this thread after each
    /// event, several times a second while jobs run; its status has the indices of jobs.
    ///
    /// # Errors
    /// Threads that cannot be started.
    pub fn run(
        &self,
        jobs: &[Job],
        cores: usize,
        on: &mut dyn FnMut(&Status),
    ) -> Result<Vec<BackendRun>, ExperimentsError> {
        let clock = Stopwatch::start();
        // By experiment: when its first run began and its last one ended.
        let mut times: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        let done: Mutex<Vec<Done>> = Mutex::new(Vec::new());
        let mut failures: Vec<(usize, String)> = Vec::new();
        let indices: Vec<usize> = (0..jobs.len()).collect();
        let mut status = Status::new(jobs.len());
        let work = |index: usize, step: &mut dyn FnMut(Progress)| self.one(jobs[index], step, &done);
        let threads = run_all(&indices, cores, &Stop::new(), &work, &mut |event| {
            status.on(&event);
            match event {
                Event::Started(index) => {
                    times.entry(jobs[index].experiment).or_insert((clock.seconds(), 0.0));
                }
                Event::Step(..) => {}
                Event::Ended(index, ended) => {
                    let experiment = jobs[index].experiment;
                    if let Some(times) = times.get_mut(&experiment) {
                        times.1 = clock.seconds();
                    }
                    if let PointEnd::Failed(cause) = ended {
                        failures.push((experiment, format!("{}: {}", self.name(jobs[index]), cause.trim_end())));
                    }
                }
            }
            on(&status);
        });
        threads.map_err(ExperimentsError::Threads)?;
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        let unwritten = done.iter_mut().filter_map(|done| Some((done.job, done.unwritten.take()?)));
        let mut unwritten: Vec<(Job, FileError)> = unwritten.collect();
        let mut all = Vec::new();
        for experiment in 0..self.experiments.len() {
            let done: Vec<&Done> = done.iter().filter(|done| done.job.experiment == experiment).collect();
            let own: Vec<String> =
                failures.iter().filter(|(of, _)| *of == experiment).map(|(_, cause)| cause.clone()).collect();
            let jobs = jobs.iter().filter(|job| job.experiment == experiment).count();
            let (from, to) = times.get(&experiment).copied().unwrap_or_default();
            let not_written = unwritten.extract_if(.., |(job, _)| job.experiment == experiment);
            let unwritten = not_written.map(|(job, error)| (self.name(job), error)).collect();
            all.push(BackendRun { unwritten, ..self.gather(experiment, &done, jobs, own, to - from) });
        }
        Ok(all)
    }

    /// Every run and every datacenter with every seed. Those of long experiments come first: a long run that begins
    /// last keeps one core busy and leaves the others idle.
    pub fn jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for (experiment, of) in self.experiments.iter().enumerate() {
            for (run, of) in of.runs.iter().enumerate() {
                if of.scenario.get(self.setting).lab_only().is_some() {
                    continue;
                }
                let subject = Subject::Run(run);
                jobs.extend((0..*of.seeds.get(self.setting)).map(|seed| Job { experiment, subject, seed }));
            }
            for (datacenter, of) in of.datacenters.iter().enumerate() {
                let subject = Subject::Datacenter(datacenter);
                jobs.extend((0..*of.seeds.get(self.setting)).map(|seed| Job { experiment, subject, seed }));
            }
        }
        // The sort is stable: within an experiment the file's order remains.
        jobs.sort_by_key(|job| Reverse(*self.experiments[job.experiment].takes.get(self.setting)));
        jobs
    }

    fn scenario(&self, experiment: usize, run: usize) -> &Scenario {
        self.experiments[experiment].runs[run].scenario.get(self.setting)
    }

    fn seed(&self, job: Job) -> u64 {
        let first = self.seed.unwrap_or_else(|| match job.subject {
            Subject::Run(run) => self.scenario(job.experiment, run).seed(),
            Subject::Datacenter(_) => datacenter::FIRST_SEED,
        });
        first.wrapping_add(u64::from(job.seed))
    }

    /// `parley-table3 none-50`, with the seed where there are several.
    pub fn name(&self, job: Job) -> String {
        let experiment = self.experiments[job.experiment];
        let (name, seeds) = match job.subject {
            Subject::Run(run) => (&experiment.runs[run].name, &experiment.runs[run].seeds),
            Subject::Datacenter(at) => (&experiment.datacenters[at].name, &experiment.datacenters[at].seeds),
        };
        match *seeds.get(self.setting) {
            1 => format!("{} {name}", experiment.id),
            _ => format!("{} {name} seed {}", experiment.id, self.seed(job)),
        }
    }

    fn one(&self, job: Job, step: &mut dyn FnMut(Progress), done: &Mutex<Vec<Done>>) -> PointEnd {
        if self.stop.is_requested() {
            return PointEnd::Interrupted;
        }
        let seed = self.seed(job);
        let run = match job.subject {
            Subject::Run(run) => run,
            Subject::Datacenter(datacenter) => {
                let filled = self.fill(job, datacenter, seed);
                done.lock().unwrap_or_else(PoisonError::into_inner).push(filled);
                return PointEnd::Complete;
            }
        };
        let scenario = self.scenario(job.experiment, run);
        let mut on = |now: Option<Progress>| now.into_iter().for_each(&mut *step);
        let outcome = match pool::simulate(scenario, seed, &Options::default(), self.stop, &mut on) {
            Ok(outcome) => outcome,
            Err(ended) => return ended,
        };
        let interrupted = outcome.interrupted;
        let mut read = self.read(job, run, &outcome);
        if let Some(directory) = self.directory_of(job, run) {
            read.unwritten = self.write(job, run, outcome, &directory).err();
        }
        done.lock().unwrap_or_else(PoisonError::into_inner).push(read);
        if interrupted { PointEnd::Interrupted } else { PointEnd::Complete }
    }

    /// The readings and lines that the experiment takes from a datacenter.
    fn fill(&self, job: Job, datacenter: usize, seed: u64) -> Done {
        let experiment = self.experiments[job.experiment];
        let filled = experiment.datacenters[datacenter].fill(seed);
        let values = experiment.values.iter().enumerate();
        let own = values.filter(|(_, value)| value.measure.datacenter() == Some(datacenter));
        let readings = own.map(|(index, value)| (index, datacenter::reading(&value.measure, &filled))).collect();
        let figures = experiment.figures.iter().enumerate().filter(|_| job.seed == 0);
        let lines = figures.map(|(index, figure)| (index, figure.kind.lines_of_datacenter(datacenter, &filled)));
        let lines = lines.filter(|(_, lines)| !lines.is_empty()).collect();
        Done { job, readings, lines, complete: true, unwritten: None }
    }

    /// The readings and lines that the experiment takes from a run.
    fn read(&self, job: Job, run: usize, outcome: &RunOutcome) -> Done {
        let experiment = self.experiments[job.experiment];
        let data = RunData {
            scenario: self.scenario(job.experiment, run),
            services: &outcome.uplink,
            results: Some(&outcome.results),
            // A run that ended early since it had no work left is a whole run.
            until: if outcome.interrupted {
                outcome.results.simulated.duration()
            } else {
                self.scenario(job.experiment, run).duration()
            },
        };
        let of_run = &experiment.runs[run];
        let values = experiment.values.iter().enumerate();
        let own = values.filter(|(_, value)| value.measure.run() == Some(run));
        let readings = own.map(|(index, value)| (index, data.reading(of_run, &value.measure, self.setting))).collect();
        let figures = experiment.figures.iter().enumerate().filter(|_| job.seed == 0);
        let lines = figures.map(|(index, figure)| (index, figure.kind.lines(run, &data, self.setting)));
        let lines = lines.filter(|(_, lines)| !lines.is_empty()).collect();
        Done { job, readings, lines, complete: !outcome.interrupted, unwritten: None }
    }

    fn directory_of(&self, job: Job, run: usize) -> Option<PathBuf> {
        let experiment = self.experiments[job.experiment];
        let run = &experiment.runs[run];
        let mut directory = self.directory?.to_owned();
        if self.experiments.len() > 1 {
            directory.push(&experiment.id);
        }
        let seeds = *run.seeds.get(self.setting);
        let seed = if seeds > 1 { format!("-seed-{}", self.seed(job)) } else { String::new() };
        directory.push("runs");
        directory.push(format!("{}{seed}", run.name));
        Some(directory)
    }

    fn write(&self, job: Job, run: usize, outcome: RunOutcome, directory: &Path) -> Result<(), FileError> {
        let scenario = self.scenario(job.experiment, run);
        let run = &self.experiments[job.experiment].runs[run];
        let (set, seed) = (run.set.get(self.setting), self.seed(job));
        let start = format!("weir sim {}", text::shell_word(&self.papers.in_tree(&run.path).display().to_string()));
        let changes: Vec<Change> =
            set.iter().map(|(path, value)| Change { path: path.clone(), value: value.clone() }).collect();
        let command = format!("{} --seed {seed}", command(&start, &changes));
        ResultsDirectory::prepare(directory, true)?;
        run_files::write(directory, &results::simulated(scenario, outcome, set), &command)?;
        Ok(())
    }

    /// An experiment's result from its jobs, and its values without a run.
    fn gather(&self, experiment: usize, done: &[&Done], jobs: usize, failures: Vec<String>, ran: f64) -> BackendRun {
        let of = self.experiments[experiment];
        let clock = Stopwatch::start();
        let reading = |index: usize| -> Option<Reading> {
            let value = &of.values[index];
            let (subject, seeds) = match (value.measure.run(), value.measure.datacenter()) {
                (Some(run), _) => (Subject::Run(run), &of.runs[run].seeds),
                (None, Some(at)) => (Subject::Datacenter(at), &of.datacenters[at].seeds),
                (None, None) => return compute::value(&value.measure, self.setting, &|| clock.seconds()).ok(),
            };
            let mut readings: Vec<(u32, Reading)> = Vec::new();
            for done in done.iter().filter(|done| done.job.subject == subject) {
                let (_, reading) = done.readings.iter().find(|(value, _)| *value == index)?;
                readings.push((done.job.seed, (*reading)?));
            }
            // A mean of fewer runs than requested is another value. In the order of seeds, since
            // sums of floats depend on it.
            readings.sort_unstable_by_key(|(index, _)| *index);
            let all = readings.len() == *seeds.get(self.setting) as usize;
            let readings: Vec<Reading> = readings.into_iter().map(|(_, reading)| reading).collect();
            Reading::mean(&readings).filter(|_| all)
        };
        let measured: Vec<Option<Reading>> = (0..of.values.len()).map(reading).collect();
        let lines = |figure: usize| {
            let mut lines: Vec<(usize, Vec<Line>)> = Vec::new();
            for done in done {
                let own = done.lines.iter().filter(|(of, _)| *of == figure);
                // A figure shows runs, or else a datacenter.
                let (Subject::Run(of) | Subject::Datacenter(of)) = done.job.subject;
                lines.extend(own.map(|(_, lines)| (of, lines.clone())));
            }
            lines
        };
        let outcomes = outcomes(of, &measured);
        let figures = 0..of.figures.len();
        let figures = figures.map(|figure| Drawing::new(of, figure, &lines(figure), &outcomes, self.setting)).collect();
        // Values of real programs are measured in the lab.
        let real = |value: &weir_experiment::Value| {
            let run = value.measure.run().map(|run| &of.runs[run]);
            run.is_some_and(|run| run.scenario.get(self.setting).lab_only().is_some())
        };
        let seed = of.runs.first().map_or(datacenter::FIRST_SEED, |run| run.scenario.get(self.setting).seed());
        BackendRun {
            backend: "sim",
            seed: self.seed.unwrap_or(seed),
            outcomes: outcomes
                .into_iter()
                .zip(&of.values)
                .map(|(outcome, value)| (!real(value)).then_some(outcome))
                .collect(),
            figures,
            complete: done.len() == jobs && done.iter().all(|done| done.complete),
            failures,
            unwritten: Vec::new(),
            wall_s: ran + clock.seconds(),
        }
    }
}
