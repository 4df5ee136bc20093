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

#include "answer.h"
#include "maps.h"

/* Whether a port is control traffic's. */
static __always_inline int is_control(const struct weir_config *config, u16 port)
{
	return port == WEIR_CONTROL_PORT || (config->listen_port && port == config->listen_port);
}

#define WEIR_LEAVES_TENANTS 0  /* no control traffic */
#define WEIR_LEAVES_AGENTS 1   /* the agent's own */
#define WEIR_LEAVES_IMITATED 2 /* it looks like control traffic and is not the agent's: it may not leave */

/* Whose a packet that leaves is. */
static __always_inline int whose(struct __sk_buff *skb, const struct weir_config *config, const struct weir_packet *packet)
{
	if (packet->protocol != WEIR_PROTOCOL_UDP || !(packet->has & WEIR_HAS_PORTS))
		return WEIR_LEAVES_TENANTS;
	if (!is_control(config, packet->destination_port) && !is_control(config, packet->source_port))
		return WEIR_LEAVES_TENANTS;
	if (config->agent_cookie && bpf_get_socket_cookie(skb) == config->agent_cookie)
		return WEIR_LEAVES_AGENTS;
	tally(WEIR_COUNT_IMITATED);
	return WEIR_LEAVES_IMITATED;
}

/*
 * Puts control traffic before all that tenants send: into its class (htb), or into the queue that fq serves first, without a departure
 * time (edt). Behind what is of no service it would come late and be dropped, and who receives could not hold anybody.
 */
static __always_inline void lead_control(struct __sk_buff *skb, const struct weir_config *config)
{
	skb->priority = config->class_major ? config->class_major | (config->class_control & 0xffff) : WEIR_PRIORITY_CONTROL;
}

