/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * SipHash-2-4: a 64-bit message authentication tag under a 128-bit key.
 *
 * Feedback sets rates at other hosts. The kernel verifies each feedback packet, so the tag must
 * cost no more than a packet. HMAC-SHA-256, which authenticates the brokers' datagrams, takes
 * microseconds. SipHash is designed for short messages, and the kernel itself uses it against
 * forged input. It consists of 64-bit additions, rotations and exclusive ors, which are the same
 * in BPF and natively.
 *
 * A forger needs 2^63 attempts on average. At 10^6 packets/s this takes 290,000 years, and each
 * wrong tag is counted.
 *
 * Messages are whole 64-bit words as they are in memory. SipHash reads a word as eight bytes, least
 * significant byte first, whatever the byte order of the host.
 *
 * Worked example: key bytes 00 .. 0f, message bytes 00 .. 07: 0x93f5f5799a932462
 * (the authors' test vectors).
 *
 * Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012,
 * section 2 and appendix A.
 */
#ifndef WEIR_SIPHASH_H
#define WEIR_SIPHASH_H

#include "types.h"

struct weir_sip_key {
	u64 first;  /* bytes 0 to 7 of the key, little-endian */
	u64 second; /* bytes 8 to 15 */
};

struct weir_sip {
	u64 v0, v1, v2, v3;
};

WEIR_INLINE u64 weir_rotate(u64 value, u32 by)
{
	return value << by | value >> (64 - by);
}

WEIR_INLINE void weir_sip_round(struct weir_sip *sip)
{
	sip->v0 += sip->v1;
	sip->v1 = weir_rotate(sip->v1, 13) ^ sip->v0;
	sip->v0 = weir_rotate(sip->v0, 32);
	sip->v2 += sip->v3;
	sip->v3 = weir_rotate(sip->v3, 16) ^ sip->v2;
	sip->v0 += sip->v3;
	sip->v3 = weir_rotate(sip->v3, 21) ^ sip->v0;
	sip->v2 += sip->v1;
	sip->v1 = weir_rotate(sip->v1, 17) ^ sip->v2;
	sip->v2 = weir_rotate(sip->v2, 32);
}

WEIR_INLINE void weir_sip_input(struct weir_sip *sip, u64 word)
{
	sip->v3 ^= word;
	weir_sip_round(sip);
	weir_sip_round(sip);
	sip->v0 ^= word;
}

/* Converts a word in memory to the little-endian integer that SipHash processes. */
WEIR_INLINE u64 weir_sip_read(u64 word)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return __builtin_bswap64(word);
#else
	return word;
#endif
}

/* Returns the tag of `count` words, at most WEIR_SIP_WORDS_MAX. */
#define WEIR_SIP_WORDS_MAX 16
WEIR_INLINE u64 weir_siphash(const struct weir_sip_key *key, const u64 *words, u32 count)
{
	struct weir_sip sip = {
		key->first ^ 0x736f6d6570736575ULL,
		key->second ^ 0x646f72616e646f6dULL,
		key->first ^ 0x6c7967656e657261ULL,
		key->second ^ 0x7465646279746573ULL,
	};
	u32 i;

	for (i = 0; i < WEIR_SIP_WORDS_MAX; i++) {
		if (i >= count)
			break;
		weir_sip_input(&sip, weir_sip_read(words[i]));
	}
	/* the last block: no remaining bytes, and the length in bytes */
	weir_sip_input(&sip, (u64)(count * 8) << 56);
	sip.v2 ^= 0xff;
	for (i = 0; i < 4; i++)
		weir_sip_round(&sip);
	return sip.v0 ^ sip.v1 ^ sip.v2 ^ sip.v3;
}

#endif
