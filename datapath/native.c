/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The per-packet code as functions that another language can call. Nothing is decided here.
 *
 * `weir_layout` lists the size of every shared structure and the place of every field: the Rust mirror
 * (crates/datapath/src/layout.rs) checks itself against it in a test.
 */
#include <stddef.h>

#include "classify.h"
#include "limiter.h"
#include "meter.h"
#include "packet.h"

int weir_native_parse(const u8 *data, u32 size, struct weir_packet *packet);
u32 weir_native_classify(const struct weir_rule *rules, u32 count, const struct weir_packet *packet);
u32 weir_native_segments(u32 bytes, u32 header_bytes, u32 gso_size, u32 gso_segs);
u64 weir_native_wire_bytes(u32 bytes, u32 header_bytes, u32 segments);
void weir_native_meter_add(struct weir_meter *meter, u64 bytes, u32 packets);
void weir_native_limiter_set_rate(struct weir_limiter *limiter, u64 now, u64 rate);
void weir_native_limiter_set_burst(struct weir_limiter *limiter, u32 bytes);
u64 weir_native_limiter_earliest(struct weir_limiter *limiter, u64 now);
u64 weir_native_limiter_departure(struct weir_limiter *limiter, u64 now, u32 bytes);

int weir_native_parse(const u8 *data, u32 size, struct weir_packet *packet)
{
	weir_frame frame = { data, size };

	return weir_parse(&frame, packet);
}

u32 weir_native_classify(const struct weir_rule *rules, u32 count, const struct weir_packet *packet)
{
	return weir_classify(rules, count, packet);
}

u32 weir_native_segments(u32 bytes, u32 header_bytes, u32 gso_size, u32 gso_segs)
{
	return weir_segments(bytes, header_bytes, gso_size, gso_segs);
}

u64 weir_native_wire_bytes(u32 bytes, u32 header_bytes, u32 segments)
{
	return weir_wire_bytes(bytes, header_bytes, segments);
}

void weir_native_meter_add(struct weir_meter *meter, u64 bytes, u32 packets)
{
	weir_meter_add(meter, bytes, packets);
}

void weir_native_limiter_set_rate(struct weir_limiter *limiter, u64 now, u64 rate)
{
	weir_limiter_set_rate(limiter, now, rate);
}

void weir_native_limiter_set_burst(struct weir_limiter *limiter, u32 bytes)
{
	weir_limiter_set_burst(limiter, bytes);
}

u64 weir_native_limiter_earliest(struct weir_limiter *limiter, u64 now)
{
	return weir_limiter_earliest(limiter, now);
}

u64 weir_native_limiter_departure(struct weir_limiter *limiter, u64 now, u32 bytes)
{
	return weir_limiter_departure(limiter, now, bytes);
}

#define SIZE(type) sizeof(struct type)
#define FIELD(type, field) offsetof(struct type, field)

const u32 weir_layout[] = {
	SIZE(weir_packet),
	FIELD(weir_packet, source),
	FIELD(weir_packet, destination),
	FIELD(weir_packet, header_bytes),
	FIELD(weir_packet, vni),
	FIELD(weir_packet, source_port),
	FIELD(weir_packet, destination_port),
	FIELD(weir_packet, family),
	FIELD(weir_packet, protocol),
	FIELD(weir_packet, dscp),
	FIELD(weir_packet, has),
	SIZE(weir_rule),
	FIELD(weir_rule, address),
	FIELD(weir_rule, mask),
	FIELD(weir_rule, service),
	FIELD(weir_rule, vni),
	FIELD(weir_rule, port_first),
	FIELD(weir_rule, port_last),
	FIELD(weir_rule, fields),
	FIELD(weir_rule, needs),
	FIELD(weir_rule, protocol),
	FIELD(weir_rule, dscp),
	FIELD(weir_rule, family),
	SIZE(weir_meter),
	FIELD(weir_meter, bytes),
	FIELD(weir_meter, packets),
	SIZE(weir_limiter),
	FIELD(weir_limiter, rate),
	FIELD(weir_limiter, burst),
	FIELD(weir_limiter, owed),
	FIELD(weir_limiter, paid_at),
	FIELD(weir_limiter, drain_ns),
	WEIR_RULES_MAX,
	WEIR_UNCLASSIFIED,
	WEIR_MALFORMED,
	WEIR_HAS_IP,
	WEIR_HAS_PORTS,
	WEIR_HAS_VNI,
	WEIR_RULE_PROTOCOL,
	WEIR_RULE_PORTS,
	WEIR_RULE_ADDRESS,
	WEIR_RULE_DSCP,
	WEIR_RULE_VNI,
};
const u32 weir_layout_size = sizeof(weir_layout) / sizeof(weir_layout[0]);
