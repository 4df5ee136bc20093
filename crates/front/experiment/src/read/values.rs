//! `values:`.

use super::{Reader, text};
use crate::language::EXPECT_KEYWORDS;
use crate::model::{Expected, Measure, Published, Value, Which};
use crate::unit::{Dimension, Unit};
use weir_document::scalar::{self, MILLION};
use weir_document::{Node, quote};

/// A value without its expectation, which may refer to values further down.
struct Half<'a> {
    node: &'a Node,
    metric: String,
    unit: Unit,
    published: Option<Published>,
    measure: Measure,
}

impl Reader<'_> {
    pub(super) fn values(&mut self, root: &Node) -> Vec<Value> {
        let items = root.get("values").map_or(&[][..], Node::items);
        let halves: Vec<Half<'_>> = items.iter().filter_map(|item| self.half(item)).collect();
        // A value that is missing may be the one that another refers to.
        if halves.len() < items.len() {
            return Vec::new();
        }
        for (place, half) in halves.iter().enumerate() {
            if halves[..place].iter().any(|earlier| earlier.metric == half.metric) {
                let at = half.node.get("metric").map_or(half.node.span, |node| node.span);
                self.error(at, format!("two values are called {}", quote(&half.metric)), "give each a name of its own");
            }
        }
        let metrics: Vec<(String, Dimension)> =
            halves.iter().map(|half| (half.metric.clone(), half.unit.dimension)).collect();
        halves.into_iter().filter_map(|half| self.whole(half, &metrics)).collect()
    }

    /// `None` only if something was reported.
    fn half<'n>(&mut self, node: &'n Node) -> Option<Half<'n>> {
        let measure = node.get("measure").and_then(|node| self.measure(node));
        let unit = node.get("unit").and_then(|node| Some((Unit::named(node.scalar()?)?, node.span)));
        if let (Some(measure), Some((unit, span))) = (&measure, unit)
            && measure.dimension() != unit.dimension
        {
            let gives = measure.dimension();
            let words = Unit::of(gives).iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
            self.error(
                span,
                format!("the measure gives {}, and `{}` is {}", gives.what(), unit.name, unit.dimension.what()),
                format!("write one of {words}"),
            );
            return None;
        }
        let unit = unit?.0;
        let published = node.get("published").and_then(|node| {
            let value = number(node)? * unit.factor;
            let decimals = node.scalar()?.split_once('.').map_or(0, |(_, digits)| digits.len());
            Some(Published { value, decimals })
        });
        let metric = text(node, "metric")?;
        Some(Half { node, metric, unit, published, measure: measure? })
    }

    fn whole(&mut self, half: Half<'_>, metrics: &[(String, Dimension)]) -> Option<Value> {
        let Half { node, metric, unit, published, measure } = half;
        let expected = match node.get("expect") {
            Some(expect) => Some(self.expected(expect, unit, published, &metric, metrics)?),
            None => None,
        };
        let place = text(node, "where")?;
        Some(Value { metric, unit, published, place, measure, expected, note: text(node, "note") })
    }

    /// `None` only if something was reported.
    fn expected(
        &mut self,
        node: &Node,
        unit: Unit,
        published: Option<Published>,
        metric: &str,
        metrics: &[(String, Dimension)],
    ) -> Option<Expected> {
        let no_number = "this compares with the published value, and there is none";
        let hint = "write `published: NUMBER`, or compare with a number or another value";
        if let Some(word) = node.scalar() {
            let word = scalar::word(word, "", EXPECT_KEYWORDS).ok()?;
            let Some(published) = published else {
                self.error(node.span, no_number, hint);
                return None;
            };
            return Some(
                [Expected::AsPrinted, Expected::AtMost(published.value), Expected::AtLeast(published.value)][word],
            );
        }
        let within = node.field("within", |text| scalar::percent(text, "", "")).value();
        let within = within.map(|millionths| millionths as f64 / MILLION as f64);
        let at_most = node.get("at-most").and_then(number);
        let at_least = node.get("at-least").and_then(number);
        if [within, at_most, at_least].iter().flatten().count() != 1 {
            let hint = "write exactly one of `within`, `at-most` and `at-least`";
            self.error(node.span, "the expectation is missing", hint);
            return None;
        }
        let of = node.get("of");
        if let (Some(of), true) = (of, within.is_none() || node.get("times").is_some()) {
            self.error(
                of.span,
                "`of` is the number that `within` refers to",
                "write it beside `within`, without `times`",
            );
            return None;
        }
        if let (Some(part), Some(of)) = (within, of.and_then(number)) {
            return Some(Expected::Near(part, of * unit.factor));
        }
        let plus = node.get("plus");
        if let (Some(plus), true) = (plus, at_most.is_none() || node.get("times").is_none()) {
            self.error(
                plus.span,
                "`plus` is added to a multiple of another value",
                "write it beside `at-most` and `times`",
            );
            return None;
        }
        let Some(times) = node.get("times") else {
            return match (within, at_most, at_least) {
                (Some(_), ..) if published.is_none() => {
                    self.error(node.span, no_number, hint);
                    None
                }
                (Some(within), ..) => Some(Expected::Within(within)),
                (_, Some(most), _) => Some(Expected::AtMost(most * unit.factor)),
                (_, _, least) => Some(Expected::AtLeast(least? * unit.factor)),
            };
        };
        let named = metrics.iter().position(|(name, _)| Some(name.as_str()) == times.scalar());
        let Some(other) = named else {
            let names: Vec<&str> = metrics.iter().map(|(name, _)| name.as_str()).collect();
            self.unknown(times, "value called", &names);
            return None;
        };
        if metrics[other].0 == metric || metrics[other].1 != unit.dimension {
            self.error(times.span, "this cannot be compared with that value", "name another value of the same kind");
            return None;
        }
        let which = match (within, at_most, at_least) {
            (Some(within), ..) => Which::Within(within),
            (_, Some(most), _) => Which::AtMost(most, plus.and_then(number).unwrap_or(0.0) * unit.factor),
            (_, _, least) => Which::AtLeast(least?),
        };
        Some(Expected::Beside(which, other))
    }
}

/// A decimal number; the check has seen it.
fn number(node: &Node) -> Option<f64> {
    let millionths = node.read(|text| scalar::decimal(text, "", 0, u64::MAX)).value()?;
    Some(millionths as f64 / MILLION as f64)
}
