//! A map of places: rows of slots, coloured by what occupies them.
//!
//! Problem: the places of a rack's tenants are a few hundred slots, which no table shows at a glance. Approach: a row
//! for each machine, from its occupied slots to its free ones; the groups with the most slots have a colour each, all
//! others share one.
//!
//! Example: machine `m1` with 3 slots of `red`, 1 of `blue` and 4 slots in all: three cells of one colour, one of
//! another, no free one.

use crate::canvas::{Anchor, Font, GRID, INK, MUTED, PALETTE, PAPER, draw};
use crate::labels::width;
use plotters::style::RGBColor;
use std::collections::BTreeMap;

/// Sizes in pixels: the width of a picture, a row, the text, and the largest cell.
const WIDTH: f64 = 720.0;
const ROW: f64 = 20.0;
const TEXT: f64 = 12.5;
const CELL: f64 = 16.0;
const EDGE: f64 = 12.0;

/// A row of slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapRow {
    /// Its name.
    pub name: String,
    /// The occupied slots by group, in their order.
    pub occupied: Vec<(String, u32)>,
    /// All slots, at least the occupied ones.
    pub slots: u32,
    /// A remark at the right end.
    pub remark: String,
}

/// Rows of slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotMap {
    /// The title.
    pub title: String,
    /// The rows.
    pub rows: Vec<MapRow>,
}

impl SlotMap {
    /// The map as a complete SVG document.
    pub fn to_svg(&self) -> String {
        let colours = self.colours();
        let legend = self.legend(&colours);
        let lines = legend.last().map_or(1, |(line, _, _, _)| line + 1);
        let top = EDGE + ROW * (1.0 + lines as f64);
        let height = top + ROW * self.rows.len() as f64 + EDGE;
        let widest = |texts: &mut dyn Iterator<Item = &str>| texts.map(|text| width(text, TEXT)).fold(0.0, f64::max);
        let left = EDGE + widest(&mut self.rows.iter().map(|row| row.name.as_str())) + 8.0;
        let right = WIDTH - EDGE - widest(&mut self.rows.iter().map(|row| row.remark.as_str())) - 8.0;
        let most = self.rows.iter().map(|row| row.slots).max().unwrap_or(1).max(1);
        let cell = ((right - left) / f64::from(most)).min(CELL);
        let right = left + cell * f64::from(most);
        let font = |colour| Font { size: TEXT, bold: false, colour };
        draw((WIDTH as u32, height.ceil() as u32), &self.title, |pen| {
            pen.fill((0.0, 0.0), (WIDTH, height), PAPER, 1.0);
            pen.text(&self.title, (EDGE, EDGE + ROW / 2.0), Anchor::Start, Font { bold: true, ..font(INK) });
            for (line, at, name, colour) in &legend {
                let middle = EDGE + ROW * (1.5 + *line as f64);
                pen.fill((*at, middle - 5.0), (at + 10.0, middle + 5.0), *colour, 1.0);
                pen.text(name, (at + 15.0, middle), Anchor::Start, font(INK));
            }
            for (at, row) in self.rows.iter().enumerate() {
                let middle = top + ROW * (at as f64 + 0.5);
                pen.text(&row.name, (left - 8.0, middle), Anchor::End, font(INK));
                pen.text(&row.remark, (right + 8.0, middle), Anchor::Start, font(MUTED));
                let (above, below) = (middle - ROW / 2.0 + 2.0, middle + ROW / 2.0 - 2.0);
                let all = left + cell * f64::from(row.slots);
                pen.fill((left, above), (all, below), GRID, 1.0);
                let mut from = left;
                for (group, slots) in &row.occupied {
                    let to = from + cell * f64::from(*slots);
                    // A gap between groups, so that two of the same colour are two.
                    pen.fill((from, above), ((to - 1.0).max(from + 0.5), below), colours[group.as_str()], 1.0);
                    from = to;
                }
            }
        })
    }

    /// Groups by name, with their slots.
    fn sizes(&self) -> BTreeMap<&str, u32> {
        let mut sizes = BTreeMap::new();
        for (group, slots) in self.rows.iter().flat_map(|row| &row.occupied) {
            *sizes.entry(group.as_str()).or_insert(0) += slots;
        }
        sizes
    }

    /// The groups with a colour of their own, the largest first.
    fn largest(&self) -> Vec<&str> {
        let mut groups: Vec<(&str, u32)> = self.sizes().into_iter().collect();
        groups.sort_by_key(|(name, slots)| (std::cmp::Reverse(*slots), *name));
        // One more group needs no more room than an entry for the others.
        let kept = if groups.len() <= PALETTE.len() { groups.len() } else { PALETTE.len() - 1 };
        groups.truncate(kept);
        groups.into_iter().map(|(name, _)| name).collect()
    }

    fn colours(&self) -> BTreeMap<&str, RGBColor> {
        let largest = self.largest();
        let colour = |name: &str| largest.iter().position(|own| *own == name).map_or(MUTED, |at| PALETTE[at]);
        self.sizes().into_keys().map(|name| (name, colour(name))).collect()
    }

    /// Line, position, name and colour of each entry of the legend.
    fn legend(&self, colours: &BTreeMap<&str, RGBColor>) -> Vec<(usize, f64, String, RGBColor)> {
        let largest = self.largest();
        let others = colours.len() - largest.len();
        let mut entries: Vec<(String, RGBColor)> =
            largest.iter().map(|name| ((*name).to_owned(), colours[name])).collect();
        if others > 0 {
            entries.push((format!("{others} others"), MUTED));
        }
        entries.push(("free".to_owned(), GRID));
        let (mut line, mut at) = (0, EDGE);
        let place = |(name, colour): (String, RGBColor)| {
            let needed = 15.0 + width(&name, TEXT) + 18.0;
            if at > EDGE && at + needed > WIDTH - EDGE {
                (line, at) = (line + 1, EDGE);
            }
            let placed = (line, at, name, colour);
            at += needed;
            placed
        };
        entries.into_iter().map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_has_a_row_and_the_largest_groups_a_colour() {
        let groups: Vec<(String, u32)> = (0..9).map(|at| (format!("t{at}"), 9 - at)).collect();
        let rows = vec![
            MapRow { name: "m1".into(), occupied: groups, slots: 50, remark: "40 %".into() },
            MapRow { name: "m2".into(), occupied: vec![("t8".into(), 2)], slots: 4, remark: String::new() },
        ];
        let map = SlotMap { title: "rack r1".into(), rows };
        let colours = map.colours();
        assert_eq!(
            (colours["t0"], colours["t4"], colours["t5"], colours["t8"]),
            (PALETTE[0], PALETTE[4], MUTED, MUTED)
        );
        let svg = map.to_svg();
        for text in ["rack r1", "m1", "m2", "40 %", "t0", "4 others", "free"] {
            assert!(svg.contains(text), "{text}");
        }
        // The background, a row's slots twice, ten runs, seven entries of the legend.
        assert_eq!(svg.matches("<rect").count(), 1 + 2 + 10 + 7);
    }
}
