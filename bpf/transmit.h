/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What happens to a packet that leaves by the interface: its service is found and counted, switches may mark it where its receiver
 * answers, and it is given to what holds rates:
 *
 *   edt  a departure time, which fq obeys: the latest of what its destination, its service and the machine allow (departure.h).
 *        Feedback sets the destination's limiter in the kernel; nobody else is needed.
 *   htb  the class of its destination, its service, or its service in the static policy. Where a destination has no class of its
 *        own its service's holds it: the agent makes one when a receiver's rate is less than what the service may send at all
 *        (crates/linux/src/htb.rs).
 *
 * Any CPU may send for any service: all clocks of the interface have one lock (departure.h, batches; grant.h).
 */
#ifndef WEIR_TRANSMIT_H
#define WEIR_TRANSMIT_H

#include "ecn.h"
#include "maps.h"
#include "tick.h"

/* The service of a packet, whose fields are left in `packet`. */
static __always_inline u32 verdict(struct __sk_buff *skb, const struct weir_config *config,
				   struct weir_packet *packet)
{
	u32 key = config->table;
	struct weir_table *table;

	if (weir_parse(skb, packet) != WEIR_PARSED) {
		packet->has = 0;
		return WEIR_UNCLASSIFIED;
	}
	table = bpf_map_lookup_elem(&weir_tables, &key);
	if (!table)
		return WEIR_UNCLASSIFIED;
	return classify(table, packet);
}

static __always_inline void count(u32 service, u32 direction, u64 bytes, u32 packets)
{
	/* unclassified (2^32 - 1) and whatever is out of range share the last slot */
	u32 slot = service < WEIR_SERVICES_MAX ? service : WEIR_SERVICES_MAX;
	u32 key = slot * 2 + direction;
	struct weir_meter *meter = bpf_map_lookup_elem(&weir_meters, &key);

	if (meter)
		weir_meter_add(meter, bytes, packets);
}

/*
 * Makes the packet one that switches may mark, where that can be undone; `coded`: its receiver knows how. If not, what its tenant wrote is
 * kept from looking as if it were.
 */
static __always_inline void expose(struct __sk_buff *skb, const struct weir_packet *packet, u32 segments, int coded, int asks)
{
	u8 header[WEIR_ECN_IPV4] WEIR_ALIGNED;

	if (!coded && packet->ecn == WEIR_NOT_ECT)
		return;
	if (packet->family == 4) {
		if (weir_load(skb, packet->network, header, WEIR_ECN_IPV4))
			return;
		if (weir_ecn_leave_ipv4(header, segments, asks))
			bpf_skb_store_bytes(skb, packet->network, header, WEIR_ECN_IPV4, 0);
	} else {
		if (weir_load(skb, packet->network, header, WEIR_ECN_IPV6))
			return;
		if (weir_ecn_leave_ipv6(header, asks))
			bpf_skb_store_bytes(skb, packet->network, header, WEIR_ECN_IPV6, BPF_F_RECOMPUTE_CSUM);
	}
}

/* Whoever a packet goes to. */
struct receiver {
	struct weir_held *held; /* where it holds its senders */
	u32 place;              /* the slot of that, or WEIR_NOWHERE */
	u32 class;              /* htb: 0 where it has none */
};

/* A packet of a service leaves: who gets it. */
static __always_inline struct receiver transmit(struct __sk_buff *skb, const struct weir_config *config,
						const struct weir_packet *packet, u32 service, u32 segments)
{
	struct receiver receiver = { .place = WEIR_NOWHERE };
	struct weir_place place = {};
	struct weir_held *held;
	struct weir_mail *mail;
	struct weir_active *active;
	u32 *slot, at, key = 0;
	u64 now;
	int coded;

	place.address[0] = packet->destination[0];
	place.address[1] = packet->destination[1];
	place.service = service;
	slot = bpf_map_lookup_elem(&weir_places, &place);
	if (!slot)
		return receiver;
	at = *slot;
	held = bpf_map_lookup_elem(&weir_destinations, &at);
	if (!held)
		return receiver;
	/* by the time that it is asked for feedback: who only sends has nobody else to look at the clock, but where the timer runs each tick */
	active = paces(config) ? 0 : bpf_map_lookup_elem(&weir_active, &key);
	if (active)
		tick_by_packet(active, skb->wire_len);
	now = lately(config->tick);
	if (weir_destination_silent(&held->destination, now) == WEIR_DESTINATION_DROP) {
		if (now - held->destination.heard_at < WEIR_WORD_AVOIDS)
			expose(skb, packet, segments, 0, 0);
		return receiver;
	}
	held->sent += skb->wire_len;
	coded = held->coded_at && (now < held->coded_at || now - held->coded_at < WEIR_WORD_CODES);
	expose(skb, packet, segments, coded, coded && weir_destination_asks(&held->destination, now));
	receiver.held = held;
	receiver.place = at;
	if (paces(config))
		return receiver;
	mail = bpf_map_lookup_elem(&weir_mails, &at);
	if (mail)
		receiver.class = mail->class;
	return receiver;
}

