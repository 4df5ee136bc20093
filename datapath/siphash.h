/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * SipHash-2-4: a tag of 64 bits over a few words, which only holders of a key of 128 bits can make.
 *
 * Problem: feedback sets the rates of other hosts, and must be checked in the kernel at the price of a packet; HMAC-SHA-256, which
 * tags rack datagrams, costs microseconds. Approach: SipHash, made for short messages, which the kernel itself uses
 * against forged input. Additions, rotations and exclusive ors of 64 bits: the same in BPF and natively.
 *
 * A tag of 64 bits is guessed once in 2^63 tries on average; at 10^6 packets a second that is 290,000 years, and each
 * wrong one is counted.
 *
 * Messages are whole words as they stand in memory; a word is read as eight bytes, the first one lowest, whatever the host's
 * order, as SipHash has it.
 *
 * Worked example: key bytes 00 .. 0f, message bytes 00 .. 07: 0x93f5f5799a932462 (the authors' vectors).
 *
 * Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012, section 2 and appendix A.
 */
#ifndef WEIR_SIPHASH_H
#define WEIR_SIPHASH_H

#include "types.h"

struct weir_sip_key {
	u64 first; /* the key's first eight bytes, the first one lowest */
	u64 second;
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

/* A word as SipHash reads it. */
WEIR_INLINE u64 weir_sip_read(u64 word)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return __builtin_bswap64(word);
#else
	return word;
#endif
}

/* The tag of `count` words, at most WEIR_SIP_WORDS_MAX. */
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
	/* the last word: no bytes left over, and the length in bytes */
	weir_sip_input(&sip, (u64)(count * 8) << 56);
	sip.v2 ^= 0xff;
	for (i = 0; i < 4; i++)
		weir_sip_round(&sip);
	return sip.v0 ^ sip.v1 ^ sip.v2 ^ sip.v3;
}

#endif
