/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Filter for control traffic at the edge of the host.
 *
 * Problem: feedback sets rates, brokers' datagrams set limits, and credit messages open gates. Tenants must not be able
 * to send any of them or to receive the first two, and a flood to the agent's port must not cut off the rack's brokers.
 * Nor must tenants' connections to a fabric broker compete with the agent's, which come from the same address.
 *
 * TCP to a fabric broker's address and port leaves the host from sockets of agents only. Their cookies are in a map
 * before they connect; their packets are classified like those of tenants. TCP without ports (a fragment, a header that
 * is cut) to such an address is treated likewise, since a receiver would put a connection request together. Segments
 * without SYN and payload that the host itself sends pass: the kernel replies for closed sockets (RST, ACK in
 * TIME_WAIT) from a socket of its own, and no connection begins or carries data by them.
 *
 * Rules for UDP datagrams to or from the control port:
 *
 *   egress   Datagrams of the agent's socket pass, with priority over tenants' packets
 *            (prioritize_control). The socket's cookie, which the kernel assigns, identifies it.
 *            All other datagrams are dropped. The same holds for the port of credit messages and
 *            its socket, where services have credits.
 *   ingress  Feedback and ECN capability messages are verified, applied and consumed. Brokers'
 *            datagrams pass if they are addressed to the agent, come from a machine of the rack,
 *            and do not exceed that machine's rate limit. All other datagrams are dropped. Credit
 *            messages pass: the agent verifies them.
 *
 * Each reason for a drop has its own counter (struct weir_counts, host/tables.h).
 *
 * Source: ours; Parley section 3.2.1 for the feedback.
 */
#ifndef WEIR_CONTROL_H
#define WEIR_CONTROL_H

#include "cgroup.h"
#include "feedback_reply.h"
#include "host/apply.h"
#include "map_access.h"

/* Returns 1 for a port of control traffic. */
static __always_inline int is_control(const struct weir_config *config, u16 port)
{
	return port == WEIR_CONTROL_PORT || (config->listen_port && port == config->listen_port);
}

#define WEIR_ORIGIN_TENANT 0  /* not control traffic, or the agent's connection to a fabric broker */
#define WEIR_ORIGIN_AGENT 1   /* control traffic of the agent's socket */
#define WEIR_ORIGIN_SPOOFED 2 /* control traffic of another socket: dropped */

/* Returns 1 for the port of credit messages. */
static __always_inline int is_credit_port(const struct weir_config *config, u16 port)
{
	return config->credit_port && port == config->credit_port;
}

/*
 * Returns 1 for a TCP packet to a fabric broker that no socket of an agent sends, unless it has neither SYN nor payload
 * and the host itself sends it: a reset or an acknowledgement of the kernel for a socket that is gone. A global
 * function, which the verifier checks once; few packets need it.
 */
__noinline int is_foreign_to_fabric(struct __sk_buff *skb, const struct weir_packet *packet)
{
	struct weir_fabric_end end = {};
	u64 cookie;

	if (!packet)
		return 0;
	if (!skb->ingress_ifindex && (packet->has & WEIR_HAS_PORTS) && !(packet->tcp_flags & WEIR_TCP_SYN) &&
	    skb->len <= packet->header_bytes)
		return 0;
	end.address[0] = packet->destination[0];
	end.address[1] = packet->destination[1];
	end.port = packet->destination_port;
	if (!bpf_map_lookup_elem(&weir_fabric_ends, &end))
		return 0;
	cookie = bpf_get_socket_cookie(skb);
	return !bpf_map_lookup_elem(&weir_fabric_sockets, &cookie);
}

/* Returns the origin of a packet that is no UDP datagram with ports. */
static __always_inline int origin_of_other(struct __sk_buff *skb, const struct weir_config *config,
					   const struct weir_packet *packet)
{
	/* Without ports the destination port is 0. */
	if (!config->fabric_ports || packet->protocol != WEIR_PROTOCOL_TCP ||
	    !(config->fabric_ports >> (packet->destination_port & 63) & 1) || !is_foreign_to_fabric(skb, packet))
		return WEIR_ORIGIN_TENANT;
	WEIR_COUNT(spoofed);
	return WEIR_ORIGIN_SPOOFED;
}

