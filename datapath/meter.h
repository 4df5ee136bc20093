/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Traffic counters of a service: bytes and packets as they are on the wire.
 *
 * With segmentation offload one skb stands for up to 64 KiB. It leaves as several packets, each
 * with its own copy of the headers, but skb->len counts the headers once. A meter of skb->len would
 * undercount bulk senders by up to 4 % and senders of small packets not at all. The meter therefore
 * counts segments, and the headers once per segment. A frame counts from the Ethernet header to the
 * end of the payload. Preamble, frame check sequence and gap (24 bytes) belong to the link, as do
 * VLAN tags that the interface inserts.
 *
 * Worked example: an skb with 54 bytes of headers, 2,920 bytes of payload and gso_size 1460 is 2
 * packets and 2,974 + 54 = 3,028 bytes.
 *
 * Source: the kernel's qdisc_pkt_len_init() (net/core/dev.c), whose result HTB charges.
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

/*
 * Returns the number of packets that an skb stands for. Guests can leave gso_segs 0; the
 * lengths then determine it.
 */
WEIR_INLINE u32 weir_segments(u32 bytes, u32 header_bytes, u32 gso_size, u32 gso_segs)
{
	if (!gso_size)
		return 1;
	if (gso_segs)
		return gso_segs;
	if (bytes <= header_bytes)
		return 1;
	/* not (bytes + gso_size - 1) / gso_size: the sum can overflow */
	return (bytes - header_bytes - 1) / gso_size + 1;
}

/* Returns the wire bytes of all segments of an skb. `segments` is at least 1. */
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
