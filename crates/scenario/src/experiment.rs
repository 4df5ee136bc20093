//! Published experiments as data: a scenario, and the values that a paper prints for it.
//!
//! Problem: "reproduced" means little without the published value beside the measured one, the place where it
//! stands, and how the scales relate. Approach: a file under `papers/` names a scenario and lists values, each
//! a service's mean bandwidth over a stretch of the run; a run of the scenario, whichever body made it, gives
//! the measured ones.
//!
//! Worked example: Parley Fig 14 at 1/100 of its speeds: service A's mean of 300 Mb/s between 10 and 20 s, times
//! the scale of 100, stands beside the published 30 Gb/s.

use crate::language::{MAX_DURATION, MAX_FILE};
use crate::{RunResult, Scenario};
use std::path::Path;
use weir_document::scalar::{self, Scalar};
use weir_document::shape::{Key, List, Record, Shape};
use weir_document::{Diagnostic, Diagnostics, Node, Problems, Source, check, tree};
use weir_units::{Bandwidth, Duration, ServiceId};

/// A published experiment that can be run.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The name on the command line.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// What to run.
    pub scenario: Scenario,
    /// Published rates are this many times the scenario's.
    pub scale: u64,
    /// Per cent by which a measured value may differ and still count as the published one.
    pub tolerance_percent: u64,
    /// The published values.
    pub values: Vec<PublishedValue>,
    /// What a reader of the comparison must know.
    pub notes: Vec<String>,
}

/// A service's mean bandwidth as a paper prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedValue {
    /// What it is called.
    pub metric: String,
    /// The service of the scenario.
    pub service: ServiceId,
    /// The stretch of the run, since the start of the traffic.
    pub from: Duration,
    /// Its end.
    pub to: Duration,
    /// The value, at the paper's scale.
    pub published: Bandwidth,
}

impl PublishedValue {
    /// The measured value at the paper's scale; `None` where the run has no samples of the stretch.
    pub fn measured(&self, experiment: &Experiment, result: &RunResult) -> Option<Bandwidth> {
        let mean = result.mean(self.service, self.from, self.to)?;
        Some(Bandwidth::from_bps(mean.bps().saturating_mul(experiment.scale)))
    }

    /// Whether a measured value counts as the published one.
    pub fn agrees(&self, experiment: &Experiment, measured: Bandwidth) -> bool {
        let off = u128::from(measured.bps().abs_diff(self.published.bps()));
        off * 100 <= u128::from(self.published.bps()) * u128::from(experiment.tolerance_percent)
    }
}

static VERSION: Scalar = Scalar::Words { what: "a format version that this program reads", words: &["1"] };
static TEXT: Scalar = Scalar::Text { what: "a text" };
static TIME_OR_ZERO: Scalar = Scalar::Duration { zero: true };
static TIME: Scalar = Scalar::Duration { zero: false };
static RATE: Scalar = Scalar::Rate { unlimited: false, zero: false };
static SCALE: Scalar = Scalar::Integer { what: "a scale", min: 1, max: 1_000_000 };
static TOLERANCE: Scalar = Scalar::Integer { what: "a tolerance in per cent", min: 0, max: 100 };
static NOTES: List = List { what: "a list of notes", item: Shape::Scalar(&TEXT), min: 0 };
static VALUES: List = List { what: "a list of published values", item: Shape::Record(&VALUE), min: 1 };

static VALUE: Record = Record {
    id: "value",
    what: "a published value",
    doc: "A service's mean bandwidth over a stretch of the run.",
    keys: &[
        Key::required("metric", Shape::Scalar(&TEXT), "What it is called.", "metric: A alone"),
        Key::required("service", Shape::Scalar(&TEXT), "The service of the scenario.", "service: a"),
        Key::required("from", Shape::Scalar(&TIME_OR_ZERO), "Where the stretch starts.", "from: 10s"),
        Key::required("to", Shape::Scalar(&TIME), "Where it ends.", "to: 20s"),
        Key::required("published", Shape::Scalar(&RATE), "The value as published.", "published: 30Gb/s"),
    ],
};

