//! Properties of differences and of their application: minimal, safe after every step, and all or nothing.

mod drivers;

use drivers::memory::Memory;
use proptest::prelude::*;
use std::collections::BTreeMap;
use weir_switch::change::first_difference;
use weir_switch::{
    ApplyError, DSCPS, DscpMap, DscpSet, Map, PortConfig, PortState, QueueConfig, Rollback, Schedule, SwitchState,
    apply, diff, remove,
};
use weir_units::{Bandwidth, Bytes};

fn queue() -> impl Strategy<Value = (u16, Option<Bytes>, Option<Bytes>)> {
    let bytes = |range| prop::option::of(prop::sample::select(range).prop_map(Bytes::new));
    (1..=100u16, bytes(vec![30_000, 80_000]), bytes(vec![100_000, 256_000]))
}

/// Any valid configuration.
fn config() -> impl Strategy<Value = PortConfig> {
    let rate = prop::option::of(prop::sample::select(vec![1u64, 10, 40]).prop_map(Bandwidth::from_gbps));
    let queues = prop::collection::vec(queue(), 1..=8);
    let remark = prop::sample::select(vec![0u64, 1 << 46, 1 << 46 | 1 << 34]).prop_map(DscpSet::from_bits);
    let map = prop::collection::vec(any::<u8>(), DSCPS);
    (rate, queues, any::<u8>(), map, remark).prop_map(|(rate, queues, strict, map, remark)| {
        let count = queues.len();
        let first_strict = count - usize::from(strict) % (count + 1);
        let schedule = |number, weight| match number < first_strict {
            true => Schedule::Weighted(weight),
            false => Schedule::Strict,
        };
        let queues = queues.into_iter().enumerate().map(|(number, (weight, mark, buffer))| QueueConfig {
            schedule: schedule(number, weight),
            mark,
            buffer,
        });
        let map = std::array::from_fn(|dscp| map[dscp] % count as u8);
        PortConfig::new(rate, queues.collect(), DscpMap::from_queues(map)).expect("valid").remarking(remark)
    })
}

/// The state of a port: as Weir configures it, or without configuration.
fn state() -> impl Strategy<Value = PortState> {
    prop_oneof![4 => config().prop_map(|config| config.state().clone()), 1 => Just(PortState::default()),
        1 => Just(PortConfig::remark_only(DscpSet::from_bits(1 << 46)).state().clone())]
}

fn switch_state() -> impl Strategy<Value = SwitchState> {
    prop::collection::vec(state(), 3).prop_map(|states| (0..).map(|n: u8| format!("swp{n}")).zip(states).collect())
}

fn switch_config() -> impl Strategy<Value = BTreeMap<String, PortConfig>> {
    prop::collection::vec(config(), 3).prop_map(|all| (0..).map(|n: u8| format!("swp{n}")).zip(all).collect())
}

fn states(desired: &BTreeMap<String, PortConfig>) -> SwitchState {
    desired.iter().map(|(port, config)| (port.clone(), config.state().clone())).collect()
}

