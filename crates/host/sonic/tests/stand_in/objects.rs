//! The objects of the stand-in's hardware: ids, and attributes as ASIC_DB has them.

use super::{ASIC, COUNTERS, Row};
use redis::{Connection, RedisResult, cmd};
use std::collections::BTreeMap;

/// The id of no object.
const NULL: &str = "oid:0x0";
const QUEUES: u8 = 8;

/// The hardware: its objects are in the database alone.
pub(crate) struct Objects {
    next: u64,
    pub(crate) ports: BTreeMap<String, String>,
    pub(crate) queues: BTreeMap<(String, u8), String>,
    /// By queue, where schedulers are attributes of groups.
    groups: Option<BTreeMap<(String, u8), String>>,
}

impl Objects {
    /// Ports with queues, which have the default scheduler.
    pub(crate) fn new(server: &mut Connection, ports: &[&str], groups: bool, first_id: u64) -> RedisResult<Self> {
        let groups = groups.then(BTreeMap::new);
        let mut all = Self { next: first_id, ports: BTreeMap::new(), queues: BTreeMap::new(), groups };
        // The scheduler that queues have before they are configured.
        let default = all.create();
        let weight = [
            ("SAI_SCHEDULER_ATTR_SCHEDULING_TYPE", "SAI_SCHEDULING_TYPE_DWRR"),
            ("SAI_SCHEDULER_ATTR_SCHEDULING_WEIGHT", "1"),
        ];
        for (attribute, value) in weight {
            all.set(server, ("SCHEDULER", &default), (attribute, value))?;
        }
        for port in ports {
            let id = all.create();
            all.set(server, ("PORT", &id), ("SAI_PORT_ATTR_ADMIN_STATE", "true"))?;
            counters(server, "COUNTERS_PORT_NAME_MAP", port, &id)?;
            all.ports.insert((*port).to_owned(), id.clone());
            let mut groups = Vec::new();
            for queue in 0..QUEUES {
                let own = all.create();
                all.set(server, ("QUEUE", &own), ("SAI_QUEUE_ATTR_INDEX", &queue.to_string()))?;
                counters(server, "COUNTERS_QUEUE_NAME_MAP", &format!("{port}:{queue}"), &own)?;
                all.queues.insert(((*port).to_owned(), queue), own.clone());
                let group = all.create();
                if let Some(of_queues) = &mut all.groups {
                    of_queues.insert(((*port).to_owned(), queue), group.clone());
                    let children = ("SAI_SCHEDULER_GROUP_ATTR_CHILD_LIST", format!("1:{own}"));
                    all.set(server, ("SCHEDULER_GROUP", &group), (children.0, &children.1))?;
                    groups.push(group);
                }
                all.set_scheduler(server, (port, queue), Some(&default))?;
            }
            let list = format!("{}:{}", groups.len(), groups.join(","));
            all.set(server, ("PORT", &id), ("SAI_PORT_ATTR_QOS_SCHEDULER_GROUP_LIST", &list))?;
        }
        Ok(all)
    }

    pub(crate) fn create(&mut self) -> String {
        self.next += 1;
        format!("oid:{:#x}", self.next)
    }

    pub(crate) fn set(&self, server: &mut Connection, of: (&str, &str), set: (&str, &str)) -> RedisResult<()> {
        select(server, ASIC)?;
        cmd("HSET").arg(object(of)).arg(set.0).arg(set.1).exec(server)
    }

    pub(crate) fn delete(&self, server: &mut Connection, of: (&str, &str)) -> RedisResult<()> {
        select(server, ASIC)?;
        cmd("DEL").arg(object(of)).exec(server)
    }

    pub(crate) fn set_scheduler(
        &self,
        server: &mut Connection,
        queue: (&str, u8),
        to: Option<&str>,
    ) -> RedisResult<()> {
        let (of, to) = ((queue.0.to_owned(), queue.1), to.unwrap_or(NULL));
        match &self.groups {
            Some(groups) => {
                let attribute = "SAI_SCHEDULER_GROUP_ATTR_SCHEDULER_PROFILE_ID";
                self.set(server, ("SCHEDULER_GROUP", &groups[&of]), (attribute, to))
            }
            None => self.set(server, ("QUEUE", &self.queues[&of]), ("SAI_QUEUE_ATTR_SCHEDULER_PROFILE_ID", to)),
        }
    }

    pub(crate) fn set_profile(&self, server: &mut Connection, queue: (&str, u8), to: Option<&str>) -> RedisResult<()> {
        let id = &self.queues[&(queue.0.to_owned(), queue.1)];
        self.set(server, ("QUEUE", id), ("SAI_QUEUE_ATTR_WRED_PROFILE_ID", to.unwrap_or(NULL)))
    }

