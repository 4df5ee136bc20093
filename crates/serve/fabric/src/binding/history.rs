//! [`History`]: the counters and times of a leadership, over reloads of the policy.
//!
//! Problem: a reload starts another controller, since tenants may have other numbers and ports, and the status has
//! counters and times since the broker began to lead. Approach: the following controller continues with those of the
//! one before it, by the names of tenants. A tenant that is in its queues, or in the shared ones, as before keeps the
//! time since when it is.
//!
//! Worked example: red has queues of its own since 9:00, and blue was in the shared queue when the broker began to
//! lead. At 10:00 a policy with green is read. Red has its queues since 9:00, blue since before the leadership, and
//! green is in the shared queue since 10:00.

use super::timing::Timing;
use std::collections::BTreeMap;
use weir_binding::binder::{BinderCounters, BinderState, Place};
use weir_policy::Policy;

/// The past of a leadership, for the controller that follows another one.
#[derive(Debug, Default)]
pub(super) struct History {
    /// By the name of a tenant.
    pub(super) tenants: BTreeMap<String, Past>,
    /// The names by the numbers that `timing` has.
    pub(super) names: Vec<String>,
    pub(super) timing: Timing,
    /// Of all binders of the leadership.
    pub(super) counters: BinderCounters,
    pub(super) begun: u64,
    pub(super) resets: u64,
}

/// A tenant when the controller ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) has_queues: bool,
    /// In milliseconds since 1970; `None` before the leadership.
    pub(super) since: Option<u64>,
}

impl History {
    /// By tenant of a policy with this state, since when it has its queues or none, where `now` is the time of the
    /// reload.
    pub(super) fn since(&self, policy: &Policy, state: &BinderState, now: u64) -> Vec<Option<u64>> {
        let since = |(tenant, state): (&weir_policy::Tenant, &weir_binding::binder::TenantState)| {
            let has_queues = state.place != Place::Shared;
            let same = self.tenants.get(&tenant.name).filter(|past| past.has_queues == has_queues);
            same.map_or(Some(now), |past| past.since)
        };
        policy.tenants().iter().zip(state).map(since).collect()
    }

    /// The times of moves, with the numbers of a policy's tenants. A move that the state does not have has ended
    /// without its last step, and has no time.
    pub(super) fn renumbered(&mut self, policy: &Policy, state: &BinderState) -> Timing {
        let numbers: BTreeMap<&str, usize> =
            policy.tenants().iter().enumerate().map(|(at, tenant)| (tenant.name.as_str(), at)).collect();
        let number = |before: usize| numbers.get(self.names.get(before)?.as_str()).copied();
        std::mem::take(&mut self.timing).renumbered(number, state)
    }
}

#[cfg(test)]
mod tests {
    use super::super::two_tenants::{placement, policy};
    use super::super::{Continuation, Controller, Places, Store};
    use super::*;
    use std::path::Path;
    use std::sync::Arc;
    use weir_binding::binder::{Motion, Step, TenantState};
    use weir_units::{Duration, Instant, TenantId};

    const BLUE: usize = 0;
    const RED: usize = 1;

    fn controller(directory: &Path, text: &str, placement: &str, continuation: Continuation) -> Controller {
        let policy = Arc::new(Policy::parse("policy.yaml", text).unwrap_or_else(|errors| panic!("{errors}")).0);
        let file = directory.join("placement.json");
        std::fs::write(&file, placement).expect("written");
        let places = Places::read(&file, &policy).unwrap_or_else(|error| panic!("{error}"));
        Controller::new(&policy, places, continuation, Instant::ZERO)
    }

    #[test]
    fn unchanged_tenants_keep_their_times_over_a_reload() {
        let directory = tempfile::tempdir().expect("a directory");
        let (at, text) = (directory.path(), policy(3, ""));
        let store = Store::in_file(at).expect("opened");
        let mut first = controller(at, &text, &placement("spine0"), Continuation::first(store, 1));
        assert_eq!(first.since, [None, None], "as before the leadership");
        let now = Instant::ZERO + Duration::from_secs(10);
        assert!(first.on_time(now), "an interval");
        // Blue begins to move to the first queue of each port. Red gets the other one, and moves back when the policy
        // is read.
        let queues = vec![1; first.places.sites.tenants[RED].ports.len()];
        let dscp = first.policy.tenant_dscps()[1];
        let place = Place::Dedicated { queues, dscp };
        first.keep(now, TenantId(RED as u32), TenantState { place: place.clone(), ..TenantState::default() });
        assert!(first.since[RED].replace(5).is_some(), "it has got its queues");
        let motion = Some(Motion { to: Place::Shared, step: Step::Cap });
        first.keep(now, TenantId(RED as u32), TenantState { place, motion, retained: None });
        first.begun = 7;

        // Another tenant comes before both.
        let with_amber = text.replace("tenants:\n", "tenants:\n  amber: { vms: 2, bandwidth: 1Mb/s }\n");
        let second = controller(at, &with_amber, &placement("spine0"), first.end_for(None));
        assert!(second.since[0].is_some_and(|amber| amber > 5), "in the shared queue since the reload");
        assert_eq!(second.since[1..], [None, Some(5)]);
        let status = second.status();
        assert_eq!((status.intervals, status.subscriptions, status.tenants[2].has_queues), (1, 7, true));
    }

    #[test]
    fn tenant_that_loses_its_queues_by_a_reload_is_shared_since_then() {
        let policy = Policy::parse("policy.yaml", &policy(3, "")).unwrap_or_else(|errors| panic!("{errors}")).0;
        let past = |name: &str| (name.to_owned(), Past { has_queues: true, since: Some(5) });
        let history = History { tenants: ["blue", "red"].map(past).into(), ..History::default() };
        let place = Place::Dedicated { queues: vec![0; 4], dscp: 1 };
        let state = vec![TenantState::default(), TenantState { place, ..TenantState::default() }];
        assert_eq!(history.since(&policy, &state, 9), [Some(9), Some(5)]);
    }

    #[test]
    fn moves_that_go_on_keep_their_begins() {
        let policy = Policy::parse("policy.yaml", &policy(3, "")).unwrap_or_else(|errors| panic!("{errors}")).0;
        let to = Place::Dedicated { queues: vec![0; 4], dscp: 1 };
        let moving = |step| TenantState { motion: Some(Motion { to: to.clone(), step }), ..TenantState::default() };
        let (mut timing, now) = (Timing::default(), |ms| Instant::ZERO + Duration::from_millis(ms));
        for tenant in [0, 1] {
            timing.take(now(0), tenant, &moving(Step::Cap), true);
        }
        // Another policy numbered them the other way; blue has not got its move into this one.
        let names = ["red", "blue"].map(str::to_owned).to_vec();
        let mut history = History { names, timing, ..History::default() };
        let state = vec![TenantState::default(), moving(Step::Cap)];
        let mut timing = history.renumbered(&policy, &state);
        for step in [Step::Raise, Step::Tag, Step::Drain, Step::Unmap, Step::Lower] {
            timing.take(now(40), RED, &moving(step), true);
            timing.take(now(40), BLUE, &moving(step), true);
        }
        for tenant in [RED, BLUE] {
            timing.take(now(70), tenant, &TenantState { place: to.clone(), ..TenantState::default() }, true);
        }
        assert_eq!((timing.moves.count, timing.moves.sum_us), (1, 70_000));
    }
}