/// What a file under `papers/` may contain.
pub static EXPERIMENT: Record = Record {
    id: "paper",
    what: "a published experiment",
    doc: "A scenario and the values that a paper prints for it.",
    keys: &[
        Key::required("paper", Shape::Scalar(&VERSION), "The version of this format.", "paper: 1"),
        Key::required("id", Shape::Scalar(&TEXT), "The name on the command line.", "id: parley-fig14"),
        Key::required("title", Shape::Scalar(&TEXT), "What it shows.", "title: Two services share an uplink"),
        Key::required("source", Shape::Scalar(&TEXT), "Where it was published.", "source: Parley, figure 14"),
        Key::required(
            "scenario",
            Shape::Scalar(&TEXT),
            "The scenario file, relative to this file.",
            "scenario: ../scenarios/parley-fig14.scenario.yaml",
        ),
        Key::required(
            "scale",
            Shape::Scalar(&SCALE),
            "Published rates are this many times the scenario's.",
            "scale: 100",
        ),
        Key::required(
            "tolerance",
            Shape::Scalar(&TOLERANCE),
            "Per cent by which a measured value may differ.",
            "tolerance: 5",
        ),
        Key::required("values", Shape::List(&VALUES), "The published values.", "values: [ { metric: A alone } ]"),
        Key::optional("notes", Shape::List(&NOTES), "What a reader must know.", "notes: [ \"...\" ]"),
    ],
};

impl Experiment {
    /// Reads a file under `papers/`, its scenario and its policy.
    pub fn read(path: impl AsRef<Path>) -> Result<(Self, Vec<Diagnostic>), Diagnostics> {
        let path = path.as_ref();
        let source = Source::read(path, MAX_FILE)?;
        let mut problems = Problems::new(&source);
        let root = tree::parse(&source, &mut problems);
        if let Some(root) = &root {
            check::check(root, &Shape::Record(&EXPERIMENT), &mut problems);
        }
        let name = root.as_ref().and_then(|root| text(root, "scenario"));
        let (scenario, mut notes) = match name {
            Some(name) => Scenario::read(path.parent().unwrap_or(Path::new("")).join(name))?,
            None => return Err(problems.into_diagnostics().unwrap_or_else(|| unreachable!("`scenario` is required"))),
        };
        let experiment = root.and_then(|root| read(&root, scenario, &mut problems));
        let (experiment, own) = problems.finish(experiment)?;
        notes.extend(own);
        Ok((experiment.unwrap_or_else(|| unreachable!("no experiment, so an error was reported")), notes))
    }
}

fn text(node: &Node, key: &str) -> Option<String> {
    Some(node.get(key)?.scalar()?.to_owned())
}

/// `None` only if something was reported.
fn read(root: &Node, scenario: Scenario, problems: &mut Problems) -> Option<Experiment> {
    let number = |key, least, most| {
        let field = root.field(key, |text| scalar::integer(text, "", least, most));
        field.value().and_then(|number| u64::try_from(number).ok())
    };
    let items = root.get("values").map_or(&[][..], Node::items);
    let values: Vec<_> = items.iter().filter_map(|item| value(item, &scenario, problems)).collect();
    let notes = root.get("notes").map_or(&[][..], Node::items);
    Some(Experiment {
        id: text(root, "id")?,
        title: text(root, "title")?,
        source: text(root, "source")?,
        scale: number("scale", 1, 1_000_000)?,
        tolerance_percent: number("tolerance", 0, 100)?,
        values,
        notes: notes.iter().filter_map(|note| note.scalar().map(str::to_owned)).collect(),
        scenario,
    })
}

fn value(item: &Node, scenario: &Scenario, problems: &mut Problems) -> Option<PublishedValue> {
    let name = text(item, "service")?;
    // A scenario with a network of its own has no services, and sends nothing for any.
    let service = scenario.governed().and_then(|governed| governed.policy.services().named(&name));
    let sends = service.filter(|id| scenario.transfers().iter().any(|traffic| traffic.service == *id));
    let Some(service) = sends else {
        let span = item.get("service").map_or(item.span, |node| node.span);
        problems.error(span, format!("the scenario sends nothing for `{name}`"), "name a service of its `traffic`");
        return None;
    };
    let from = item.field("from", |text| scalar::time(text, true)).value()?;
    let to = item.field("to", |text| scalar::time(text, false)).value()?;
    if from >= to || to > scenario.duration().min(MAX_DURATION) {
        problems.error(
            item.span,
            format!("the stretch from {from} to {to} is not within the run"),
            format!("the scenario lasts {}; `from` comes before `to`", scenario.duration()),
        );
        return None;
    }
    let published = item.field("published", |text| scalar::rate(text, false, false)).value()?;
    Some(PublishedValue { metric: text(item, "metric")?, service, from, to, published })
}
