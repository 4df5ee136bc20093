//! The driver on a real redis server, beside a stand-in for orchagent: late effects, rows that are dropped, read-back,
//! rollback, and a server that restarts.

mod stand_in;

use stand_in::orchagent::Shared;
use stand_in::{ASIC, CONFIG, COUNTERS, FIRST_ID, PASSWORD, PORTS, Row, Rows, Switch, pause, row};
use std::collections::BTreeMap;
use std::time::Duration;
use weir_sonic::{Access, Address, QueueCounters, SonicError, SonicSwitch};
use weir_switch::{
    ApplyError, Change, Driver, Field, Group, Needs, Offer, PortConfig, QueueReading, ReadQueues, Rollback, Scheduler,
    Stage, Step, apply, remove,
};
use weir_units::{Bandwidth, Bytes};

const OFFER: Offer = Offer { queues: 8, scheduler: Scheduler::Mixed { strict: 2, weighted: 6 } };
const MARK: u64 = 100_000;

/// Groups of DSCP 10, 12, ... with these weights, and two levels.
fn config(weights: &[u16], mark: u64) -> PortConfig {
    let group = |(number, weight): (u8, &u16)| Group { dscps: vec![10 + 2 * number], weight: *weight };
    let groups = (0..).zip(weights).map(group).collect();
    let needs = Needs { levels: vec![vec![46], vec![34]], groups, ..Needs::marks(Bytes::new(mark)) };
    needs.of_port(None, None).lower(OFFER).expect("valid")
}

fn desired(weights: &[u16]) -> BTreeMap<String, PortConfig> {
    PORTS.map(|port| (port.to_owned(), config(weights, MARK))).into()
}

fn names() -> Vec<String> {
    PORTS.map(str::to_owned).to_vec()
}

fn driver(switch: &Switch) -> SonicSwitch {
    let access = Access { address: Address::Socket(switch.redis.socket()), password: None };
    SonicSwitch::connect("leaf1", access).expect("connected").with_patience(Duration::from_secs(10))
}

/// The rows of tables that the driver writes.
fn own_rows(switch: &Switch) -> Rows {
    let is_own = |key: &String| !key.starts_with("PORT|") && !key.starts_with("DEVICE_METADATA|");
    switch.rows(CONFIG).into_iter().filter(|(key, _)| is_own(key)).collect()
}

/// No error and no crash of orchagent, and the operator's PFC as it was.
fn assert_sound(switch: &Switch) {
    switch.orchagent.settle();
    let Shared { log, crash, pfc, .. } = &*switch.orchagent.shared();
    // A row that was deleted before orchagent had processed it is not found, which has no effect.
    let errors: Vec<&String> = log.iter().filter(|line| !line.contains("not found")).collect();
    assert_eq!((&errors[..], crash), (&[][..], &None));
    assert_eq!(pfc.get("Ethernet0").map(String::as_str), Some("3,4"));
}

#[test]
fn late_effects_are_awaited_and_rows_of_others_stay() {
    for (groups, delay) in [(false, 0), (true, 300)] {
        let Some(switch) = Switch::with(groups, false) else { return };
        let before = own_rows(&switch);
        switch.orchagent.shared().delay = Duration::from_millis(delay);
        let (mut driver, desired) = (driver(&switch), desired(&[30, 20]));
        let steps = apply(&mut driver, &desired).expect("applied");
        let stages: Vec<Stage> = steps.iter().map(|step| step.change.stage()).collect();
        assert!(stages.is_sorted() && stages.contains(&Stage::Map));
        for (port, config) in &desired {
            assert_eq!(driver.read(port).expect("read"), *config.state());
        }
        let rows = own_rows(&switch);
        assert_eq!(rows["PORT_QOS_MAP|Ethernet0"]["pfc_enable"], "3,4");
        assert_eq!(rows["DSCP_TO_TC_MAP|WEIR_Ethernet0"].len(), 64);
        assert_eq!(rows["SCHEDULER|weir.Ethernet4.q4"], row(&[("type", "STRICT")]));
        assert_eq!(apply(&mut driver, &desired).expect("applied"), []);
        assert_sound(&switch);
        remove(&mut driver, &names()).expect("removed");
        for port in PORTS {
            assert!(driver.read(port).expect("read").is_default());
            assert!(!driver.sweep(port).expect("swept"), "nothing is left");
        }
        assert_sound(&switch);
        assert_eq!(own_rows(&switch), before);
        let objects = switch.rows(ASIC).into_keys().filter(|key| key.contains(":SAI_OBJECT_TYPE_SCHEDULER:"));
        assert_eq!(objects.count(), 1, "the platform's own");
    }
}

