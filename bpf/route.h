/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The route by which the IP stack forwards an arriving packet. */
#ifndef WEIR_ROUTE_H
#define WEIR_ROUTE_H

#include "map_access.h"

/* sys/socket.h */
#define WEIR_AF_INET 2
#define WEIR_AF_INET6 10

/*
 * Looks up the route of a packet that arrived with these addresses of a family (4 or 6). Returns
 * BPF_FIB_LKUP_RET_*; `route`, which must be all 0, has the interface to which the route leads.
 */
static __always_inline long look_up_route(struct __sk_buff *skb, struct bpf_fib_lookup *route, const u64 *source,
					  const u64 *destination, u32 family)
{
	route->ifindex = skb->ifindex;
	if (family == 4) {
		route->family = WEIR_AF_INET;
		__builtin_memcpy(&route->ipv4_src, (const u8 *)source + 12, 4);
		__builtin_memcpy(&route->ipv4_dst, (const u8 *)destination + 12, 4);
	} else {
		route->family = WEIR_AF_INET6;
		__builtin_memcpy(route->ipv6_src, source, 16);
		__builtin_memcpy(route->ipv6_dst, destination, 16);
	}
	return bpf_fib_lookup(skb, route, sizeof(*route), 0);
}

#endif
