//! Draws a [`Chart`].
//!
//! From the top: the title, the legend (as many rows as it needs), what the vertical axis counts, the names
//! of the phases, the plot, the ticks, what the horizontal axis counts. Every height is known before
//! anything is drawn, so nothing is clipped; labels inside the plot find their places by [`crate::labels`].

use crate::canvas::{Anchor, At, Font, GRID, INK, MUTED, PALETTE, PAPER, Pen, SHADE, draw as canvas};
use crate::chart::{Chart, Reference};
use crate::labels::{Area, Labels, fit, width};
use crate::scale::Scale;
use plotters::style::RGBColor;

/// Sizes of texts in pixels.
const TITLE: f64 = 15.0;
const TEXT: f64 = 12.5;
const SMALL: f64 = 11.5;
/// Heights of rows.
const TITLE_ROW: f64 = 26.0;
const ROW: f64 = 20.0;
/// Room at the edges of the picture.
const LEFT: f64 = 2.0;
const EDGE: f64 = 12.0;
/// The line beside a name in the legend, and the room after a name.
const SAMPLE: f64 = 20.0;
const LEGEND_GAP: f64 = 18.0;
/// At least so many pixels from tick to tick.
const TICKS_APART: (f64, f64) = (70.0, 48.0);
/// Dashes of references and of series beyond the colours.
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

/// A name in the legend.
struct Entry {
    name: String,
    colour: RGBColor,
    dash: Option<(f64, f64)>,
    at: At,
}

struct Layout<'a> {
    chart: &'a Chart,
    title: &'a str,
    legend: Vec<Entry>,
    /// The height of what the vertical axis counts, and of the names of phases.
    unit_at: f64,
    phases_at: f64,
    plot: Area,
    x: Scale,
    y: Scale,
}

fn colour(series: usize) -> RGBColor {
    PALETTE[series % PALETTE.len()]
}