#[test]
fn a_weight_changes_one_field_of_one_row() {
    let Some(switch) = Switch::start() else { return };
    let mut driver = driver(&switch);
    apply(&mut driver, &desired(&[30, 20])).expect("applied");
    switch.orchagent.settle();
    switch.orchagent.shared().events.clear();
    let mut other = desired(&[30, 20]);
    other.insert("Ethernet4".to_owned(), config(&[30, 25], MARK));
    let commands = switch.commands_of(|| {
        let steps = apply(&mut driver, &other).expect("applied");
        assert!(matches!(&steps[..], [Step { change: Change::Schedule { queue: 2, .. }, .. }]), "{steps:?}");
    });
    // Orchagent's own writes are to another database.
    let writes = commands.iter().filter(|line| {
        line.contains(" [4 ")
            && ["HSET", "HMSET", "HDEL", "DEL"].iter().any(|name| line.contains(&format!("\"{name}\"")))
    });
    let writes: Vec<&str> = writes.filter_map(|line| line.split_once("] ")).map(|(_, command)| command).collect();
    let expected = r#""SCHEDULER|weir.Ethernet4.q2" "weight" "25""#;
    assert!(matches!(writes[..], [write] if write.ends_with(expected)), "{writes:?}");
    assert_eq!(switch.orchagent.shared().events.len(), 1);
    assert_sound(&switch);
}

#[test]
fn maps_and_thresholds_change_in_place() {
    let Some(switch) = Switch::start() else { return };
    let mut driver = driver(&switch);
    apply(&mut driver, &desired(&[30, 20])).expect("applied");
    let map = |switch: &Switch| -> Vec<String> {
        let objects = switch.rows(ASIC);
        let port = objects.iter().find_map(|(key, row)| key.contains(":SAI_OBJECT_TYPE_PORT:").then_some(row));
        let port = port.expect("a port");
        ["DSCP_TO_TC", "TC_TO_QUEUE"].map(|name| port[&format!("SAI_PORT_ATTR_QOS_{name}_MAP")].clone()).into()
    };
    let before = map(&switch);
    // A third group: its DSCP value gets the queue that the second level had, and the levels move up.
    let wanted: BTreeMap<String, PortConfig> =
        PORTS.map(|port| (port.to_owned(), config(&[30, 20, 10], 80_000))).into();
    apply(&mut driver, &wanted).expect("applied");
    assert_eq!(map(&switch), before, "the same objects with another content");
    let rows = own_rows(&switch);
    let profiles: Vec<&String> = rows.keys().filter(|key| key.starts_with("WRED_PROFILE|")).collect();
    assert_eq!(profiles, ["WRED_PROFILE|WEIR_ECN_80000"]);
    assert_eq!(driver.read("Ethernet4").expect("read"), *wanted["Ethernet4"].state());
    // Back again, before orchagent has processed the first change: a deleted row would be waited for in vain.
    switch.orchagent.shared().delay = Duration::from_millis(400);
    let mut hasty = driver_with(&switch, 100);
    let error = apply(&mut hasty, &desired(&[30, 20])).expect_err("too late");
    assert!(matches!(error, ApplyError::Failed { .. }), "{error}");
    switch.orchagent.shared().delay = Duration::ZERO;
    apply(&mut driver, &wanted).expect("applied");
    apply(&mut driver, &desired(&[30, 20])).expect("applied");
    assert_sound(&switch);
}

