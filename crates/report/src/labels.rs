//! Where a text stands without covering another.
//!
//! Problem: published values of several services often lie close together, and their labels inside the plot
//! would cover each other or the measured lines. Approach: each label has a few places where it may stand;
//! it takes the first that touches no label placed before, and among those the one that covers the fewest
//! points of lines.
//!
//! Worked example: two dashed lines at 300 Mb/s over the same time: the first label stands above its line's
//! end, the second would cover it there and below, and goes to the line's start.

use crate::canvas::At;

/// A box around a text.
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

/// What is already drawn, and where labels may stand.
pub(crate) struct Labels {
    bounds: Area,
    taken: Vec<Area>,
    /// Points of lines, close enough together that none passes between two.
    points: Vec<At>,
}

/// The distance of two points of a line that is to be avoided.
const APART: f64 = 3.0;

impl Labels {
    pub(crate) fn new(bounds: Area) -> Self {
        Self { bounds, taken: Vec::new(), points: Vec::new() }
    }

    /// Adds a line that labels should not cover.
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

    /// The best of `candidates`; `None` where each is outside or touches another label.
    pub(crate) fn place(&mut self, candidates: &[Area]) -> Option<Area> {
        let free = candidates.iter().filter(|area| area.is_inside(&self.bounds));
        let free = free.filter(|area| !self.taken.iter().any(|other| area.touches(other)));
        let covered = |area: &Area| self.points.iter().filter(|at| area.contains(**at)).count();
        let best = free.min_by_key(|area| covered(area)).copied();
        self.taken.extend(best);
        best
    }
}

/// About how wide a text is in a common sans-serif font: fonts differ, so a little too wide.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    let em = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.32,
        ' ' | 'f' | 't' | 'r' | 'I' | '/' | '(' | ')' | '-' => 0.40,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.95,
        'A'..='Z' => 0.72,
        c if c.is_ascii() => 0.60,
        // Beyond Latin letters a glyph may fill its square.
        c if (c as u32) < 0x250 => 0.65,
        _ => 1.0,
    };
    text.chars().map(em).sum::<f64>() * size
}

/// `text`, cut with an ellipsis where it is wider than `room`; `None` where not even three letters fit.
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

/// `text` in at most `rows` rows, broken between words; a row that is still too wide is cut, and so is the last one where
/// words are left.
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
    fn labels_avoid_each_other_then_lines() {
        let mut labels = Labels::new(Area { from: (0.0, 0.0), to: (100.0, 100.0) });
        labels.avoid(&[(0.0, 5.0), (40.0, 5.0)]);
        let places = [area(0.0, 0.0), area(0.0, 20.0), area(0.0, 95.0)];
        assert_eq!(labels.place(&places), Some(places[1]));
        assert_eq!(labels.place(&places), Some(places[0]));
        assert_eq!(labels.place(&places), None);
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(fit("short", 10.0, 100.0).as_deref(), Some("short"));
        assert_eq!(fit("a and b and c and d", 10.0, 50.0).as_deref(), Some("a and b…"));
        assert_eq!(fit("a and b", 10.0, 10.0), None);
    }

    #[test]
    fn long_names_are_broken_between_words() {
        let wrapped = |rows| wrap("a without guarantees above 100 %", 10.0, 70.0, rows);
        assert_eq!(wrapped(3), ["a without", "guarantees", "above 100 %"]);
        assert_eq!(wrapped(2), ["a without", "guarantees…"]);
        assert_eq!(wrapped(1), ["a without g…"]);
        assert_eq!(wrap("short", 10.0, 70.0, 3), ["short"]);
    }
}
