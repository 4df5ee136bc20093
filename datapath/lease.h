/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Credit leases: departures charged in advance for the next packets of a queue.
 *
 * One lock protects all limiters of an interface. A packet that leaves at once needs it once per
 * per-CPU batch (departure.h). A packet that must wait would need it every time, and the CPUs of a
 * rate-limited service would wait for each other.
 *
 * A packet that must wait therefore charges additional bytes to all limiters that apply to it.
 * These bytes are a lease. It belongs to a service and one destination, or to the service and all
 * destinations without a limiter. The next packets to the same destination, on any CPU, take their
 * departures from the lease in order, with one atomic operation each, until the next tick is due.
 * If too few bytes remain, the packet takes the lock. It ends the lease, refunds the remaining
 * bytes to each limiter that had debt ever since the charge, and starts a new lease.
 *
 *   size        the bytes used of the last lease; within a tick twice as many and one packet. At
 *               most an eighth of each limiter's burst for all leases together, and 1 ms at its
 *               rate.
 *   departures  evenly spaced from the packet that starts the lease to the time at which the
 *               slowest limiter has repaid all of the lease; nothing beyond the horizon.
 *   order       by the remaining bytes, one number: the order of the atomic operations.
 *
 * Worked example: 1 Gb/s, a burst of 125 kB, packets of 1,514 B that wait. A lease is at most
 * 14.5 kB, nine packets. In one tick the first packet leases nothing, the second one packet, the
 * fourth three, the eighth seven. From then on each tenth packet takes the lock. The first lease of
 * the next tick is as large as the use of the last one.
 *
 * Bounds: bytes are charged before they leave, so the bounds of limiter.h hold, except that
 * refunded bytes can lie before departures given after them: a window carries an eighth of a burst
 * more. A rate reduction takes effect with the next lease.
 *
 * Derivation: docs/design/lease.md.
 */
#ifndef WEIR_LEASE_H
#define WEIR_LEASE_H

#include "limiter.h"

/* Largest lease, bytes: two of the largest buffers. */
#define WEIR_LEASE_MAX 139264
/* ns: longest duration of a lease. A burst lasts as long. */
#define WEIR_LEASE_TIME 1000000ULL
/*
 * ns after which a limiter that always has debt drops its count of leases that
 * no packet returned to.
 */
#define WEIR_LEASE_AGE 20000000ULL
/* Shift from bit/s to bytes per WEIR_LEASE_TIME: divides by 8,192 instead of 8,000. */
#define WEIR_LEASE_RATE_BITS 13
/*
 * Shift from nanobits of a burst to bytes of an eighth of it: divides by 6.9 * 10^10,
 * not 6.4 * 10^10.
 */
#define WEIR_LEASE_BITS 36

/*
 * The lease of a service towards a destination. All fields but `left` change under the lock, while
 * `left` contains 0 bytes.
 */
struct weir_lease {
	u64 left;       /* upper 32 bits: remaining bytes; lower 32 bits: number of the lease */
	u64 due;        /* ns: the next tick, until which the lease is valid */
	u64 end;        /* ns: departure of the first byte after the lease */
	u64 last;       /* ns: the last departure computed from the limiters; 0 if it was at once */
	u64 charged_at; /* ns: time of the charge, at least the `paid_at` of each limiter */
	u32 charged;    /* bytes; 0: no lease */
	u32 step;       /* 2^-16 ns per byte */
};

/* Takes a packet of `bytes` from the lease. Returns 1 and its departure, or 0 without a change. */
WEIR_INLINE int weir_lease_take(struct weir_lease *lease, u64 due, u32 bytes, u64 *departure)
{
	u64 left = *(volatile u64 *)&lease->left;
	u64 end = *(volatile u64 *)&lease->end;
	u32 step = *(volatile u32 *)&lease->step;

	if (*(volatile u64 *)&lease->due != due || left >> 32 < bytes)
		return 0;
	/* Another CPU took bytes or started a lease: the caller takes the lock. */
	if (__sync_val_compare_and_swap(&lease->left, left, left - ((u64)bytes << 32)) != left)
		return 0;
	*departure = end - (((left >> 32) * step) >> 16);
	return 1;
}