fn driver_with(switch: &Switch, patience: u64) -> SonicSwitch {
    driver(switch).with_patience(Duration::from_millis(patience))
}

#[test]
fn a_row_that_the_switch_drops_is_found_by_reading_back() {
    let Some(switch) = Switch::start() else { return };
    let mut driver = driver_with(&switch, 3_000);
    apply(&mut driver, &desired(&[30, 20])).expect("applied");
    let rows = own_rows(&switch);
    switch.orchagent.shared().refused.push("SCHEDULER|weir.Ethernet4.q1".to_owned());
    let error = apply(&mut driver, &desired(&[35, 20, 5])).expect_err("dropped");
    let ApplyError::Failed { position, rollback, cause, hint } = &error else { panic!("{error}") };
    assert_eq!((position.port.as_str(), position.field), ("Ethernet4", Some(Field::Schedule(1))));
    assert_eq!(*rollback, Rollback::Complete);
    assert!(cause.contains("weight 30 -> weight 35") && hint.is_some(), "{error}");
    assert!(!switch.orchagent.shared().log.is_empty());
    assert_eq!(own_rows(&switch), rows);
}

#[test]
fn a_switch_without_effects_keeps_its_rows() {
    let Some(switch) = Switch::start() else { return };
    let mut driver = driver_with(&switch, 300);
    let before = own_rows(&switch);
    switch.orchagent.shared().is_stalled = true;
    let error = apply(&mut driver, &desired(&[30, 20])).expect_err("no effect");
    assert!(error.to_string().contains("written, and not in force"), "{error}");
    // Rows without a reference may remain while the daemon has not processed anything.
    let remains = own_rows(&switch);
    assert!(remains.keys().all(|key| !key.starts_with("QUEUE|")), "{remains:?}");
    switch.orchagent.shared().is_stalled = false;
    for port in PORTS {
        driver.sweep(port).expect("swept");
    }
    assert_eq!(own_rows(&switch), before);
    assert_sound(&switch);
}

#[test]
fn configuration_that_is_not_weirs_is_refused() {
    let Some(switch) = Switch::start() else { return };
    switch.set("PORT_QOS_MAP|Ethernet0", "dscp_to_tc_map", "AZURE");
    let rows = switch.rows(CONFIG);
    let mut driver = driver(&switch);
    let error = apply(&mut driver, &desired(&[30, 20])).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "switch leaf1, port Ethernet0: PORT_QOS_MAP|Ethernet0 has dscp_to_tc_map=AZURE, which is not Weir's"
    );
    assert!(error.hints()[0].contains("config qos clear"));
    assert!(remove(&mut driver, &names()).is_err());
    assert_eq!(switch.rows(CONFIG), rows);
    let unknown = apply(&mut driver, &BTreeMap::from([("Ethernet8".to_owned(), config(&[1], MARK))]));
    assert!(unknown.expect_err("refused").to_string().contains("no port of this name"));
}

#[test]
fn rows_that_orchagent_would_refuse_are_not_written() {
    let Some(switch) = Switch::start() else { return };
    let mut driver = driver(&switch);
    let before = switch.rows(CONFIG);
    let error = apply(&mut driver, &desired(&[300, 20])).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "switch leaf1, port Ethernet0, queue 1, scheduler: weight 300; 1 to 100 here\n\
         switch leaf1, port Ethernet4, queue 1, scheduler: weight 300; 1 to 100 here"
    );
    assert_eq!(switch.rows(CONFIG), before);
    let huge = BTreeMap::from([("Ethernet0".to_owned(), config(&[30], 3_000_000_000))]);
    let error = apply(&mut driver, &huge).expect_err("refused");
    assert!(error.to_string().contains("green_max_threshold=3000000000; 1 to 2147483647; all ports are"), "{error}");
    assert_eq!(switch.rows(CONFIG), before);
    // Another program adds a field that the model allows and orchagent refuses.
    apply(&mut driver, &desired(&[30, 20])).expect("applied");
    switch.set("SCHEDULER|weir.Ethernet0.q1", "priority", "3");
    let rows = switch.rows(CONFIG);
    let error = apply(&mut driver, &desired(&[35, 20])).expect_err("refused");
    assert!(error.to_string().contains("would have priority=3; no such field"), "{error}");
    assert_eq!(switch.rows(CONFIG), rows);
    // A refusal leaves no row watched: `d` is the flag of a client whose watched row has changed.
    switch.set("SCHEDULER|weir.Ethernet0.q1", "priority", "4");
    let clients: String = switch.query(CONFIG, &["CLIENT", "LIST"]);
    let flags = clients.split_whitespace().filter_map(|field| field.strip_prefix("flags="));
    assert!(flags.clone().count() > 1 && !flags.clone().any(|flags| flags.contains('d')), "{clients}");
    assert_eq!(switch.orchagent.shared().crash, None);
}

