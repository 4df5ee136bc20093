/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Feedback packets: the rate of a receive meter, sent to the source of a packet.
 *
 * Feedback must reach the host that sent the packet, whatever address the packet has (a virtual
 * machine's, a container's). It must carry more than 65 Gb/s, name the service, and be rejected if
 * it is forged or old. It is a UDP datagram between the two addresses of the sampled packet. The
 * sender's host removes it at its interface, before any tenant receives it. It carries the fields
 * of the sampled packet by which the sender's own rules find the service, because hosts can
 * classify differently. A SipHash tag covers it and both addresses. (epoch, sequence) must be newer
 * than the last accepted one.
 *
 *   bytes  field, big-endian
 *   4      `WEIR`
 *   1, 1   version 2, kind: 5 feedback, 6 ECN capability message (others: crates/decide/control/src/wire)
 *   2      key number
 *   2      0 when sent, ignored when received: some hardware writes a checksum here
 *   1      WEIR_HAS_* of the sampled packet, and WEIR_FEEDBACK_ECN_ACK
 *   1      protocol of the sampled packet, as all fields up to VNI
 *   2, 2   source port, destination port
 *   4      service: the first four bytes of SHA-256 over its path, for operators and counters
 *   1, 3   DSCP, VNI
 *   8      rate, bit/s: for a sender of weight 1
 *   8      epoch: number of the start of the receiver's agent
 *   8      sequence: ns since the start of the receiver's kernel
 *   8      tag over both addresses (16 bytes each; IPv4 is ::ffff:a.b.c.d) and all fields above
 *
 * ECN capability message: a sender that applies feedback returns it as kind 6, some times a second,
 * to report that it encapsulates ECN (ecn.h). The receiver acknowledges it in feedback.
 *
 * Worked example: 10.0.0.2 sends feedback for a TCP packet 10.0.0.1:40000 > 10.0.0.2:7000 with 5 Gb/s: a frame
 * of 98 bytes, UDP from 10.0.0.2 to 10.0.0.1, port 30565.
 *
 * Source: Parley section 3.2.1 (custom IP packet). EyeQ's frame of 64 B, IP protocol 143, carries
 * the rate in Mb/s in the 16-bit identification, without a tag, for IPv4 only.
 * Deviates from the paper in: UDP instead of a custom IP packet; the tag.
 * Checksum field, replay protection and the ECN handshake: docs/design/feedback.md.
 */
#ifndef WEIR_FEEDBACK_H
#define WEIR_FEEDBACK_H

#include "packet.h"
#include "siphash.h"

/* UDP port of feedback and of the brokers' datagrams: 0x7765, `we`. */
#define WEIR_CONTROL_PORT 30565
#define WEIR_MAGIC 0x57454952U
#define WEIR_WIRE_VERSION 2
#define WEIR_KIND_FEEDBACK 5
#define WEIR_KIND_ECN_CAPABILITY 6
#define WEIR_FEEDBACK_WORDS 7
#define WEIR_FEEDBACK_BYTES (WEIR_FEEDBACK_WORDS * 8)
#define WEIR_UDP_BYTES 8
#define WEIR_FEEDBACK_IPV4_BYTES (20 + WEIR_UDP_BYTES + WEIR_FEEDBACK_BYTES)
#define WEIR_FEEDBACK_IPV6_BYTES (40 + WEIR_UDP_BYTES + WEIR_FEEDBACK_BYTES)

/* Kinds of a datagram to the control port. */
#define WEIR_FEEDBACK_GOOD 0
#define WEIR_FEEDBACK_FOREIGN 1        /* of another protocol */
#define WEIR_FEEDBACK_VERSION 2        /* of another version */
#define WEIR_FEEDBACK_OTHER 3          /* of another kind: a broker's */
#define WEIR_FEEDBACK_ECN_CAPABILITY 4 /* ECN capability message */

/* In `has`, beside WEIR_HAS_*: the receiver acknowledges the sender's ECN capability message. */
#define WEIR_FEEDBACK_ECN_ACK 0x80

/*
 * Times of the ECN handshake, ns. Each is longer than the time that it must outlast, plus the
 * network delay. A sender repeats its capability message after WEIR_ECN_REFRESH. A receiver
 * acknowledges it for WEIR_ECN_ACK_TIME, so three consecutive losses are harmless, and decapsulates
 * for WEIR_ECN_DECAPSULATE_TIME. A sender encapsulates for WEIR_ECN_ENCAPSULATE_TIME after an
 * acknowledgement. For WEIR_ECN_AVOID_TIME after feedback it sends no marker on other packets.
 */
#define WEIR_ECN_REFRESH 250000000ULL
#define WEIR_ECN_ACK_TIME 1000000000ULL
#define WEIR_ECN_ENCAPSULATE_TIME 1000000000ULL
#define WEIR_ECN_DECAPSULATE_TIME 3000000000ULL
#define WEIR_ECN_AVOID_TIME 4000000000ULL

