/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Rate law of the machine shaper: from the usage of an interval to the rate of all senders.
 *
 * A receiver keeps the sum of its senders' rates at a capacity C, without state per sender. It
 * advertises one rate R to all senders. After each interval T it sets
 *
 *     R(t + T) = R(t) * (1 - a * (y - C) / C - b / 2)
 *
 * where y is the usage of the interval, and b the fraction of its packets with an ECN mark. R rises
 * while y < C, falls while y > C, and is stable at y = C. This is the water-filling level, because
 * R does not limit a sender with a lower demand.
 *
 * Arithmetic: unsigned 64-bit. Fractions and the bracket are in units of 2^-20 (WEIR_LAW_ONE is 1).
 * y / C and the products are rounded to the nearest unit. The bracket is off by less than 2 units,
 * and R by less than R * 2^-19 + 1 bit/s. Without marks and with y <= C the bracket is at least 1,
 * so rounding alone never lowers R. R is stable if y is within 2 * 10^-6 of C.
 *
 * Worked example: R = 5, C = 9, y = 12 Gb/s, a = 1/2: 5 * (1 - 0.5 * 3/9) = 4.1667 Gb/s. With 40 %
 * of the packets marked: 5 * (1 - 0.1667 - 0.2) = 3.1667 Gb/s.
 *
 * Bounds: rates, capacities and floors up to WEIR_LAW_RATE_MAX = 8 * 10^12 bit/s (below 2^43);
 * capacity not 0; any usage (above 16 C it counts as 16 C). Then nothing overflows:
 *   (usage % C) << 20   is below 2^63
 *   a * (y / C)         is at most 2^20 * 2^24
 *   R * bracket         is at most 8 * 10^12 * 2^21 = 1.68 * 10^19, below 2^64 = 1.84 * 10^19
 * Below 10 kb/s, 1 bit/s is more than 10^-4 of R, and R no longer reaches C to within 0.01 %.
 *
 * Source: Parley section 3.2.1 and Table 1 (a = 0.5, T = 200 us). EyeQ's source code has the same
 * law as fb * (3 * rate - rx) / (2 * rate), which is a = 1/2, and two forms of the mark term: the
 * one above, and by default that of weir_law_marked_usage().
 * Deviates from the paper in: R is clamped to [floor, C], as in EyeQ; usage counts up to 16 C.
 * Convergence and the bound on overshoot: docs/design/receive-meter.md.
 */
#ifndef WEIR_RATE_LAW_H
#define WEIR_RATE_LAW_H

#include "types.h"

/* Fractions are in units of 2^-20: the finest unit with R * bracket below 2^64 at 8 Tb/s. */
#define WEIR_LAW_SHIFT 20
#define WEIR_LAW_ONE (1U << WEIR_LAW_SHIFT)
/* Largest rate, bit/s: 8 Tb/s, five times the fastest Ethernet (1.6 Tb/s). */
#define WEIR_LAW_RATE_MAX 8000000000000ULL
/* Smallest rate, bit/s: 1 bit/s is 10^-4 of it; see Bounds above. */
#define WEIR_LAW_RATE_MIN 10000ULL
/*
 * Floor of R, bit/s: EyeQ's 10 Mb/s, and a thousandth of C below EyeQ's 10 Gb/s. More than C /
 * floor senders exceed C at the floor. A hundredth is too much: 100 senders would send C, and their
 * queue would not drain.
 */
#define WEIR_LAW_FLOOR 10000000ULL
#define WEIR_LAW_FLOOR_PART 1000
/*
 * Floor of R below 100 Mb/s: 100 kb/s, or C / 50 if that is less. There a thousandth of C is less
 * than a packet per 0.1 s (at 5 Mb/s, 1,500 B take 2.4 s). A sender at such a rate sends nothing
 * for seconds, and R does not rise meanwhile. The higher floor limits fewer senders.
 */
#define WEIR_LAW_FLOOR_PACKETS 100000ULL
#define WEIR_LAW_FLOOR_PACKETS_PART 50
/*
 * Usage above this multiple of C counts as this multiple. At a = 1/2, 3 C already yields bracket 0.
 */
