//! Shared keys of a deployment.
//!
//! Each rack datagram carries a tag, which requires the key: HMAC-SHA-256 (RFC 2104), truncated to
//! 128 bits as in RFC 4868. Without the key file a datagram can be neither forged nor altered.
//!
//! Problem: during the replacement of a key, any two machines must accept each other's datagrams.
//! Approach: a machine has several [`Keys`]. The first one signs, and all of them verify.
//!
//! Worked example: all machines have `old`. They are changed one by one to `old, new`, and still
//! sign with `old`. Then they are changed to `new, old`, and finally to `new`. At each time any two
//! machines verify each other's tags.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use weir_credits::wire::CreditKey;

/// Bytes of a tag.
pub const TAG_LEN: usize = 16;

/// A secret of 32 bytes. It is not printed.
#[derive(Clone)]
pub struct Key([u8; 32]);

/// The key of feedback, derived from a [`Key`]. It is not printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FeedbackSecret {
    /// Identifies the key on the wire. Two keys have the same number with probability 1/65,536.
    pub number: u16,
    /// The key of SipHash.
    pub bytes: [u8; 16],
}

/// The maximum number of keys: `WEIR_KEYS` of `datapath/host/tables.h`, with which the kernel verifies
/// feedback.
pub const KEYS_MAX: usize = 4;

/// The keys of a machine, [`KEYS_MAX`] at most: the first signs, all verify. They are not printed.
#[derive(Debug, Clone)]
pub struct Keys(Vec<Key>);

impl Keys {
    /// Keys in order, the signing key first. Two keys must not be equal or have the same number.
    pub fn new(keys: Vec<Key>) -> Result<Self, KeyError> {
        if keys.is_empty() {
            return Err(KeyError::None);
        }
        if keys.len() > KEYS_MAX {
            return Err(KeyError::TooMany(keys.len()));
        }
        let mut numbers: Vec<u16> = keys.iter().map(|key| key.feedback().number).collect();
        numbers.sort_unstable();
        if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(KeyError::Alike);
        }
        Ok(Self(keys))
    }

    /// Reads keys from a text with one key per line. Empty lines and lines that start with `#` are
    /// ignored. An error has the number of its line, counted from 1, if it concerns a line.
    pub fn from_text(text: &str) -> Result<Self, (Option<usize>, KeyError)> {
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let key = |(number, line)| Key::from_hex(line).map_err(|error| (Some(number), error));
        let keys = lines.map(key).collect::<Result<_, _>>()?;
        Self::new(keys).map_err(|error| (None, error))
    }

    /// The key that signs.
    pub fn signing(&self) -> &Key {
        &self.0[0]
    }

    /// All keys, the signing key first.
    pub fn all(&self) -> &[Key] {
        &self.0
    }
}

impl AsRef<[Key]> for Keys {
    fn as_ref(&self) -> &[Key] {
        &self.0
    }
}

impl AsRef<[Key]> for Key {
    fn as_ref(&self) -> &[Key] {
        std::slice::from_ref(self)
    }
}

impl fmt::Debug for FeedbackSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FeedbackSecret({:#06x})", self.number)
    }
}

/// Why a text does not hold valid keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is not 64 hexadecimal digits.
    #[error("a key is 64 hexadecimal digits (32 bytes)")]
    NotHex,
    /// All bytes are zero: a placeholder, not a secret.
    #[error("a key must not be all zeros")]
    Zero,
    /// The text has no key.
    #[error("it has no key")]
    None,
    /// More than [`KEYS_MAX`] keys.
    #[error("{0} keys, but a machine has {KEYS_MAX} at most")]
    TooMany(usize),
    /// Two keys are equal, or have the same feedback number (probability 1/65,536).
    #[error("two keys are equal or have the same feedback number")]
    Alike,
}

impl Key {
    /// A key from its bytes.
    pub fn new(bytes: [u8; 32]) -> Result<Self, KeyError> {
        if bytes == [0; 32] { Err(KeyError::Zero) } else { Ok(Self(bytes)) }
    }

