//! `weir top`: machines and services as they are now.
//!
//! | module | does |
//! |---|---|
//! | `rows` | the shown rows of a view, sorted and filtered |
//! | `credit_rows` | the shown ports and flows with credits |
//! | `bar` | usage against guarantee and limit in a few characters |
//! | `state` | the state that keys change |
//! | `screen` | a screen of it |
//! | `plain` | tables and JSON, once |

pub(crate) mod bar;
mod credit_rows;
pub(crate) mod plain;
pub(crate) mod rows;
pub(crate) mod screen;
pub(crate) mod state;

#[cfg(test)]
mod fixture;
