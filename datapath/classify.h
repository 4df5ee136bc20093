/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Classification of a packet: from its header fields to its service.
 *
 * Each packet belongs to at most one service, which must be the same in the simulator and in the
 * kernel. The rules of an interface (rule.h) have the order of the policy. The first matching rule
 * determines the service. An index (rule_index.h) has for each value of a field the few rules that such
 * a packet may match, in lists; the packet is compared with these, both of its ends included, and
 * with the rules that no field indexes. The smallest number of a rule that matches is the result, so
 * the order in which the lists are searched does not matter. A list is searched until its next number is
 * not below the result so far. A packet costs at most WEIR_COMPARISONS_MAX comparisons: the component that
 * builds the index refuses other rules.
 *
 * Worked example: rules [protocol 6, ports 7000-7099 -> 1], [address 10.1.0.0/16 -> 2]. A TCP
 * packet from 10.1.0.5:40000 to 10.2.0.1:7001 belongs to service 1. A TCP packet from
 * 10.1.0.5:40000 to 10.2.0.1:80 belongs to service 2. All other packets are unclassified.
 *
 * Source: Parley section 3.1 (a service is a set of packet filters). The order is the policy's.
 * docs/design/classification.md.
 */
#ifndef WEIR_CLASSIFY_H
#define WEIR_CLASSIFY_H

#include "rule_index.h"

/*
 * Rules that an inlined loop compares. The verifier follows every comparison of a loop, and checks the function for
 * further rules once for all calls.
 */
#define WEIR_RULES_PART 8
#define WEIR_UNCLASSIFIED WEIR_U32_MAX
/* The list has further rules. */
#define WEIR_LIST_CONTINUES WEIR_U32_MAX

/* Returns the smaller of `best` and the rule of a list's end. */
WEIR_INLINE u32 weir_list_end(u32 end, u32 best)
{
	end &= WEIR_INDEX_LAST - 1;
	return end < best ? end : best;
}

/*
 * Compares a packet with at most WEIR_RULES_PART rules of a list from position `at` on. Returns the
 * number of the first that matches, `best` if none below it does up to the end, or WEIR_LIST_CONTINUES.
 */
WEIR_INLINE u32 weir_scan_part(const struct weir_rule_index *index, u32 at, u32 best,
			       const struct weir_packet *packet)
{
	u32 i, number;

	for (i = 0; i < WEIR_RULES_PART; i++) {
		number = index->lists[(at + i) & (WEIR_INDEX_LISTS - 1)];
		/* An end has the bit and is above every number. */
		if (number >= best)
			return number & WEIR_INDEX_LAST ? weir_list_end(number, best) : best;
		/*
		 * Otherwise the compiler computes the rule's address before the bounds check, which
		 * the verifier rejects.
		 */
		WEIR_OPAQUE(number);
		if (weir_rule_matches(&index->rules[number & (WEIR_RULES_MAX - 1)], packet))
			return number;
	}
	return WEIR_LIST_CONTINUES;
}

/*
 * Returns the number of the first rule of a list at a position that matches and is below `best`, or `best`. Has no
 * function of its own for further parts: kernels limit the stack of all functions of a call together.
 */
WEIR_ONCE u32 weir_scan_list(const struct weir_rule_index *index, u32 at, u32 best, const struct weir_packet *packet)
{
	u32 i, number;

	if (!index || !packet)
		return best;
	for (i = 0; i <= WEIR_COMPARISONS_MAX; i++) {
		number = index->lists[(at + i) & (WEIR_INDEX_LISTS - 1)];
		if (number >= best)
			return number & WEIR_INDEX_LAST ? weir_list_end(number, best) : best;
		WEIR_OPAQUE(number);
		if (weir_rule_matches(&index->rules[number & (WEIR_RULES_MAX - 1)], packet))
			return number;
	}
	return best;
}

/* Does the same for a reference to a list. Most lists have no rule, or one that matches all packets of the list. */
WEIR_INLINE u32 weir_scan(const struct weir_rule_index *index, u32 list, u32 best, const struct weir_packet *packet)
{
	if (list & WEIR_INDEX_LAST)
		return weir_list_end(list, best);
	return list ? weir_scan_list(index, list, best, packet) : best;
}

/*
 * Returns the index of the lowest bit of a set, or WEIR_CGROUP_GLOBS_MAX for the empty set: the number
 * of bits below it, counted in parallel (BPF has no instruction for it).
 */
