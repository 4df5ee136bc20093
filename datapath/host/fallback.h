/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Fallback to the static policy while the agent is not alive, and the limits in force.
 *
 * The agent writes the time of its heartbeat. An expiry of the timer that finds it older than `timeout` makes the
 * static policy apply, and one that finds it recent ends that. Brokers' limits apply while the heartbeat is recent.
 *
 * Worked example: a timeout of 5 s, the last heartbeat at 10 s. The first expiry after 15 s enters fallback: a service
 * that brokers limit to 2 Gb/s is limited by its `static_limit`.
 *
 * Source: Parley section 5.2.
 */
#ifndef WEIR_HOST_FALLBACK_H
#define WEIR_HOST_FALLBACK_H

#include "host/store.h"

/* Enters or leaves fallback, depending on the age of the agent's heartbeat. */
WEIR_INLINE void weir_check_heartbeat(WEIR_HOST struct weir_config *config, struct weir_state *state, u64 now)
{
	u64 *heartbeat = WEIR_AT(heartbeat, 0);
	u64 last = heartbeat ? *(volatile u64 *)heartbeat : 0;
	u32 expired = config->timeout && now > last && now - last > config->timeout;

	if (expired && !state->fallback)
		state->fallbacks += 1;
	if (expired != state->fallback)
		state->fallback = expired;
}

/*
 * Returns the limit for what a service receives, in bit/s: the brokers', or that of the static
 * policy during fallback; 0 is unlimited.
 */
WEIR_INLINE u64 weir_receive_limit(const struct weir_state *state, const struct weir_service *service)
{
	return state->fallback ? service->rx_static : service->rx_limit;
}

/* Returns the lower of two limits, of which 0 is unlimited. */
WEIR_INLINE u64 weir_lower_limit(u64 one, u64 other)
{
	if (!one || !other)
		return one + other;
	return one < other ? one : other;
}

#endif
