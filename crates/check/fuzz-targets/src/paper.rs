//! Papers: published experiments as data.

use crate::refusal;
use std::path::Path;
use std::sync::LazyLock;
use weir_document::Source;
use weir_experiment::language::{MAX_FILE, MAX_SEEDS};
use weir_experiment::{
    Counted, Expected, Experiment, FairnessIndex, FigureKind, Measure, PerSetting, Published, Setting, Value, Window,
    compute, outcomes,
};
use weir_scenario::Scenario;

/// Scenarios, policies and demands that a paper may name.
static SHELF: LazyLock<&Path> = LazyLock::new(|| Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/shelf")));

/// Reads `data` as a paper beside the files of `shelf/`. A refusal has its positions in the text.
/// Every value of an experiment has the dimension of its unit and compares with an existing one,
/// and all references of a measure or a figure exist in its run in both settings. Returns whether
/// it is accepted.
///
/// # Panics
/// If any of that does not hold: a finding.
pub fn paper(data: &[u8]) -> bool {
    // Files that never end or block are no finding.
    if data.windows(4).any(|word| word == b"/dev" || word == b"/pro") {
        return false;
    }
    let source = match Source::from_bytes("test.yaml", data.to_vec(), MAX_FILE) {
        Ok(source) => source,
        Err(errors) => return refusal::check(&errors),
    };
    let experiment = match Experiment::from_source(&source, &SHELF) {
        Ok((experiment, notes)) => {
            notes.iter().for_each(refusal::one);
            experiment
        }
        Err(errors) => {
            let own = errors.all().iter().filter(|error| error.file() == source.name());
            let in_order = own.map(|error| error.span().start).is_sorted();
            assert!(in_order, "not in reading order: {}", errors.render(false));
            // A scenario is read for each of its runs, and reported in their order.
            return refusal::print(&errors);
        }
    };
    assert!(!experiment.values.is_empty(), "an experiment without values");
    for setting in Setting::ALL {
        assert!(!experiment.takes.get(setting).is_zero());
        for run in &experiment.runs {
            assert!((1..=MAX_SEEDS).contains(&i128::from(*run.seeds.get(setting))) && run.scale > 0);
        }
    }
    for (index, value) in experiment.values.iter().enumerate() {
        expectation(&experiment, index, value);
        measure(&experiment, &value.measure);
        computation(value);
    }
    figures(&experiment);
    // Without any reading nothing is measured, and no value misses its expectation.
    let unread = outcomes(&experiment, &vec![None; experiment.values.len()]);
    assert_eq!(unread.len(), experiment.values.len());
    true
}

/// The reference of a comparison exists.
fn expectation(experiment: &Experiment, index: usize, value: &Value) {
    let names = experiment.values.iter().filter(|other| other.metric == value.metric);
    assert_eq!(names.count(), 1, "two values are called {:?}", value.metric);
    assert!(value.measure.dimension() == value.unit.dimension, "{:?} in {}", value.measure, value.unit.name);
    let is_number = |number: f64| number.is_finite() && number >= 0.0;
    assert!(value.published.is_none_or(|Published { value, decimals }| is_number(value) && decimals <= 6));
    let good = match value.expected {
        None => true,
        Some(Expected::AsPrinted) => value.published.is_some(),
        Some(Expected::Within(part)) => value.published.is_some() && is_number(part),
        Some(Expected::Near(part, of)) => is_number(part) && is_number(of),
        Some(Expected::AtMost(most)) => is_number(most),
        Some(Expected::AtLeast(least)) => is_number(least),
        Some(Expected::Beside(_, other)) => {
            other != index
                && experiment.values.get(other).is_some_and(|other| other.unit.dimension == value.unit.dimension)
        }
    };
    assert!(good, "{:?} of {:?}", value.expected, value.metric);
}

/// The scenario of a run in each setting.
fn scenarios(experiment: &Experiment, run: usize) -> [&Scenario; 2] {
    let run = experiment.runs.get(run).expect("a measure is of a run that is there");
    Setting::ALL.map(|setting| &**run.scenario.get(setting))
}

fn within(experiment: &Experiment, run: usize, window: &PerSetting<Window>) {
    for (setting, scenario) in Setting::ALL.iter().zip(scenarios(experiment, run)) {
        let Window { from, to } = *window.get(*setting);
        assert!(from < to && to <= scenario.duration(), "{from} to {to} of {}", scenario.duration());
    }
}

/// Both settings have the same service and machine.
fn counted(experiment: &Experiment, run: usize, of: &Counted) {
    let [quick, full] = scenarios(experiment, run);
    let both = [quick, full];
    let network = |scenario: &Scenario| scenario.governed().map(|governed| governed.policy.clone());
    let (service, machine, meters) = match of {
        Counted::Service(service) => (*service, None, false),
        Counted::Sent(service, machine) | Counted::Received(service, machine) => (Some(*service), *machine, true),
        Counted::FlowGroup(name) => {
            let exists = |scenario: &&Scenario| scenario.flow_groups().iter().any(|group| group.name == *name);
            assert!(both.iter().all(exists), "{name:?}");
            return;
        }
        Counted::Link(name) => return link(experiment, run, name),
    };
    let policies = both.map(|scenario| network(scenario).expect("a scenario with services has a policy"));
    if let Some(service) = service {
        let paths = policies.each_ref().map(|policy| policy.services().get(service).path());
        assert_eq!(paths[0], paths[1], "a service is another one in the full setting");
        assert!(both.iter().all(|scenario| scenario.flow_groups().iter().any(|group| group.service == Some(service))));
    }
    if let Some(machine) = machine {
        let names =
            policies.each_ref().map(|policy| policy.network().machines().get(machine.index()).map(|m| m.name()));
        assert!(names[0].is_some() && names[0] == names[1], "a machine is another one in the full setting: {names:?}");
    }
    assert!(!meters || both.iter().all(|scenario| scenario.enforcement().shapes()), "meters without shapers");
}

fn link(experiment: &Experiment, run: usize, name: &str) {
    for scenario in scenarios(experiment, run) {
        let mut links = scenario.measurement().links.iter().map(|link| scenario.graph().link_name(*link));
        assert!(links.any(|link| link == *name), "{name:?} is not watched");
    }
}

/// The references of a measure exist.
fn measure(experiment: &Experiment, measure: &Measure) {
    let flow_group = |run: usize, name: &str| counted(experiment, run, &Counted::FlowGroup(name.to_owned()));
    match measure {
        Measure::Bandwidth { run, of, window } | Measure::Settling { run, of, window, .. } => {
            counted(experiment, *run, of);
            within(experiment, *run, window);
        }
        Measure::CompletionTime { run, group: name, window, .. } => {
            flow_group(*run, name);
            within(experiment, *run, window);
        }
        Measure::Slowdown { run, of } => {
            flow_group(*run, &of.group);
            assert!(of.above < of.up_to, "no flow is of the range");
        }
        Measure::Level { run, level, .. } => {
            for scenario in scenarios(experiment, *run) {
                let levels = scenario.governed().and_then(|governed| governed.policy.levels());
                assert!(
                    levels.is_some_and(|levels| levels.all().len() >= *level as usize),
                    "there is no level {level}"
                );
            }
        }
        Measure::MeterRate { run, service, machine, window } => {
            counted(experiment, *run, &Counted::Received(*service, Some(*machine)));
            within(experiment, *run, window);
        }
        Measure::Fairness { run, of, index, window } => {
            let samples = *index == FairnessIndex::Samples;
            assert!(!samples || of.iter().all(|of| matches!(of, Counted::FlowGroup(_))), "samples have flows");
            of.iter().for_each(|of| counted(experiment, *run, of));
            within(experiment, *run, window);
        }
        Measure::Queue { run, link: name, window, .. } => {
            link(experiment, *run, name);
            within(experiment, *run, window);
        }
        Measure::Counter { .. } => {}
        _ => assert!(measure.run().is_none()),
    }
}

/// Formulas and lookups, which take no time, give numbers.
fn computation(value: &Value) {
    let quick = matches!(
        value.measure,
        Measure::Allocation { .. }
            | Measure::PolicyShare { .. }
            | Measure::PolicyCapacity { .. }
            | Measure::Bound { .. }
            | Measure::Burst { .. }
            | Measure::Mm1 { .. }
    );
    if let (true, Ok(reading)) = (quick, compute::value(&value.measure, Setting::Quick, &|| 0.0)) {
        assert!(reading.value >= 0.0 && reading.value.is_finite(), "{:?} gives {}", value.measure, reading.value);
        assert!(!value.unit.text(reading.value).is_empty());
    }
}

/// The references of a figure exist.
fn figures(experiment: &Experiment) {
    for (index, figure) in experiment.figures.iter().enumerate() {
        assert!(experiment.figures[..index].iter().all(|earlier| earlier.id != figure.id), "two are {:?}", figure.id);
        match &figure.kind {
            FigureKind::OverTime { run, of } => {
                assert!(!of.is_empty(), "a figure of nothing");
                of.iter().for_each(|of| counted(experiment, *run, of));
            }
            FigureKind::CompletionTimes { runs, group, window, .. } => {
                assert!(!runs.is_empty(), "a figure of nothing");
                for run in runs {
                    counted(experiment, *run, &Counted::FlowGroup(group.clone()));
                    within(experiment, *run, window);
                }
            }
            FigureKind::Queues { runs, link: name, window, .. } => {
                assert!(!runs.is_empty(), "a figure of nothing");
                for run in runs {
                    link(experiment, *run, name);
                    within(experiment, *run, window);
                }
            }
            FigureKind::Groups { categories, series, .. } => {
                assert!(series.iter().all(|(_, values)| values.len() == categories.len()), "a bar is missing");
            }
            FigureKind::UseOfLinks { datacenter, .. } => {
                assert!(*datacenter < experiment.datacenters.len(), "no such datacenter");
            }
            FigureKind::Values { values } => {
                let units = values.iter().map(|value| experiment.values[*value].unit);
                assert!(units.clone().count() > 0 && units.clone().all(|unit| Some(unit) == units.clone().next()));
            }
        }
    }
}
