/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Classification of a packet: from its header fields to its service.
 *
 * Each packet belongs to at most one service, which must be the same in the simulator and in the
 * kernel. The classifier is an array of rules in the order of the policy. The first matching rule
 * determines the service. A rule matches if all fields that it specifies match. Ports and addresses
 * match either end of the packet, so the requests and the responses of a service both belong to it.
 * Interface globs are resolved earlier: each interface has its own array. Globs over control groups
 * are resolved earlier, too: a packet has the set of globs that include its socket's control group.
 * A packet costs at most WEIR_RULES_MAX comparisons, each of constant time.
 *
 * Most rules specify ports. The table `starts` skips rules for other ports: for each value of a
 * port's last byte it contains the index of the first rule that a port with this byte can match.
 * The component that creates the rules also fills the table. The search begins at the smaller of
 * the entries for the packet's two ports, since no earlier rule can match. With twenty services of
 * one port each, the last rule is found as fast as the first. A rule without ports, or with 256
 * ports or more, bounds all entries: no search begins after it. For a packet with a set of globs the
 * table also has the first rule that the lowest glob of the set, or no glob, allows. Globs are
 * numbered by the first rule that names each, so that no other glob of the set allows an earlier one.
 *
 * Worked example: rules [protocol 6, ports 7000-7099 -> 1], [address 10.1.0.0/16 -> 2]. A TCP
 * packet from 10.1.0.5:40000 to 10.2.0.1:7001 belongs to service 1. A TCP packet from
 * 10.1.0.5:40000 to 10.2.0.1:80 belongs to service 2. All other packets are unclassified.
 *
 * Source: Parley section 3.1 (a service is a set of packet filters). The order is the policy's.
 */
#ifndef WEIR_CLASSIFY_H
#define WEIR_CLASSIFY_H

#include "packet.h"

/* 256 comparisons take about 0.5 us, the upper limit of the cost per packet. */
#define WEIR_RULES_MAX 256
/*
 * Rules that one loop compares. The verifier follows every comparison of a loop. The first part, in
 * which nearly all packets find their rule, is inlined; the verifier checks the function for the
 * further parts once for all calls.
 */
#define WEIR_RULES_PART 8
#define WEIR_UNCLASSIFIED WEIR_U32_MAX
/* Globs over control groups of one classifier: the bits of `cgroups`. */
#define WEIR_CGROUP_GLOBS_MAX 64
/* Entries of `starts`: by a port's last byte; from WEIR_START_GLOBS on by a glob; for no glob. */
#define WEIR_START_PORTS 256
#define WEIR_START_GLOBS WEIR_START_PORTS
#define WEIR_START_NO_GLOB (WEIR_START_GLOBS + WEIR_CGROUP_GLOBS_MAX)
#define WEIR_STARTS (WEIR_START_NO_GLOB + 4)

/* Fields that a rule specifies. */
#define WEIR_RULE_PROTOCOL 0x01
#define WEIR_RULE_PORTS 0x02
#define WEIR_RULE_ADDRESS 0x04
#define WEIR_RULE_DSCP 0x08
#define WEIR_RULE_VNI 0x10
#define WEIR_RULE_PRIORITY 0x20
#define WEIR_RULE_CGROUP 0x40

struct weir_rule {
	u64 address[2]; /* already masked; IPv4 is ::ffff:a.b.c.d */
	u64 mask[2];    /* network byte order */
	u64 cgroups;    /* the bit of its glob over control groups */
	u32 service;
	u32 vni;
	u32 priority;
	u16 port_first; /* inclusive, host byte order */
	u16 port_last;  /* inclusive, host byte order */
	u8 fields;      /* WEIR_RULE_* */
	u8 needs;       /* WEIR_HAS_*: headers that a packet needs for these fields to be defined */
	u8 protocol;
	u8 dscp;
	u8 family; /* of `address`: 4 or 6 */
	u8 reserved[3];
};

/* Rules as an object of constant size, as a WEIR_ONCE function takes it. Only the rules in use are read. */
struct weir_rule_array {
	struct weir_rule rules[WEIR_RULES_MAX];
};

WEIR_INLINE int weir_in_prefix(const struct weir_rule *rule, const u64 *address)
{
	return !(((address[0] & rule->mask[0]) ^ rule->address[0]) | ((address[1] & rule->mask[1]) ^ rule->address[1]));
}

WEIR_INLINE int weir_in_ports(const struct weir_rule *rule, u16 port)
{
	return rule->port_first <= port && port <= rule->port_last;
}

