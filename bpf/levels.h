/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Egress path of DSCP values: latency levels, with the regulator and the queue of a level, tenants and credits.
 *
 * A packet of a service with a level passes the level's regulator (datapath/level.h), which is shared by
 * all services of the level on this host and by all CPUs, gets the level's DSCP value and enters the
 * level's queue. No limiter of a service or destination applies to it: the level's rate is its limit.
 *
 * With both backends the queue is an HTB class with the regulator's rate and burst, which cuts super-packets
 * (crates/host/linux/src/class.rs): one of the interface's tree (htb), or one in a band before fq (edt,
 * crates/host/linux/src/priority_bands.rs). The regulator runs beside it for its counters and its limit of
 * waiting bytes. With edt ticks charge the bytes that have left to the interface's limiter (weir_charge_levels,
 * host/share.h).
 *
 * Bounds of delay hold while nothing else is served as a level, so a packet without a level that carries
 * a level's DSCP value is re-marked to 0. That applies also to frames that the parser refuses: a switch
 * reads no more of them than the DSCP.
 *
 * A tenant's packets get the value by which switches choose its queue: 0 for the queue that tenants share. Its
 * application's own value is lost; the values of a tenant's inner packets behind a tunnel's header stay.
 *
 * Source: QJump's slides (one priority for each level); QShare section V-D (tags); datapath/level.h.
 */
#ifndef WEIR_LEVELS_H
#define WEIR_LEVELS_H

#include "dscp.h"
#include "host/regulate.h"
#include "map_access.h"

/* Returns the DSCP values that packets must not claim, one bit for each: those of levels, of tenants and of credits. */
static __always_inline u64 claimable(const struct weir_config *config)
{
	u64 of_credits = config->class_credit ? 1ULL << WEIR_CREDIT_DATA_DSCP | 1ULL << WEIR_CREDIT_MESSAGE_DSCP : 0;

	return config->level_dscps | config->tenant_dscps | of_credits;
}

/* Returns the levels of a service (WEIR_LEVEL_SENT, WEIR_LEVEL_RECEIVED), or its tag (WEIR_TAGGED) and WEIR_CREDITS. */
static __always_inline u32 marks_of(const struct weir_config *config, u32 service)
{
	u32 slot = service < WEIR_SERVICES_MAX ? service : WEIR_REST;
	u32 *marks;

	if (!claimable(config))
		return 0;
	marks = bpf_map_lookup_elem(&weir_service_marks, &slot);
	return marks ? *marks : 0;
}

/*
 * Returns 1 for a received packet on a level: of a service whose senders have a level, and with a level's DSCP value.
 * Replies of hosts on which the service does not run have none.
 */
static __always_inline int arrives_on_level(const struct weir_config *config, const struct weir_packet *packet,
					    u32 service)
{
	return (marks_of(config, service) & WEIR_LEVEL_RECEIVED) && (packet->has & WEIR_HAS_IP) &&
	       (config->level_dscps >> (packet->dscp & 0x3f) & 1);
}

/* Counts packets that claimed a DSCP value: of a level, at that level, or of another tenant. */
static __always_inline void count_remarked(u32 dscp, u32 segments)
{
	u32 index;

	for (index = 0; index < WEIR_LEVELS_MAX; index++) {
		u32 key = index;
		struct weir_level_rules *rules = bpf_map_lookup_elem(&weir_level_rules, &key);
		struct weir_level_state *state = bpf_map_lookup_elem(&weir_level_states, &key);

		if (rules && state && rules->packet && rules->dscp == dscp) {
			__sync_fetch_and_add(&state->remarked, segments);
			return;
		}
	}
	WEIR_COUNT(tags_claimed);
}

/*
 * Gives a packet of no level the DSCP value of its tenant or of credits (`marks`), by which switches choose
 * its queue, or 0 if it carries a value that others have. Returns DROP for one whose header is too short to
 * be written: a switch would still read its DSCP.
 */
static __always_inline int mark_beside_levels(struct __sk_buff *skb, const struct weir_config *config,
					      const struct weir_packet *packet, u32 marks, u32 segments)
{
	struct weir_ip_header header;
	u32 claims, value = 0;

	if (!claimable(config))
		return NEXT;
	/* Forwarded, or of a socket that was opened before gso_max_segs was lowered. */
	if (config->level_segments && segments > config->level_segments)
		WEIR_COUNT(long_buffers);
	if (packet->has & WEIR_HAS_IP) {
		header.offset = packet->network;
		header.family = packet->family;
		header.dscp = packet->dscp;
	} else {
		header = weir_ip_header_of(skb);
	}
	claims = claimable(config) >> (header.dscp & 0x3f) & 1;
	if (marks & WEIR_TAGGED)
		value = marks >> WEIR_TAG_SHIFT & 0x3f;
	else if (!claims)
		return NEXT;
	if (!header.family || header.dscp == value)
		return NEXT;
	if (claims)
		count_remarked(header.dscp, segments);
	return set_dscp(skb, header.offset, header.family, value) ? DROP : NEXT;
}

/*
 * Charges a packet of `level` (from 1 on), of the service in `slot`, to the level's regulator and sets its
 * DSCP and its class. Returns DROP if too much of the level waits, else NEXT. Not
 * inlined: the caller's stack is short.
 */
static __noinline int send_on_level(struct __sk_buff *skb, const struct weir_packet *packet, u32 level, u32 slot,
				    u32 segments)
{
	u32 key = 0, index = level - 1;
	struct weir_config *config = bpf_map_lookup_elem(&weir_config, &key);
	struct weir_level_rules *rules = bpf_map_lookup_elem(&weir_level_rules, &index);
	struct weir_level_state *state = bpf_map_lookup_elem(&weir_level_states, &index);

	if (!packet || !config || !rules || !state)
		return NEXT;
	if (weir_regulate(state, rules, slot, skb->wire_len, segments) == WEIR_LEVEL_DROP)
		return DROP;
	if ((packet->has & WEIR_HAS_IP) && packet->dscp != rules->dscp)
		set_dscp(skb, packet->network, packet->family, rules->dscp);
	if (config->class_level)
		skb->priority = config->class_level + index;
	return NEXT;
}

/* edt: removes a level's class from a packet of no level. A program with CAP_NET_ADMIN can have set it. */
static __always_inline void leave_level_class(struct __sk_buff *skb, const struct weir_config *config)
{
	if (config->class_level && skb->priority >> 16 == config->class_level >> 16)
		skb->priority = 0;
}

#endif
