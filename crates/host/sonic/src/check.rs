//! Rows that are not Weir's, and rows that orchagent would refuse.
//!
//! Orchagent parses numbers without a check: a malformed one ends the process, and weight 300 becomes 44. A row with a
//! field that it does not have is dropped whole. SONiC's YANG models accept some of these rows, and a direct write is
//! checked by nothing, so that this check is the only one.
//!
//! Source: sonic-swss, orchagent/qosorch.cpp.

use crate::rows::{
    CLASSES, DSCP_TO_TC_MAP, PORT_QOS_MAP, QUEUE, Row, Rows, SCHEDULER, TC_TO_QUEUE_MAP, WRED_PROFILE, is_profile, key,
    map, reference, scheduler,
};
use std::ops::RangeInclusive;
use weir_switch::{DSCPS, QUEUES_MAX};

/// The weights of SAI.
pub(crate) const WEIGHTS: RangeInclusive<u16> = 1..=100;
/// The largest threshold: orchagent parses it as a signed 32-bit number.
const THRESHOLD_MAX: u64 = i32::MAX as u64;
/// The longest name of a map.
const NAME_MAX: usize = 32;

/// A field that keeps a row from being written or taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) key: String,
    pub(crate) field: String,
    pub(crate) value: String,
    /// The values that are possible.
    pub(crate) expected: String,
}

fn wrong(key: &str, field: &str, value: &str, expected: impl Into<String>) -> Wrong {
    Wrong { key: key.to_owned(), field: field.to_owned(), value: value.to_owned(), expected: expected.into() }
}

/// Whether a port can have rows of Weir's: its name is a part of theirs.
pub(crate) fn is_port_name(port: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !port.is_empty() && port.chars().all(is_plain) && map(port).len() <= NAME_MAX
}

/// The field of a port's row that is not Weir's and that a configuration of Weir's would replace, or be affected by.
pub(crate) fn foreign(rows: &Rows, port: &str) -> Option<Wrong> {
    let own = |key: &str| rows.get(key);
    for (key, row) in rows {
        let Some((table, name)) = key.split_once('|') else { continue };
        let (ports, number) = name.split_once('|').unwrap_or((name, ""));
        if !ports.split(',').any(|one| one == port) {
            continue;
        }
        let of_several = || wrong(key, "", ports, "a row for each port");
        match table {
            QUEUE if !touches_queues(number) => {}
            QUEUE | PORT_QOS_MAP if ports != port => return Some(of_several()),
            QUEUE => {
                if let Some(found) = foreign_queue(key, row, port, number) {
                    return Some(found);
                }
            }
            PORT_QOS_MAP => {
                let name = map(port);
                for (field, expected) in [("dscp_to_tc_map", name.as_str()), ("tc_to_queue_map", CLASSES)] {
                    if let Some(found) = reference(row, field).filter(|found| *found != expected) {
                        return Some(wrong(key, field, found, expected));
                    }
                }
            }
            _ => {}
        }
    }
    let global = key(PORT_QOS_MAP, "global");
    let switch_wide = own(&global).and_then(|row| row.get("dscp_to_tc_map"));
    switch_wide.map(|value| wrong(&global, "dscp_to_tc_map", value, "maps of ports"))
}

/// Whether a key's queues, `3` or `3-4`, are among those that Weir configures. Multicast queues have higher numbers.
fn touches_queues(number: &str) -> bool {
    let first = number.split('-').next().unwrap_or(number);
    first.parse::<usize>().is_ok_and(|first| first < QUEUES_MAX)
}

fn foreign_queue(key: &str, row: &Row, port: &str, number: &str) -> Option<Wrong> {
    let Ok(queue) = number.parse::<u8>() else { return Some(wrong(key, "", number, "a row for each queue")) };
    let name = scheduler(port, queue);
    if let Some(found) = reference(row, "scheduler").filter(|found| *found != name) {
        return Some(wrong(key, "scheduler", found, name));
    }
    let found = reference(row, "wred_profile").filter(|found| !is_profile(found))?;
    Some(wrong(key, "wred_profile", found, "a profile of Weir's"))
}