/// A weight that is no number ends orchagent: the reason for the check of every row.
#[test]
fn the_stand_in_ends_at_a_malformed_number_and_drops_unknown_fields() {
    let Some(switch) = Switch::start() else { return };
    switch.set("SCHEDULER|other", "priority", "3");
    switch.orchagent.settle();
    assert!(switch.orchagent.shared().log[0].contains("Unknown field"));
    switch.set("SCHEDULER|another", "weight", "heavy");
    for _ in 0..100 {
        if switch.orchagent.shared().crash.is_some() {
            return;
        }
        pause(20);
    }
    panic!("it runs still");
}

#[test]
fn ports_of_one_switch_have_one_map() {
    let Some(switch) = Switch::start() else { return };
    let mut driver = driver(&switch);
    let mut two = desired(&[30, 20]);
    two.insert("Ethernet4".to_owned(), config(&[30], MARK));
    let error = apply(&mut driver, &two).expect_err("refused");
    assert!(matches!(error, ApplyError::Refused(_)), "{error}");
    assert!(error.to_string().starts_with("switch leaf1, port Ethernet4, DSCP map: "), "{error}");
    // Other weights under the same map are possible; another map beside a port that is not named is not.
    two.insert("Ethernet4".to_owned(), config(&[1, 1], MARK));
    apply(&mut driver, &two).expect("applied");
    let alone = BTreeMap::from([("Ethernet0".to_owned(), config(&[30], MARK))]);
    let error = apply(&mut driver, &alone).expect_err("refused");
    assert!(error.to_string().starts_with("switch leaf1, port Ethernet4, DSCP map: "), "{error}");
    assert!(error.to_string().contains("one map for all ports"), "{error}");
    assert_sound(&switch);
}

#[test]
fn references_keep_the_form_of_older_releases() {
    let Some(switch) = Switch::start() else { return };
    switch.set("SCHEDULER|multicast", "type", "STRICT");
    switch.set("QUEUE|Ethernet0|8", "scheduler", "[SCHEDULER|multicast]");
    // The stand-in has no queue 8.
    switch.orchagent.shared().refused.push("|8".to_owned());
    let mut driver = driver(&switch);
    apply(&mut driver, &desired(&[30, 20])).expect("applied");
    let rows = own_rows(&switch);
    assert_eq!(rows["QUEUE|Ethernet4|1"]["scheduler"], "[SCHEDULER|weir.Ethernet4.q1]");
    assert_eq!(rows["PORT_QOS_MAP|Ethernet4"]["dscp_to_tc_map"], "[DSCP_TO_TC_MAP|WEIR_Ethernet4]");
    remove(&mut driver, &names()).expect("removed");
    assert_eq!(own_rows(&switch).len(), 3, "{:?}", own_rows(&switch));
}

/// Applies a change, and kills the server while the change is read back. `restarts`: it returns meanwhile.
fn apply_beside_a_kill(switch: &mut Switch, driver: &mut SonicSwitch, restarts: bool) -> ApplyError {
    std::thread::scope(|scope| {
        let applying = scope.spawn(|| apply(driver, &desired(&[35, 20])));
        let weight = ["HGET", "SCHEDULER|weir.Ethernet0.q1", "weight"];
        while switch.query::<Option<String>>(CONFIG, &weight).as_deref() != Some("35") {
            pause(5);
        }
        switch.redis.kill();
        if restarts {
            pause(300);
            switch.redis.run();
        }
        applying.join().expect("no panic").expect_err("reported")
    })
}

