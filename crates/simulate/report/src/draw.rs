//! Draws a [`Chart`].
//!
//! From the top: the title, the legend (as many rows as necessary), the label of the vertical axis,
//! the names of the phases, the plot, the ticks, the label of the horizontal axis. All heights are
//! computed before drawing, so nothing is clipped. [`crate::labels`] places the labels inside the
//! plot, and `draw_series.rs` draws its content.

use crate::canvas::{Anchor, At, Font, GRID, INK, MUTED, PALETTE, PAPER, Pen, SHADE, draw as canvas};
use crate::chart::{Axis, Chart, Look, Style};
use crate::labels::{Area, fit, width, wrap};
use crate::scale::Scale;
use plotters::style::RGBColor;

#[path = "draw_series.rs"]
mod series;

/// Sizes of texts in pixels.
const TITLE: f64 = 15.0;
const TEXT: f64 = 12.5;
const SMALL: f64 = 11.5;
/// Heights of rows.
const TITLE_ROW: f64 = 26.0;
const ROW: f64 = 20.0;
/// Space between the label of the vertical axis and its highest tick.
const TICK_ROOM: f64 = 6.0;
/// Space at the left edge, and at the other edges.
const LEFT: f64 = 2.0;
const EDGE: f64 = 12.0;
/// Width of the sample line of a legend entry, and space after its name.
const SAMPLE: f64 = 20.0;
const LEGEND_GAP: f64 = 18.0;
/// Minimum distance of ticks in pixels, horizontally and vertically.
const TICKS_APART: (f64, f64) = (70.0, 48.0);
/// Dashes (length on, length off) of references, and of series beyond the number of colours.
const REFERENCE: (f64, f64) = (7.0, 4.0);
const SECOND_ROUND: (f64, f64) = (3.0, 2.0);

/// The SVG of a chart under a title, over the given ranges of its axes.
pub(crate) fn draw(chart: &Chart, title: &str, x: (f64, f64), y: (f64, f64)) -> String {
    let layout = Layout::new(chart, title, x, y);
    let name = if title.is_empty() { &chart.y.label } else { title };
    canvas(chart.size, name, |pen| {
        pen.fill((0.0, 0.0), (f64::from(chart.size.0), f64::from(chart.size.1)), PAPER, 1.0);
        layout.header(pen);
        layout.axes(pen);
        layout.contents(pen);
    })
}

/// The scale of an axis.
fn scale(axis: &Axis, range: (f64, f64), count: usize, widen: bool) -> Scale {
    let scale = if axis.log { Scale::log } else { Scale::new };
    scale(&axis.unit, range, count, widen)
}

/// An entry of the legend.
struct Entry {
    name: String,
    colour: RGBColor,
    dash: Option<(f64, f64)>,
    style: Style,
    at: At,
}

struct Layout<'a> {
    chart: &'a Chart,
    title: &'a str,
    legend: Vec<Entry>,
    /// The vertical positions of the vertical axis's label and of the phases' names.
    unit_at: f64,
    phases_at: f64,
    plot: Area,
    x: Scale,
    y: Scale,
}

/// The colour of a series, and its dashes if it is dashed.
fn look(chart: &Chart, series: usize) -> (RGBColor, Option<(f64, f64)>) {
    // Series beyond the number of colours are dashed, so that twice as many are distinct.
    let own = Look { colour: series, second: series >= PALETTE.len() };
    let look = chart.series.get(series).and_then(|series| series.look).unwrap_or(own);
    (PALETTE[look.colour % PALETTE.len()], look.second.then_some(SECOND_ROUND))
}

fn font(size: f64, colour: RGBColor) -> Font {
    Font { size, bold: false, colour }
}

