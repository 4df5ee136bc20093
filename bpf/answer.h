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
#ifndef WEIR_ANSWER_H
#define WEIR_ANSWER_H

#include "maps.h"

/* The longest headers before IP: Ethernet and two VLAN tags. */
#define WEIR_NETWORK_MAX (14 + 4 * WEIR_TAGS_MAX)

static __always_inline struct weir_answering *answering(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&weir_answering, &key);
}

/* Tells the source of `packet`, which the program is run on, `rate`. 1: told. */
static __always_inline int answer(struct __sk_buff *skb, const struct weir_packet *packet, u32 service, u64 rate, u64 now)
{
	struct weir_answering *note = answering();
	u8 group;
	long failed;

	if (!note || note->on != WEIR_ANSWERING_NOTHING)
		return 0;
	/* nobody answers for a group, nor to one */
	if (weir_load(skb, 0, &group, 1) || (group & 1))
		return 0;
	note->on = WEIR_ANSWERING_COPY;
	note->service = service;
	note->rate = rate;
	note->now = now;
	note->packet = *packet;
	failed = bpf_clone_redirect(skb, skb->ifindex, 0);
	note->on = WEIR_ANSWERING_NOTHING;
	if (failed)
		tally(WEIR_COUNT_ANSWERS_FAILED);
	return !failed;
}

/* Writes the note's body and its headers into a packet of that length, from where `packet` came to back where it came from. 0: done. */
static __always_inline int turn(struct __sk_buff *skb, struct weir_answering *note, const struct weir_packet *packet)
{
	u32 network = packet->network;
	u32 length = packet->family == 4 ? 20 + WEIR_UDP_BYTES : 40 + WEIR_UDP_BYTES;
	u8 hardware[12] WEIR_ALIGNED, swapped[12];

	if (weir_load(skb, 0, hardware, 12))
		return -1;
	__builtin_memcpy(swapped, hardware + 6, 6);
	__builtin_memcpy(swapped + 6, hardware, 6);
	if (packet->family == 4) {
		weir_answer_ipv4(note->headers, packet->destination, packet->source);
		if (bpf_skb_store_bytes(skb, network, note->headers, 20 + WEIR_UDP_BYTES, 0))
			return -1;
	} else {
		weir_answer_ipv6(note->headers, packet->destination, packet->source, note->body);
		if (bpf_skb_store_bytes(skb, network, note->headers, 40 + WEIR_UDP_BYTES, 0))
			return -1;
	}
	if (bpf_skb_store_bytes(skb, network + length, note->body, WEIR_FEEDBACK_BYTES, 0))
		return -1;
	return (int)bpf_skb_store_bytes(skb, 0, swapped, 12, BPF_F_INVALIDATE_HASH);
}

/* Writes the answer into the copy. 0, or not when the copy is of no use. A function of its own, for the stack (pace, transmit.h). */
static __noinline int rewrite(struct __sk_buff *skb, struct weir_answering *note, const struct weir_config *config)
{
	const struct weir_packet *packet = &note->packet;
	struct weir_feedback *feedback = &note->feedback;
	u32 network = packet->network;
	u32 place = config->sign, slot = note->service;
	struct weir_service *service;
	struct weir_key *key;
	u32 length;

	key = bpf_map_lookup_elem(&weir_keys, &place);
	service = bpf_map_lookup_elem(&weir_services, &slot);
	if (!key || !key->known || !service || network > WEIR_NETWORK_MAX)
		return -1;
	feedback->rate = note->rate;
	feedback->epoch = config->epoch;
	feedback->sequence = note->now;
	feedback->service = service->name[0];
	feedback->vni = packet->vni;
	feedback->key = key->id;
	feedback->source_port = packet->source_port;
	feedback->destination_port = packet->destination_port;
	feedback->protocol = packet->protocol;
	feedback->dscp = packet->dscp;
	feedback->has = packet->has | (codes(packet, slot, note->now, WEIR_WORD_HEARD) ? WEIR_FEEDBACK_HEARD : 0);
	/* from where it came to back where it came from */
	weir_feedback_write(note->body, feedback, packet->destination, packet->source, &key->sip);
	length = packet->family == 4 ? 20 + WEIR_UDP_BYTES : 40 + WEIR_UDP_BYTES;
	if (bpf_skb_change_tail(skb, network + length + WEIR_FEEDBACK_BYTES, 0))
		return -1;
	return turn(skb, note, packet);
}

/*
 * Gives the receiver whose feedback is at hand this host's word that it codes (datapath/feedback.h): the feedback goes back to it as that.
 * The packet is of no use afterwards.
 */
static __noinline int say_word(struct __sk_buff *skb, const struct weir_config *config, const struct weir_packet *packet,
				      const struct weir_feedback *about)
{
	struct weir_answering *note = answering();
	struct weir_key *key;
	u32 place;

	if (!config || !packet || !about)
		return 0;
	place = config->sign;
	key = bpf_map_lookup_elem(&weir_keys, &place);
	if (!note || note->on != WEIR_ANSWERING_NOTHING || !key || !key->known || packet->network > WEIR_NETWORK_MAX)
		return 0;
	/* with options or extension headers it has another length */
	if (packet->header_bytes != packet->network + (packet->family == 4 ? 20 : 40) + WEIR_UDP_BYTES)
		return 0;
	note->feedback = *about;
	note->feedback.rate = 0;
	note->feedback.epoch = config->epoch;
	note->feedback.sequence = bpf_ktime_get_ns();
	note->feedback.key = key->id;
	weir_feedback_write_as(WEIR_KIND_WORD, note->body, &note->feedback, packet->destination, packet->source, &key->sip);
	if (turn(skb, note, packet)) {
		tally(WEIR_COUNT_ANSWERS_FAILED);
		return 0;
	}
	note->on = WEIR_ANSWERING_ANSWER;
	if (bpf_clone_redirect(skb, skb->ifindex, 0))
		tally(WEIR_COUNT_ANSWERS_FAILED);
	note->on = WEIR_ANSWERING_NOTHING;
	return 0;
}

/* A sender has given its word about a packet of a service. */
static __noinline int hear_word(const struct weir_feedback *word, const struct weir_packet *packet, u32 service, u64 now)
{
	struct weir_answering *note = answering();
	struct weir_word new = {}, *last;
	u32 key = 0;
	u64 *words;

	if (!note || !word || !packet || service >= WEIR_SERVICES_MAX)
		return 0;
	coder_of(packet, service, &note->coder);
	last = bpf_map_lookup_elem(&weir_coders, &note->coder);
	if (last && !weir_feedback_newer(word->epoch, word->sequence, last->epoch, last->sequence)) {
		tally(WEIR_COUNT_REPLAYED);
		return 0;
	}
	new.at = now;
	new.epoch = word->epoch;
	new.sequence = word->sequence;
	bpf_map_update_elem(&weir_coders, &note->coder, &new, BPF_ANY);
	words = bpf_map_lookup_elem(&weir_words, &key);
	if (!last && words)
		__sync_fetch_and_add(words, 1);
	return 0;
}

#endif
