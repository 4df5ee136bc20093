/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * First stages of a packet that arrives: the counters that ticks collect, and the policer of strangers (policer.h).
 *
 * Each CPU has its plain counters. A tick (tick.h) sums them up and computes the rate that feedback carries. A service
 * with a receive limit counts packets of senders without Weir apart, and marks or drops them.
 *
 * Source: EyeQ section 4 (receive side); datapath/policer.h.
 */
#ifndef WEIR_HOST_ARRIVE_H
#define WEIR_HOST_ARRIVE_H

#include "host/tick.h"

/* The packet is to be dropped, to be marked CE, or passes. */
#define WEIR_ARRIVES_DROPPED WEIR_POLICE_DROP
#define WEIR_ARRIVES_MARKED WEIR_POLICE_MARK
#define WEIR_ARRIVES_PASSED WEIR_POLICE_PASS

/* Counts `bytes` of a follower, to a service with a receive limit. */
WEIR_INLINE void weir_count_follower(struct weir_counting *counting, u64 bytes)
{
	counting->policed.followed_bytes += bytes;
	counting->arrivals.bytes += bytes;
}

/*
 * Polices a packet of a stranger, of `bytes` in `segments`, to a service with a receive limit, and counts its bytes.
 * `ect`: it can be marked. Returns WEIR_ARRIVES_*.
 */
WEIR_INLINE int weir_arrive_policed(WEIR_HOST struct weir_counting *counting, struct weir_receiver *receiver, u32 bytes,
				    u32 segments, int ect)
{
	u64 now = WEIR_CLOCK();
	int verdict;

	WEIR_LOCK(&receiver->lock);
	verdict = weir_police(&receiver->policer, now, bytes, segments, ect);
	WEIR_UNLOCK(&receiver->lock);
	if (verdict == WEIR_POLICE_DROP) {
		counting->policed.dropped_bytes += bytes;
		counting->policed.dropped_packets += segments;
		return verdict;
	}
	counting->policed.bytes += bytes;
	counting->policed.packets += segments;
	if (verdict == WEIR_POLICE_MARK)
		counting->policed.marked_packets += segments;
	return verdict;
}

/*
 * Counts the ECN bits of a packet that passes, `ecn`, in `segments` packets of the service in `slot`, marks the service
 * as active since the last tick, and runs the next tick if it is due.
 */
WEIR_INLINE void weir_arrive(WEIR_HOST struct weir_counting *counting, struct weir_ecn ecn, u32 slot, u64 bytes,
			     u32 segments, int passes)
{
	struct weir_active *active = WEIR_MINE(active, 0);
	u32 word = slot / 64;
	u64 bit = 1ULL << (slot % 64);

	if (passes && ecn.capable) {
		counting->arrivals.packets += segments;
		if (ecn.marked)
			counting->arrivals.marked += segments;
	}
	if (!active)
		return;
	if (word < WEIR_ACTIVE_WORDS && !(active->words[word] & bit))
		active->words[word] |= bit;
	weir_tick_by_packet(WEIR_THIS active, bytes);
}

#endif
