//! Objects of ASIC_DB, and the state of a port that they give.
//!
//! ASIC_DB has the attributes that the daemons have set, by object id. COUNTERS_DB has the ids of ports and queues by
//! name. A queue's scheduler is an attribute of the queue, or of the scheduler group that has the queue as a child.
//!
//! An object that was bound while CONFIG_DB had no row of Weir's is the platform's default ([`Bound`]): a queue with it
//! is not configured. Everything else is what Weir's rows have made, even if a row is gone and its effect is not yet.
//!
//! Source: sonic-swss, tests/test_qos_map.py, orchagent/qosorch.cpp (`applySchedulerToQueueSchedulerGroup`); SAI,
//! inc/saiqueue.h, inc/saischedulergroup.h, inc/saischeduler.h, inc/saiwred.h, inc/saiqosmap.h.

use crate::redis_server::{Database, RedisServer};
use crate::rows::Row;
use redis::{RedisResult, cmd, pipe};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use weir_switch::{DSCPS, DscpMap, PortState, QUEUES_MAX, QueueConfig, Schedule};
use weir_units::Bytes;

/// The id of no object.
const NULL: &str = "oid:0x0";

/// An object's attribute with a value that this cannot read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) attribute: &'static str,
    pub(crate) value: String,
}

/// The objects that a port refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bound {
    /// By queue.
    pub(crate) schedulers: BTreeMap<u8, String>,
    /// By queue.
    pub(crate) profiles: BTreeMap<u8, String>,
    pub(crate) dscp_map: Option<String>,
    pub(crate) class_map: Option<String>,
}

/// A port's part of ASIC_DB.
#[derive(Debug, Clone, Default)]
pub(crate) struct AsicPort {
    /// The port's queues, whether they are configured or not.
    pub(crate) queues: BTreeSet<u8>,
    pub(crate) bound: Bound,
    /// The attributes of objects that the port refers to.
    objects: BTreeMap<String, Row>,
}

fn object(kind: &str, id: &str) -> String {
    format!("ASIC_STATE:SAI_OBJECT_TYPE_{kind}:{id}")
}

fn is_object(id: &Option<String>) -> Option<&String> {
    id.as_ref().filter(|id| id.starts_with("oid:") && *id != NULL)
}

/// The ids of a list: `2:oid:0x1,oid:0x2`.
fn ids(list: &str) -> Vec<String> {
    let members = list.split_once(':').map_or("", |(_, members)| members);
    members.split(',').filter(|id| id.starts_with("oid:")).map(str::to_owned).collect()
}

/// The names of a port and its queues in COUNTERS_DB, with their ids. `None`: the switch has no such port.
pub(crate) fn queue_ids(server: &mut RedisServer, port: &str) -> RedisResult<Option<(String, BTreeMap<u8, String>)>> {
    let names: Vec<String> = (0..QUEUES_MAX).map(|queue| format!("{port}:{queue}")).collect();
    let (port, queues): (Option<String>, Vec<Option<String>>) = server.query(Database::Counters, |connection| {
        pipe().hget("COUNTERS_PORT_NAME_MAP", port).hmget("COUNTERS_QUEUE_NAME_MAP", &names).query(connection)
    })?;
    let queues = (0..).zip(queues).filter_map(|(queue, id)| Some((queue, id?))).collect();
    Ok(port.map(|port| (port, queues)))
}

