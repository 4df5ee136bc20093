//! `weir plan`: from latency targets to capacities and caps.
//!
//! Where messages contend and how full each place may become is in `weir-planning`.
//!
//! | module | does |
//! |---|---|
//! | `compute` | the answers of all methods, for each service with a target |
//! | `model` | what a plan says |
//! | `trace` | reading and simulating a trace under somebody's eyes |
//! | `caps` | the caps that keep every target |
//! | `write` | one of them into the policy's file |
//! | `print`, `json`, `page` | for people, for programs, drawn |

pub(crate) mod caps;
pub(crate) mod compute;
pub(crate) mod json;
pub(crate) mod model;
pub(crate) mod page;
pub(crate) mod print;
pub(crate) mod trace;
pub(crate) mod write;