/* Returns the origin of a packet at egress (WEIR_ORIGIN_*). */
static __always_inline int origin_of(struct __sk_buff *skb, const struct weir_config *config,
				     const struct weir_packet *packet)
{
	u64 cookie = config->agent_cookie;

	if (packet->protocol != WEIR_PROTOCOL_UDP || !(packet->has & WEIR_HAS_PORTS))
		return origin_of_other(skb, config, packet);
	if (is_credit_port(config, packet->destination_port) || is_credit_port(config, packet->source_port))
		cookie = config->credit_cookie;
	else if (!is_control(config, packet->destination_port) && !is_control(config, packet->source_port))
		return WEIR_ORIGIN_TENANT;
	if (cookie && bpf_get_socket_cookie(skb) == cookie)
		return WEIR_ORIGIN_AGENT;
	WEIR_COUNT(spoofed);
	return WEIR_ORIGIN_SPOOFED;
}

/*
 * Gives control traffic priority over tenants' packets: its own class (htb), or the band that fq
 * serves first, without a departure time (edt). In one queue with unclassified traffic, feedback
 * would be delayed or dropped, and receivers could not limit their senders.
 */
static __always_inline void prioritize_control(struct __sk_buff *skb, const struct weir_config *config)
{
	skb->priority = config->class_major ? config->class_major | (config->class_control & 0xffff) :
					      WEIR_PRIORITY_CONTROL;
}

/* Returns 1 if a known key with the number `id` verifies the tag of a feedback body. */
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
 * Posts an event to the agent after a change of a mailbox's rate. At most one event per destination
 * is outstanding. With departure times (edt) there are no classes, and no event is posted.
 */
static __always_inline void post_event(struct weir_rate_mailbox *mailbox, u32 slot)
{
	if (!__sync_lock_test_and_set(&mailbox->unread, 1) &&
	    bpf_ringbuf_output(&weir_events, &slot, sizeof(slot), 0))
		/* The ring buffer is full. The next change of the rate posts the event. */
		__sync_lock_test_and_set(&mailbox->unread, 0);
}

/* Returns the slot of a new destination, or WEIR_DESTINATIONS_MAX if the table is full. */
static __noinline u32 add_destination(const struct weir_destination_key *destination)
{
	struct weir_destination_entry *entry;
	u32 slot;

	if (!destination || bpf_map_pop_elem(&weir_free_slots, &slot))
		return WEIR_DESTINATIONS_MAX;
	entry = bpf_map_lookup_elem(&weir_destinations, &slot);
	if (!entry)
		return WEIR_DESTINATIONS_MAX;
	/* The slot is not yet in weir_destination_slots, so no other CPU accesses the entry. */
	__builtin_memset(entry, 0, sizeof(*entry));
	entry->key = *destination;
	if (bpf_map_update_elem(&weir_destination_slots, destination, &slot, BPF_NOEXIST)) {
		u32 *other = bpf_map_lookup_elem(&weir_destination_slots, destination);

		/* Another CPU has inserted the destination first, or the table is full. */
		bpf_map_push_elem(&weir_free_slots, &slot, 0);
		return other ? *other : WEIR_DESTINATIONS_MAX;
	}
	return slot;
}

/*
 * Returns the slot of the destination that feedback comes from, which is added if it is new, or
 * WEIR_DESTINATIONS_MAX if the table is full.
 */
static __always_inline u32 destination_slot(const struct weir_packet *packet, u32 service)
{
	struct weir_destination_key destination = {};
	u32 *known;

	destination.address[0] = packet->source[0];
	destination.address[1] = packet->source[1];
	destination.service = service;
	known = bpf_map_lookup_elem(&weir_destination_slots, &destination);
	return known ? *known : add_destination(&destination);
}

/*
 * Applies authentic feedback to its destination's limiter. Returns 1 if the receiver is due another
 * ECN capability message (WEIR_ECN_REFRESH).
 */
static __always_inline int apply_feedback(const struct weir_config *config, const struct weir_feedback *feedback,
					  const struct weir_packet *packet, u32 service, u64 now)
{
	struct weir_service *settings = bpf_map_lookup_elem(&weir_services, &service);
	struct weir_destination_entry *entry;
	struct weir_rate_mailbox *mailbox;
	u32 slot, applied;

	if (!settings || !settings->known) {
		WEIR_COUNT(feedback_unclassified);
		return 0;
	}
	slot = destination_slot(packet, service);
	entry = bpf_map_lookup_elem(&weir_destinations, &slot);
	mailbox = bpf_map_lookup_elem(&weir_rate_mailboxes, &slot);
	if (!entry || !mailbox) {
		WEIR_COUNT(destinations_full);
		return 0;
	}
	applied = weir_apply_feedback(config, settings, entry, mailbox, feedback, now);
	if (!applied) {
		WEIR_COUNT(feedback_replayed);
		return 0;
	}
	if ((applied & WEIR_APPLIED_CHANGED) && !WEIR_PACES(config))
		post_event(mailbox, slot);
	WEIR_COUNT(feedback_accepted);
	return (applied & WEIR_APPLIED_CAPABILITY_DUE) != 0;
}

