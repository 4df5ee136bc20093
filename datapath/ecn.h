/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * ECN encapsulation: switches mark the packets of transports without
 * ECN, transparently for tenants.
 *
 * The rate law needs the packets that met a queue. Most transports do not use ECN, and switches
 * mark only ECN-capable packets. Senders therefore set ECT, and receivers restore Not-ECT. A
 * packet that arrives as CE does not show its original codepoint, so the sender records it in
 * bits without a meaning:
 *
 *   IPv4  the upper five bits of the identification of atomic datagrams (don't fragment set, not a
 *         fragment), which all devices must ignore (RFC 6864 section 4.1)
 *   IPv6  the upper five bits of the flow label. The lower fifteen remain for path selection.
 *
 * These bits, 10101, are the ECN encapsulation marker. One of 32 headers has it by chance, so the
 * marker is valid only between hosts that have agreed on it by ECN capability messages
 * (feedback.h). Rules for packets to such a receiver, of a service that it sends feedback for:
 *
 *   Not-ECT, marker possible   becomes ECT(0), or ECT(1) for a feedback request; with the marker
 *   Not-ECT otherwise          unchanged: switches drop it instead of marking it
 *   the tenant's ECT or CE     unchanged, except that a field which begins with the marker is
 *                              rewritten, from the first ECN capability message on
 *
 * A packet of such a sender and service, with the marker and not Not-ECT, becomes Not-ECT again.
 * All other packets are unchanged, and so is DSCP. The IPv4 header checksum is updated as in
 * RFC 1624. No TCP or UDP checksum covers these bits.
 *
 * Worked example: identification 0x1234, don't fragment, Not-ECT becomes 0xaa34 (10101 and 0x234),
 * ECT(0). A switch changes ECT(0) to CE. The receiver finds the marker, counts one marked packet,
 * and delivers Not-ECT with identification 0xaa34.
 *
 * Source: RFC 3168, RFC 6864, RFC 6437, RFC 1624. Deviates from EyeQ in: EyeQ sets ECT(0) on all
 * packets and clears the bits of all on arrival.
 * Segmentation offload and limits: docs/design/ecn-encapsulation.md.
 */
#ifndef WEIR_ECN_H
#define WEIR_ECN_H

#include "ip_header.h"

#define WEIR_NOT_ECT 0
#define WEIR_ECT1 1
#define WEIR_ECT0 2
#define WEIR_CE 3

/* ECN encapsulation marker: 10101. */
#define WEIR_ECN_MARKER 0x15U
/* Lower bits of the identification, which number the segments of a buffer. */
#define WEIR_ECN_MARKER_COUNT_BITS 11
#define WEIR_ECN_MARKER_COUNT_MASK ((1U << WEIR_ECN_MARKER_COUNT_BITS) - 1)
/* Lower bits of the flow label, which remain for path selection. */
#define WEIR_ECN_MARKER_LABEL_BITS 15
#define WEIR_ECN_MARKER_LABEL_MASK ((1U << WEIR_ECN_MARKER_LABEL_BITS) - 1)
/* Bytes of an IPv4 and of an IPv6 header that these functions read and write. */
#define WEIR_ECN_IPV4 12
#define WEIR_ECN_IPV6 4

/* Results: whether the header has changed. */
#define WEIR_ECN_UNCHANGED 0
#define WEIR_ECN_CHANGED 1

/* Writes the ECN bits and the identification of an IPv4 header and updates its checksum. */
WEIR_INLINE void weir_ipv4_set(u8 *header, u32 ecn, u16 identification)
{
	u16 first = weir_be16(header), id = weir_be16(header + 4), checksum = weir_be16(header + 10);
	u16 set = (u16)((first & ~3U) | ecn);

	checksum = weir_checksum_moved(checksum, first, set);
	checksum = weir_checksum_moved(checksum, id, identification);
	weir_put_be16(header, set);
	weir_put_be16(header + 4, identification);
	weir_put_be16(header + 10, checksum);
}

/* Returns 1 if one of `segments` packets, numbered from `identification` on, has the marker. */
WEIR_INLINE int weir_ipv4_has_marker(u16 identification, u32 segments)
{
	u32 last = (u32)identification + segments - 1;

	return identification >> WEIR_ECN_MARKER_COUNT_BITS == WEIR_ECN_MARKER ||
		last >> WEIR_ECN_MARKER_COUNT_BITS == WEIR_ECN_MARKER;
}

/*
 * Processes the first WEIR_ECN_IPV4 bytes of an IPv4 header (or a copy) before `segments` packets
 * leave with it. `requests_feedback`: the packet requests feedback, if it can have the marker.
 * Returns WEIR_ECN_CHANGED if the caller must write the bytes back.
 */
