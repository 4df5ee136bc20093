/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Ticks of a host: collect the counters of all CPUs, run the rate law, publish the rates.
 *
 * Problem: the law must run every 200 us on one CPU at a time, also while the agent is not running.
 * A timer with that interval would cost more than the rest of the datapath, also on an idle host
 * (docs/design/ticks.md).
 *
 * Approach: packets run the ticks. These are packets that arrive and, with htb, packets that leave
 * towards a receiver that sends feedback. The first packet that finds a tick due runs it (weir_tick_at),
 * before feedback for that packet is considered. Without packets no tick is necessary, which the
 * meters allow for (receive_tick.h).
 *
 * A packet reads the clock only if its CPU has received WEIR_CLOCK_BYTES since the last reading, or
 * if jiffies have changed (weir_tick_by_packet). A tick is late by those bytes at most, a few percent of
 * a measurement window of four bursts.
 *
 * A timer remains, every 10 ms with htb, and every tick with edt (weir_tick_by_timer):
 *
 *   - It runs a tick if one is due, for packets that were counted before a pause.
 *   - It checks the agent's heartbeat (fallback.h).
 *   - With edt, it shares the sending capacity among services (share.h).
 *
 * Source: ours; the law and its interval are those of rate_law.h.
 */
#ifndef WEIR_HOST_TICK_H
#define WEIR_HOST_TICK_H

#include "host/fallback.h"
#include "host/meters.h"
#include "host/share.h"

/* ns between two runs of the timer where packets run the ticks (htb) */
#define WEIR_TIMER_INTERVAL 10000000ULL
/*
 * Bytes after which a CPU reads the clock again: reading it takes 40 ns, and a complete packet 60
 * ns.
 */
#define WEIR_CLOCK_BYTES 10000
/* Bytes that each packet counts towards WEIR_CLOCK_BYTES in addition to its length. */
#define WEIR_CLOCK_PACKET_BYTES 512

/*
 * Returns the time of the last tick, at most some milliseconds ago, or 0 before the first. A clock read
 * costs half of a packet's time.
 */
WEIR_INLINE u64 weir_tick_time(WEIR_HOST u64 tick)
{
	struct weir_state *state = WEIR_AT(states, 0);
	u64 next = state ? *(volatile u64 *)&state->due : 0;

	return next > tick ? next - tick : 0;
}

/* Runs a tick if one is due at `now` and no other CPU is running one. */
WEIR_ONCE int weir_tick_at(WEIR_HOST u64 now)
{
	struct weir_config *config = WEIR_AT(config, 0);
	struct weir_interface *desired = WEIR_AT(interfaces, WEIR_SIDE_RECEIVING);
	struct weir_state *state = WEIR_AT(states, 0);
	u64 due;

	if (!config || !desired || !state)
		return 0;
	if (now < *(volatile u64 *)&state->due || __sync_lock_test_and_set(&state->ticking, 1))
		return 0;
	/* Another CPU may have run the tick between the two reads. */
	due = *(volatile u64 *)&state->due;
	if (now >= due) {
		due += config->tick;
		*(volatile u64 *)&state->due = due > now ? due : now + config->tick;
		state->ticks += 1;
		if (config->enforces)
			weir_collect_and_run(WEIR_THIS config, desired, state, now);
	}
	__sync_lock_test_and_set(&state->ticking, 0);
	return 0;
}

/* Counts a packet of `bytes`. Runs a tick if one is due, unless the clock was read recently. */
WEIR_INLINE void weir_tick_by_packet(WEIR_HOST struct weir_active *active, u64 bytes)
{
	u64 jiffies = WEIR_JIFFIES();

	active->unclocked_bytes += bytes + WEIR_CLOCK_PACKET_BYTES;
	if (active->unclocked_bytes < WEIR_CLOCK_BYTES && active->jiffies == jiffies)
		return;
	active->unclocked_bytes = 0;
	active->jiffies = jiffies;
	weir_tick_at(WEIR_THIS WEIR_CLOCK());
}

/* The timer's work at `now`. Returns the ns until its next run. */
WEIR_INLINE u64 weir_tick_by_timer(WEIR_HOST struct weir_config *config, struct weir_state *state, u64 now)
{
	weir_check_heartbeat(WEIR_THIS config, state, now);
	weir_tick_at(WEIR_THIS now);
	if (!WEIR_PACES(config))
		return WEIR_TIMER_INTERVAL;
	weir_share_sending(WEIR_THIS config, state, now);
	return config->tick;
}

#endif
