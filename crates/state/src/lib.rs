//! What daemons keep on disk.
//!
//! Problem: an agent and a fabric broker must both survive a crash in the middle of a write, must not write where a
//! planted link points, and must not use a secret that others can read. Approach: one place for each of the three.
//!
//! | module | does |
//! |---|---|
//! | [`epoch`] | a number that grows with every start of a broker |
//! | [`replace`] | a file that changes in one step |
//! | [`secret`] | a file that only its owner reads |

pub mod epoch;
pub mod replace;
pub mod secret;