struct weir_feedback {
	u64 rate; /* bit/s */
	u64 epoch;
	u64 sequence; /* ns */
	u32 service;
	u32 vni;
	u16 key;
	u16 source_port; /* of the sampled packet */
	u16 destination_port;
	u8 protocol;
	u8 dscp;
	u8 has; /* WEIR_HAS_*, WEIR_FEEDBACK_ECN_ACK */
	u8 reserved[7];
};

WEIR_INLINE u64 weir_be64(u64 value)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return value;
#else
	return __builtin_bswap64(value);
#endif
}

/*
 * Returns the tag of a body between the addresses `source` (the receiver) and
 * `destination`. The bytes that hardware can overwrite are excluded.
 */
WEIR_INLINE u64 weir_feedback_tag(const u64 body[WEIR_FEEDBACK_WORDS], const u64 source[2], const u64 destination[2],
				  const struct weir_sip_key *key)
{
	u64 words[10];

	words[0] = source[0];
	words[1] = source[1];
	words[2] = destination[0];
	words[3] = destination[1];
	words[4] = body[0];
	words[5] = body[1] & weir_be64(0x0000ffffffffffffULL);
	words[6] = body[2];
	words[7] = body[3];
	words[8] = body[4];
	words[9] = body[5];
	return weir_be64(weir_siphash(key, words, 10));
}

/* Fills the body of a datagram of `kind`. */
WEIR_INLINE void weir_feedback_write_as(u32 kind, u64 body[WEIR_FEEDBACK_WORDS], const struct weir_feedback *feedback,
					const u64 source[2],
					const u64 destination[2], const struct weir_sip_key *key)
{
	body[0] = weir_be64((u64)WEIR_MAGIC << 32 | (u64)WEIR_WIRE_VERSION << 24 | (u64)kind << 16 | feedback->key);
	body[1] = weir_be64((u64)feedback->has << 40 | (u64)feedback->protocol << 32 |
			    (u64)feedback->source_port << 16 |
			    feedback->destination_port);
	body[2] = weir_be64((u64)feedback->service << 32 | (u64)feedback->dscp << 24 | (feedback->vni & 0xffffff));
	body[3] = weir_be64(feedback->rate);
	body[4] = weir_be64(feedback->epoch);
	body[5] = weir_be64(feedback->sequence);
	body[6] = weir_feedback_tag(body, source, destination, key);
}

/* Fills the body of feedback. */
WEIR_INLINE void weir_feedback_write(u64 body[WEIR_FEEDBACK_WORDS], const struct weir_feedback *feedback,
				     const u64 source[2],
				     const u64 destination[2], const struct weir_sip_key *key)
{
	weir_feedback_write_as(WEIR_KIND_FEEDBACK, body, feedback, source, destination, key);
}

/* Returns the kind of a datagram to the control port from its first word. */
WEIR_INLINE int weir_control_kind(u64 first)
{
	first = weir_be64(first);
	if (first >> 32 != WEIR_MAGIC)
		return WEIR_FEEDBACK_FOREIGN;
	if ((first >> 24 & 0xff) != WEIR_WIRE_VERSION)
		return WEIR_FEEDBACK_VERSION;
	if ((first >> 16 & 0xff) == WEIR_KIND_ECN_CAPABILITY)
		return WEIR_FEEDBACK_ECN_CAPABILITY;
	return (first >> 16 & 0xff) == WEIR_KIND_FEEDBACK ? WEIR_FEEDBACK_GOOD : WEIR_FEEDBACK_OTHER;
}

/*
 * Reads a body that weir_control_kind() reports as feedback or ECN capability message. The content
 * is not trusted before the tag is verified.
 */
WEIR_INLINE void weir_feedback_read(const u64 body[WEIR_FEEDBACK_WORDS], struct weir_feedback *feedback)
{
	u64 first = weir_be64(body[0]), second = weir_be64(body[1]), third = weir_be64(body[2]);

	__builtin_memset(feedback, 0, sizeof(*feedback));
	feedback->key = (u16)first;
	feedback->has = (u8)(second >> 40);
	feedback->protocol = (u8)(second >> 32);
	feedback->source_port = (u16)(second >> 16);
	feedback->destination_port = (u16)second;
	feedback->service = (u32)(third >> 32);
	feedback->dscp = (u8)(third >> 24);
	feedback->vni = (u32)third & 0xffffff;
	feedback->rate = weir_be64(body[3]);
	feedback->epoch = weir_be64(body[4]);
	feedback->sequence = weir_be64(body[5]);
}

/*
 * Reconstructs the sampled packet as its sender classifies it on egress. `carrier`
 * is the feedback packet.
 */
