/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Control traffic at the edge: what hosts tell each other, and nobody else.
 *
 * Problem: feedback sets rates, and brokers' datagrams limits; tenants must neither send them nor see them, and whoever floods
 * the agent's port must not silence the rack. Approach, for UDP to or from the control port:
 *
 *   leaving   passes from the agent's own socket, by its cookie, which only the kernel gives out, before all that tenants send
 *             (lead_control). All else goes.
 *   arriving  feedback and senders' words are checked, obeyed and taken out of the traffic. Brokers' datagrams pass to the agent's address alone,
 *             from machines of the rack alone, each at its own rate. All else goes.
 *
 * Everything that goes is counted under a name of its own.
 */
#ifndef WEIR_CONTROL_H
#define WEIR_CONTROL_H

#include "feedback_reply.h"
#include "map_access.h"

/* Whether a port is control traffic's. */
static __always_inline int is_control(const struct weir_config *config, u16 port)
{
	return port == WEIR_CONTROL_PORT || (config->listen_port && port == config->listen_port);
}

#define WEIR_ORIGIN_TENANT 0  /* no control traffic */
#define WEIR_ORIGIN_AGENT 1   /* the agent's own */
#define WEIR_ORIGIN_SPOOFED 2 /* it looks like control traffic and is not the agent's: it may not leave */

/* Whose a packet that leaves is. */
static __always_inline int origin_of(struct __sk_buff *skb, const struct weir_config *config, const struct weir_packet *packet)
{
	if (packet->protocol != WEIR_PROTOCOL_UDP || !(packet->has & WEIR_HAS_PORTS))
		return WEIR_ORIGIN_TENANT;
	if (!is_control(config, packet->destination_port) && !is_control(config, packet->source_port))
		return WEIR_ORIGIN_TENANT;
	if (config->agent_cookie && bpf_get_socket_cookie(skb) == config->agent_cookie)
		return WEIR_ORIGIN_AGENT;
	count_event(spoofed);
	return WEIR_ORIGIN_SPOOFED;
}

/*
 * Puts control traffic before all that tenants send: into its class (htb), or into the queue that fq serves first, without a departure
 * time (edt). Behind what is of no service it would come late and be dropped, and who receives could not hold anybody.
 */
static __always_inline void prioritize_control(struct __sk_buff *skb, const struct weir_config *config)
{
	skb->priority = config->class_major ? config->class_major | (config->class_control & 0xffff) : WEIR_PRIORITY_CONTROL;
}

/* Whether a key with this number verifies the body's tag. */
static __noinline int is_authentic(const u64 *body, const struct weir_packet *packet, u16 id)
{
	u32 index;

	if (!body || !packet)
		return 0;
	for (index = 0; index < WEIR_KEYS; index++) {
		u32 at = index;
		struct weir_key *key = bpf_map_lookup_elem(&weir_keys, &at);

		if (!key || !key->known || key->id != id)
			continue;
		if (weir_feedback_tag(body, packet->source, packet->destination, &key->sip) == body[6])
			return 1;
	}
	return 0;
}

/*
 * Says to the agent that a destination's rate is new; one word is under way at most. Less than a part of 128 is not worth a change of
 * classes: what it leaves unused makes the next rate larger, until it is. Where packets are given departure times there are no classes,
 * and the rate is only written down.
 */
static __always_inline void post_rate(const struct weir_config *config, u32 slot, u64 rate, u64 now)
{
	struct weir_rate_mailbox *mailbox = bpf_map_lookup_elem(&weir_rate_mailboxes, &slot);
	u64 before, change;

	if (!mailbox)
		return;
	mailbox->feedback_at = now;
	before = mailbox->rate;
	change = before > rate ? before - rate : rate - before;
	if (change <= before / 128)
		return;
	mailbox->rate = rate;
	if (!paces(config) && !__sync_lock_test_and_set(&mailbox->unread, 1) &&
	    bpf_ringbuf_output(&weir_events, &slot, sizeof(slot), 0))
		/* no room: the next change says it */
		__sync_lock_test_and_set(&mailbox->unread, 0);
}

/* The slot of a new destination; WEIR_DESTINATIONS_MAX when there is no room. */
static __noinline u32 add_destination(const struct weir_destination_key *destination)
{
	struct weir_destination_entry *entry;
	u32 slot;

	if (!destination || bpf_map_pop_elem(&weir_free_slots, &slot))
		return WEIR_DESTINATIONS_MAX;
	entry = bpf_map_lookup_elem(&weir_destinations, &slot);
	if (!entry)
		return WEIR_DESTINATIONS_MAX;
	/* nobody else knows the slot */
	__builtin_memset(entry, 0, sizeof(*entry));
	entry->key = *destination;
	if (bpf_map_update_elem(&weir_destination_slots, destination, &slot, BPF_NOEXIST)) {
		u32 *other = bpf_map_lookup_elem(&weir_destination_slots, destination);

		/* another CPU was first, or the table is full */
		bpf_map_push_elem(&weir_free_slots, &slot, 0);
		return other ? *other : WEIR_DESTINATIONS_MAX;
	}
	return slot;
}