/// It is reported, and the old configuration is restored once the server is there again.
#[test]
fn a_restart_of_the_server_is_reported_and_the_old_configuration_restored() {
    let Some(mut switch) = Switch::start() else { return };
    apply(&mut driver(&switch), &desired(&[30, 20])).expect("applied");
    let rows = own_rows(&switch);
    switch.orchagent.shared().delay = Duration::from_millis(700);
    let mut driver = driver(&switch);
    let error = apply_beside_a_kill(&mut switch, &mut driver, true);
    let ApplyError::Failed { cause, rollback, hint, .. } = &error else { panic!("{error}") };
    assert!(cause.contains("redis server") && hint.is_some(), "{error}");
    assert_eq!(*rollback, Rollback::Complete, "{error}");
    assert_eq!(own_rows(&switch), rows);
    assert_sound(&switch);
}

/// The ports that could not be restored are listed, and the next `apply` completes either configuration.
#[test]
fn a_server_that_stays_away_leaves_ports_that_are_listed() {
    let Some(mut switch) = Switch::start() else { return };
    let mut driver = driver_with(&switch, 500);
    apply(&mut driver, &desired(&[30, 20])).expect("applied");
    let rows = own_rows(&switch);
    switch.orchagent.shared().delay = Duration::from_millis(700);
    let error = apply_beside_a_kill(&mut switch, &mut driver, false);
    let ApplyError::Failed { rollback: Rollback::Incomplete(ports), .. } = &error else { panic!("{error}") };
    let ports: Vec<&str> = ports.iter().map(|(position, _)| position.port.as_str()).collect();
    assert_eq!(ports, ["Ethernet4", "Ethernet0"], "{error}");
    switch.redis.run();
    switch.orchagent.shared().delay = Duration::ZERO;
    apply(&mut self::driver(&switch), &desired(&[30, 20])).expect("applied");
    assert_eq!(own_rows(&switch), rows);
    assert_sound(&switch);
}

#[test]
fn a_server_that_does_not_return_is_reported() {
    let Some(mut switch) = Switch::start() else { return };
    let mut driver = driver_with(&switch, 400);
    apply(&mut driver, &desired(&[30, 20])).expect("applied");
    switch.redis.kill();
    let error = apply(&mut driver, &desired(&[35, 20])).expect_err("no server");
    assert!(matches!(error, ApplyError::Unreadable { .. }), "{error}");
    assert!(error.to_string().contains("redis server /"), "{error}");
    switch.redis.run();
    apply(&mut driver, &desired(&[35, 20])).expect("applied");
    assert_sound(&switch);
}

#[test]
fn rows_of_a_killed_program_are_awaited_before_the_first_read() {
    let Some(switch) = Switch::start() else { return };
    apply(&mut driver(&switch), &desired(&[30, 20])).expect("applied");
    switch.orchagent.settle();
    switch.orchagent.shared().delay = Duration::from_millis(400);
    switch.set("SCHEDULER|weir.Ethernet0.q1", "weight", "35");
    // In force is still what is wanted; it would not be once the other program's row takes effect.
    let steps = apply(&mut driver(&switch), &desired(&[30, 20])).expect("applied");
    assert_eq!(steps.len(), 1, "{steps:?}");
    switch.orchagent.settle();
    assert_eq!(driver(&switch).read("Ethernet0").expect("read"), *config(&[30, 20], MARK).state());
}

