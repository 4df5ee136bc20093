//! The most that a queue can hold, by the tables of buffers in CONFIG_DB.
//!
//! | row | fields that count here |
//! |---|---|
//! | `BUFFER_QUEUE\|port\|3` or `\|3-4`, also with several ports | `profile` |
//! | `BUFFER_PROFILE\|name` | `size`, `static_th` or `dynamic_th`, and `pool` |
//! | `BUFFER_POOL\|name` | `size` |
//!
//! A queue has `size` bytes reserved, and beside them shares a pool: at most `static_th` bytes of it, or a part of what
//! is free. Such a dynamic threshold lets a queue have nearly the whole pool while others are empty, and platforms
//! differ in what they count as free, so the pool is the bound. A threshold is compared before a packet is taken, so a
//! frame comes on top. Releases that compute pools while they run have no `size` of them in CONFIG_DB: the bound is
//! then unknown.
//!
//! Worked example: `size` 1,518 and `static_th` 200,000 are at most 210,734 B, with a frame of 9,216 B; `dynamic_th` 3
//! in a pool of 14,024,704 B at most 14,035,438 B.
//!
//! Source: sonic-buildimage, src/sonic-yang-models/yang-models/sonic-buffer-queue.yang; sonic-swss,
//! orchagent/bufferorch.cpp; SAI, inc/saibuffer.h (`SAI_BUFFER_PROFILE_ATTR_SHARED_STATIC_TH`, `_SHARED_DYNAMIC_TH`).

use crate::rows::{Row, Rows, key, referred};
use weir_units::Bytes;

const BUFFER_QUEUE: &str = "BUFFER_QUEUE";
const BUFFER_PROFILE: &str = "BUFFER_PROFILE";
const BUFFER_POOL: &str = "BUFFER_POOL";

/// The tables.
pub(crate) const TABLES: [&str; 3] = [BUFFER_QUEUE, BUFFER_PROFILE, BUFFER_POOL];

/// A jumbo frame, more than SONiC's default mtu of 9,100.
const FRAME: u64 = 9_216;

/// The most that one of a port's first `queues` queues can hold; `None` if that of one is unknown.
pub(crate) fn largest(rows: &Rows, port: &str, queues: u8) -> Option<Bytes> {
    (0..queues).map(|queue| of_queue(rows, port, queue)).collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// Of several rows for a queue, any may be in force.
fn of_queue(rows: &Rows, port: &str, queue: u8) -> Option<Bytes> {
    let own = rows.iter().filter(|(key, _)| is_of(key, port, queue));
    own.map(|(_, row)| of_profile(rows, row.get("profile")?)).collect::<Option<Vec<_>>>()?.into_iter().max()
}

fn is_of(key: &str, port: &str, queue: u8) -> bool {
    let mut parts = key.split('|');
    let (Some(BUFFER_QUEUE), Some(ports), Some(range), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let is_within = |(first, last): (u8, u8)| (first..=last).contains(&queue);
    ports.split(',').any(|one| one == port) && first.parse().ok().zip(last.parse().ok()).is_some_and(is_within)
}

fn of_profile(rows: &Rows, profile: &str) -> Option<Bytes> {
    let profile = rows.get(&key(BUFFER_PROFILE, referred(profile, BUFFER_PROFILE)))?;
    let reserved = bytes(profile, "size")?;
    let shared = match profile.contains_key("static_th") {
        true => bytes(profile, "static_th")?,
        false => bytes(rows.get(&key(BUFFER_POOL, referred(profile.get("pool")?, BUFFER_POOL)))?, "size")?,
    };
    reserved.checked_add(shared)?.checked_add(FRAME).map(Bytes::new)
}

fn bytes(row: &Row, field: &str) -> Option<u64> {
    row.get(field)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(list: &[(&str, &[(&str, &str)])]) -> Rows {
        let row = |fields: &[(&str, &str)]| fields.iter().map(|(f, v)| ((*f).to_owned(), (*v).to_owned())).collect();
        list.iter().map(|(key, fields)| ((*key).to_owned(), row(fields))).collect()
    }

    fn all() -> Rows {
        rows(&[
            ("BUFFER_QUEUE|Ethernet0,Ethernet4|0-2", &[("profile", "[BUFFER_PROFILE|q_lossy_profile]")]),
            ("BUFFER_QUEUE|Ethernet0|3", &[("profile", "egress_static")]),
            ("BUFFER_PROFILE|q_lossy_profile", &[("pool", "lossy"), ("size", "1518"), ("dynamic_th", "3")]),
            ("BUFFER_PROFILE|egress_static", &[("pool", "lossless"), ("size", "1518"), ("static_th", "200000")]),
            ("BUFFER_POOL|lossy", &[("mode", "dynamic"), ("size", "14024704"), ("type", "egress")]),
        ])
    }

    #[test]
    fn bounds_of_the_worked_example() {
        assert_eq!(of_queue(&all(), "Ethernet0", 3), Some(Bytes::new(210_734)));
        assert_eq!(of_queue(&all(), "Ethernet4", 2), Some(Bytes::new(14_035_438)));
        assert_eq!(largest(&all(), "Ethernet0", 4), Some(Bytes::new(14_035_438)));
    }

    #[test]
    fn queue_without_a_bound_leaves_its_port_without() {
        assert_eq!(largest(&all(), "Ethernet4", 4), None, "queue 3 has no row");
        assert_eq!(largest(&all(), "Ethernet8", 1), None);
        assert_eq!(largest(&all(), "Ethernet0", 0), None, "no queue");
        let mut computed = all();
        computed.get_mut("BUFFER_POOL|lossy").expect("there").remove("size");
        assert_eq!(largest(&computed, "Ethernet0", 4), None, "the pool is computed while the switch runs");
        let mut malformed = all();
        let profile = malformed.get_mut("BUFFER_PROFILE|egress_static").expect("there");
        profile.insert("static_th".to_owned(), "much".to_owned());
        assert_eq!(of_queue(&malformed, "Ethernet0", 3), None);
        // Another row for the same queue.
        let mut two = all();
        two.extend(rows(&[("BUFFER_QUEUE|Ethernet0|3-4", &[("profile", "unknown")])]));
        assert_eq!(of_queue(&two, "Ethernet0", 3), None);
    }
}