impl<'a> Layout<'a> {
    fn new(chart: &'a Chart, title: &'a str, x: (f64, f64), (y_from, y_to): (f64, f64)) -> Self {
        let (w, h) = (f64::from(chart.size.0), f64::from(chart.size.1));
        let mut top = EDGE / 2.0 + if title.is_empty() { 0.0 } else { TITLE_ROW };
        let legend = Self::legend(chart, w, &mut top);
        let unit_at = top + ROW / 2.0;
        top += ROW;
        let phases_at = top + ROW / 2.0;
        // The text of the highest tick extends above the plot.
        top += if chart.phases.is_empty() { TICK_ROOM } else { ROW };
        let bottom = h - EDGE / 2.0 - 2.0 * ROW;
        let steps = |room: f64, apart: f64| ((room / apart) as usize).clamp(2, 10);
        // Space above the highest line, unless the end of the axis is given.
        let y_to = match (chart.y.to, chart.y.log) {
            (Some(_), _) => y_to,
            (None, true) => y_to * 1.04,
            (None, false) => y_to + (y_to - y_from) * 0.04,
        };
        let y = scale(&chart.y, (y_from, y_to), steps(bottom - top, TICKS_APART.1), chart.y.to.is_none());
        let widest = y.ticks.iter().map(|(_, text)| width(text, TEXT)).fold(0.0, f64::max);
        let left = LEFT + widest + 8.0;
        let right = w - EDGE - 10.0;
        let x = scale(&chart.x, x, steps(right - left, TICKS_APART.0), chart.x.log);
        // The text of the last tick is centred on the end of the axis.
        let half = x.ticks.last().map_or(0.0, |(_, text)| width(text, TEXT) / 2.0);
        let right = right.min(w - half - 2.0);
        let plot = Area { from: (left, top), to: (right, bottom.max(top + 1.0)) };
        Self { chart, title, legend, unit_at, phases_at, plot, x, y }
    }

    /// Arranges the legend in rows and moves `top` below them.
    fn legend(chart: &Chart, w: f64, top: &mut f64) -> Vec<Entry> {
        let room = w - LEFT - EDGE - SAMPLE - 6.0;
        let series = chart.series.iter().enumerate();
        let names = series.map(|(i, series)| {
            let (colour, dash) = look(chart, i);
            (series.name.clone(), colour, dash, series.style)
        });
        let references = (!chart.references.is_empty() && !chart.references_are.is_empty())
            .then(|| (chart.references_are.clone(), MUTED, Some(REFERENCE), Style::Line));
        let mut entries: Vec<Entry> = Vec::new();
        let mut at = (LEFT, *top + ROW / 2.0);
        for (name, colour, dash, style) in names.chain(references) {
            let name = fit(&name, TEXT, room).unwrap_or(name);
            let wide = SAMPLE + 6.0 + width(&name, TEXT);
            if at.0 > LEFT && at.0 + wide > w - EDGE {
                at = (LEFT, at.1 + ROW);
            }
            entries.push(Entry { name, colour, dash, style, at });
            at.0 += wide + LEGEND_GAP;
        }
        if !entries.is_empty() {
            *top = at.1 + ROW / 2.0 + 2.0;
        }
        entries
    }

    fn at(&self, x: f64, y: f64) -> At {
        let Area { from, to } = self.plot;
        (from.0 + self.x.place(x) * (to.0 - from.0), to.1 - self.y.place(y) * (to.1 - from.1))
    }

    fn header(&self, pen: &mut Pen<'_>) {
        if !self.title.is_empty() {
            let room = f64::from(self.chart.size.0) - LEFT - EDGE;
            let title = fit(self.title, TITLE * 1.05, room).unwrap_or_default();
            let bold = Font { size: TITLE, bold: true, colour: INK };
            pen.text(&title, (LEFT, EDGE / 2.0 + TITLE_ROW / 2.0), Anchor::Start, bold);
        }
        for entry in &self.legend {
            let line = [(entry.at.0, entry.at.1), (entry.at.0 + SAMPLE, entry.at.1)];
            match (entry.style, entry.dash) {
                (Style::Bars, dash) => {
                    let (from, to) = ((line[0].0 + 4.0, line[0].1 - 6.0), (line[1].0, line[1].1 + 6.0));
                    pen.fill(from, to, entry.colour, series::opacity(dash));
                }
                (_, Some(dash)) => pen.dashed(&line, entry.colour, 2.0, dash),
                (_, None) => pen.line(&line, entry.colour, 2.6),
            }
            if entry.style == Style::Marked {
                pen.dot(((line[0].0 + line[1].0) / 2.0, line[0].1), series::MARK, entry.colour);
            }
            pen.text(&entry.name, (entry.at.0 + SAMPLE + 6.0, entry.at.1), Anchor::Start, font(TEXT, INK));
        }
    }

