/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Writes a DSCP value into a packet, for the programs of hosts and of switch ports. */
#ifndef WEIR_DSCP_H
#define WEIR_DSCP_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "ip_header.h"

/*
 * Writes a DSCP into the IP header of `family` (4 or 6) at `offset`. ECN bits stay. Returns other than 0 if
 * the header is too short or cannot be written.
 */
static __always_inline long set_dscp(struct __sk_buff *skb, u32 offset, u32 family, u32 dscp)
{
	u8 header[WEIR_DSCP_IPV4] WEIR_ALIGNED;

	if (family == 4) {
		if (weir_load(skb, offset, header, WEIR_DSCP_IPV4))
			return -1;
		weir_dscp_set_ipv4(header, dscp);
		return bpf_skb_store_bytes(skb, offset, header, WEIR_DSCP_IPV4, 0);
	}
	if (weir_load(skb, offset, header, WEIR_DSCP_IPV6))
		return -1;
	weir_dscp_set_ipv6(header, dscp);
	return bpf_skb_store_bytes(skb, offset, header, WEIR_DSCP_IPV6, BPF_F_RECOMPUTE_CSUM);
}

#endif
