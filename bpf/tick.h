/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The ticks of an interface: what all CPUs have counted is taken, and the rates are computed that receivers tell.
 *
 * Problem: the law must be run every 200 us, by one CPU at a time, also while the agent is dead. A timer that runs so often costs a
 * host more than all the rest: an interrupt each time, on a virtual machine several exits too (two idle hosts with a timer of 200 us took
 * 7 to 20 % of two virtual processors from everybody else). And an idle host should sleep.
 * Approach: packets run the ticks: those that arrive, and with HTB those that leave towards a receiver that answers. The first one that finds a tick due takes it (tick_at), before it is answered itself; that
 * without packets nothing is to be done is how the meters are (datapath/receive_tick.h). It visits only services that had
 * packets, CPU by CPU, by a bit each; the order of its steps is that of datapath/receive_tick.h.
 *
 * Looking at the clock takes 40 ns where a whole packet takes 60, so packets look at it only after some kilobytes, or when the
 * scheduler's clock went on, which costs nothing to see (due). A window holds four bursts of senders; being late by those
 * kilobytes is a few parts in a hundred of it at most.
 *
 * A kernel timer remains, at absolute times, so that being late does not add up. It counts what came before a pause, and
 * watches over the agent: when that was not alive for the timeout, brokers' limits no longer hold, and HTB classes are
 * those of the static policy, until it is back. Where packets are given departure times it runs each tick, since what services send
 * is shared out then too (share_sending).
 *
 * Kernels before 6.4 have no absolute timers: there the time until the next run is reckoned anew each time.
 */
#ifndef WEIR_TICK_H
#define WEIR_TICK_H

#include "map_access.h"

#ifndef BPF_F_TIMER_ABS
#define BPF_F_TIMER_ABS 1
#endif
#define WEIR_CLOCK_MONOTONIC 1
#define WEIR_TICK_MIN 50000ULL
/* ns between two runs of the timer where packets run the ticks */
#define WEIR_TIMER_INTERVAL 10000000ULL
/* A packet looks at the clock when so many bytes have come to its CPU since one did; beside its bytes each packet counts as
 * WEIR_CLOCK_PACKET_BYTES. */
#define WEIR_CLOCK_BYTES 10000
#define WEIR_CLOCK_PACKET_BYTES 512

struct round {
	struct weir_config *config;
	struct weir_state *state;
	u64 now;
	u64 bits; /* of the word at hand */
	u64 bytes;
	u32 word;
	u32 cpu;
};

/* The lowest bit of a word that is not 0. */
static __always_inline u32 lowest_bit(u64 bits)
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

/* Takes the lowest bit of the word at hand: its slot, or WEIR_SERVICES_MAX + 1 when none is left. */
static __always_inline u32 next_slot(struct round *round)
{
	u32 bit;

	if (!round->bits)
		return WEIR_SERVICES_MAX + 1;
	bit = lowest_bit(round->bits);
	round->bits &= round->bits - 1;
	return round->word * 64 + bit;
}

/* Adds up what one CPU has counted of one service. */
static long take_slot(u32 index __attribute__((unused)), struct round *round)
{
	u32 slot = next_slot(round);
	struct weir_counting *counting;
	struct weir_receiver *receiver;

	if (slot > WEIR_SERVICES_MAX)
		return 1;
	counting = bpf_map_lookup_percpu_elem(&weir_counting, &slot, round->cpu);
	receiver = bpf_map_lookup_elem(&weir_receivers, &slot);
	if (counting && receiver)
		weir_tick_take(&counting->arrivals, &receiver->taken);
	return 0;
}

static long take_word(u32 index, struct round *round)
{
	u32 key = 0;
	struct weir_active *active = bpf_map_lookup_percpu_elem(&weir_active, &key, round->cpu);

	if (!active || index >= WEIR_ACTIVE_WORDS)
		return 1;
	round->bits = 0;
	if (active->words[index])
		round->bits = __sync_lock_test_and_set(&active->words[index], 0);
	if (!round->bits)
		return 0;
	round->word = index;
	round->state->visited[index] |= round->bits;
	bpf_loop(64, take_slot, round, 0);
	return 0;
}