    fn axes(&self, pen: &mut Pen<'_>) {
        let Area { from, to } = self.plot;
        self.phases(pen);
        let axis = |label: &str, unit: &str| match (label.is_empty(), unit.is_empty()) {
            (_, true) => label.to_owned(),
            (true, false) => unit.to_owned(),
            (false, false) => format!("{label}, {unit}"),
        };
        let y_label = axis(&self.chart.y.label, &self.y.unit);
        pen.text(&y_label, (LEFT, self.unit_at), Anchor::Start, font(TEXT, MUTED));
        for (value, text) in &self.y.ticks {
            let at = self.at(self.x.from, *value);
            pen.line(&[(from.0, at.1), (to.0, at.1)], GRID, 1.0);
            pen.text(text, (from.0 - 8.0, at.1), Anchor::End, font(TEXT, INK));
        }
        self.categories(pen);
        let ticks: &[_] = if self.chart.categories.is_empty() { &self.x.ticks } else { &[] };
        for (value, text) in ticks {
            let at = self.at(*value, self.y.from);
            pen.line(&[(at.0, to.1), (at.0, to.1 + 5.0)], MUTED, 1.0);
            pen.text(text, (at.0, to.1 + 5.0 + ROW / 2.0), Anchor::Middle, font(TEXT, INK));
        }
        pen.line(&[(from.0, to.1), (to.0, to.1)], MUTED, 1.2);
        let unit = if self.chart.categories.is_empty() { self.x.unit.as_str() } else { "" };
        let x_label = axis(&self.chart.x.label, unit);
        pen.text(&x_label, (to.0, to.1 + 5.0 + 1.5 * ROW), Anchor::End, font(TEXT, MUTED));
    }

    /// The names of categories, each centred below its category. If one of them is too long for a
    /// row, all are drawn in a smaller font, in as many rows as fit above the axis's label.
    fn categories(&self, pen: &mut Pen<'_>) {
        let Area { to, .. } = self.plot;
        let place = |i: usize| self.at(i as f64, self.y.from).0;
        let room = place(1) - place(0) - 4.0;
        let long = self.chart.categories.iter().any(|name| width(name, TEXT) > room);
        let (size, rows, row) = match (long, self.chart.x.label.is_empty()) {
            (false, _) => (TEXT, 1, ROW),
            (true, false) => (SMALL, 1, ROW),
            (true, true) => (SMALL, 3, 13.0),
        };
        for (i, name) in self.chart.categories.iter().enumerate() {
            for (line, text) in wrap(name, size, room, rows).iter().enumerate() {
                let at = ((place(i) + place(i + 1)) / 2.0, to.1 + 5.0 + (line as f64 + 0.5) * row);
                pen.text(text, at, Anchor::Middle, font(size, INK));
            }
        }
    }

    fn phases(&self, pen: &mut Pen<'_>) {
        let Area { from, to } = self.plot;
        for (i, phase) in self.chart.phases.iter().enumerate() {
            let place = |x: f64| self.at(x, self.y.from).0.clamp(from.0, to.0);
            let (start, end) = (place(phase.from), place(phase.to));
            if i % 2 == 1 {
                pen.fill((start, from.1 - ROW), (end, to.1), SHADE, 1.0);
            }
            if start > from.0 + 0.5 {
                pen.line(&[(start, from.1 - ROW), (start, to.1)], GRID, 1.0);
            }
            if let Some(label) = fit(&phase.label, SMALL, end - start - 8.0) {
                pen.text(&label, ((start + end) / 2.0, self.phases_at), Anchor::Middle, font(SMALL, MUTED));
            }
        }
    }
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
