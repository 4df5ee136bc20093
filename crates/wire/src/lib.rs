//! Bytes on the wire: parse and emit, nothing else.
//!
//! [`rack`] holds the rack datagram, in which machines of a rack tell each other their usage; [`key`] the
//! shared key that tags it; [`varint`] the integers in it.

pub mod key;
pub mod rack;
mod varint;

pub use key::{Key, KeyError};
pub use rack::{DecodeError, decode, encode};
