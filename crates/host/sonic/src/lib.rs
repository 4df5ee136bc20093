//! [`SonicSwitch`]: the ports of a SONiC switch, configured through its redis server.
//!
//! Problem: SONiC's configuration is rows of a database (CONFIG_DB), which accepts any row. A daemon (orchagent)
//! applies rows within about a second, gives no reply, drops a row with an unknown field, and aborts or misreads where
//! a number is malformed. Approach: all rows are validated before a write; a write is one transaction with only the
//! fields that differ; what counts is ASIC_DB, the objects that the daemons have made of the rows.
//!
//! | module | contents |
//! |---|---|
//! | [`rows`] | rows of CONFIG_DB: their names, the change of a step, the difference of two contents; pure |
//! | [`check`] | rows that are not Weir's, and rows that orchagent would refuse; pure |
//! | [`asic`] | objects of ASIC_DB, and the state of a port that they give |
//! | [`redis_server`] | connections to the databases |
//! | [`switch`] | the driver |
//! | [`counters`] | counters of queues |
//! | [`buffers`] | the most that a queue can hold; pure |
//!
//! | Part of a port | Row |
//! |---|---|
//! | queue 3's scheduler | `SCHEDULER\|weir.Ethernet0.q3`: one for each queue, so that a weight changes one queue |
//! | queue 3 | `QUEUE\|Ethernet0\|3` |
//! | threshold of 80 kB | `WRED_PROFILE\|WEIR_ECN_80000`, for all queues with it |
//! | map | `DSCP_TO_TC_MAP\|WEIR_Ethernet0` with all 64 values |
//! | traffic class n in queue n | `TC_TO_QUEUE_MAP\|WEIR` |
//! | both, at the port | `PORT_QOS_MAP\|Ethernet0` |
//!
//! SONiC assigns packets to queues by the map of the port where they arrive, so that all ports have one map
//! ([`Map::PerSwitch`](weir_switch::Map::PerSwitch)). Rates and buffers are the platform's, and packets are not
//! re-marked.
//!
//! Worked example: `apply(&mut SonicSwitch::connect(…)?, &desired)` with another weight of one queue sends `HSET
//! SCHEDULER|weir.Ethernet0.q1 weight 35`, and reads `SAI_SCHEDULER_ATTR_SCHEDULING_WEIGHT` until it is 35.
//!
//! Source: sonic-net/sonic-swss, orchagent/qosorch.cpp; sonic-net/sonic-buildimage, src/sonic-yang-models; SAI,
//! inc/saischeduler.h.

mod asic;
mod buffers;
mod check;
pub mod counters;
mod redis_server;
mod rows;
mod switch;

pub use counters::QueueCounters;
pub use redis_server::{Access, Address, AddressError};
pub use switch::{SonicError, SonicSwitch};
