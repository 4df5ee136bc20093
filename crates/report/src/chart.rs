//! What a chart shows.
//!
//! A chart has named series over a common axis, and may have what they are read against: published values
//! as dashed lines, phases as shaded windows, moments as vertical lines. [`Chart::to_svg`] draws it.
//!
//! Series are lines over time, lines with marks and error bars over a parameter, steps of a cumulative
//! distribution ([`Series::cdf`]), or bars in named categories ([`Series::bars`]). Each axis is linear or
//! logarithmic ([`Axis::log`]).
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
    /// Windows of the horizontal axis with a name.
    pub phases: Vec<Phase>,
    /// Points of the horizontal axis with a name.
    pub markers: Vec<Marker>,
    /// Names of the places along the horizontal axis, for series of bars: then x counts categories from 0.
    pub categories: Vec<String>,
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
            categories: Vec::new(),
            size: (720, 380),
        }
    }

    /// The smallest and the largest value along the horizontal axis.
    pub fn x_range(&self) -> (f64, f64) {
        if !self.categories.is_empty() {
            return (0.0, self.categories.len() as f64);
        }
        let points = self.series.iter().flat_map(|series| series.points.iter().map(|point| point.0));
        let phases = self.phases.iter().flat_map(|phase| [phase.from, phase.to]);
        let markers = self.markers.iter().map(|marker| marker.at);
        let ends = self.references.iter().flat_map(|reference| [reference.from, reference.to]).flatten();
        let (from, to) = self.x.range(points.chain(phases).chain(markers).chain(ends));
        (self.x.from.unwrap_or(from), self.x.to.unwrap_or(to))
    }

    /// The smallest and the largest value along the vertical axis; zero is always in it, unless the axis is
    /// logarithmic.
    pub fn y_range(&self) -> (f64, f64) {
        let points = self.series.iter().flat_map(|series| series.points.iter().map(|point| point.1));
        let errors = self.series.iter().flat_map(|series| series.errors.iter().flat_map(|error| [error.1, error.2]));
        let references = self.references.iter().map(|reference| reference.value);
        let (from, to) = self.y.range(points.chain(errors).chain(references));
        let (from, to) = if self.y.log { (from, to) } else { (from.min(0.0), to.max(0.0)) };
        (self.y.from.unwrap_or(from), self.y.to.unwrap_or(to))
    }

    /// The chart as an SVG document that stands alone.
    pub fn to_svg(&self) -> String {
        crate::draw::draw(self, &self.title, self.x_range(), self.y_range())
    }
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
    /// Whether equal steps are equal factors. Values that are not above zero stand at its start.
    pub log: bool,
}

impl Axis {
    /// An axis as long as its values need.
    pub fn new(label: impl Into<String>, unit: Unit) -> Self {
        Self { label: label.into(), unit, from: None, to: None, log: false }
    }
    /// A logarithmic axis as long as its values need.
    pub fn log(label: impl Into<String>, unit: Unit) -> Self {
        Self { log: true, ..Self::new(label, unit) }
    }

    /// The smallest and the largest value that can stand on it, or 0 and 0.
    fn range(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let able = values.filter(|value| value.is_finite() && (!self.log || *value > 0.0));
        let ends = able.fold(None, |ends: Option<(f64, f64)>, value| {
            Some(ends.map_or((value, value), |(from, to)| (from.min(value), to.max(value))))
        });
        ends.unwrap_or_default()
    }
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A line through the points.
    Line,
    /// The same with a mark at each point: a few values that were measured one by one.
    Marked,
    /// Level from each point to the next: what holds until it changes.
    Steps,
    /// A bar for each point, beside those of the other series; x is the place of the category.
    Bars,
}

/// Points under one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// (x, y) in base units, ascending in x. Where y is not finite the line has a gap.
    pub points: Vec<(f64, f64)>,
    /// (x, lowest, highest): how far a value may be off.
    pub errors: Vec<(f64, f64, f64)>,
    /// How it is drawn.
    pub style: Style,
    /// Its colour; the one of its place among the series when none.
    pub look: Option<Look>,
}

/// A colour that several series may share, one of them paler or dashed: the mean and the tail of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Which colour, counted from 0.
    pub colour: usize,
    /// Whether it is the second of that colour.
    pub second: bool,
}

impl Series {
    /// A line.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, errors: Vec::new(), style: Style::Line, look: None }
    }

    /// The same in a colour of its own; the `second` of a colour is dashed, or paler where it is bars.
    #[must_use]
    pub fn look(self, colour: usize, second: bool) -> Self {
        Self { look: Some(Look { colour, second }), ..self }
    }

    /// A line with a mark at each point, and with error bars.
    pub fn marked(name: impl Into<String>, points: Vec<(f64, f64)>, errors: Vec<(f64, f64, f64)>) -> Self {
        Self { errors, style: Style::Marked, ..Self::new(name, points) }
    }

    /// One bar in each category, from the first on; none where the value is not known.
    pub fn bars(name: impl Into<String>, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        let point = |(place, value): (usize, Option<f64>)| (place as f64, value.unwrap_or(f64::NAN));
        let points = values.into_iter().enumerate().map(point).collect();
        Self { style: Style::Bars, ..Self::new(name, points) }
    }

    /// The cumulative distribution of `values` (in any order; those that are not finite are left out): at each
    /// value the share, 0 to 1, that is not larger. `unknown` more are larger than all of them, so that the
    /// line ends below 1.
    ///
    /// ```
    /// use weir_report::Series;
    ///
    /// let series = Series::cdf("a", vec![3.0, 1.0, 1.0], 1);
    /// assert_eq!(series.points, [(1.0, 0.0), (1.0, 0.5), (3.0, 0.75)]);
    /// ```
    pub fn cdf(name: impl Into<String>, mut values: Vec<f64>, unknown: u64) -> Self {
        values.retain(|value| value.is_finite());
        values.sort_unstable_by(f64::total_cmp);
        let all = values.len() as f64 + unknown as f64;
        let mut points = Vec::from_iter(values.first().map(|first| (*first, 0.0)));
        let mut up_to = 0;
        for equal in values.chunk_by(|a, b| a == b) {
            up_to += equal.len();
            points.push((equal[0], up_to as f64 / all));
        }
        Self { style: Style::Steps, ..Self::new(name, points) }
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

/// A window of the horizontal axis: every other one is shaded.
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
