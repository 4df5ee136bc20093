//! The arithmetic of one split in a sentence.
//!
//! Problem: a table of what everybody got does not say why. Approach: the split has one of three outcomes,
//! and each has its sentence: all fit; the guarantees alone are too many; or guarantees first and the rest
//! by weight, where some stop early at their demand or maximum and the others divide what is left.
//!
//! Worked example: 9 Gb/s among `dfs` (min 6, weight 2) and `vm` (max 1), both backlogged: "Guarantees of
//! 6 Gb/s leave 3 Gb/s. vm takes 1 Gb/s of it and stops at its max. The remaining 2 Gb/s go to dfs."

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

/// Says how `step` was computed.
pub(super) fn sentence(step: &Step) -> String {
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
        return "Nobody asks for anything.".to_owned();
    }
    if usable <= step.available || step.available.is_unlimited() {
        return fits(step, &takers, usable);
    }
    if guaranteed > step.available {
        return format!(
            "The guarantees of those that ask, {}, are more than the {} that a tighter limit leaves: each gets the same part of its guarantee.",
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
    let held: Vec<&str> = names(takers.iter().filter(|taker| taker.row.decision == Decision::Max));
    let rest = match held.as_slice() {
        [] => String::new(),
        [one] => format!("; {one} stops at its max"),
        many => format!("; {} stop at their max", list(many, NAMED)),
    };
    if takers.len() == 1 {
        let name = &takers[0].row.name;
        return format!("Only {name} asks: it can use {} of {}{rest}.", rate(usable), rate(step.available));
    }
    format!("Together they can use {} of {}, so nobody waits for another{rest}.", rate(usable), rate(step.available))
}

fn add(step: &Step, takers: &[Taker<'_>], guaranteed: Bandwidth) -> String {
    let excess = step.available.saturating_sub(guaranteed);
    let mut text = if guaranteed == Bandwidth::ZERO {
        format!("No guarantees, so all {} go by weight.", rate(excess))
    } else {
        let with: Vec<String> = takers
            .iter()
            .filter(|taker| taker.guaranteed > Bandwidth::ZERO)
            .map(|taker| format!("{} {}", taker.row.name, rate(taker.guaranteed)))
            .collect();
        let parts = if with.len() > 1 { format!(", {} in all,", rate(guaranteed)) } else { String::new() };
        format!("Guarantees first: {}{parts} leave {}.", list(&with, NAMED), rate(excess))
    };
    let more = |taker: &Taker<'_>| taker.row.got.saturating_sub(taker.guaranteed);
    let (level, settled): (Vec<_>, Vec<_>) = takers.iter().partition(|taker| taker.row.decision == Decision::Level);
    let settled: Vec<_> = settled.into_iter().filter(|taker| more(taker) > Bandwidth::ZERO).collect();
    let taken: Bandwidth = settled.iter().map(|taker| more(taker)).sum();
    if !settled.is_empty() {
        let each: Vec<String> =
            settled.iter().map(|taker| format!("{} {}", taker.row.name, rate(more(taker)))).collect();
        text.push_str(&format!(" Of that, {} and {} no more ({}).", takes(&each), stops(&settled), reasons(&settled)));
    }
    let rest = excess.saturating_sub(taken);
    if rest > Bandwidth::ZERO {
        text.push_str(&format!(" {}", divided(&level, rest, !settled.is_empty(), more)));
    }
    text
}

fn takes(each: &[String]) -> String {
    format!("{} {}", list(each, NAMED), if each.len() == 1 { "is taken" } else { "are taken" })
}
fn stops(settled: &[&Taker<'_>]) -> &'static str {
    if settled.len() == 1 { "it needs or may have" } else { "they need or may have" }
}
fn reasons(settled: &[&Taker<'_>]) -> String {
    let of = |decision| settled.iter().filter(|taker| taker.row.decision == decision).count();
    match (of(Decision::Max), of(Decision::Demand)) {
        (0, _) => "the demand".to_owned(),
        (_, 0) => "the max".to_owned(),
        (max, demand) => format!("{max} at the max, {demand} at the demand"),
    }
}

/// What is left, among those that would take more.
fn divided(level: &[&Taker<'_>], rest: Bandwidth, after: bool, more: impl Fn(&Taker<'_>) -> Bandwidth) -> String {
    let what = if after { format!("The other {}", rate(rest)) } else { format!("The {}", rate(rest)) };
    match level {
        [one] => format!("{what} go to {}.", one.row.name),
        many => {
            let weights: Vec<String> = many.iter().map(|taker| taker.row.share.weight.to_string()).collect();
            let parts: Vec<String> =
                many.iter().map(|taker| format!("{} {}", taker.row.name, rate(more(taker)))).collect();
            format!("{what} go by weight{}: {}.", ratio(&weights), list(&parts, NAMED))
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
    // Who stands on its guarantee above the level got exactly that.
    let (floor, rising): (Vec<_>, Vec<_>) = level.into_iter().partition(|taker| {
        taker.guaranteed > Bandwidth::ZERO && taker.row.got == taker.guaranteed && taker.usable > taker.guaranteed
    });
    let settled: Vec<_> = takers.iter().filter(|taker| taker.row.decision != Decision::Level).collect();
    let mut text = format!("One level for all by weight, {} in all.", rate(step.available));
    if !settled.is_empty() {
        let each: Vec<String> =
            settled.iter().map(|taker| format!("{} {}", taker.row.name, rate(taker.row.got))).collect();
        text.push_str(&format!(" Below it: {} and {} no more ({}).", takes(&each), stops(&settled), reasons(&settled)));
    }
    if !floor.is_empty() {
        let each: Vec<String> =
            floor.iter().map(|taker| format!("{} {}", taker.row.name, rate(taker.row.got))).collect();
        text.push_str(&format!(" Above it, on its guarantee: {}.", list(&each, NAMED)));
    }
    let rest: Bandwidth = rising.iter().map(|taker| taker.row.got).sum();
    if rest > Bandwidth::ZERO {
        let after = !settled.is_empty() || !floor.is_empty();
        text.push_str(&format!(" {}", divided(&rising, rest, after, |taker| taker.row.got)));
    }
    text
}

fn names<'a>(takers: impl Iterator<Item = &'a Taker<'a>>) -> Vec<&'a str> {
    takers.map(|taker| taker.row.name.as_str()).collect()
}
