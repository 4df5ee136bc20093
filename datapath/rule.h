/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * A rule of a classifier: a filter of the policy for one interface, and the test of a packet against it.
 *
 * A rule matches if all fields that it specifies match. Ports and addresses match either end of the
 * packet, so the requests and the responses of a service both belong to it. Globs are resolved
 * earlier: a glob that matches the name of the rules' own interface specifies nothing; a packet has the globs
 * that match its guest's interface, and the set of globs that include its socket's control group.
 *
 * Worked example: the rule [protocol 6, ports 7000-7099] matches TCP packets from port 7001 and to port 7001,
 * and no UDP packet.
 *
 * Source: Parley section 3.1 (a service is a set of packet filters).
 */
#ifndef WEIR_RULE_H
#define WEIR_RULE_H

#include "packet.h"

/* Globs over control groups of one classifier: the bits of `cgroups`. */
#define WEIR_CGROUP_GLOBS_MAX 64

/* Fields that a rule specifies. */
#define WEIR_RULE_PROTOCOL 0x01
#define WEIR_RULE_PORTS 0x02
#define WEIR_RULE_ADDRESS 0x04
#define WEIR_RULE_DSCP 0x08
#define WEIR_RULE_VNI 0x10
#define WEIR_RULE_PRIORITY 0x20
#define WEIR_RULE_CGROUP 0x40
#define WEIR_RULE_INTERFACE 0x80

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
	u8 reserved;
	u16 interface; /* its glob over interfaces of guests, from 1 on */
};

WEIR_INLINE int weir_in_prefix(const struct weir_rule *rule, const u64 *address)
{
	return !(((address[0] & rule->mask[0]) ^ rule->address[0]) | ((address[1] & rule->mask[1]) ^ rule->address[1]));
}

WEIR_INLINE int weir_in_ports(const struct weir_rule *rule, u16 port)
{
	return rule->port_first <= port && port <= rule->port_last;
}

/* Whether the rule's glob is one of those that match the interface of the packet's guest. */
WEIR_INLINE int weir_is_of_guest(const struct weir_rule *rule, const struct weir_packet *packet)
{
	u16 glob = rule->interface;

	return glob == packet->interfaces[0] || glob == packet->interfaces[1] || glob == packet->interfaces[2];
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
	if (!(fields & (WEIR_RULE_DSCP | WEIR_RULE_VNI | WEIR_RULE_PRIORITY | WEIR_RULE_CGROUP | WEIR_RULE_INTERFACE)))
		return 1;
	if ((fields & WEIR_RULE_DSCP) && rule->dscp != packet->dscp)
		return 0;
	if ((fields & WEIR_RULE_VNI) && rule->vni != packet->vni)
		return 0;
	if ((fields & WEIR_RULE_PRIORITY) && rule->priority != packet->priority)
		return 0;
	if ((fields & WEIR_RULE_CGROUP) && !(rule->cgroups & packet->cgroups))
		return 0;
	if ((fields & WEIR_RULE_INTERFACE) && !weir_is_of_guest(rule, packet))
		return 0;
	return 1;
}

#endif
