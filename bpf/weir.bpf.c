// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * What the kernel runs for every packet of an interface: find its service, count it, choose its class.
 *
 * Problem: enforce and measure per service without touching tenants' packets. Approach: two tc programs over
 * the headers in datapath/. Leaving packets get skb->priority set to the HTB class of their service (kernel
 * metadata, never on the wire); arriving ones are only counted. Unclassified traffic has a meter and a class
 * of its own. Both return "next", so that other programs on the interface still run.
 *
 * User space replaces rules in two steps, so that no packet sees half a table: it writes the table that is
 * not in use, then flips `table` in the configuration, one aligned word.
 *
 * Lengths: leaving packets are counted by skb->wire_len, which the kernel has computed with the headers of
 * every segment, tunnels included, and which HTB charges by; arriving ones were merged by GRO and are
 * counted by datapath/meter.h.
 *
 * Source: EyeQ section 4 (classify and meter at the host); net/sched/sch_htb.c (skb->priority names the class).
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "classify.h"
#include "meter.h"
#include "tables.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_config);
} weir_config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_TABLES);
	__type(key, u32);
	__type(value, struct weir_table);
} weir_tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WEIR_METERS);
	__type(key, u32);
	__type(value, struct weir_meter);
} weir_meters SEC(".maps");

/* tc's "go on with the next program": TC_ACT_UNSPEC, which is also TCX_NEXT. */
#define NEXT (-1)

static __always_inline u32 verdict(struct __sk_buff *skb, const struct weir_config *config,
				   struct weir_packet *packet)
{
	u32 key = config->table;
	struct weir_table *table;

	if (weir_parse(skb, packet) != WEIR_PARSED)
		return WEIR_UNCLASSIFIED;
	table = bpf_map_lookup_elem(&weir_tables, &key);
	if (!table)
		return WEIR_UNCLASSIFIED;
	return weir_classify(table->rules, table->count, packet);
}

static __always_inline void count(u32 service, u32 direction, u64 bytes, u32 packets)
{
	/* unclassified (2^32 - 1) and whatever is out of range share the last slot */
	u32 slot = service < WEIR_SERVICES_MAX ? service : WEIR_SERVICES_MAX;
	u32 key = slot * 2 + direction;
	struct weir_meter *meter = bpf_map_lookup_elem(&weir_meters, &key);

	if (meter)
		weir_meter_add(meter, bytes, packets);
}

SEC("classifier")
int weir_egress(struct __sk_buff *skb)
{
	struct weir_packet packet;
	struct weir_config *config;
	u32 service, segments;
	u32 key = 0;

	config = bpf_map_lookup_elem(&weir_config, &key);
	if (!config)
		return NEXT;
	service = verdict(skb, config, &packet);
	segments = weir_segments(skb->len, packet.header_bytes, skb->gso_size, skb->gso_segs);
	count(service, WEIR_TX, skb->wire_len, segments);
	if (config->class_major) {
		u32 minor = service < WEIR_SERVICES_MAX ? config->class_first + service : config->class_default;

		skb->priority = config->class_major | (minor & 0xffff);
	}
	return NEXT;
}

SEC("classifier")
int weir_ingress(struct __sk_buff *skb)
{
	struct weir_packet packet;
	struct weir_config *config;
	u32 service, segments;
	u32 key = 0;

	config = bpf_map_lookup_elem(&weir_config, &key);
	if (!config)
		return NEXT;
	service = verdict(skb, config, &packet);
	segments = weir_segments(skb->len, packet.header_bytes, skb->gso_size, skb->gso_segs);
	count(service, WEIR_RX, weir_wire_bytes(skb->len, packet.header_bytes, segments), segments);
	return NEXT;
}

char LICENSE[] SEC("license") = "GPL";
