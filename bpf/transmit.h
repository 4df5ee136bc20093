/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Egress path of a tenant's packet: classify, count, encapsulate ECN, enforce the rate.
 *
 * ECN is encapsulated only towards receivers that send feedback and decapsulate it (ecn.h). The
 * rate is enforced by one of two backends:
 *
 *   edt  The packet gets a departure time, and fq holds it until then. It is the latest of the
 *        times that the limiters of the destination, the service and the machine allow
 *        (departure.h). Feedback sets the destination's limiter in the kernel, without the agent.
 *   htb  The packet gets the HTB class of its destination, of its service, or of its service in the
 *        static policy. A destination without a class shares the class of its service. The agent
 *        creates a class when the receiver's rate is below what the service may send
 *        (crates/host/linux/src/htb.rs).
 *
 * Each CPU may send packets of each service. One lock protects all limiters of the interface;
 * per-CPU batches (departure.h) and leases (lease.h) keep it off the path of most packets.
 *
 * Source: Carousel (SIGCOMM 2017) for edt; net/sched/sch_htb.c for htb.
 */
#ifndef WEIR_TRANSMIT_H
#define WEIR_TRANSMIT_H

#include "cgroup.h"
#include "ecn.h"
#include "guest.h"
#include "map_access.h"
#include "tick.h"

/*
 * Parses a packet into `packet`, which must be all 0 except for what callers set, and returns its service by
 * the table `key`, or WEIR_UNCLASSIFIED. A global function: inlined, the verifier would check the rest of
 * the program for each path through the parser.
 */
__noinline u32 parse_and_classify(struct __sk_buff *skb, u32 key, struct weir_packet *packet)
{
	struct weir_table *table;

	if (!packet)
		return WEIR_UNCLASSIFIED;
	if (weir_parse_headers(skb, packet) != WEIR_PARSED) {
		packet->has = 0;
		return WEIR_UNCLASSIFIED;
	}
	table = bpf_map_lookup_elem(&weir_tables, &key);
	if (!table)
		return WEIR_UNCLASSIFIED;
	if (table->cgroups)
		add_cgroup(skb, packet, WEIR_END_DESTINATION, table, key);
	if (table->guests)
		add_guest(skb, packet, key);
	weir_index_find_vni(&table->index, skb, packet);
	return weir_classify(&table->index, packet);
}

static __always_inline void meter_packet(u32 service, u32 direction, u64 bytes, u32 packets)
{
	/* WEIR_UNCLASSIFIED (2^32 - 1) and numbers out of range share the last slot. */
	u32 slot = service < WEIR_SERVICES_MAX ? service : WEIR_SERVICES_MAX;
	u32 key = slot * 2 + direction;
	struct weir_meter *meter = bpf_map_lookup_elem(&weir_meters, &key);

	if (meter)
		weir_meter_add(meter, bytes, packets);
}

/* Counts a buffer that is dropped because its departure is beyond the horizon. */
static __always_inline void count_drop(struct __sk_buff *skb, u32 slot)
{
	struct weir_meter *drops = bpf_map_lookup_elem(&weir_drops, &slot);

	count_event(beyond_horizon);
	if (drops)
		weir_meter_add(drops, skb->wire_len, 1);
}

/*
 * Makes a Not-ECT packet ECN-capable if its receiver can decapsulate it (`encapsulate`). In any
 * case the header of a tenant's ECN-capable packet is changed if it carries the encapsulation
 * marker by chance. `requests_feedback`: the packet is to carry a feedback request.
 */
static __always_inline void encapsulate_ecn(struct __sk_buff *skb, const struct weir_packet *packet, u32 segments,
					    int encapsulate, int requests_feedback)
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

/* The destination limiter that applies to a packet, if any. */
struct destination {
	struct weir_destination_entry *entry; /* null: no limiter applies */
	u32 slot;                             /* of `entry`, or WEIR_NO_DESTINATION */
	u32 class;                            /* htb: minor number of its class; 0: none */
};

/*
 * Looks up the destination of a service's packet, encapsulates its ECN bits and requests feedback
 * where necessary. Returns the destination, without an entry if its feedback has timed out.
 */
static __always_inline struct destination transmit(struct __sk_buff *skb, const struct weir_config *config,
						   const struct weir_packet *packet, u32 service, u32 segments)
{
	struct destination destination = { .slot = WEIR_NO_DESTINATION };
	struct weir_destination_key address = {};
	struct weir_destination_entry *entry;
	struct weir_rate_mailbox *mailbox;
	struct weir_active *active;
	u32 *found, slot, key = 0;
	u64 now;
	int encapsulate;

	address.address[0] = packet->destination[0];
	address.address[1] = packet->destination[1];
	address.service = service;
	found = bpf_map_lookup_elem(&weir_destination_slots, &address);
	if (!found)
		return destination;
	slot = *found;
	entry = bpf_map_lookup_elem(&weir_destinations, &slot);
	if (!entry)
		return destination;
	/*
	 * Feedback requests use tick time. With edt the timer runs every tick. With htb, a host
	 * that receives little must run ticks from its egress packets to keep that time current.
	 */
	active = paces(config) ? 0 : bpf_map_lookup_elem(&weir_active, &key);
	if (active)
		tick_by_packet(active, skb->wire_len);
	now = tick_time(config->tick);
	if (weir_destination_silent(&entry->destination, now) == WEIR_DESTINATION_DROP) {
		if (now - entry->destination.feedback_at < WEIR_ECN_AVOID_TIME)
			encapsulate_ecn(skb, packet, segments, 0, 0);
		return destination;
	}
	entry->sent += skb->wire_len;
	encapsulate = entry->capability_acked_at &&
		      (now < entry->capability_acked_at ||
		       now - entry->capability_acked_at < WEIR_ECN_ENCAPSULATE_TIME);
	encapsulate_ecn(skb, packet, segments, encapsulate,
			encapsulate && weir_destination_requests(&entry->destination, now));
	destination.entry = entry;
	destination.slot = slot;
	if (paces(config))
		return destination;
	mailbox = bpf_map_lookup_elem(&weir_rate_mailboxes, &slot);
	if (mailbox)
		destination.class = mailbox->class;
	return destination;
}

