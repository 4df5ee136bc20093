/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Feedback sampler: the received packets that get feedback.
 *
 * Senders need their rate about once per 10 kB, slow senders at times too, and the receiver keeps
 * no state per sender. The sampler counts bytes. It selects the current packet once enough bytes
 * have arrived, or once an interval has passed. Each CPU that receives has its own sampler and
 * has its own 10 kB.
 *
 * Each threshold is drawn between 1/2 and 3/2 of its mean. Senders that are paced to the same R
 * arrive in the same order in each round: a fixed 10 kB, seven packets of 1,500 B, would always
 * select the same one of seven senders.
 *
 * In the kernel the meter runs once per T. weir_feedback_repeats() suppresses a rate that the same
 * sender received lately, for growing times. Feedback from a buffer of 64 KB takes 20 us.
 * weir_feedback_not_due() handles most packets without a clock read, which takes longer than all
 * other work of the sampler. It uses a time that is not past yet.
 *
 * Worked example: a mean of 10 kB and a draw of 2^31 give a threshold of 10 kB. After 9 kB a packet
 * of 1.5 kB arrives. It gets feedback, and 500 B count towards the next threshold.
 *
 * Bounds: `bytes` up to WEIR_FEEDBACK_BYTES_MAX and `interval` up to 10^9 keep
 * mean * draw in 64 bits.
 *
 * Source: Parley section 3.2.1 (one packet in 10 kB); EyeQ's source code (10,000 B or 100 us).
 * Deviates from the paper in: the interval (EyeQ's), drawn thresholds, suppressed repetitions.
 * Reasons: docs/design/feedback.md.
 */
#ifndef WEIR_FEEDBACK_SAMPLER_H
#define WEIR_FEEDBACK_SAMPLER_H

#include "types.h"

/* Largest mean of bytes between two feedback packets. */
#define WEIR_FEEDBACK_BYTES_MAX (1U << 28)
/* Largest mean time between two feedback packets, ns. */
#define WEIR_FEEDBACK_INTERVAL_MAX 1000000000ULL
/*
 * The time without repetition of a rate doubles up to three times, and is at most 250 ms: a quarter
 * of the time after which the receiver counts as silent.
 */
#define WEIR_ADVERTISED_BACKOFF 3
#define WEIR_ADVERTISED_HOLD_MAX 250000000ULL

struct weir_feedback_sampler {
	u64 interval;     /* mean ns between feedback packets; 0: only bytes count */
	u64 sent_at;      /* ns: the last feedback */
	u64 unsent_bytes; /* bytes since the last feedback */
	u32 bytes;        /* mean bytes between feedback packets; 0: feedback for every packet */
	u32 draw;         /* random number that selects the next threshold; the seed at first */
};

/*
 * Initializes a sampler. `bytes` and `interval` are means. Any `seed` is valid; different
 * seeds spread the feedback.
 */
WEIR_INLINE void weir_feedback_sampler_init(struct weir_feedback_sampler *sampler, u64 now, u32 bytes, u64 interval,
					    u32 seed)
{
	sampler->interval = interval < WEIR_FEEDBACK_INTERVAL_MAX ? interval : WEIR_FEEDBACK_INTERVAL_MAX;
	sampler->sent_at = now;
	sampler->unsent_bytes = 0;
	sampler->bytes = bytes < WEIR_FEEDBACK_BYTES_MAX ? bytes : WEIR_FEEDBACK_BYTES_MAX;
	sampler->draw = seed;
}

/* Returns `mean` times a factor between 1/2 and 3/2, selected by `draw`. `mean` is below 2^47. */
WEIR_INLINE u64 weir_randomized(u64 mean, u32 draw)
{
	return mean / 2 + ((mean * (draw >> 16)) >> 16);
}

/*
 * Counts a packet of `bytes` that arrives at `last` or earlier, if no feedback is
 * due by then. Returns 1 if it counted the packet. Returns 0 without counting
 * if weir_feedback_due() must decide.
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

/* Counts a packet of `bytes`. Returns 1 if feedback is due. */
WEIR_INLINE int weir_feedback_due(struct weir_feedback_sampler *sampler, u64 now, u64 bytes)
{
	u64 mean = sampler->bytes;
	u64 due = weir_randomized(mean, sampler->draw);

	/* a huge buffer counts as one buffer, not as a debt of many feedback packets */
	sampler->unsent_bytes += bytes < WEIR_FEEDBACK_BYTES_MAX ? bytes : WEIR_FEEDBACK_BYTES_MAX;
	if (sampler->unsent_bytes >= due) {
		/* the rest counts towards the next threshold, which keeps the mean */
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
	/*
	 * Knuth's "quick and dirty" generator as in Numerical Recipes; only the upper half is used
	 */
	sampler->draw = sampler->draw * 1664525 + 1013904223;
	return 1;
}

/* The last rate sent to one sender, towards one of the receiver's addresses. */
struct weir_advertised {
	u64 source[2];      /* the sender */
	u64 destination[2]; /* the receiver's address in the sender's packets */
	u64 rate;           /* bit/s */
	u64 at;             /* ns */
	u32 service;
	u32 again; /* repetitions of this rate, up to WEIR_ADVERTISED_BACKOFF */
};

/*
 * Returns the index of a sender's record among `slots`, a power of two. Senders with the same index
 * replace each other's records.
 */
WEIR_INLINE u32 weir_advertised_slot(const u64 source[2], const u64 destination[2], u32 service, u32 slots)
{
	u64 mixed = source[0] ^ source[1] * 3 ^ destination[0] * 5 ^ destination[1] * 7 ^ service;

	/*
	 * Hosts of a network differ in their last bytes, the highest here. Then Fibonacci hashing:
	 * Knuth, volume 3, section 6.4.
	 */
	mixed ^= mixed >> 32;
	return (u32)(mixed * 0x9e3779b97f4a7c15ULL >> 32) & (slots - 1);
}

/*
 * Returns 1 if this sender received this rate less than `keep` ns before `now`: feedback is
 * suppressed. The time is two, four and eight times as long after each repetition, at most
 * WEIR_ADVERTISED_HOLD_MAX. Otherwise records the rate and returns 0. `now` can be as coarse as a
 * tick. Without suppression, a sender at 36 Gb/s receives the same rate ninety times in 200 us.
 */
WEIR_INLINE int weir_feedback_repeats(struct weir_advertised *advertised, const u64 source[2],
				      const u64 destination[2], u32 service, u64 rate,
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
