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

/* The service of the first of `count` rules that matches, or WEIR_UNCLASSIFIED. */
WEIR_INLINE u32 weir_classify(const struct weir_rule *rules, u32 count, const struct weir_packet *packet)
{
	u32 i;

	for (i = 0; i < WEIR_RULES_MAX; i++) {
		if (i >= count)
			break;
		if (weir_rule_matches(&rules[i], packet))
			return rules[i].service;
	}
	return WEIR_UNCLASSIFIED;
}

#endif
