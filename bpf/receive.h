/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What happens to a packet that arrives at the interface: control traffic is taken out, the rest is counted, has the ECN bits that
 * its tenant sent, and is answered when that is due.
 *
 * Each CPU counts by itself; a tick (tick.h) adds up and computes the rate that an answer tells. The time from when on the next one is
 * stands in for the clock where that is enough: reading the clock takes 40 ns where a whole packet takes 60. It is ahead of the clock, or, where
 * less than WEIR_CLOCK_BYTES has come since, behind it by a tick of the scheduler's clock at most (tick.h): who sends so little may be answered
 * so much later than the interval says, unless it asks.
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
 * Gives the packet back the ECN bits that its tenant sent, where its sender has given its word that it codes (ecn.h), and says what its way did
 * to them.
 */
static __always_inline struct weir_ecn decapsulate_ecn(struct __sk_buff *skb, const struct weir_packet *packet, u32 service, u64 tick)
{
	struct weir_ecn found = {}, own = {};
	u8 header[WEIR_ECN_IPV4] WEIR_ALIGNED;

	/* switches leave Not-ECT alone */
	if (packet->ecn == WEIR_NOT_ECT)
		return found;
	own.capable = 1;
	own.marked = packet->ecn == WEIR_CE;
	if (packet->family == 4) {
		if (weir_load(skb, packet->network, header, WEIR_ECN_IPV4))
			return own;
		found = weir_ecn_arrive_ipv4(header);
	} else {
		if (weir_load(skb, packet->network, header, WEIR_ECN_IPV6))
			return own;
		found = weir_ecn_arrive_ipv6(header);
	}
	if (!found.encapsulated || service >= WEIR_SERVICES_MAX || !decapsulates(packet, service, tick_time(tick)))
		return own;
	if (packet->family == 4)
		bpf_skb_store_bytes(skb, packet->network, header, WEIR_ECN_IPV4, 0);
	else
		bpf_skb_store_bytes(skb, packet->network, header, WEIR_ECN_IPV6, BPF_F_RECOMPUTE_CSUM);
	return found;
}

/* All headers of each packet that was merged into this one. A function of its own: most are no tunnels, and its stack is short. */
static __noinline u32 headers_of(struct __sk_buff *skb, const struct weir_packet *packet)
{
	return packet ? weir_header_bytes(skb, packet) : 0;
}

/* Notes that the service of a slot has packets since the last tick, and runs the next one when it is due. */
static __always_inline void activate(u32 slot, u64 bytes)
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

/* Whether the sender of a packet was told `rate` lately. */
static __always_inline int is_repeated(const struct weir_packet *packet, u32 slot, u64 rate, u64 now, u64 keep)
{
	u32 index = weir_advertised_slot(packet->source, packet->destination, slot, WEIR_ADVERTISED_SLOTS);
	struct weir_advertised *advertised = bpf_map_lookup_elem(&weir_advertised, &index);

	return advertised && weir_feedback_repeats(advertised, packet->source, packet->destination, slot, rate, now, keep);
}

/* Whether one more that asks is answered in the tick at hand. */
static __always_inline int may_request(u64 due)
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

/* Counts a packet of `bytes` and `segments` for the next tick, and answers it when that is due. */
static __always_inline void receive(struct __sk_buff *skb, const struct weir_config *config, const struct weir_packet *packet,
				    u32 service, u64 bytes, u32 segments)
{
	u32 slot = service < WEIR_SERVICES_MAX ? service : WEIR_REST;
	struct weir_counting *counting = bpf_map_lookup_elem(&weir_counting, &slot);
	struct weir_ecn ecn = decapsulate_ecn(skb, packet, service, config->tick);
	struct weir_receiver *receiver;
	struct weir_service *own;
	struct weir_state *state;
	u32 key = 0;
	u64 rate, now;
	int due;

	if (!counting)
		return;
	counting->arrivals.bytes += bytes;
	if (ecn.capable) {
		counting->arrivals.packets += segments;
		if (ecn.marked)
			counting->arrivals.marked += segments;
	}
	activate(slot, bytes);
	if (slot == WEIR_REST || !(packet->has & WEIR_HAS_IP))
		return;
	receiver = bpf_map_lookup_elem(&weir_receivers, &slot);
	own = bpf_map_lookup_elem(&weir_services, &slot);
	state = bpf_map_lookup_elem(&weir_states, &key);
	if (!receiver || !own || !state)
		return;
	rate = *(volatile u64 *)&receiver->meter.rate;
	if (!rate)
		return;
	counting->sampler.bytes = own->feedback_bytes;
	counting->sampler.interval = own->feedback_interval;
	if (!ecn.requests_feedback && weir_feedback_not_due(&counting->sampler, *(volatile u64 *)&state->due, bytes))
		return;
	now = bpf_ktime_get_ns();
	due = weir_feedback_due(&counting->sampler, now, bytes);
	if (!due && (!ecn.requests_feedback || !may_request(*(volatile u64 *)&state->due)))
		return;
	/* a switch floods what it does not know, and a bridge's ports see it all: each is answered by the host that it is for alone */
	if (skb->pkt_type == WEIR_PACKET_OTHERHOST && !is_neighbour(packet, now))
		return;
	/* who asks was told too, where the word was not lost */
	if (!is_repeated(packet, slot, rate, now, WEIR_ADVERTISED_HOLD * own->feedback_interval))
		counting->feedback_sent += send_feedback(skb, packet, slot, rate, now);
}

#endif
