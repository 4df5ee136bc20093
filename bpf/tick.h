/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Ticks of an interface: collect the counters of all CPUs, run the rate law, publish the rates.
 *
 * Problem: the law must run every 200 us on one CPU at a time, also while the agent is not running.
 * A timer with that interval would cost more than the rest of the datapath, also on an idle host
 * (docs/design/ticks.md).
 *
 * Approach: packets run the ticks. These are packets that arrive and, with htb, packets that leave
 * towards a receiver that sends feedback. The first packet that finds a tick due runs it (tick_at),
 * before feedback for that packet is considered. Without packets no tick is necessary, which the
 * meters allow for (datapath/receive_tick.h). A tick visits only services that had packets since
 * the last one: each CPU has a bitmap of them. The order of the steps is given in
 * datapath/receive_tick.h.
 *
 * A packet reads the clock only if its CPU has received WEIR_CLOCK_BYTES since the last reading, or
 * if jiffies have changed (tick_by_packet). A tick is late by those bytes at most, a few percent of
 * a measurement window of four bursts.
 *
 * A kernel timer remains, with absolute expiry times, so that delays do not accumulate. It runs
 * every 10 ms with htb, and every tick with edt:
 *
 *   - It runs a tick if one is due, for packets that were counted before a pause.
 *   - It checks the agent's heartbeat. After the timeout, brokers' limits no longer apply and the
 *     static policy is in force (fallback), until the heartbeat resumes.
 *   - With edt, it shares the sending capacity among services (share_sending).
 *
 * Kernels before 6.4 have no absolute timers. There each run computes the time until the next one.
 *
 * Source: ours; the law and its interval are those of datapath/rate_law.h.
 */
#ifndef WEIR_TICK_H
#define WEIR_TICK_H

#include "map_access.h"

#ifndef BPF_F_TIMER_ABS
#define BPF_F_TIMER_ABS 1
#endif
#define WEIR_CLOCK_MONOTONIC 1
/* ns between two runs of the timer where packets run the ticks (htb) */
#define WEIR_TIMER_INTERVAL 10000000ULL
/* ns without ticks after which another backend may have been in force: a hundred intervals. */
#define WEIR_TICK_PAUSE (100 * WEIR_TIMER_INTERVAL)
/* Bytes of levels that may wait in front of the interface: about the queue of a level. */
#define WEIR_UNCHARGED_MAX (1ULL << 20)
/*
 * Bytes after which a CPU reads the clock again: reading it takes 40 ns, and a complete packet 60
 * ns.
 */
#define WEIR_CLOCK_BYTES 10000
/* Bytes that each packet counts towards WEIR_CLOCK_BYTES in addition to its length. */
#define WEIR_CLOCK_PACKET_BYTES 512

/* Context of the loops of one tick. */
struct tick_context {
	struct weir_config *config;
	struct weir_state *state;
	u64 now;
	u64 bits;  /* the remaining services of the current word */
	u64 bytes; /* received by all services since the last tick */
	u32 word;  /* index of the current word of the bitmap */
	u32 cpu;   /* the CPU whose counters are collected */
};

/* Returns the index of the lowest bit that is set. `bits` must not be 0. */
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

/*
 * Clears the lowest bit of the current word and returns its slot, or WEIR_SERVICES_MAX + 1 if the
 * word is 0.
 */
static __always_inline u32 next_slot(struct tick_context *context)
{
	u32 bit;

	if (!context->bits)
		return WEIR_SERVICES_MAX + 1;
	bit = lowest_bit(context->bits);
	context->bits &= context->bits - 1;
	return context->word * 64 + bit;
}

/* Collects the counters of one service from one CPU. */
static long collect_slot(u32 index __attribute__((unused)), struct tick_context *context)
{
	u32 slot = next_slot(context);
	struct weir_counting *counting;
	struct weir_receiver *receiver;

	if (slot > WEIR_SERVICES_MAX)
		return 1;
	counting = bpf_map_lookup_percpu_elem(&weir_counting, &slot, context->cpu);
	receiver = bpf_map_lookup_elem(&weir_receivers, &slot);
	if (counting && receiver) {
		weir_tick_take(&counting->arrivals, &receiver->taken);
		weir_tick_take_policed(&counting->policed, &receiver->taken);
	}
	return 0;
}