/*
 * Verdict of receive_control, beside NEXT and DROP: the caller calls send_ecn_capability and then
 * drops the packet. weir_ingress makes that call, since it has more of the 512-byte BPF stack left.
 */
#define SEND_CAPABILITY 100

/*
 * Admits a broker's datagram: to the agent's address, from a machine of the rack, within the rate of
 * one machine. Returns NEXT, or DROP with the reason counted.
 */
static __always_inline int admit_broker_datagram(struct __sk_buff *skb, const struct weir_config *config,
						 const struct weir_packet *packet, u64 now)
{
	struct weir_address from;
	struct weir_peer *peer;
	u32 bytes;
	int exceeds;

	if (packet->destination[0] != config->agent_address[0] ||
	    packet->destination[1] != config->agent_address[1]) {
		WEIR_COUNT(misdirected);
		return DROP;
	}
	from.words[0] = packet->source[0];
	from.words[1] = packet->source[1];
	peer = bpf_map_lookup_elem(&weir_peers, &from);
	if (!peer) {
		WEIR_COUNT(unknown_peer);
		return DROP;
	}
	bytes = skb->len;
	bpf_spin_lock(&peer->lock);
	if (!peer->limiter.rate) {
		peer->limiter.paid_at = now;
		weir_limiter_set_rate(&peer->limiter, now, WEIR_PEER_RATE);
		weir_limiter_set_burst(&peer->limiter, WEIR_PEER_BURST);
	}
	exceeds = weir_limiter_earliest(&peer->limiter, now) > now;
	if (!exceeds)
		weir_limiter_charge(&peer->limiter, bytes);
	bpf_spin_unlock(&peer->lock);
	if (exceeds) {
		WEIR_COUNT(peer_rate_exceeded);
		return DROP;
	}
	return NEXT;
}

/*
 * Handles a datagram that arrived at the control port. Returns DROP, SEND_CAPABILITY, or NEXT for a
 * datagram that the agent may receive.
 */
static __noinline int receive_control(struct __sk_buff *skb, const struct weir_config *config,
				      const struct weir_packet *packet)
{
	struct weir_feedback_arrival *arrival;
	struct weir_table *table;
	u64 now = WEIR_CLOCK();
	u32 key = 0, service, end;
	int kind;

	arrival = bpf_map_lookup_elem(&weir_feedback_arrival, &key);
	if (!config || !packet || !arrival)
		return DROP;
	if (weir_load(skb, packet->header_bytes, arrival->body, 8)) {
		WEIR_COUNT(foreign);
		return DROP;
	}
	kind = weir_control_kind(arrival->body[0]);
	if (kind == WEIR_FEEDBACK_FOREIGN || kind == WEIR_FEEDBACK_VERSION) {
		if (kind == WEIR_FEEDBACK_FOREIGN)
			WEIR_COUNT(foreign);
		else
			WEIR_COUNT(other_version);
		return DROP;
	}
	if (kind == WEIR_FEEDBACK_OTHER)
		return admit_broker_datagram(skb, config, packet, now);
	if (packet->destination_port != WEIR_CONTROL_PORT ||
	    weir_load(skb, packet->header_bytes, arrival->body, WEIR_FEEDBACK_BYTES)) {
		WEIR_COUNT(foreign);
		return DROP;
	}
	weir_feedback_read(arrival->body, &arrival->feedback);
	if (!is_authentic(arrival->body, packet, arrival->feedback.key)) {
		WEIR_COUNT(feedback_forged);
		return DROP;
	}
	weir_feedback_subject(&arrival->feedback, packet, &arrival->subject);
	key = config->table;
	table = bpf_map_lookup_elem(&weir_tables, &key);
	if (!table)
		return DROP;
	/*
	 * Rules match either end of a packet. So the subject of an ECN capability message, whose
	 * addresses are those of the opposite direction, gets the same service.
	 */
	if (table->cgroups) {
		/* The subject departed from this host, or arrived here if it is that of a capability message. */
		end = kind == WEIR_FEEDBACK_ECN_CAPABILITY ? WEIR_END_CAPABILITY : WEIR_END_SOURCE;
		add_cgroup(skb, &arrival->subject, end, table, key);
	}
	service = classify(table, &arrival->subject);
	if (kind == WEIR_FEEDBACK_ECN_CAPABILITY)
		receive_ecn_capability(&arrival->feedback, packet, service, now);
	else if (apply_feedback(config, &arrival->feedback, packet, service, now))
		return SEND_CAPABILITY;
	return DROP;
}

#endif