WEIR_INLINE int weir_ecn_leave_ipv4(u8 header[WEIR_ECN_IPV4], u32 segments, int requests_feedback)
{
	u32 ecn = header[1] & 3;
	u16 id = weir_be16(header + 4), flags = weir_be16(header + 6);
	u32 count = id & WEIR_ECN_MARKER_COUNT_MASK;

	if (ecn != WEIR_NOT_ECT) {
		if (flags != 0x4000 || !weir_ipv4_has_marker(id, segments))
			return WEIR_ECN_UNCHANGED;
		/* 00000 and 1,024 numbers: up to 2,048 segments do not reach 10101 */
		weir_ipv4_set(header, ecn, (u16)(count >> 1));
		return WEIR_ECN_CHANGED;
	}
	/* don't fragment set; more fragments, offset and the reserved bit clear */
	if (flags != 0x4000 || segments > WEIR_ECN_MARKER_COUNT_MASK + 1)
		return WEIR_ECN_UNCHANGED;
	if (count + segments > WEIR_ECN_MARKER_COUNT_MASK + 1)
		count = 0;
	weir_ipv4_set(header, requests_feedback ? WEIR_ECT1 : WEIR_ECT0,
		      (u16)(WEIR_ECN_MARKER << WEIR_ECN_MARKER_COUNT_BITS | count));
	return WEIR_ECN_CHANGED;
}

/* Returns the upper five bits of the flow label. */
WEIR_INLINE u32 weir_ipv6_marker(u32 word)
{
	return (word & 0xfffff) >> WEIR_ECN_MARKER_LABEL_BITS;
}

/* The same for the first WEIR_ECN_IPV6 bytes of an IPv6 header. */
WEIR_INLINE int weir_ecn_leave_ipv6(u8 header[WEIR_ECN_IPV6], int requests_feedback)
{
	u32 word = weir_ipv6_word(header);
	u32 ecn = word >> 20 & 3;
	u32 label = word & WEIR_ECN_MARKER_LABEL_MASK;

	if (ecn != WEIR_NOT_ECT) {
		if (weir_ipv6_marker(word) != WEIR_ECN_MARKER)
			return WEIR_ECN_UNCHANGED;
		weir_ipv6_set(header, (word & ~0xfffffU) | label);
		return WEIR_ECN_CHANGED;
	}
	ecn = requests_feedback ? WEIR_ECT1 : WEIR_ECT0;
	weir_ipv6_set(header, (word & ~0xfffffU) | ecn << 20 | WEIR_ECN_MARKER << WEIR_ECN_MARKER_LABEL_BITS | label);
	return WEIR_ECN_CHANGED;
}

/* The ECN information of a packet that arrived. */
struct weir_ecn {
	u8 capable;           /* 1: ECT or CE, so switches can mark the packet */
	u8 marked;            /* 1: CE */
	u8 requests_feedback; /* 1: the packet is a feedback request */
	u8 encapsulated;      /* 1: the tenant sent Not-ECT, and the header is restored */
};

WEIR_INLINE struct weir_ecn weir_ecn_read(u32 ecn, int has_marker)
{
	struct weir_ecn found = { ecn != WEIR_NOT_ECT, ecn == WEIR_CE, 0, 0 };

	if (has_marker && ecn != WEIR_NOT_ECT) {
		found.encapsulated = 1;
		found.requests_feedback = ecn == WEIR_ECT1;
	}
	return found;
}

/* Reads the first WEIR_ECN_IPV4 bytes of an IPv4 header that arrived and restores the tenant's. */
WEIR_INLINE struct weir_ecn weir_ecn_arrive_ipv4(u8 header[WEIR_ECN_IPV4])
{
	u16 id = weir_be16(header + 4);
	/* the marker is only valid in an atomic datagram */
	int has_marker = id >> WEIR_ECN_MARKER_COUNT_BITS == WEIR_ECN_MARKER && weir_be16(header + 6) == 0x4000;
	struct weir_ecn found = weir_ecn_read(header[1] & 3, has_marker);

	if (found.encapsulated)
		weir_ipv4_set(header, WEIR_NOT_ECT, id);
	return found;
}

/* The same for the first WEIR_ECN_IPV6 bytes of an IPv6 header. */
WEIR_INLINE struct weir_ecn weir_ecn_arrive_ipv6(u8 header[WEIR_ECN_IPV6])
{
	u32 word = weir_ipv6_word(header);
	struct weir_ecn found = weir_ecn_read(word >> 20 & 3, weir_ipv6_marker(word) == WEIR_ECN_MARKER);

	if (found.encapsulated)
		weir_ipv6_set(header, word & ~(3U << 20));
	return found;
}

/* Marks the first WEIR_ECN_IPV4 bytes of an IPv4 header CE. */
WEIR_INLINE void weir_ecn_mark_ipv4(u8 header[WEIR_ECN_IPV4])
{
	weir_ipv4_set(header, WEIR_CE, weir_be16(header + 4));
}

/* Marks the first WEIR_ECN_IPV6 bytes of an IPv6 header CE. */
WEIR_INLINE void weir_ecn_mark_ipv6(u8 header[WEIR_ECN_IPV6])
{
	weir_ipv6_set(header, weir_ipv6_word(header) | (u32)WEIR_CE << 20);
}

#endif
