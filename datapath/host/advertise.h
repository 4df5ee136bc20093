/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Last stage of a packet that arrives: whether its sender gets feedback, and of which rate.
 *
 * Reading the clock takes 40 ns, and a complete packet 60 ns. So most packets use the time at which
 * the next tick is due (state->due) instead of the clock to decide whether feedback is due. That
 * time is ahead of the clock. It is behind the clock, by at most one jiffy, only if less than
 * WEIR_CLOCK_BYTES have arrived since (tick.h). Feedback to a sender of so little traffic may be
 * late by one jiffy, unless the sender requests feedback.
 *
 * Source: Parley section 3.2.1 (feedback per 10 kB).
 */
#ifndef WEIR_HOST_ADVERTISE_H
#define WEIR_HOST_ADVERTISE_H

#include "host/store.h"

/* Feedback that is due to a sender. */
struct weir_advertisement {
	u64 rate; /* bit/s; 0: no feedback is due */
	u64 now;  /* ns */
};

/*
 * Returns 1 if this CPU may serve one more feedback request before the tick at `due`
 * (WEIR_REQUESTS_MAX).
 */
WEIR_INLINE int weir_admit_request(WEIR_HOST u64 due)
{
	struct weir_active *active = WEIR_MINE(active, 0);

	if (!active)
		return 0;
	if (active->requests_tick != due) {
		active->requests_tick = due;
		active->requests = 0;
	}
	if (active->requests >= WEIR_REQUESTS_MAX) {
		WEIR_COUNT(requests_limited);
		return 0;
	}
	active->requests += 1;
	return 1;
}

/*
 * Returns the rate that the sender of a packet of `bytes` is to receive as feedback, if feedback is due or `requested`
 * by the packet. It is not sent if it repeats (weir_is_repeated).
 */
WEIR_INLINE struct weir_advertisement weir_advertise(WEIR_HOST struct weir_counting *counting,
						     const struct weir_receiver *receiver,
						     const struct weir_service *settings, int requested, u64 bytes)
{
	struct weir_state *state = WEIR_AT(states, 0);
	struct weir_advertisement none = {}, found = {};

	if (!state)
		return none;
	found.rate = *(volatile u64 *)&receiver->meter.rate;
	if (!found.rate)
		return none;
	counting->sampler.bytes = settings->feedback_bytes;
	counting->sampler.interval = settings->feedback_interval;
	if (!requested && weir_feedback_not_due(&counting->sampler, *(volatile u64 *)&state->due, bytes))
		return none;
	found.now = WEIR_CLOCK();
	if (!weir_feedback_due(&counting->sampler, found.now, bytes) &&
	    (!requested || !weir_admit_request(WEIR_THIS *(volatile u64 *)&state->due)))
		return none;
	return found;
}

/*
 * Returns 1 if the rate was advertised to the sender of a packet from `source` to `destination` recently
 * (WEIR_ADVERTISED_HOLD, with backoff: weir_feedback_repeats). Otherwise records the advertisement. This also applies
 * to a sender that requests feedback: it has the rate, unless the earlier feedback was lost.
 */
WEIR_INLINE int weir_is_repeated(WEIR_HOST const u64 source[2], const u64 destination[2], u32 slot,
				 const struct weir_service *settings, struct weir_advertisement due)
{
	u32 index = weir_advertised_slot(source, destination, slot, WEIR_ADVERTISED_SLOTS);
	struct weir_advertised *advertised = WEIR_MINE(advertised, index);

	return advertised && weir_feedback_repeats(advertised, source, destination, slot, due.rate, due.now,
						   WEIR_ADVERTISED_HOLD * settings->feedback_interval);
}

#endif