/*
 * Returns the bytes to lease beside a packet of `bytes`, from the use of the previous lease, of
 * which `left` bytes remain.
 */
WEIR_INLINE u32 weir_lease_wanted(const struct weir_lease *lease, u32 left, u64 due, u32 bytes)
{
	u32 used = lease->charged - left;

	if (lease->due == due)
		used = 2 * used + bytes;
	return used < WEIR_LEASE_MAX ? used : WEIR_LEASE_MAX;
}

/* Ends the lease and returns its remaining bytes. The caller has the lock. */
WEIR_INLINE u32 weir_lease_end(struct weir_lease *lease)
{
	u64 left = *(volatile u64 *)&lease->left;

	/* Only the lock's owner starts a lease, so its number does not change here. */
	return __sync_lock_test_and_set(&lease->left, (left + 1) & WEIR_U32_MAX) >> 32;
}

/* Publishes lease->charged bytes. All other fields are written before. */
WEIR_INLINE void weir_lease_begin(struct weir_lease *lease)
{
	u64 left = *(volatile u64 *)&lease->left;

	__sync_lock_test_and_set(&lease->left, (u64)lease->charged << 32 | ((left + 1) & WEIR_U32_MAX));
}

/* Returns the departure of the next packet of a lease with `left` remaining bytes. */
WEIR_INLINE u64 weir_lease_next(const struct weir_lease *lease, u32 left)
{
	return lease->end - (((u64)left * lease->step) >> 16);
}

/*
 * Returns the bytes that `limiter` can still lease: an eighth of its burst, and 1 ms at its rate.
 */
WEIR_INLINE u64 weir_lease_room(const struct weir_limiter *limiter)
{
	u64 part = limiter->burst >> WEIR_LEASE_BITS, in_time = limiter->rate >> WEIR_LEASE_RATE_BITS;

	if (part > in_time)
		part = in_time;
	return part > limiter->kept ? part - limiter->kept : 0;
}

/* Returns how many of `wanted` bytes `limiter` can lease at `now`. */
WEIR_INLINE u32 weir_lease_part(struct weir_limiter *limiter, u64 now, u32 wanted)
{
	if (!limiter->rate)
		return wanted;
	/* Leases to which no packet returned: elapsed time counts as their repayment. */
	if (weir_lease_room(limiter) < wanted && limiter->kept && now > limiter->rest_at &&
	    now - limiter->rest_at > WEIR_LEASE_AGE) {
		limiter->rest_at = now;
		limiter->kept = 0;
	}
	return weir_lease_room(limiter) < wanted ? (u32)weir_lease_room(limiter) : wanted;
}

/* Returns the later of `end` and the time at which `limiter` has repaid `bytes` more. */
WEIR_INLINE u64 weir_lease_after(const struct weir_limiter *limiter, u32 bytes, u64 end)
{
	u64 owed = limiter->owed + bytes * WEIR_NANOBITS_PER_BYTE, after;

	if (!limiter->rate || owed <= limiter->burst)
		return end;
	after = limiter->paid_at + (owed - limiter->burst) / limiter->rate + 1;
	return after > end ? after : end;
}

/* Charges the bytes of a lease. */
WEIR_INLINE void weir_lease_charge(struct weir_limiter *limiter, u32 bytes)
{
	weir_limiter_charge(limiter, bytes);
	limiter->kept += bytes;
}

/* Refunds the remaining bytes of a lease, unless `limiter` was without debt since the charge. */
WEIR_INLINE void weir_lease_return(const struct weir_lease *lease, struct weir_limiter *limiter, u32 left)
{
	if (limiter->rest_at > lease->charged_at)
		return;
	weir_limiter_refund(limiter, left);
	limiter->kept = limiter->kept > lease->charged ? limiter->kept - lease->charged : 0;
}

/*
 * Returns the later of `at` and the time up to which `limiter` is settled. The time of a tick
 * can lie before it.
 */
WEIR_INLINE u64 weir_lease_later(const struct weir_limiter *limiter, u64 at)
{
	return limiter->paid_at > at ? limiter->paid_at : at;
}

#endif
