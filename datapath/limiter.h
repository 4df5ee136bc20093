/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * When a packet may leave so that a service stays within its rate: the root limiter of a service.
 *
 * Problem: pace packets of 64 B to 64 KiB at 1 kb/s to 1 Tb/s, with rates that change every 200 us, in
 * integers of 64 bits, without drifting from the rate however many packets pass.
 * Approach: count what is owed to the wire in nanobits (10^-9 bit). A packet of n bytes adds n * 8 * 10^9; t
 * nanoseconds at r bit/s pay back exactly t * r. Both are whole numbers, so nothing is ever rounded away:
 * the only rounding is that of one departure to the next whole nanosecond, which is not carried over, so
 * the error is below 1 ns per packet and does not add up. A packet leaves when all before it, less the
 * burst allowance, are paid. Changing the rate settles the account at the old one first; the debt is in
 * bits, so a service that was slow does not wait out an old debt at its new speed.
 *
 * In every window of t nanoseconds the departures carry at most r * t, and the burst, and one packet (the
 * one that opens the window). Packets that find nothing owed leave at once.
 *
 * Bounds: owed is at most WEIR_OWED_MAX = 2^62 nanobits, which is 576 MB waiting; what would go beyond is not
 * counted, so whoever queues must hold less (HTB and fq hold far less). Rates up to 10^18 bit/s.
 *
 * Worked example: 1 Gb/s, no burst, packets of 1,500 B offered at 0 ns: they leave at 0, 12,000, 24,000 ns.
 * At 3 Gb/s: 0, 4,000, 8,000; with 100 B at 3 Gb/s (266.67 ns each): 0, 267, 534, 800.
 *
 * Source: EyeQ section 4.2 (transmit rate limiters), Saeed et al., Carousel, SIGCOMM 2017 (earliest
 * departure times).
 */
#ifndef WEIR_LIMITER_H
#define WEIR_LIMITER_H

#include "types.h"

#define WEIR_NANOBITS_PER_BYTE 8000000000ULL
#define WEIR_OWED_MAX (1ULL << 62)
/* The largest packet or burst that is counted; 256 MiB is 2.1 * 10^18 nanobits, well inside 2^62. */
#define WEIR_CHARGE_MAX (1U << 28)
/* The largest rate: with it, (WEIR_OWED_MAX + rate) stays below 2^63. */
#define WEIR_RATE_MAX 1000000000000000000ULL

struct weir_limiter {
	u64 rate;   /* bit/s; 0 is unlimited */
	u64 burst;  /* nanobits that may leave ahead of the rate */
	u64 owed;   /* nanobits not yet paid at `paid_at`, the burst included; at most WEIR_OWED_MAX */
	u64 paid_at;  /* ns */
	u64 drain_ns; /* so much time pays WEIR_OWED_MAX at `rate`: keeps elapsed * rate inside 64 bits */
	u64 rest_at;  /* ns: when it was last found to owe nothing; what was charged before is paid */
	u32 kept;     /* bytes of grants that were charged since (lease.h) */
	u32 reserved;
};

/* Pays for the time until `now`. A clock that goes back (two CPUs) pays nothing. */
WEIR_INLINE void weir_limiter_settle(struct weir_limiter *limiter, u64 now)
{
	u64 elapsed, paid;

	if (now <= limiter->paid_at)
		return;
	elapsed = now - limiter->paid_at;
	limiter->paid_at = now;
	paid = elapsed < limiter->drain_ns ? elapsed * limiter->rate : WEIR_OWED_MAX;
	if (limiter->owed > paid) {
		limiter->owed -= paid;
		return;
	}
	limiter->owed = 0;
	limiter->rest_at = now;
	limiter->kept = 0;
}

/* From `now` on the rate is `rate` bit/s; 0 is unlimited and forgets what is owed. */
WEIR_INLINE void weir_limiter_set_rate(struct weir_limiter *limiter, u64 now, u64 rate)
{
	weir_limiter_settle(limiter, now);
	if (rate > WEIR_RATE_MAX)
		rate = WEIR_RATE_MAX;
	limiter->rate = rate;
	limiter->drain_ns = rate ? WEIR_OWED_MAX / rate + 1 : 0;
	if (!rate) {
		limiter->owed = 0;
		limiter->rest_at = limiter->paid_at;
		limiter->kept = 0;
	}
}

/* From now on `bytes` may leave ahead of the rate after a pause; at most WEIR_CHARGE_MAX. */
WEIR_INLINE void weir_limiter_set_burst(struct weir_limiter *limiter, u32 bytes)
{
	if (bytes > WEIR_CHARGE_MAX)
		bytes = WEIR_CHARGE_MAX;
	limiter->burst = bytes * WEIR_NANOBITS_PER_BYTE;
}

/* When a packet offered now would leave; charges nothing. */
WEIR_INLINE u64 weir_limiter_earliest(struct weir_limiter *limiter, u64 now)
{
	u64 ahead, departure;

	weir_limiter_settle(limiter, now);
	if (!limiter->rate || limiter->owed <= limiter->burst)
		return now;
	ahead = limiter->owed - limiter->burst;
	/* paid_at is now, or later when the clock went back; the sum stays far from 2^64 for 1 kb/s and above */
	departure = limiter->paid_at + (ahead - 1) / limiter->rate + 1;
	return departure > now ? departure : now;
}

/* Charges a packet of `bytes` to a limiter that was settled at the time when it is offered. */
WEIR_INLINE void weir_limiter_charge(struct weir_limiter *limiter, u32 bytes)
{
	if (!limiter->rate)
		return;
	if (bytes > WEIR_CHARGE_MAX)
		bytes = WEIR_CHARGE_MAX;
	limiter->owed += bytes * WEIR_NANOBITS_PER_BYTE;
	if (limiter->owed > WEIR_OWED_MAX)
		limiter->owed = WEIR_OWED_MAX;
}

/* Takes back a charge of `bytes` since which it was not at rest. */
WEIR_INLINE void weir_limiter_refund(struct weir_limiter *limiter, u32 bytes)
{
	u64 charged = bytes * WEIR_NANOBITS_PER_BYTE;

	limiter->owed = limiter->owed > charged ? limiter->owed - charged : 0;
}

/*
 * When a packet of `bytes` offered at `now` leaves: never before `now`, and never before an earlier packet
 * unless the rate rose in between (then old packets keep the late times that they were given: queue behind
 * the limiter, or bound how far ahead times may lie).
 */
WEIR_INLINE u64 weir_limiter_departure(struct weir_limiter *limiter, u64 now, u32 bytes)
{
	u64 departure = weir_limiter_earliest(limiter, now);

	weir_limiter_charge(limiter, bytes);
	return departure;
}

#endif