/* Obeys feedback that was found genuine. 1: its receiver is to be given this host's word. */
static __always_inline int apply_feedback(const struct weir_config *config, const struct weir_feedback *feedback,
				const struct weir_packet *packet, u32 service, u64 now)
{
	struct weir_destination_key destination = {};
	struct weir_service *own = bpf_map_lookup_elem(&weir_services, &service);
	struct weir_destination_rules rules;
	struct weir_interface_egress *egress;
	struct weir_destination_entry *entry;
	u32 slot = WEIR_DESTINATIONS_MAX;
	u32 *known, weight, key = 0;
	u64 rate;

	egress = bpf_map_lookup_elem(&weir_interface_egresses, &key);
	if (!egress)
		return 0;
	if (!own || !own->known) {
		count_event(feedback_unclassified);
		return 0;
	}
	destination.address[0] = packet->source[0];
	destination.address[1] = packet->source[1];
	destination.service = service;
	known = bpf_map_lookup_elem(&weir_destination_slots, &destination);
	if (known)
		slot = *known;
	else
		slot = add_destination(&destination);
	entry = bpf_map_lookup_elem(&weir_destinations, &slot);
	if (!entry) {
		count_event(destinations_full);
		return 0;
	}
	if (!weir_feedback_newer(feedback->epoch, feedback->sequence, entry->epoch, entry->sequence)) {
		count_event(feedback_replayed);
		return 0;
	}
	entry->epoch = feedback->epoch;
	entry->sequence = feedback->sequence;
	entry->feedback_count += 1;
	rules = own->rules;
	weight = own->sender_weight;
	rate = feedback->rate;
	bpf_spin_lock(&egress->lock);
	if (!entry->destination.feedback_at ||
	    weir_destination_silent(&entry->destination, now) == WEIR_DESTINATION_DROP)
		weir_destination_init(&entry->destination, now, &rules, WEIR_LAW_RATE_MAX);
	else
		weir_destination_set_rules(&entry->destination, &rules);
	weir_destination_feedback(&entry->destination, now, rate, weight);
	rate = entry->destination.limiter.rate;
	bpf_spin_unlock(&egress->lock);
	post_rate(config, slot, rate, now);
	count_event(feedback_accepted);
	if (feedback->has & WEIR_FEEDBACK_ECN_ACK)
		entry->capability_acked_at = now;
	if (entry->capability_sent_at && now - entry->capability_sent_at < WEIR_ECN_REFRESH)
		return 0;
	entry->capability_sent_at = now;
	return 1;
}

/* For weir_ingress, which has more of the programs' short stack to give: say_word, then DROP. */
#define SEND_CAPABILITY 100

/* A datagram to the control port has arrived: DROP, NEXT when it is the agent's, or SAY. */
static __noinline int control_arrived(struct __sk_buff *skb, const struct weir_config *config,
				      const struct weir_packet *packet)
{
	struct weir_feedback_arrival *arrival;
	struct weir_address from;
	struct weir_table *table;
	struct weir_peer *peer;
	u64 now = bpf_ktime_get_ns();
	u32 key = 0, service;
	int kind;

	arrival = bpf_map_lookup_elem(&weir_feedback_arrival, &key);
	if (!config || !packet || !arrival)
		return DROP;
	if (weir_load(skb, packet->header_bytes, arrival->body, 8)) {
		count_event(foreign);
		return DROP;
	}
	kind = weir_control_kind(arrival->body[0]);
	if (kind == WEIR_FEEDBACK_FOREIGN || kind == WEIR_FEEDBACK_VERSION) {
		if (kind == WEIR_FEEDBACK_FOREIGN)
			count_event(foreign);
		else
			count_event(other_version);
		return DROP;
	}
	if (kind == WEIR_FEEDBACK_OTHER) {
		if (packet->destination[0] != config->agent_address[0] ||
		    packet->destination[1] != config->agent_address[1]) {
			count_event(misdirected);
			return DROP;
		}
		from.words[0] = packet->source[0];
		from.words[1] = packet->source[1];
		peer = bpf_map_lookup_elem(&weir_peers, &from);
		if (!peer) {
			count_event(unknown_peer);
			return DROP;
		}
		if (!peer->limiter.rate) {
			peer->limiter.paid_at = now;
			weir_limiter_set_rate(&peer->limiter, now, WEIR_PEER_RATE);
			weir_limiter_set_burst(&peer->limiter, WEIR_PEER_BURST);
		}
		if (weir_limiter_earliest(&peer->limiter, now) > now) {
			peer->refused += 1;
			count_event(peer_rate_exceeded);
			return DROP;
		}
		weir_limiter_departure(&peer->limiter, now, skb->len);
		peer->passed += 1;
		return NEXT;
	}
	if (packet->destination_port != WEIR_CONTROL_PORT ||
	    weir_load(skb, packet->header_bytes, arrival->body, WEIR_FEEDBACK_BYTES)) {
		count_event(foreign);
		return DROP;
	}
	weir_feedback_read(arrival->body, &arrival->feedback);
	if (!is_authentic(arrival->body, packet, arrival->feedback.key)) {
		count_event(feedback_forged);
		return DROP;
	}
	weir_feedback_subject(&arrival->feedback, packet, &arrival->subject);
	key = config->table;
	table = bpf_map_lookup_elem(&weir_tables, &key);
	if (!table)
		return DROP;
	/* rules take either end of a packet for either: the word's packet is the same one, seen from its receiver */
	service = classify(table, &arrival->subject);
	if (kind == WEIR_FEEDBACK_ECN_CAPABILITY)
		receive_ecn_capability(&arrival->feedback, packet, service, now);
	else if (apply_feedback(config, &arrival->feedback, packet, service, now))
		return SEND_CAPABILITY;
	return DROP;
}

#endif
