//! The key that the agents of a deployment share.
//!
//! Rack datagrams carry a tag that only holders of the key can make: HMAC-SHA-256 (RFC 2104), cut to 128 bits
//! as RFC 4868 does. Whoever cannot read the key file can neither speak for a machine nor alter what one said.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Bytes of a tag.
pub const TAG_LEN: usize = 16;

/// A secret of 32 bytes. It is not printed.
#[derive(Clone)]
pub struct Key([u8; 32]);

/// The derived key of feedback. It is not printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FeedbackSecret {
    /// Which key it is, on the wire; two keys have the same one time in 65,536.
    pub number: u16,
    /// The key of SipHash.
    pub bytes: [u8; 16],
}

impl fmt::Debug for FeedbackSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FeedbackSecret({:#06x})", self.number)
    }
}

/// Why a text is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is not 64 hexadecimal digits.
    #[error("a key is 64 hexadecimal digits (32 bytes)")]
    NotHex,
    /// All bytes are zero, which is a forgotten default and no secret.
    #[error("a key of zeros is no secret")]
    Zero,
}

impl Key {
    /// A key from its bytes.
    pub fn new(bytes: [u8; 32]) -> Result<Self, KeyError> {
        if bytes == [0; 32] { Err(KeyError::Zero) } else { Ok(Self(bytes)) }
    }

    /// A key from 64 hexadecimal digits, space around them allowed.
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

    /// What feedback is signed with, which the kernel checks: a key of its own, derived from this one, and the number by which
    /// receivers know it. Whoever learns the derived key can forge feedback, but no datagram.
    pub fn feedback(&self) -> FeedbackSecret {
        let derived = |purpose: &str| self.mac(purpose.as_bytes()).finalize().into_bytes();
        let (key, number) = (derived("weir feedback key 1"), derived("weir feedback number 1"));
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&key[..16]);
        FeedbackSecret { number: u16::from_be_bytes([number[0], number[1]]), bytes }
    }

    /// The tag of a message.
    pub(crate) fn tag(&self, message: &[u8]) -> [u8; TAG_LEN] {
        let full = self.mac(message).finalize().into_bytes();
        let mut tag = [0; TAG_LEN];
        tag.copy_from_slice(&full[..TAG_LEN]);
        tag
    }

    /// Whether `tag` is the message's, in a time that does not tell where they differ.
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
    fn reads_64_digits() {
        let text = format!(" {}\n", "0a".repeat(32));
        assert_eq!(Key::from_hex(&text).expect("a key").0, [10; 32]);
        for bad in ["", "0a", &"zz".repeat(32), &"0a".repeat(33)] {
            assert_eq!(Key::from_hex(bad).expect_err(bad), KeyError::NotHex);
        }
        assert_eq!(Key::from_hex(&"00".repeat(32)).expect_err("zeros"), KeyError::Zero);
    }

    #[test]
    fn the_tag_is_hmac_sha_256() {
        // RFC 4231, test case 1 has a key of 20 bytes; HMAC pads keys with zeros to the block, so 32 bytes
        // with 12 zeros at the end give the same tag.
        let mut bytes = [0; 32];
        bytes[..20].fill(0x0b);
        let tag = Key::new(bytes).expect("a key").tag(b"Hi There");
        assert_eq!(
            tag,
            [0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf, 0xce, 0xaf, 0x0b, 0xf1, 0x2b]
        );
    }

    #[test]
    fn feedback_has_a_key_of_its_own() {
        let of = |byte| Key::new([byte; 32]).expect("a key").feedback();
        assert_eq!(of(7), of(7));
        assert!(of(7).bytes != of(8).bytes && of(7).number != of(8).number);
        assert_ne!(of(7).bytes, [7; 16]);
        assert!(!format!("{:?}", of(7)).contains(&format!("{:?}", of(7).bytes)));
    }

    #[test]
    fn a_key_is_not_printed() {
        let key = Key::new([7; 32]).expect("a key");
        assert_eq!(format!("{key:?}"), "Key(secret)");
    }
}