    /// A key from 64 hexadecimal digits. Surrounding whitespace is ignored.
    pub fn from_hex(text: &str) -> Result<Self, KeyError> {
        let text = text.trim().as_bytes();
        if text.len() != 64 {
            return Err(KeyError::NotHex);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            let digit = |c: u8| (c as char).to_digit(16).ok_or(KeyError::NotHex);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Self::new(bytes)
    }

    /// The key that signs feedback, and its number on the wire. It is derived from this key,
    /// because the kernel holds it: disclosure of the derived key does not permit forging rack
    /// datagrams.
    pub fn feedback(&self) -> FeedbackSecret {
        let derived = |purpose: &str| self.mac(purpose.as_bytes()).finalize().into_bytes();
        let (key, number) = (derived("weir feedback key 1"), derived("weir feedback number 1"));
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&key[..16]);
        FeedbackSecret { number: u16::from_be_bytes([number[0], number[1]]), bytes }
    }

    /// The key of PACE's messages, which hosts and forwarders hold. Its number on the wire is that of feedback, since
    /// no two [`Keys`] have the same.
    pub fn credits(&self) -> CreditKey {
        let derived = self.mac(b"weir credit key 1").finalize().into_bytes();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&derived[..16]);
        CreditKey { number: self.feedback().number, bytes }
    }

    /// The tag of a message.
    pub(crate) fn tag(&self, message: &[u8]) -> [u8; TAG_LEN] {
        let full = self.mac(message).finalize().into_bytes();
        let mut tag = [0; TAG_LEN];
        tag.copy_from_slice(&full[..TAG_LEN]);
        tag
    }

    /// Whether `tag` is the tag of `message`. The comparison takes constant time.
    pub(crate) fn verify(&self, message: &[u8], tag: &[u8]) -> bool {
        tag.len() == TAG_LEN && self.mac(message).verify_truncated_left(tag).is_ok()
    }

    fn mac(&self, message: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(message);
        mac
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_read_from_64_hex_digits() {
        let text = format!(" {}\n", "0a".repeat(32));
        assert_eq!(Key::from_hex(&text).expect("a key").0, [10; 32]);
        for bad in ["", "0a", &"zz".repeat(32), &"0a".repeat(33)] {
            assert_eq!(Key::from_hex(bad).expect_err(bad), KeyError::NotHex);
        }
        assert_eq!(Key::from_hex(&"00".repeat(32)).expect_err("zeros"), KeyError::Zero);
    }

    #[test]
    fn keys_are_read_in_order_with_line_numbers_in_errors() {
        let line = |byte: u8| format!("{byte:02x}").repeat(32);
        let text = format!("# the new one\n{}\n\n  {}\n", line(7), line(8));
        let keys = Keys::from_text(&text).expect("two keys");
        assert_eq!((keys.signing().0, keys.all().len()), ([7; 32], 2));
        let refused = |text: &str| Keys::from_text(text).expect_err(text);
        assert_eq!(refused("# nothing\n"), (None, KeyError::None));
        assert_eq!(refused(&format!("{}\nzz\n", line(7))), (Some(2), KeyError::NotHex));
        assert_eq!(refused(&format!("{0}\n{0}\n", line(7))), (None, KeyError::Alike));
        let five: Vec<String> = (1..=5).map(line).collect();
        assert_eq!(refused(&five.join("\n")), (None, KeyError::TooMany(5)));
    }

    #[test]
    fn tag_matches_rfc_4231_test_case_1() {
        // RFC 4231, test case 1 has a key of 20 bytes; HMAC pads keys with zeros to the block, so
        // 32 bytes with 12 zeros at the end give the same tag.
        let mut bytes = [0; 32];
        bytes[..20].fill(0x0b);
        let tag = Key::new(bytes).expect("a key").tag(b"Hi There");
        assert_eq!(
            tag,
            [0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf, 0xce, 0xaf, 0x0b, 0xf1, 0x2b]
        );
    }

    #[test]
    fn feedback_uses_a_derived_key() {
        let of = |byte| Key::new([byte; 32]).expect("a key").feedback();
        assert_eq!(of(7), of(7));
        assert!(of(7).bytes != of(8).bytes && of(7).number != of(8).number);
        assert_ne!(of(7).bytes, [7; 16]);
        assert!(!format!("{:?}", of(7)).contains(&format!("{:?}", of(7).bytes)));
    }

    #[test]
    fn credits_use_another_derived_key() {
        let key = Key::new([7; 32]).expect("a key");
        assert_eq!((key.credits(), key.credits().number), (key.credits(), key.feedback().number));
        assert!(key.credits().bytes != key.feedback().bytes && key.credits().bytes != [7; 16]);
    }

    #[test]
    fn debug_output_hides_the_key() {
        let key = Key::new([7; 32]).expect("a key");
        assert_eq!(format!("{key:?}"), "Key(secret)");
    }
}