/* Whether the packet leaves at once, in its CPU's batch (departure.h). */
static __always_inline int leaves_in_batch(struct __sk_buff *skb, u32 service, u32 place)
{
	u32 slot = service < WEIR_SERVICES_MAX ? service : WEIR_REST, key = 0;
	struct weir_batch *batch = bpf_map_lookup_elem(&weir_batches, &slot);
	struct weir_state *state = bpf_map_lookup_elem(&weir_states, &key);

	return batch && state && weir_batch_pass(batch, *(volatile u64 *)&state->due, place, skb->wire_len);
}

/* `departure`, or now where that is past. */
static __always_inline u64 later(u64 departure)
{
	u64 now = bpf_ktime_get_ns();

	return departure > now ? departure : now;
}

/* Writes a departure on the packet. */
static __always_inline void stamp(struct __sk_buff *skb, u64 departure)
{
	/* TCP writes a time of its own, for pacing; any other kind of time says when a packet came */
	u64 own = skb->tstamp_type == BPF_SKB_TSTAMP_DELIVERY_MONO ? skb->tstamp : 0;

	/* the helper knows IP alone, and marks the time as one of departure; fq takes any */
	if (departure > own && bpf_skb_set_tstamp(skb, departure, BPF_SKB_TSTAMP_DELIVERY_MONO))
		skb->tstamp = departure;
}

/*
 * Writes on the packet when it leaves. 1: it does not. A function of its own: what it needs of the stack, which is 512 bytes for all that call
 * each other, is free while a tick runs.
 */
static __noinline int pace(struct __sk_buff *skb, u32 service, struct weir_held *held, u32 place, u64 tick)
{
	u32 slot = service < WEIR_SERVICES_MAX ? service : WEIR_REST;
	u32 alone, leaves, key = 0;
	struct weir_outlet *outlet = bpf_map_lookup_elem(&weir_outlets, &slot);
	struct weir_sending *rules = bpf_map_lookup_elem(&weir_sendings, &slot);
	struct weir_batch *batch = bpf_map_lookup_elem(&weir_batches, &slot);
	struct weir_pacing *pacing = bpf_map_lookup_elem(&weir_pacings, &key);
	struct weir_exit *exit = bpf_map_lookup_elem(&weir_exits, &key);
	struct weir_state *state = bpf_map_lookup_elem(&weir_states, &key);
	struct weir_held *paid = held;
	struct weir_grant *grant;
	u64 lately, now, due, departure;

	if (!outlet || !rules || !batch || !pacing || !exit || !state)
		return 0;
	alone = state->fallback;
	due = *(volatile u64 *)&state->due;
	grant = held ? &held->grant : &outlet->sender.grant;
	if (weir_grant_take(grant, due, skb->wire_len, &departure))
		goto granted;
	if (batch->place != place) {
		key = batch->place;
		paid = bpf_map_lookup_elem(&weir_destinations, &key);
		/* another has the slot now */
		if (paid && paid->place.service != service)
			paid = 0;
	}
	/* without the lock: another CPU may charge the clocks before this one has it */
	lately = weir_departure_lately(&outlet->sender, held ? &held->destination.limiter : 0, batch->unpaid, grant, pacing, tick, due);
	now = lately ? lately : bpf_ktime_get_ns();
	/* one for all clocks of the interface: taking a lock costs more than what is done under it */
	bpf_spin_lock(&exit->lock);
	/* who had it before may have begun one for all that wait for it here */
	if (weir_grant_take(grant, due, skb->wire_len, &departure)) {
		bpf_spin_unlock(&exit->lock);
		goto granted;
	}
	leaves = weir_depart(batch, paid ? &paid->destination.limiter : 0, held ? &held->destination.limiter : 0, place, grant,
			     &outlet->sender, rules, pacing, &state->level, &exit->machine, now, due, skb->wire_len, alone, &departure);
	bpf_spin_unlock(&exit->lock);
	if (leaves == WEIR_LEAVES_NEVER) {
		tally(WEIR_COUNT_BEYOND_HORIZON);
		return 1;
	}
	if (departure <= now)
		return 0;
	/* another CPU may have charged them since, and the departure be past */
	if (lately && departure <= due + tick)
		departure = later(departure);
	stamp(skb, departure);
	return 0;
granted:
	stamp(skb, weir_batch_ends(batch, due, place) ? later(departure) : departure);
	return 0;
}

/* Puts the packet into the class `own`, or where that is 0 into its service's of the policy in force. */
static __always_inline void choose_class(struct __sk_buff *skb, const struct weir_config *config, u32 service, u32 own)
{
	u32 minor = config->class_default;
	u32 key = 0;
	struct weir_state *state;

	if (!config->class_major)
		return;
	if (service < WEIR_SERVICES_MAX) {
		minor = own ? own : config->class_first + service;
		state = bpf_map_lookup_elem(&weir_states, &key);
		if (config->class_static && state && state->fallback)
			minor = config->class_static + service;
	}
	skb->priority = config->class_major | (minor & 0xffff);
}

#endif
