/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * From a packet's fields to the service that it belongs to.
 *
 * Problem: every packet belongs to at most one service, the same one in the simulator and in the kernel.
 * Approach: an array of rules in the order of the policy; the first that matches wins. A rule matches when
 * every field that it asks for agrees. Ports and addresses match either end of the packet, so that a
 * service's requests and its answers are both its own. Interface globs are resolved before: each interface
 * has its own array. At most WEIR_RULES_MAX comparisons, each of constant work.
 *
 * Most rules name ports, of which a packet has two. So rules that ask for other ports than a packet has are passed over by a table: for each value of
 * a port's last byte, the first rule that a port with that byte may match (weir_classify's `starts`, made by whoever makes the
 * rules). The search begins at the first of the packet's two; nothing before it can match. Of twenty services with a port each the last
 * is found as fast as the first. A rule without ports, or of 256 ports and more, is where every search begins at the latest.
 *
 * Worked example: rules [protocol 6, ports 7000-7099 -> 1], [address 10.1.0.0/16 -> 2]; a TCP packet from
 * 10.1.0.5:40000 to 10.2.0.1:7001 is service 1, its neighbour to port 80 is service 2, the rest unclassified.
 *
 * Source: Parley section 3.1 (services are bundles of traffic); the order is the policy's.
 */
#ifndef WEIR_CLASSIFY_H
#define WEIR_CLASSIFY_H

#include "packet.h"

/* 256 comparisons take about half a microsecond: the most that a packet may cost. */
#define WEIR_RULES_MAX 256
#define WEIR_UNCLASSIFIED WEIR_U32_MAX
/* Values of a port's last byte. */
#define WEIR_STARTS 256

/* The fields that a rule asks for. */
#define WEIR_RULE_PROTOCOL 0x01
#define WEIR_RULE_PORTS 0x02
#define WEIR_RULE_ADDRESS 0x04
#define WEIR_RULE_DSCP 0x08
#define WEIR_RULE_VNI 0x10

struct weir_rule {
	u64 address[2]; /* already masked; IPv4 is ::ffff:a.b.c.d */
	u64 mask[2];    /* as on the wire */
	u32 service;
	u32 vni;
	u16 port_first; /* inclusive, host order */
	u16 port_last;
	u8 fields; /* WEIR_RULE_* */
	u8 needs;  /* WEIR_HAS_*: what a packet must have for the fields to mean anything */
	u8 protocol;
	u8 dscp;
	u8 family; /* of `address`: 4 or 6 */
	u8 reserved[7];
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
	if ((fields & WEIR_RULE_DSCP) && rule->dscp != packet->dscp)
		return 0;
	if ((fields & WEIR_RULE_VNI) && rule->vni != packet->vni)
		return 0;
	return 1;
}

/* The first rule that may match a packet; all before it ask for ports that it has not. */
WEIR_INLINE u32 weir_classify_start(const u16 *starts, const struct weir_packet *packet)
{
	u16 source, destination;

	if (!(packet->has & WEIR_HAS_PORTS))
		return 0;
	source = starts[packet->source_port & (WEIR_STARTS - 1)];
	destination = starts[packet->destination_port & (WEIR_STARTS - 1)];
	return source < destination ? source : destination;
}

/* The service of the first of `count` rules that matches, or WEIR_UNCLASSIFIED. `starts` is of WEIR_STARTS bytes of a port. */
WEIR_INLINE u32 weir_classify(const struct weir_rule *rules, u32 count, const u16 *starts, const struct weir_packet *packet)
{
	u32 start = weir_classify_start(starts, packet);
	u32 i, at;

	for (i = 0; i < WEIR_RULES_MAX; i++) {
		at = start + i;
		/* else the address would be reckoned before it is known to be inside, which the kernel's verifier refuses */
		WEIR_OPAQUE(at);
		if (at >= count || at >= WEIR_RULES_MAX)
			break;
		if (weir_rule_matches(&rules[at], packet))
			return rules[at].service;
	}
	return WEIR_UNCLASSIFIED;
}

#endif
