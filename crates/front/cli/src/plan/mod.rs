//! `weir plan` on the terminal and in files; [`weir_answers::plan`] computes.
//!
//! | module | does |
//! |---|---|
//! | `trace` | opens a trace; progress and interruption |
//! | `write` | writes a cap or levels into the policy's file |
//! | `print`, `page` | output for people, as a drawing |

pub(crate) mod page;
pub(crate) mod print;
pub(crate) mod trace;
pub(crate) mod write;
