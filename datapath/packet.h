/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Header parser: from a frame to the fields that a policy can specify.
 *
 * Rules specify protocols, ports, addresses, DSCP and networks of tunnels. Frames contain VLAN tags,
 * IPv4 options, IPv6 extension headers and fragments, and can be truncated or malformed on purpose.
 * The parser reads Ethernet, at most WEIR_TAGS_MAX VLAN tags, IPv4 or IPv6 with at most
 * WEIR_EXTENSIONS_MAX extension headers, then TCP, UDP or SCTP. A header that is not complete makes
 * the frame malformed. `has` records which fields are present. A rule that specifies an absent
 * field does not match. The network of a tunnel is behind these headers: tunnel.h reads it.
 *
 *   not IP (ARP, ...)           family 0: only rules without header fields match
 *   fragment after the first    no ports: the first fragment contains them
 *   too many extension headers  no ports; the protocol is the header at which the parser stopped
 *   truncated or invalid header WEIR_MALFORMED: unclassified, whatever the rules are
 *
 * The parser does not compare the total length of IPv4 with the frame: the kernel sets it to 0 in
 * segments above 64 KiB.
 *
 * Worked example: `ethernet(0x0800) ipv4(ihl 5, 10.0.0.1 > 10.0.0.2, tos 0xb8, tcp) tcp(40000 >
 * 7000, doff 5)` gives family 4, protocol 6, dscp 46, ports 40000 and 7000, 54 bytes of headers.
 *
 * Source: RFC 791, RFC 8200 section 4, RFC 2474, IEEE 802.1Q.
 */
#ifndef WEIR_PACKET_H
#define WEIR_PACKET_H

#include "types.h"

#define WEIR_PARSED 0
#define WEIR_MALFORMED 1

#define WEIR_TAGS_MAX 2
/*
 * RFC 8200 section 4.1 recommends each extension header at most once, destination options twice:
 * hop-by-hop options, two of destination options, routing, fragment, authentication.
 */
#define WEIR_EXTENSIONS_MAX 6

/* Fields of struct weir_packet that are defined. */
#define WEIR_HAS_IP 0x01
#define WEIR_HAS_PORTS 0x02
/* Set by weir_find_vni(). */
#define WEIR_HAS_VNI 0x04
/* Set by the caller of the parser, for packets of the host's own sockets. */
#define WEIR_HAS_PRIORITY 0x08
/* Set by the caller of the parser, where a rule names a glob. */
#define WEIR_HAS_CGROUP 0x10
/* Set by the caller of the parser: the packet departs, and has its socket. Otherwise it arrives. */
#define WEIR_HAS_DEPARTED 0x20
/* Set by the caller of the parser: the packet is of a guest whose interface a glob matches. */
#define WEIR_HAS_GUEST 0x40

/* Globs over interfaces that match one guest's interface at most: of several, the first rules of one usually decide. */
#define WEIR_GUEST_GLOBS 3

#define WEIR_TCP_SYN 0x02

#define WEIR_PROTOCOL_TCP 6
#define WEIR_PROTOCOL_UDP 17
#define WEIR_PROTOCOL_SCTP 132

struct weir_packet {
	u64 source[2];      /* network byte order; IPv4 is ::ffff:a.b.c.d. With WEIR_HAS_IP */
	u64 destination[2]; /* the same. With WEIR_HAS_IP */
	u64 cgroups;        /* one bit for each glob that includes its socket's control group; 0 without a known socket.
			     * With WEIR_HAS_CGROUP */
	u32 header_bytes;   /* all headers up to the payload of TCP, UDP or SCTP, else of IP */
	u32 vni;            /* with WEIR_HAS_VNI */
	u32 network;        /* offset of the IP header. With WEIR_HAS_IP */
	u32 priority;       /* SO_PRIORITY of its socket, which is not in the frame. With WEIR_HAS_PRIORITY */
	u16 source_port;    /* host byte order. With WEIR_HAS_PORTS */
	u16 destination_port;
	u8 family;   /* 4, 6, or 0 if not IP */
	u8 protocol; /* the number after all extension headers. With WEIR_HAS_IP */
	u8 dscp;     /* with WEIR_HAS_IP */
	u8 has;      /* WEIR_HAS_* */
	u8 ecn;      /* the lower two bits of the traffic class. With WEIR_HAS_IP */
	u8 tcp_flags; /* WEIR_TCP_*; 0 if not TCP */
	/* globs that match its guest's interface, from 1 on; 0: none. With WEIR_HAS_GUEST */
	u16 interfaces[WEIR_GUEST_GLOBS];
};

/* Parses the transport header at `offset`, of the protocol in `packet`. */
WEIR_INLINE int weir_parse_transport(weir_frame *frame, u32 offset, struct weir_packet *packet)
{
	u8 header[14] WEIR_ALIGNED;

	packet->header_bytes = offset;
	if (packet->protocol == WEIR_PROTOCOL_TCP) {
		u32 size;

		if (weir_load(frame, offset, header, 14))
			return WEIR_MALFORMED;
		size = (u32)(header[12] >> 4) * 4;
		if (size < 20)
			return WEIR_MALFORMED;
		packet->header_bytes = offset + size;
		packet->tcp_flags = header[13];
	} else if (packet->protocol == WEIR_PROTOCOL_UDP) {
		if (weir_load(frame, offset, header, 8))
			return WEIR_MALFORMED;
		packet->header_bytes = offset + 8;
	} else if (packet->protocol == WEIR_PROTOCOL_SCTP) {
		if (weir_load(frame, offset, header, 12))
			return WEIR_MALFORMED;
		packet->header_bytes = offset + 12;
	} else {
		return WEIR_PARSED;
	}
	packet->source_port = weir_be16(header);
	packet->destination_port = weir_be16(header + 2);
	packet->has |= WEIR_HAS_PORTS;
	return WEIR_PARSED;
}