impl AsicPort {
    /// Reads a port; `None` where the switch has none of this name.
    pub(crate) fn read(server: &mut RedisServer, port: &str) -> RedisResult<Option<Self>> {
        let Some((id, queues)) = queue_ids(server, port)? else { return Ok(None) };
        let attributes: (Vec<Option<String>>, Vec<Vec<Option<String>>>) =
            server.query(Database::Asic, |connection| {
                let of_port = [
                    "SAI_PORT_ATTR_QOS_DSCP_TO_TC_MAP",
                    "SAI_PORT_ATTR_QOS_TC_TO_QUEUE_MAP",
                    "SAI_PORT_ATTR_QOS_SCHEDULER_GROUP_LIST",
                ];
                let own = cmd("HMGET").arg(object("PORT", &id)).arg(&of_port).query(connection)?;
                let mut all = pipe();
                for id in queues.values() {
                    let of_queue = ["SAI_QUEUE_ATTR_SCHEDULER_PROFILE_ID", "SAI_QUEUE_ATTR_WRED_PROFILE_ID"];
                    all.cmd("HMGET").arg(object("QUEUE", id)).arg(&of_queue);
                }
                Ok((own, if queues.is_empty() { Vec::new() } else { all.query(connection)? }))
            })?;
        let (own, of_queues) = attributes;
        let attribute = |list: &[Option<String>], index: usize| is_object(&list.get(index).cloned().flatten()).cloned();
        let mut bound = Bound { dscp_map: attribute(&own, 0), class_map: attribute(&own, 1), ..Bound::default() };
        for ((queue, _), list) in queues.iter().zip(&of_queues) {
            bound.schedulers.extend(attribute(list, 0).map(|id| (*queue, id)));
            bound.profiles.extend(attribute(list, 1).map(|id| (*queue, id)));
        }
        let groups = own.get(2).cloned().flatten().map_or_else(Vec::new, |list| ids(&list));
        for (child, scheduler) in of_groups(server, &groups)? {
            if let Some((queue, _)) = queues.iter().find(|(_, id)| **id == child) {
                bound.schedulers.entry(*queue).or_insert(scheduler);
            }
        }
        let objects = bound.objects(server)?;
        Ok(Some(Self { queues: queues.into_keys().collect(), bound, objects }))
    }

    /// The state of the port that Weir's rows have made. `platform` are the objects of an unconfigured port.
    pub(crate) fn state(&self, platform: &Bound) -> Result<PortState, Unreadable> {
        let mut state = PortState { map: self.map(platform)?, ..PortState::default() };
        for (queue, id) in &self.bound.schedulers {
            if platform.schedulers.get(queue) == Some(id) {
                continue;
            }
            let Some(schedule) = self.schedule(id)? else { continue };
            let profile = self.bound.profiles.get(queue).filter(|id| platform.profiles.get(queue) != Some(*id));
            let mark = profile.map_or(Ok(None), |id| self.mark(id))?;
            state.queues.insert(*queue, QueueConfig { schedule, mark, buffer: None });
        }
        Ok(state)
    }

