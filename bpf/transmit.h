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
 * Any CPU may send for any service: all clocks of the interface have one lock (departure.h, batches; lease.h).
 */
#ifndef WEIR_TRANSMIT_H
#define WEIR_TRANSMIT_H

#include "ecn.h"
#include "map_access.h"
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

static __always_inline void meter_packet(u32 service, u32 direction, u64 bytes, u32 packets)
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
static __always_inline void encapsulate_ecn(struct __sk_buff *skb, const struct weir_packet *packet, u32 segments, int encapsulate, int requests_feedback)
{
	u8 header[WEIR_ECN_IPV4] WEIR_ALIGNED;

	if (!encapsulate && packet->ecn == WEIR_NOT_ECT)
		return;
	if (packet->family == 4) {
		if (weir_load(skb, packet->network, header, WEIR_ECN_IPV4))
			return;
		if (weir_ecn_leave_ipv4(header, segments, requests_feedback))
			bpf_skb_store_bytes(skb, packet->network, header, WEIR_ECN_IPV4, 0);
	} else {
		if (weir_load(skb, packet->network, header, WEIR_ECN_IPV6))
			return;
		if (weir_ecn_leave_ipv6(header, requests_feedback))
			bpf_skb_store_bytes(skb, packet->network, header, WEIR_ECN_IPV6, BPF_F_RECOMPUTE_CSUM);
	}
}

/* Whoever a packet goes to. */
struct receiver {
	struct weir_destination_entry *entry; /* where it holds its senders */
	u32 destination;              /* the slot of that, or WEIR_NO_DESTINATION */
	u32 class;              /* htb: 0 where it has none */
};

/* A packet of a service leaves: who gets it. */
static __always_inline struct receiver transmit(struct __sk_buff *skb, const struct weir_config *config,
						const struct weir_packet *packet, u32 service, u32 segments)
{
	struct receiver receiver = { .destination = WEIR_NO_DESTINATION };
	struct weir_destination_key destination = {};
	struct weir_destination_entry *entry;
	struct weir_rate_mailbox *mailbox;
	struct weir_active *active;
	u32 *slot, at, key = 0;
	u64 now;
	int encapsulate;

	destination.address[0] = packet->destination[0];
	destination.address[1] = packet->destination[1];
	destination.service = service;
	slot = bpf_map_lookup_elem(&weir_destination_slots, &destination);
	if (!slot)
		return receiver;
	at = *slot;
	entry = bpf_map_lookup_elem(&weir_destinations, &at);
	if (!entry)
		return receiver;
	/* by the time that it is asked for feedback: who only sends has nobody else to look at the clock, but where the timer runs each tick */
	active = paces(config) ? 0 : bpf_map_lookup_elem(&weir_active, &key);
	if (active)
		tick_by_packet(active, skb->wire_len);
	now = tick_time(config->tick);
	if (weir_destination_silent(&entry->destination, now) == WEIR_DESTINATION_DROP) {
		if (now - entry->destination.feedback_at < WEIR_ECN_AVOID_TIME)
			encapsulate_ecn(skb, packet, segments, 0, 0);
		return receiver;
	}
	entry->sent += skb->wire_len;
	encapsulate = entry->capability_acked_at && (now < entry->capability_acked_at || now - entry->capability_acked_at < WEIR_ECN_ENCAPSULATE_TIME);
	encapsulate_ecn(skb, packet, segments, encapsulate, encapsulate && weir_destination_requests(&entry->destination, now));
	receiver.entry = entry;
	receiver.destination = at;
	if (paces(config))
		return receiver;
	mailbox = bpf_map_lookup_elem(&weir_rate_mailboxes, &at);
	if (mailbox)
		receiver.class = mailbox->class;
	return receiver;
}

/* Whether the packet leaves at once, in its CPU's batch (departure.h). */
static __always_inline int passes_in_batch(struct __sk_buff *skb, u32 service, u32 destination)
{
	u32 slot = service < WEIR_SERVICES_MAX ? service : WEIR_REST, key = 0;
	struct weir_cpu_batch *batch = bpf_map_lookup_elem(&weir_cpu_batches, &slot);
	struct weir_state *state = bpf_map_lookup_elem(&weir_states, &key);

	return batch && state && weir_cpu_batch_pass(batch, *(volatile u64 *)&state->due, destination, skb->wire_len);
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
static __noinline int pace(struct __sk_buff *skb, u32 service, struct weir_destination_entry *entry, u32 destination, u64 tick)
{
	u32 slot = service < WEIR_SERVICES_MAX ? service : WEIR_REST;
	u32 static_only, leaves, key = 0;
	struct weir_service_egress *service_egress = bpf_map_lookup_elem(&weir_service_egresses, &slot);
	struct weir_sending *rules = bpf_map_lookup_elem(&weir_sendings, &slot);
	struct weir_cpu_batch *batch = bpf_map_lookup_elem(&weir_cpu_batches, &slot);
	struct weir_pacing *pacing = bpf_map_lookup_elem(&weir_pacings, &key);
	struct weir_interface_egress *egress = bpf_map_lookup_elem(&weir_interface_egresses, &key);
	struct weir_state *state = bpf_map_lookup_elem(&weir_states, &key);
	struct weir_destination_entry *paid = entry;
	struct weir_lease *lease;
	u64 tick_time, now, due, departure;

	if (!service_egress || !rules || !batch || !pacing || !egress || !state)
		return 0;
	static_only = state->fallback;
	due = *(volatile u64 *)&state->due;
	lease = entry ? &entry->lease : &service_egress->sender.lease;
	if (weir_lease_take(lease, due, skb->wire_len, &departure))
		goto leased;
	if (batch->slot != destination) {
		key = batch->slot;
		paid = bpf_map_lookup_elem(&weir_destinations, &key);
		/* another has the slot now */
		if (paid && paid->key.service != service)
			paid = 0;
	}
	/* without the lock: another CPU may charge the clocks before this one has it */
	tick_time = weir_departure_tick_time(&service_egress->sender, entry ? &entry->destination.limiter : 0, batch->unpaid, lease, pacing, tick, due);
	now = tick_time ? tick_time : bpf_ktime_get_ns();
	/* one for all clocks of the interface: taking a lock costs more than what is done under it */
	bpf_spin_lock(&egress->lock);
	/* who had it before may have begun one for all that wait for it here */
	if (weir_lease_take(lease, due, skb->wire_len, &departure)) {
		bpf_spin_unlock(&egress->lock);
		goto leased;
	}
	leaves = weir_depart(batch, paid ? &paid->destination.limiter : 0, entry ? &entry->destination.limiter : 0, destination, lease,
			     &service_egress->sender, rules, pacing, &state->sending, &egress->machine, now, due, skb->wire_len, static_only, &departure);
	bpf_spin_unlock(&egress->lock);
	if (leaves == WEIR_LEAVES_NEVER) {
		count_event(beyond_horizon);
		return 1;
	}
	if (departure <= now)
		return 0;
	/* another CPU may have charged them since, and the departure be past */
	if (tick_time && departure <= due + tick)
		departure = later(departure);
	stamp(skb, departure);
	return 0;
leased:
	stamp(skb, weir_cpu_batch_end(batch, due, destination) ? later(departure) : departure);
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
