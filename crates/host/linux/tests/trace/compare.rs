//! The first difference between two sides, with the events that led to it.

use crate::event::Event;
use crate::side::Side;
use std::collections::VecDeque;
use std::fmt::Debug;

/// Events that a report shows.
const SHOWN: usize = 20;

/// Two sides, and the events before now.
pub(crate) struct Comparison {
    last: VecDeque<Event>,
}

impl Comparison {
    pub(crate) fn new() -> Self {
        Self { last: VecDeque::with_capacity(SHOWN) }
    }

    /// Keeps an event for a report.
    pub(crate) fn note(&mut self, event: Event) {
        if self.last.len() == SHOWN {
            self.last.pop_front();
        }
        self.last.push_back(event);
    }

    /// Asserts that outcomes or states of two sides are equal.
    pub(crate) fn equal<T: Debug + PartialEq>(&self, what: &str, kernel: &T, other: &T) {
        if kernel == other {
            return;
        }
        for event in &self.last {
            println!("{:>7} at {} ns: {:?}", event.number, event.at, event.kind);
        }
        let number = self.last.back().map_or(0, |event| event.number);
        panic!("event {number}: {what} differs in {}", difference(&format!("{kernel:#?}"), &format!("{other:#?}")));
    }

    /// Asserts that the states of two sides are equal.
    pub(crate) fn states(&self, kernel: &impl Side, other: &impl Side) {
        self.equal("the state", &kernel.state(), &other.state());
    }
}

/// The first line that differs between two structures as `{:#?}` prints them, with the fields that contain it.
fn difference(kernel: &str, other: &str) -> String {
    fn value(line: &str) -> &str {
        line.trim().trim_end_matches(',')
    }
    let indent = |line: &str| line.len() - line.trim_start().len();
    // One line for each level, with its index where it is an element of a list.
    let mut path: Vec<(usize, String, usize)> = Vec::new();
    for (one, two) in kernel.lines().zip(other.lines()) {
        let depth = indent(one);
        path.retain(|(at, ..)| *at < depth);
        if one != two {
            let name = |(_, name, index): &(usize, String, usize)| match name.ends_with('[') {
                true => format!("{}[{}]", name.trim_end_matches(": ["), index.saturating_sub(1)),
                false => name.trim_end_matches(" {").to_owned(),
            };
            let path: Vec<String> = path.iter().map(name).collect();
            return format!("{}: {} (kernel), {}", path.join(" / "), value(one), value(two));
        }
        if one.ends_with(['{', '[', '(']) {
            if let Some((_, _, elements)) = path.last_mut() {
                *elements += 1;
            }
            path.push((depth, one.trim().to_owned(), 0));
        }
    }
    "their lengths".into()
}

#[test]
fn differences_are_named_by_their_fields() {
    let of = |b: u32| format!("{:#?}", (vec![Some(1), Some(2)], Some(b)));
    assert_eq!(difference(&of(3), &of(3)), "their lengths");
    let report = difference(&of(3), &of(4));
    assert!(report.ends_with("3 (kernel), 4"), "{report}");
    let of = |b: u32| format!("{:#?}", vec![Some(1), Some(b)]);
    assert!(difference(&of(3), &of(4)).starts_with("[[1] / Some("), "{}", difference(&of(3), &of(4)));
}
