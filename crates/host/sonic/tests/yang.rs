//! The driver's rows against SONiC's YANG models, by yanglint.

mod stand_in;

use stand_in::yang::{models, validate};
use stand_in::{CONFIG, PORTS, Switch, is_missing};
use std::collections::BTreeMap;
use weir_sonic::{Access, Address, SonicSwitch};
use weir_switch::{Group, Needs, Offer, Scheduler, apply};
use weir_units::Bytes;

#[test]
fn rows_are_valid_under_the_models_of_sonic() {
    let Some(models) = models().filter(|_| !is_missing("yanglint")) else { return };
    let Some(switch) = Switch::start() else { return };
    let access = Access { address: Address::Socket(switch.redis.socket()), password: None };
    let mut driver = SonicSwitch::connect("leaf1", access).expect("connected");
    let groups = (0..3).map(|group| Group { dscps: vec![10 + 2 * group], weight: 20 }).collect();
    let needs = Needs { groups, levels: vec![vec![46], vec![34]], ..Needs::marks(Bytes::new(80_000)) };
    let offer = Offer { queues: 8, scheduler: Scheduler::Mixed { strict: 3, weighted: 5 } };
    let config = needs.of_port(None, None).lower(offer).expect("valid");
    let desired: BTreeMap<_, _> = PORTS.map(|port| (port.to_owned(), config.clone())).into();
    apply(&mut driver, &desired).expect("applied");
    let rows = switch.rows(CONFIG);
    let output = validate(&models, &rows);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The models would find a mistake.
    for (key, field, wrong) in [
        ("SCHEDULER|weir.Ethernet0.q1", "weight", "101"),
        ("QUEUE|Ethernet4|2", "scheduler", "weir.Ethernet4.q9"),
        ("PORT_QOS_MAP|Ethernet0", "dscp_to_tc_map", "[DSCP_TO_TC_MAP|WEIR_Ethernet0]"),
    ] {
        let mut mistaken = rows.clone();
        let row = mistaken.get_mut(key).expect("a row");
        row.insert(field.to_owned(), wrong.to_owned());
        assert!(!validate(&models, &mistaken).status.success(), "{key} {field}={wrong}");
    }
}