static long collect_word(u32 index, struct tick_context *context)
{
	u32 key = 0;
	struct weir_active *active = bpf_map_lookup_percpu_elem(&weir_active, &key, context->cpu);

	if (!active || index >= WEIR_ACTIVE_WORDS)
		return 1;
	context->bits = 0;
	if (active->words[index])
		context->bits = __sync_lock_test_and_set(&active->words[index], 0);
	if (!context->bits)
		return 0;
	context->word = index;
	context->state->visited[index] |= context->bits;
	bpf_loop(64, collect_slot, context, 0);
	return 0;
}

static long collect_cpu(u32 index, struct tick_context *context)
{
	context->cpu = index;
	bpf_loop(WEIR_ACTIVE_WORDS, collect_word, context, 0);
	return 0;
}

/*
 * Returns the limit for what a service receives, in bit/s: the brokers', or that of the static
 * policy during fallback; 0 is unlimited.
 */
static __always_inline u64 receive_limit(const struct weir_state *state, const struct weir_service *service)
{
	return state->fallback ? service->rx_static : service->rx_limit;
}

/* Returns the lower of two limits, of which 0 is unlimited. */
static __always_inline u64 lower_limit(u64 one, u64 other)
{
	if (!one || !other)
		return one + other;
	return one < other ? one : other;
}

/* Returns 1 if the slot's meter belonged to another service, or to none. */
static __always_inline int is_other_service(const struct weir_receiver *receiver, const struct weir_service *service)
{
	return !receiver->generation || receiver->name[0] != service->name[0] ||
	       receiver->name[1] != service->name[1] || receiver->name[2] != service->name[2] ||
	       receiver->name[3] != service->name[3];
}

/* Step 1: records which marks and which rates matter to the interface meter. */
static long note_marks_slot(u32 index __attribute__((unused)), struct tick_context *context)
{
	u32 slot = next_slot(context);
	struct weir_receiver *receiver;
	struct weir_service *service;
	u64 limit, committed, bytes;

	if (slot > WEIR_SERVICES_MAX)
		return 1;
	receiver = bpf_map_lookup_elem(&weir_receivers, &slot);
	if (!receiver)
		return 0;
	bytes = receiver->taken.bytes + receiver->taken.stranger_bytes;
	/* What the policer dropped has crossed the interface, too. */
	context->bytes += bytes + receiver->taken.dropped_bytes;
	service = bpf_map_lookup_elem(&weir_services, &slot);
	if (!service || !service->known)
		return 0;
	limit = receive_limit(context->state, service);
	committed = limit && limit < service->committed ? limit : service->committed;
	weir_interface_meter_reach(&context->state->receiving, &receiver->meter, context->now, bytes,
				   context->config->sharing, service->rx_min, lower_limit(limit, service->rx_max),
				   service->rx_weight);
	weir_tick_marks(&context->state->receiving, &receiver->meter, receiver->taken.packets, receiver->taken.marked,
			committed);
	return 0;
}

/*
 * Steps 3 to 5: sets the service's current capacity and runs its meter. `bytes` is what all
 * services received in this tick. A global function, which the verifier checks once.
 */
