/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Stage of a packet on a latency level: the level's regulator (datapath/level.h), which all services of the level on
 * this host and all CPUs share. No limiter of a service or destination applies: the level's rate is its limit.
 */
#ifndef WEIR_HOST_REGULATE_H
#define WEIR_HOST_REGULATE_H

#include "host/store.h"

/*
 * Charges a packet of `bytes` in `segments` frames to the regulator of a level. Returns its departure by the regulator
 * in ns, or WEIR_LEVEL_DROP if too much of the level waits, which counts for the service in `slot`.
 */
WEIR_INLINE u64 weir_regulate(WEIR_HOST struct weir_level_state *state, const struct weir_level_rules *rules, u32 slot,
			      u32 bytes, u32 segments)
{
	struct weir_meter *drops = WEIR_MINE(drops, slot);
	u64 now = WEIR_CLOCK(), departure;

	WEIR_LOCK(&state->lock);
	departure = weir_level_departure(&state->level, rules, now, bytes, segments);
	WEIR_UNLOCK(&state->lock);
	if (departure == WEIR_LEVEL_DROP && drops)
		weir_meter_add(drops, bytes, 1);
	return departure;
}

#endif
