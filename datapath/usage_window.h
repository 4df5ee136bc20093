/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Measurement window of a receive meter: the usage y and the marked fraction b of the rate law.
 *
 * The law needs the usage of an interval T, which can be shorter than a packet: at 10 Mb/s a packet
 * of 1,500 B takes 1.2 ms, and T is 200 us. On a fixed grid of intervals such a service would use
 * six times its capacity in one interval and nothing in the next five.
 *
 * A window therefore ends with a tick that has packets (receive_tick.h), T or more after it opened.
 * The usage is the bytes of the window divided by its true length. Evenly spaced packets yield their
 * rate, to within one tick, however few they are. The law needs no timer.
 *
 * Worked example: packets of 1,500 B at 0, 1.2 and 2.4 ms with T = 200 us. Each window contains one
 * packet and lasts 1.2 ms: 10 Mb/s.
 *
 * Bounds: a window saturates at 2^43 bytes (8.8 s at 8 Tb/s) and 2^34 ns (17 s). A longer window
 * counts as 2^34 ns, which is an idle service at any rate of the law. With bits < 2^46 and at least
 * 5 * 10^3 ns, the shortest window that a tick closes, bits / ns * 10^9 is below 2^64. With
 * rest < 2^34, rest * 10^9 is below 2^64.
 *
 * Source: EyeQ's source code, which measures from packet to packet (at least 200 us).
 * Deviates from the paper in: Parley prints a fixed interval T.
 */
#ifndef WEIR_USAGE_WINDOW_H
#define WEIR_USAGE_WINDOW_H

#include "types.h"

#define WEIR_WINDOW_BYTES_MAX (1ULL << 43)
#define WEIR_WINDOW_NS_MAX (1ULL << 34)
/* Shortest and longest interval, ns: 10 us and 1 s. */
#define WEIR_INTERVAL_MIN 10000ULL
#define WEIR_INTERVAL_MAX 1000000000ULL

struct weir_window {
	u64 opened_at; /* ns */
	u64 bytes;
	u64 packets; /* ECN-capable packets */
	u64 marked;  /* of them, those marked CE */
};

/* Returns `interval` clamped to its bounds. */
WEIR_INLINE u64 weir_interval_clamp(u64 interval)
{
	if (interval < WEIR_INTERVAL_MIN)
		return WEIR_INTERVAL_MIN;
	return interval < WEIR_INTERVAL_MAX ? interval : WEIR_INTERVAL_MAX;
}

/* Opens an empty window. */
WEIR_INLINE void weir_window_open(struct weir_window *window, u64 now)
{
	window->opened_at = now;
	window->bytes = 0;
	window->packets = 0;
	window->marked = 0;
}

/* Counts a packet or several. Bytes saturate. */
WEIR_INLINE void weir_window_add(struct weir_window *window, u64 bytes, u32 packets, u32 marked)
{
	window->bytes = bytes < WEIR_WINDOW_BYTES_MAX - window->bytes ? window->bytes + bytes : WEIR_WINDOW_BYTES_MAX;
	window->packets += packets;
	window->marked += marked;
}

/*
 * Returns the age of the window in ns, at most WEIR_WINDOW_NS_MAX. Returns 0 if `now` lies before
 * the opening: the clocks of two CPUs can differ.
 */
WEIR_INLINE u64 weir_window_elapsed(const struct weir_window *window, u64 now)
{
	u64 elapsed;

	if (now <= window->opened_at)
		return 0;
	elapsed = now - window->opened_at;
	return elapsed < WEIR_WINDOW_NS_MAX ? elapsed : WEIR_WINDOW_NS_MAX;
}

/* Returns the usage in bit/s over `elapsed` ns, at least WEIR_INTERVAL_MIN / 2. */
WEIR_INLINE u64 weir_window_usage(const struct weir_window *window, u64 elapsed)
{
	u64 bits = window->bytes * 8;

	return bits / elapsed * 1000000000ULL + bits % elapsed * 1000000000ULL / elapsed;
}

#endif
