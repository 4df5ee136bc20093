//! All points of a sweep: the cross product of its axes, the last axis fastest. Axes that change together count as one.
//!
//! Problem: the points of a sweep must be the same whenever the same command is repeated, and their directories must
//! sort and read well. Approach: everything follows from the axes alone. A point's name contains its differences and
//! sorts as the points do: its number, then key and value of each axis, with only such characters as need no quoting
//! anywhere.
//!
//! Worked example: `seed=1,2` and `traffic[0].load=20%,60%` give `1_seed-1_load-20`, `2_seed-1_load-60`,
//! `3_seed-2_load-20` and `4_seed-2_load-60`.

use super::axis::short_names;
use super::{Axis, Setting, Shelf};
use weir_scenario::{Outcome, ReadOptions};
use weir_units::Bytes;

/// The most points: as many directories as can still be listed.
const MAX_POINTS: usize = 100_000;
/// The longest name of a point, in bytes; file systems allow 255.
const MAX_NAME: usize = 120;

/// A sweep with more points than a directory can list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this sweep has more than {MAX_POINTS} points")]
pub struct TooManyPoints;

/// The runs of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The values of all points.
    pub settings: Vec<Setting>,
    /// The values that differ.
    pub axes: Vec<Axis>,
    /// Every combination.
    pub points: Vec<Point>,
}

/// One run of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// The name of its directory.
    pub name: String,
    /// Its values, in the order of the axes.
    pub values: Vec<Setting>,
}

impl Plan {
    /// All combinations of the axes.
    ///
    /// # Errors
    /// If there are too many.
    pub fn new(settings: Vec<Setting>, axes: Vec<Axis>) -> Result<Self, TooManyPoints> {
        let groups: Vec<&[Axis]> = axes.chunk_by(|_, next| next.together).collect();
        let count = groups.iter().try_fold(1usize, |count, group| count.checked_mul(group[0].values.len()));
        let Some(count) = count.filter(|count| *count <= MAX_POINTS) else {
            return Err(TooManyPoints);
        };
        let keys: Vec<String> = short_names(&axes).into_iter().map(slug).collect();
        let digits = count.to_string().len();
        let point = |index: usize| {
            let mut rest = index;
            let mut values: Vec<Setting> = Vec::new();
            for group in groups.iter().rev() {
                let length = group[0].values.len();
                let value = |axis: &Axis| axis.values[rest % length].clone();
                values.extend(group.iter().rev().map(|axis| Setting { path: axis.path.clone(), value: value(axis) }));
                rest /= length;
            }
            values.reverse();
            let parts = keys.iter().zip(&values).map(|(key, of)| format!("_{key}-{}", slug(&of.value)));
            let mut name = format!("{:0digits$}{}", index + 1, parts.collect::<String>());
            // The number alone distinguishes points. Slugs are ASCII, so every index is a boundary.
            name.truncate(MAX_NAME);
            Point { name, values }
        };
        let points = (0..count).map(point).collect();
        drop(groups);
        Ok(Self { settings, axes, points })
    }

    /// All changed values of the scenario for a point.
    pub fn settings_of(&self, point: usize) -> Vec<Setting> {
        self.settings.iter().chain(&self.points[point].values).cloned().collect()
    }

    /// Reads enough to check every point: returns the first point's scenario. `memory` is the bound on each network.
    ///
    /// # Errors
    /// The mistakes of the first point that is invalid.
    pub fn check(&self, shelf: &Shelf, memory: Option<Bytes>) -> Outcome {
        let read = |point: usize| shelf.read(&ReadOptions { set: Setting::pairs(&self.settings_of(point)), memory });
        let first = read(0)?;
        for point in self.worth_checking().into_iter().skip(1) {
            read(point)?;
        }
        Ok(first)
    }

