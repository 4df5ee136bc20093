/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The control group of a packet's socket, by which filters select (`match: cgroup`).
 *
 *   departing  The packet has its socket (bpf_skb_cgroup_id). A packet that an IP stack has forwarded
 *              has lost it (ip_rcv_core).
 *   arriving   The socket is looked up by addresses and ports in the interface's namespace, as the IP
 *              stack does later. The lookup does not compare the address with a socket that is bound
 *              to none, and so returns this host's server also for a packet that this host forwards
 *              to that port: then the route decides whether the packet is for this host.
 *
 * A socket has the control group of the process that created it, for good, also when the group is
 * deleted. A glob includes the groups that it matches and all groups below them. User space writes
 * the ids of the matching groups alone (crates/host/linux/src/cgroups), with the set of globs that
 * include each. A packet has the set of the deepest such group among its socket's group and the
 * groups above it: a process that makes and deletes groups below that of its service stays in the
 * service. The groups that a glob of n parts matches have the depth n below the root, so a packet costs
 * one lookup for each different depth of globs, and nothing where no filter of the classifier names a
 * control group.
 *
 * Worked example: the globs /a and /b/x-* have the depths 1 and 2. For a socket in /a/y/z the group
 * /a/y is looked up and is not in the map; then /a, whose set is the packet's.
 *
 * No helper of tc programs has the control group of a socket that was looked up (bpf_sk_cgroup_id is for
 * other programs). It is read from the kernel's structures, whose layout the loader takes from the
 * kernel's BTF.
 *
 * Source: net/core/filter.c (bpf_skb_ancestor_cgroup_id, bpf_sk_lookup); net/ipv4/ip_input.c
 * (ip_rcv_core); include/linux/cgroup.h (cgroup_ancestor).
 */
#ifndef WEIR_CGROUP_H
#define WEIR_CGROUP_H

#include "route.h"

#include <bpf/bpf_core_read.h>

/* The parts of the kernel's structures that are read. */
#define WEIR_KERNEL __attribute__((preserve_access_index))
struct kernfs_node {
	u64 id;
} WEIR_KERNEL;
struct cgroup {
	struct kernfs_node *kn;
	int level;
	struct cgroup *ancestors[0]; /* by depth, itself included; since 6.1 */
	u64 ancestor_ids[0];	     /* the same before */
} WEIR_KERNEL;
struct sock_cgroup_data {
	struct cgroup *cgroup;
} WEIR_KERNEL;
struct sock {
	struct sock_cgroup_data sk_cgrp_data;
} WEIR_KERNEL;

/* Set by the loader; 0 where the kernel has no BTF or does not let programs read its memory. */
const volatile u32 weir_reads_sockets = 1;

/* The end of a packet that is the socket's: of an arriving packet; of the subject of feedback, which departed. */
#define WEIR_END_DESTINATION 0
#define WEIR_END_SOURCE 1
/* The address of the source and the port of the destination: of the subject of a capability message. */
#define WEIR_END_CAPABILITY 2

/* Whether the route of an address leads to this host: it is local, or this interface's packets are not forwarded. */
static __always_inline int is_for_this_host(struct __sk_buff *skb, const u64 *local, const u64 *remote, u32 family)
{
	struct bpf_fib_lookup route = {};
	long result;

	if (skb->pkt_type == WEIR_PACKET_OTHERHOST)
		return 0;
	result = look_up_route(skb, &route, remote, local, family);
	return result == BPF_FIB_LKUP_RET_NOT_FWDED || result == BPF_FIB_LKUP_RET_FWD_DISABLED;
}

/* Returns the address of the control group of a socket, or 0. */
static __always_inline u64 cgroup_of(const struct sock *sk)
{
	struct cgroup *cgroup = 0;

	return bpf_core_read(&cgroup, sizeof(cgroup), &sk->sk_cgrp_data.cgroup) ? 0 : (u64)cgroup;
}

/* Returns the id of the control group of a depth above another one, or of that one itself, or 0. */
static __always_inline u64 ancestor_id(const struct cgroup *cgroup, u32 depth)
{
	struct cgroup *ancestor = 0;
	struct kernfs_node *node = 0;
	u64 id = 0, at = (u64)cgroup + depth * sizeof(u64);

	if (!bpf_core_field_exists(struct cgroup, ancestors)) {
		at += bpf_core_field_offset(struct cgroup, ancestor_ids);
		return bpf_probe_read_kernel(&id, sizeof(id), (const void *)at) ? 0 : id;
	}
	at += bpf_core_field_offset(struct cgroup, ancestors);
	if (bpf_probe_read_kernel(&ancestor, sizeof(ancestor), (const void *)at) ||
	    bpf_core_read(&node, sizeof(node), &ancestor->kn) || bpf_core_read(&id, sizeof(id), &node->id))
		return 0;
	return id;
}

/*
 * Returns the address of the control group of the socket at an end (WEIR_END_*) of a packet, or 0 if
 * this host has no such socket. The group outlives the program, which runs in a read-side section of
 * RCU. `packet` has no control group yet.
 */
