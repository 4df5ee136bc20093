/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Ticks: the meters of an interface where several CPUs count packets.
 *
 * In the kernel several CPUs receive packets of a service at once. A shared meter would cost
 * each packet a lock. Each CPU therefore has its own counters (struct weir_arrivals). A tick
 * sums what all CPUs counted since the last tick and runs the rate law. Each counter has one
 * writer, its CPU. Meters have one writer, the tick, which also records beside each counter how
 * much of it was taken. Only the virtual queue of the policer (policer.h), which senders without
 * Weir share, has several writers and a lock.
 *
 * A tick first counts and then closes the window: the bytes of a tick arrived before it. With
 * packets in every tick, a window is the interval since the last tick. A tick without packets
 * does nothing, and the window continues, so sparse packets yield their rate as in
 * usage_window.h. A window can close `slack`, half a tick, before its interval is over. Usage is
 * divided by the true time.
 *
 * Senders release bursts: a segment of 64 KiB, a limiter's burst. A window must contain several of
 * them, or usage reflects bursts instead of the rate. It is at least as long as the capacity takes
 * to carry the grain, WEIR_GRAIN_BURSTS bursts.
 *
 * Order, for all services that received packets since the last tick:
 *
 *   1. weir_tick_marks()      the marks that count at the interface, by its last window
 *   2. weir_tick_interface()  once, with the bytes of all services
 *   3. weir_receive_meter_set_capacity(), with the current share or the brokers' limit, and
 *      weir_tick_set_interval()
 *   4. weir_tick_policer()    with the receive limit, under the lock of the virtual queue
 *   5. weir_tick_meter()      with the bytes from step 4; also reports to the interface meter whether
 *                             the service met the own queue. It follows the interface's window, which
 *                             counts it next time.
 *
 * Worked example: C = 9 Gb/s, R = 5 Gb/s, a tick every 200 us. Two CPUs counted 100 and 200 kB
 * since the last tick: y = 12 Gb/s, and R becomes 4.1667 Gb/s at this tick.
 *
 * Source: Parley section 5.1 (per-CPU counters).
 * Deviates from the paper in: all else; see docs/design/receive-tick.md.
 */
#ifndef WEIR_RECEIVE_TICK_H
#define WEIR_RECEIVE_TICK_H

#include "interface_meter.h"
#include "policer.h"

/*
 * Least number of bursts in a window: one burst is then at most a quarter of its usage, as a
 * segment of 64 KiB is at 10 Gb/s in Parley's 200 us.
 */
#define WEIR_GRAIN_BURSTS 4

/*
 * Counters of one CPU for one service since the start, and how much of them ticks have taken. A tick can run while
 * another CPU counts a packet. The bytes of each packet are therefore in one counter alone, and no sum subtracts one
 * counter from another.
 */
struct weir_arrivals {
	u64 bytes;       /* without those of strangers to a service with a receive limit (policer.h) */
	u64 packets;     /* ECN-capable packets */
	u64 marked;      /* of them, those marked CE */
	u64 taken_bytes; /* only ticks write this and the next two fields */
	u64 taken_packets;
	u64 taken_marked;
};

/* Sum over all CPUs for one service since the last tick. */
struct weir_taken {
	u64 bytes;          /* without the next two */
	u64 stranger_bytes; /* of strangers to a service with a receive limit, which passed (policer.h) */
	u64 dropped_bytes;  /* of strangers, dropped by the policer */
	u64 followed_bytes; /* of followers, in `bytes` */
	u32 packets;
	u32 marked;
};

/*
 * Adds what a CPU counted since the last tick. Marks never exceed packets, even if
 * the CPU counts meanwhile.
 */
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

/* Adds what a CPU's policer counted since the last tick. */
WEIR_INLINE void weir_tick_take_policed(struct weir_policed *policed, struct weir_taken *taken)
{
	u64 dropped = policed->dropped_bytes;
	u64 followed = policed->followed_bytes;
	u64 strangers = policed->bytes;

	taken->dropped_bytes += dropped - policed->taken_dropped;
	taken->followed_bytes += followed - policed->taken_followed;
	taken->stranger_bytes += strangers - policed->taken_bytes;
	policed->taken_bytes = strangers;
	policed->taken_dropped = dropped;
	policed->taken_followed = followed;
}

/* Records the marks that count at the interface. */
WEIR_INLINE void weir_tick_marks(struct weir_interface_meter *interface, const struct weir_receive_meter *meter,
				 u32 packets,
				 u32 marked, u64 committed)
{
	weir_note_marks(interface, meter->usage, packets, marked, committed);
}

