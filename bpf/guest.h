/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The guest of a packet, by whose interface filters select (`match: interface`).
 *
 * A guest is a virtual machine or a container with an interface on this host (tap, veth). The agent's
 * interface is another one, the uplink, and packets of guests pass it.
 *
 *   departing  The kernel keeps the interface at which a packet entered the host (skb->skb_iif): that
 *              of the guest, whether the packet was bridged or routed. Neither a guest nor its packets
 *              can change it. After a bridge of which the host routes, or a tunnel, it is another one: then
 *              guest.bpf.c has numbered the packet at the guest's interface (skb->tc_index).
 *   arriving   The bridge or the route that will forward the packet determines the guest. User space
 *              writes the forwarding database of bridges into weir_guest_addresses
 *              (crates/host/linux/src/guests). A packet whose hardware address is this host's is looked up
 *              in the routing table, and in the database of the bridge to which its route leads.
 *
 * No packet is changed. A packet to several guests (a group address), one that a bridge floods, and an
 * arriving one whose address is translated or that is in a tunnel of this host have no guest: docs/how-to/guests.md.
 *
 * Worked example: tap3 has the index 9, and the glob tap* has the number 1 in the classifier. A packet that
 * entered by interface 9 has `interfaces` 1, 0, 0. One to 52:54:00:00:00:03 has the same, since the
 * database of the bridge has that address at tap3.
 *
 * Source: net/core/dev.c (__netif_receive_skb_core); net/core/filter.c (bpf_ipv4_fib_lookup);
 * net/bridge/br_fdb.c.
 */
#ifndef WEIR_GUEST_H
#define WEIR_GUEST_H

#include "route.h"

/* Returns the index of a guest's interface by a hardware address, 0 for one of this host, or null. */
static __always_inline u32 *guest_of_address(struct weir_guest_address *address)
{
	u32 *guest = bpf_map_lookup_elem(&weir_guest_addresses, address);

	if (guest || address->vlan == WEIR_ANY_VLAN)
		return guest;
	address->vlan = WEIR_ANY_VLAN;
	return bpf_map_lookup_elem(&weir_guest_addresses, address);
}

/* Returns the index of the interface to which the routing table sends a packet, or of the guest behind that bridge. */
static __always_inline u32 routed_guest(struct __sk_buff *skb, const struct weir_packet *packet,
					struct weir_guest_address *address)
{
	struct bpf_fib_lookup route = {};
	u32 *guest;

	if (look_up_route(skb, &route, packet->source, packet->destination, packet->family) !=
	    BPF_FIB_LKUP_RET_SUCCESS)
		return route.ifindex;
	__builtin_memcpy(address->hardware, route.dmac, 6);
	address->vlan = WEIR_ANY_VLAN;
	address->bridge = route.ifindex;
	guest = bpf_map_lookup_elem(&weir_guest_addresses, address);
	return guest ? *guest : route.ifindex;
}

/* Returns the index of the interface of the guest that an arriving packet is for, or of another interface, or 0. */
static __always_inline u32 addressed_guest(struct __sk_buff *skb, const struct weir_packet *packet)
{
	struct weir_guest_address address WEIR_ALIGNED = {};
	struct weir_guest_paths *paths;
	u32 *guest, key = 0;

	paths = bpf_map_lookup_elem(&weir_guest_paths, &key);
	if (!paths || !(paths->bridged | paths->routed) || weir_load(skb, 0, &address, 6))
		return 0;
	if (address.hardware[0] & 1)
		return 0;
	address.vlan = skb->vlan_present ? skb->vlan_tci & 0xfff : 0;
	guest = guest_of_address(&address);
	if (guest && *guest)
		return *guest;
	/* This host's own address: that of the interface, or of its bridge. */
	if (!guest && skb->pkt_type != WEIR_PACKET_HOST)
		return 0;
	return paths->routed && (packet->has & WEIR_HAS_IP) ? routed_guest(skb, packet, &address) : 0;
}

/* Returns the index of the interface of the guest that has a departing packet's number, and removes that, or 0. */
static __always_inline u32 numbered_guest(struct __sk_buff *skb)
{
	u32 number = skb->tc_index;
	u32 *index = bpf_map_lookup_elem(&weir_guest_numbers, &number);

	if (!index)
		return 0;
	skb->tc_index = 0;
	return *index;
}

/*
 * Stores in `packet` the globs of the table `key` that match the interface of its guest, if it is of one. Not inlined:
 * most policies do not need it, and nested calls share the stack.
 */
__noinline int add_guest(struct __sk_buff *skb, struct weir_packet *packet, u32 key)
{
	struct weir_guest *guest;
	int departs;
	u32 index, i;

	if (!packet)
		return 0;
	departs = packet->has & WEIR_HAS_DEPARTED;
	index = departs ? skb->ingress_ifindex : addressed_guest(skb, packet);
	guest = index ? bpf_map_lookup_elem(&weir_guests, &index) : 0;
	if (!guest && departs && skb->tc_index) {
		index = numbered_guest(skb);
		guest = index ? bpf_map_lookup_elem(&weir_guests, &index) : 0;
	}
	if (!guest)
		return 0;
	key &= WEIR_TABLES - 1;
	for (i = 0; i < WEIR_GUEST_GLOBS; i++)
		packet->interfaces[i] = guest->interfaces[key][i];
	packet->has |= WEIR_HAS_GUEST;
	return 0;
}

#endif
