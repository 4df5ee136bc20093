//! The content of the plot: series, references, markers and their labels.
//!
//! A line is reduced to the resolution of the picture before it is drawn, so that the file size
//! depends on the picture's width and not on the length of the run.

use super::{REFERENCE, SMALL, font, look};
use crate::canvas::{Anchor, At, INK, MUTED, PAPER, Pen};
use crate::chart::{Reference, Series, Style};
use crate::labels::{Area, Labels, width};
use crate::scale::{Unit, number};
use plotters::style::RGBColor;

/// The radius of a mark.
pub(super) const MARK: f64 = 3.2;
/// Half of the width of an error bar's end strokes.
const WHISKER: f64 = 4.0;
/// The part of a category that bars fill.
const FILLED: f64 = 0.82;
/// Maximum width of a bar in pixels.
const WIDEST: f64 = 72.0;
/// Opacity of bars of series beyond the number of colours.
const PALE: f64 = 0.5;

/// The opacity of a bar.
pub(super) fn opacity(dash: Option<(f64, f64)>) -> f64 {
    if dash.is_some() { PALE } else { 1.0 }
}

impl super::Layout<'_> {
    pub(super) fn contents(&self, pen: &mut Pen<'_>) {
        let mut labels = Labels::new(self.plot);
        for (i, series) in self.chart.series.iter().enumerate() {
            match series.style {
                Style::Bars => self.bars(pen, i, series),
                Style::Line | Style::Marked | Style::Steps => self.line(pen, &mut labels, i, series),
            }
        }
        let lines: Vec<_> = self.chart.references.iter().map(|reference| self.reference_line(reference)).collect();
        for line in &lines {
            labels.avoid(line);
        }
        for (reference, line) in self.chart.references.iter().zip(&lines) {
            pen.dashed(line, self.reference_colour(reference), 1.4, REFERENCE);
        }
        for (reference, [start, end]) in self.chart.references.iter().zip(&lines) {
            let half = width(&reference.label, SMALL) / 2.0 + 2.0;
            let ends = [end.0 - half, start.0 + half, (start.0 + end.0) / 2.0];
            let heights = [start.1 - 10.0, start.1 + 10.0];
            self.label(pen, &mut labels, &reference.label, self.reference_colour(reference), &ends, &heights);
        }
        self.markers(pen, &mut labels);
    }

    fn reference_colour(&self, reference: &Reference) -> RGBColor {
        reference.series.map_or(INK, |series| look(self.chart, series).0)
    }

    fn line(&self, pen: &mut Pen<'_>, labels: &mut Labels, i: usize, series: &Series) {
        let Area { from, to } = self.plot;
        let columns = (to.0 - from.0).max(1.0) as usize;
        let (colour, dash) = look(self.chart, i);
        for (x, low, high) in &series.errors {
            let inside = |value: &f64| (self.y.from..=self.y.to).contains(value);
            // An error bar that the axis clips has no end stroke there.
            let ends: Vec<At> =
                [low, high].into_iter().filter(|end| inside(end)).map(|end| self.clamped((*x, *end))).collect();
            pen.line(&[self.clamped((*x, *low)), self.clamped((*x, *high))], colour, 1.2);
            for end in ends {
                pen.line(&[(end.0 - WHISKER, end.1), (end.0 + WHISKER, end.1)], colour, 1.2);
            }
        }
        for part in series.points.split(|point| !(point.0.is_finite() && point.1.is_finite())) {
            let part = thin(part, columns, |point| self.at(point.0, point.1).0);
            let mut line: Vec<At> = part.iter().map(|point| self.clamped(*point)).collect();
            if series.style == Style::Steps {
                line = steps(&line);
            }
            labels.avoid(&line);
            // Lines that oscillate at every pixel would look like a filled area.
            let wide = if part.len() > columns / 3 && series.style == Style::Line { 1.2 } else { 1.9 };
            match (line.as_slice(), dash) {
                ([], _) => {}
                ([at], _) if series.style != Style::Marked => {
                    pen.fill((at.0 - 2.0, at.1 - 2.0), (at.0 + 2.0, at.1 + 2.0), colour, 1.0);
                }
                (line, Some(dash)) => pen.dashed(line, colour, wide, dash),
                (line, None) => pen.line(line, colour, wide),
            }
            if series.style == Style::Marked {
                for at in line {
                    pen.dot(at, MARK, colour);
                }
            }
        }
    }

    /// The bars of one series, each in its part of its category; a dash if the value is unknown.
    /// The category with the most bars determines the width of all bars. The bars of a category are
    /// centred in it.
    fn bars(&self, pen: &mut Pen<'_>, i: usize, series: &Series) {
        let beside = |category: f64, series: &[Series]| {
            let here = |series: &&Series| series.points.iter().any(|point| point.0 == category);
            series.iter().filter(|series| series.style == Style::Bars).filter(here).count()
        };
        let fullest = (0..self.chart.categories.len()).map(|i| beside(i as f64, &self.chart.series)).max();
        let category = self.at(1.0, self.y.from).0 - self.at(0.0, self.y.from).0;
        let wide = (FILLED / fullest.unwrap_or_default().max(1) as f64).min(WIDEST / category.max(1.0));
        let floor = self.at(0.0, self.y.from).1;
        let (colour, dash) = look(self.chart, i);
        let labelled = self.bars_have_room(wide);
        for (category, value) in &series.points {
            let (all, before) = (beside(*category, &self.chart.series), beside(*category, &self.chart.series[..i]));
            let start = category + (1.0 - wide * all as f64) / 2.0 + before as f64 * wide;
            let (left, right) = (self.at(start, self.y.from).0, self.at(start + wide, self.y.from).0);
            // One pixel between neighbours, if bars are wide enough.
            let right = if right - left > 4.0 { right - 1.0 } else { right };
            let middle = (left + right) / 2.0;
            if !value.is_finite() {
                pen.text("–", (middle, floor - 8.0), Anchor::Middle, font(SMALL, MUTED));
                continue;
            }
            let top = self.clamped((*category, *value)).1;
            pen.fill((left, top), (right, floor), colour, opacity(dash));
            if labelled {
                pen.text(&self.bar_text(*value), (middle, top - 8.0), Anchor::Middle, font(SMALL, MUTED));
            }
        }
    }

    /// Whether the number of every bar fits above it. Otherwise no number is drawn.
    fn bars_have_room(&self, wide: f64) -> bool {
        let room = self.at(wide, self.y.from).0 - self.at(0.0, self.y.from).0 - 2.0;
        let bars = self.chart.series.iter().filter(|series| series.style == Style::Bars);
        let mut values = bars.flat_map(|series| &series.points).map(|point| point.1).filter(|value| value.is_finite());
        values.all(|value| width(&self.bar_text(value), SMALL) <= room)
    }

    fn bar_text(&self, value: f64) -> String {
        let axis = &self.chart.y;
        if axis.log && !matches!(axis.unit, Unit::Plain(_)) {
            // On such an axis each tick has its own unit, and so has each bar.
            return axis.unit.format_short(value);
        }
        let value = value / self.factor();
        number(value, if value < 10.0 { 1 } else { 0 })
    }

    /// The factor of the vertical axis's unit, so that the numbers of bars have the unit of the
    /// axis.
    fn factor(&self) -> f64 {
        if self.chart.y.log { 1.0 } else { self.chart.y.unit.prefix(self.y.from.abs().max(self.y.to.abs())).0 }
    }

    fn markers(&self, pen: &mut Pen<'_>, labels: &mut Labels) {
        let Area { from, to } = self.plot;
        let places = self.chart.markers.iter().map(|marker| self.at(marker.at, self.y.from).0.clamp(from.0, to.0));
        let places: Vec<f64> = places.collect();
        // All lines are added before any label is placed: labels avoid the lines of other markers.
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

    /// The position of a point, clamped to the plot: values may exceed the range of an axis.
    fn clamped(&self, (x, y): (f64, f64)) -> At {
        let Area { from, to } = self.plot;
        let at = self.at(x, y);
        (at.0.clamp(from.0, to.0), at.1.clamp(from.1, to.1))
    }

    fn reference_line(&self, reference: &Reference) -> [At; 2] {
        let (from, to) = (reference.from.unwrap_or(self.x.from), reference.to.unwrap_or(self.x.to));
        [self.clamped((from, reference.value)), self.clamped((to, reference.value))]
    }

    /// Draws a label at one of the positions, moved horizontally into the plot if necessary.
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

/// Converts a line to steps: constant from each point to the next.
fn steps(points: &[At]) -> Vec<At> {
    let corners = points.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
    corners.chain(points.last().copied()).collect()
}

/// Keeps at most four points per column of pixels: the first, the lowest, the highest and the last.
pub(super) fn thin(points: &[(f64, f64)], columns: usize, column: impl Fn(&(f64, f64)) -> f64) -> Vec<(f64, f64)> {
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
