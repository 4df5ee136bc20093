/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What a service has sent and received, in bytes and packets as the wire counts them.
 *
 * Problem: with segmentation offload one skb stands for up to 64 KiB that leave as many packets, each with
 * its own copy of the headers; skb->len counts the headers once. Metering it would make bulk senders look
 * up to 4 % smaller than they are, and small-packet senders not at all.
 * Approach: count the segments, and the headers once for each. Frames count from the Ethernet header to the
 * end of the payload: preamble, checksum and gap (24 bytes) are the link's, as are VLAN tags that the
 * interface inserts.
 *
 * Worked example: an skb of 54 bytes of headers and 2,920 of payload with gso_size 1460 is 2 packets and
 * 2,974 + 54 = 3,028 bytes.
 *
 * Source: the kernel's qdisc_pkt_len_init() (net/core/dev.c), which HTB charges by.
 */
#ifndef WEIR_METER_H
#define WEIR_METER_H

#include "types.h"

#define WEIR_TX 0
#define WEIR_RX 1

struct weir_meter {
	u64 bytes;
	u64 packets;
};

/* How many packets an skb stands for. Guests may leave gso_segs 0: then it follows from the lengths. */
WEIR_INLINE u32 weir_segments(u32 bytes, u32 header_bytes, u32 gso_size, u32 gso_segs)
{
	if (!gso_size)
		return 1;
	if (gso_segs)
		return gso_segs;
	if (bytes <= header_bytes)
		return 1;
	/* not (bytes + size - 1) / size: the sum could overflow */
	return (bytes - header_bytes - 1) / gso_size + 1;
}

/* The bytes of all of them together. */
WEIR_INLINE u64 weir_wire_bytes(u32 bytes, u32 header_bytes, u32 segments)
{
	return (u64)bytes + (u64)(segments - 1) * header_bytes;
}

WEIR_INLINE void weir_meter_add(struct weir_meter *meter, u64 bytes, u32 packets)
{
	meter->bytes += bytes;
	meter->packets += packets;
}

#endif
