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
 * weir_answer_repeats. Any other is, as the 10 kB choose; so is this one after a while, since packets are lost, and after longer ones each
 * time: who was told three times has heard it. To make an answer of a buffer of 64 KB takes 20 us.
 *
 * Reading the clock takes longer than all the rest: weir_answer_waits says of most packets, by a time that is not past yet and costs
 * nothing, that no answer is due.
 *
 * Bounds: `bytes` up to WEIR_FEEDBACK_BYTES_MAX and `interval` up to 10^9 keep mean * draw inside 64 bits.
 *
 * Worked example: a mean of 10 kB, a draw of 2^31: due after 10 kB. 9 kB came, then a packet of 1.5 kB: it is
 * answered, and 500 B count towards the next.
 *
 * Source: Parley section 3.2.1 (one in 10 kB); EyeQ's source code (10,000 B or 100 us).
 */
#ifndef WEIR_ANSWERS_H
#define WEIR_ANSWERS_H

#include "types.h"

/* The most bytes between two answers. */
#define WEIR_FEEDBACK_BYTES_MAX (1U << 28)
/* The longest time between two answers, ns. */
#define WEIR_FEEDBACK_INTERVAL_MAX 1000000000ULL
/* The time until a rate is told again doubles so often, and is at most so long, ns: a quarter of what a sender takes for silence. */
#define WEIR_TOLD_AGAIN 3
#define WEIR_TOLD_MOST 250000000ULL

struct weir_answers {
	u64 interval;    /* ns on average between answers; 0: only bytes count */
	u64 answered_at; /* ns */
	u64 unanswered;  /* bytes since */
	u32 bytes;       /* on average between answers; 0: every packet */
	u32 draw;        /* where between half and three halves of it the next one is; the seed at first */
};

/* Nothing has come by `now`. `bytes` and `interval` are means; any `seed` will do, different ones spread the answers. */
WEIR_INLINE void weir_answers_init(struct weir_answers *answers, u64 now, u32 bytes, u64 interval, u32 seed)
{
	answers->interval = interval < WEIR_FEEDBACK_INTERVAL_MAX ? interval : WEIR_FEEDBACK_INTERVAL_MAX;
	answers->answered_at = now;
	answers->unanswered = 0;
	answers->bytes = bytes < WEIR_FEEDBACK_BYTES_MAX ? bytes : WEIR_FEEDBACK_BYTES_MAX;
	answers->draw = seed;
}

/* `mean` times the drawn number between 1/2 and 3/2; `mean` below 2^47. */
WEIR_INLINE u64 weir_drawn(u64 mean, u32 draw)
{
	return mean / 2 + ((mean * (draw >> 16)) >> 16);
}

/*
 * Counts a packet of `bytes` that comes at `last` or before, when it need not be answered. 1: so it is; 0: nothing is counted, and
 * weir_answer_due decides.
 */
WEIR_INLINE int weir_answer_waits(struct weir_answers *answers, u64 last, u64 bytes)
{
	u64 unanswered = answers->unanswered + bytes;

	if (bytes >= WEIR_FEEDBACK_BYTES_MAX || unanswered >= weir_drawn(answers->bytes, answers->draw))
		return 0;
	if (answers->interval && last >= answers->answered_at &&
	    last - answers->answered_at >= weir_drawn(answers->interval, answers->draw))
		return 0;
	answers->unanswered = unanswered;
	return 1;
}

/* Counts a packet of `bytes`. 1: it is to be answered. */
WEIR_INLINE int weir_answer_due(struct weir_answers *answers, u64 now, u64 bytes)
{
	u64 mean = answers->bytes;
	u64 due = weir_drawn(mean, answers->draw);

	/* one huge buffer counts as a buffer's worth, not as a debt of many answers */
	answers->unanswered += bytes < WEIR_FEEDBACK_BYTES_MAX ? bytes : WEIR_FEEDBACK_BYTES_MAX;
	if (answers->unanswered >= due) {
		/* what is beyond counts towards the next, so that the mean is kept */
		answers->unanswered -= due;
		if (answers->unanswered > mean)
			answers->unanswered = mean;
	} else if (answers->interval && now >= answers->answered_at &&
		   now - answers->answered_at >= weir_drawn(answers->interval, answers->draw)) {
		answers->unanswered = 0;
	} else {
		return 0;
	}
	answers->answered_at = now;
	/* Knuth's "quick and dirty" generator as in Numerical Recipes; its upper half is used */
	answers->draw = answers->draw * 1664525 + 1013904223;
	return 1;
}

/* What one sender was told last, towards one of the receiver's addresses. */
struct weir_told {
	u64 source[2];      /* the sender */
	u64 destination[2]; /* the receiver as the sender knows it */
	u64 rate;           /* bit/s */
	u64 at;             /* ns */
	u32 service;
	u32 again;          /* how often it was told this rate again, up to WEIR_TOLD_AGAIN */
};

/* The place among `places`, a power of two, of what a sender was told. Whoever else has it is forgotten. */
WEIR_INLINE u32 weir_told_place(const u64 *source, const u64 *destination, u32 service, u32 places)
{
	u64 mixed = source[0] ^ source[1] * 3 ^ destination[0] * 5 ^ destination[1] * 7 ^ service;

	/* hosts of a network differ in the last bytes, the highest here; then Fibonacci hashing: Knuth, volume 3, section 6.4 */
	mixed ^= mixed >> 32;
	return (u32)(mixed * 0x9e3779b97f4a7c15ULL >> 32) & (places - 1);
}

/*
 * 1: this sender was told this very rate less than `keep` ns before `now`, or twice, four times, eight times as long where it was told
 * again before, up to WEIR_TOLD_MOST, and is not told now; 0: it is noted. `now` may be as coarse as the meter's rounds. A sender of 36 Gb/s would be
 * told the same rate ninety times in 200 us.
 */
WEIR_INLINE int weir_answer_repeats(struct weir_told *told, const u64 *source, const u64 *destination, u32 service, u64 rate,
				    u64 now, u64 keep)
{
	int same = told->rate == rate && told->service == service && told->source[0] == source[0] &&
		   told->source[1] == source[1] && told->destination[0] == destination[0] &&
		   told->destination[1] == destination[1];

	keep <<= told->again & WEIR_TOLD_AGAIN;
	if (keep > WEIR_TOLD_MOST)
		keep = WEIR_TOLD_MOST;
	if (same && now - told->at < keep)
		return 1;
	if (!same)
		told->again = 0;
	else if (told->again < WEIR_TOLD_AGAIN)
		told->again += 1;
	told->source[0] = source[0];
	told->source[1] = source[1];
	told->destination[0] = destination[0];
	told->destination[1] = destination[1];
	told->service = service;
	told->rate = rate;
	told->at = now;
	return 0;
}

#endif
