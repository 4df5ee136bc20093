// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Switch port: the queue of each packet by its DSCP, ECN marking above the queue's threshold, and
 * re-marking of arriving packets.
 *
 * Arriving packets (weir_port_rx) with a DSCP value that the neighbour may not claim are re-marked to 0
 * before they are forwarded, so that no later switch serves them as that value either. A frame whose
 * header is too short to be written is dropped: its DSCP would still be read.
 *
 * For leaving packets, weir_port_tx runs before the port's HTB. It reads the packet's DSCP, selects the
 * class of the queue that the port's map assigns to it (skb->priority), and marks an ECN-capable packet
 * CE if the queue is above its threshold. The lengths of queues come from a model (port_queues.h). Frames without an
 * IP header count as DSCP 0. A packet that exceeds the buffer is left to the class's bfifo to drop.
 * Not-ECT packets are never changed (bpf_skb_ecn_set_ce).
 *
 * Worked example: one queue at 100 Mb/s, threshold 80 kB. 52 packets of 1,514 B wait, 78,728 B. The
 * next one makes 80,242 B and is marked CE. Within 1 ms without arrivals the queue shrinks by
 * 12,500 B.
 *
 * Source: DCTCP section 3.1; Parley Table 1 (80 kB); net/sched/sch_htb.c htb_classify().
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "auxiliary.h"
#include "dscp.h"

#define NEXT (-1)
#define DROP 2

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_port);
} weir_port SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_port_state);
} weir_port_state SEC(".maps");

SEC("classifier")
int weir_port_tx(struct __sk_buff *skb)
{
	u64 now = bpf_ktime_get_ns();
	u32 bytes = skb->wire_len, key = 0, queue;
	struct weir_port *port = bpf_map_lookup_elem(&weir_port, &key);
	struct weir_port_state *state = bpf_map_lookup_elem(&weir_port_state, &key);
	int above;

	if (!port || !state || !port->mapped)
		return NEXT;
	queue = port->queue_of[weir_port_dscp(skb) & (WEIR_DSCPS - 1)] & (WEIR_PORT_QUEUES - 1);
	skb->priority = port->class + queue;
	bpf_spin_lock(&state->lock);
	above = weir_port_arrive(&state->model, port, now, queue, bytes);
	state->packets[queue]++;
	state->above[queue] += above;
	bpf_spin_unlock(&state->lock);
	if (above && bpf_skb_ecn_set_ce(skb) == 1)
		__sync_fetch_and_add(&state->marked[queue], 1);
	return NEXT;
}

SEC("classifier")
int weir_port_rx(struct __sk_buff *skb)
{
	u32 key = 0;
	struct weir_port *port = bpf_map_lookup_elem(&weir_port, &key);
	struct weir_port_state *state = bpf_map_lookup_elem(&weir_port_state, &key);
	struct weir_ip_header header;

	if (!port || !state || !port->remark)
		return NEXT;
	header = weir_ip_header_of(skb);
	if (!header.family || !(port->remark >> (header.dscp & 0x3f) & 1))
		return NEXT;
	if (set_dscp(skb, header.offset, header.family, 0))
		return DROP;
	__sync_fetch_and_add(&state->remarked, 1);
	return NEXT;
}

char LICENSE[] SEC("license") = "GPL";
