// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Marks packets of a guest where they enter the host, for the program of the uplink (guest.h).
 *
 * The interface at which a packet entered (skb->skb_iif) is that of the guest until another interface
 * of the host receives the packet: a bridge with an address of its own, or a tunnel, whose packets
 * the host then routes. skb->tc_index survives both, address translation included. Unlike skb->mark it
 * takes part in no decision of routing or netfilter, and no other program for containers uses it.
 *
 * The number of a guest is the low half of its interface's index, the same for each agent of the host.
 * tc_classid has it, too: a later tcx program that accepts a packet makes the kernel copy it to tc_index.
 * Only packets of guests that are in no bridge with the uplink pass this program.
 *
 * Source: include/net/tcx.h (tcx_action_code); net/core/dev.c (__netif_receive_skb_core).
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "types.h"

#define NEXT (-1)

SEC("classifier")
int weir_guest(struct __sk_buff *skb)
{
	skb->tc_index = skb->ifindex & 0xffff;
	skb->tc_classid = skb->ifindex & 0xffff;
	return NEXT;
}

char LICENSE[] SEC("license") = "GPL";
