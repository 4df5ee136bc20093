//! Latency levels drawn: the bound of each level against its factor and against the load.
//!
//! Each curve is the bound with one setting changed and all others as they are.

use weir_latency::levels::{Admitted, Bounds, Sizes};
use weir_policy::{Level, Policy};
use weir_report::{Axis, Chart, Marker, Reference, Series, Unit};

/// Factors of a curve up to so many times the policy's.
const FACTORS: u32 = 8;
/// Loads of a curve, in per cent.
const LOADS: [u32; 19] = [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95];

/// The worst delay of every level of a changed policy, in seconds.
fn worst(admitted: &Admitted, changes: Vec<(String, String)>) -> Option<Vec<Option<f64>>> {
    let policy = admitted.policy.with_all(changes).ok()?;
    let sizes = Sizes::of_linux(policy.levels()?.settings());
    let bounds = Bounds::of(&policy, &admitted.network, sizes).ok()?;
    Some(bounds.levels.iter().map(|level| level.path.map(|path| path.as_secs_f64())).collect())
}

/// The charts of a policy's levels.
pub(crate) fn charts(admitted: &Admitted) -> Vec<Chart> {
    let factors = factors(&admitted.policy);
    let mut charts: Vec<Chart> = (0..factors.len()).map(|level| by_factor(admitted, level, &factors)).collect();
    charts.push(by_load(admitted, factors.len()));
    charts
}

fn factors(policy: &Policy) -> Vec<u32> {
    policy.levels().map_or_else(Vec::new, |levels| levels.all().iter().map(|level| level.factor).collect())
}

/// The shortest target of each level, as lines across a chart.
fn targets(admitted: &Admitted, chart: &mut Chart) {
    for service in &admitted.bounds.services {
        let Some(target) = service.target else { continue };
        let name = admitted.policy.services().get(service.service).path();
        let one_way = target.worst.as_secs_f64() / if target.round_trip { 2.0 } else { 1.0 };
        chart.references.push(Reference::new(format!("target of {name}"), one_way));
    }
    chart.references_are = "one way".to_owned();
}

/// Bounds against the factor of one level.
fn by_factor(admitted: &Admitted, level: usize, factors: &[u32]) -> Chart {
    let number = Level::from_index(level);
    let mut chart = Chart::new(
        Axis::new(format!("factor of level {number}"), Unit::Plain(String::new())),
        Axis::new("worst delay", Unit::Time),
    );
    chart.title = format!("Worst delay against the factor of level {number}");
    let least = level.checked_sub(1).map_or(1, |above| factors[above] + 1);
    let most = factors.get(level + 1).map_or(factors[level].saturating_mul(FACTORS), |below| below - 1);
    let step = ((most - least) / 40).max(1);
    let mut curves = vec![Vec::new(); factors.len()];
    for factor in (least..=most).step_by(step as usize) {
        let mut changed = factors.to_vec();
        changed[level] = factor;
        let list = changed.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let Some(worst) = worst(admitted, vec![("levels.factors".to_owned(), format!("[{list}]"))]) else { continue };
        for (curve, worst) in curves.iter_mut().zip(worst) {
            curve.extend(worst.map(|worst| (f64::from(factor), worst)));
        }
    }
    let series = (1..).zip(curves).map(|(level, points)| Series::new(format!("level {level}"), points));
    chart.series.extend(series);
    chart.markers.push(Marker::new(format!("chosen: {}", factors[level]), f64::from(factors[level])));
    targets(admitted, &mut chart);
    chart
}

/// Bounds against the load that levels may fill.
fn by_load(admitted: &Admitted, count: usize) -> Chart {
    let mut chart = Chart::new(
        Axis::new("load of bounded levels", Unit::Plain("%".to_owned())),
        Axis::new("worst delay", Unit::Time),
    );
    chart.title = "Worst delay against the load that levels may fill".to_owned();
    let mut curves = vec![Vec::new(); count];
    for percent in LOADS {
        let Some(worst) = worst(admitted, vec![("levels.load".to_owned(), format!("{percent}%"))]) else { continue };
        for (curve, worst) in curves.iter_mut().zip(worst) {
            curve.extend(worst.map(|worst| (f64::from(percent), worst)));
        }
    }
    let series = (1..).zip(curves).map(|(level, points)| Series::new(format!("level {level}"), points));
    chart.series.extend(series);
    if let Some(levels) = admitted.policy.levels() {
        let load = levels.settings().load;
        let name = format!("as it is: {}", load);
        chart.markers.push(Marker::new(name, load.as_f64() * 100.0));
    }
    targets(admitted, &mut chart);
    chart
}