proptest! {
    #[test]
    fn nothing_differs_from_itself(state in switch_state()) {
        prop_assert_eq!(diff(&state, &state), []);
    }

    #[test]
    fn steps_lead_to_the_other_state_and_their_inverse_leads_back(from in switch_state(), to in switch_state()) {
        let steps = diff(&from, &to);
        let mut state = from.clone();
        for step in &steps {
            let before = state.clone();
            step.apply(&mut state);
            prop_assert_ne!(&before, &state, "each step changes something: {}", step.change);
            prop_assert!(state.values().all(PortState::is_sound), "after {}: {:?}", step.change, state);
        }
        prop_assert_eq!(&state, &to);
        for step in steps.iter().rev() {
            step.inverse().apply(&mut state);
            prop_assert!(state.values().all(PortState::is_sound), "after the inverse of {}", step.change);
        }
        prop_assert_eq!(&state, &from);
    }

    /// One step for each field that differs, and none twice.
    #[test]
    fn steps_are_minimal(from in state(), to in state()) {
        let one = |state: &PortState| SwitchState::from([("swp0".to_owned(), state.clone())]);
        let steps = diff(&one(&from), &one(&to));
        let mut fields: Vec<_> = steps.iter().map(|step| step.change.field()).collect();
        fields.sort_unstable();
        fields.dedup();
        prop_assert_eq!(fields.len(), steps.len());
        prop_assert_eq!(first_difference(&from, &to).is_none(), steps.is_empty());
    }

    #[test]
    fn applying_brings_the_ports_to_the_desired_configuration(from in switch_state(), desired in switch_config()) {
        let mut driver = Memory::new(from.clone());
        let steps = apply(&mut driver, &desired).expect("applied");
        prop_assert_eq!(&driver.ports, &states(&desired));
        prop_assert_eq!(steps, diff(&from, &driver.ports));
        prop_assert_eq!(apply(&mut driver, &desired).expect("applied"), []);
        let ports: Vec<String> = desired.keys().cloned().collect();
        remove(&mut driver, &ports).expect("removed");
        prop_assert!(driver.ports.values().all(PortState::is_default));
    }

    /// A write that fails at any step, with or without having been done, and a step that has no effect.
    #[test]
    fn a_failing_step_leaves_all_ports_as_they_were(
        from in switch_state(),
        desired in switch_config(),
        at in any::<prop::sample::Index>(),
        kind in 0..3u8,
    ) {
        let steps = diff(&from, &states(&desired));
        prop_assume!(!steps.is_empty());
        let at = at.index(steps.len());
        let mut driver = Memory::new(from.clone());
        match kind {
            0 => driver.refuse_at(at),
            1 => driver.break_after(at),
            _ => driver.ignore_at(at),
        }
        let Err(ApplyError::Failed { position, rollback, .. }) = apply(&mut driver, &desired) else {
            return Err(TestCaseError::fail("the failure was not reported"));
        };
        prop_assert_eq!(rollback, Rollback::Complete);
        prop_assert_eq!(position.port, steps[at].port.clone());
        prop_assert_eq!(position.field, Some(steps[at].change.field()));
        prop_assert_eq!(&driver.ports, &from);
        prop_assert!(driver.was_sound, "also in between, and on the way back");
    }
}

/// A port that fails for good keeps no other port from its old configuration.
#[test]
fn ports_beside_a_lost_one_are_restored() {
    let queue = QueueConfig { schedule: Schedule::Weighted(1), mark: None, buffer: None };
    let config = |mark| {
        let queue = QueueConfig { mark: Some(Bytes::new(mark)), ..queue };
        PortConfig::new(None, vec![queue; 2], DscpMap::all(1)).expect("valid")
    };
    let names = ["swp0", "swp1", "swp2"].map(str::to_owned);
    let mut driver = Memory::new(names.iter().map(|name| (name.clone(), config(30_000).state().clone())).collect());
    let before = driver.ports.clone();
    driver.lose("swp1", 1);
    let desired = names.iter().map(|name| (name.clone(), config(80_000))).collect();
    let error = apply(&mut driver, &desired).expect_err("swp1 is lost");
    let ApplyError::Failed { position, rollback: Rollback::Incomplete(changed), .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(position.port, "swp1");
    assert_eq!(changed.iter().map(|(position, _)| position.port.as_str()).collect::<Vec<_>>(), ["swp1"]);
    assert_eq!([&driver.ports["swp0"], &driver.ports["swp2"]], [&before["swp0"], &before["swp2"]]);
}

/// A switch that assigns packets to queues where they arrive: its ports cannot have different maps.
#[test]
fn ports_with_one_map_refuse_another() {
    let queue = QueueConfig { schedule: Schedule::Weighted(1), mark: None, buffer: None };
    let config = |to| PortConfig::new(None, vec![queue; 2], DscpMap::all(to)).expect("valid");
    let of = |list: &[(&str, u8)]| list.iter().map(|(port, to)| ((*port).to_owned(), config(*to))).collect();
    let mut driver = Memory::new(SwitchState::new());
    driver.maps = Map::PerSwitch;
    let refused = |driver: &mut Memory, desired: &BTreeMap<String, PortConfig>| {
        let before = driver.ports.clone();
        let error = apply(driver, desired).expect_err("refused");
        assert_eq!(driver.ports, before);
        error.to_string()
    };
    let other = "switch leaf1, port swp1, DSCP map: 0-63 in queue 1; port swp0 has 0-63 in queue 0, and this switch \
                 has one map for all ports";
    assert_eq!(refused(&mut driver, &of(&[("swp0", 0), ("swp1", 1)])), other);
    apply(&mut driver, &of(&[("swp0", 1), ("swp1", 1)])).expect("applied");
    // A port that is not named keeps its map.
    assert_eq!(refused(&mut driver, &of(&[("swp0", 0)])), other);
    apply(&mut driver, &of(&[("swp0", 0), ("swp1", 0)])).expect("applied");
    driver.maps = Map::PerPort;
    apply(&mut driver, &of(&[("swp0", 1)])).expect("applied");
}
