/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Tunnels: the network of a packet, and the header length of packets that the kernel merged into one buffer.
 *
 * VXLAN and Geneve are UDP to ports that the policy specifies. Either has a network identifier of 24 bits in bytes 4
 * to 6 of its header, which weir_find_vni() reads. A VXLAN header is valid with its flag I; a Geneve header is of
 * version 0. Other flags may be set: VXLAN with a group policy uses the highest.
 *
 * On arrival the kernel merges VXLAN, Geneve, GRE and IP-in-IP packets by their innermost TCP
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
 * Worked examples: behind UDP to port 8472, the bytes 08 00 00 00 00 00 05 00 give the network 5.
 * Ethernet 14, IPv4 20, UDP 8, VXLAN 8, Ethernet 14, IPv4 20, TCP 32 are 116 bytes of headers, of
 * which packet.h reports 42. Ten packets with 1,398 bytes of payload are a buffer of 14,096 bytes,
 * and 14,096 + 9 * 116 = 15,140 bytes on the wire.
 *
 * Source: RFC 7348 section 5, RFC 8926 section 3.4, RFC 2784, RFC 2890, RFC 2003, RFC 2473.
 */
#ifndef WEIR_TUNNEL_H
#define WEIR_TUNNEL_H

#include "packet.h"

/* Ports of each kind of tunnel. */
#define WEIR_TUNNEL_PORTS 4
#define WEIR_PROTOCOL_IPV4 4
#define WEIR_PROTOCOL_IPV6 41
#define WEIR_PROTOCOL_GRE 47
#define WEIR_TYPE_IPV4 0x0800
#define WEIR_TYPE_IPV6 0x86dd
/* Ethernet inside a tunnel: Transparent Ethernet Bridging */
#define WEIR_TYPE_ETHERNET 0x6558

/* UDP ports of tunnels in host byte order; 0: none. */
struct weir_tunnels {
	u16 vxlan[WEIR_TUNNEL_PORTS];
	u16 geneve[WEIR_TUNNEL_PORTS];
};

WEIR_INLINE int weir_has_port(const u16 *ports, u16 port)
{
	u32 i;

	for (i = 0; i < WEIR_TUNNEL_PORTS; i++) {
		if (port && ports[i] == port)
			return 1;
	}
	return 0;
}

/* Sets the VNI of a parsed packet, if it has one. */
WEIR_INLINE void weir_find_vni(weir_frame *frame, const struct weir_tunnels *tunnels, struct weir_packet *packet)
{
	u8 header[8] WEIR_ALIGNED;
	int vxlan;

	if (packet->protocol != WEIR_PROTOCOL_UDP || !(packet->has & WEIR_HAS_PORTS))
		return;
	vxlan = weir_has_port(tunnels->vxlan, packet->destination_port);
	if (!vxlan && !weir_has_port(tunnels->geneve, packet->destination_port))
		return;
	if (weir_load(frame, packet->header_bytes, header, 8))
		return;
	if (vxlan ? !(header[0] & 0x08) : header[0] >> 6)
		return;
	packet->vni = (u32)header[4] << 16 | (u32)header[5] << 8 | header[6];
	packet->has |= WEIR_HAS_VNI;
}

/*
 * Returns the length of all headers of the packets that were merged into `frame`. `packet` is the
 * result of weir_parse().
 */
WEIR_INLINE u32 weir_header_bytes(weir_frame *frame, const struct weir_tunnels *tunnels,
				  const struct weir_packet *packet)
{
	u8 header[40] WEIR_ALIGNED;
	u32 offset = packet->header_bytes, i;
	u16 type;
	u8 protocol;

	if (!(packet->has & WEIR_HAS_IP))
		return packet->header_bytes;
	if (packet->protocol == WEIR_PROTOCOL_UDP && (packet->has & WEIR_HAS_PORTS)) {
		type = WEIR_TYPE_ETHERNET;
		if (weir_has_port(tunnels->geneve, packet->destination_port)) {
			if (weir_load(frame, offset, header, 4))
				return packet->header_bytes;
			/* length of the options, in 4-byte words */
			offset += (u32)(header[0] & 0x3f) * 4;
			type = weir_be16(header + 2);
		} else if (!weir_has_port(tunnels->vxlan, packet->destination_port)) {
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
