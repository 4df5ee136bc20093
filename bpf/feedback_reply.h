/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Construction of a feedback packet from a received packet.
 *
 * Problem: feedback must leave by the interface on which the packet arrived, within microseconds,
 * and the packet itself must not change. A BPF program cannot allocate a packet.
 *
 * Approach: the received packet is cloned and the clone is rewritten. Three program runs are nested
 * on one CPU:
 *
 *   ingress   Fills in struct weir_reply (stage WEIR_REPLY_CLONE) and clones the packet to egress.
 *   egress    In stage WEIR_REPLY_CLONE: trims the clone, rewrites it as feedback, sets stage
 *             WEIR_REPLY_FEEDBACK and redirects the packet to egress again.
 *   egress    In stage WEIR_REPLY_FEEDBACK: passes the packet with the priority of control traffic
 *             (control.h).
 *
 * The second redirect is necessary because the kernel has already computed the length of the clone,
 * which may be a 64 KiB GSO burst, and HTB would charge that length.
 *
 * struct weir_reply is per CPU, and tenants cannot write it. Bottom halves are disabled, so this
 * CPU sends no other packet between the three runs.
 *
 * Worked example and format: datapath/feedback.h.
 *
 * Source: Parley section 3.2.1 (feedback in a custom packet); the method is ours.
 */
#ifndef WEIR_FEEDBACK_REPLY_H
#define WEIR_FEEDBACK_REPLY_H

#include "map_access.h"

/* Bytes of the longest header before IP: Ethernet with WEIR_TAGS_MAX VLAN tags. */
#define WEIR_NETWORK_MAX (14 + 4 * WEIR_TAGS_MAX)

static __always_inline struct weir_reply *reply_state(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&weir_reply, &key);
}

/* Sends feedback with `rate` to the source of `packet`, which `skb` holds. Returns 1 if sent. */
static __always_inline int send_feedback(struct __sk_buff *skb, const struct weir_packet *packet, u32 service, u64 rate,
					 u64 now)
{
	struct weir_reply *reply = reply_state();
	u8 group;
	long failed;

	if (!reply || reply->stage != WEIR_REPLY_NONE)
		return 0;
	/* No feedback for multicast and broadcast frames: several hosts receive them. */
	if (weir_load(skb, 0, &group, 1) || (group & 1))
		return 0;
	reply->stage = WEIR_REPLY_CLONE;
	reply->service = service;
	reply->rate = rate;
	reply->now = now;
	reply->packet = *packet;
	failed = bpf_clone_redirect(skb, skb->ifindex, 0);
	reply->stage = WEIR_REPLY_NONE;
	if (failed)
		WEIR_COUNT(feedback_failed);
	return !failed;
}

/*
 * Writes reply->body and its headers into a packet of exactly that length, with the addresses of
 * `packet` swapped. Returns 0 on success.
 */
static __always_inline int write_reply(struct __sk_buff *skb, struct weir_reply *reply,
				       const struct weir_packet *packet)
{
	u32 network = packet->network;
	u32 length = packet->family == 4 ? 20 + WEIR_UDP_BYTES : 40 + WEIR_UDP_BYTES;
	u8 hardware[12] WEIR_ALIGNED, swapped[12];

	if (weir_load(skb, 0, hardware, 12))
		return -1;
	__builtin_memcpy(swapped, hardware + 6, 6);
	__builtin_memcpy(swapped + 6, hardware, 6);
	if (packet->family == 4) {
		weir_feedback_ipv4(reply->headers, packet->destination, packet->source);
		if (bpf_skb_store_bytes(skb, network, reply->headers, 20 + WEIR_UDP_BYTES, 0))
			return -1;
	} else {
		weir_feedback_ipv6(reply->headers, packet->destination, packet->source, reply->body);
		if (bpf_skb_store_bytes(skb, network, reply->headers, 40 + WEIR_UDP_BYTES, 0))
			return -1;
	}
	if (bpf_skb_store_bytes(skb, network + length, reply->body, WEIR_FEEDBACK_BYTES, 0))
		return -1;
	return (int)bpf_skb_store_bytes(skb, 0, swapped, 12, BPF_F_INVALIDATE_HASH);
}

/*
 * Rewrites the clone as feedback. Returns 0, or another value if the clone cannot be used. Not
 * inlined, to limit stack usage (see pace in transmit.h).
 */
