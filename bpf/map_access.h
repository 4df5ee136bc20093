/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Reads and writes of the maps that several programs share. */
#ifndef WEIR_MAP_ACCESS_H
#define WEIR_MAP_ACCESS_H

#include "maps.h"

/* The clocks of the programs; replay.bpf.c replaces them. */
#ifndef WEIR_REPLAY
#define WEIR_CLOCK() bpf_ktime_get_ns()
#define WEIR_JIFFIES() bpf_jiffies64()
#endif

/* Verdict "continue with the next program": TC_ACT_UNSPEC, which is also TCX_NEXT. */
#define NEXT (-1)
#define DROP 2

/* TC_PRIO_CONTROL of linux/pkt_sched.h */
#define WEIR_PRIORITY_CONTROL 7
/* PACKET_HOST and PACKET_OTHERHOST of linux/if_packet.h: to this host's hardware address, and not */
#define WEIR_PACKET_HOST 0
#define WEIR_PACKET_OTHERHOST 3

/*
 * Set by the loader; 0 if packets get no departure times (htb). The verifier then prunes that code,
 * which is half of its work at each start of an agent.
 */
const volatile u32 weir_paces = 1;

#include "host/tick.h"

/* Sets the packet's departure time, unless TCP pacing has set a later one. */
static __always_inline void set_departure(struct __sk_buff *skb, u64 departure)
{
	/* Another type of timestamp is a time of arrival. */
	u64 paced = skb->tstamp_type == BPF_SKB_TSTAMP_DELIVERY_MONO ? skb->tstamp : 0;

	/*
	 * The helper marks the timestamp as a departure time, but supports only IP. fq accepts an
	 * unmarked timestamp.
	 */
	if (departure > paced && bpf_skb_set_tstamp(skb, departure, BPF_SKB_TSTAMP_DELIVERY_MONO))
		skb->tstamp = departure;
}

/*
 * The service of a packet. Not inlined, so that the verifier checks its comparisons once and not once per path that
 * leads here.
 */
__noinline u32 classify(const struct weir_table *table, const struct weir_packet *packet)
{
	return table && packet ? weir_classify(&table->index, packet) : WEIR_UNCLASSIFIED;
}

/* The key in weir_ecn_senders of the sender of a packet of a service. */
static __always_inline void ecn_sender_of(const struct weir_packet *packet, u32 service, struct weir_ecn_sender *sender)
{
	sender->source[0] = packet->source[0];
	sender->source[1] = packet->source[1];
	sender->destination[0] = packet->destination[0];
	sender->destination[1] = packet->destination[1];
	sender->service = service;
}

/* Whether the sender of a packet of a service has sent an ECN capability message less than `since` ns before `now`. */
static __always_inline int is_ecn_sender(const struct weir_packet *packet, u32 service, u64 now, u64 since)
{
	struct weir_ecn_sender sender = {};
	struct weir_ecn_capability *capability;

	ecn_sender_of(packet, service, &sender);
	capability = bpf_map_lookup_elem(&weir_ecn_senders, &sender);
	/* the time of a tick may be before that of the message */
	return capability && (now < capability->at || now - capability->at < since);
}

/* The same for WEIR_ECN_DECAPSULATE_TIME, from this CPU's cache or else from weir_ecn_senders. */
static __always_inline int decapsulates(const struct weir_packet *packet, u32 service, u64 now)
{
	u32 slot = weir_advertised_slot(packet->source, packet->destination, service, WEIR_ECN_CACHE_SLOTS);
	struct weir_ecn_cache *cached = bpf_map_lookup_elem(&weir_ecn_cache, &slot);
	struct weir_ecn_capability *capability;
	u32 key = 0;
	u64 *epoch = bpf_map_lookup_elem(&weir_ecn_epoch, &key), known;

	if (!cached || !epoch)
		return 0;
	/* read before the lookup, as a writer adds the sender before it counts it */
	known = *(volatile u64 *)epoch;
	/* the time of a tick may be before that of the message */
	if (cached->sender.source[0] == packet->source[0] && cached->sender.source[1] == packet->source[1] &&
	    cached->sender.destination[0] == packet->destination[0] &&
		    cached->sender.destination[1] == packet->destination[1] &&
	    cached->sender.service == service) {
		if (cached->at && (now < cached->at || now - cached->at < WEIR_ECN_DECAPSULATE_TIME))
			return 1;
		if (!cached->at && cached->epoch == known)
			return 0;
	}
	/* replaces the previous entry of the slot */
	ecn_sender_of(packet, service, &cached->sender);
	capability = bpf_map_lookup_elem(&weir_ecn_senders, &cached->sender);
	cached->at = capability ? capability->at : 0;
	cached->epoch = known;
	return capability && (now < capability->at || now - capability->at < WEIR_ECN_DECAPSULATE_TIME);
}

/* Adds the source of a packet whose hardware source is not this interface to the local neighbours. */
static __always_inline void note_neighbour(struct __sk_buff *skb, const struct weir_config *config,
					   const struct weir_packet *packet)
{
	u8 hardware[12] WEIR_ALIGNED;
	struct weir_address from;
	u64 source = 0, now, *seen;

	if (weir_load(skb, 0, hardware, 12))
		return;
	__builtin_memcpy(&source, hardware + 6, 6);
	if (source == config->hardware)
		return;
	from.words[0] = packet->source[0];
	from.words[1] = packet->source[1];
	seen = bpf_map_lookup_elem(&weir_neighbours, &from);
	now = weir_tick_time(config->tick);
	if (seen && (now < *seen || now - *seen < WEIR_NEIGHBOUR_REFRESH))
		return;
	now = WEIR_CLOCK();
	bpf_map_update_elem(&weir_neighbours, &from, &now, BPF_ANY);
}

/* Whether the destination of a packet is a local neighbour. */
static __always_inline int is_neighbour(const struct weir_packet *packet, u64 now)
{
	struct weir_address to;
	u64 *seen;

	to.words[0] = packet->destination[0];
	to.words[1] = packet->destination[1];
	seen = bpf_map_lookup_elem(&weir_neighbours, &to);
	return seen && (now < *seen || now - *seen < WEIR_NEIGHBOUR_LIFETIME);
}

#endif