WEIR_INLINE void weir_feedback_subject(const struct weir_feedback *feedback, const struct weir_packet *carrier,
					struct weir_packet *subject)
{
	__builtin_memset(subject, 0, sizeof(*subject));
	subject->source[0] = carrier->destination[0];
	subject->source[1] = carrier->destination[1];
	subject->destination[0] = carrier->source[0];
	subject->destination[1] = carrier->source[1];
	subject->family = carrier->family;
	subject->protocol = feedback->protocol;
	subject->source_port = feedback->source_port;
	subject->destination_port = feedback->destination_port;
	subject->vni = feedback->vni;
	subject->dscp = feedback->dscp & 0x3f;
	subject->has = (feedback->has & (WEIR_HAS_PORTS | WEIR_HAS_VNI)) | WEIR_HAS_IP;
	/* Its end at this host is the guest to which the carrier is addressed. */
	subject->has |= carrier->has & WEIR_HAS_GUEST;
	subject->interfaces[0] = carrier->interfaces[0];
	subject->interfaces[1] = carrier->interfaces[1];
	subject->interfaces[2] = carrier->interfaces[2];
}

/* Returns 1 if (epoch, sequence) is newer than the last accepted one. */
WEIR_INLINE int weir_feedback_newer(u64 epoch, u64 sequence, u64 last_epoch, u64 last_sequence)
{
	return epoch > last_epoch || (epoch == last_epoch && sequence > last_sequence);
}

WEIR_INLINE void weir_udp_header(u8 *header)
{
	u32 length = WEIR_UDP_BYTES + WEIR_FEEDBACK_BYTES;

	header[0] = WEIR_CONTROL_PORT >> 8;
	header[1] = WEIR_CONTROL_PORT & 0xff;
	header[2] = WEIR_CONTROL_PORT >> 8;
	header[3] = WEIR_CONTROL_PORT & 0xff;
	header[4] = 0;
	header[5] = (u8)length;
	header[6] = 0;
	header[7] = 0;
}

WEIR_INLINE u16 weir_checksum_fold(u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)~sum;
}

/* Returns the internet checksum's sum of `count` words; up to 16 words do not overflow. */
WEIR_INLINE u64 weir_checksum_words(const u64 *words, u32 count)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < 16; i++) {
		u64 word;

		if (i >= count)
			break;
		word = weir_be64(words[i]);
		sum += (word >> 32) + (word & 0xffffffff);
	}
	return sum;
}

/*
 * Writes the IPv4 and UDP headers before a body. `source` is the receiver. The UDP
 * checksum is 0, which IPv4 permits; the tag protects more.
 */
WEIR_INLINE void weir_feedback_ipv4(u8 headers[20 + WEIR_UDP_BYTES], const u64 source[2], const u64 destination[2])
{
	u32 length = WEIR_FEEDBACK_IPV4_BYTES, sum = 0, i;
	u16 checksum;

	__builtin_memset(headers, 0, 12);
	headers[0] = 0x45;
	headers[3] = (u8)length;
	headers[6] = 0x40; /* don't fragment */
	headers[8] = 64;
	headers[9] = WEIR_PROTOCOL_UDP;
	__builtin_memcpy(headers + 12, (const u8 *)source + 12, 4);
	__builtin_memcpy(headers + 16, (const u8 *)destination + 12, 4);
	for (i = 0; i < 20; i += 2)
		sum += weir_be16(headers + i);
	checksum = weir_checksum_fold(sum);
	headers[10] = (u8)(checksum >> 8);
	headers[11] = (u8)checksum;
	weir_udp_header(headers + 20);
}

/* Writes the IPv6 and UDP headers before `body`. The UDP checksum covers the body. */
WEIR_INLINE void weir_feedback_ipv6(u8 headers[40 + WEIR_UDP_BYTES], const u64 source[2], const u64 destination[2],
				    const u64 body[WEIR_FEEDBACK_WORDS])
{
	u32 length = WEIR_UDP_BYTES + WEIR_FEEDBACK_BYTES;
	u64 sum;
	u16 checksum;

	__builtin_memset(headers, 0, 8);
	headers[0] = 0x60;
	headers[5] = (u8)length;
	headers[6] = WEIR_PROTOCOL_UDP;
	headers[7] = 64;
	__builtin_memcpy(headers + 8, source, 16);
	__builtin_memcpy(headers + 24, destination, 16);
	weir_udp_header(headers + 40);
	sum = weir_checksum_words(source, 2) + weir_checksum_words(destination, 2) +
	      weir_checksum_words(body, WEIR_FEEDBACK_WORDS);
	/* length and protocol of the pseudo header, then ports and length of the UDP header */
	sum += length + WEIR_PROTOCOL_UDP + WEIR_CONTROL_PORT * 2 + length;
	checksum = weir_checksum_fold(sum);
	if (!checksum)
		checksum = 0xffff;
	headers[46] = (u8)(checksum >> 8);
	headers[47] = (u8)checksum;
}

#endif