/// Series beyond the colours are dashed, so that no two look the same until twice as many.
fn dash(series: usize) -> Option<(f64, f64)> {
    (series >= PALETTE.len()).then_some(SECOND_ROUND)
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
        if !chart.phases.is_empty() {
            top += ROW;
        }
        let bottom = h - EDGE / 2.0 - 2.0 * ROW;
        let steps = |room: f64, apart: f64| ((room / apart) as usize).clamp(2, 10);
        // Room above the highest line, except where the axis' end is given.
        let y_to = if chart.y.to.is_some() { y_to } else { y_to + (y_to - y_from) * 0.04 };
        let y = Scale::new(&chart.y.unit, (y_from, y_to), steps(bottom - top, TICKS_APART.1), chart.y.to.is_none());
        let widest = y.ticks.iter().map(|(_, text)| width(text, TEXT)).fold(0.0, f64::max);
        let left = LEFT + widest + 8.0;
        let right = w - EDGE - 10.0;
        let x = Scale::new(&chart.x.unit, x, steps(right - left, TICKS_APART.0), false);
        let plot = Area { from: (left, top), to: (right, bottom.max(top + 1.0)) };
        Self { chart, title, legend, unit_at, phases_at, plot, x, y }
    }

    /// Places the legend's names in rows and moves `top` below them.
    fn legend(chart: &Chart, w: f64, top: &mut f64) -> Vec<Entry> {
        let room = w - LEFT - EDGE - SAMPLE - 6.0;
        let series = chart.series.iter().enumerate();
        let names = series.map(|(i, series)| (series.name.clone(), colour(i), dash(i)));
        let references = (!chart.references.is_empty() && !chart.references_are.is_empty())
            .then(|| (chart.references_are.clone(), MUTED, Some(REFERENCE)));
        let mut entries: Vec<Entry> = Vec::new();
        let mut at = (LEFT, *top + ROW / 2.0);
        for (name, colour, dash) in names.chain(references) {
            let name = fit(&name, TEXT, room).unwrap_or(name);
            let wide = SAMPLE + 6.0 + width(&name, TEXT);
            if at.0 > LEFT && at.0 + wide > w - EDGE {
                at = (LEFT, at.1 + ROW);
            }
            entries.push(Entry { name, colour, dash, at });
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
            match entry.dash {
                Some(dash) => pen.dashed(&line, entry.colour, 2.0, dash),
                None => pen.line(&line, entry.colour, 2.6),
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
        for (value, text) in &self.x.ticks {
            let at = self.at(*value, self.y.from);
            pen.line(&[(at.0, to.1), (at.0, to.1 + 5.0)], MUTED, 1.0);
            pen.text(text, (at.0, to.1 + 5.0 + ROW / 2.0), Anchor::Middle, font(TEXT, INK));
        }
        pen.line(&[(from.0, to.1), (to.0, to.1)], MUTED, 1.2);
        let x_label = axis(&self.chart.x.label, &self.x.unit);
        pen.text(&x_label, (to.0, to.1 + 5.0 + 1.5 * ROW), Anchor::End, font(TEXT, MUTED));
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

    fn contents(&self, pen: &mut Pen<'_>) {
        let mut labels = Labels::new(self.plot);
        for (i, series) in self.chart.series.iter().enumerate() {
            let Area { from, to } = self.plot;
            let columns = (to.0 - from.0).max(1.0) as usize;
            for part in series.points.split(|point| !(point.0.is_finite() && point.1.is_finite())) {
                let part = thin(part, columns, |point| self.at(point.0, point.1).0);
                let line: Vec<At> = part.iter().map(|point| self.clamped(*point)).collect();
                labels.avoid(&line);
                match (line.as_slice(), dash(i)) {
                    ([], _) => {}
                    ([at], _) => pen.fill((at.0 - 2.0, at.1 - 2.0), (at.0 + 2.0, at.1 + 2.0), colour(i), 1.0),
                    (line, Some(dash)) => pen.dashed(line, colour(i), 1.9, dash),
                    (line, None) => pen.line(line, colour(i), 1.9),
                }
            }
        }
        let lines: Vec<_> = self.chart.references.iter().map(|reference| self.reference_line(reference)).collect();
        for line in &lines {
            labels.avoid(line);
        }
        for (reference, line) in self.chart.references.iter().zip(&lines) {
            pen.dashed(line, reference.series.map_or(INK, colour), 1.4, REFERENCE);
        }
        for (reference, [start, end]) in self.chart.references.iter().zip(&lines) {
            let half = width(&reference.label, SMALL) / 2.0 + 2.0;
            let ends = [end.0 - half, start.0 + half, (start.0 + end.0) / 2.0];
            let heights = [start.1 - 10.0, start.1 + 10.0];
            self.label(pen, &mut labels, &reference.label, reference.series.map_or(INK, colour), &ends, &heights);
        }
        self.markers(pen, &mut labels);
    }

    fn markers(&self, pen: &mut Pen<'_>, labels: &mut Labels) {
        let Area { from, to } = self.plot;
        let places = self.chart.markers.iter().map(|marker| self.at(marker.at, self.y.from).0.clamp(from.0, to.0));
        let places: Vec<f64> = places.collect();
        // All lines before all labels: a label must not stand on the next marker's line.
        for at in &places {
            let line = [(*at, from.1), (*at, to.1)];
            pen.dashed(&line, MUTED, 1.0, (2.0, 3.0));
            labels.avoid(&line);
        }
        for (marker, at) in self.chart.markers.iter().zip(&places) {
            let heights: Vec<f64> = (0..6).map(|row| from.1 + 10.0 + f64::from(row) * 18.0).collect();
            let half = width(&marker.label, SMALL) / 2.0 + 6.0;
            self.label(pen, labels, &marker.label, INK, &[at + half, at - half], &heights);
        }
    }

    /// A point inside the plot: an axis may end before the values do.
    fn clamped(&self, (x, y): (f64, f64)) -> At {
        let Area { from, to } = self.plot;
        let at = self.at(x, y);
        (at.0.clamp(from.0, to.0), at.1.clamp(from.1, to.1))
    }

    fn reference_line(&self, reference: &Reference) -> [At; 2] {
        let (from, to) = (reference.from.unwrap_or(self.x.from), reference.to.unwrap_or(self.x.to));
        [self.clamped((from, reference.value)), self.clamped((to, reference.value))]
    }

    /// A label at one of the places, moved sideways into the plot where it would stand out.
    fn label(
        &self,
        pen: &mut Pen<'_>,
        labels: &mut Labels,
        text: &str,
        colour: RGBColor,
        columns: &[f64],
        heights: &[f64],
    ) {
        let half = (width(text, SMALL) / 2.0 + 2.0, 8.0);
        let Area { from, to } = self.plot;
        let inside = |x: f64| x.clamp(from.0 + half.0, (to.0 - half.0).max(from.0 + half.0));
        let candidates: Vec<Area> = columns
            .iter()
            .flat_map(|x| heights.iter().map(move |y| (*x, *y)))
            .map(|(x, y)| (inside(x), y))
            .map(|(x, y)| Area { from: (x - half.0, y - half.1), to: (x + half.0, y + half.1) })
            .collect();
        if let Some(area) = labels.place(&candidates) {
            let middle = ((area.from.0 + area.to.0) / 2.0, (area.from.1 + area.to.1) / 2.0);
            pen.fill(area.from, area.to, PAPER, 0.8);
            pen.text(text, middle, Anchor::Middle, font(SMALL, colour));
        }
    }
}

/// At most four points for each column of pixels: the first, the lowest, the highest and the last.
fn thin(points: &[(f64, f64)], columns: usize, column: impl Fn(&(f64, f64)) -> f64) -> Vec<(f64, f64)> {
    if points.len() <= 4 * columns {
        return points.to_vec();
    }
    let mut kept = Vec::new();
    for group in points.chunk_by(|a, b| column(a).floor() == column(b).floor()) {
        let by_y = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let ends = [group.first(), group.iter().min_by(by_y), group.iter().max_by(by_y), group.last()];
        let mut ends: Vec<(f64, f64)> = ends.into_iter().flatten().copied().collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends.dedup();
        kept.extend(ends);
    }
    kept
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
