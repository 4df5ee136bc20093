//! Integers in as few bytes as they need (LEB128): seven bits to a byte, low bits first, the top bit set on
//! all but the last byte. A 10 Gb/s rate takes 5 bytes instead of 8.

/// Appends `value`.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a value off the front of `input`; `None` if it is cut off, too long, or longer than it needs to be.
pub(crate) fn take(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (i, byte) in input.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte holds the one bit that is left; a last byte of zero would spell the same value twice.
        if (i == 9 && bits > 1) || (i > 0 && *byte == 0) {
            return None;
        }
        value |= bits << (7 * i);
        if byte & 0x80 == 0 {
            *input = &input[i + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_put_is_taken(value: u64, tail: Vec<u8>) {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            bytes.extend(&tail);
            let mut input = &bytes[..];
            prop_assert_eq!(take(&mut input), Some(value));
            prop_assert_eq!(input, &tail[..]);
        }
        #[test]
        fn each_value_has_one_spelling(bytes: Vec<u8>) {
            let mut input = &bytes[..];
            if let Some(value) = take(&mut input) {
                let mut again = Vec::new();
                put(&mut again, value);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - input.len()]);
            }
        }
    }
}
