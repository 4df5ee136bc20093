/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * A host's datapath as a state machine without input and output: decisions about packets that leave or arrive, about
 * feedback, and the work of ticks.
 *
 * Two shells call the stages in this order. They find the service, the destination and the ECN bits of a packet, and
 * carry out the decisions:
 *
 *   bpf/weir.bpf.c   parses frames, looks up maps, rewrites headers, sets times and classes. Its order is that of the
 *                    functions below; it does not call them, since header work lies between the stages.
 *   weir_datapath::Host, Hosts
 *                    call the functions below, with packets that have no headers. Hosts has the tables of all hosts of
 *                    a simulation, and calls weir_host_send, weir_host_receive and weir_host_timer.
 *
 *   weir_host_send      regulate.h | towards.h -> depart.h         => leaves at once, at a time, or never
 *   weir_host_receive   arrive.h -> tick.h -> advertise.h          => dropped, marked; feedback to the sender
 *   weir_host_feedback  apply.h                                    => newer than before?
 *   weir_host_tick      tick.h, for each control message
 *   weir_host_timer     fallback.h -> tick.h -> share.h            => ns until the next call
 *
 * Control writes tables: limits and shares are in `sendings` and `services`, rules of levels in `level_rules`, the
 * agent's heartbeat in `heartbeat`. A change of a guarantee, a weight or a maximum raises the entry's generation.
 *
 * One packet sequence through both shells on one CPU gives the same departures, drops, feedback and counters
 * (crates/host/linux/tests/trace.rs). The functions below are for hosts that enforce (`enforces`) and for IP packets. A
 * packet on a level has the departure of its regulator, which the programs leave to the class of the level.
 *
 * Worked example: a service without a limit at an idle interface. weir_host_send() returns WEIR_DEPARTS_NOW for each
 * packet, until packets exceed the burst of the service's committed share; the next one departs when the share or the
 * machine has repaid it, whichever is earlier.
 */
#ifndef WEIR_HOST_HOST_H
#define WEIR_HOST_HOST_H

#include "host/advertise.h"
#include "host/apply.h"
#include "host/arrive.h"
#include "host/depart.h"
#include "host/regulate.h"
#include "host/tick.h"
#include "host/towards.h"

#ifndef __bpf__

/* A packet that a host sends. */
struct weir_offered {
	u32 service;     /* a slot, or WEIR_UNCLASSIFIED */
	u32 bytes;       /* on the wire, of all segments */
	u32 segments;    /* at least 1 */
	u32 level;       /* from 1 on; 0: none */
	u32 destination; /* the slot of its destination, or WEIR_NO_DESTINATION */
	u32 reserved;
};

/* The decision about it. */
struct weir_sent {
	u64 departure; /* ns, for WEIR_DEPARTS_LATER */
	u32 departs;   /* WEIR_DEPARTS_* */
	u32 towards;   /* WEIR_TOWARDS_* */
};

/* A packet that a host receives. */
struct weir_arrived {
	u64 source[2]; /* its addresses */
	u64 destination[2];
	struct weir_ecn ecn;
	u32 service;  /* a slot, or WEIR_UNCLASSIFIED */
	u32 bytes;    /* on the wire, of all segments */
	u32 segments; /* at least 1 */
	u32 follows;  /* 1: its sender applies feedback of this service */
	u32 ect;      /* 1: its sender's transport reacts to marks */
	/* 1: a switch flooded it, and neither this host nor a guest has its destination: no feedback is sent */
	u32 elsewhere;
	u32 reserved;
};

/* The decision about it. */
struct weir_received {
	struct weir_advertisement feedback; /* without a rate: none is sent */
	u32 verdict;                        /* WEIR_ARRIVES_* */
	u32 reserved;
};

/* Returns the decision of the limiters about a packet that has an entry of its destination, or null. */
WEIR_INLINE void weir_host_depart(WEIR_HOST const struct weir_offered *offered, struct weir_destination_entry *entry,
				  struct weir_sent *sent)
{
	const struct weir_config *config = WEIR_AT(config, 0);
	u32 destination = entry ? offered->destination : WEIR_NO_DESTINATION;

	if (!config || !WEIR_PACES(config) ||
	    weir_depart_in_batch(WEIR_THIS offered->service, destination, offered->bytes))
		return;
	sent->departs = weir_depart_at(WEIR_THIS offered->bytes, offered->service, entry, destination, config->tick,
				       &sent->departure);
}