static long take_cpu(u32 index, struct round *round)
{
	round->cpu = index;
	bpf_loop(WEIR_ACTIVE_WORDS, take_word, round, 0);
	return 0;
}

/* What the brokers let a service receive, while they count. */
static __always_inline u64 limit_of(const struct weir_state *state, const struct weir_service *own)
{
	return state->fallback ? 0 : own->rx_limit;
}

static __always_inline u64 smaller(u64 one, u64 other)
{
	if (!one || !other)
		return one + other;
	return one < other ? one : other;
}

/* Whether a slot's meter has counted for another service, or none. */
static __always_inline int is_another(const struct weir_receiver *receiver, const struct weir_service *own)
{
	return !receiver->generation || receiver->name[0] != own->name[0] || receiver->name[1] != own->name[1] ||
	       receiver->name[2] != own->name[2] || receiver->name[3] != own->name[3];
}

/* Step 1: whose marks count at the interface. */
static long weigh_slot(u32 index __attribute__((unused)), struct round *round)
{
	u32 slot = next_slot(round);
	struct weir_receiver *receiver;
	struct weir_service *own;
	u64 limit, committed;

	if (slot > WEIR_SERVICES_MAX)
		return 1;
	receiver = bpf_map_lookup_elem(&weir_receivers, &slot);
	if (!receiver)
		return 0;
	round->bytes += receiver->taken.bytes;
	own = bpf_map_lookup_elem(&weir_services, &slot);
	if (!own || !own->known)
		return 0;
	limit = limit_of(round->state, own);
	committed = limit && limit < own->committed ? limit : own->committed;
	weir_interface_meter_reach(&round->state->receiving, &receiver->meter, round->now, receiver->taken.bytes,
				   round->config->sharing, own->rx_min, smaller(limit, own->rx_max), own->rx_weight);
	weir_tick_marks(&round->state->receiving, &receiver->meter, receiver->taken.packets, receiver->taken.marked, committed);
	return 0;
}

/*
 * Steps 3 and 4: the service's capacity of now, and its law, in a tick that brought `bytes` of all services. A function that the verifier
 * looks at once.
 */
__noinline int meter_at(u32 slot, u64 now, u64 bytes)
{
	u32 zero = 0;
	struct weir_config *config = bpf_map_lookup_elem(&weir_config, &zero);
	struct weir_state *state = bpf_map_lookup_elem(&weir_states, &zero);
	struct weir_receiver *receiver = bpf_map_lookup_elem(&weir_receivers, &slot);
	struct weir_service *own = bpf_map_lookup_elem(&weir_services, &slot);
	u64 share, limit;

	if (!config || !state || !receiver || !own)
		return 0;
	share = weir_interface_meter_share(&state->receiving, config->sharing, own->rx_min, own->rx_max, own->rx_weight);
	limit = smaller(limit_of(state, own), own->rx_max);
	if (receiver->generation != own->generation) {
		if (is_another(receiver, own)) {
			weir_receive_meter_init(&receiver->meter, now, &own->law, smaller(share, limit), own->feedback_bytes,
						own->feedback_interval, slot);
			/* it was idle until now: as after any long pause R is C */
			receiver->meter.rate = receiver->meter.capacity;
			receiver->meter.drained = receiver->meter.capacity;
			receiver->meter.beside = state->receiving.received - bytes;
		}
		__builtin_memcpy(receiver->name, own->name, sizeof(own->name));
		weir_law_set(&receiver->meter.law, &own->law);
		receiver->generation = own->generation;
	}
	if (limit && limit <= share)
		weir_receive_meter_set_capacity(&receiver->meter, limit, 0);
	else
		weir_receive_meter_set_capacity(&receiver->meter, share, 1);
	weir_receive_meter_set_interval(&receiver->meter,
					weir_tick_interval(own->law.interval, receiver->meter.capacity, config->grain));
	weir_tick_meter(&state->receiving, &receiver->meter, now, receiver->taken.bytes, receiver->taken.packets,
			receiver->taken.marked, config->tick / 2);
	return 0;
}

