// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Test programs, never attached: they run headers of datapath/ in the kernel (BPF_PROG_TEST_RUN).
 *
 *   weir_verdict   Parses and classifies its frame, which is of a guest if the first words of its control
 *                  buffer (cb) are globs over interfaces. The result is in weir_found.
 *   weir_limit     Reads a struct weir_step from its frame, applies it to the limiter in weir_limiters,
 *                  and stores the departure time in weir_departed.
 *   weir_police_step  Reads a struct weir_police_step from its frame, applies it to the policer in
 *                  weir_policers as a tick and a packet do, and stores the verdict in weir_departed.
 *   weir_level_step   Reads a struct weir_level_step from its frame, charges it to the regulator in
 *                  weir_regulators by the rules in weir_regulator_rules, and stores the departure time in
 *                  weir_departed.
 *   weir_credit_step  Reads a struct weir_credit_step from its frame, applies it under its lock to the port in
 *                  weir_credit_ports and to a flow, by the rules in weir_credit_port_rules, and stores the result
 *                  in weir_credit_outcomes.
 *   weir_credit_gate_step  Reads a struct weir_credit_gate_step from its frame, applies it to the gate in
 *                  weir_credit_gates, and stores a departure, or whether an allocation or a return counts, in
 *                  weir_departed.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "auxiliary.h"
#include "classify.h"
#include "limiter.h"
#include "receive_tick.h"
#include "host/tables.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_table);
} weir_tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_found);
} weir_found SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_limiter);
} weir_limiters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} weir_departed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_policer);
} weir_policers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_level);
} weir_regulators SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_level_rules);
} weir_regulator_rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_credit_port_state);
} weir_credit_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_credit_rules);
} weir_credit_port_rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_CREDIT_STEP_FLOWS);
	__type(key, u32);
	__type(value, struct weir_credit_flow);
} weir_credit_flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_credit_outcome);
} weir_credit_outcomes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_credit_gate);
} weir_credit_gates SEC(".maps");

SEC("classifier")
int weir_verdict(struct __sk_buff *skb)
{
	u32 key = 0;
	struct weir_table *table = bpf_map_lookup_elem(&weir_tables, &key);
	struct weir_found *found = bpf_map_lookup_elem(&weir_found, &key);
	struct weir_packet packet;

	if (!table || !found)
		return 1;
	found->service = WEIR_UNCLASSIFIED;
	found->parsed = weir_parse(skb, &packet) == WEIR_PARSED;
	if (skb->cb[0]) {
		packet.interfaces[0] = (u16)skb->cb[0];
		packet.interfaces[1] = (u16)skb->cb[1];
		packet.interfaces[2] = (u16)skb->cb[2];
		packet.has |= WEIR_HAS_GUEST;
	}
	if (found->parsed) {
		weir_index_find_vni(&table->index, skb, &packet);
		found->service = weir_classify(&table->index, &packet);
	}
	found->packet = packet;
	return 0;
}

SEC("classifier")
int weir_limit(struct __sk_buff *skb)
{
	u32 key = 0;
	struct weir_limiter *limiter = bpf_map_lookup_elem(&weir_limiters, &key);
	u64 *departed = bpf_map_lookup_elem(&weir_departed, &key);
	struct weir_step step;

	if (!limiter || !departed || weir_load(skb, 0, &step, sizeof(step)))
		return 1;
	if (step.set)
		weir_limiter_set_rate(limiter, step.now, step.rate);
	*departed = weir_limiter_departure(limiter, step.now, step.bytes);
	return 0;
}

SEC("classifier")
int weir_police_step(struct __sk_buff *skb)
{
	u32 key = 0;
	struct weir_policer *policer = bpf_map_lookup_elem(&weir_policers, &key);
	u64 *verdict = bpf_map_lookup_elem(&weir_departed, &key);
	struct weir_police_step step WEIR_ALIGNED;
	struct weir_taken taken = {};

	if (!policer || !verdict || weir_load(skb, 0, &step, sizeof(step)))
		return 1;
	taken.followed_bytes = step.followed;
	taken.stranger_bytes = step.passed;
	weir_tick_policer(policer, step.now, step.limit, step.interval, 0, &taken);
	*verdict = weir_police(policer, step.now, step.bytes, step.segments, step.ect);
	return 0;
}

