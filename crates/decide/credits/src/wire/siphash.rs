//! SipHash-2-4, the function of tags that kernels verify per packet.
//!
//! Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012, section 2. The kernel's programs
//! compute it by `datapath/siphash.h`.

/// The tag of a message of whole 64-bit words under a key of 16 bytes.
pub(super) fn tag(key: &[u8; 16], message: &[u8]) -> u64 {
    debug_assert_eq!(message.len() % 8, 0, "whole words");
    let (first, second) = (word(&key[..8]), word(&key[8..]));
    let mut state = [
        first ^ 0x736f_6d65_7073_6575,
        second ^ 0x646f_7261_6e64_6f6d,
        first ^ 0x6c79_6765_6e65_7261,
        second ^ 0x7465_6462_7974_6573,
    ];
    for chunk in message.chunks_exact(8) {
        input(&mut state, word(chunk));
    }
    // The last block: no remaining bytes, and the length modulo 256.
    input(&mut state, (message.len() as u64) << 56);
    state[2] ^= 0xff;
    for _ in 0..4 {
        round(&mut state);
    }
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn input(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    round(state);
    state[0] ^= word;
}

fn round([v0, v1, v2, v3]: &mut [u64; 4]) {
    *v0 = v0.wrapping_add(*v1);
    *v1 = v1.rotate_left(13) ^ *v0;
    *v0 = v0.rotate_left(32);
    *v2 = v2.wrapping_add(*v3);
    *v3 = v3.rotate_left(16) ^ *v2;
    *v0 = v0.wrapping_add(*v3);
    *v3 = v3.rotate_left(21) ^ *v0;
    *v2 = v2.wrapping_add(*v1);
    *v1 = v1.rotate_left(17) ^ *v2;
    *v2 = v2.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_the_authors_vectors() {
        let bytes: [u8; 16] = std::array::from_fn(|byte| byte as u8);
        assert_eq!(tag(&bytes, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(tag(&bytes, &bytes[..8]), 0x93f5_f579_9a93_2462);
        assert_eq!(tag(&bytes, &bytes), 0x3f2a_cc7f_57c2_9bdb);
    }
}
