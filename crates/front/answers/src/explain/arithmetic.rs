//! The arithmetic of one split in a sentence.
//!
//! Problem: a table of shares does not explain them. Approach: the split has one of three outcomes,
//! and each has its sentence: all demands fit; the guarantees alone exceed the capacity; or
//! guarantees first and the rest by weight, where some stop early at their demand or maximum and
//! the others divide the remaining capacity.
//!
//! Worked example: 9 Gb/s among `dfs` (min 6, weight 2) and `vm` (max 1), both backlogged: "Guarantees
//! first: dfs 6 Gb/s. 3 Gb/s are left. Of that, 1 Gb/s goes to vm: its max. The other 2 Gb/s go to dfs."

use crate::text::{list, rate};
use weir_alloc::{Child, Decision, Step, StepRow};
use weir_policy::Sharing;
use weir_units::Bandwidth;

/// How many names a sentence lists.
const NAMED: usize = 4;

/// A row with what the allocator derives from it.
struct Taker<'a> {
    row: &'a StepRow,
    guaranteed: Bandwidth,
    usable: Bandwidth,
}

/// The computation of `step` as a text.
pub fn sentence(step: &Step) -> String {
    let takers: Vec<Taker<'_>> = step
        .rows
        .iter()
        .map(|row| {
            let child = Child::new(row.share, row.demand);
            Taker { row, guaranteed: child.guaranteed(), usable: child.usable() }
        })
        .filter(|taker| taker.usable > Bandwidth::ZERO)
        .collect();
    let sum = |of: fn(&Taker<'_>) -> Bandwidth| takers.iter().map(of).sum::<Bandwidth>();
    let (usable, guaranteed) = (sum(|taker| taker.usable), sum(|taker| taker.guaranteed));
    if takers.is_empty() {
        return "There is no demand.".to_owned();
    }
    if usable <= step.available || step.available.is_unlimited() {
        return fits(step, &takers, usable);
    }
    if guaranteed > step.available {
        return format!(
            "The guarantees of those with a demand, {}, are more than the {} that a tighter limit leaves: each gets \
             the same part of its guarantee.",
            rate(guaranteed),
            rate(step.available)
        );
    }
    match step.sharing {
        Sharing::Add => add(step, &takers, guaranteed),
        Sharing::Fill => fill(step, &takers),
    }
}

fn fits(step: &Step, takers: &[Taker<'_>], usable: Bandwidth) -> String {
    let capped: Vec<&str> = names(takers.iter().filter(|taker| taker.row.decision == Decision::Max));
    let rest = match capped.as_slice() {
        [] => String::new(),
        [one] => format!("; {one} stops at its max"),
        many => format!("; {} stop at their max", list(many, NAMED)),
    };
    if takers.len() == 1 {
        let name = &takers[0].row.name;
        return format!("Only {name} has a demand: it can use {} of {}{rest}.", rate(usable), rate(step.available));
    }
    format!("Together they can use {} of {}, so none waits for another{rest}.", rate(usable), rate(step.available))
}

fn add(step: &Step, takers: &[Taker<'_>], guaranteed: Bandwidth) -> String {
    let excess = step.available.saturating_sub(guaranteed);
    let with = takers.iter().filter(|taker| taker.guaranteed > Bandwidth::ZERO);
    let with: Vec<String> = with.map(|taker| format!("{} {}", taker.row.name, rate(taker.guaranteed))).collect();
    let more = |taker: &Taker<'_>| taker.row.got.saturating_sub(taker.guaranteed);
    let (level, settled): (Vec<_>, Vec<_>) = takers.iter().partition(|taker| taker.row.decision == Decision::Level);
    let settled: Vec<_> = settled.into_iter().filter(|taker| more(taker) > Bandwidth::ZERO).collect();
    let rest = excess.saturating_sub(settled.iter().map(|taker| more(taker)).sum());

    let mut sentences = Vec::new();
    if !with.is_empty() {
        sentences.push(format!("Guarantees first: {}. {} are left.", list(&with, NAMED), rate(excess)));
    }
    let of = if with.is_empty() { format!("Of {}", rate(excess)) } else { "Of that".to_owned() };
    sentences.extend(enough(&of, &settled, more));
    let what = match (with.is_empty(), settled.is_empty()) {
        (_, false) => format!("The other {}", rate(rest)),
        (true, true) => format!("All {}", rate(rest)),
        (false, true) => format!("These {}", rate(rest)),
    };
    sentences.extend(divided(&what, &level, rest, more));
    sentences.join(" ")
}

/// The children that stop before the others: `Of that, 1 Gb/s goes to vm: its max.`
fn enough(of: &str, settled: &[&Taker<'_>], took: impl Fn(&Taker<'_>) -> Bandwidth) -> Option<String> {
    let all = |decision| settled.iter().all(|taker| taker.row.decision == decision);
    let why = match (settled, all(Decision::Max), all(Decision::Demand)) {
        ([], ..) => return None,
        ([_], true, _) => "its max",
        ([_], ..) => "its demand",
        (_, true, _) => "their max",
        (_, _, true) => "their demands",
        _ => "their demand or max",
    };
    let each: Vec<String> = settled.iter().map(|taker| format!("{} {}", taker.row.name, rate(took(taker)))).collect();
    let verb = if settled.len() == 1 { "goes" } else { "go" };
    let each = match settled {
        [one] => format!("{} {verb} to {}", rate(took(one)), one.row.name),
        _ => list(&each, NAMED),
    };
    Some(format!("{of}, {each}: {why}."))
}

/// The remaining capacity, among the children that would take more.
fn divided(
    what: &str,
    level: &[&Taker<'_>],
    rest: Bandwidth,
    more: impl Fn(&Taker<'_>) -> Bandwidth,
) -> Option<String> {
    match level {
        _ if rest == Bandwidth::ZERO => None,
        [] => None,
        [one] => Some(format!("{what} go to {}.", one.row.name)),
        many => {
            let weights: Vec<String> = many.iter().map(|taker| taker.row.share.weight.to_string()).collect();
            let parts = many.iter().map(|taker| format!("{} {}", taker.row.name, rate(more(taker))));
            let parts: Vec<String> = parts.collect();
            Some(format!("{what} go by weight{}: {}.", ratio(&weights), list(&parts, NAMED)))
        }
    }
}

/// ` 2 : 1`, or ` (all alike)`.
fn ratio(weights: &[String]) -> String {
    match weights {
        [first, rest @ ..] if rest.iter().all(|weight| weight == first) => ", all alike".to_owned(),
        weights if weights.len() <= NAMED => format!(" {}", weights.join(" : ")),
        _ => String::new(),
    }
}

fn fill(step: &Step, takers: &[Taker<'_>]) -> String {
    let level: Vec<_> = takers.iter().filter(|taker| taker.row.decision == Decision::Level).collect();
    // A child with its guarantee above the level got exactly that.
    let (floor, rising): (Vec<_>, Vec<_>) = level.into_iter().partition(|taker| {
        taker.guaranteed > Bandwidth::ZERO && taker.row.got == taker.guaranteed && taker.usable > taker.guaranteed
    });
    // If no other child takes the remaining capacity, the guarantee did not decide.
    let (floor, rising) = if rising.is_empty() { (rising, floor) } else { (floor, rising) };
    let settled: Vec<_> = takers.iter().filter(|taker| taker.row.decision != Decision::Level).collect();
    let mut sentences =
        vec![format!("One fair share by weight, clipped between min and max, of {}.", rate(step.available))];
    sentences.extend(enough("At or below the fair share", &settled, |taker| taker.row.got));
    if !floor.is_empty() {
        let each: Vec<String> =
            floor.iter().map(|taker| format!("{} {}", taker.row.name, rate(taker.row.got))).collect();
        sentences.push(format!("Above it, {}: the guarantee.", list(&each, NAMED)));
    }
    let rest: Bandwidth = rising.iter().map(|taker| taker.row.got).sum();
    let alone = settled.is_empty() && floor.is_empty();
    let what = if alone { format!("These {}", rate(rest)) } else { format!("The other {}", rate(rest)) };
    sentences.extend(divided(&what, &rising, rest, |taker| taker.row.got));
    sentences.join(" ")
}

fn names<'a>(takers: impl Iterator<Item = &'a Taker<'a>>) -> Vec<&'a str> {
    takers.map(|taker| taker.row.name.as_str()).collect()
}

#[cfg(test)]
#[path = "arithmetic_tests.rs"]
mod tests;
