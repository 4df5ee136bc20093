//! What a time-series chart shows.
//!
//! A chart has named series over a common axis, and may have what they are read against: published values
//! as dashed lines, phases as shaded stretches, moments as vertical lines. [`Chart::to_svg`] draws it.
//!
//! Worked example: Parley Fig 14 is two series, `a` and `b`; the phases `a alone`, `a and b`, `b alone`;
//! and the published values 30 Gb/s (for `a`, until 40 s), 30 and 60 Gb/s (for `b`, from 20 s and from
//! 40 s) as references.

use crate::scale::Unit;

/// A chart; fill in the fields and call [`Chart::to_svg`].
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The name; read by screen readers, drawn on top unless empty.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis; starts at zero unless it says otherwise.
    pub y: Axis,
    /// What is drawn. Colours are given in this order.
    pub series: Vec<Series>,
    /// Values to compare with.
    pub references: Vec<Reference>,
    /// What the references are, for the legend.
    pub references_are: String,
    /// Stretches of the horizontal axis with a name.
    pub phases: Vec<Phase>,
    /// Points of the horizontal axis with a name.
    pub markers: Vec<Marker>,
    /// Width and height in pixels; pages scale it to the room there is.
    pub size: (u32, u32),
}

impl Chart {
    /// An empty chart of 720 × 380 pixels.
    pub fn new(x: Axis, y: Axis) -> Self {
        Self {
            title: String::new(),
            x,
            y,
            series: Vec::new(),
            references: Vec::new(),
            references_are: "published".to_owned(),
            phases: Vec::new(),
            markers: Vec::new(),
            size: (720, 380),
        }
    }

    /// The smallest and the largest value along the horizontal axis.
    pub fn x_range(&self) -> (f64, f64) {
        let points = self.series.iter().flat_map(|series| series.points.iter().map(|point| point.0));
        let phases = self.phases.iter().flat_map(|phase| [phase.from, phase.to]);
        let markers = self.markers.iter().map(|marker| marker.at);
        let ends = self.references.iter().flat_map(|reference| [reference.from, reference.to]).flatten();
        let (from, to) = range(points.chain(phases).chain(markers).chain(ends));
        (self.x.from.unwrap_or(from), self.x.to.unwrap_or(to))
    }

    /// The smallest and the largest value along the vertical axis; zero is always in it.
    pub fn y_range(&self) -> (f64, f64) {
        let points = self.series.iter().flat_map(|series| series.points.iter().map(|point| point.1));
        let references = self.references.iter().map(|reference| reference.value);
        let (from, to) = range(points.chain(references));
        (self.y.from.unwrap_or(from.min(0.0)), self.y.to.unwrap_or(to.max(0.0)))
    }

    /// The chart as an SVG document that stands alone.
    pub fn to_svg(&self) -> String {
        crate::draw::draw(self, &self.title, self.x_range(), self.y_range())
    }
}

/// The smallest and the largest finite value, or 0 and 0.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    let ends = finite.fold(None, |ends: Option<(f64, f64)>, value| {
        Some(ends.map_or((value, value), |(from, to)| (from.min(value), to.max(value))))
    });
    ends.unwrap_or_default()
}

/// One axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it shows, for example `bandwidth`.
    pub label: String,
    /// What its values count.
    pub unit: Unit,
    /// Where it starts, if not where the values do.
    pub from: Option<f64>,
    /// Where it ends, if not where the values do.
    pub to: Option<f64>,
}

impl Axis {
    /// An axis as long as its values need.
    pub fn new(label: impl Into<String>, unit: Unit) -> Self {
        Self { label: label.into(), unit, from: None, to: None }
    }
}

/// A line through points.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// (x, y) in base units, ascending in x. Where y is not finite the line has a gap.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A series.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points }
    }
}

/// A value to compare with: a dashed horizontal line.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// What is written beside it.
    pub label: String,
    /// The value, in the base unit.
    pub value: f64,
    /// Where it starts; the chart's start when none.
    pub from: Option<f64>,
    /// Where it ends; the chart's end when none.
    pub to: Option<f64>,
    /// The series whose colour it has.
    pub series: Option<usize>,
}

impl Reference {
    /// A value over the whole chart.
    pub fn new(label: impl Into<String>, value: f64) -> Self {
        Self { label: label.into(), value, from: None, to: None, series: None }
    }
    /// The same for a part of the horizontal axis.
    #[must_use]
    pub fn between(self, from: f64, to: f64) -> Self {
        Self { from: Some(from), to: Some(to), ..self }
    }
    /// The same in the colour of a series.
    #[must_use]
    pub fn of(self, series: usize) -> Self {
        Self { series: Some(series), ..self }
    }
}

/// A stretch of the horizontal axis: every other one is shaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// What is written above it.
    pub label: String,
    /// Where it starts.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
}

impl Phase {
    /// A phase.
    pub fn new(label: impl Into<String>, from: f64, to: f64) -> Self {
        Self { label: label.into(), from, to }
    }
}

/// A point of the horizontal axis: a vertical line.
#[derive(Debug, Clone, PartialEq)]
pub struct Marker {
    /// What is written beside it.
    pub label: String,
    /// Where it is.
    pub at: f64,
}

impl Marker {
    /// A marker.
    pub fn new(label: impl Into<String>, at: f64) -> Self {
        Self { label: label.into(), at }
    }
}