    /// Binds a map to a port, by the field of its row.
    pub(crate) fn set_map(
        &self,
        server: &mut Connection,
        port: &str,
        (field, to): (&str, Option<&str>),
    ) -> RedisResult<()> {
        let attribute = format!("SAI_PORT_ATTR_QOS_{}", field.to_uppercase());
        self.set(server, ("PORT", &self.ports[port]), (&attribute, to.unwrap_or(NULL)))
    }
}

fn object((kind, id): (&str, &str)) -> String {
    format!("ASIC_STATE:SAI_OBJECT_TYPE_{kind}:{id}")
}

fn select(server: &mut Connection, database: i64) -> RedisResult<()> {
    cmd("SELECT").arg(database).exec(server)
}

fn counters(server: &mut Connection, table: &str, name: &str, id: &str) -> RedisResult<()> {
    select(server, COUNTERS)?;
    cmd("HSET").arg(table).arg(name).arg(id).exec(server)
}

/// The kind of objects of a table, with the attributes of a row. A value that orchagent's parsers do not take ends it:
/// `Err`. `Ok(None)`: the row has a field that orchagent does not have.
pub(crate) fn attributes(table: &str, row: &Row) -> Result<Option<Vec<(String, String)>>, String> {
    let mut all = Vec::new();
    for (field, value) in row {
        let attribute = match (table, field.as_str()) {
            ("SCHEDULER", "type") => ("SAI_SCHEDULER_ATTR_SCHEDULING_TYPE", format!("SAI_SCHEDULING_TYPE_{value}")),
            // Cast to eight bits, and SAI takes 1 to 100.
            ("SCHEDULER", "weight") => match stoi(value)? as u8 {
                weight @ 1..=100 => ("SAI_SCHEDULER_ATTR_SCHEDULING_WEIGHT", weight.to_string()),
                weight => return Err(format!("SAI refuses weight {weight}")),
            },
            ("WRED_PROFILE", "ecn") => {
                ("SAI_WRED_ATTR_ECN_MARK_MODE", value.to_uppercase().replace("ECN_", "SAI_ECN_MARK_MODE_"))
            }
            ("WRED_PROFILE", "wred_green_enable") => ("SAI_WRED_ATTR_GREEN_ENABLE", value.clone()),
            ("WRED_PROFILE", "green_min_threshold") => ("SAI_WRED_ATTR_GREEN_MIN_THRESHOLD", stoi(value)?.to_string()),
            ("WRED_PROFILE", "green_max_threshold") => ("SAI_WRED_ATTR_GREEN_MAX_THRESHOLD", stoi(value)?.to_string()),
            ("WRED_PROFILE", "green_drop_probability") => {
                ("SAI_WRED_ATTR_GREEN_DROP_PROBABILITY", stoi(value)?.to_string())
            }
            ("DSCP_TO_TC_MAP" | "TC_TO_QUEUE_MAP", _) => continue,
            _ => return Ok(None),
        };
        all.push((attribute.0.to_owned(), attribute.1));
    }
    let keys = match table {
        "DSCP_TO_TC_MAP" => ("dscp", "tc", "SAI_QOS_MAP_TYPE_DSCP_TO_TC"),
        "TC_TO_QUEUE_MAP" => ("tc", "qidx", "SAI_QOS_MAP_TYPE_TC_TO_QUEUE"),
        _ => return Ok(Some(all)),
    };
    let pair = |(field, value): (&String, &String)| {
        Ok(serde_json::json!({ "key": { keys.0: stoi(field)? }, "value": { keys.1: stoi(value)? } }))
    };
    let list: Vec<serde_json::Value> = row.iter().map(pair).collect::<Result<_, String>>()?;
    let list = serde_json::json!({ "count": list.len(), "list": list }).to_string();
    all.push(("SAI_QOS_MAP_ATTR_TYPE".to_owned(), keys.2.to_owned()));
    all.push(("SAI_QOS_MAP_ATTR_MAP_TO_VALUE_LIST".to_owned(), list));
    Ok(Some(all))
}

/// C++'s parser of numbers: leading digits count, and a text without any throws.
fn stoi(text: &str) -> Result<i32, String> {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().map_err(|_| format!("stoi({text:?})"))
}

/// The kind of a table's objects.
pub(crate) fn kind(table: &str) -> &'static str {
    match table {
        "SCHEDULER" => "SCHEDULER",
        "WRED_PROFILE" => "WRED",
        _ => "QOS_MAP",
    }
}