__noinline int meter_at(u32 slot, u64 now, u64 bytes)
{
	u32 zero = 0;
	struct weir_config *config = bpf_map_lookup_elem(&weir_config, &zero);
	struct weir_state *state = bpf_map_lookup_elem(&weir_states, &zero);
	struct weir_receiver *receiver = bpf_map_lookup_elem(&weir_receivers, &slot);
	struct weir_service *service = bpf_map_lookup_elem(&weir_services, &slot);
	u64 share, limit, counted;
	int other = 0;

	if (!config || !state || !receiver || !service)
		return 0;
	share = weir_interface_meter_capacity_of(&state->receiving, config->sharing, service->rx_min, service->rx_max,
						 service->rx_weight);
	limit = lower_limit(receive_limit(state, service), service->rx_max);
	if (receiver->generation != service->generation) {
		other = is_other_service(receiver, service);
		if (other) {
			weir_receive_meter_init(&receiver->meter, now, &service->law, lower_limit(share, limit),
						service->feedback_bytes, service->feedback_interval, slot);
			/* A new service was idle until now: as after any long pause, R = C. */
			receiver->meter.rate = receiver->meter.capacity;
			receiver->meter.drained = receiver->meter.capacity;
			receiver->meter.beside = state->receiving.received - bytes;
		}
		__builtin_memcpy(receiver->name, service->name, sizeof(service->name));
		weir_law_set(&receiver->meter.law, &service->law);
		receiver->generation = service->generation;
	}
	if (limit && limit <= share)
		weir_receive_meter_set_capacity(&receiver->meter, limit, 0);
	else
		weir_receive_meter_set_capacity(&receiver->meter, share, 1);
	weir_tick_set_interval(&receiver->meter, service->law.interval, config->grain);
	bpf_spin_lock(&receiver->lock);
	if (other)
		weir_policer_clear(&receiver->policer);
	counted = weir_tick_policer(&receiver->policer, now, limit, receiver->meter.law.interval, config->tick / 2,
				    &receiver->taken);
	bpf_spin_unlock(&receiver->lock);
	weir_tick_meter(&state->receiving, &receiver->meter, now, counted, receiver->taken.packets,
			receiver->taken.marked, config->tick / 2);
	return 0;
}

static long meter_slot(u32 index __attribute__((unused)), struct tick_context *context)
{
	u32 slot = next_slot(context);
	struct weir_receiver *receiver;
	struct weir_service *service;
	struct weir_taken none = {};

	if (slot > WEIR_SERVICES_MAX)
		return 1;
	receiver = bpf_map_lookup_elem(&weir_receivers, &slot);
	if (!receiver)
		return 0;
	/* Unclassified traffic has no meter. It only counts at the interface. */
	service = bpf_map_lookup_elem(&weir_services, &slot);
	if (service && service->known)
		meter_at(slot, context->now, context->bytes);
	receiver->taken = none;
	return 0;
}

static long note_marks_word(u32 index, struct tick_context *context)
{
	if (index >= WEIR_ACTIVE_WORDS)
		return 1;
	context->word = index;
	context->bits = context->state->visited[index];
	if (context->bits)
		bpf_loop(64, note_marks_slot, context, 0);
	return 0;
}

static long meter_word(u32 index, struct tick_context *context)
{
	if (index >= WEIR_ACTIVE_WORDS)
		return 1;
	context->word = index;
	context->bits = context->state->visited[index];
	context->state->visited[index] = 0;
	if (context->bits)
		bpf_loop(64, meter_slot, context, 0);
	return 0;
}

/* Enters or leaves fallback to the static policy, depending on the age of the agent's heartbeat. */
static __always_inline void check_heartbeat(struct weir_config *config, struct weir_state *state, u64 now)
{
	u32 key = 0;
	u64 *heartbeat = bpf_map_lookup_elem(&weir_heartbeat, &key);
	u64 last = heartbeat ? *(volatile u64 *)heartbeat : 0;
	u32 expired = config->timeout && now > last && now - last > config->timeout;

	if (expired && !state->fallback)
		state->fallbacks += 1;
	if (expired != state->fallback)
		state->fallback = expired;
}

/*
 * edt: charges the bytes that have left on latency levels since the last tick, with their framing, to the interface.
 * After a pause of ticks, in which another backend can have been in force, only the counters are brought up to date.
 */
static __always_inline void charge_levels(const struct weir_config *config, struct weir_state *state,
					  struct weir_interface_egress *egress, u64 now)
{
	u32 key = 0, index, charges = now < state->charged_at + WEIR_TICK_PAUSE;
	struct weir_pacing *pacing = bpf_map_lookup_elem(&weir_pacings, &key);
	u64 bytes = 0, departed, most, elapsed = now > state->charged_at ? now - state->charged_at : 0;