/* Whether a key with this number verifies the body's tag. */
static __noinline int genuine(const u64 *body, const struct weir_packet *packet, u16 id)
{
	u32 place;

	if (!body || !packet)
		return 0;
	for (place = 0; place < WEIR_KEYS; place++) {
		u32 at = place;
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
static __always_inline void mail(const struct weir_config *config, u32 slot, u64 rate, u64 now)
{
	struct weir_mail *mail = bpf_map_lookup_elem(&weir_mails, &slot);
	u64 before, change;

	if (!mail)
		return;
	mail->heard_at = now;
	before = mail->rate;
	change = before > rate ? before - rate : rate - before;
	if (change <= before / 128)
		return;
	mail->rate = rate;
	if (!paces(config) && !__sync_lock_test_and_set(&mail->unread, 1) &&
	    bpf_ringbuf_output(&weir_news, &slot, sizeof(slot), 0))
		/* no room: the next change says it */
		__sync_lock_test_and_set(&mail->unread, 0);
}

/* The slot of a new destination; WEIR_DESTINATIONS_MAX when there is no room. */
static __noinline u32 remember(const struct weir_place *place)
{
	struct weir_held *held;
	u32 slot;

	if (!place || bpf_map_pop_elem(&weir_free, &slot))
		return WEIR_DESTINATIONS_MAX;
	held = bpf_map_lookup_elem(&weir_destinations, &slot);
	if (!held)
		return WEIR_DESTINATIONS_MAX;
	/* nobody else knows the slot */
	__builtin_memset(held, 0, sizeof(*held));
	held->place = *place;
	if (bpf_map_update_elem(&weir_places, place, &slot, BPF_NOEXIST)) {
		u32 *other = bpf_map_lookup_elem(&weir_places, place);

		/* another CPU was first, or the table is full */
		bpf_map_push_elem(&weir_free, &slot, 0);
		return other ? *other : WEIR_DESTINATIONS_MAX;
	}
	return slot;
}

/* Obeys feedback that was found genuine. 1: its receiver is to be given this host's word. */
static __always_inline int obey(const struct weir_config *config, const struct weir_feedback *feedback,
				const struct weir_packet *packet, u32 service, u64 now)
{
	struct weir_place place = {};
	struct weir_service *own = bpf_map_lookup_elem(&weir_services, &service);
	struct weir_destination_rules rules;
	struct weir_exit *exit;
	struct weir_held *held;
	u32 slot = WEIR_DESTINATIONS_MAX;
	u32 *known, weight, key = 0;
	u64 rate;

	exit = bpf_map_lookup_elem(&weir_exits, &key);
	if (!exit)
		return 0;
	if (!own || !own->known) {
		tally(WEIR_COUNT_UNKNOWN);
		return 0;
	}
	place.address[0] = packet->source[0];
	place.address[1] = packet->source[1];
	place.service = service;
	known = bpf_map_lookup_elem(&weir_places, &place);
	if (known)
		slot = *known;
	else
		slot = remember(&place);
	held = bpf_map_lookup_elem(&weir_destinations, &slot);
	if (!held) {
		tally(WEIR_COUNT_CROWDED);
		return 0;
	}
	if (!weir_feedback_newer(feedback->epoch, feedback->sequence, held->epoch, held->sequence)) {
		tally(WEIR_COUNT_REPLAYED);
		return 0;
	}
	held->epoch = feedback->epoch;
	held->sequence = feedback->sequence;
	held->told += 1;
	rules = own->rules;
	weight = own->sender_weight;
	rate = feedback->rate;
	bpf_spin_lock(&exit->lock);
	if (!held->destination.heard_at ||
	    weir_destination_silent(&held->destination, now) == WEIR_DESTINATION_DROP)
		weir_destination_init(&held->destination, now, &rules, WEIR_LAW_RATE_MAX);
	else
		weir_destination_set_rules(&held->destination, &rules);
	weir_destination_feedback(&held->destination, now, rate, weight);
	rate = held->destination.limiter.rate;
	bpf_spin_unlock(&exit->lock);
	mail(config, slot, rate, now);
	tally(WEIR_COUNT_FEEDBACK);
	if (feedback->has & WEIR_FEEDBACK_HEARD)
		held->coded_at = now;
	if (held->word_at && now - held->word_at < WEIR_WORD_AGAIN)
		return 0;
	held->word_at = now;
	return 1;
}

/* For weir_ingress, which has more of the programs' short stack to give: say_word, then DROP. */
#define SAY 100

/* A datagram to the control port has arrived: DROP, NEXT when it is the agent's, or SAY. */
static __noinline int control_arrived(struct __sk_buff *skb, const struct weir_config *config,
				      const struct weir_packet *packet)
{
	struct weir_arriving *arriving;
	struct weir_address from;
	struct weir_table *table;
	struct weir_peer *peer;
	u64 now = bpf_ktime_get_ns();
	u32 key = 0, service;
	int kind;

	arriving = bpf_map_lookup_elem(&weir_arriving, &key);
	if (!config || !packet || !arriving)
		return DROP;
	if (weir_load(skb, packet->header_bytes, arriving->body, 8)) {
		tally(WEIR_COUNT_FOREIGN);
		return DROP;
	}
	kind = weir_control_kind(arriving->body[0]);
	if (kind == WEIR_FEEDBACK_FOREIGN || kind == WEIR_FEEDBACK_VERSION) {
		tally(kind == WEIR_FEEDBACK_FOREIGN ? WEIR_COUNT_FOREIGN : WEIR_COUNT_VERSION);
		return DROP;
	}
	if (kind == WEIR_FEEDBACK_OTHER) {
		if (packet->destination[0] != config->agent_address[0] ||
		    packet->destination[1] != config->agent_address[1]) {
			tally(WEIR_COUNT_MISDIRECTED);
			return DROP;
		}
		from.words[0] = packet->source[0];
		from.words[1] = packet->source[1];
		peer = bpf_map_lookup_elem(&weir_peers, &from);
		if (!peer) {
			tally(WEIR_COUNT_STRANGERS);
			return DROP;
		}
		if (!peer->limiter.rate) {
			peer->limiter.paid_at = now;
			weir_limiter_set_rate(&peer->limiter, now, WEIR_PEER_RATE);
			weir_limiter_set_burst(&peer->limiter, WEIR_PEER_BURST);
		}
		if (weir_limiter_earliest(&peer->limiter, now) > now) {
			peer->refused += 1;
			tally(WEIR_COUNT_FLOODED);
			return DROP;
		}
		weir_limiter_departure(&peer->limiter, now, skb->len);
		peer->passed += 1;
		return NEXT;
	}
	if (packet->destination_port != WEIR_CONTROL_PORT ||
	    weir_load(skb, packet->header_bytes, arriving->body, WEIR_FEEDBACK_BYTES)) {
		tally(WEIR_COUNT_FOREIGN);
		return DROP;
	}
	weir_feedback_read(arriving->body, &arriving->feedback);
	if (!genuine(arriving->body, packet, arriving->feedback.key)) {
		tally(WEIR_COUNT_FORGED);
		return DROP;
	}
	weir_feedback_answered(&arriving->feedback, packet, &arriving->answered);
	key = config->table;
	table = bpf_map_lookup_elem(&weir_tables, &key);
	if (!table)
		return DROP;
	/* rules take either end of a packet for either: the word's packet is the same one, seen from its receiver */
	service = classify(table, &arriving->answered);
	if (kind == WEIR_FEEDBACK_WORD)
		hear_word(&arriving->feedback, packet, service, now);
	else if (obey(config, &arriving->feedback, packet, service, now))
		return SAY;
	return DROP;
}

#endif
