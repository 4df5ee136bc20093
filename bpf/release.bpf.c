// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Port of a lab's switch to a machine: releases packets from their sending socket.
 *
 * Problem: TCP limits the bytes of each socket that are queued in its host to little more than 1 ms
 * of its rate (TCP small queues). Between namespaces a packet is charged to its socket until it is
 * delivered, so the limit covers the queues of all switches. One connection then cannot fill a queue
 * that it shares with thirty others, and gets a twentieth of a link of 100 Mb/s whatever its window
 * is. Approach: a packet from a host is forwarded as a clone, which belongs to no socket, and the
 * original is dropped. That corresponds to the TX completion of a real interface.
 *
 * Source: net/ipv4/tcp_output.c (tcp_small_queue_check).
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "types.h"

#define NEXT (-1)
#define DROP 2

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
