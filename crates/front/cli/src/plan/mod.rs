//! `weir plan`: from latency targets to capacities and caps.
//!
//! `weir_latency::plan` computes the contention points of messages and their highest loads.
//!
//! | module | does |
//! |---|---|
//! | `compute` | the estimates of all methods, for each service with a target |
//! | `model` | the content of a plan |
//! | `network` | the buffers and timers of the policy's network, or of a scenario's |
//! | `trace` | reading and simulating a trace, with progress and interruption |
//! | `caps` | the caps that keep every target |
//! | `write` | writes one of them into the policy's file |
//! | `print`, `json`, `page` | output for people, for programs, as a drawing |

pub(crate) mod caps;
pub(crate) mod compute;
pub(crate) mod json;
pub(crate) mod model;
pub(crate) mod network;
pub(crate) mod page;
pub(crate) mod print;
pub(crate) mod trace;
pub(crate) mod write;
