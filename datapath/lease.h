/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Departures that are kept for the next packets of those that wait.
 *
 * Problem: all clocks of an interface are under one lock. What leaves at once needs it once for a batch (departure.h); what has to wait would
 * take it for each packet, and a service that is held to its limit has all its CPUs wait for each other. Approach: a packet that has to wait
 * charges some bytes more to all clocks that hold it: a grant, of a service towards a destination, or towards all that have no limiter of
 * their own. The next packets to the same place, on whatever CPU, take their departures from it one after the other, by one atomic
 * operation on what is left of it, until the next tick is due. Whoever finds too little left looks at the clocks: it ends the grant,
 * gives back what is left to every clock that was not at rest since (what was charged before that, time has paid), and charges
 * another one.
 *
 * How much: what was used of the last grant, and in the same tick twice as much and a packet; of each burst an eighth for all places together,
 * and no more than 1 ms carries. What places have that do not come back counts until the clock is at rest, or for 20 ms, after which nothing
 * of it is given back. Nothing beyond the horizon.
 *
 * When: the last byte of a grant leaves when the latest of its clocks has paid all before it, and the others evenly between the packet that asked
 * for it and that. A clock that is late at first and fast, and one that is early and slow, let packets leave no sooner than that.
 *
 * Order: what is left is one number, so packets to one place have their departures in the order in which they took them, as under the lock.
 * What one place gives back lies before departures of others: their next ones are put off until the last one they gave. Only where a rate
 * changes, and one would be put off for longer than 1 ms, it leaves before. What left of a CPU's batch meanwhile has no departure on it, so
 * a later packet of that CPU has none before the clock's time.
 *
 * Bounds: all is charged before it leaves, so limits hold as in limiter.h, but that what is given back lies before departures that others
 * were given after it: a window carries an eighth of a burst more. A rate that falls holds the next grant.
 *
 * Worked example: 1 Gb/s, a burst of 125 kB, packets of 1,514 B that wait. At most 14.5 kB are kept, nine packets. The first in a tick asks for
 * nothing, the second for one packet, the fourth for three, the eighth for seven, and from then on each tenth looks at the clocks. The next tick
 * begins with as many as were used of the last grant of this one.
 */
#ifndef WEIR_LEASE_H
#define WEIR_LEASE_H

#include "limiter.h"

/* Bytes of a grant, at most: two of the largest buffers. */
#define WEIR_LEASE_MAX 139264
/* ns that a grant may take, and a departure be put off to stay in order: what a burst takes. */
#define WEIR_LEASE_TIME 1000000ULL
/* ns for which a clock that is never at rest knows of grants that nobody came back to. */
#define WEIR_LEASE_AGE 20000000ULL
/* Bits from bit/s to bytes in WEIR_LEASE_TIME, by 8,192 instead of 8,000. */
#define WEIR_LEASE_RATE_BITS 13
/* Bits from nanobits of a burst to bytes of an eighth, by 8.6 * 10^9 instead of 8 * 10^9: no division. */
#define WEIR_LEASE_BITS 36

/* Of a service towards a place. All but `left` changes under the lock, while `left` is 0. */
struct weir_lease {
	u64 left;       /* bytes that are left, 2^32 times; below, how often another one began */
	u64 due;        /* ns: when the tick is due until which it holds */
	u64 end;        /* ns: when what comes after it may leave */
	u64 last;       /* ns: the last departure that a look at the clocks gave */
	u64 charged_at; /* ns */
	u32 charged;    /* bytes */
	u32 step;       /* 2^-16 ns that a byte takes */
};

/* 1: a packet of `bytes` is in the grant, and leaves at `departure`. */
WEIR_INLINE int weir_lease_take(struct weir_lease *lease, u64 due, u32 bytes, u64 *departure)
{
	u64 left = *(volatile u64 *)&lease->left;
	u64 end = *(volatile u64 *)&lease->end;
	u32 step = *(volatile u32 *)&lease->step;

	if (*(volatile u64 *)&lease->due != due || left >> 32 < bytes)
		return 0;
	/* another CPU took some, or there is another grant: under the lock, then */
	if (__sync_val_compare_and_swap(&lease->left, left, left - ((u64)bytes << 32)) != left)
		return 0;
	*departure = end - (((left >> 32) * step) >> 16);
	return 1;
}