    fn attribute<'a>(&'a self, id: &str, name: &str) -> Option<&'a str> {
        self.objects.get(id)?.get(name).map(String::as_str)
    }

    fn number<T: std::str::FromStr>(&self, id: &str, attribute: &'static str) -> Result<Option<T>, Unreadable> {
        let value = self.attribute(id, attribute);
        let parse = |text: &str| text.parse().map_err(|_| Unreadable { attribute, value: text.to_owned() });
        value.map(parse).transpose()
    }

    /// A scheduler; `None` if it is not of a kind that Weir configures: it reads as missing, and is made anew.
    fn schedule(&self, id: &str) -> Result<Option<Schedule>, Unreadable> {
        Ok(match self.attribute(id, "SAI_SCHEDULER_ATTR_SCHEDULING_TYPE") {
            Some("SAI_SCHEDULING_TYPE_STRICT") => Some(Schedule::Strict),
            Some("SAI_SCHEDULING_TYPE_DWRR") => {
                self.number(id, "SAI_SCHEDULER_ATTR_SCHEDULING_WEIGHT")?.map(Schedule::Weighted)
            }
            _ => None,
        })
    }

    /// The threshold of a profile; `None` if it is not a single one for marks.
    fn mark(&self, id: &str) -> Result<Option<Bytes>, Unreadable> {
        let least = self.number::<u64>(id, "SAI_WRED_ATTR_GREEN_MIN_THRESHOLD")?;
        let most = self.number::<u64>(id, "SAI_WRED_ATTR_GREEN_MAX_THRESHOLD")?;
        let marks = self.attribute(id, "SAI_WRED_ATTR_ECN_MARK_MODE") == Some("SAI_ECN_MARK_MODE_ALL")
            && self.attribute(id, "SAI_WRED_ATTR_GREEN_ENABLE") == Some("true");
        Ok(least.filter(|least| marks && Some(*least) == most).map(Bytes::new))
    }

    /// The queue of each DSCP value; `None` if a value has none, or either map is the platform's.
    fn map(&self, platform: &Bound) -> Result<Option<DscpMap>, Unreadable> {
        let (Some(dscps), Some(classes)) = (&self.bound.dscp_map, &self.bound.class_map) else { return Ok(None) };
        if platform.dscp_map.as_ref() == Some(dscps) || platform.class_map.as_ref() == Some(classes) {
            return Ok(None);
        }
        let class_of = self.list(dscps, ("dscp", "tc"))?;
        let queue_of = self.list(classes, ("tc", "qidx"))?;
        let queue = |dscp: u8| queue_of.get(class_of.get(&dscp)?).copied();
        let Some(queues) = (0..DSCPS as u8).map(queue).collect::<Option<Vec<u8>>>() else { return Ok(None) };
        let queues = <[u8; DSCPS]>::try_from(queues).expect("one for each value");
        Ok(Some(DscpMap::from_queues(queues)))
    }

    /// The pairs of a map.
    fn list(&self, id: &str, (key, value): (&str, &str)) -> Result<BTreeMap<u8, u8>, Unreadable> {
        const LIST: &str = "SAI_QOS_MAP_ATTR_MAP_TO_VALUE_LIST";
        let Some(text) = self.attribute(id, LIST) else { return Ok(BTreeMap::new()) };
        let unreadable = || Unreadable { attribute: LIST, value: text.to_owned() };
        let json: Value = serde_json::from_str(text).map_err(|_| unreadable())?;
        let number = |of: &Value| of.as_u64().and_then(|number| u8::try_from(number).ok()).ok_or_else(unreadable);
        let pairs = json["list"].as_array().ok_or_else(unreadable)?.iter();
        pairs.map(|pair| Ok((number(&pair["key"][key])?, number(&pair["value"][value])?))).collect()
    }
}

/// The children of scheduler groups, with the scheduler of their group.
fn of_groups(server: &mut RedisServer, groups: &[String]) -> RedisResult<Vec<(String, String)>> {
    if groups.is_empty() {
        return Ok(Vec::new());
    }
    let lists: Vec<Vec<Option<String>>> = server.query(Database::Asic, |connection| {
        let mut all = pipe();
        for id in groups {
            let of_group = ["SAI_SCHEDULER_GROUP_ATTR_CHILD_LIST", "SAI_SCHEDULER_GROUP_ATTR_SCHEDULER_PROFILE_ID"];
            all.cmd("HMGET").arg(object("SCHEDULER_GROUP", id)).arg(&of_group);
        }
        all.query(connection)
    })?;
    let children = lists.into_iter().filter_map(|list| {
        let [children, scheduler] = <[Option<String>; 2]>::try_from(list).ok()?;
        Some((ids(&children?), is_object(&scheduler)?.clone()))
    });
    Ok(children.flat_map(|(children, id)| children.into_iter().map(move |child| (child, id.clone()))).collect())
}

impl Bound {
    /// These objects, and those of `other` where there is none of these.
    pub(crate) fn or(self, mut other: Self) -> Self {
        other.schedulers.extend(self.schedulers);
        other.profiles.extend(self.profiles);
        Self { dscp_map: self.dscp_map.or(other.dscp_map), class_map: self.class_map.or(other.class_map), ..other }
    }

    /// These objects but those that `other` has at the same place.
    pub(crate) fn without(mut self, other: &Self) -> Self {
        self.schedulers.retain(|queue, id| other.schedulers.get(queue) != Some(id));
        self.profiles.retain(|queue, id| other.profiles.get(queue) != Some(id));
        self.dscp_map = self.dscp_map.filter(|id| other.dscp_map.as_ref() != Some(id));
        self.class_map = self.class_map.filter(|id| other.class_map.as_ref() != Some(id));
        self
    }

