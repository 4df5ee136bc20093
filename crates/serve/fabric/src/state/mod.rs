//! State of daemons on disk.
//!
//! Problem: an agent and a fabric broker must survive a crash during a write, must not follow a
//! symbolic link that another user has planted, and must not use a secret that other users can
//! read. Approach: one module for each.
//!
//! | module | holds |
//! |---|---|
//! | [`epoch`] | a number that increases with every start of a broker |
//! | [`replace`] | atomic replacement of a file |
//! | [`secret`] | files that only their owner can read |

pub mod epoch;
pub mod replace;
pub mod secret;
