/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Making a feedback packet out of a packet that arrived.
 *
 * Problem: an answer must leave by the interface where the packet came, within a microsecond, without the packet being
 * changed; BPF cannot make a packet of nothing. Approach, in three runs on one CPU, one inside the other:
 *
 *   ingress   notes what is to be told, and sends a copy of the packet out of the interface again
 *   egress    sees the note: cuts the copy to size, rewrites it as the answer, sends that
 *   egress    sees the note once more: the answer passes, before what tenants send (control.h)
 *
 * The second run cannot let the answer pass itself: the kernel has already reckoned the copy's length, 64 KiB of segments
 * perhaps, and HTB would charge that. The note is a word of this CPU alone, which no tenant can set: between the three
 * runs nothing else runs on this CPU that sends (bottom halves are off).
 */
#ifndef WEIR_FEEDBACK_REPLY_H
#define WEIR_FEEDBACK_REPLY_H

#include "map_access.h"

/* The longest headers before IP: Ethernet and two VLAN tags. */
#define WEIR_NETWORK_MAX (14 + 4 * WEIR_TAGS_MAX)

static __always_inline struct weir_reply *reply_state(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&weir_reply, &key);
}

/* Tells the source of `packet`, which the program is run on, `rate`. 1: told. */
static __always_inline int send_feedback(struct __sk_buff *skb, const struct weir_packet *packet, u32 service, u64 rate, u64 now)
{
	struct weir_reply *reply = reply_state();
	u8 group;
	long failed;

	if (!reply || reply->stage != WEIR_REPLY_NONE)
		return 0;
	/* nobody answers for a group, nor to one */
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
		count_event(feedback_failed);
	return !failed;
}

/* Writes the note's body and its headers into a packet of that length, from where `packet` came to back where it came from. 0: done. */
static __always_inline int write_reply(struct __sk_buff *skb, struct weir_reply *reply, const struct weir_packet *packet)
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

/* Writes the answer into the copy. 0, or not when the copy is of no use. A function of its own, for the stack (pace, transmit.h). */
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
	feedback->has = packet->has | (is_ecn_sender(packet, slot, reply->now, WEIR_ECN_ACK_TIME) ? WEIR_FEEDBACK_ECN_ACK : 0);
	/* from where it came to back where it came from */
	weir_feedback_write(reply->body, feedback, packet->destination, packet->source, &key->sip);
	length = packet->family == 4 ? 20 + WEIR_UDP_BYTES : 40 + WEIR_UDP_BYTES;
	if (bpf_skb_change_tail(skb, network + length + WEIR_FEEDBACK_BYTES, 0))
		return -1;
	return write_reply(skb, reply, packet);
}

/*
 * Gives the receiver whose feedback is at hand this host's word that it codes (datapath/feedback.h): the feedback goes back to it as that.
 * The packet is of no use afterwards.
 */
static __noinline int send_ecn_capability(struct __sk_buff *skb, const struct weir_config *config, const struct weir_packet *packet,
				      const struct weir_feedback *feedback)
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
	/* with options or extension headers it has another length */
	if (packet->header_bytes != packet->network + (packet->family == 4 ? 20 : 40) + WEIR_UDP_BYTES)
		return 0;
	reply->feedback = *feedback;
	reply->feedback.rate = 0;
	reply->feedback.epoch = config->epoch;
	reply->feedback.sequence = bpf_ktime_get_ns();
	reply->feedback.key = key->id;
	weir_feedback_write_as(WEIR_KIND_ECN_CAPABILITY, reply->body, &reply->feedback, packet->destination, packet->source, &key->sip);
	if (write_reply(skb, reply, packet)) {
		count_event(feedback_failed);
		return 0;
	}
	reply->stage = WEIR_REPLY_FEEDBACK;
	if (bpf_clone_redirect(skb, skb->ifindex, 0))
		count_event(feedback_failed);
	reply->stage = WEIR_REPLY_NONE;
	return 0;
}

/* A sender has given its word about a packet of a service. */
static __noinline int receive_ecn_capability(const struct weir_feedback *message, const struct weir_packet *packet, u32 service, u64 now)
{
	struct weir_reply *reply = reply_state();
	struct weir_ecn_capability new = {}, *last;
	u32 key = 0;
	u64 *epoch;

	if (!reply || !message || !packet || service >= WEIR_SERVICES_MAX)
		return 0;
	ecn_sender_of(packet, service, &reply->sender);
	last = bpf_map_lookup_elem(&weir_ecn_senders, &reply->sender);
	if (last && !weir_feedback_newer(message->epoch, message->sequence, last->epoch, last->sequence)) {
		count_event(feedback_replayed);
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