/// The field of a row that orchagent would refuse or misread. `rows` has the rows to which this one refers.
pub(crate) fn refused(rows: &Rows, key: &str, row: &Row) -> Option<Wrong> {
    let table = key.split('|').next().unwrap_or(key);
    let field = row.iter().find_map(|(field, value)| {
        let expected = expected_of(table, field, value)?;
        Some(wrong(key, field, value, expected))
    });
    field.or_else(|| {
        let dangling = |(field, referred): (&str, &str)| {
            let name = reference(row, field)?;
            let is_there = rows.contains_key(&self::key(referred, name));
            (!is_there).then(|| wrong(key, field, name, format!("the name of a row of {referred}")))
        };
        let fields = match table {
            QUEUE => [("scheduler", SCHEDULER), ("wred_profile", WRED_PROFILE)],
            PORT_QOS_MAP => [("dscp_to_tc_map", DSCP_TO_TC_MAP), ("tc_to_queue_map", TC_TO_QUEUE_MAP)],
            DSCP_TO_TC_MAP if row.len() != DSCPS => {
                return Some(wrong(key, "", &format!("{} values", row.len()), "all 64 DSCP values"));
            }
            _ => return None,
        };
        fields.into_iter().find_map(dangling)
    })
}

/// The values that a field may have, if this is none of them; `no such field` where the table has no such field.
fn expected_of(table: &str, field: &str, value: &str) -> Option<String> {
    let within = |range: RangeInclusive<u64>| {
        // Only digits, and no sign: the same number by any parser.
        let is_plain = !value.is_empty() && value.len() <= 20 && value.bytes().all(|byte| byte.is_ascii_digit());
        let number = value.parse::<u64>().ok().filter(|number| is_plain && range.contains(number));
        number.map_or_else(|| Some(format!("{} to {}", range.start(), range.end())), |_| None)
    };
    let one_of = |values: &[&str]| (!values.contains(&value)).then(|| values.join(", "));
    let is_index = |most: usize| field.parse::<usize>().is_ok_and(|index| index < most && index.to_string() == field);
    let last = QUEUES_MAX as u64 - 1;
    match (table, field) {
        (SCHEDULER, "type") => one_of(&["DWRR", "STRICT"]),
        (SCHEDULER, "weight") => within((*WEIGHTS.start()).into()..=(*WEIGHTS.end()).into()),
        (WRED_PROFILE, "ecn") => one_of(&["ecn_all"]),
        (WRED_PROFILE, "wred_green_enable") => one_of(&["true"]),
        (WRED_PROFILE, "green_min_threshold" | "green_max_threshold") => within(1..=THRESHOLD_MAX),
        (WRED_PROFILE, "green_drop_probability") => within(0..=100),
        (DSCP_TO_TC_MAP, _) if is_index(DSCPS) => within(0..=last),
        (TC_TO_QUEUE_MAP, _) if is_index(QUEUES_MAX) => within(0..=last),
        // The operator's fields of a port are in force already; the placeholder of an empty row is none of them.
        (PORT_QOS_MAP, _) if field != "NULL" => None,
        (QUEUE, "scheduler" | "wred_profile") => None,
        _ => Some("no such field".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(list: &[(&str, &[(&str, &str)])]) -> Rows {
        let row = |fields: &[(&str, &str)]| fields.iter().map(|(f, v)| ((*f).to_owned(), (*v).to_owned())).collect();
        list.iter().map(|(key, fields)| ((*key).to_owned(), row(fields))).collect()
    }

    fn foreign_field(key: &str, fields: &[(&str, &str)]) -> Option<String> {
        foreign(&rows(&[(key, fields)]), "Ethernet0")
            .map(|wrong| format!("{} {}={}", wrong.key, wrong.field, wrong.value))
    }

    #[test]
    fn configuration_of_others_is_found() {
        let azure = [("dscp_to_tc_map", "AZURE")];
        let found = |key: &str, fields: &[(&str, &str)]| foreign_field(key, fields).unwrap_or_default();
        assert_eq!(found("PORT_QOS_MAP|Ethernet0", &azure), "PORT_QOS_MAP|Ethernet0 dscp_to_tc_map=AZURE");
        let old = [("tc_to_queue_map", "[TC_TO_QUEUE_MAP|AZURE]")];
        assert_eq!(found("PORT_QOS_MAP|Ethernet0", &old), "PORT_QOS_MAP|Ethernet0 tc_to_queue_map=AZURE");
        assert_eq!(found("PORT_QOS_MAP|global", &azure), "PORT_QOS_MAP|global dscp_to_tc_map=AZURE");
        let several = "QUEUE|Ethernet0,Ethernet4|3";
        assert_eq!(found(several, &[("scheduler", "s")]), "QUEUE|Ethernet0,Ethernet4|3 =Ethernet0,Ethernet4");
        assert_eq!(found("QUEUE|Ethernet0|3-4", &[("scheduler", "s")]), "QUEUE|Ethernet0|3-4 =3-4");
        let lossless = [("scheduler", "weir.Ethernet0.q3"), ("wred_profile", "AZURE_LOSSLESS")];
        assert_eq!(found("QUEUE|Ethernet0|3", &lossless), "QUEUE|Ethernet0|3 wred_profile=AZURE_LOSSLESS");
        assert!(!found("QUEUE|Ethernet0|3", &[("scheduler", "weir.Ethernet4.q3")]).is_empty());
    }

    #[test]
    fn own_rows_other_ports_and_multicast_queues_are_no_obstacle() {
        for (key, fields) in [
            (
                "QUEUE|Ethernet0|3",
                &[("scheduler", "[SCHEDULER|weir.Ethernet0.q3]"), ("wred_profile", "WEIR_ECN_80000")][..],
            ),
            ("PORT_QOS_MAP|Ethernet0", &[("dscp_to_tc_map", "WEIR_Ethernet0"), ("pfc_enable", "3,4")]),
            ("QUEUE|Ethernet0|8", &[("scheduler", "multicast")]),
            ("QUEUE|Ethernet01|3", &[("scheduler", "scheduler.0")]),
            ("QUEUE|Ethernet4|0-7", &[("scheduler", "scheduler.0")]),
        ] {
            assert_eq!(foreign_field(key, fields), None);
        }
    }

    #[test]
    fn values_that_orchagent_misreads_are_refused() {
        let all = Rows::new();
        let check = |key: &str, field: &str, value: &str| {
            let row = Row::from([(field.to_owned(), value.to_owned())]);
            refused(&all, key, &row).map(|wrong| wrong.expected).unwrap_or_default()
        };
        for weight in ["0", "101", "300", "", "+5", " 5", "5x", "99999999999999999999"] {
            assert_eq!(check("SCHEDULER|weir.Ethernet0.q0", "weight", weight), "1 to 100", "{weight:?}");
        }
        assert_eq!(check("SCHEDULER|weir.Ethernet0.q0", "weight", "100"), "");
        assert_eq!(check("SCHEDULER|weir.Ethernet0.q0", "priority", "3"), "no such field");
        assert_eq!(check("SCHEDULER|weir.Ethernet0.q0", "NULL", "NULL"), "no such field");
        assert_eq!(check("WRED_PROFILE|WEIR_ECN_1", "green_min_threshold", "2147483648"), "1 to 2147483647");
        assert_eq!(check("WRED_PROFILE|WEIR_ECN_1", "ecn_green_min_threshold", "5"), "no such field");
        assert_eq!(check("DSCP_TO_TC_MAP|WEIR_Ethernet0", "64", "0"), "no such field");
        assert_eq!(check("DSCP_TO_TC_MAP|WEIR_Ethernet0", "5", "8"), "0 to 7");
        assert_eq!(check("DSCP_TO_TC_MAP|WEIR_Ethernet0", "5", "7"), "all 64 DSCP values");
        assert_eq!(check("QUEUE|Ethernet0|0", "scheduler", "weir.Ethernet0.q0"), "the name of a row of SCHEDULER");
        assert_eq!(check("PORT_QOS_MAP|Ethernet0", "NULL", "NULL"), "no such field");
    }

    #[test]
    fn names_of_ports_fit_into_names_of_rows() {
        assert!(is_port_name("Ethernet0") && is_port_name("Ethernet-BP0"));
        for name in ["", "Ethernet0|3", "Ethernet*", "Ethernet0.10", "a-port-whose-name-is-much-too-long"] {
            assert!(!is_port_name(name), "{name}");
        }
    }
}
