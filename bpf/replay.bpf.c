// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The programs of weir.bpf.c with a clock that a test writes.
 *
 * crates/host/linux/tests/trace.rs runs the same packets and times through these programs and through
 * the native host. Differences from weir.bpf.c: both clocks are read from weir_replay_clock, and
 * weir_replay_tick does the work of an expiry of the timer, which is never started. This object is
 * in no release.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "types.h"

/* The clocks, which the test writes before each run. */
struct weir_replay_clock {
	u64 now;     /* ns */
	u64 jiffies;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct weir_replay_clock);
} weir_replay_clock SEC(".maps");

static __always_inline u64 replay_now(void)
{
	u32 key = 0;
	struct weir_replay_clock *clock = bpf_map_lookup_elem(&weir_replay_clock, &key);

	return clock ? *(volatile u64 *)&clock->now : 0;
}

static __always_inline u64 replay_jiffies(void)
{
	u32 key = 0;
	struct weir_replay_clock *clock = bpf_map_lookup_elem(&weir_replay_clock, &key);

	return clock ? *(volatile u64 *)&clock->jiffies : 0;
}

#define WEIR_REPLAY 1
#define WEIR_CLOCK() replay_now()
#define WEIR_JIFFIES() replay_jiffies()

#include "weir.bpf.c"

/* As timer_callback (timer.h), without the next expiry: returns the ns until it, or 0 without a configuration. */
SEC("classifier")
int weir_replay_tick(struct __sk_buff *skb __attribute__((unused)))
{
	u32 key = 0;
	struct weir_config *config = bpf_map_lookup_elem(&weir_config, &key);
	struct weir_state *state = bpf_map_lookup_elem(&weir_states, &key);

	if (!config || !state)
		return 0;
	return (int)weir_tick_by_timer(config, state, WEIR_CLOCK());
}