#define WEIR_LAW_OVERUSE_MAX 16
/* EyeQ counts at most 3 C, which alone takes the rate to its floor. */
#define WEIR_LAW_MARKED_USAGE_MAX 3

/* Returns the floor of R under `capacity` bit/s, at least 1. */
WEIR_INLINE u64 weir_law_floor(u64 capacity)
{
	u64 part = capacity / WEIR_LAW_FLOOR_PART;
	u64 packets = capacity / WEIR_LAW_FLOOR_PACKETS_PART;

	if (packets > WEIR_LAW_FLOOR_PACKETS)
		packets = WEIR_LAW_FLOOR_PACKETS;
	if (part < packets)
		part = packets;
	if (part > WEIR_LAW_FLOOR)
		return WEIR_LAW_FLOOR;
	return part ? part : 1;
}

/* Returns part / whole in 2^-20, at most 1. 0 / 0 is 0. `part` is below 2^44. */
WEIR_INLINE u32 weir_law_fraction(u64 part, u64 whole)
{
	if (!part)
		return 0;
	if (part >= whole)
		return WEIR_LAW_ONE;
	return (u32)((part << WEIR_LAW_SHIFT) / whole);
}

/*
 * Returns the bracket of the law, the factor of R, in 2^-20, from 0 to 2. `alpha` and `marked` are
 * fractions in 2^-20, at most 1.
 */
WEIR_INLINE u64 weir_law_factor(u64 capacity, u64 usage, u32 alpha, u32 marked)
{
	u64 ratio, raise, lower;

	if (usage >= capacity * WEIR_LAW_OVERUSE_MAX)
		ratio = (u64)WEIR_LAW_OVERUSE_MAX << WEIR_LAW_SHIFT;
	else
		ratio = ((usage / capacity) << WEIR_LAW_SHIFT) +
			(((usage % capacity) << WEIR_LAW_SHIFT) + capacity / 2) / capacity;
	raise = (u64)WEIR_LAW_ONE + alpha;
	lower = ((alpha * ratio + WEIR_LAW_ONE / 2) >> WEIR_LAW_SHIFT) + marked / 2;
	return raise > lower ? raise - lower : 0;
}

/* Returns `rate` times `factor`, which is in 2^-20 and at most 2, rounded to the nearest bit/s. */
WEIR_INLINE u64 weir_law_scale(u64 rate, u64 factor)
{
	return (rate * factor + WEIR_LAW_ONE / 2) >> WEIR_LAW_SHIFT;
}

/* Clamps `rate` to [floor, capacity]. The capacity takes precedence over the floor. */
WEIR_INLINE u64 weir_law_clamp(u64 rate, u64 floor, u64 capacity)
{
	if (rate < floor)
		rate = floor;
	return rate < capacity ? rate : capacity;
}

/* Returns the rate of the next interval, inside [floor, capacity]. */
WEIR_INLINE u64 weir_rate_law(u64 rate, u64 capacity, u64 usage, u32 alpha, u32 marked, u64 floor)
{
	return weir_law_clamp(weir_law_scale(rate, weir_law_factor(capacity, usage, alpha, marked)), floor, capacity);
}

/*
 * Returns the usage by EyeQ's default mark term: a marked interval of `elapsed` ns (at least 1)
 * counts as if `mark_bytes` * (1 + b) more bytes had arrived, and as 3 C at most. The law then
 * runs without b. With EyeQ's 45,000 B, 200 us in which every packet is marked add 3.6 Gb/s,
 * whatever the capacity is.
 *
 * `mark_bytes` is at most 10^8: 2 * 8 * 10^8 bits * 10^9 ns is below 2^61. `usage` is below 2^63.
 */
WEIR_INLINE u64 weir_law_marked_usage(u64 usage, u64 capacity, u64 elapsed, u32 mark_bytes, u32 marked)
{
	u64 most = capacity * WEIR_LAW_MARKED_USAGE_MAX;
	u64 bits = (u64)mark_bytes * 8;

	if (marked) {
		bits += (bits * marked) >> WEIR_LAW_SHIFT;
		usage += bits * 1000000000ULL / elapsed;
	}
	return usage < most ? usage : most;
}

#endif