/*
 * Returns 1 if a window of `elapsed` ns is over. It can be `slack` shorter than `interval`, but not
 * shorter than 5 us. `counted` is
 * `elapsed`, at least `interval`.
 */
WEIR_INLINE int weir_tick_closes(u64 elapsed, u64 interval, u64 slack, u64 *counted)
{
	*counted = elapsed > interval ? elapsed : interval;
	return elapsed + slack >= interval && elapsed >= WEIR_INTERVAL_MIN / 2;
}

/*
 * Returns the interval of a meter of `capacity` bit/s: at least `interval` ns, and at least the
 * time in which the capacity carries `grain` bytes. `grain` is at most 2^28.
 */
WEIR_INLINE u64 weir_tick_interval(u64 interval, u64 capacity, u32 grain)
{
	u64 least;

	if (!capacity)
		return interval;
	least = grain * 8000000000ULL / capacity;
	return weir_interval_clamp(least > interval ? least : interval);
}

/*
 * Sets the interval of a meter, weir_tick_interval(), from the next window on. A window closes
 * sooner, after `interval`, once it has `grain` bytes: a service far above its capacity is measured
 * as often as one that uses it.
 */
WEIR_INLINE void weir_tick_set_interval(struct weir_receive_meter *meter, u64 interval, u32 grain)
{
	weir_receive_meter_set_interval(meter, weir_tick_interval(interval, meter->capacity, grain));
	meter->soonest = weir_interval_clamp(interval);
	meter->grain = grain;
}

/* Counts the `bytes` of all services, more than 0. Returns 1 if the services' shares are new. */
WEIR_INLINE int weir_tick_interface(struct weir_interface_meter *interface, u64 now, u64 bytes, u64 slack)
{
	u64 elapsed = weir_window_elapsed(&interface->window, now);
	u64 counted;

	weir_window_add(&interface->window, bytes, 0, 0);
	interface->received += bytes;
	if (!weir_tick_closes(elapsed, weir_interface_meter_interval(interface), slack, &counted))
		return 0;
	if (counted < interface->law.interval)
		counted = interface->law.interval;
	return weir_interface_meter_close(interface, now, elapsed, counted);
}

/*
 * Counts the packets of one service, more than 0 bytes, and reports to the interface meter whether
 * the service met the own queue. Returns 1 if R is new.
 */
WEIR_INLINE int weir_tick_meter(struct weir_interface_meter *interface, struct weir_receive_meter *meter, u64 now,
				u64 bytes,
				u32 packets, u32 marked, u64 slack)
{
	u64 elapsed = weir_window_elapsed(&meter->window, now);
	u64 counted;

	weir_window_add(&meter->window, bytes, packets, marked);
	if (!weir_tick_closes(elapsed, meter->law.interval, slack, &counted) &&
	    (!meter->grain || meter->window.bytes < meter->grain ||
	     !weir_tick_closes(elapsed, meter->soonest, slack, &counted)))
		return 0;
	if (counted < meter->law.interval)
		counted = meter->law.interval;
	weir_note_own_queue(interface, meter, interface->received, elapsed);
	weir_receive_meter_close(meter, now, elapsed, counted);
	return 1;
}

/*
 * Counts what a service received since the last tick, and sets the strangers' rate under `limit`
 * bit/s (0: none). `interval` is that of the service's meter, so that w and y are of windows of one
 * length. Returns the bytes that the meter counts: in place of strangers' bytes, those that have left
 * the virtual queue.
 */
WEIR_INLINE u64 weir_tick_policer(struct weir_policer *policer, u64 now, u64 limit, u64 interval, u64 slack,
				  const struct weir_taken *taken)
{
	u64 elapsed = weir_window_elapsed(&policer->followers, now);
	u64 length = weir_policer_length(policer, now);
	u64 entered = weir_policer_bytes(policer->limit, policer->backlog) + taken->stranger_bytes;
	u64 backlog = weir_policer_bytes(policer->limit, length), counted;

	limit = weir_capacity_clamp(limit);
	if (limit) {
		weir_window_add(&policer->followers, taken->followed_bytes, 0, 0);
		if (weir_tick_closes(elapsed, interval, slack, &counted)) {
			weir_policer_follow(policer, weir_window_usage(&policer->followers, elapsed));
			weir_window_open(&policer->followers, now);
		}
		weir_policer_set(policer, now, length, limit);
		policer->backlog = policer->length;
	} else {
		weir_policer_clear(policer);
	}
	return taken->bytes + (entered > backlog ? entered - backlog : 0);
}

#endif
