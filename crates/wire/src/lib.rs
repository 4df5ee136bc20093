//! Bytes on the wire: parse and emit, nothing else.
//!
//! [`datagram`] holds what brokers tell each other, within a rack and between racks and the fabric broker; [`key`] the
//! shared key that tags it; `rows` and `varint` what is in it.

pub mod datagram;
pub mod key;
mod rows;
mod varint;

pub use datagram::{DecodeError, Message, decode, encode};
pub use key::{FeedbackSecret, KEYS_MAX, Key, KeyError, Keys};
pub use rows::rows_fit;
