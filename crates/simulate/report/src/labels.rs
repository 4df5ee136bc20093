//! Placement of labels without overlap.
//!
//! Problem: published values of several services are often close together, so that their labels
//! would cover each other or the measured lines. Approach: each label has several candidate areas.
//! Of those that overlap no earlier label, it takes the one that covers the fewest points of lines,
//! and the first of equals.
//!
//! Worked example: two dashed lines at 300 Mb/s over the same time. The first label is placed above
//! the end of its line. The second one would overlap it there, and is placed at the start of its
//! line.

use crate::canvas::At;

/// The bounding box of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Area {
    pub(crate) from: At,
    pub(crate) to: At,
}

impl Area {
    fn touches(&self, other: &Self) -> bool {
        self.from.0 < other.to.0 && other.from.0 < self.to.0 && self.from.1 < other.to.1 && other.from.1 < self.to.1
    }
    fn is_inside(&self, outer: &Self) -> bool {
        self.from.0 >= outer.from.0 && self.to.0 <= outer.to.0 && self.from.1 >= outer.from.1 && self.to.1 <= outer.to.1
    }
    fn contains(&self, at: At) -> bool {
        (self.from.0..=self.to.0).contains(&at.0) && (self.from.1..=self.to.1).contains(&at.1)
    }
}

/// The areas and lines that are already drawn.
pub(crate) struct Labels {
    bounds: Area,
    taken: Vec<Area>,
    /// Points of lines, at most [`APART`] pixels from each other.
    points: Vec<At>,
}

/// Maximum distance in pixels of two sampled points of a line.
const APART: f64 = 3.0;

impl Labels {
    pub(crate) fn new(bounds: Area) -> Self {
        Self { bounds, taken: Vec::new(), points: Vec::new() }
    }

    /// Adds a line that labels avoid.
    pub(crate) fn avoid(&mut self, line: &[At]) {
        for pair in line.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let parts = (((to.0 - from.0).hypot(to.1 - from.1) / APART).ceil() as usize).clamp(1, 1000);
            let at = |i: usize| i as f64 / parts as f64;
            let between = |i| (from.0 + (to.0 - from.0) * at(i), from.1 + (to.1 - from.1) * at(i));
            self.points.extend((0..parts).map(between));
        }
        self.points.extend(line.last());
    }

    /// The best of `candidates`; `None` if all of them are outside the bounds or overlap another
    /// label.
    pub(crate) fn place(&mut self, candidates: &[Area]) -> Option<Area> {
        let free = candidates.iter().filter(|area| area.is_inside(&self.bounds));
        let free = free.filter(|area| !self.taken.iter().any(|other| area.touches(other)));
        let covered = |area: &Area| self.points.iter().filter(|at| area.contains(**at)).count();
        let best = free.min_by_key(|area| covered(area)).copied();
        self.taken.extend(best);
        best
    }
}

/// Estimated width of a text in a common sans-serif font. Fonts differ, so the estimate is slightly
/// high.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    let em = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.32,
        ' ' | 'f' | 't' | 'r' | 'I' | '/' | '(' | ')' | '-' => 0.40,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.95,
        'A'..='Z' => 0.72,
        c if c.is_ascii() => 0.60,
        // Other scripts may have glyphs as wide as high.
        c if (c as u32) < 0x250 => 0.65,
        _ => 1.0,
    };
    text.chars().map(em).sum::<f64>() * size
}

/// `text`, truncated with an ellipsis if it is wider than `room`; `None` if fewer than three
/// characters fit.
pub(crate) fn fit(text: &str, size: f64, room: f64) -> Option<String> {
    if width(text, size) <= room {
        return Some(text.to_owned());
    }
    let mut cut = String::new();
    for c in text.chars() {
        if width(&cut, size) + width(&format!("{c}…"), size) > room {
            break;
        }
        cut.push(c);
    }
    (cut.chars().count() >= 3).then(|| format!("{}…", cut.trim_end()))
}

/// `text` in at most `rows` rows, broken between words. A row that is too wide is truncated, as is
/// the last row if words remain.
pub(crate) fn wrap(text: &str, size: f64, room: f64, rows: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let full = lines.len() >= rows;
        match lines.last_mut() {
            Some(line) if full || width(&format!("{line} {word}"), size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().filter_map(|line| fit(line, size, room)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn area(x: f64, y: f64) -> Area {
        Area { from: (x, y), to: (x + 10.0, y + 10.0) }
    }

    #[test]
    fn labels_avoid_labels_first_and_lines_second() {
        let mut labels = Labels::new(Area { from: (0.0, 0.0), to: (100.0, 100.0) });
        labels.avoid(&[(0.0, 5.0), (40.0, 5.0)]);
        let places = [area(0.0, 0.0), area(0.0, 20.0), area(0.0, 95.0)];
        assert_eq!(labels.place(&places), Some(places[1]));
        assert_eq!(labels.place(&places), Some(places[0]));
        assert_eq!(labels.place(&places), None);
    }

    #[test]
    fn long_texts_are_truncated() {
        assert_eq!(fit("short", 10.0, 100.0).as_deref(), Some("short"));
        assert_eq!(fit("a and b and c and d", 10.0, 50.0).as_deref(), Some("a and b…"));
        assert_eq!(fit("a and b", 10.0, 10.0), None);
    }

    #[test]
    fn long_names_are_wrapped_between_words() {
        let wrapped = |rows| wrap("a without guarantees above 100 %", 10.0, 70.0, rows);
        assert_eq!(wrapped(3), ["a without", "guarantees", "above 100 %"]);
        assert_eq!(wrapped(2), ["a without", "guarantees…"]);
        assert_eq!(wrapped(1), ["a without g…"]);
        assert_eq!(wrap("short", 10.0, 70.0, 3), ["short"]);
    }
}
