/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Ingress path of a tenant's packet: restore the ECN bits, police, count, send feedback when it is due.
 *
 * The stages are those of datapath/host: arrive.h counts and polices, tick.h computes the rate that feedback carries,
 * advertise.h decides about feedback. Control traffic takes another path (control.h).
 *
 * Source: EyeQ section 4 (receive side); Parley section 3.2.1 (feedback per 10 kB).
 */
#ifndef WEIR_RECEIVE_H
#define WEIR_RECEIVE_H

#include "feedback_reply.h"
#include "control.h"
#include "ecn.h"
#include "host/advertise.h"
#include "host/arrive.h"
#include "map_access.h"
#include "tunnel.h"

/*
 * Restores the ECN bits that the tenant sent, if the packet's sender has advertised the ECN
 * capability (ecn.h). Returns what the network did to the packet.
 */
static __always_inline struct weir_ecn decapsulate_ecn(struct __sk_buff *skb, const struct weir_packet *packet,
						       u32 service, u64 tick)
{
	struct weir_ecn found = {}, plain = {};
	u8 header[WEIR_ECN_IPV4] WEIR_ALIGNED;

	/*
	 * Senders encapsulate as ECT, and switches do not change Not-ECT: there is nothing to
	 * restore.
	 */
	if (packet->ecn == WEIR_NOT_ECT)
		return found;
	plain.capable = 1;
	plain.marked = packet->ecn == WEIR_CE;
	if (packet->family == 4) {
		if (weir_load(skb, packet->network, header, WEIR_ECN_IPV4))
			return plain;
		found = weir_ecn_arrive_ipv4(header);
	} else {
		if (weir_load(skb, packet->network, header, WEIR_ECN_IPV6))
			return plain;
		found = weir_ecn_arrive_ipv6(header);
	}
	if (!found.encapsulated || service >= WEIR_SERVICES_MAX || !decapsulates(packet, service, weir_tick_time(tick)))
		return plain;
	if (packet->family == 4)
		bpf_skb_store_bytes(skb, packet->network, header, WEIR_ECN_IPV4, 0);
	else
		bpf_skb_store_bytes(skb, packet->network, header, WEIR_ECN_IPV6, BPF_F_RECOMPUTE_CSUM);
	return found;
}

/*
 * Returns the bytes of all headers of each packet that GRO merged into `skb`, tunnels of the table `key` included. Not
 * inlined: few packets need it, and the caller's stack is short.
 */
static __noinline u32 headers_of(struct __sk_buff *skb, const struct weir_packet *packet, u32 key)
{
	struct weir_table *table = bpf_map_lookup_elem(&weir_tables, &key);

	if (!packet)
		return 0;
	return table ? weir_header_bytes(skb, &table->index.tunnels, packet) : packet->header_bytes;
}

/* Marks a packet CE. */
static __always_inline void mark_ce(struct __sk_buff *skb, const struct weir_packet *packet)
{
	u8 header[WEIR_ECN_IPV4] WEIR_ALIGNED;

	if (packet->family == 4) {
		if (weir_load(skb, packet->network, header, WEIR_ECN_IPV4))
			return;
		weir_ecn_mark_ipv4(header);
		bpf_skb_store_bytes(skb, packet->network, header, WEIR_ECN_IPV4, 0);
	} else {
		if (weir_load(skb, packet->network, header, WEIR_ECN_IPV6))
			return;
		weir_ecn_mark_ipv6(header);
		bpf_skb_store_bytes(skb, packet->network, header, WEIR_ECN_IPV6, BPF_F_RECOMPUTE_CSUM);
	}
}

/*
 * Polices a packet of a service with a receive limit (policer.h) and counts its bytes. Returns DROP,
 * or NEXT for a packet that passes, marked or not. Not inlined: the caller's stack is short.
 */
static __noinline int police(struct __sk_buff *skb, const struct weir_packet *packet, u32 slot, u32 bytes, u32 segments)
{
	struct weir_counting *counting = bpf_map_lookup_elem(&weir_counting, &slot);
	struct weir_receiver *receiver = bpf_map_lookup_elem(&weir_receivers, &slot);
	u32 key = 0;
	struct weir_config *config = bpf_map_lookup_elem(&weir_config, &key);
	int verdict;

	if (!packet || !counting || !receiver || !config)
		return NEXT;
	if (decapsulates(packet, slot, weir_tick_time(config->tick))) {
		weir_count_follower(counting, bytes);
		return NEXT;
	}
	verdict = weir_arrive_policed(counting, receiver, bytes, segments, packet->ecn != WEIR_NOT_ECT);
	if (verdict == WEIR_ARRIVES_MARKED)
		mark_ce(skb, packet);
	return verdict == WEIR_ARRIVES_DROPPED ? DROP : NEXT;
}

/*
 * Counts a packet of `bytes` and `segments` for the next tick, and sends feedback if it is due.
 * Returns DROP for a packet that the policer drops, else NEXT.
 */
static __always_inline int receive(struct __sk_buff *skb, const struct weir_config *config,
				   const struct weir_packet *packet, u32 service, u64 bytes, u32 segments)
{
	u32 slot = service < WEIR_SERVICES_MAX ? service : WEIR_REST;
	struct weir_counting *counting = bpf_map_lookup_elem(&weir_counting, &slot);
	struct weir_receiver *receiver = bpf_map_lookup_elem(&weir_receivers, &slot);
	struct weir_ecn ecn = decapsulate_ecn(skb, packet, service, config->tick);
	struct weir_service *settings;
	struct weir_advertisement due;
	int verdict = NEXT;

	if (!counting || !receiver)
		return NEXT;
	/* The policer of unclassified traffic and of a service without a receive limit has no limit. */
	if (!*(volatile u64 *)&receiver->policer.limit || !(packet->has & WEIR_HAS_IP))
		counting->arrivals.bytes += bytes;
	else if (ecn.encapsulated)
		weir_count_follower(counting, bytes);
	else
		verdict = police(skb, packet, slot, (u32)bytes, segments);
	weir_arrive(counting, ecn, slot, bytes, segments, verdict == NEXT);
	if (slot == WEIR_REST || !(packet->has & WEIR_HAS_IP))
		return verdict;
	settings = bpf_map_lookup_elem(&weir_services, &slot);
	if (!settings)
		return verdict;
	due = weir_advertise(counting, receiver, settings, ecn.requests_feedback, bytes);
	if (!due.rate)
		return verdict;
	/*
	 * A switch floods frames to unknown destinations, and a bridge port receives them all. Only
	 * the host that serves the destination sends feedback.
	 */
	if (skb->pkt_type == WEIR_PACKET_OTHERHOST && !is_neighbour(packet, due.now))
		return verdict;
	if (!weir_is_repeated(packet->source, packet->destination, slot, settings, due))
		counting->feedback_sent += send_feedback(skb, packet, slot, due.rate, due.now);
	return verdict;
}

#endif
