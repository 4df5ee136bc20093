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
#include "host/depart.h"
#include "host/towards.h"
#include "map_access.h"

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
	u32 *found, slot, towards, key = 0;

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
	active = WEIR_PACES(config) ? 0 : bpf_map_lookup_elem(&weir_active, &key);
	if (active)
		weir_tick_by_packet(active, skb->wire_len);
	towards = weir_towards(entry, skb->wire_len, weir_tick_time(config->tick));
	if (towards & WEIR_TOWARDS_ECN)
		encapsulate_ecn(skb, packet, segments, towards & WEIR_TOWARDS_ENCAPSULATED,
				towards & WEIR_TOWARDS_REQUESTS);
	if (!(towards & WEIR_TOWARDS_LIMITED))
		return destination;
	destination.entry = entry;
	destination.slot = slot;
	if (WEIR_PACES(config))
		return destination;
	mailbox = bpf_map_lookup_elem(&weir_rate_mailboxes, &slot);
	if (mailbox)
		destination.class = mailbox->class;
	return destination;
}

/*
 * Sets the packet's departure time. Returns DROP for a packet beyond the horizon, else NEXT. `destination` is the slot
 * of `entry`. Not inlined: nested calls share 512 bytes of stack, and so a tick, which the caller runs, can use the
 * stack of this function. The stage is inlined here, where its decision is carried out: returned by a function of its
 * own, the departure would have made the verifier follow more paths than it does.
 */
static __noinline int pace(struct __sk_buff *skb, u32 service, struct weir_destination_entry *entry, u32 destination,
			   u64 tick)
{
	u64 departure = 0;
	u32 departs = weir_depart_at(skb->wire_len, service, entry, destination, tick, &departure);

	if (departs == WEIR_DEPARTS_LATER)
		set_departure(skb, departure);
	return departs == WEIR_DEPARTS_NEVER ? DROP : NEXT;
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
