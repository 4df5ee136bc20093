/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Letting switches mark tenants' packets that do not speak ECN, without the tenants ever seeing it.
 *
 * Problem: the rate law needs to know which packets met a queue, but most transports do not speak ECN, and switches
 * mark only what does. So senders make packets ECN-capable; receivers must undo that, and a packet that arrives as CE no
 * longer shows what it was. To clear all (EyeQ) would take their own ECN from tenants that use it.
 * Approach: that a packet was Not-ECT is written where the header has bits that nobody may read:
 *
 *   IPv4  the upper five bits of the identification of atomic datagrams: don't fragment set, not a fragment. Their
 *         identification has no meaning, and who examines headers must ignore it (RFC 6864 section 4.1).
 *   IPv6  the upper five bits of the flow label. The lower fifteen stay for the choice of ways, which all packets
 *         of a flow so make alike.
 *
 * Those five bits, 10101, are the origin. Others' headers have it by chance, one of 32, so it means something only between hosts that have
 * agreed on it: a sender that has given its word, and a receiver that says that it has it (feedback.h). Rules, for what leaves towards
 * such a receiver, of a service that it answers for:
 *
 *   Not-ECT, and the origin can be written   becomes ECT(0), or ECT(1) where it asks for feedback; with the origin
 *   Not-ECT otherwise                        stays as it is: switches drop it, as ever
 *   ECT(0), ECT(1), CE of the tenant         stays; where its field happens to begin with the origin, another
 *                                            is written; that already from the sender's word on
 *
 * and for what arrives from a sender that has given its word, of the service that it gave it for: with the origin and anything but Not-ECT it was
 * Not-ECT, and is again. Everything else is the tenant's, and so is all that comes from anybody else and all of no service. DSCP is never
 * touched.
 *
 * Segmentation offload: the kernel and hardware count the identification up by one for each segment. The lower eleven
 * bits leave room for 2,048 of them; where the segments of a buffer would pass the end, its counting starts at 0.
 * Packets merged on arrival show the first segment's header; those with other ECN bits are not merged.
 *
 * Hosts whose policies tell services apart differently may disagree on what is coded: then packets arrive as ECT(0) that were Not-ECT.
 *
 * The header checksum of IPv4 is updated as in RFC 1624, so that sums over the header stay as they are. No checksum
 * of TCP or UDP covers these bits.
 *
 * Worked example: identification 0x1234 with the don't-fragment bit, Not-ECT: 0xaa34 (10101 and 0x234), ECT(0). A switch makes it
 * CE. The receiver sees the origin: one marked packet, delivered as Not-ECT with identification 0xaa34.
 *
 * Source: RFC 3168, RFC 6864, RFC 6437, RFC 1624. EyeQ sets ECT(0) on all packets and clears the bits on arrival.
 */
#ifndef WEIR_ECN_H
#define WEIR_ECN_H

#include "types.h"

#define WEIR_NOT_ECT 0
#define WEIR_ECT1 1
#define WEIR_ECT0 2
#define WEIR_CE 3

/* 10101 */
#define WEIR_ECN_MARKER 0x15U
/* So many of the identification's bits count segments. */
#define WEIR_ECN_MARKER_COUNT_BITS 11
#define WEIR_ECN_MARKER_COUNT_MASK ((1U << WEIR_ECN_MARKER_COUNT_BITS) - 1)
/* So many of the flow label's bits are left to choose ways. */
#define WEIR_ECN_MARKER_LABEL_BITS 15
#define WEIR_ECN_MARKER_LABEL_MASK ((1U << WEIR_ECN_MARKER_LABEL_BITS) - 1)
/* The bytes of an IPv4 header that these functions read and write, and of an IPv6 header. */
#define WEIR_ECN_IPV4 12
#define WEIR_ECN_IPV6 4

/* What a header was found to be, or was made. */
#define WEIR_ECN_UNCHANGED 0
#define WEIR_ECN_CHANGED 1

WEIR_INLINE void weir_put_be16(u8 *bytes, u16 value)
{
	bytes[0] = (u8)(value >> 8);
	bytes[1] = (u8)value;
}

/* The header checksum after a 16-bit word changed from `before` to `after` (RFC 1624, equation 3). */
WEIR_INLINE u16 weir_checksum_moved(u16 checksum, u16 before, u16 after)
{
	u32 sum = (u32)(u16)~checksum + (u16)~before + after;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)~sum;
}

