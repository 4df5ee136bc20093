/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The control law of the machine shaper: from one interval's usage to the rate of all senders.
 *
 * Problem: a receiver wants the sum of what its senders send to meet a capacity C, without knowing who or how
 * many they are. Approach: it tells all of them one rate R, and after each interval T
 *
 *     R(t + T) = R(t) * (1 - a * (y - C) / C - b / 2)
 *
 * where y is what came in the interval and b the fraction of its packets that switches marked. While y is
 * below C the rate rises, above it falls, and it rests where y is C: at the water-filling level, since
 * senders that want less than R are not held by it.
 *
 * Arithmetic: all in unsigned 64 bits. Fractions, and the bracket above, are in units of 2^-20
 * (WEIR_LAW_ONE is 1). y / C is rounded to the nearest unit, so are the products; the bracket is wrong by less
 * than 2 units, and R by less than R * 2^-19 + 1 bit/s. While y <= C and nothing is marked the bracket
 * is never below 1, so rounding alone never lowers R; it rests where y is within 2 * 10^-6 of C.
 *
 * Bounds: rates, capacities and floors up to WEIR_LAW_RATE_MAX = 8 * 10^12 bit/s (below 2^43); capacity not 0.
 * Any usage: what exceeds 16 C counts as 16 C, with a = 1/2 already 3 C makes the bracket 0. Then:
 *   (usage % C) << 20        is below 2^63
 *   a * (y / C)              is at most 2^20 * 2^24
 *   R * bracket              is at most 8 * 10^12 * 2^21 = 1.68 * 10^19, and 2^64 is 1.84 * 10^19
 * so for rates from 10 kb/s to 8 Tb/s nothing overflows. Below 10 kb/s one bit/s is more than 10^-4 of R, and
 * R no longer reaches C to within 0.01 %.
 *
 * Worked example: R = 5, C = 9, y = 12 Gb/s, a = 1/2: 5 * (1 - 0.5 * 3/9) = 4.1667 Gb/s; with 0.4 of the
 * packets marked 5 * (1 - 0.1667 - 0.2) = 3.1667 Gb/s.
 *
 * Source: Parley section 3.2.1 and Table 1 (a = 0.5, T = 200 us). EyeQ's source code has the same law as
 * fb * (3 * rate - rx) / (2 * rate), which is a = 1/2, and two forms of the marks: the one above, and by
 * default the one of weir_law_marked_usage.
 */
#ifndef WEIR_RATE_LAW_H
#define WEIR_RATE_LAW_H

#include "types.h"

/* Fractions count in 2^-20: the finest for which R * bracket stays inside 64 bits at 8 Tb/s. */
#define WEIR_LAW_SHIFT 20
#define WEIR_LAW_ONE (1U << WEIR_LAW_SHIFT)
/* 8 Tb/s: five times the fastest Ethernet there is, 1.6 Tb/s. */
#define WEIR_LAW_RATE_MAX 8000000000000ULL
#define WEIR_LAW_RATE_MIN 10000ULL
/*
 * The least rate: EyeQ's 10 Mb/s, and where the capacity is less than its 10 Gb/s, the same part of it, a
 * thousandth. So many senders can be held: more than C / floor of them exceed C at the floor. (A hundredth would
 * not do: 100 senders would be at C with nothing left to drain their queue.)
 */
#define WEIR_LAW_FLOOR 10000000ULL
#define WEIR_LAW_FLOOR_PART 1000
/*
 * Under 100 Mb/s a thousandth is less than a packet in a tenth of a second. A sender that was taken down to it is not heard of
 * again for seconds, and nothing raises R meanwhile: at 5 Mb/s a packet of 1,500 B would take 2.4 s. So there the floor is
 * 100 kb/s, or a fiftieth of the capacity where that is less, and so many fewer senders can be held.
 */
#define WEIR_LAW_FLOOR_PACKETS 100000ULL
#define WEIR_LAW_FLOOR_PACKETS_PART 50
/* A usage above so many capacities counts as that. */
#define WEIR_LAW_OVERUSE_MAX 16
/* EyeQ counts at most three capacities: that alone takes the rate to its floor. */
#define WEIR_LAW_MARKED_USAGE_MAX 3

/* The least rate under `capacity` bit/s, at least 1. */
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

/* `part` of `whole` as a fraction in 2^-20, at most 1; 0 of 0 is 0. `part` below 2^44. */
WEIR_INLINE u32 weir_law_fraction(u64 part, u64 whole)
{
	if (!part)
		return 0;
	if (part >= whole)
		return WEIR_LAW_ONE;
	return (u32)((part << WEIR_LAW_SHIFT) / whole);
}

/*
 * The bracket of the law in 2^-20, from 0 to 2: what the rate is multiplied by. `alpha` and `marked` are
 * fractions up to 1.
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

/* `rate` times a factor of at most 2 in 2^-20, rounded to the nearest bit/s. */
WEIR_INLINE u64 weir_law_scale(u64 rate, u64 factor)
{
	return (rate * factor + WEIR_LAW_ONE / 2) >> WEIR_LAW_SHIFT;
}

/* `rate` inside [floor, capacity]; a floor above the capacity gives way. */
WEIR_INLINE u64 weir_law_clamp(u64 rate, u64 floor, u64 capacity)
{
	if (rate < floor)
		rate = floor;
	return rate < capacity ? rate : capacity;
}

/* The rate of the next interval, inside [floor, capacity]. */
WEIR_INLINE u64 weir_rate_law(u64 rate, u64 capacity, u64 usage, u32 alpha, u32 marked, u64 floor)
{
	return weir_law_clamp(weir_law_scale(rate, weir_law_factor(capacity, usage, alpha, marked)), floor, capacity);
}

/*
 * EyeQ's default for marks: a marked interval of `elapsed` ns (at least 1) counts as if `mark_bytes` * (1 + b)
 * more had come, and at most 3 C in all; the law is then run without b. With EyeQ's 45,000 B, every packet
 * marked in 200 us adds 3.6 Gb/s, whatever the capacity is.
 *
 * `mark_bytes` up to 10^8: 2 * 8 * 10^8 bits * 10^9 ns is below 2^61. `usage` below 2^63.
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