    /// Points that together have every combination of the values other than the seed, and every
    /// seed. A seed does not affect the validity of the rest, so no further point has to be read to
    /// check all of them. A seed that changes together with others is one of their values.
    fn worth_checking(&self) -> Vec<usize> {
        let alone =
            |index: usize| !self.axes[index].together && !self.axes.get(index + 1).is_some_and(|of| of.together);
        let first = |point: &Point, seed: bool| {
            let is_seed = |index: usize| self.axes[index].path == "seed" && alone(index);
            let mut chosen = self.axes.iter().zip(&point.values).enumerate().filter(|(at, _)| is_seed(*at) == seed);
            chosen.all(|(_, (axis, of))| axis.values[0] == of.value)
        };
        let worth = |(_, point): &(usize, &Point)| first(point, true) || first(point, false);
        self.points.iter().enumerate().filter(worth).map(|(index, _)| index).collect()
    }
}

/// Letters, digits, dots and dashes; other characters become a dash, except at the end.
fn slug(text: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let text: String = text.chars().map(kept).collect();
    text.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::axis::Axes;
    use super::*;

    fn plan(axes: &[&str]) -> Plan {
        let axes = axes.iter().flat_map(|text| Axes::parse(text).expect("axes").0).collect();
        Plan::new(Vec::new(), axes).expect("not too many")
    }

    fn names(plan: &Plan) -> Vec<&str> {
        plan.points.iter().map(|point| point.name.as_str()).collect()
    }

    #[test]
    fn every_combination_once() {
        let plan = plan(&["seed=1,2", "traffic[0].load=20%,60%"]);
        assert_eq!(names(&plan), ["1_seed-1_load-20", "2_seed-1_load-60", "3_seed-2_load-20", "4_seed-2_load-60"]);
        assert_eq!(
            plan.points[2].values,
            ["seed=2", "traffic[0].load=20%"].map(|text| Setting::parse(text).expect("one"))
        );
        // Both loads with the first seed, and the second seed once.
        assert_eq!(plan.worth_checking(), [0, 1, 2]);
    }

    #[test]
    fn together() {
        let plan = plan(&["seed=1,2", "transport=dctcp,pfabric,dctcp; network.queue={mark: 1kB, x: 2},pfabric,fifo"]);
        assert_eq!(
            names(&plan)[..3],
            [
                "1_seed-1_transport-dctcp_queue--mark--1kB--x--2",
                "2_seed-1_transport-pfabric_queue-pfabric",
                "3_seed-1_transport-dctcp_queue-fifo"
            ]
        );
        assert_eq!((plan.points.len(), plan.worth_checking()), (6, vec![0, 1, 2, 3]));
        assert_eq!(plan.settings_of(4)[1..].iter().map(|of| &*of.value).collect::<Vec<_>>(), ["pfabric", "pfabric"]);
        // Each seed has a value of its own, so each is read.
        let seeds = self::plan(&["seed=1..3; traffic[0].load=10%,20%,200%"]);
        assert_eq!((seeds.points.len(), seeds.worth_checking()), (3, vec![0, 1, 2]));
    }

    #[test]
    fn names_stay_apart_and_short() {
        assert_eq!(
            names(&plan(&["traffic[0].load=5%", "traffic[1].load=10 %"])),
            ["1_traffic-0-.load-5_traffic-1-.load-10"]
        );
        let long = format!("a={0}x,{0}y", "z".repeat(300));
        let plan = plan(&[&long]);
        assert!(plan.points.iter().all(|point| point.name.len() == MAX_NAME));
        assert_ne!(plan.points[0].name, plan.points[1].name);
        let slashes =
            Plan::new(Vec::new(), vec![Axis { path: "a".into(), values: vec!["../..".into()], together: false }]);
        assert!(!slashes.expect("one point").points[0].name.contains('/'));
    }

    #[test]
    fn numbers_sort_as_they_count() {
        let plan = plan(&["seed=1..12"]);
        let mut sorted = names(&plan);
        sorted.sort_unstable();
        assert_eq!(sorted, names(&plan));
    }

    #[test]
    fn too_many() {
        let axes = |text: &str| Axes::parse(text).expect("axes").0;
        assert!(Plan::new(Vec::new(), [axes("a=1..1000"), axes("b=1..1000")].concat()).is_err());
        assert!(Plan::new(Vec::new(), axes("a=1..1000; b=1..1000")).is_ok());
    }
}
