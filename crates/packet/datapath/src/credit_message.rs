//! PACE's datagrams as the kernel's forwarder reads and rewrites them.
//!
//! The format is in `datapath/credit_message.h`; [`weir_credits::wire`] encodes and decodes it without C, for hosts.
//! This module serves tests, which compare the two.
//!
//! Worked example: [`write`] returns 72 bytes, from which [`read`] with the same addresses and key returns the same
//! message, and with others `None`. [`rewrite`] keeps the ones' complement sum of the bytes.

use crate::abi::{self, Allocation, CreditMessage};
use crate::feedback::{Address, SipKey};

const WORDS: usize = abi::CREDIT_MESSAGE_WORDS as usize;
/// Bytes of a datagram after its UDP header.
pub const BYTES: usize = abi::CREDIT_MESSAGE_BYTES as usize;

/// The body of the datagram of a message from `source` to `destination`.
pub fn write(message: &CreditMessage, source: &Address, destination: &Address, key: &SipKey) -> [u8; BYTES] {
    let mut words = [0; WORDS];
    abi::credit_message_write(&mut words, message, source, destination, &key.raw());
    bytes(words)
}

/// The message of a body from `source` to `destination`; `None` unless its kind is one of this version's and its tag
/// verifies.
pub fn read(body: &[u8; BYTES], source: &Address, destination: &Address, key: &SipKey) -> Option<CreditMessage> {
    let words = words(body);
    if !(abi::CREDIT_REQUEST..=abi::CREDIT_TERMINATION).contains(&abi::credit_kind(words[0])) {
        return None;
    }
    let mut message = CreditMessage::default();
    abi::credit_message_read(&words, &mut message);
    (abi::credit_message_tag(&words, source, destination, &key.raw()) == words[WORDS - 1]).then_some(message)
}

/// The tag that an authentic body ends with.
pub fn tag(body: &[u8; BYTES], source: &Address, destination: &Address, key: &SipKey) -> [u8; 8] {
    abi::credit_message_tag(&words(body), source, destination, &key.raw()).to_ne_bytes()
}

/// The kind by the first eight bytes: `abi::CREDIT_FOREIGN` to `abi::CREDIT_MALFORMED`.
pub fn kind(first: [u8; 8]) -> u32 {
    abi::credit_kind(u64::from_ne_bytes(first))
}

/// Whether the fields of a message are possible values of its kind.
pub fn is_valid(message: &CreditMessage) -> bool {
    abi::credit_message_valid(message) != 0
}

/// Replaces the fields of an allocation, as a port does, under the key of this number.
pub fn rewrite(
    body: &mut [u8; BYTES],
    fields: &Allocation,
    number: u16,
    (source, destination): (&Address, &Address),
    key: &SipKey,
) {
    let mut words = words(body);
    abi::credit_message_rewrite(&mut words, fields, number, source, destination, &key.raw());
    *body = bytes(words);
}

fn bytes(words: [u64; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes.chunks_exact_mut(8).zip(words).for_each(|(chunk, word)| chunk.copy_from_slice(&word.to_ne_bytes()));
    bytes
}

fn words(body: &[u8; BYTES]) -> [u64; WORDS] {
    std::array::from_fn(|word| u64::from_ne_bytes(body[word * 8..][..8].try_into().expect("eight bytes")))
}
