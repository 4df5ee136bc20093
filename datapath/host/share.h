/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Part of the timer (edt): the committed shares of the sending side (departure.h).
 *
 * Levels leave by a queue of their own. A tick charges the bytes that have left on them to the interface's limiter, so
 * that excess packets of services wait for them.
 */
#ifndef WEIR_HOST_SHARE_H
#define WEIR_HOST_SHARE_H

#include "host/store.h"

/* ns without ticks after which another backend may have been in force: a hundred of its intervals (tick.h). */
#define WEIR_TICK_PAUSE 1000000000ULL
/* Bytes of levels that may wait in front of the interface: about the queue of a level. */
#define WEIR_UNCHARGED_MAX (1ULL << 20)

/* Returns the bytes that have left on levels and are not charged yet, and counts them as charged. */
WEIR_INLINE u64 weir_left_on_levels(WEIR_HOST const struct weir_config *config, u64 now)
{
	u64 bytes = 0, departed;
	u32 index;

	for (index = 0; index < WEIR_LEVELS_MAX; index++) {
		struct weir_level_rules *rules = WEIR_AT(level_rules, index);
		struct weir_level_state *level = WEIR_AT(level_states, index);

		if (index >= config->levels || !rules || !level)
			break;
		WEIR_LOCK(&level->lock);
		departed = weir_level_departed(&level->level, rules, now);
		WEIR_UNLOCK(&level->lock);
		if (departed > level->charged) {
			bytes += departed - level->charged;
			level->charged = departed;
		}
	}
	return bytes;
}

/*
 * Charges the bytes that have left on latency levels since the last tick, with their framing, to the interface.
 * After a pause of ticks, in which another backend can have been in force, only the counters are brought up to date.
 */
WEIR_INLINE void weir_charge_levels(WEIR_HOST const struct weir_config *config, struct weir_state *state,
				    struct weir_interface_egress *egress, u64 now)
{
	u32 charges = now < state->charged_at + WEIR_TICK_PAUSE;
	struct weir_pacing *pacing = WEIR_AT(pacings, 0);
	u64 bytes, most, elapsed = now > state->charged_at ? now - state->charged_at : 0;

	if (!pacing)
		return;
	/* Unbounded levels may let more leave than the interface carries: the rest waits in front of it. */
	most = charges ? pacing->rate / 8000 * elapsed / 1000000 : 0;
	if (charges && pacing->rate && !most)
		return;
	state->charged_at = now;
	bytes = weir_left_on_levels(WEIR_THIS config, now);
	if (!charges) {
		state->uncharged = 0;
		return;
	}
	bytes += state->uncharged;
	if (!bytes)
		return;
	state->uncharged = pacing->rate && bytes > most ? bytes - most : 0;
	bytes -= state->uncharged;
	if (state->uncharged > WEIR_UNCHARGED_MAX)
		state->uncharged = WEIR_UNCHARGED_MAX;
	WEIR_LOCK(&egress->lock);
	weir_machine_egress_levels(&egress->machine, pacing, now, bytes);
	WEIR_UNLOCK(&egress->lock);
}

/* Runs the tick of the sending side, which sets services' committed rates. */
WEIR_INLINE void weir_share_sending(WEIR_HOST struct weir_config *config, struct weir_state *state, u64 now)
{
	struct weir_interface *desired = WEIR_AT(interfaces, WEIR_SIDE_SENDING);
	struct weir_interface_egress *egress = WEIR_AT(interface_egresses, 0);
	u64 bytes, newcomers;

	if (!desired || !egress)
		return;
	if (state->sending_generation != desired->generation) {
		weir_interface_meter_init(&state->sending, now, &desired->law, desired->capacity, desired->lightest,
					  desired->total, desired->minima, desired->saturated_rate, desired->weighs);
		state->sending_generation = desired->generation;
	}
	if (config->levels)
		weir_charge_levels(WEIR_THIS config, state, egress, now);
	bytes = *(volatile u64 *)&egress->machine.committed;
	newcomers = *(volatile u64 *)&egress->machine.newcomers;
	weir_sending_tick(&state->sending, now, bytes - state->taken, newcomers != state->newcomers, config->tick / 2);
	state->taken = bytes;
	state->newcomers = newcomers;
}

#endif