static __noinline int rewrite(struct __sk_buff *skb, struct weir_reply *reply, const struct weir_config *config)
{
	const struct weir_packet *packet = &reply->packet;
	struct weir_feedback *feedback = &reply->feedback;
	u32 network = packet->network;
	u32 index = config->signing_key, slot = reply->service;
	struct weir_service *service;
	struct weir_key *key;
	u32 length;

	key = bpf_map_lookup_elem(&weir_keys, &index);
	service = bpf_map_lookup_elem(&weir_services, &slot);
	if (!key || !key->known || !service || network > WEIR_NETWORK_MAX)
		return -1;
	feedback->rate = reply->rate;
	feedback->epoch = config->epoch;
	feedback->sequence = reply->now;
	feedback->service = service->name[0];
	feedback->vni = packet->vni;
	feedback->key = key->id;
	feedback->source_port = packet->source_port;
	feedback->destination_port = packet->destination_port;
	feedback->protocol = packet->protocol;
	feedback->dscp = packet->dscp;
	feedback->has = packet->has |
			(is_ecn_sender(packet, slot, reply->now, WEIR_ECN_ACK_TIME) ? WEIR_FEEDBACK_ECN_ACK : 0);
	/* Feedback travels from the packet's destination to its source. */
	weir_feedback_write(reply->body, feedback, packet->destination, packet->source, &key->sip);
	length = packet->family == 4 ? 20 + WEIR_UDP_BYTES : 40 + WEIR_UDP_BYTES;
	if (bpf_skb_change_tail(skb, network + length + WEIR_FEEDBACK_BYTES, 0))
		return -1;
	return write_reply(skb, reply, packet);
}

/*
 * Sends an ECN capability message (datapath/feedback.h) to the receiver whose feedback is in `skb`.
 * The message is the feedback itself, rewritten in place, so the caller must drop `skb` afterwards.
 */
static __noinline int send_ecn_capability(struct __sk_buff *skb, const struct weir_config *config,
					  const struct weir_packet *packet, const struct weir_feedback *feedback)
{
	struct weir_reply *reply = reply_state();
	struct weir_key *key;
	u32 index;

	if (!config || !packet || !feedback)
		return 0;
	index = config->signing_key;
	key = bpf_map_lookup_elem(&weir_keys, &index);
	if (!reply || reply->stage != WEIR_REPLY_NONE || !key || !key->known || packet->network > WEIR_NETWORK_MAX)
		return 0;
	/* The rewrite assumes headers without IPv4 options and IPv6 extension headers. */
	if (packet->header_bytes != packet->network + (packet->family == 4 ? 20 : 40) + WEIR_UDP_BYTES)
		return 0;
	reply->feedback = *feedback;
	reply->feedback.rate = 0;
	reply->feedback.epoch = config->epoch;
	reply->feedback.sequence = WEIR_CLOCK();
	reply->feedback.key = key->id;
	weir_feedback_write_as(WEIR_KIND_ECN_CAPABILITY, reply->body, &reply->feedback, packet->destination,
			       packet->source, &key->sip);
	if (write_reply(skb, reply, packet)) {
		WEIR_COUNT(feedback_failed);
		return 0;
	}
	reply->stage = WEIR_REPLY_FEEDBACK;
	if (bpf_clone_redirect(skb, skb->ifindex, 0))
		WEIR_COUNT(feedback_failed);
	reply->stage = WEIR_REPLY_NONE;
	return 0;
}

/* Records an authentic ECN capability message for a service's packets from its sender. */
static __noinline int receive_ecn_capability(const struct weir_feedback *message, const struct weir_packet *packet,
					     u32 service, u64 now)
{
	struct weir_reply *reply = reply_state();
	struct weir_ecn_capability new = {}, *last;
	u32 key = 0;
	u64 *epoch;

	if (!reply || !message || !packet || service >= WEIR_SERVICES_MAX)
		return 0;
	ecn_sender_of(packet, service, &reply->sender);
	last = bpf_map_lookup_elem(&weir_ecn_senders, &reply->sender);
	/*
	 * Without a lock: two CPUs that process messages of one sender at the same moment can both
	 * accept, and the older message can be stored last. Both arrived now, so `at` is right, and
	 * the next message is newer than either.
	 */
	if (last && !weir_feedback_newer(message->epoch, message->sequence, last->epoch, last->sequence)) {
		WEIR_COUNT(feedback_replayed);
		return 0;
	}
	new.at = now;
	new.epoch = message->epoch;
	new.sequence = message->sequence;
	bpf_map_update_elem(&weir_ecn_senders, &reply->sender, &new, BPF_ANY);
	epoch = bpf_map_lookup_elem(&weir_ecn_epoch, &key);
	if (!last && epoch)
		__sync_fetch_and_add(epoch, 1);
	return 0;
}

#endif