/* Writes the ECN bits and the identification of an IPv4 header and moves its checksum along. */
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

/* Whether any of `segments` packets that count up from `identification` has the origin. */
WEIR_INLINE int weir_ipv4_has_marker(u16 identification, u32 segments)
{
	u32 last = (u32)identification + segments - 1;

	return identification >> WEIR_ECN_MARKER_COUNT_BITS == WEIR_ECN_MARKER || last >> WEIR_ECN_MARKER_COUNT_BITS == WEIR_ECN_MARKER;
}

/*
 * Before `segments` packets leave with (a copy of) this IPv4 header, of which it has the first WEIR_ECN_IPV4 bytes. `asks`:
 * the packet is to ask for feedback, where it can. WEIR_ECN_CHANGED: write the bytes back.
 */
WEIR_INLINE int weir_ecn_leave_ipv4(u8 header[WEIR_ECN_IPV4], u32 segments, int requests_feedback)
{
	u32 ecn = header[1] & 3;
	u16 id = weir_be16(header + 4), flags = weir_be16(header + 6);
	u32 count = id & WEIR_ECN_MARKER_COUNT_MASK;

	if (ecn != WEIR_NOT_ECT) {
		if (flags != 0x4000 || !weir_ipv4_has_marker(id, segments))
			return WEIR_ECN_UNCHANGED;
		/* 00000 and 1,024 numbers to count from: at most 2,048 segments stay clear of 10101 */
		weir_ipv4_set(header, ecn, (u16)(count >> 1));
		return WEIR_ECN_CHANGED;
	}
	/* don't fragment set; more fragments, offset and the reserved bit not */
	if (flags != 0x4000 || segments > WEIR_ECN_MARKER_COUNT_MASK + 1)
		return WEIR_ECN_UNCHANGED;
	if (count + segments > WEIR_ECN_MARKER_COUNT_MASK + 1)
		count = 0;
	weir_ipv4_set(header, requests_feedback ? WEIR_ECT1 : WEIR_ECT0, (u16)(WEIR_ECN_MARKER << WEIR_ECN_MARKER_COUNT_BITS | count));
	return WEIR_ECN_CHANGED;
}

/* The version, traffic class and flow label of an IPv6 header. */
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

WEIR_INLINE u32 weir_ipv6_marker(u32 word)
{
	return (word & 0xfffff) >> WEIR_ECN_MARKER_LABEL_BITS;
}

/* The same for an IPv6 header, of which it has the first WEIR_ECN_IPV6 bytes. */
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

/* What a packet that arrived says of its way. */
struct weir_ecn {
	u8 capable; /* 1: switches could mark it */
	u8 marked;  /* 1: one did */
	u8 requests_feedback;    /* 1: its sender asks for feedback */
	u8 encapsulated;    /* 1: it was Not-ECT, and is to be again: weir_ecn_arrive has changed the header */
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

/* Reads the first WEIR_ECN_IPV4 bytes of an IPv4 header that arrived, and gives them back as the tenant sent them. */
WEIR_INLINE struct weir_ecn weir_ecn_arrive_ipv4(u8 header[WEIR_ECN_IPV4])
{
	u16 id = weir_be16(header + 4);
	/* what could not have had it written is the tenant's own */
	int has_marker = id >> WEIR_ECN_MARKER_COUNT_BITS == WEIR_ECN_MARKER && weir_be16(header + 6) == 0x4000;
	struct weir_ecn found = weir_ecn_read(header[1] & 3, has_marker);

	if (found.encapsulated)
		weir_ipv4_set(header, WEIR_NOT_ECT, id);
	return found;
}

/* The same of an IPv6 header's first WEIR_ECN_IPV6 bytes. */
WEIR_INLINE struct weir_ecn weir_ecn_arrive_ipv6(u8 header[WEIR_ECN_IPV6])
{
	u32 word = weir_ipv6_word(header);
	struct weir_ecn found = weir_ecn_read(word >> 20 & 3, weir_ipv6_marker(word) == WEIR_ECN_MARKER);

	if (found.encapsulated)
		weir_ipv6_set(header, word & ~(3U << 20));
	return found;
}

#endif
