//! [`Timing`]: how long moves take, and how long weights take to reach all switches of a tenant.

use std::collections::BTreeMap;
use weir_binding::binder::{Place, Step, TenantState};
use weir_status::TenantTimes;
use weir_units::{Duration, Instant};

/// The times of one controller.
#[derive(Debug, Default)]
pub(super) struct Timing {
    /// By tenant in motion: its step, the begins of the move and of the step, and whether it moves to the shared queue.
    /// Moves of an earlier controller are not among them, nor those that began before all had subscribed.
    moving: BTreeMap<usize, (Step, Instant, Instant, bool)>,
    pub(super) moves: TenantTimes,
    pub(super) switches: TenantTimes,
}

impl Timing {
    /// The same with other numbers of tenants; `None` for one that is not there any more. Moves that are not at their
    /// step in this state are left out.
    pub(super) fn renumbered(mut self, number: impl Fn(usize) -> Option<usize>, state: &[TenantState]) -> Self {
        let moving =
            std::mem::take(&mut self.moving).into_iter().filter_map(|(before, of)| Some((number(before)?, of)));
        let step = |at: usize| state.get(at).and_then(|state| state.motion.as_ref()).map(|motion| motion.step);
        self.moving = moving.filter(|(at, (before, ..))| step(*at) == Some(*before)).collect();
        self
    }

    /// Takes the new state of a tenant; `all` machines and switches have subscribed, or not.
    pub(super) fn take(&mut self, now: Instant, tenant: usize, state: &TenantState, all: bool) {
        let step = state.motion.as_ref().map(|motion| motion.step);
        let to_shared = state.motion.as_ref().is_some_and(|motion| motion.to == Place::Shared);
        let Some((before, begun, at, was_to_shared)) = self.moving.get(&tenant).copied() else {
            if all && step == Some(Step::Cap) {
                self.moving.insert(tenant, (Step::Cap, now, now, to_shared));
            }
            return;
        };
        // A move that turns back goes on at `tag`, whatever its switches have confirmed.
        let turned_back = step.is_some() && to_shared != was_to_shared;
        if matches!(before, Step::Raise | Step::Lower) && step == before.next() && !turned_back {
            add(&mut self.switches, now.saturating_since(at));
        }
        match step {
            Some(step) => {
                let at = if step == before { at } else { now };
                self.moving.insert(tenant, (step, begun, at, to_shared));
            }
            None => {
                self.moving.remove(&tenant);
                if before == Step::Lower {
                    add(&mut self.moves, now.saturating_since(begun));
                }
            }
        }
    }
}

fn add(times: &mut TenantTimes, time: Duration) {
    let us = time.nanos() / 1_000;
    (times.count, times.sum_us, times.longest_us) = (times.count + 1, times.sum_us + us, times.longest_us.max(us));
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_binding::binder::Motion;

    #[test]
    fn times_of_moves_and_of_switches() {
        let mut timing = Timing::default();
        let to = Place::Dedicated { queues: vec![0], dscp: 1 };
        let now = |ms| Instant::ZERO + Duration::from_millis(ms);
        let state = |step| TenantState { motion: Some(Motion { to: to.clone(), step }), ..TenantState::default() };
        let steps = [(0, Step::Cap), (10, Step::Raise), (40, Step::Tag), (60, Step::Drain), (90, Step::Lower)];
        steps.into_iter().for_each(|(ms, step)| timing.take(now(ms), 3, &state(step), true));
        timing.take(now(140), 3, &TenantState { place: to.clone(), ..TenantState::default() }, true);
        assert_eq!(timing.moves, TenantTimes { count: 1, sum_us: 140_000, longest_us: 140_000 });
        assert_eq!(timing.switches, TenantTimes { count: 2, sum_us: 80_000, longest_us: 50_000 });
        // One that was in motion before this controller has no begin.
        timing.take(now(200), 4, &state(Step::Lower), true);
        timing.take(now(300), 4, &TenantState::default(), true);
        // One that waits for machines that have not subscribed.
        timing.take(now(400), 5, &state(Step::Cap), false);
        timing.take(now(900), 5, &TenantState::default(), true);
        assert_eq!(timing.moves.count, 1);
        // One that turns back after the step `raise`, without its switches.
        timing.take(now(1_000), 6, &state(Step::Cap), true);
        timing.take(now(1_010), 6, &state(Step::Raise), true);
        let back = Some(Motion { to: Place::Shared, step: Step::Tag });
        timing.take(now(91_000), 6, &TenantState { place: to.clone(), motion: back, retained: None }, true);
        assert_eq!(timing.switches.count, 2);
    }
}
