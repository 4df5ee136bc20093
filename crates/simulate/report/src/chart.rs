//! The content of a chart.
//!
//! A chart has named series over a common axis, and optional references: published values as dashed
//! lines, phases as shaded ranges, points in time as vertical lines. [`Chart::to_svg`] draws it.
//!
//! Series are lines over time, lines with marks and error bars over a parameter, steps of a
//! cumulative distribution ([`Series::cdf`]), or bars in named categories ([`Series::bars`]). Each
//! axis is linear or logarithmic ([`Axis::log`]).
//!
//! Worked example: Parley Fig 14 is two series, `a` and `b`; the phases `a alone`, `a and b`, `b
//! alone`; and the published values 30 Gb/s (for `a`, until 40 s), 30 and 60 Gb/s (for `b`, from 20
//! s and from 40 s) as references.

use crate::scale::Unit;

/// A chart. Set the fields and call [`Chart::to_svg`].
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The title, which screen readers read; drawn at the top unless empty.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis. It starts at zero, unless `from` is set or it is logarithmic.
    pub y: Axis,
    /// The series. Colours are assigned in this order.
    pub series: Vec<Series>,
    /// Reference values.
    pub references: Vec<Reference>,
    /// The legend's text for references.
    pub references_are: String,
    /// Named ranges of the horizontal axis.
    pub phases: Vec<Phase>,
    /// Named points of the horizontal axis.
    pub markers: Vec<Marker>,
    /// Names of the categories, for series of bars: then x is the index of a category, from 0.
    pub categories: Vec<String>,
    /// Width and height in pixels; pages scale it to the available space.
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

    /// The smallest and the largest value along the vertical axis. The range includes zero, unless
    /// the axis is logarithmic.
    pub fn y_range(&self) -> (f64, f64) {
        let points = self.series.iter().flat_map(|series| series.points.iter().map(|point| point.1));
        let errors = self.series.iter().flat_map(|series| series.errors.iter().flat_map(|error| [error.1, error.2]));
        let references = self.references.iter().map(|reference| reference.value);
        let (from, to) = self.y.range(points.chain(errors).chain(references));
        let (from, to) = if self.y.log { (from, to) } else { (from.min(0.0), to.max(0.0)) };
        (self.y.from.unwrap_or(from), self.y.to.unwrap_or(to))
    }

    /// The chart as a complete SVG document.
    pub fn to_svg(&self) -> String {
        crate::draw::draw(self, &self.title, self.x_range(), self.y_range())
    }
}

/// One axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The quantity, for example `bandwidth`.
    pub label: String,
    /// The unit of its values.
    pub unit: Unit,
    /// Its start; that of the values if `None`.
    pub from: Option<f64>,
    /// Its end; that of the values if `None`.
    pub to: Option<f64>,
    /// Whether the axis is logarithmic. Values that are not positive are drawn at its start.
    pub log: bool,
}

impl Axis {
    /// A linear axis over the range of its values.
    pub fn new(label: impl Into<String>, unit: Unit) -> Self {
        Self { label: label.into(), unit, from: None, to: None, log: false }
    }
    /// A logarithmic axis over the range of its values.
    pub fn log(label: impl Into<String>, unit: Unit) -> Self {
        Self { log: true, ..Self::new(label, unit) }
    }

    /// The smallest and the largest value that the axis can show, or 0 and 0.
    fn range(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let able = values.filter(|value| value.is_finite() && (!self.log || *value > 0.0));
        let ends = able.fold(None, |ends: Option<(f64, f64)>, value| {
            Some(ends.map_or((value, value), |(from, to)| (from.min(value), to.max(value))))
        });
        ends.unwrap_or_default()
    }
}

/// The style of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A line through the points.
    Line,
    /// A line with a mark at each point, for a few separate measurements.
    Marked,
    /// Constant from each point to the next, for values that are valid until they change.
    Steps,
    /// A bar for each point, next to those of the other series; x is the index of the category.
    Bars,
}

/// A named list of points.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// (x, y) in base units, ascending in x. A y that is not finite is a gap in the line.
    pub points: Vec<(f64, f64)>,
    /// (x, lowest, highest): error bars.
    pub errors: Vec<(f64, f64, f64)>,
    /// The style.
    pub style: Style,
    /// Its colour; that of its index among the series if `None`.
    pub look: Option<Look>,
}

/// A colour that two series may share, one of them paler or dashed: the mean and the tail of one
/// quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The index of the colour, from 0.
    pub colour: usize,
    /// Whether it is the second series of that colour.
    pub second: bool,
}

impl Series {
    /// A line.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, errors: Vec::new(), style: Style::Line, look: None }
    }

    /// The same series in the given colour. The `second` series of a colour is dashed, or paler if
    /// it has bars.
    #[must_use]
    pub fn look(self, colour: usize, second: bool) -> Self {
        Self { look: Some(Look { colour, second }), ..self }
    }

    /// A line with a mark at each point, and with error bars.
    pub fn marked(name: impl Into<String>, points: Vec<(f64, f64)>, errors: Vec<(f64, f64, f64)>) -> Self {
        Self { errors, style: Style::Marked, ..Self::new(name, points) }
    }

    /// One bar per category, beginning with the first. An unknown value has no bar.
    pub fn bars(name: impl Into<String>, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        let point = |(place, value): (usize, Option<f64>)| (place as f64, value.unwrap_or(f64::NAN));
        let points = values.into_iter().enumerate().map(point).collect();
        Self { style: Style::Bars, ..Self::new(name, points) }
    }

    /// The cumulative distribution of `values` (in any order; values that are not finite are
    /// ignored): for each value the fraction, 0 to 1, that is not larger. `unknown` further values
    /// are larger than all of them, so that the line ends below 1.
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

/// A reference value: a dashed horizontal line.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// Its label.
    pub label: String,
    /// The value in the base unit.
    pub value: f64,
    /// Its start; that of the chart if `None`.
    pub from: Option<f64>,
    /// Its end; that of the chart if `None`.
    pub to: Option<f64>,
    /// The index of the series whose colour it has.
    pub series: Option<usize>,
}

impl Reference {
    /// A reference over the whole chart.
    pub fn new(label: impl Into<String>, value: f64) -> Self {
        Self { label: label.into(), value, from: None, to: None, series: None }
    }
    /// The same reference over a range of the horizontal axis.
    #[must_use]
    pub fn between(self, from: f64, to: f64) -> Self {
        Self { from: Some(from), to: Some(to), ..self }
    }
    /// The same reference in the colour of a series.
    #[must_use]
    pub fn of(self, series: usize) -> Self {
        Self { series: Some(series), ..self }
    }
}

/// A named range of the horizontal axis. Every second one is shaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Its label, above the plot.
    pub label: String,
    /// Its start.
    pub from: f64,
    /// Its end.
    pub to: f64,
}

impl Phase {
    /// A phase.
    pub fn new(label: impl Into<String>, from: f64, to: f64) -> Self {
        Self { label: label.into(), from, to }
    }
}

/// A named point of the horizontal axis: a vertical line.
#[derive(Debug, Clone, PartialEq)]
pub struct Marker {
    /// Its label.
    pub label: String,
    /// Its position.
    pub at: f64,
}

impl Marker {
    /// A marker.
    pub fn new(label: impl Into<String>, at: f64) -> Self {
        Self { label: label.into(), at }
    }
}
