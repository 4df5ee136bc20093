/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Egress path of services with credits: the gate of a packet's pair of hosts.
 *
 * A pair is a service's data from one of this host's addresses to another host. Its packets wait in a gate, an HTB
 * class with a TBF that the agent opens for the bytes of each allocation (crates/host/linux/src/credits/). The first
 * packet of a pair takes one of the closed gates that the agent keeps in a queue, so no packet leaves before there are
 * credits. Packets are dropped while no gate is free, and those beyond the limit of their gate's queue. The first
 * packet posts an event, and so does the first one after the agent has marked the pair idle.
 *
 * Frames up to WEIR_CREDIT_EXEMPT bytes need no credits: they leave by the class of their service, and overtake frames
 * of their connection that wait in the gate. Of them only the first packets of TCP connections (SYN) post events, so
 * that credits are requested before the first data. A host that sends acknowledgements alone would otherwise get
 * credits that it cannot use, and their allocations would take a part of the direction of the data. While no agent is
 * alive all packets have the class of the static policy.
 *
 * Credit messages of the agent leave as control traffic: behind data they would arrive later than a period.
 *
 * Source: PACE (Carvalho et al. 2013) section III.D; docs/design/credits-linux.md.
 */
#ifndef WEIR_CREDITS_H
#define WEIR_CREDITS_H

#include "transmit.h"

/* Returns the gate of a new pair, or WEIR_CREDIT_GATES_MAX if none is free. */
static __always_inline u32 add_credit_pair(const struct weir_credit_pair *pair)
{
	struct weir_credit_queue queue = {}, *other;
	struct weir_credit_event event = {};
	u32 gate;

	if (bpf_map_pop_elem(&weir_credit_gates, &gate))
		return WEIR_CREDIT_GATES_MAX;
	queue.gate = gate;
	if (bpf_map_update_elem(&weir_credit_pairs, pair, &queue, BPF_NOEXIST)) {
		other = bpf_map_lookup_elem(&weir_credit_pairs, pair);
		/* Another CPU has added the pair first, or the table is full. */
		bpf_map_push_elem(&weir_credit_gates, &gate, 0);
		return other ? other->gate : WEIR_CREDIT_GATES_MAX;
	}
	event.pair = *pair;
	event.gate = gate;
	/* The ring buffer has room for an event of each pair. */
	bpf_ringbuf_output(&weir_credit_events, &event, sizeof(event), 0);
	return gate;
}

/*
 * Returns the minor number of the class of a packet of a service with credits, 0 for that of its service, or
 * WEIR_CREDIT_DROP if no gate is free. Not inlined: the caller's stack is short.
 */
static __noinline u32 credit_class(struct __sk_buff *skb, const struct weir_packet *packet, u32 service)
{
	struct weir_credit_pair pair = {};
	struct weir_credit_event event = {};
	struct weir_credit_queue *queue;
	struct weir_config *config;
	struct weir_state *state;
	u32 key = 0, gate;
	int is_small = skb->wire_len <= WEIR_CREDIT_EXEMPT;

	config = bpf_map_lookup_elem(&weir_config, &key);
	state = bpf_map_lookup_elem(&weir_states, &key);
	if (!packet || !config || !state || state->fallback)
		return 0;
	if (is_small && !(packet->tcp_flags & WEIR_TCP_SYN))
		return 0;
	pair.source[0] = packet->source[0];
	pair.source[1] = packet->source[1];
	pair.destination[0] = packet->destination[0];
	pair.destination[1] = packet->destination[1];
	pair.service = service;
	queue = bpf_map_lookup_elem(&weir_credit_pairs, &pair);
	if (queue) {
		gate = queue->gate;
		if (*(volatile u32 *)&queue->idle && __sync_lock_test_and_set(&queue->idle, 0)) {
			event.pair = pair;
			event.gate = gate;
			bpf_ringbuf_output(&weir_credit_events, &event, sizeof(event), 0);
		}
	} else {
		gate = add_credit_pair(&pair);
	}
	if (is_small)
		return 0;
	if (gate >= WEIR_CREDIT_GATES_MAX) {
		WEIR_COUNT(credit_gates_full);
		return WEIR_CREDIT_DROP;
	}
	return config->class_credit + gate;
}

/* Sets the class of a packet of a service with credits (htb). Returns NEXT, or DROP if no gate is free. */
static __always_inline int wait_for_credits(struct __sk_buff *skb, const struct weir_config *config,
					    const struct weir_packet *packet, u32 service)
{
	u32 class = credit_class(skb, packet, service);

	if (class == WEIR_CREDIT_DROP)
		return DROP;
	choose_class(skb, config, service, class);
	return NEXT;
}

#endif
