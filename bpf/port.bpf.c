// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * A switch's port of the lab: marks packets that find a queue above a threshold, and takes what a host sends off its hands.
 *
 * Marks. Problem: the lab's ports are TBFs, which queue and drop but do not mark; of the kernel's disciplines that do, none is
 * in every kernel. Approach: a program before the TBF keeps its queue a second time, in thought: a queue that is
 * emptied at the port's rate (limiter.h) and takes what the TBF takes, so both are as long, within the TBF's bucket of a
 * millisecond. A packet that would make the queue longer than the threshold becomes CE, if it is ECN-capable; one that does not
 * fit the buffer is the TBF's to drop, and is not counted.
 *
 * The threshold is the simulator's: with the packet, what waits is more than `mark` bytes. IPv4 and IPv6; Not-ECT is
 * never touched (bpf_skb_ecn_set_ce).
 *
 * Worked example: 100 Mb/s, threshold 80 kB: 52 packets of 1,514 B wait, 78,728 B. The next one makes it 80,242 B: CE. After
 * 1 ms without packets 12,500 B less wait.
 *
 * Letting go. Problem: TCP has little more than a millisecond's worth of each socket's packets under way in its host (TCP small queues): what
 * the interface has not sent yet. Between namespaces a packet stays its socket's until it arrives, so that this counts
 * what waits in all switches too: one connection cannot fill a queue that thirty share, and has a twentieth of a
 * link of 100 Mb/s beside them, whatever its window. Approach: a packet that comes in from a host goes on as a copy, which is nobody's, and the
 * packet itself ends here, as it does when a real interface has sent it.
 *
 * Source: net/ipv4/tcp_output.c (tcp_small_queue_check); DCTCP section 3.1 (marks at a threshold of the instantaneous queue); Parley Table 1 (80 kB).
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "limiter.h"

#define NEXT (-1)
#define DROP 2

/* user space writes, before the program is attached */
struct weir_port {
	u64 rate;   /* bit/s, not 0 */
	u64 mark;   /* bytes */
	u64 buffer; /* bytes */
};

/* the program writes */
struct weir_port_queue {
	struct bpf_spin_lock lock; /* several CPUs may send by a port */
	u32 reserved;
	struct weir_limiter queue;
	u64 packets;
	u64 above;  /* of them, those that found the queue above the threshold */
	u64 marked; /* of these, those that were ECN-capable */
};

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
	struct weir_port_queue *own = bpf_map_lookup_elem(&weir_port_queue, &key);
	u64 rate, mark, buffer, waits;
	int above;

	if (!port || !own)
		return NEXT;
	rate = port->rate;
	mark = port->mark;
	buffer = port->buffer;
	bpf_spin_lock(&own->lock);
	if (own->queue.rate != rate)
		weir_limiter_set_rate(&own->queue, now, rate);
	weir_limiter_settle(&own->queue, now);
	waits = own->queue.owed / WEIR_NANOBITS_PER_BYTE + bytes;
	if (waits <= buffer)
		own->queue.owed += bytes * WEIR_NANOBITS_PER_BYTE;
	above = waits > mark;
	own->packets++;
	own->above += above;
	bpf_spin_unlock(&own->lock);
	if (above && bpf_skb_ecn_set_ce(skb) == 1)
		__sync_fetch_and_add(&own->marked, 1);
	return NEXT;
}

/* The mark of what has been let go, between two runs on one CPU; other namespaces do not see it. */
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
	/* no memory for a copy */
	skb->mark = 0;
	return NEXT;
}

char LICENSE[] SEC("license") = "GPL";
