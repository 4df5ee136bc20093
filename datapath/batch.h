/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Packets of one CPU for which the clocks of an interface are looked at once.
 *
 * Problem: all clocks of an interface are under one lock, since any CPU may send for any service. Taking it costs as much as all the rest of
 * a departure, and CPUs wait for each other. Approach: with a packet a CPU charges some bytes ahead to all clocks that hold it, and its next
 * packets of the same service and destination use them without a look, until the next tick is due. Where the first one left at once, they do;
 * where it had to wait, each leaves after the one before it, by the rate of the slowest clock that waits. What was not used is given
 * back at the CPU's next look.
 *
 * How much: what the CPU used of its last batch, and in the same tick twice as much and a packet; of each burst an eighth for all CPUs together, so
 * that others do not wait for long for nothing. Nothing beyond the horizon, and where packets leave at once no more than may. What is given back
 * was charged to a clock that was not at rest since: otherwise time has paid it.
 *
 * Order: no departure is before another one that the same CPU gave, although what waited behind a clock may be faster than the slowest one, and
 * other CPUs give back what theirs were behind: fq would have a flow out of order. Only where a rate rises, and a packet would be put off for more
 * than a burst's time, it leaves before.
 *
 * Bounds: all is charged before it leaves, so limits hold as in limiter.h, but for two things. What a CPU gives back lies before departures that
 * others were given after it: a window carries an eighth of a burst more. And it carries what the rate does between two ticks where the
 * last one's time stands for the clock's (weir_departure_lately).
 *
 * Worked example: 1 Gb/s, a burst of 125 kB, packets of 1,514 B that wait. At most 14.5 kB are kept, nine packets. The first in a tick keeps
 * nothing, the second one packet, the fourth three, the eighth seven, and from then on each tenth looks at the clocks. The next tick
 * begins with as many as were used of the last batch of this one.
 */
#ifndef WEIR_BATCH_H
#define WEIR_BATCH_H

#include "pacing.h"

/* Bytes that are charged ahead at most: two of the largest buffers. */
#define WEIR_BATCH_MAX 131072
/* bit/s of the slowest clock behind which something is kept: below, packets are few, and what is kept takes long. */
#define WEIR_BATCH_SLOWEST 100000000ULL
/* ns by which a departure is put off at most so that packets stay in order: more than what all CPUs keep takes, a burst's time. */
#define WEIR_BATCH_ORDER 1000000ULL
/* Bits from nanobits of a burst to bytes of an eighth, by 8.6 * 10^9 instead of 8 * 10^9: no division. */
#define WEIR_BATCH_BITS 36
/* No destination. */
#define WEIR_NOWHERE WEIR_U32_MAX

/* How a packet passes in its CPU's batch. */
#define WEIR_PASSES_NOT 0
#define WEIR_PASSES_AT_ONCE 1
#define WEIR_PASSES_LATER 2

/* A CPU's batch of a service. */
struct weir_batch {
	u64 due;     /* ns: when the tick is due until which it holds */
	u64 at;      /* ns: the departure of its next packet; 0: at once */
	u64 last;    /* ns: the last departure that the CPU gave */
	u64 charged_at; /* ns */
	u32 granted; /* bytes charged ahead; they leave as entitled */
	u32 ahead;   /* of them, those that are not used */
	u32 step;    /* 2^-16 ns that a byte takes */
	u32 place;   /* the destination's slot, or WEIR_NOWHERE */
};

/* Whether a packet to `place` is in its CPU's batch: WEIR_PASSES_*, with its departure where that is later. */
WEIR_INLINE int weir_batch_pass(struct weir_batch *batch, u64 due, u32 place, u32 bytes, u64 *departure)
{
	if (batch->due != due || batch->place != place || batch->ahead < bytes)
		return WEIR_PASSES_NOT;
	batch->ahead -= bytes;
	if (!batch->at)
		return WEIR_PASSES_AT_ONCE;
	*departure = batch->at;
	batch->last = batch->at;
	batch->at += ((u64)bytes * batch->step) >> 16;
	return WEIR_PASSES_LATER;
}