    /// The attributes of all objects.
    fn objects(&self, server: &mut RedisServer) -> RedisResult<BTreeMap<String, Row>> {
        let of = |kind: &'static str| move |id: &String| (kind, id.clone());
        let mut all: Vec<(&str, String)> = self.schedulers.values().map(of("SCHEDULER")).collect();
        all.extend(self.profiles.values().map(of("WRED")));
        all.extend(self.dscp_map.iter().chain(&self.class_map).map(of("QOS_MAP")));
        all.sort_unstable();
        all.dedup();
        if all.is_empty() {
            return Ok(BTreeMap::new());
        }
        let attributes: Vec<Row> = server.query(Database::Asic, |connection| {
            let mut requests = pipe();
            for (kind, id) in &all {
                requests.cmd("HGETALL").arg(object(kind, id));
            }
            requests.query(connection)
        })?;
        Ok(all.into_iter().map(|(_, id)| id).zip(attributes).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(fields: &[(&str, &str)]) -> Row {
        fields.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned())).collect()
    }

    fn list(values: impl Iterator<Item = (u8, u8)>, (key, value): (&str, &str)) -> Row {
        let pair = |(k, v)| format!(r#"{{"key":{{"{key}":{k},"prio":0}},"value":{{"{value}":{v},"pg":0}}}}"#);
        let pairs: Vec<String> = values.map(pair).collect();
        let text = format!(r#"{{"count":{},"list":[{}]}}"#, pairs.len(), pairs.join(","));
        row(&[("SAI_QOS_MAP_ATTR_MAP_TO_VALUE_LIST", &text)])
    }

    fn port(dscps: u8) -> AsicPort {
        let scheduler = [
            ("SAI_SCHEDULER_ATTR_SCHEDULING_TYPE", "SAI_SCHEDULING_TYPE_DWRR"),
            ("SAI_SCHEDULER_ATTR_SCHEDULING_WEIGHT", "30"),
        ];
        let objects = [
            ("oid:0x5", row(&scheduler)),
            ("oid:0x6", list((0..dscps).map(|dscp| (dscp, dscp / 32)), ("dscp", "tc"))),
            ("oid:0x7", list((0..8).map(|class| (class, class)), ("tc", "qidx"))),
        ];
        let bound = Bound {
            schedulers: BTreeMap::from([(1, "oid:0x5".to_owned())]),
            dscp_map: Some("oid:0x6".to_owned()),
            class_map: Some("oid:0x7".to_owned()),
            ..Bound::default()
        };
        let objects = objects.into_iter().map(|(id, row)| (id.to_owned(), row)).collect();
        AsicPort { queues: (0..8).collect(), bound, objects }
    }

    #[test]
    fn objects_give_queues_and_the_map() {
        let port = port(64);
        let state = port.state(&Bound::default()).expect("readable");
        assert_eq!(state.queues[&1].schedule, Schedule::Weighted(30));
        assert_eq!(state.map.map(|map| map.to_string()).as_deref(), Some("0-31 in queue 0; 32-63 in queue 1"));
        assert!(port.state(&port.bound).expect("readable").is_default(), "the platform's defaults");
    }

    #[test]
    fn incomplete_and_unreadable_objects_are_no_configuration() {
        assert_eq!(port(63).state(&Bound::default()).expect("readable").map, None);
        let mut other = port(64);
        let weight = "SAI_SCHEDULER_ATTR_SCHEDULING_WEIGHT".to_owned();
        let scheduler = |port: &mut AsicPort, field: String, value: &str| {
            drop(port.objects.get_mut("oid:0x5").expect("there").insert(field, value.to_owned()));
        };
        scheduler(&mut other, weight, "heavy");
        assert_eq!(other.state(&Bound::default()).expect_err("a text").value, "heavy");
        scheduler(&mut other, "SAI_SCHEDULER_ATTR_SCHEDULING_TYPE".to_owned(), "SAI_SCHEDULING_TYPE_WRR");
        assert!(other.state(&Bound::default()).expect("readable").queues.is_empty());
    }

    #[test]
    fn lists_have_a_count_and_ids() {
        assert_eq!(ids("2:oid:0x1,oid:0x2"), ["oid:0x1", "oid:0x2"]);
        assert_eq!(ids("0:null"), <[String; 0]>::default());
    }
}
