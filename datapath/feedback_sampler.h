/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Which of the packets that come are answered with feedback.
 *
 * Problem: senders must hear their rate about every 10 kB, those that send little at times too, and whoever counts
 * keeps no state per sender. Approach: count bytes, and answer the packet at hand once enough have come, or
 * once a while has passed. Where several CPUs receive, each has a state of its own: each answers its own 10 kB.
 *
 * Thresholds vary by a factor of 1/2 to 3/2 around their mean, drawn for each answer. Senders that are paced to
 * the same R come in the same order every round; a fixed 10 kB, seven packets of 1,500 B, would always hit the
 * same one of seven.
 *
 * The kernel's meter runs once in T, and a rate that has not changed since its sender was told need not be told again at once:
 * weir_feedback_repeats. Any other is, as the 10 kB choose; so is this one after a while, since packets are lost, and after longer ones each
 * time: who was told three times has heard it. To make an answer of a buffer of 64 KB takes 20 us.
 *
 * Reading the clock takes longer than all the rest: weir_feedback_not_due says of most packets, by a time that is not past yet and costs
 * nothing, that no answer is due.
 *
 * Bounds: `bytes` up to WEIR_FEEDBACK_BYTES_MAX and `interval` up to 10^9 keep mean * draw inside 64 bits.
 *
 * Worked example: a mean of 10 kB, a draw of 2^31: due after 10 kB. 9 kB came, then a packet of 1.5 kB: it is
 * answered, and 500 B count towards the next.
 *
 * Source: Parley section 3.2.1 (one in 10 kB); EyeQ's source code (10,000 B or 100 us).
 */
#ifndef WEIR_FEEDBACK_SAMPLER_H
#define WEIR_FEEDBACK_SAMPLER_H

#include "types.h"

/* The most bytes between two answers. */
#define WEIR_FEEDBACK_BYTES_MAX (1U << 28)
/* The longest time between two answers, ns. */
#define WEIR_FEEDBACK_INTERVAL_MAX 1000000000ULL
/* The time until a rate is told again doubles so often, and is at most so long, ns: a quarter of what a sender takes for silence. */
#define WEIR_ADVERTISED_BACKOFF 3
#define WEIR_ADVERTISED_HOLD_MAX 250000000ULL

struct weir_feedback_sampler {
	u64 interval;    /* ns on average between answers; 0: only bytes count */
	u64 sent_at; /* ns */
	u64 unsent_bytes;  /* bytes since */
	u32 bytes;       /* on average between answers; 0: every packet */
	u32 draw;        /* where between half and three halves of it the next one is; the seed at first */
};

/* Nothing has come by `now`. `bytes` and `interval` are means; any `seed` will do, different ones spread the answers. */
WEIR_INLINE void weir_feedback_sampler_init(struct weir_feedback_sampler *sampler, u64 now, u32 bytes, u64 interval, u32 seed)
{
	sampler->interval = interval < WEIR_FEEDBACK_INTERVAL_MAX ? interval : WEIR_FEEDBACK_INTERVAL_MAX;
	sampler->sent_at = now;
	sampler->unsent_bytes = 0;
	sampler->bytes = bytes < WEIR_FEEDBACK_BYTES_MAX ? bytes : WEIR_FEEDBACK_BYTES_MAX;
	sampler->draw = seed;
}

/* `mean` times the drawn number between 1/2 and 3/2; `mean` below 2^47. */
WEIR_INLINE u64 weir_randomized(u64 mean, u32 draw)
{
	return mean / 2 + ((mean * (draw >> 16)) >> 16);
}

/*
 * Counts a packet of `bytes` that comes at `last` or before, when it need not be answered. 1: so it is; 0: nothing is counted, and
 * weir_feedback_due decides.
 */
WEIR_INLINE int weir_feedback_not_due(struct weir_feedback_sampler *sampler, u64 last, u64 bytes)
{
	u64 unsent_bytes = sampler->unsent_bytes + bytes;

	if (bytes >= WEIR_FEEDBACK_BYTES_MAX || unsent_bytes >= weir_randomized(sampler->bytes, sampler->draw))
		return 0;
	if (sampler->interval && last >= sampler->sent_at &&
	    last - sampler->sent_at >= weir_randomized(sampler->interval, sampler->draw))
		return 0;
	sampler->unsent_bytes = unsent_bytes;
	return 1;
}