/*
 * 1: the clock says nothing new of a packet: it leaves at once whatever the time is, or later than `then` in any case and by half of the horizon
 * at most. Its departure is the same at whatever time before that what is owed was last paid. What is near the horizon is refused by what time it is, and a
 * tick may be late. The batch may give back what is ahead.
 */
WEIR_INLINE int weir_batch_is_clear(const struct weir_batch *batch, const struct weir_limiter *limiter, u64 then, u64 horizon)
{
	u64 least = limiter->burst + batch->ahead * WEIR_NANOBITS_PER_BYTE;
	u64 elapsed = then > limiter->paid_at ? then - limiter->paid_at : 0;
	u64 latest = then + horizon / 2, most;

	if (!limiter->rate || limiter->owed <= limiter->burst)
		return 1;
	/* another packet looked at the clock, and ticks are late */
	if (latest <= limiter->paid_at)
		return 0;
	most = latest - limiter->paid_at;
	return most < limiter->drain_ns && limiter->owed > least && limiter->owed - least > elapsed * limiter->rate &&
	       limiter->owed - limiter->burst < most * limiter->rate;
}

/* What `limiter` lets be charged ahead of `wanted` bytes until the tick that is due at `due`. */
WEIR_INLINE u32 weir_batch_part(const struct weir_limiter *limiter, u64 due, u32 wanted)
{
	u64 part = limiter->burst >> WEIR_BATCH_BITS;
	u32 kept = limiter->kept_due == due ? limiter->kept : 0;

	if (!limiter->rate)
		return wanted;
	part = part > kept ? part - kept : 0;
	return part < wanted ? (u32)part : wanted;
}

/* Charges a batch, which is kept until then. */
WEIR_INLINE void weir_batch_keep(struct weir_limiter *limiter, u64 due, u32 bytes)
{
	weir_limiter_charge(limiter, bytes);
	if (limiter->kept_due != due)
		limiter->kept = 0;
	limiter->kept_due = due;
	limiter->kept += bytes;
}

/* The batch that was charged ends: what was not used is given back. */
WEIR_INLINE void weir_batch_return(const struct weir_batch *batch, struct weir_limiter *limiter)
{
	weir_limiter_refund(limiter, batch->charged_at, batch->ahead);
	if (limiter->kept_due == batch->due)
		limiter->kept = limiter->kept > batch->granted ? limiter->kept - batch->granted : 0;
}

/* The later of `at` and when `limiter` was last looked at: the time of a tick may lie before that. */
WEIR_INLINE u64 weir_batch_later(const struct weir_limiter *limiter, u64 at)
{
	return limiter->paid_at > at ? limiter->paid_at : at;
}

/* 1: `bytes` more may leave at once. */
WEIR_INLINE int weir_batch_fits(const struct weir_limiter *limiter, u32 bytes)
{
	return !limiter->rate || limiter->owed + bytes * WEIR_NANOBITS_PER_BYTE <= limiter->burst;
}

/* The slower of `rate` and what `limiter` has packets wait by. */
WEIR_INLINE u64 weir_batch_slower(const struct weir_limiter *limiter, u64 rate)
{
	return limiter->rate && limiter->rate < rate && limiter->owed > limiter->burst ? limiter->rate : rate;
}

/* Bytes that are to be charged ahead with a packet of `bytes` to `place`, by what was used of the batch, before that ends. */
WEIR_INLINE u32 weir_batch_wanted(const struct weir_batch *batch, u64 due, u32 place, u32 bytes)
{
	u32 used = batch->granted - batch->ahead;

	if (batch->place != place)
		return 0;
	if (batch->due == due)
		used = 2 * used + bytes;
	return used < WEIR_BATCH_MAX ? used : WEIR_BATCH_MAX;
}

/* Another batch begins with a packet to `place` that leaves at `departure`, or with the one before it, if that is not much later. */
WEIR_INLINE void weir_batch_begin(struct weir_batch *batch, u64 due, u32 place, u64 *departure)
{
	if (batch->place == place && batch->last > *departure && batch->last - *departure <= WEIR_BATCH_ORDER)
		*departure = batch->last;
	batch->last = *departure;
	batch->due = due;
	batch->place = place;
}

#endif
