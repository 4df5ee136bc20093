/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * How the clocks of an interface are set, and what waits for too long by one of them.
 *
 * Each clock is a limiter (limiter.h) whose burst follows from its rate. A packet that would wait for longer than the horizon is refused,
 * unless little waits before it (departure.h says why).
 *
 * Worked example: 1 Gb/s, a horizon of 20 ms. The burst is 125 kB, and the first packet that is refused has 125 kB + 2.5 MB before it.
 *
 * Source: Saeed et al., Carousel, SIGCOMM 2017 (the horizon).
 */
#ifndef WEIR_PACING_H
#define WEIR_PACING_H

#include "limiter.h"

/* Bytes that a rate carries in 1 ms, from bit/s: what may leave at once after a pause, at least (crates/linux/src/class.rs). */
#define WEIR_BURST_PART 8000

/* How an interface is paced. */
struct weir_pacing {
	u64 rate;    /* bit/s of the interface; 0 is unlimited */
	u64 horizon; /* ns that a packet may wait */
	u32 queue;   /* bytes that may wait for longer */
	u32 burst;   /* bytes that may leave at once after a pause, at least */
	u32 sharing; /* WEIR_SHARE_* */
	u32 reserved;
};

/* Gives a clock its rate, where that is another than it has. */
WEIR_INLINE void weir_pacing_set(const struct weir_pacing *pacing, struct weir_limiter *limiter, u64 now, u64 rate)
{
	u64 burst = rate / WEIR_BURST_PART;

	if (limiter->rate == rate)
		return;
	if (burst < pacing->burst)
		burst = pacing->burst;
	if (burst > WEIR_CHARGE_MAX)
		burst = WEIR_CHARGE_MAX;
	weir_limiter_set_rate(limiter, now, rate);
	weir_limiter_set_burst(limiter, (u32)burst);
}

/* 1: a packet that `limiter` lets leave at `departure` is beyond the horizon. */
WEIR_INLINE int weir_pacing_beyond(const struct weir_pacing *pacing, const struct weir_limiter *limiter, u64 now, u64 departure)
{
	if (departure <= now || departure - now <= pacing->horizon)
		return 0;
	return limiter->owed > limiter->burst && limiter->owed - limiter->burst > pacing->queue * WEIR_NANOBITS_PER_BYTE;
}

/*
 * A packet of `bytes`, offered at `now`, passes a limiter of its own before all others, a destination's. 0, and when it leaves by that;
 * or 1: never.
 */
WEIR_INLINE int weir_pacing_pass(const struct weir_pacing *pacing, struct weir_limiter *limiter, u64 now, u32 bytes, u64 *departure)
{
	*departure = weir_limiter_earliest(limiter, now);
	if (weir_pacing_beyond(pacing, limiter, now, *departure))
		return 1;
	weir_limiter_charge(limiter, bytes);
	return 0;
}

#endif