/* Decides about a packet that leaves. */
WEIR_INLINE void weir_host_send(WEIR_HOST const struct weir_offered *offered, struct weir_sent *sent)
{
	struct weir_destination_entry *entry = 0;
	const struct weir_config *config = WEIR_AT(config, 0);

	sent->departure = 0;
	sent->departs = WEIR_DEPARTS_NOW;
	sent->towards = 0;
	if (!config)
		return;
	if (offered->level) {
		struct weir_level_rules *rules = WEIR_AT(level_rules, offered->level - 1);
		struct weir_level_state *state = WEIR_AT(level_states, offered->level - 1);

		if (!rules || !state)
			return;
		sent->departure = weir_regulate(WEIR_THIS state, rules, weir_slot_of(offered->service),
						offered->bytes, offered->segments);
		sent->departs = sent->departure == WEIR_LEVEL_DROP ? WEIR_DEPARTS_NEVER : WEIR_DEPARTS_LATER;
		return;
	}
	if (offered->destination != WEIR_NO_DESTINATION)
		entry = WEIR_AT(destinations, offered->destination);
	if (entry) {
		struct weir_active *active = WEIR_PACES(config) ? 0 : WEIR_MINE(active, 0);

		if (active)
			weir_tick_by_packet(WEIR_THIS active, offered->bytes);
		sent->towards = weir_towards(entry, offered->bytes, weir_tick_time(WEIR_THIS config->tick));
		if (!(sent->towards & WEIR_TOWARDS_LIMITED))
			entry = 0;
	}
	weir_host_depart(WEIR_THIS offered, entry, sent);
}

/* Counts the bytes of a packet that arrives, by its sender. Returns WEIR_ARRIVES_*. */
WEIR_INLINE u32 weir_host_count(WEIR_HOST const struct weir_arrived *arrived, struct weir_counting *counting,
				struct weir_receiver *receiver)
{
	if (!receiver->policer.limit) {
		counting->arrivals.bytes += arrived->bytes;
		return WEIR_ARRIVES_PASSED;
	}
	if (arrived->follows) {
		weir_count_follower(counting, arrived->bytes);
		return WEIR_ARRIVES_PASSED;
	}
	return (u32)weir_arrive_policed(WEIR_THIS counting, receiver, arrived->bytes, arrived->segments,
					(int)arrived->ect);
}

/* Decides about a packet that arrives. */
WEIR_INLINE void weir_host_receive(WEIR_HOST const struct weir_arrived *arrived, struct weir_received *received)
{
	u32 slot = weir_slot_of(arrived->service);
	struct weir_counting *counting = WEIR_MINE(counting, slot);
	struct weir_receiver *receiver = WEIR_AT(receivers, slot);
	struct weir_service *settings = WEIR_AT(services, slot);
	struct weir_advertisement none = {};

	received->verdict = WEIR_ARRIVES_PASSED;
	received->feedback = none;
	if (!counting || !receiver)
		return;
	received->verdict = weir_host_count(WEIR_THIS arrived, counting, receiver);
	weir_arrive(WEIR_THIS counting, arrived->ecn, slot, arrived->bytes, arrived->segments,
		    received->verdict != WEIR_ARRIVES_DROPPED);
	if (slot == WEIR_REST || !settings)
		return;
	received->feedback = weir_advertise(WEIR_THIS counting, receiver, settings,
					    (int)arrived->ecn.requests_feedback, arrived->bytes);
	if (received->feedback.rate &&
	    (arrived->elsewhere ||
	     weir_is_repeated(WEIR_THIS arrived->source, arrived->destination, slot, settings, received->feedback)))
		received->feedback.rate = 0;
	if (received->feedback.rate)
		counting->feedback_sent += 1;
}

/*
 * Applies authentic feedback of the destination in the slot `destination`, of the service `service`. Returns
 * WEIR_APPLIED*.
 */
WEIR_INLINE u32 weir_host_feedback(WEIR_HOST const struct weir_feedback *feedback, u32 service, u32 destination)
{
	const struct weir_config *config = WEIR_AT(config, 0);
	const struct weir_service *settings = WEIR_AT(services, service);
	struct weir_destination_entry *entry = WEIR_AT(destinations, destination);
	struct weir_rate_mailbox *mailbox = WEIR_AT(rate_mailboxes, destination);
	u32 applied;

	if (!config || !settings || !settings->known) {
		WEIR_COUNT(feedback_unclassified);
		return 0;
	}
	if (!entry || !mailbox) {
		WEIR_COUNT(destinations_full);
		return 0;
	}
	applied = weir_apply_feedback(WEIR_THIS config, settings, entry, mailbox, feedback, WEIR_CLOCK());
	if (applied)
		WEIR_COUNT(feedback_accepted);
	else
		WEIR_COUNT(feedback_replayed);
	return applied;
}

/* Runs a tick if one is due at `now`. Each control message that arrives calls it. */
WEIR_INLINE void weir_host_tick(WEIR_HOST u64 now)
{
	weir_tick_at(WEIR_THIS now);
}

/* Runs an expiry of the timer. Returns the ns until its next run; 0 without a configuration. */
WEIR_INLINE u64 weir_host_timer(WEIR_HOST u64 now)
{
	struct weir_config *config = WEIR_AT(config, 0);
	struct weir_state *state = WEIR_AT(states, 0);

	return config && state ? weir_tick_by_timer(WEIR_THIS config, state, now) : 0;
}

#endif

#endif
