//! The trait against a switch without replies: late effects, read-back, in-place weights, complete maps.

mod drivers;

use drivers::config_db::ConfigDb;
use std::collections::BTreeMap;
use weir_switch::{
    ApplyError, Change, DSCPS, Driver, Field, Group, Needs, Offer, PortConfig, Rollback, Scheduler, Stage, apply,
    remove,
};
use weir_units::Bytes;

const OFFER: Offer = Offer { queues: 8, scheduler: Scheduler::Mixed { strict: 2, weighted: 6 } };

/// Groups of DSCP 10, 12, ... with these weights, and two levels.
fn config(weights: &[u16], mark: u64) -> PortConfig {
    let group = |(number, weight): (u8, &u16)| Group { dscps: vec![10 + 2 * number], weight: *weight };
    let groups = (0..).zip(weights).map(group).collect();
    let needs = Needs { levels: vec![vec![46], vec![34]], groups, ..Needs::marks(Bytes::new(mark)) };
    needs.of_port(None, None).lower(OFFER).expect("valid")
}

fn desired(weights: &[u16]) -> BTreeMap<String, PortConfig> {
    ["Ethernet0", "Ethernet4"].map(|port| (port.to_owned(), config(weights, 100_000))).into()
}

/// A switch with a port that is in use, and whose operator set up PFC.
fn switch(delay: u32) -> ConfigDb {
    let mut switch = ConfigDb::default();
    switch.delay = delay;
    let pfc = [("pfc_enable".to_owned(), "3,4".to_owned())];
    switch.rows.insert("PORT_QOS_MAP|Ethernet0".to_owned(), pfc.into());
    switch
}

#[test]
fn late_effects_are_awaited_and_rows_of_others_stay() {
    for delay in [1, 4] {
        let mut switch = switch(delay);
        let desired = desired(&[30, 20]);
        let steps = apply(&mut switch, &desired).expect("applied");
        let stages: Vec<Stage> = steps.iter().map(|step| step.change.stage()).collect();
        assert!(stages.is_sorted() && stages.contains(&Stage::Map));
        for (port, config) in &desired {
            assert_eq!(switch.read(port).expect("read").state_text(), config.state().state_text());
        }
        assert_eq!(switch.rows["PORT_QOS_MAP|Ethernet0"]["pfc_enable"], "3,4");
        assert_eq!(switch.rows["DSCP_TO_TC_MAP|weir_Ethernet0"].len(), DSCPS, "a complete map");
        assert_eq!(apply(&mut switch, &desired).expect("applied"), []);
        remove(&mut switch, &["Ethernet0".to_owned(), "Ethernet4".to_owned()]).expect("removed");
        let left: Vec<_> = switch.rows.iter().filter(|(_, row)| !row.is_empty()).map(|(key, _)| key).collect();
        assert_eq!(left, ["PORT_QOS_MAP|Ethernet0"]);
    }
}

/// Comparable, with a readable difference.
trait StateText {
    fn state_text(&self) -> String;
}

impl StateText for weir_switch::PortState {
    fn state_text(&self) -> String {
        format!("{self:#?}")
    }
}

#[test]
fn weights_change_in_place_in_one_stage() {
    let mut switch = switch(1);
    apply(&mut switch, &desired(&[30, 20])).expect("applied");
    switch.deleted.clear();
    let steps = apply(&mut switch, &desired(&[30, 25])).expect("applied");
    assert_eq!(steps.len(), 2, "one queue of each port: {steps:?}");
    assert!(steps.iter().all(|step| matches!(step.change, Change::Schedule { queue: 2, .. })));
    assert_eq!(switch.deleted, <[String; 0]>::default(), "a scheduler in use must not be deleted and made again");
    assert_eq!(switch.rows["SCHEDULER|weir.Ethernet4.q2"]["weight"], "25");
}

#[test]
fn a_row_that_the_switch_drops_is_found_by_reading_back() {
    let mut switch = switch(2);
    apply(&mut switch, &desired(&[30, 20])).expect("applied");
    let rows = switch.rows.clone();
    switch.refuses = Some("SCHEDULER|weir.Ethernet4.q1".to_owned());
    let error = apply(&mut switch, &desired(&[35, 20, 5])).expect_err("dropped");
    let ApplyError::Failed { position, rollback, cause, hint } = &error else { panic!("{error}") };
    assert_eq!((position.port.as_str(), position.field), ("Ethernet4", Some(Field::Schedule(1))));
    assert_eq!(*rollback, Rollback::Complete);
    assert!(cause.contains("weight 30 -> weight 35") && hint.is_some(), "{error}");
    assert!(!switch.syslog.is_empty());
    assert_eq!(switch.rows, rows);
}

#[test]
fn impossible_values_are_refused_before_anything_is_written() {
    let mut switch = switch(1);
    let rows = switch.rows.clone();
    let error = apply(&mut switch, &desired(&[300, 20])).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "switch leaf1, port Ethernet0, queue 1, scheduler: weight 300; 1 to 100 here\n\
         switch leaf1, port Ethernet4, queue 1, scheduler: weight 300; 1 to 100 here"
    );
    assert_eq!(error.hints().len(), 2);
    assert_eq!((switch.rows, switch.reads), (rows, 0));
}
