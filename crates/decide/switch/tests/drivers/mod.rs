//! A switch of tests in memory, which fails on demand. The switch without acknowledgements is in the tests of
//! `crates/host/sonic`.
#![allow(dead_code, reason = "each test file uses a part of this")]

pub(crate) mod memory;
