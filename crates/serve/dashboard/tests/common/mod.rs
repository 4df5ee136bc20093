//! A made-up network and a browser.
#![allow(dead_code, reason = "each test file uses a part of this")]

pub(crate) mod browser;
pub(crate) mod made_up;
