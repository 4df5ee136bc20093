/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Second part of a tick: the meters of the receiving side, in the order of receive_tick.h.
 *
 *   1. weir_note_marks_slot()  for each visited service: the marks and the rates that matter to the interface meter
 *   2. weir_tick_interface()   once, with the bytes of all services
 *   3. weir_meter_at()         for each visited service: its current capacity, its policer, its meter
 *
 * The slot of unclassified traffic has no meter. Its bytes count at the interface.
 */
#ifndef WEIR_HOST_METERS_H
#define WEIR_HOST_METERS_H

#include "host/collect.h"
#include "host/fallback.h"

/* Returns 1 if the slot's meter belonged to another service, or to none. */
WEIR_INLINE int weir_is_other_service(const struct weir_receiver *receiver, const struct weir_service *service)
{
	return !receiver->generation || receiver->name[0] != service->name[0] ||
	       receiver->name[1] != service->name[1] || receiver->name[2] != service->name[2] ||
	       receiver->name[3] != service->name[3];
}

/* Step 1: records which marks and which rates matter to the interface meter. */
WEIR_BODY weir_note_marks_slot(u32 index __attribute__((unused)), struct weir_tick_context *context)
{
	WEIR_HOST_GET(context);
	u32 slot = weir_next_slot(context);
	struct weir_receiver *receiver;
	struct weir_service *service;
	u64 limit, committed, bytes;

	if (slot > WEIR_SERVICES_MAX)
		return 1;
	receiver = WEIR_AT(receivers, slot);
	if (!receiver)
		return 0;
	bytes = receiver->taken.bytes + receiver->taken.stranger_bytes;
	/* What the policer dropped has crossed the interface, too. */
	context->bytes += bytes + receiver->taken.dropped_bytes;
	service = WEIR_AT(services, slot);
	if (!service || !service->known)
		return 0;
	limit = weir_receive_limit(context->state, service);
	committed = limit && limit < service->committed ? limit : service->committed;
	weir_interface_meter_reach(&context->state->receiving, &receiver->meter, context->now, bytes,
				   context->config->sharing, service->rx_min,
				   weir_lower_limit(limit, service->rx_max), service->rx_weight);
	weir_tick_marks(&context->state->receiving, &receiver->meter, receiver->taken.packets, receiver->taken.marked,
			committed);
	return 0;
}

/*
 * Step 3: sets the service's current capacity and runs its meter. `bytes` is what all
 * services received in this tick.
 */
WEIR_ONCE int weir_meter_at(WEIR_HOST u32 slot, u64 now, u64 bytes)
{
	struct weir_config *config = WEIR_AT(config, 0);
	struct weir_state *state = WEIR_AT(states, 0);
	struct weir_receiver *receiver = WEIR_AT(receivers, slot);
	struct weir_service *service = WEIR_AT(services, slot);
	u64 share, limit, counted;
	int other = 0;

	if (!config || !state || !receiver || !service)
		return 0;
	share = weir_interface_meter_capacity_of(&state->receiving, config->sharing, service->rx_min, service->rx_max,
						 service->rx_weight);
	limit = weir_lower_limit(weir_receive_limit(state, service), service->rx_max);
	if (receiver->generation != service->generation) {
		other = weir_is_other_service(receiver, service);
		if (other) {
			weir_receive_meter_init(&receiver->meter, now, &service->law, weir_lower_limit(share, limit));
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
	WEIR_LOCK(&receiver->lock);
	if (other)
		weir_policer_clear(&receiver->policer);
	counted = weir_tick_policer(&receiver->policer, now, limit, receiver->meter.law.interval, config->tick / 2,
				    &receiver->taken);
	WEIR_UNLOCK(&receiver->lock);
	weir_tick_meter(&state->receiving, &receiver->meter, now, counted, receiver->taken.packets,
			receiver->taken.marked, config->tick / 2);
	return 0;
}

WEIR_BODY weir_meter_slot(u32 index __attribute__((unused)), struct weir_tick_context *context)
{
	WEIR_HOST_GET(context);
	u32 slot = weir_next_slot(context);
	struct weir_receiver *receiver;
	struct weir_service *service;
	struct weir_taken none = {};

	if (slot > WEIR_SERVICES_MAX)
		return 1;
	receiver = WEIR_AT(receivers, slot);
	if (!receiver)
		return 0;
	service = WEIR_AT(services, slot);
	if (service && service->known)
		weir_meter_at(WEIR_THIS slot, context->now, context->bytes);
	receiver->taken = none;
	return 0;
}

WEIR_BODY weir_note_marks_word(u32 index, struct weir_tick_context *context)
{
	if (index >= WEIR_ACTIVE_WORDS)
		return 1;
	context->word = index;
	context->bits = context->state->visited[index];
	if (context->bits)
		WEIR_LOOP(64, weir_note_marks_slot, context);
	return 0;
}

WEIR_BODY weir_meter_word(u32 index, struct weir_tick_context *context)
{
	if (index >= WEIR_ACTIVE_WORDS)
		return 1;
	context->word = index;
	context->bits = context->state->visited[index];
	context->state->visited[index] = 0;
	if (context->bits)
		WEIR_LOOP(64, weir_meter_slot, context);
	return 0;
}

/* Collects the counters of all CPUs and runs the meters of the interface and its services. */
WEIR_INLINE void weir_collect_and_run(WEIR_HOST struct weir_config *config, struct weir_interface *desired,
				      struct weir_state *state, u64 now)
{
	struct weir_tick_context context = {};

	WEIR_HOST_SET(&context);
	context.config = config;
	context.state = state;
	context.now = now;
	if (state->generation != desired->generation) {
		weir_interface_meter_init(&state->receiving, now, &desired->law, desired->capacity, desired->lightest,
					  desired->total, desired->minima, desired->saturated_rate, desired->weighs);
		state->generation = desired->generation;
	}
	WEIR_LOOP(config->cpus, weir_collect_cpu, &context);
	WEIR_LOOP(WEIR_WORDS(), weir_note_marks_word, &context);
	if (context.bytes)
		weir_tick_interface(&state->receiving, now, context.bytes, config->tick / 2);
	WEIR_LOOP(WEIR_WORDS(), weir_meter_word, &context);
}

#endif