WEIR_INLINE u32 weir_lowest_glob(u64 set)
{
	u64 below = (set & -set) - 1;

	below -= below >> 1 & 0x5555555555555555ULL;
	/* Otherwise clang 14 recognises the count and fails to compile it for BPF. */
	WEIR_OPAQUE(below);
	below = (below & 0x3333333333333333ULL) + (below >> 2 & 0x3333333333333333ULL);
	below = (below + (below >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return (u32)(below * 0x0101010101010101ULL >> 56);
}

/* Returns the number of the first rule below `best` that matches by the lists of the packet's ports, or `best`. */
WEIR_INLINE u32 weir_scan_ports(const struct weir_rule_index *index, u32 best, const struct weir_packet *packet)
{
	const u16 *ports = weir_index_ports(index, packet->protocol);
	u32 source = ports[packet->source_port], destination = ports[packet->destination_port];

	best = weir_scan(index, destination, best, packet);
	return source == destination ? best : weir_scan(index, source, best, packet);
}

/*
 * Does the same for its addresses. The searches of both ends take their steps together, as they do not depend on
 * each other.
 */
WEIR_INLINE u32 weir_scan_addresses(const struct weir_rule_index *index, u32 best, const struct weir_packet *packet)
{
	u32 source = index->search[packet->family != 4], destination = source, i;

	for (i = 0; i < WEIR_INDEX_DEPTH && (source | destination) >> WEIR_INDEX_STEP_SHIFT; i++) {
		if (source >> WEIR_INDEX_STEP_SHIFT)
			source = weir_index_take_step(index, source, packet->source[0], packet->source[1]);
		if (destination >> WEIR_INDEX_STEP_SHIFT)
			destination = weir_index_take_step(index, destination, packet->destination[0],
							   packet->destination[1]);
	}
	source &= WEIR_INDEX_REFERENCE;
	destination &= WEIR_INDEX_REFERENCE;
	best = weir_scan(index, destination, best, packet);
	return source == destination ? best : weir_scan(index, source, best, packet);
}

/* Does the same for the globs that include its socket's control group. */
WEIR_INLINE u32 weir_scan_globs(const struct weir_rule_index *index, u32 best, const struct weir_packet *packet)
{
	u64 set = packet->cgroups;
	u32 i, glob;

	for (i = 0; i < WEIR_CGROUP_GLOBS_MAX && set; i++) {
		glob = weir_lowest_glob(set) & (WEIR_CGROUP_GLOBS_MAX - 1);
		best = weir_scan(index, index->globs[glob], best, packet);
		set &= set - 1;
	}
	return best;
}

/* Does the same for the globs that match the interface of its guest. */
WEIR_INLINE u32 weir_scan_interfaces(const struct weir_rule_index *index, u32 best, const struct weir_packet *packet)
{
	u32 i, glob;

	for (i = 0; i < WEIR_GUEST_GLOBS; i++) {
		glob = packet->interfaces[i];
		if (!glob)
			break;
		glob -= 1;
		WEIR_OPAQUE(glob);
		best = weir_scan(index, index->interfaces[glob & (WEIR_RULES_MAX - 1)], best, packet);
	}
	return best;
}

/*
 * Returns the number of the first rule below `best` of all dimensions but ports that matches, or `best`. A function
 * of its own, so that packets of an interface with rules for ports alone do not save its registers.
 */
WEIR_ONCE u32 weir_scan_others(const struct weir_rule_index *index, u32 best, const struct weir_packet *packet)
{
	u32 dimensions;

	if (!index || !packet)
		return best;
	dimensions = index->dimensions;
	if ((dimensions & WEIR_INDEX_ADDRESSES) && (packet->has & WEIR_HAS_IP))
		best = weir_scan_addresses(index, best, packet);
	if ((dimensions & WEIR_INDEX_VNIS) && (packet->has & WEIR_HAS_VNI))
		best = weir_scan(index, weir_index_vni(index, packet->vni), best, packet);
	if ((dimensions & WEIR_INDEX_GLOBS) && (packet->has & WEIR_HAS_CGROUP))
		best = weir_scan_globs(index, best, packet);
	if ((dimensions & WEIR_INDEX_INTERFACES) && (packet->has & WEIR_HAS_GUEST))
		best = weir_scan_interfaces(index, best, packet);
	return best;
}

/* Does the same for rules in no dimension. The first part is inlined, as small sets of rules are in it. */
WEIR_INLINE u32 weir_scan_linear(const struct weir_rule_index *index, u32 best, const struct weir_packet *packet)
{
	u32 list = index->linear, found;

	if (list & WEIR_INDEX_LAST)
		return weir_list_end(list, best);
	if (!list)
		return best;
	found = weir_scan_part(index, list, best, packet);
	return found == WEIR_LIST_CONTINUES ? weir_scan_list(index, list + WEIR_RULES_PART, best, packet) : found;
}

/* Returns the service of the first rule that matches, or WEIR_UNCLASSIFIED. */
WEIR_INLINE u32 weir_classify(const struct weir_rule_index *index, const struct weir_packet *packet)
{
	u32 dimensions = index->dimensions, count = index->count, best = count;

	if ((dimensions & WEIR_INDEX_PORTS) && (packet->has & WEIR_HAS_PORTS))
		best = weir_scan_ports(index, best, packet);
	if (dimensions & ~WEIR_INDEX_PORTS)
		best = weir_scan_others(index, best, packet);
	best = weir_scan_linear(index, best, packet);
	WEIR_OPAQUE(best);
	return best < count ? index->rules[best & (WEIR_RULES_MAX - 1)].service : WEIR_UNCLASSIFIED;
}

#endif