static long meter_slot(u32 index __attribute__((unused)), struct round *round)
{
	u32 slot = next_slot(round);
	struct weir_receiver *receiver;
	struct weir_service *own;
	struct weir_taken none = {};

	if (slot > WEIR_SERVICES_MAX)
		return 1;
	receiver = bpf_map_lookup_elem(&weir_receivers, &slot);
	if (!receiver)
		return 0;
	/* unclassified traffic is no service: it only counts at the interface */
	own = bpf_map_lookup_elem(&weir_services, &slot);
	if (own && own->known)
		meter_at(slot, round->now, round->bytes);
	receiver->taken = none;
	return 0;
}

static long weigh_word(u32 index, struct round *round)
{
	if (index >= WEIR_ACTIVE_WORDS)
		return 1;
	round->word = index;
	round->bits = round->state->visited[index];
	if (round->bits)
		bpf_loop(64, weigh_slot, round, 0);
	return 0;
}

static long meter_word(u32 index, struct round *round)
{
	if (index >= WEIR_ACTIVE_WORDS)
		return 1;
	round->word = index;
	round->bits = round->state->visited[index];
	round->state->visited[index] = 0;
	if (round->bits)
		bpf_loop(64, meter_slot, round, 0);
	return 0;
}

/* Whether the agent is alive, and what follows where it is not. */
static __always_inline void watch(struct weir_config *config, struct weir_state *state, u64 now)
{
	u32 key = 0;
	u64 *alive = bpf_map_lookup_elem(&weir_heartbeat, &key);
	u64 seen = alive ? *(volatile u64 *)alive : 0;
	u32 dead = config->timeout && now > seen && now - seen > config->timeout;

	if (dead && !state->fallback)
		state->fallbacks += 1;
	if (dead != state->fallback)
		state->fallback = dead;
}

/* What services that send are entitled to, where packets are given departure times (departure.h). */
static __always_inline void share_sending(struct weir_config *config, struct weir_state *state, u64 now)
{
	u32 key = WEIR_SIDE_SENDING;
	struct weir_interface *wanted = bpf_map_lookup_elem(&weir_interfaces, &key);
	struct weir_interface_egress *egress;
	u64 bytes, newcomers;

	key = 0;
	egress = bpf_map_lookup_elem(&weir_interface_egresses, &key);
	if (!wanted || !egress)
		return;
	if (state->sending_generation != wanted->generation) {
		weir_interface_meter_init(&state->sending, now, &wanted->law, wanted->capacity, wanted->lightest, wanted->total,
					  wanted->minima, wanted->saturated_rate, wanted->weighs);
		state->sending_generation = wanted->generation;
	}
	bytes = *(volatile u64 *)&egress->machine.committed;
	newcomers = *(volatile u64 *)&egress->machine.newcomers;
	weir_sending_tick(&state->sending, now, bytes - state->taken, newcomers != state->newcomers, config->tick / 2);
	state->taken = bytes;
	state->newcomers = newcomers;
}

/* Takes what was counted, and computes the rates. */
static __always_inline void take(struct weir_config *config, struct weir_interface *wanted, struct weir_state *state, u64 now)
{
	struct round round = {};

	round.config = config;
	round.state = state;
	round.now = now;
	if (state->generation != wanted->generation) {
		weir_interface_meter_init(&state->receiving, now, &wanted->law, wanted->capacity, wanted->lightest,
					  wanted->total, wanted->minima, wanted->saturated_rate, wanted->weighs);
		state->generation = wanted->generation;
	}
	bpf_loop(config->cpus, take_cpu, &round, 0);
	bpf_loop(WEIR_ACTIVE_WORDS, weigh_word, &round, 0);
	if (round.bytes)
		weir_tick_interface(&state->receiving, now, round.bytes, config->tick / 2);
	bpf_loop(WEIR_ACTIVE_WORDS, meter_word, &round, 0);
}

