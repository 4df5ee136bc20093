/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * First part of a tick: the counters of all CPUs, by service.
 *
 * Each CPU has a bitmap of the services that had packets since the last tick, so a tick visits only these. A service
 * that several CPUs received for is visited once: `visited` in struct weir_state is the union of the bitmaps.
 *
 * Source: Parley section 5.1 (per-CPU counters).
 */
#ifndef WEIR_HOST_COLLECT_H
#define WEIR_HOST_COLLECT_H

#include "host/store.h"

/* Context of the loops of one tick. */
struct weir_tick_context {
	WEIR_HOST_FIELD
	struct weir_config *config;
	struct weir_state *state;
	u64 now;
	u64 bits;  /* the remaining services of the current word */
	u64 bytes; /* received by all services since the last tick */
	u32 word;  /* index of the current word of the bitmap */
	u32 cpu;   /* the CPU whose counters are collected */
};

/* Returns the index of the lowest bit that is set. `bits` must not be 0. */
WEIR_INLINE u32 weir_lowest_bit(u64 bits)
{
	u32 at = 0;

	if (!(bits & 0xffffffff)) {
		bits >>= 32;
		at += 32;
	}
	if (!(bits & 0xffff)) {
		bits >>= 16;
		at += 16;
	}
	if (!(bits & 0xff)) {
		bits >>= 8;
		at += 8;
	}
	if (!(bits & 0xf)) {
		bits >>= 4;
		at += 4;
	}
	if (!(bits & 3)) {
		bits >>= 2;
		at += 2;
	}
	return at + !(bits & 1);
}

/*
 * Clears the lowest bit of the current word and returns its slot, or WEIR_SERVICES_MAX + 1 if the
 * word is 0.
 */
WEIR_INLINE u32 weir_next_slot(struct weir_tick_context *context)
{
	u32 bit;

	if (!context->bits)
		return WEIR_SERVICES_MAX + 1;
	bit = weir_lowest_bit(context->bits);
	context->bits &= context->bits - 1;
	return context->word * 64 + bit;
}

/* Collects the counters of one service from one CPU. */
WEIR_BODY weir_collect_slot(u32 index __attribute__((unused)), struct weir_tick_context *context)
{
	WEIR_HOST_GET(context);
	u32 slot = weir_next_slot(context);
	struct weir_counting *counting;
	struct weir_receiver *receiver;

	if (slot > WEIR_SERVICES_MAX)
		return 1;
	counting = WEIR_OF_CPU(counting, slot, context->cpu);
	receiver = WEIR_AT(receivers, slot);
	if (counting && receiver) {
		weir_tick_take(&counting->arrivals, &receiver->taken);
		weir_tick_take_policed(&counting->policed, &receiver->taken);
	}
	return 0;
}

WEIR_BODY weir_collect_word(u32 index, struct weir_tick_context *context)
{
	WEIR_HOST_GET(context);
	struct weir_active *active = WEIR_OF_CPU(active, 0, context->cpu);

	if (!active || index >= WEIR_ACTIVE_WORDS)
		return 1;
	context->bits = 0;
	if (active->words[index])
		context->bits = __sync_lock_test_and_set(&active->words[index], 0);
	if (!context->bits)
		return 0;
	context->word = index;
	context->state->visited[index] |= context->bits;
	WEIR_LOOP(64, weir_collect_slot, context);
	return 0;
}

WEIR_BODY weir_collect_cpu(u32 index, struct weir_tick_context *context)
{
	WEIR_HOST_GET(context);

	context->cpu = index;
	WEIR_LOOP(WEIR_WORDS(), weir_collect_word, context);
	return 0;
}

#endif
