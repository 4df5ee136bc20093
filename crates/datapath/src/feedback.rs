//! [`Feedback`]: a receive meter's rate on the wire.
//!
//! The format, its tag and its order are in `datapath/feedback.h`; the kernel's programs make and check it. This is
//! for tests, captures and tools.
//!
//! Worked example: `feedback.body(source, destination, &key)` gives 56 bytes, of which [`Feedback::read`] with the same addresses and key
//! gives the same feedback, and with any other none.

use crate::layout::{FEEDBACK_GOOD, FEEDBACK_WORDS, Packet, RawFeedback, RawSipKey, native};
use std::fmt;

/// Bytes of a feedback packet behind its UDP header.
pub const FEEDBACK_BYTES: usize = FEEDBACK_WORDS * 8;

/// An address as packets have it: on the wire, IPv4 as `::ffff:a.b.c.d`.
pub type Address = [u64; 2];

/// A key of SipHash-2-4. It is not printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SipKey(pub(crate) RawSipKey);

impl SipKey {
    /// From its 16 bytes.
    pub fn new(bytes: [u8; 16]) -> Self {
        let half = |from: usize| {
            let half: [u8; 8] = bytes[from..from + 8].try_into().expect("eight of sixteen bytes");
            u64::from_le_bytes(half)
        };
        Self(RawSipKey { first: half(0), second: half(8) })
    }

    /// As the kernel's programs take it.
    pub fn raw(&self) -> RawSipKey {
        self.0
    }

    /// The tag of at most 16 words, as they stand in memory.
    ///
    /// # Panics
    /// With more words.
    pub fn tag(&self, words: &[u64]) -> u64 {
        assert!(words.len() <= 16, "{} words", words.len());
        // SAFETY: reads as many words as it is told that there are.
        unsafe { native::weir_native_siphash(&self.0, words.as_ptr(), words.len() as u32) }
    }
}

impl fmt::Debug for SipKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SipKey(secret)")
    }
}

/// The content of a feedback packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feedback(pub RawFeedback);

impl Feedback {
    /// The body of the datagram that `source`, who answers, sends to `destination`.
    pub fn body(&self, source: &Address, destination: &Address, key: &SipKey) -> [u8; FEEDBACK_BYTES] {
        let mut words = [0; FEEDBACK_WORDS];
        native::weir_native_feedback_write(&mut words, &self.0, source, destination, &key.0);
        bytes(words)
    }

    /// The body of the word that `source`, who obeys this feedback, gives to `destination`.
    pub fn word(&self, source: &Address, destination: &Address, key: &SipKey) -> [u8; FEEDBACK_BYTES] {
        let mut words = [0; FEEDBACK_WORDS];
        native::weir_native_ecn_capability_write(&mut words, &self.0, source, destination, &key.0);
        bytes(words)
    }

    /// The content of a body that came from `source` to `destination`; `None` for what is no feedback of this version, or whose tag does not
    /// verify.
    pub fn read(body: &[u8], source: &Address, destination: &Address, key: &SipKey) -> Option<Self> {
        let words = words(body)?;
        if native::weir_native_control_kind(words[0]) != FEEDBACK_GOOD {
            return None;
        }
        let mut raw = RawFeedback::default();
        let genuine = native::weir_native_feedback_read(&words, source, destination, &key.0, &mut raw) != 0;
        genuine.then_some(Self(raw))
    }

    /// The packet that was answered, as its sender classifies it; `answer` is the parsed feedback packet.
    pub fn answered(&self, answer: &Packet) -> Packet {
        let mut answered = Packet::default();
        native::weir_native_feedback_answered(&self.0, answer, &mut answered);
        answered
    }

    /// Whether this is newer than what came last of the same destination, by (epoch, sequence).
    pub fn is_newer(&self, last: (u64, u64)) -> bool {
        native::weir_native_feedback_newer(self.0.epoch, self.0.sequence, last.0, last.1) != 0
    }
}

fn bytes(words: [u64; FEEDBACK_WORDS]) -> [u8; FEEDBACK_BYTES] {
    let mut bytes = [0; FEEDBACK_BYTES];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

fn words(body: &[u8]) -> Option<[u64; FEEDBACK_WORDS]> {
    let body: &[u8; FEEDBACK_BYTES] = body.try_into().ok()?;
    let mut words = [0; FEEDBACK_WORDS];
    for (word, chunk) in words.iter_mut().zip(body.chunks_exact(8)) {
        *word = u64::from_ne_bytes(chunk.try_into().expect("chunks of eight"));
    }
    Some(words)
}

/// The IP and UDP headers of an answer over IPv4.
pub fn headers_ipv4(source: &Address, destination: &Address) -> [u8; 28] {
    let mut headers = [0; 28];
    native::weir_native_feedback_ipv4(&mut headers, source, destination);
    headers
}

/// The IP and UDP headers of an answer over IPv6.
///
/// # Panics
/// If the body has another length than [`FEEDBACK_BYTES`].
pub fn headers_ipv6(source: &Address, destination: &Address, body: &[u8]) -> [u8; 48] {
    let mut headers = [0; 48];
    native::weir_native_feedback_ipv6(&mut headers, source, destination, &words(body).expect("a body"));
    headers
}