/*
 * Runs the tick that is due at `now`, if one is and no other CPU is at one. A function that the verifier looks at once: it is otherwise
 * multiplied by all ways to get there.
 */
__noinline int tick_at(u64 now)
{
	u32 zero = 0;
	struct weir_config *config = bpf_map_lookup_elem(&weir_config, &zero);
	struct weir_interface *wanted = bpf_map_lookup_elem(&weir_interfaces, &zero);
	struct weir_state *state = bpf_map_lookup_elem(&weir_states, &zero);
	u64 due, tick;

	if (!config || !wanted || !state)
		return 0;
	if (now < *(volatile u64 *)&state->due || __sync_lock_test_and_set(&state->ticking, 1))
		return 0;
	/* another CPU may have taken it in between */
	due = *(volatile u64 *)&state->due;
	if (now >= due) {
		tick = config->tick > WEIR_TICK_MIN ? config->tick : WEIR_TICK_MIN;
		due += tick;
		*(volatile u64 *)&state->due = due > now ? due : now + tick;
		state->ticks += 1;
		if (config->enforces)
			take(config, wanted, state, now);
	}
	__sync_lock_test_and_set(&state->ticking, 0);
	return 0;
}

/* Runs the tick, if it is due by what this CPU has seen since it last looked at the clock. */
static __always_inline void tick_by_packet(struct weir_active *active, u64 bytes)
{
	u64 jiffies = bpf_jiffies64();

	active->unclocked_bytes += bytes + WEIR_CLOCK_PACKET_BYTES;
	if (active->unclocked_bytes < WEIR_CLOCK_BYTES && active->jiffies == jiffies)
		return;
	active->unclocked_bytes = 0;
	active->jiffies = jiffies;
	tick_at(bpf_ktime_get_ns());
}

/* When the run after the one that was to be at `alarm` is, at `now`; what was missed is counted. */
static __always_inline u64 next_alarm(struct weir_state *state, u64 now, u64 interval)
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

/* The timer. */
static int run(void *map __attribute__((unused)), u32 *key __attribute__((unused)), struct weir_timer *timer)
{
	u32 zero = 0;
	struct weir_config *config = bpf_map_lookup_elem(&weir_config, &zero);
	struct weir_state *state = bpf_map_lookup_elem(&weir_states, &zero);
	u64 now = bpf_ktime_get_ns(), next;

	if (!config || !state)
		return 0;
	watch(config, state, now);
	tick_at(now);
	next = WEIR_TIMER_INTERVAL;
	if (paces(config)) {
		share_sending(config, state, now);
		next = config->tick > WEIR_TICK_MIN ? config->tick : WEIR_TICK_MIN;
	}
	next = next_alarm(state, bpf_ktime_get_ns(), next);
	if (bpf_timer_start(&timer->timer, next, BPF_F_TIMER_ABS)) {
		/* the CPU may have been held up past it by now */
		now = bpf_ktime_get_ns();
		bpf_timer_start(&timer->timer, next > now ? next - now : 0, 0);
	}
	return 0;
}

/* Starts the timer, or hands it over from the programs of an earlier agent. 0 when it runs. */
static __always_inline int start(void)
{
	u32 zero = 0;
	struct weir_timer *timer = bpf_map_lookup_elem(&weir_timers, &zero);
	struct weir_state *state = bpf_map_lookup_elem(&weir_states, &zero);
	long failed;

	if (!timer || !state)
		return 1;
	/* -EBUSY: it is there already */
	failed = bpf_timer_init(&timer->timer, &weir_timers, WEIR_CLOCK_MONOTONIC);
	if (failed && failed != -16)
		return 2;
	if (bpf_timer_set_callback(&timer->timer, run))
		return 3;
	state->alarm = bpf_ktime_get_ns();
	if (bpf_timer_start(&timer->timer, 0, 0))
		return 4;
	return 0;
}

#endif