SEC("classifier")
int weir_level_step(struct __sk_buff *skb)
{
	u32 key = 0;
	struct weir_level *level = bpf_map_lookup_elem(&weir_regulators, &key);
	struct weir_level_rules *rules = bpf_map_lookup_elem(&weir_regulator_rules, &key);
	u64 *departed = bpf_map_lookup_elem(&weir_departed, &key);
	struct weir_level_step step WEIR_ALIGNED;

	if (!level || !rules || !departed || weir_load(skb, 0, &step, sizeof(step)))
		return 1;
	*departed = weir_level_departure(level, rules, step.now, step.bytes, (u32)step.frames);
	return 0;
}

SEC("classifier")
int weir_credit_step(struct __sk_buff *skb)
{
	u32 key = 0;
	struct weir_credit_port_state *state = bpf_map_lookup_elem(&weir_credit_ports, &key);
	struct weir_credit_rules *rules = bpf_map_lookup_elem(&weir_credit_port_rules, &key);
	struct weir_credit_outcome *outcome = bpf_map_lookup_elem(&weir_credit_outcomes, &key);
	struct weir_credit_port *port;
	struct weir_credit_flow *flow;
	struct weir_credit_step step WEIR_ALIGNED;
	int dropped = 0;
	u64 now;

	if (!state || !rules || !outcome || weir_load(skb, 0, &step, sizeof(step)))
		return 1;
	flow = bpf_map_lookup_elem(&weir_credit_flows, &step.flow);
	if (!flow)
		return 1;
	now = step.now + outcome->runs * step.gap;
	if (step.gap)
		step.allocation.clock += (u32)outcome->runs;
	outcome->runs += 1;
	outcome->dropped = 0;
	outcome->allocation = step.allocation;
	if (step.kind == WEIR_CREDIT_STEP_NONE)
		return 0;
	port = &state->port;
	bpf_spin_lock(&state->lock);
	if (step.kind != WEIR_CREDIT_STEP_ASTRAY && step.kind != WEIR_CREDIT_STEP_REQUEST)
		weir_credit_advance(port, rules, now);
	if (step.kind == WEIR_CREDIT_STEP_ALLOCATE || step.kind == WEIR_CREDIT_STEP_ROUND)
		weir_credit_allocate(port, rules, flow, &step.allocation, now, step.queued);
	else if (step.kind == WEIR_CREDIT_STEP_ASTRAY)
		weir_credit_astray(port, &step.allocation);
	else if (step.kind == WEIR_CREDIT_STEP_DATA)
		dropped = weir_credit_data(port, rules, flow, step.bytes, now);
	else if (step.kind == WEIR_CREDIT_STEP_UNKNOWN)
		dropped = weir_credit_unknown(port, rules, step.bytes, now);
	else if (step.kind == WEIR_CREDIT_STEP_TERMINATE)
		weir_credit_terminate(port, flow);
	else if (step.kind == WEIR_CREDIT_STEP_REQUEST)
		weir_credit_request(port, flow, step.allocation.clock);
	if (step.kind == WEIR_CREDIT_STEP_ROUND)
		step.returned.clock = step.allocation.clock;
	if (step.kind == WEIR_CREDIT_STEP_RETURN || step.kind == WEIR_CREDIT_STEP_ROUND)
		weir_credit_return(port, rules, flow, &step.returned);
	bpf_spin_unlock(&state->lock);
	outcome->dropped = dropped;
	outcome->allocation = step.allocation;
	return 0;
}

SEC("classifier")
int weir_credit_gate_step(struct __sk_buff *skb)
{
	u32 key = 0;
	struct weir_credit_gate *gate = bpf_map_lookup_elem(&weir_credit_gates, &key);
	u64 *result = bpf_map_lookup_elem(&weir_departed, &key);
	struct weir_credit_gate_step step WEIR_ALIGNED;
	struct weir_returned returned;

	if (!gate || !result || weir_load(skb, 0, &step, sizeof(step)))
		return 1;
	*result = 0;
	if (step.kind == WEIR_CREDIT_GATE_STEP_ALLOCATE)
		*result = weir_credit_gate_allocate(gate, &step.allocation, step.bytes, step.now);
	else if (step.kind == WEIR_CREDIT_GATE_STEP_OFFER)
		weir_credit_gate_offer(gate, step.bytes);
	else if (step.kind == WEIR_CREDIT_GATE_STEP_DEPART)
		*result = weir_credit_gate_departure(gate, step.bytes, step.now);
	else if (step.kind == WEIR_CREDIT_GATE_STEP_RETURN)
		*result = weir_credit_gate_take_return(gate, &returned);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
