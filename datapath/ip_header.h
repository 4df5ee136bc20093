/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Writes to IP headers that keep their checksums valid, and the DSCP of a frame.
 *
 * The DSCP is read without the rest of the parser (packet.h): a switch reads it from any IP header, so it
 * must be found in frames whose transport header is cut or malformed, too.
 *
 * Worked example: an IPv4 header that begins 45 00 (DSCP 0, Not-ECT) begins 45 b8 after a DSCP of 46. With
 * ECT(0), 45 02, it begins 45 ba.
 *
 * Source: RFC 2474 (DSCP), RFC 1624 (checksum), RFC 8200 section 3.
 */
#ifndef WEIR_IP_HEADER_H
#define WEIR_IP_HEADER_H

#include "packet.h"
#include "types.h"

/* Bytes of an IPv4 and of an IPv6 header that these functions read and write. */
#define WEIR_DSCP_IPV4 12
#define WEIR_DSCP_IPV6 4
/* VLAN tags before a header whose DSCP a switch may read: one more than the parser of packets reads. */
#define WEIR_DSCP_TAGS_MAX (WEIR_TAGS_MAX + 1)

WEIR_INLINE void weir_put_be16(u8 *bytes, u16 value)
{
	bytes[0] = (u8)(value >> 8);
	bytes[1] = (u8)value;
}

/* Returns the header checksum after a change of one 16-bit word (RFC 1624, equation 3). */
WEIR_INLINE u16 weir_checksum_moved(u16 checksum, u16 before, u16 after)
{
	u32 sum = (u32)(u16)~checksum + (u16)~before + after;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)~sum;
}

/* Reads the version, traffic class and flow label of an IPv6 header. */
WEIR_INLINE u32 weir_ipv6_word(const u8 *header)
{
	return (u32)header[0] << 24 | (u32)header[1] << 16 | (u32)header[2] << 8 | header[3];
}

WEIR_INLINE void weir_ipv6_set(u8 *header, u32 word)
{
	header[0] = (u8)(word >> 24);
	header[1] = (u8)(word >> 16);
	header[2] = (u8)(word >> 8);
	header[3] = (u8)word;
}

/* Writes a DSCP into the first WEIR_DSCP_IPV4 bytes of an IPv4 header. ECN bits stay. */
WEIR_INLINE void weir_dscp_set_ipv4(u8 header[WEIR_DSCP_IPV4], u32 dscp)
{
	u16 first = weir_be16(header), set = (u16)((first & 0xff03U) | (dscp & 0x3f) << 2);

	weir_put_be16(header, set);
	weir_put_be16(header + 10, weir_checksum_moved(weir_be16(header + 10), first, set));
}

/* The same for the first WEIR_DSCP_IPV6 bytes of an IPv6 header. */
WEIR_INLINE void weir_dscp_set_ipv6(u8 header[WEIR_DSCP_IPV6], u32 dscp)
{
	weir_ipv6_set(header, (weir_ipv6_word(header) & ~(0x3fU << 22)) | (dscp & 0x3f) << 22);
}

/* The IP header of a frame. */
struct weir_ip_header {
	u32 offset;
	u8 family; /* 4, 6, or 0 without an IP header */
	u8 dscp;
	u16 reserved;
};

/* Finds the IP header of a frame, behind at most WEIR_DSCP_TAGS_MAX VLAN tags. */
WEIR_INLINE struct weir_ip_header weir_ip_header_of(weir_frame *frame)
{
	struct weir_ip_header header = {};
	u8 bytes[2] WEIR_ALIGNED;
	u32 offset = 12, type = 0, tags;

	for (tags = 0; tags <= WEIR_DSCP_TAGS_MAX; tags++) {
		if (weir_load(frame, offset, bytes, 2))
			return header;
		type = weir_be16(bytes);
		if (type != 0x8100 && type != 0x88a8)
			break;
		offset += 4;
	}
	if ((type != 0x0800 && type != 0x86dd) || weir_load(frame, offset + 2, bytes, 2))
		return header;
	header.offset = offset + 2;
	header.family = type == 0x0800 ? 4 : 6;
	header.dscp = type == 0x0800 ? bytes[1] >> 2 : (u8)(weir_be16(bytes) >> 6) & 0x3f;
	return header;
}

#endif
