//! The lines of an experiment's figures, without appearance: the drawing code adds axes and
//! colours.
//!
//! Worked example: a figure of completion times has one line for each of its runs; a line of a
//! million messages is thinned to [`QUANTILES`] points, which is more than a picture has columns.

use crate::measure::RunData;
use crate::model::{Counted, PerSetting, Setting, Window};
use weir_tenancy::{Condition, Filled};
use weir_units::Bytes;

/// Points of a distribution, besides its ends.
pub const QUANTILES: usize = 1_000;

/// A drawing beside the table.
#[derive(Debug, Clone)]
pub struct Figure {
    /// The name of its file; unique in the experiment.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its content.
    pub kind: FigureKind,
}

/// The content of a figure. Runs, datacenters and values are indices into the experiment.
#[derive(Debug, Clone)]
pub enum FigureKind {
    /// Bandwidth over time in one run.
    OverTime {
        /// The run.
        run: usize,
        /// The counted bandwidths.
        of: Vec<Counted>,
    },
    /// Distributions of completion times, one for each run.
    CompletionTimes {
        /// The runs.
        runs: Vec<usize>,
        /// The flow group.
        group: String,
        /// Only flows of more bytes.
        above: Bytes,
        /// Of flows that start in it.
        window: PerSetting<Window>,
    },
    /// Distributions of a queue, one for each run.
    Queues {
        /// The runs.
        runs: Vec<usize>,
        /// The link.
        link: String,
        /// The size of a packet.
        packet: Bytes,
        /// Over the samples of it.
        window: PerSetting<Window>,
    },
    /// Bars of measured values, a colour for each series.
    Groups {
        /// The quantity that categories are values of, such as the load.
        axis: String,
        /// The groups of bars.
        categories: Vec<String>,
        /// A name, and its value in each category; all values have one unit.
        series: Vec<(String, Vec<usize>)>,
    },
    /// Distributions of the use of links in a datacenter, one for each of [`crate::datacenter::DIVISIONS`].
    UseOfLinks {
        /// The datacenter.
        datacenter: usize,
        /// The control interval.
        when: Condition,
    },
    /// Bars: published beside measured.
    Values {
        /// The values, all of one unit.
        values: Vec<usize>,
    },
}

/// A line of a figure: points in base units.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Line {
    /// Ascending in x: (seconds, bit/s) over time; (value, share not above it) of a distribution.
    pub points: Vec<(f64, f64)>,
}

impl FigureKind {
    /// The lines of one run, in the order of drawing; none if the run is not part of the figure.
    pub fn lines(&self, run: usize, data: &RunData<'_>, setting: Setting) -> Vec<Line> {
        match self {
            Self::OverTime { run: of_run, of } if *of_run == run => {
                of.iter().map(|of| Line { points: data.over_time(of) }).collect()
            }
            Self::CompletionTimes { runs, group, above, window } if runs.contains(&run) => {
                let times = data.completion_times(group, *above, *window.get(setting));
                // Unfinished flows are larger than all finished ones: the line ends below 1.
                let line = times.map(|(times, unknown)| distribution(&times[..times.len() - unknown], unknown));
                vec![line.unwrap_or_default()]
            }
            Self::Queues { runs, link, packet, window } if runs.contains(&run) => {
                let queues = data.queues(link, *window.get(setting), *packet);
                vec![queues.map(|queues| distribution(&queues, 0)).unwrap_or_default()]
            }
            _ => Vec::new(),
        }
    }

    /// The lines of one datacenter; none if it is not part of the figure.
    pub fn lines_of_datacenter(&self, datacenter: usize, filled: &Filled) -> Vec<Line> {
        match self {
            Self::UseOfLinks { datacenter: own, when } if *own == datacenter => {
                crate::datacenter::use_of_links(filled, *when)
            }
            _ => Vec::new(),
        }
    }
}

/// The cumulative distribution of ascending values and of `unknown` more that are larger.
pub(crate) fn distribution(ascending: &[f64], unknown: usize) -> Line {
    let all = (ascending.len() + unknown) as f64;
    let indices = match ascending.len() {
        0 => return Line::default(),
        count if count <= QUANTILES => (0..count).collect::<Vec<_>>(),
        count => {
            let mut indices: Vec<usize> = (0..=QUANTILES).map(|part| part * (count - 1) / QUANTILES).collect();
            // The tail is the part of interest.
            indices.extend(count.saturating_sub(QUANTILES / 10)..count);
            indices.sort_unstable();
            indices.dedup();
            indices
        }
    };
    let mut points = vec![(ascending[indices[0]], 0.0)];
    points.extend(indices.into_iter().map(|index| (ascending[index], (index + 1) as f64 / all)));
    Line { points }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_is_thinned_and_ends_with_the_known_values() {
        let values: Vec<f64> = (0..100_000).map(f64::from).collect();
        let line = distribution(&values, 100_000);
        assert!(line.points.len() < 2 * QUANTILES);
        assert_eq!(line.points.first(), Some(&(0.0, 0.0)));
        assert_eq!(line.points.last(), Some(&(99_999.0, 0.5)));
        let few = distribution(&[1.0, 2.0], 0);
        assert_eq!(few.points, [(1.0, 0.0), (1.0, 0.5), (2.0, 1.0)]);
        assert_eq!(distribution(&[], 3), Line::default());
    }
}