#[test]
fn counters_and_speeds_are_read_and_missing_ones_are_none() {
    let Some(switch) = Switch::start() else { return };
    let mut driver = driver(&switch);
    let id: String = switch.query(COUNTERS, &["HGET", "COUNTERS_QUEUE_NAME_MAP", "Ethernet4:3"]);
    let counters = format!("COUNTERS:{id}");
    switch.query::<()>(COUNTERS, &["HSET", &counters, "SAI_QUEUE_STAT_PACKETS", "7", "SAI_QUEUE_STAT_BYTES", "0"]);
    let counters = driver.counters("Ethernet4").expect("counters");
    assert_eq!(counters.len(), 8);
    let expected = QueueCounters { packets: Some(7), bytes: Some(0), ..QueueCounters::default() };
    assert_eq!((counters[&3], counters[&2]), (expected, QueueCounters::default()));
    let id: String = switch.query(COUNTERS, &["HGET", "COUNTERS_QUEUE_NAME_MAP", "Ethernet4:0"]);
    for (field, value) in [("BYTES", "9"), ("DROPPED_PACKETS", "2"), ("WRED_ECN_MARKED_PACKETS", "5")] {
        switch.query::<()>(COUNTERS, &["HSET", &format!("COUNTERS:{id}"), &format!("SAI_QUEUE_STAT_{field}"), value]);
    }
    let expected = QueueReading { sent: Some(Bytes::new(9)), backlog: None, dropped: Some(2), marked: Some(5) };
    assert_eq!(driver.queues("Ethernet4").expect("readings")[&0], expected);
    assert!(!driver.are_live(), "counters are read from the hardware in a period");
    assert_eq!(driver.speed("Ethernet0").expect("there"), Some(Bandwidth::from_gbps(100)));
    assert!(matches!(driver.counters("Ethernet8"), Err(SonicError::NoObject)));
}

/// The configuration is gone with the switch's database: the ports read as never configured, whether the hardware's new
/// objects have the ids of the old ones or others, and get it again.
#[test]
fn a_switch_that_restarts_without_its_rows_gets_them_again() {
    for (groups, first) in [(false, FIRST_ID), (true, 7 * FIRST_ID)] {
        let Some(mut switch) = Switch::with(groups, false) else { return };
        let (mut driver, desired) = (driver(&switch), desired(&[30, 20]));
        apply(&mut driver, &desired).expect("applied");
        let rows = own_rows(&switch);
        for _ in 0..2 {
            switch.restart(first);
            for port in PORTS {
                assert!(driver.read(port).expect("read").is_default(), "{port}");
            }
            apply(&mut driver, &desired).expect("applied");
            for (port, config) in &desired {
                assert_eq!(driver.read(port).expect("read"), *config.state());
            }
            assert_eq!(own_rows(&switch), rows);
            assert_sound(&switch);
        }
    }
}

/// Another program deletes the row of a queue: the queue reads as missing, and gets its row again.
#[test]
fn a_row_that_another_program_deletes_is_written_again() {
    let Some(switch) = Switch::start() else { return };
    let (mut driver, desired) = (driver(&switch), desired(&[30, 20]));
    apply(&mut driver, &desired).expect("applied");
    switch.query::<()>(CONFIG, &["DEL", "QUEUE|Ethernet0|1"]);
    switch.orchagent.settle();
    assert!(!driver.read("Ethernet0").expect("read").queues.contains_key(&1));
    let steps = apply(&mut driver, &desired).expect("applied");
    assert!(matches!(&steps[..], [Step { change: Change::AddQueue { queue: 1, .. }, .. }]), "{steps:?}");
    assert_sound(&switch);
}

#[test]
fn a_password_is_needed_where_the_server_has_one() {
    let Some(switch) = Switch::with(false, true) else { return };
    let access = |password: Option<&str>| Access {
        address: Address::Socket(switch.redis.socket()),
        password: password.map(str::to_owned),
    };
    for wrong in [None, Some("another")] {
        assert!(matches!(SonicSwitch::connect("leaf1", access(wrong)), Err(SonicError::Server { .. })));
    }
    let mut driver = SonicSwitch::connect("leaf1", access(Some(PASSWORD))).expect("connected");
    apply(&mut driver, &desired(&[30, 20])).expect("applied");
    let names: Row = switch.query(COUNTERS, &["HGETALL", "COUNTERS_PORT_NAME_MAP"]);
    assert_eq!(names.len(), PORTS.len());
}