WEIR_INLINE int weir_rule_matches(const struct weir_rule *rule, const struct weir_packet *packet)
{
	u8 fields = rule->fields;

	if (rule->needs & ~packet->has)
		return 0;
	if ((fields & WEIR_RULE_PROTOCOL) && rule->protocol != packet->protocol)
		return 0;
	if ((fields & WEIR_RULE_PORTS) && !weir_in_ports(rule, packet->source_port) &&
	    !weir_in_ports(rule, packet->destination_port))
		return 0;
	if ((fields & WEIR_RULE_ADDRESS) &&
	    (rule->family != packet->family ||
	     (!weir_in_prefix(rule, packet->source) && !weir_in_prefix(rule, packet->destination))))
		return 0;
	/* Few rules specify one of these. */
	if (!(fields & (WEIR_RULE_DSCP | WEIR_RULE_VNI | WEIR_RULE_PRIORITY | WEIR_RULE_CGROUP)))
		return 1;
	if ((fields & WEIR_RULE_DSCP) && rule->dscp != packet->dscp)
		return 0;
	if ((fields & WEIR_RULE_VNI) && rule->vni != packet->vni)
		return 0;
	if ((fields & WEIR_RULE_PRIORITY) && rule->priority != packet->priority)
		return 0;
	if ((fields & WEIR_RULE_CGROUP) && !(rule->cgroups & packet->cgroups))
		return 0;
	return 1;
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

/* Returns the index of the first rule that a packet with these ports can match. */
WEIR_INLINE u32 weir_start_by_ports(const u16 *starts, const struct weir_packet *packet)
{
	u16 source, destination;

	if (!(packet->has & WEIR_HAS_PORTS))
		return 0;
	source = starts[packet->source_port & (WEIR_START_PORTS - 1)];
	destination = starts[packet->destination_port & (WEIR_START_PORTS - 1)];
	return source < destination ? source : destination;
}

/* Returns the index of the first rule that can match. All earlier rules specify other ports or globs. */
WEIR_INLINE u32 weir_classify_start(const u16 *starts, const struct weir_packet *packet)
{
	u32 start = weir_start_by_ports(starts, packet), glob;

	if (!(packet->has & WEIR_HAS_CGROUP))
		return start;
	glob = weir_lowest_glob(packet->cgroups);
	if (glob <= WEIR_CGROUP_GLOBS_MAX && starts[WEIR_START_GLOBS + glob] > start)
		start = starts[WEIR_START_GLOBS + glob];
	return start;
}

/*
 * Returns the index of the first rule that matches, of at most WEIR_RULES_PART rules from `start`
 * on. Returns `count` or more if there is none up to the end, and else the index after these rules.
 */
WEIR_INLINE u32 weir_classify_part(const struct weir_rule *rules, u32 count, u32 start,
				   const struct weir_packet *packet)
{
	u32 i, at;

	for (i = 0; i < WEIR_RULES_PART; i++) {
		at = start + i;
		/*
		 * Otherwise the compiler computes the rule's address before the bounds check, which
		 * the verifier rejects.
		 */
		WEIR_OPAQUE(at);
		if (at >= count || at >= WEIR_RULES_MAX || weir_rule_matches(&rules[at], packet))
			return at;
	}
	return start + WEIR_RULES_PART;
}

/* Does the same for the rules after the first part. */
WEIR_ONCE u32 weir_classify_more(const struct weir_rule_array *array, u32 count, u32 start,
				 const struct weir_packet *packet)
{
	return array && packet ? weir_classify_part(array->rules, count, start, packet) : WEIR_RULES_MAX;
}

/* Returns the service of the first of `count` rules from `start` on that matches, or WEIR_UNCLASSIFIED. */
WEIR_INLINE u32 weir_classify_from(const struct weir_rule *rules, u32 count, u32 start,
				   const struct weir_packet *packet)
{
	const struct weir_rule_array *array = (const struct weir_rule_array *)rules;
	u32 at = weir_classify_part(rules, count, start, packet), i;

	for (i = 1; i < WEIR_RULES_MAX / WEIR_RULES_PART; i++) {
		if (at != start + WEIR_RULES_PART)
			break;
		start = at;
		at = weir_classify_more(array, count, start, packet);
	}
	WEIR_OPAQUE(at);
	return at < count && at < WEIR_RULES_MAX ? rules[at].service : WEIR_UNCLASSIFIED;
}

/*
 * Returns the service of the first of `count` rules that matches, or WEIR_UNCLASSIFIED.
 * `starts` has WEIR_STARTS entries.
 */
WEIR_INLINE u32 weir_classify(const struct weir_rule *rules, u32 count, const u16 *starts,
			      const struct weir_packet *packet)
{
	return weir_classify_from(rules, count, weir_classify_start(starts, packet), packet);
}

#endif
