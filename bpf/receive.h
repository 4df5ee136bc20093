/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Ingress path of a tenant's packet: restore the ECN bits, police, count, send feedback when it is due.
 *
 * Each CPU has its plain counters. A tick (tick.h) sums them up and computes the rate that feedback
 * carries. Control traffic takes another path (control.h).
 *
 * Reading the clock takes 40 ns, and a complete packet 60 ns. So most packets use the time at which
 * the next tick is due (state->due) instead of the clock to decide whether feedback is due. That
 * time is ahead of the clock. It is behind the clock, by at most one jiffy, only if less than
 * WEIR_CLOCK_BYTES have arrived since (tick.h). Feedback to a sender of so little traffic may be
 * late by one jiffy, unless the sender requests feedback.
 *
 * Source: EyeQ section 4 (receive side); Parley section 3.2.1 (feedback per 10 kB).
 */
#ifndef WEIR_RECEIVE_H
#define WEIR_RECEIVE_H

#include "feedback_reply.h"
#include "control.h"
#include "ecn.h"
#include "map_access.h"
#include "tick.h"
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
	if (!found.encapsulated || service >= WEIR_SERVICES_MAX || !decapsulates(packet, service, tick_time(tick)))
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

/* Marks a service as active since the last tick, and runs the next tick if it is due. */
static __always_inline void mark_active(u32 slot, u64 bytes)
{
	u32 key = 0;
	struct weir_active *active = bpf_map_lookup_elem(&weir_active, &key);
	u32 word = slot / 64;
	u64 bit = 1ULL << (slot % 64);

	if (!active)
		return;
	if (word < WEIR_ACTIVE_WORDS && !(active->words[word] & bit))
		active->words[word] |= bit;
	tick_by_packet(active, bytes);
}

/*
 * Returns 1 if `rate` was advertised to the packet's sender less than `keep` ns ago (with backoff:
 * weir_feedback_repeats). Otherwise records the advertisement.
 */
static __always_inline int is_repeated(const struct weir_packet *packet, u32 slot, u64 rate, u64 now, u64 keep)
{
	u32 index = weir_advertised_slot(packet->source, packet->destination, slot, WEIR_ADVERTISED_SLOTS);
	struct weir_advertised *advertised = bpf_map_lookup_elem(&weir_advertised, &index);

	return advertised &&
	       weir_feedback_repeats(advertised, packet->source, packet->destination, slot, rate, now, keep);
}

/*
 * Returns 1 if this CPU may serve one more feedback request before the tick at `due`
 * (WEIR_REQUESTS_MAX).
 */
static __always_inline int admit_request(u64 due)
{
	u32 key = 0;
	struct weir_active *active = bpf_map_lookup_elem(&weir_active, &key);

	if (!active)
		return 0;
	if (active->requests_tick != due) {
		active->requests_tick = due;
		active->requests = 0;
	}
	if (active->requests >= WEIR_REQUESTS_MAX) {
		count_event(requests_limited);
		return 0;
	}
	active->requests += 1;
	return 1;
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

/* Counts `bytes` of a follower, to a service with a receive limit. */
static __always_inline void count_follower(struct weir_counting *counting, u64 bytes)
{
	counting->policed.followed_bytes += bytes;
	counting->arrivals.bytes += bytes;
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
	int verdict, ect;
	u64 now;

	if (!packet || !counting || !receiver || !config)
		return NEXT;
	if (decapsulates(packet, slot, tick_time(config->tick))) {
		count_follower(counting, bytes);
		return NEXT;
	}
	ect = packet->ecn != WEIR_NOT_ECT;
	now = WEIR_CLOCK();
	bpf_spin_lock(&receiver->lock);
	verdict = weir_police(&receiver->policer, now, bytes, segments, ect);
	bpf_spin_unlock(&receiver->lock);
	if (verdict == WEIR_POLICE_DROP) {
		counting->policed.dropped_bytes += bytes;
		counting->policed.dropped_packets += segments;
		return DROP;
	}
	counting->policed.bytes += bytes;
	counting->policed.packets += segments;
	if (verdict == WEIR_POLICE_MARK) {
		counting->policed.marked_packets += segments;
		mark_ce(skb, packet);
	}
	return NEXT;
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
	struct weir_state *state;
	u32 key = 0;
	u64 rate, now;
	int due, verdict = NEXT;

	if (!counting || !receiver)
		return NEXT;
	/* The policer of unclassified traffic and of a service without a receive limit has no limit. */
	if (!*(volatile u64 *)&receiver->policer.limit || !(packet->has & WEIR_HAS_IP))
		counting->arrivals.bytes += bytes;
	else if (ecn.encapsulated)
		count_follower(counting, bytes);
	else
		verdict = police(skb, packet, slot, (u32)bytes, segments);
	if (verdict == NEXT && ecn.capable) {
		counting->arrivals.packets += segments;
		if (ecn.marked)
			counting->arrivals.marked += segments;
	}
	mark_active(slot, bytes);
	if (slot == WEIR_REST || !(packet->has & WEIR_HAS_IP))
		return verdict;
	settings = bpf_map_lookup_elem(&weir_services, &slot);
	state = bpf_map_lookup_elem(&weir_states, &key);
	if (!settings || !state)
		return verdict;
	rate = *(volatile u64 *)&receiver->meter.rate;
	if (!rate)
		return verdict;
	counting->sampler.bytes = settings->feedback_bytes;
	counting->sampler.interval = settings->feedback_interval;
	if (!ecn.requests_feedback && weir_feedback_not_due(&counting->sampler, *(volatile u64 *)&state->due, bytes))
		return verdict;
	now = WEIR_CLOCK();
	due = weir_feedback_due(&counting->sampler, now, bytes);
	if (!due && (!ecn.requests_feedback || !admit_request(*(volatile u64 *)&state->due)))
		return verdict;
	/*
	 * A switch floods frames to unknown destinations, and a bridge port receives them all. Only
	 * the host that serves the destination sends feedback.
	 */
	if (skb->pkt_type == WEIR_PACKET_OTHERHOST && !is_neighbour(packet, now))
		return verdict;
	/*
	 * This also applies to a sender that requests feedback: it has the rate, unless the earlier
	 * feedback was lost.
	 */
	if (!is_repeated(packet, slot, rate, now, WEIR_ADVERTISED_HOLD * settings->feedback_interval))
		counting->feedback_sent += send_feedback(skb, packet, slot, rate, now);
	return verdict;
}

#endif