/* Counts a packet of `bytes`. 1: it is to be answered. */
WEIR_INLINE int weir_feedback_due(struct weir_feedback_sampler *sampler, u64 now, u64 bytes)
{
	u64 mean = sampler->bytes;
	u64 due = weir_randomized(mean, sampler->draw);

	/* one huge buffer counts as a buffer's worth, not as a debt of many answers */
	sampler->unsent_bytes += bytes < WEIR_FEEDBACK_BYTES_MAX ? bytes : WEIR_FEEDBACK_BYTES_MAX;
	if (sampler->unsent_bytes >= due) {
		/* what is beyond counts towards the next, so that the mean is kept */
		sampler->unsent_bytes -= due;
		if (sampler->unsent_bytes > mean)
			sampler->unsent_bytes = mean;
	} else if (sampler->interval && now >= sampler->sent_at &&
		   now - sampler->sent_at >= weir_randomized(sampler->interval, sampler->draw)) {
		sampler->unsent_bytes = 0;
	} else {
		return 0;
	}
	sampler->sent_at = now;
	/* Knuth's "quick and dirty" generator as in Numerical Recipes; its upper half is used */
	sampler->draw = sampler->draw * 1664525 + 1013904223;
	return 1;
}

/* What one sender was told last, towards one of the receiver's addresses. */
struct weir_advertised {
	u64 source[2];      /* the sender */
	u64 destination[2]; /* the receiver as the sender knows it */
	u64 rate;           /* bit/s */
	u64 at;             /* ns */
	u32 service;
	u32 again;          /* how often it was told this rate again, up to WEIR_ADVERTISED_BACKOFF */
};

/* The place among `places`, a power of two, of what a sender was told. Whoever else has it is forgotten. */
WEIR_INLINE u32 weir_advertised_slot(const u64 source[2], const u64 destination[2], u32 service, u32 slots)
{
	u64 mixed = source[0] ^ source[1] * 3 ^ destination[0] * 5 ^ destination[1] * 7 ^ service;

	/* hosts of a network differ in the last bytes, the highest here; then Fibonacci hashing: Knuth, volume 3, section 6.4 */
	mixed ^= mixed >> 32;
	return (u32)(mixed * 0x9e3779b97f4a7c15ULL >> 32) & (slots - 1);
}

/*
 * 1: this sender was told this very rate less than `keep` ns before `now`, or twice, four times, eight times as long where it was told
 * again before, up to WEIR_ADVERTISED_HOLD_MAX, and is not told now; 0: it is noted. `now` may be as coarse as the meter's rounds. A sender of 36 Gb/s would be
 * told the same rate ninety times in 200 us.
 */
WEIR_INLINE int weir_feedback_repeats(struct weir_advertised *advertised, const u64 source[2], const u64 destination[2], u32 service, u64 rate,
				    u64 now, u64 keep)
{
	int same = advertised->rate == rate && advertised->service == service && advertised->source[0] == source[0] &&
		   advertised->source[1] == source[1] && advertised->destination[0] == destination[0] &&
		   advertised->destination[1] == destination[1];

	keep <<= advertised->again & WEIR_ADVERTISED_BACKOFF;
	if (keep > WEIR_ADVERTISED_HOLD_MAX)
		keep = WEIR_ADVERTISED_HOLD_MAX;
	if (same && now - advertised->at < keep)
		return 1;
	if (!same)
		advertised->again = 0;
	else if (advertised->again < WEIR_ADVERTISED_BACKOFF)
		advertised->again += 1;
	advertised->source[0] = source[0];
	advertised->source[1] = source[1];
	advertised->destination[0] = destination[0];
	advertised->destination[1] = destination[1];
	advertised->service = service;
	advertised->rate = rate;
	advertised->at = now;
	return 0;
}

#endif
