/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What came in since a time: the y and the b of the control law.
 *
 * Problem: the law wants the usage of an interval T, and T is a few packets, or less than one: at 10 Mb/s a
 * 1,500 B packet takes 1.2 ms, at T = 200 us. On a fixed grid of intervals such a service would use six times
 * its capacity in one interval and nothing in the next five.
 * Approach: a window opens with a packet, which it counts, and closes with the first packet that comes T or
 * more after, which is the next window's. Its usage is its bytes over the time between the two. Packets evenly
 * spaced give exactly their rate, however few they are; no timer is needed.
 *
 * Bounds: a window counts up to 2^43 bytes (8.8 s at 8 Tb/s) and up to 2^34 ns (17 s): what is longer counts as
 * that, which is silence at any rate that the law knows. bits < 2^46 and at least 10^4 ns make
 * bits / ns * 10^9 below 2^63; rest * 10^9 with rest < 2^34 is below 2^64.
 *
 * Worked example: packets of 1,500 B at 0, 1.2, 2.4 ms with T = 200 us: every window is one packet and 1.2 ms,
 * 10 Mb/s.
 *
 * Source: EyeQ measures from packet to packet too (at least 200 us), without a timer.
 */
#ifndef WEIR_USAGE_WINDOW_H
#define WEIR_USAGE_WINDOW_H

#include "types.h"

#define WEIR_WINDOW_BYTES_MAX (1ULL << 43)
#define WEIR_WINDOW_NS_MAX (1ULL << 34)
/* The shortest and the longest interval: 10 us and 1 s. */
#define WEIR_INTERVAL_MIN 10000ULL
#define WEIR_INTERVAL_MAX 1000000000ULL

struct weir_window {
	u64 opened_at; /* ns */
	u64 bytes;
	u64 packets; /* those that switches could mark */
	u64 marked;
};

/* `interval` inside its bounds. */
WEIR_INLINE u64 weir_interval_clamp(u64 interval)
{
	if (interval < WEIR_INTERVAL_MIN)
		return WEIR_INTERVAL_MIN;
	return interval < WEIR_INTERVAL_MAX ? interval : WEIR_INTERVAL_MAX;
}

WEIR_INLINE void weir_window_open(struct weir_window *window, u64 now)
{
	window->opened_at = now;
	window->bytes = 0;
	window->packets = 0;
	window->marked = 0;
}

WEIR_INLINE void weir_window_add(struct weir_window *window, u64 bytes, u32 packets, u32 marked)
{
	window->bytes = bytes < WEIR_WINDOW_BYTES_MAX - window->bytes ? window->bytes + bytes : WEIR_WINDOW_BYTES_MAX;
	window->packets += packets;
	window->marked += marked;
}

/* ns since the window opened, at most WEIR_WINDOW_NS_MAX; 0 where the clock went back (two CPUs). */
WEIR_INLINE u64 weir_window_elapsed(const struct weir_window *window, u64 now)
{
	u64 elapsed;

	if (now <= window->opened_at)
		return 0;
	elapsed = now - window->opened_at;
	return elapsed < WEIR_WINDOW_NS_MAX ? elapsed : WEIR_WINDOW_NS_MAX;
}

/* The usage in bit/s over `elapsed` ns, which is at least WEIR_INTERVAL_MIN. */
WEIR_INLINE u64 weir_window_usage(const struct weir_window *window, u64 elapsed)
{
	u64 bits = window->bytes * 8;

	return bits / elapsed * 1000000000ULL + bits % elapsed * 1000000000ULL / elapsed;
}

#endif