	if (!pacing)
		return;
	/* Unbounded levels may let more leave than the interface carries: the rest waits in front of it. */
	most = charges ? pacing->rate / 8000 * elapsed / 1000000 : 0;
	if (charges && pacing->rate && !most)
		return;
	state->charged_at = now;
	for (index = 0; index < WEIR_LEVELS_MAX; index++) {
		struct weir_level_rules *rules;
		struct weir_level_state *level;

		key = index;
		rules = bpf_map_lookup_elem(&weir_level_rules, &key);
		level = bpf_map_lookup_elem(&weir_level_states, &key);
		if (index >= config->levels || !rules || !level)
			break;
		bpf_spin_lock(&level->lock);
		departed = weir_level_departed(&level->level, rules, now);
		bpf_spin_unlock(&level->lock);
		if (departed > level->charged) {
			bytes += departed - level->charged;
			level->charged = departed;
		}
	}
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
	bpf_spin_lock(&egress->lock);
	weir_machine_egress_levels(&egress->machine, pacing, now, bytes);
	bpf_spin_unlock(&egress->lock);
}

/* edt: runs the tick of the sending side, which sets services' committed rates (departure.h). */
static __always_inline void share_sending(struct weir_config *config, struct weir_state *state, u64 now)
{
	u32 key = WEIR_SIDE_SENDING;
	struct weir_interface *desired = bpf_map_lookup_elem(&weir_interfaces, &key);
	struct weir_interface_egress *egress;
	u64 bytes, newcomers;

	key = 0;
	egress = bpf_map_lookup_elem(&weir_interface_egresses, &key);
	if (!desired || !egress)
		return;
	if (state->sending_generation != desired->generation) {
		weir_interface_meter_init(&state->sending, now, &desired->law, desired->capacity, desired->lightest,
					  desired->total, desired->minima, desired->saturated_rate, desired->weighs);
		state->sending_generation = desired->generation;
	}
	if (config->levels)
		charge_levels(config, state, egress, now);
	bytes = *(volatile u64 *)&egress->machine.committed;
	newcomers = *(volatile u64 *)&egress->machine.newcomers;
	weir_sending_tick(&state->sending, now, bytes - state->taken, newcomers != state->newcomers, config->tick / 2);
	state->taken = bytes;
	state->newcomers = newcomers;
}

/* Collects the counters of all CPUs and runs the meters of the interface and its services. */
static __always_inline void collect_and_run(struct weir_config *config, struct weir_interface *desired,
					    struct weir_state *state, u64 now)
{
	struct tick_context context = {};

	context.config = config;
	context.state = state;
	context.now = now;
	if (state->generation != desired->generation) {
		weir_interface_meter_init(&state->receiving, now, &desired->law, desired->capacity, desired->lightest,
					  desired->total, desired->minima, desired->saturated_rate, desired->weighs);
		state->generation = desired->generation;
	}
	bpf_loop(config->cpus, collect_cpu, &context, 0);
	bpf_loop(WEIR_ACTIVE_WORDS, note_marks_word, &context, 0);
	if (context.bytes)
		weir_tick_interface(&state->receiving, now, context.bytes, config->tick / 2);
	bpf_loop(WEIR_ACTIVE_WORDS, meter_word, &context, 0);
}

/*
 * Runs a tick if one is due at `now` and no other CPU is running one. A global function, which the
 * verifier checks once: inlined, it would be checked for each path that leads to it.
 */
__noinline int tick_at(u64 now)
{
	u32 zero = 0;
	struct weir_config *config = bpf_map_lookup_elem(&weir_config, &zero);
	struct weir_interface *desired = bpf_map_lookup_elem(&weir_interfaces, &zero);
	struct weir_state *state = bpf_map_lookup_elem(&weir_states, &zero);
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
			collect_and_run(config, desired, state, now);
	}
	__sync_lock_test_and_set(&state->ticking, 0);
	return 0;
}

/* Counts a packet of `bytes`. Runs a tick if one is due, unless the clock was read recently. */
static __always_inline void tick_by_packet(struct weir_active *active, u64 bytes)
{
	u64 jiffies = WEIR_JIFFIES();

	active->unclocked_bytes += bytes + WEIR_CLOCK_PACKET_BYTES;
	if (active->unclocked_bytes < WEIR_CLOCK_BYTES && active->jiffies == jiffies)
		return;
	active->unclocked_bytes = 0;
	active->jiffies = jiffies;
	tick_at(WEIR_CLOCK());
}

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
	check_heartbeat(config, state, now);
	tick_at(now);
	next = WEIR_TIMER_INTERVAL;
	if (paces(config)) {
		share_sending(config, state, now);
		next = config->tick;
	}
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
