// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Switch port of the lab: ECN marking above a queue threshold (weir_mark), and release of packets
 * from their sending socket (weir_discard).
 *
 * Marking. Problem: the lab's ports are TBFs, which queue and drop but do not mark, and no marking
 * qdisc is available in every kernel. Approach: a program in front of the TBF models its queue. The
 * model drains at the port's rate (limiter.h) and admits the same packets as the TBF, so both
 * queues have the same length up to the TBF's bucket, which is 1 ms. An ECN-capable packet is
 * marked CE if the queue, with the packet, exceeds `mark` bytes; the simulator uses the same rule.
 * A packet that exceeds the buffer is left to the TBF to drop and is not added to the model. IPv4
 * and IPv6 are supported. Not-ECT packets are never changed (bpf_skb_ecn_set_ce).
 *
 * Worked example: 100 Mb/s, threshold 80 kB. 52 packets of 1,514 B are queued, 78,728 B. The next
 * one makes 80,242 B and is marked CE. Within 1 ms without arrivals the queue shrinks by 12,500 B.
 *
 * Release. Problem: TCP limits the bytes of each socket that are queued in its host to little more
 * than 1 ms of its rate (TCP small queues). Between namespaces a packet is charged to its socket
 * until it is delivered, so the limit covers the queues of all switches. One connection then cannot
 * fill a queue that it shares with thirty others, and gets a twentieth of a link of 100 Mb/s
 * whatever its window is. Approach: a packet from a host is forwarded as a clone, which belongs to
 * no socket, and the original is dropped. That corresponds to the TX completion of a real
 * interface.
 *
 * Source: net/ipv4/tcp_output.c (tcp_small_queue_check); DCTCP section 3.1 (marking by
 * instantaneous queue length); Parley Table 1 (80 kB).
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "auxiliary.h"
#include "limiter.h"

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
	__type(value, struct weir_port_queue);
} weir_port_queue SEC(".maps");

SEC("classifier")
int weir_mark(struct __sk_buff *skb)
{
	u64 now = bpf_ktime_get_ns();
	u32 bytes = skb->wire_len, key = 0;
	struct weir_port *port = bpf_map_lookup_elem(&weir_port, &key);
	struct weir_port_queue *state = bpf_map_lookup_elem(&weir_port_queue, &key);
	u64 rate, mark, buffer, length;
	int above;

	if (!port || !state)
		return NEXT;
	rate = port->rate;
	mark = port->mark;
	buffer = port->buffer;
	bpf_spin_lock(&state->lock);
	if (state->queue.rate != rate)
		weir_limiter_set_rate(&state->queue, now, rate);
	weir_limiter_settle(&state->queue, now);
	length = state->queue.owed / WEIR_NANOBITS_PER_BYTE + bytes;
	if (length <= buffer)
		state->queue.owed += bytes * WEIR_NANOBITS_PER_BYTE;
	above = length > mark;
	state->packets++;
	state->above += above;
	bpf_spin_unlock(&state->lock);
	if (above && bpf_skb_ecn_set_ce(skb) == 1)
		__sync_fetch_and_add(&state->marked, 1);
	return NEXT;
}

/*
 * skb->mark of a clone, between the two runs of weir_discard on one CPU. The second run clears it,
 * so it is not visible in other namespaces. The value is `weir` in ASCII.
 */
#define WEIR_DISCARD 0x77656972

SEC("classifier")
int weir_discard(struct __sk_buff *skb)
{
	if (skb->mark == WEIR_DISCARD) {
		skb->mark = 0;
		return NEXT;
	}
	skb->mark = WEIR_DISCARD;
	if (!bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS))
		return DROP;
	/* The clone failed for lack of memory: forward the original. */
	skb->mark = 0;
	return NEXT;
}

char LICENSE[] SEC("license") = "GPL";
