/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Rate limiter: the earliest departure time that keeps a service within its rate.
 *
 * The limiter paces packets of 64 B to 64 KiB at 1 kb/s to 1 Tb/s, with rates that change every
 * 200 us. It uses 64-bit integers and does not drift from the rate, whatever the number of packets.
 *
 * It counts the debt to the wire in nanobits (10^-9 bit). A packet of n bytes adds n * 8 * 10^9. An
 * elapsed time of t ns at r bit/s repays exactly t * r. Both are integers, so no error accumulates:
 * the only rounding is that of a departure to the next whole ns, below 1 ns per packet. A packet
 * leaves when all earlier debt, less the burst allowance, is repaid. A packet that finds no debt
 * leaves at once. A rate change first settles the debt at the old rate. The debt is in bits, so it
 * is repaid at the new rate.
 *
 * Worked example: 1 Gb/s, no burst, packets of 1,500 B offered at 0 ns leave at 0, 12,000,
 * 24,000 ns. At 3 Gb/s they leave at 0, 4,000, 8,000. Packets of 100 B at 3 Gb/s (266.67 ns each)
 * leave at 0, 267, 534, 800.
 *
 * Bounds: in every window of t ns the departures carry at most r * t, the burst, and one packet
 * (the packet that opens the window). The debt saturates at WEIR_OWED_MAX = 2^62 nanobits, or
 * 576 MB. The queue behind the limiter must hold less; those of HTB and fq hold far less. Rates
 * up to 10^18 bit/s.
 *
 * Source: EyeQ section 4.2 (transmit rate limiters); Saeed et al., Carousel, SIGCOMM
 * 2017 (earliest departure times).
 */
#ifndef WEIR_LIMITER_H
#define WEIR_LIMITER_H

#include "types.h"

#define WEIR_NANOBITS_PER_BYTE 8000000000ULL
#define WEIR_OWED_MAX (1ULL << 62)
/* Largest packet or burst that counts, bytes. 256 MiB is 2.1 * 10^18 nanobits, well below 2^62. */
#define WEIR_CHARGE_MAX (1U << 28)
/* Largest rate, bit/s: WEIR_OWED_MAX + rate stays below 2^63. */
#define WEIR_RATE_MAX 1000000000000000000ULL

struct weir_limiter {
	u64 rate;     /* bit/s; 0 is unlimited */
	u64 burst;    /* nanobits that may leave ahead of the rate */
	u64 owed;     /* nanobits of debt at `paid_at`, burst included; at most WEIR_OWED_MAX */
	u64 paid_at;  /* ns: time up to which elapsed time has repaid debt */
	u64 drain_ns; /* ns that repay WEIR_OWED_MAX at `rate`; keeps elapsed * rate in 64 bits */
	u64 rest_at;  /* ns: last time without debt; all earlier charges are repaid */
	u32 kept;     /* bytes of leases charged since `rest_at` (lease.h) */
	u32 reserved;
};

/* Repays debt for the time until `now`. A `now` before `paid_at` (two CPUs) repays nothing. */
WEIR_INLINE void weir_limiter_settle(struct weir_limiter *limiter, u64 now)
{
	u64 elapsed, paid;

	if (now > limiter->paid_at) {
		elapsed = now - limiter->paid_at;
		limiter->paid_at = now;
		paid = elapsed < limiter->drain_ns ? elapsed * limiter->rate : WEIR_OWED_MAX;
		if (limiter->owed > paid) {
			limiter->owed -= paid;
		} else {
			limiter->owed = 0;
			limiter->rest_at = now;
			limiter->kept = 0;
		}
	}
	/* A departure settles up to five limiters: without this, the verifier multiplies their paths. */
	WEIR_MERGE_PATHS();
}

/* Sets the rate in bit/s as of `now`. 0 is unlimited and clears the debt. */
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

/* Sets the bytes that may leave ahead of the rate after a pause, at most WEIR_CHARGE_MAX. */
WEIR_INLINE void weir_limiter_set_burst(struct weir_limiter *limiter, u32 bytes)
{
	if (bytes > WEIR_CHARGE_MAX)
		bytes = WEIR_CHARGE_MAX;
	limiter->burst = bytes * WEIR_NANOBITS_PER_BYTE;
}

/* Returns the departure time of a packet offered at `now`. Charges nothing. */
WEIR_INLINE u64 weir_limiter_earliest(struct weir_limiter *limiter, u64 now)
{
	u64 ahead, departure;

	weir_limiter_settle(limiter, now);
	if (!limiter->rate || limiter->owed <= limiter->burst)
		return now;
	ahead = limiter->owed - limiter->burst;
	/* paid_at is at least now. The sum stays far below 2^64 from 1 kb/s on. */
	departure = limiter->paid_at + (ahead - 1) / limiter->rate + 1;
	return departure > now ? departure : now;
}

/*
 * Returns the time from which `rate` holds if packets have departures already, which are never
 * revised: `now`, or after an increase the next departure at the present rate, so that no later packet
 * overtakes, at most `horizon` ns ahead: a queue of packets up to the horizon has its next departure
 * one packet beyond it. A next departure more than two horizons ahead is behind packets that may wait
 * beyond the horizon (departure.h). It would leave the new rate unused for as long, so the increase
 * then holds at once.
 */
WEIR_INLINE u64 weir_limiter_rate_from(struct weir_limiter *limiter, u64 now, u64 rate, u64 horizon)
{
	u64 from = now;

	if (rate > limiter->rate)
		from = weir_limiter_earliest(limiter, now);
	if (from - now > 2 * horizon)
		from = now;
	if (from - now > horizon)
		from = now + horizon;
	WEIR_MERGE_PATHS();
	return from;
}

/* Charges a packet of `bytes` to a limiter that is settled at the time of the packet. */
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

/* Reverts a charge of `bytes`. The limiter must not have been without debt since that charge. */
WEIR_INLINE void weir_limiter_refund(struct weir_limiter *limiter, u32 bytes)
{
	u64 charged = bytes * WEIR_NANOBITS_PER_BYTE;

	limiter->owed = limiter->owed > charged ? limiter->owed - charged : 0;
}

/*
 * Charges a packet of `bytes` offered at `now` and returns its departure time. It is not before
 * `now`, and not before the departure of an earlier packet, except after a rate increase: earlier
 * packets then keep their later times. To preserve the order, queue behind the limiter, or let the
 * increase hold from the next departure on (weir_limiter_rate_from).
 */
WEIR_INLINE u64 weir_limiter_departure(struct weir_limiter *limiter, u64 now, u32 bytes)
{
	u64 departure = weir_limiter_earliest(limiter, now);

	weir_limiter_charge(limiter, bytes);
	return departure;
}

#endif