/* Returns 1 if the packet may leave at once as part of its CPU's batch (departure.h). */
static __always_inline int passes_in_batch(struct __sk_buff *skb, u32 service, u32 destination)
{
	u32 slot = service < WEIR_SERVICES_MAX ? service : WEIR_REST, key = 0;
	struct weir_cpu_batch *batch = bpf_map_lookup_elem(&weir_cpu_batches, &slot);
	struct weir_state *state = bpf_map_lookup_elem(&weir_states, &key);

	return batch && state && weir_cpu_batch_pass(batch, *(volatile u64 *)&state->due, destination, skb->wire_len);
}

/* Returns the later of `departure` and the current time. */
static __always_inline u64 not_before_now(u64 departure)
{
	u64 now = WEIR_CLOCK();

	return departure > now ? departure : now;
}

/*
 * Sets the packet's departure time. Returns 1 if the packet must be dropped, because its departure
 * is beyond the horizon. `destination` is the slot of `entry`. Not inlined: nested calls share 512
 * bytes of stack, and so a tick, which the caller runs, can use the stack of this function.
 */
static __noinline int pace(struct __sk_buff *skb, u32 service, struct weir_destination_entry *entry, u32 destination,
			   u64 tick)
{
	u32 slot = service < WEIR_SERVICES_MAX ? service : WEIR_REST;
	u32 static_only, leaves, key = 0;
	struct weir_service_egress *service_egress = bpf_map_lookup_elem(&weir_service_egresses, &slot);
	struct weir_sending *rules = bpf_map_lookup_elem(&weir_sendings, &slot);
	struct weir_cpu_batch *batch = bpf_map_lookup_elem(&weir_cpu_batches, &slot);
	struct weir_pacing *pacing = bpf_map_lookup_elem(&weir_pacings, &key);
	struct weir_interface_egress *egress = bpf_map_lookup_elem(&weir_interface_egresses, &key);
	struct weir_state *state = bpf_map_lookup_elem(&weir_states, &key);
	struct weir_destination_entry *charged = entry; /* the destination of the batch */
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
		charged = bpf_map_lookup_elem(&weir_destinations, &key);
		/* The slot has been reassigned to a destination of another service. */
		if (charged && charged->key.service != service)
			charged = 0;
	}
	/* Computed without the lock: another CPU may charge the limiters before this one has it. */
	tick_time = weir_departure_tick_time(&service_egress->sender, entry ? &entry->destination.limiter : 0,
					     batch->unpaid, lease, pacing, tick, due);
	now = tick_time ? tick_time : WEIR_CLOCK();
	/*
	 * One lock for all limiters of the interface: the lock costs more than the work under it.
	 */
	bpf_spin_lock(&egress->lock);
	/* The previous holder of the lock may have begun a lease. */
	if (weir_lease_take(lease, due, skb->wire_len, &departure)) {
		bpf_spin_unlock(&egress->lock);
		goto leased;
	}
	leaves = weir_depart(batch, charged ? &charged->destination.limiter : 0,
			     entry ? &entry->destination.limiter : 0, destination, lease, &service_egress->sender,
			     rules, pacing, &state->sending, &egress->machine, now, due, skb->wire_len, static_only,
			     &departure);
	bpf_spin_unlock(&egress->lock);
	if (leaves == WEIR_LEAVES_NEVER) {
		count_drop(skb, slot);
		return 1;
	}
	if (departure <= now)
		return 0;
	/*
	 * Another CPU may have charged the limiters since tick time, and the departure be in the
	 * past.
	 */
	if (tick_time && departure <= due + tick)
		departure = not_before_now(departure);
	set_departure(skb, departure);
	return 0;
leased:
	set_departure(skb, weir_cpu_batch_end(batch, due, destination) ? not_before_now(departure) : departure);
	return 0;
}

/*
 * Sets the packet's HTB class: `destination_class`, or the class of its service if that is 0.
 * During fallback it is the class of its service in the static policy.
 */
static __always_inline void choose_class(struct __sk_buff *skb, const struct weir_config *config, u32 service,
					 u32 destination_class)
{
	u32 minor = config->class_default;
	u32 key = 0;
	struct weir_state *state;

	if (!config->class_major)
		return;
	if (service < WEIR_SERVICES_MAX) {
		minor = destination_class ? destination_class : config->class_first + service;
		state = bpf_map_lookup_elem(&weir_states, &key);
		if (config->class_static && state && state->fallback)
			minor = config->class_static + service;
	}
	skb->priority = config->class_major | (minor & 0xffff);
}

#endif