/* Writes an IPv4 address as an IPv4-mapped IPv6 address (RFC 4291 section 2.5.5.2). */
WEIR_INLINE void weir_map_ipv4(u64 *address, const u8 *ipv4)
{
	u8 mapped[16] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ipv4[0], ipv4[1], ipv4[2], ipv4[3] };

	__builtin_memcpy(address, mapped, 16);
}

WEIR_INLINE int weir_parse_ipv4(weir_frame *frame, u32 offset, struct weir_packet *packet)
{
	u8 header[20] WEIR_ALIGNED;
	u32 size;

	if (weir_load(frame, offset, header, 20))
		return WEIR_MALFORMED;
	size = (u32)(header[0] & 0x0f) * 4;
	if (header[0] >> 4 != 4 || size < 20)
		return WEIR_MALFORMED;
	weir_map_ipv4(packet->source, header + 12);
	weir_map_ipv4(packet->destination, header + 16);
	packet->family = 4;
	packet->protocol = header[9];
	packet->dscp = header[1] >> 2;
	packet->ecn = header[1] & 3;
	packet->network = offset;
	packet->has |= WEIR_HAS_IP;
	packet->header_bytes = offset + size;
	if (weir_be16(header + 6) & 0x1fff) /* not the first fragment */
		return WEIR_PARSED;
	return weir_parse_transport(frame, offset + size, packet);
}

WEIR_INLINE int weir_parse_ipv6(weir_frame *frame, u32 offset, struct weir_packet *packet)
{
	u8 header[40] WEIR_ALIGNED;
	u8 next;
	u32 i;

	if (weir_load(frame, offset, header, 40) || header[0] >> 4 != 6)
		return WEIR_MALFORMED;
	__builtin_memcpy(packet->source, header + 8, 16);
	__builtin_memcpy(packet->destination, header + 24, 16);
	packet->family = 6;
	packet->dscp = (u8)(weir_be16(header) >> 6) & 0x3f;
	packet->ecn = header[1] >> 4 & 3;
	packet->network = offset;
	packet->has |= WEIR_HAS_IP;
	next = header[6];
	offset += 40;
	for (i = 0; i < WEIR_EXTENSIONS_MAX; i++) {
		u8 extension[4] WEIR_ALIGNED;
		u8 kind = next;

		/* hop-by-hop, routing, destination options, mobility, fragment, authentication */
		if (kind != 0 && kind != 43 && kind != 60 && kind != 135 && kind != 44 && kind != 51)
			break;
		if (weir_load(frame, offset, extension, 4))
			return WEIR_MALFORMED;
		next = extension[0];
		if (kind == 44) {
			offset += 8;
			if (weir_be16(extension + 2) & 0xfff8) { /* not the first fragment */
				packet->protocol = next;
				packet->header_bytes = offset;
				return WEIR_PARSED;
			}
		} else if (kind == 51) {
			offset += ((u32)extension[1] + 2) * 4;
		} else {
			offset += ((u32)extension[1] + 1) * 8;
		}
		/* As after the tags: without this, the number of paths triples with each header. */
		packet->header_bytes = offset;
		WEIR_MERGE_PATHS();
		offset = packet->header_bytes;
	}
	packet->protocol = next;
	return weir_parse_transport(frame, offset, packet);
}

/* Does the same as weir_parse(), for a `packet` that is all 0, except for what its caller sets. */
WEIR_INLINE int weir_parse_headers(weir_frame *frame, struct weir_packet *packet)
{
	u8 ethernet[14] WEIR_ALIGNED;
	u8 tag[4] WEIR_ALIGNED;
	u32 offset = 14;
	u16 type;
	u32 i;

	if (weir_load(frame, 0, ethernet, 14))
		return WEIR_MALFORMED;
	type = weir_be16(ethernet + 12);
	for (i = 0; i < WEIR_TAGS_MAX; i++) {
		if (type != 0x8100 && type != 0x88a8)
			break;
		if (weir_load(frame, offset, tag, 4))
			return WEIR_MALFORMED;
		type = weir_be16(tag + 2);
		/* The verifier checks the code after the tags once instead of once for each number of tags. */
		packet->header_bytes = offset + 4;
		WEIR_MERGE_PATHS();
		offset = packet->header_bytes;
	}
	packet->header_bytes = offset;
	if (type == 0x0800)
		return weir_parse_ipv4(frame, offset, packet);
	if (type == 0x86dd)
		return weir_parse_ipv6(frame, offset, packet);
	return WEIR_PARSED;
}

/*
 * Fills `packet` from an Ethernet frame. Returns WEIR_PARSED, or
 * WEIR_MALFORMED with undefined fields.
 */
WEIR_INLINE int weir_parse(weir_frame *frame, struct weir_packet *packet)
{
	__builtin_memset(packet, 0, sizeof(*packet));
	return weir_parse_headers(frame, packet);
}

#endif