/* Bytes that a grant is to have beside a packet of `bytes`, by what was used of the one before it, when `left` were left of that. */
WEIR_INLINE u32 weir_lease_wanted(const struct weir_lease *lease, u32 left, u64 due, u32 bytes)
{
	u32 used = lease->charged - left;

	if (lease->due == due)
		used = 2 * used + bytes;
	return used < WEIR_LEASE_MAX ? used : WEIR_LEASE_MAX;
}

/* Ends a grant: bytes that were left of it. */
WEIR_INLINE u32 weir_lease_end(struct weir_lease *lease)
{
	u64 left = *(volatile u64 *)&lease->left;

	/* nobody but who has the lock begins another one */
	return __sync_lock_test_and_set(&lease->left, (left + 1) & WEIR_U32_MAX) >> 32;
}

/* Begins what was charged. */
WEIR_INLINE void weir_lease_begin(struct weir_lease *lease)
{
	u64 left = *(volatile u64 *)&lease->left;

	__sync_lock_test_and_set(&lease->left, (u64)lease->charged << 32 | ((left + 1) & WEIR_U32_MAX));
}

/* When the next packet of a grant would have left of which `left` are left. */
WEIR_INLINE u64 weir_lease_next(const struct weir_lease *lease, u32 left)
{
	return lease->end - (((u64)left * lease->step) >> 16);
}

/* Bytes that `limiter` lets be kept. */
WEIR_INLINE u64 weir_lease_room(const struct weir_limiter *limiter)
{
	u64 part = limiter->burst >> WEIR_LEASE_BITS, in_time = limiter->rate >> WEIR_LEASE_RATE_BITS;

	if (part > in_time)
		part = in_time;
	return part > limiter->kept ? part - limiter->kept : 0;
}

/* What it lets be kept of `wanted` bytes at `now`. */
WEIR_INLINE u32 weir_lease_part(struct weir_limiter *limiter, u64 now, u32 wanted)
{
	if (!limiter->rate)
		return wanted;
	/* of places that have not come back, and nobody knows whether they will: time is to have paid it */
	if (weir_lease_room(limiter) < wanted && limiter->kept && now > limiter->rest_at && now - limiter->rest_at > WEIR_LEASE_AGE) {
		limiter->rest_at = now;
		limiter->kept = 0;
	}
	return weir_lease_room(limiter) < wanted ? (u32)weir_lease_room(limiter) : wanted;
}

/* The later of `end` and when `limiter` has paid for `bytes` more. */
WEIR_INLINE u64 weir_lease_after(const struct weir_limiter *limiter, u32 bytes, u64 end)
{
	u64 owed = limiter->owed + bytes * WEIR_NANOBITS_PER_BYTE, after;

	if (!limiter->rate || owed <= limiter->burst)
		return end;
	after = limiter->paid_at + (owed - limiter->burst) / limiter->rate + 1;
	return after > end ? after : end;
}

/* Charges a grant. */
WEIR_INLINE void weir_lease_charge(struct weir_limiter *limiter, u32 bytes)
{
	weir_limiter_charge(limiter, bytes);
	limiter->kept += bytes;
}

/* Gives back what is left of a grant, unless `limiter` was at rest since. */
WEIR_INLINE void weir_lease_return(const struct weir_lease *lease, struct weir_limiter *limiter, u32 left)
{
	if (limiter->rest_at > lease->charged_at)
		return;
	weir_limiter_refund(limiter, left);
	limiter->kept = limiter->kept > lease->charged ? limiter->kept - lease->charged : 0;
}

/* The later of `at` and when `limiter` was last looked at: the time of a tick may lie before that. */
WEIR_INLINE u64 weir_lease_later(const struct weir_limiter *limiter, u64 at)
{
	return limiter->paid_at > at ? limiter->paid_at : at;
}

#endif