__noinline u64 cgroup_of_socket(struct __sk_buff *skb, struct weir_packet *packet, u32 end)
{
	struct bpf_sock_tuple tuple = {};
	u64 local[2], remote[2], cgroup;
	u16 local_port, remote_port;
	struct bpf_sock *sk;
	u32 size;
	int bound;

	if (!packet || !weir_reads_sockets || !(packet->has & WEIR_HAS_PORTS))
		return 0;
	local[0] = end == WEIR_END_DESTINATION ? packet->destination[0] : packet->source[0];
	local[1] = end == WEIR_END_DESTINATION ? packet->destination[1] : packet->source[1];
	remote[0] = end == WEIR_END_DESTINATION ? packet->source[0] : packet->destination[0];
	remote[1] = end == WEIR_END_DESTINATION ? packet->source[1] : packet->destination[1];
	local_port = end == WEIR_END_SOURCE ? packet->source_port : packet->destination_port;
	remote_port = end == WEIR_END_SOURCE ? packet->destination_port : packet->source_port;
	if (packet->family == 4) {
		__builtin_memcpy(&tuple.ipv4.saddr, (const u8 *)remote + 12, 4);
		__builtin_memcpy(&tuple.ipv4.daddr, (const u8 *)local + 12, 4);
		tuple.ipv4.sport = __builtin_bswap16(remote_port);
		tuple.ipv4.dport = __builtin_bswap16(local_port);
		size = sizeof(tuple.ipv4);
	} else {
		__builtin_memcpy(tuple.ipv6.saddr, remote, 16);
		__builtin_memcpy(tuple.ipv6.daddr, local, 16);
		tuple.ipv6.sport = __builtin_bswap16(remote_port);
		tuple.ipv6.dport = __builtin_bswap16(local_port);
		size = sizeof(tuple.ipv6);
	}
	if (packet->protocol == WEIR_PROTOCOL_TCP)
		sk = bpf_sk_lookup_tcp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	else if (packet->protocol == WEIR_PROTOCOL_UDP)
		sk = bpf_sk_lookup_udp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	else
		return 0;
	if (!sk)
		return 0;
	/* Through memory: the verifier does not allow an offset to be added to this kind of pointer. */
	*(volatile u64 *)&packet->cgroups = (u64)sk;
	cgroup = cgroup_of((const struct sock *)*(volatile u64 *)&packet->cgroups);
	packet->cgroups = 0;
	bound = packet->family == 4 ? sk->src_ip4 != 0 :
				      (sk->src_ip6[0] | sk->src_ip6[1] | sk->src_ip6[2] | sk->src_ip6[3]) != 0;
	bpf_sk_release(sk);
	return bound || is_for_this_host(skb, local, remote, packet->family) ? cgroup : 0;
}

/*
 * Stores in `packet` the globs of the table `key` that include a control group: that at the address
 * `cgroup`, or that of the packet's socket if the packet departs. Not inlined: most policies do not need
 * it, and the caller would save more registers.
 */
__noinline int add_globs(struct __sk_buff *skb, struct weir_packet *packet, u64 cgroup, const struct weir_table *table,
			 u32 key)
{
	struct weir_cgroup *entry;
	int own = 0, departs;
	u32 i, depth;
	u64 id;

	if (!packet || !table)
		return 0;
	departs = packet->has & WEIR_HAS_DEPARTED;
	packet->has |= WEIR_HAS_CGROUP;
	if (!departs &&
	    (!cgroup || bpf_core_read(&own, sizeof(own), &((const struct cgroup *)cgroup)->level))) {
		if (packet->has & WEIR_HAS_IP)
			WEIR_COUNT(cgroups_unknown);
		return 0;
	}
	for (i = 0; i < WEIR_CGROUP_GLOBS_MAX && i < table->cgroups; i++) {
		depth = table->cgroup_depths[i];
		if (departs)
			id = bpf_skb_ancestor_cgroup_id(skb, depth);
		else
			id = (int)depth <= own ? ancestor_id((const struct cgroup *)cgroup, depth) : 0;
		entry = id ? bpf_map_lookup_elem(&weir_cgroups, &id) : 0;
		packet->cgroups = entry ? entry->filters[key & (WEIR_TABLES - 1)] : 0;
		if (packet->cgroups)
			return 0;
	}
	/* An arriving packet without a socket was counted above. */
	if (departs && packet->has & WEIR_HAS_IP && !bpf_skb_cgroup_id(skb))
		WEIR_COUNT(cgroups_unknown);
	return 0;
}

/*
 * Stores in `packet` the globs of the table `key` that include the control group of its socket at an
 * end (WEIR_END_*); a packet that departs has its socket. Two functions in turn and not one within the
 * other, whose variables would be on the stack together.
 */
static __always_inline void add_cgroup(struct __sk_buff *skb, struct weir_packet *packet, u32 end,
				       const struct weir_table *table, u32 key)
{
	u64 cgroup = packet->has & WEIR_HAS_DEPARTED ? 0 : cgroup_of_socket(skb, packet, end);

	add_globs(skb, packet, cgroup, table, key);
}

#endif
