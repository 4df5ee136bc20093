/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The meters of an interface where packets are counted on many CPUs and the law is run by a timer.
 *
 * Problem: in the kernel the packets of a service come on several CPUs at once, and a meter that all of them write would
 * cost each packet a lock. Approach: each CPU counts by itself (`struct weir_arrivals`); a timer takes what all have
 * counted since its last tick, adds it up, and runs the meters' law. So meters have one writer, the timer, and
 * counters one each, the CPU; the timer remembers beside each counter how much of it was taken.
 *
 * A tick counts first and closes the window then. The bytes of a tick came before it, so that with packets in every
 * tick a window is the interval since the last one. (A packet, in interface_meter.h, closes the window that ended with it and
 * opens the next: it came at that very moment.) Without packets a tick does nothing and the window goes on:
 * few packets evenly spaced give their rate, as in usage_window.h. The first tick after a pause belongs to the
 * window of the pause, and shows in full in the next one: an interval later than a packet would.
 *
 * Ticks are a little early or late. A window may close `slack` before its interval is over, half a tick; the usage
 * is divided by the true time, so that nothing is gained or lost.
 *
 * Grain. Senders let go of some bytes at once: a segment of 64 KiB, a limiter's burst. A window must hold several of
 * them, or its usage says more of them than of the rate: at 20 Mb/s ten frames of 1,500 B in 2 ms are three times the
 * capacity, and take R to its floor, again and again (9.5 of 20 Mb/s were measured). So a window is at least as long as the
 * capacity takes to carry the grain, four bursts.
 *
 * Order, for all services that received anything in this tick:
 *
 *   1. weir_tick_marks            whose marks count at the interface, by its last window
 *   2. weir_tick_interface        once, with the bytes of all services
 *   3. weir_receive_meter_set_capacity, with the service's share of now or the brokers' limit, and
 *      weir_receive_meter_set_interval, with weir_tick_interval of it
 *   4. weir_tick_meter            which also tells the interface whether its service's window met the own queue: after
 *                                 the interface's window where both end with this tick, so that it is known in the next
 *
 * Worked example: C = 9 Gb/s, R = 5, a tick each 200 us. Since the last one 100 and 200 kB came on two CPUs: y = 12 Gb/s,
 * and R is 4.1667 Gb/s, at this tick.
 *
 * Source: Parley section 5.1 (counters for each CPU); the rest is ours.
 */
#ifndef WEIR_RECEIVE_TICK_H
#define WEIR_RECEIVE_TICK_H

#include "interface_meter.h"

/* What one CPU has counted of one service since the start, and what of it was taken. */
struct weir_arrivals {
	u64 bytes;
	u64 packets; /* those that switches could mark */
	u64 marked;
	u64 taken_bytes; /* written by the timer alone, as the next two */
	u64 taken_packets;
	u64 taken_marked;
};

/* What all CPUs have counted of one service since the last tick. */
struct weir_taken {
	u64 bytes;
	u32 packets;
	u32 marked;
};

/* Adds what was counted since it was last taken. Marks never exceed packets, also where a CPU is counting meanwhile. */
WEIR_INLINE void weir_tick_take(struct weir_arrivals *arrivals, struct weir_taken *taken)
{
	u64 marked = arrivals->marked;
	u64 packets = arrivals->packets;
	u64 bytes = arrivals->bytes;

	taken->bytes += bytes - arrivals->taken_bytes;
	taken->packets += (u32)(packets - arrivals->taken_packets);
	taken->marked += (u32)(marked - arrivals->taken_marked);
	arrivals->taken_bytes = bytes;
	arrivals->taken_packets = packets;
	arrivals->taken_marked = marked;
	if (taken->marked > taken->packets)
		taken->marked = taken->packets;
}

/* Notes the marks that count at the interface. */
WEIR_INLINE void weir_tick_marks(struct weir_interface_meter *interface, const struct weir_receive_meter *meter, u32 packets,
				 u32 marked, u64 committed)
{
	weir_note_marks(interface, meter->usage, packets, marked, committed);
}

/* 1: a window of `elapsed` ns, which may be `slack` short of `interval`, is over; `counted` is then at least `interval`. */
WEIR_INLINE int weir_tick_closes(u64 elapsed, u64 interval, u64 slack, u64 *counted)
{
	*counted = elapsed > interval ? elapsed : interval;
	return elapsed + slack >= interval && elapsed >= WEIR_INTERVAL_MIN / 2;
}

/* The interval of a meter of `capacity` bit/s that is to be `interval` ns at least, where senders send by `grain` bytes, at most 2^28. */
WEIR_INLINE u64 weir_tick_interval(u64 interval, u64 capacity, u32 grain)
{
	u64 least;

	if (!capacity)
		return interval;
	least = grain * 8000000000ULL / capacity;
	return weir_interval_clamp(least > interval ? least : interval);
}

/* Counts the `bytes` of all services, more than none. 1: the services' shares are new. */
WEIR_INLINE int weir_tick_interface(struct weir_interface_meter *interface, u64 now, u64 bytes, u64 slack)
{
	u64 elapsed = weir_window_elapsed(&interface->window, now);
	u64 counted;

	weir_window_add(&interface->window, bytes, 0, 0);
	interface->received += bytes;
	if (!weir_tick_closes(elapsed, interface->law.interval, slack, &counted))
		return 0;
	return weir_interface_meter_close(interface, now, elapsed, counted);
}

/* Counts what came of one service, more than no bytes, and notes at the interface whether it met the own queue. 1: R was computed anew. */
WEIR_INLINE int weir_tick_meter(struct weir_interface_meter *interface, struct weir_receive_meter *meter, u64 now, u64 bytes,
				u32 packets, u32 marked, u64 slack)
{
	u64 elapsed = weir_window_elapsed(&meter->window, now);
	u64 counted;

	weir_window_add(&meter->window, bytes, packets, marked);
	if (!weir_tick_closes(elapsed, meter->law.interval, slack, &counted))
		return 0;
	weir_note_own_queue(interface, meter, interface->received, elapsed);
	weir_receive_meter_close(meter, now, elapsed, counted);
	return 1;
}

#endif
