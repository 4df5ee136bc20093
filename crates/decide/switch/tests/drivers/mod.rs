//! Switches of tests: one in memory that fails on demand, and one as SONiC's CONFIG_DB.
#![allow(dead_code, reason = "each test file uses a part of this")]

pub(crate) mod config_db;
pub(crate) mod memory;
