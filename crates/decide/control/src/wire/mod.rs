//! Wire format of the brokers' messages: encode and decode only.
//!
//! | module | holds |
//! |---|---|
//! | [`datagram`] | the datagrams within a rack, and between racks and the fabric broker |
//! | [`key`] | the shared keys and the tag of a datagram |
//! | `rows` | the rows of a datagram: a service and two rates |
//! | `varint` | integers of variable length |

pub mod datagram;
pub mod key;
#[cfg(test)]
mod missed_steps;
mod rows;
mod varint;

pub use datagram::{DecodeError, Message, decode, encode};
pub use key::{FeedbackSecret, KEYS_MAX, Key, KeyError, Keys};
pub use rows::rows_fit;
