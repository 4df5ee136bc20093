/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The timer of an interface's ticks (datapath/host/tick.h): a kernel timer with absolute expiry times, so that delays
 * do not accumulate. Kernels before 6.4 have none. There each run computes the time until the next one.
 *
 * Source: kernel documentation of bpf_timer_start (BPF_F_TIMER_ABS).
 */
#ifndef WEIR_TIMER_H
#define WEIR_TIMER_H

#include "map_access.h"

#ifndef BPF_F_TIMER_ABS
#define BPF_F_TIMER_ABS 1
#endif
#define WEIR_CLOCK_MONOTONIC 1

/* Returns the time of the timer's next run, and counts the runs that were missed by `now`. */
static __always_inline u64 next_expiry(struct weir_state *state, u64 now, u64 interval)
{
	u64 next = state->alarm + interval;

	if (next <= now) {
		u64 missed = (now - state->alarm) / interval;

		state->late += missed;
		next = state->alarm + (missed + 1) * interval;
	}
	state->alarm = next;
	return next;
}

/* Callback of the timer: checks the heartbeat, runs due ticks and sets the next expiry. */
static int timer_callback(void *map __attribute__((unused)), u32 *key __attribute__((unused)), struct weir_timer *timer)
{
	u32 zero = 0;
	struct weir_config *config = bpf_map_lookup_elem(&weir_config, &zero);
	struct weir_state *state = bpf_map_lookup_elem(&weir_states, &zero);
	u64 now = WEIR_CLOCK(), next;

	if (!config || !state)
		return 0;
	next = weir_tick_by_timer(config, state, now);
	next = next_expiry(state, WEIR_CLOCK(), next);
	if (bpf_timer_start(&timer->timer, next, BPF_F_TIMER_ABS)) {
		/* Absolute timers are not supported. The expiry may already be in the past. */
		now = WEIR_CLOCK();
		bpf_timer_start(&timer->timer, next > now ? next - now : 0, 0);
	}
	return 0;
}

/*
 * Starts the timer, or takes it over from the programs of an earlier agent. Returns 0 on success,
 * else the number of the step that failed.
 */
static __always_inline int start_timer(void)
{
	u32 zero = 0;
	struct weir_timer *timer = bpf_map_lookup_elem(&weir_timers, &zero);
	struct weir_state *state = bpf_map_lookup_elem(&weir_states, &zero);
	long failed;

	if (!timer || !state)
		return 1;
	/* -EBUSY: the timer is already initialized. */
	failed = bpf_timer_init(&timer->timer, &weir_timers, WEIR_CLOCK_MONOTONIC);
	if (failed && failed != -16)
		return 2;
	if (bpf_timer_set_callback(&timer->timer, timer_callback))
		return 3;
	state->alarm = WEIR_CLOCK();
	if (bpf_timer_start(&timer->timer, 0, 0))
		return 4;
	return 0;
}

#endif
