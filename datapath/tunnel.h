/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Header length of tunnel packets that the kernel merged into one buffer.
 *
 * On arrival the kernel merges VXLAN, GENEVE, GRE and IP-in-IP packets by their innermost TCP
 * header. The buffer contains all headers once, but each packet on the wire had all of them:
 * the tunnel's and those of the inner packet. packet.h ends at the outer headers, which
 * policies specify. Counting only the outer headers per packet misses 4.7 % of a full VXLAN
 * frame (74 of 1,564 bytes).
 *
 * For a buffer of several packets, weir_header_bytes() parses on after the outer headers: the
 * tunnel header, Ethernet with VLAN tags if the tunnel carries Ethernet, IPv4 or IPv6, TCP or UDP.
 * If a buffer does not have this form, the outer headers alone count. IPv6 extension headers inside
 * a tunnel are not parsed. One tunnel level is enough: the kernel merges no deeper.
 *
 * Worked example: Ethernet 14, IPv4 20, UDP 8, VXLAN 8, Ethernet 14, IPv4 20, TCP 32: 116 bytes, of
 * which packet.h reports 42. Ten packets with 1,398 bytes of payload are a buffer of 14,096 bytes,
 * and 14,096 + 9 * 116 = 15,140 bytes on the wire.
 *
 * Source: RFC 7348 section 5, RFC 8926 section 3.4, RFC 2784, RFC 2890, RFC 2003, RFC 2473.
 */
#ifndef WEIR_TUNNEL_H
#define WEIR_TUNNEL_H

#include "packet.h"

#define WEIR_GENEVE_PORT 6081
#define WEIR_PROTOCOL_IPV4 4
#define WEIR_PROTOCOL_IPV6 41
#define WEIR_PROTOCOL_GRE 47
#define WEIR_TYPE_IPV4 0x0800
#define WEIR_TYPE_IPV6 0x86dd
/* Ethernet inside a tunnel: Transparent Ethernet Bridging */
#define WEIR_TYPE_ETHERNET 0x6558

/*
 * Returns the length of all headers of the packets that were merged into `frame`. `packet` is the
 * result of weir_parse().
 */
WEIR_INLINE u32 weir_header_bytes(weir_frame *frame, const struct weir_packet *packet)
{
	u8 header[40] WEIR_ALIGNED;
	u32 offset = packet->header_bytes, i;
	u16 type;
	u8 protocol;

	if (!(packet->has & WEIR_HAS_IP))
		return packet->header_bytes;
	if (packet->protocol == WEIR_PROTOCOL_UDP && (packet->has & WEIR_HAS_PORTS)) {
		type = WEIR_TYPE_ETHERNET;
		if (packet->destination_port == WEIR_GENEVE_PORT) {
			if (weir_load(frame, offset, header, 4))
				return packet->header_bytes;
			/* length of the options, in 4-byte words */
			offset += (u32)(header[0] & 0x3f) * 4;
			type = weir_be16(header + 2);
		} else if (packet->destination_port != WEIR_VXLAN_PORT) {
			return packet->header_bytes;
		}
		offset += 8;
	} else if (packet->protocol == WEIR_PROTOCOL_GRE) {
		if (weir_load(frame, offset, header, 4) || (header[1] & 7))
			return packet->header_bytes;
		/* optional fields: checksum, key, sequence number */
		offset += 4 + (header[0] & 0x80 ? 4 : 0) + (header[0] & 0x20 ? 4 : 0) + (header[0] & 0x10 ? 4 : 0);
		type = weir_be16(header + 2);
	} else if (packet->protocol == WEIR_PROTOCOL_IPV4) {
		type = WEIR_TYPE_IPV4;
	} else if (packet->protocol == WEIR_PROTOCOL_IPV6) {
		type = WEIR_TYPE_IPV6;
	} else {
		return packet->header_bytes;
	}
	if (type == WEIR_TYPE_ETHERNET) {
		if (weir_load(frame, offset, header, 14))
			return packet->header_bytes;
		type = weir_be16(header + 12);
		offset += 14;
		for (i = 0; i < WEIR_TAGS_MAX; i++) {
			if (type != 0x8100 && type != 0x88a8)
				break;
			if (weir_load(frame, offset, header, 4))
				return packet->header_bytes;
			type = weir_be16(header + 2);
			offset += 4;
		}
	}
	if (type == WEIR_TYPE_IPV4) {
		if (weir_load(frame, offset, header, 20) || header[0] >> 4 != 4)
			return packet->header_bytes;
		protocol = header[9];
		offset += (u32)(header[0] & 0x0f) * 4;
	} else if (type == WEIR_TYPE_IPV6) {
		if (weir_load(frame, offset, header, 40) || header[0] >> 4 != 6)
			return packet->header_bytes;
		protocol = header[6];
		offset += 40;
	} else {
		return packet->header_bytes;
	}
	if (protocol == WEIR_PROTOCOL_UDP)
		return offset + 8;
	if (protocol != WEIR_PROTOCOL_TCP || weir_load(frame, offset, header, 14))
		return packet->header_bytes;
	return offset + (u32)(header[12] >> 4) * 4;
}

#endif
