//! Integers of variable length (LEB128): seven bits per byte, low bits first, the top bit set on
//! all but the last byte. A rate of 10 Gb/s takes 5 bytes instead of 8.

/// Appends `value`.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Removes a value from the front of `input`. Returns `None` if it is truncated, larger than 64
/// bits, or not in its shortest encoding.
pub(crate) fn take(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (i, byte) in input.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has one bit of the value. A last byte of zero is a second encoding of the
        // value.
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
        fn encoded_value_decodes_and_leaves_the_tail(value: u64, tail: Vec<u8>) {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            bytes.extend(&tail);
            let mut input = &bytes[..];
            prop_assert_eq!(take(&mut input), Some(value));
            prop_assert_eq!(input, &tail[..]);
        }
        #[test]
        fn each_value_has_one_encoding(bytes: Vec<u8>) {
            let mut input = &bytes[..];
            if let Some(value) = take(&mut input) {
                let mut again = Vec::new();
                put(&mut again, value);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - input.len()]);
            }
        }
    }
}
