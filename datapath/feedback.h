/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Feedback on the wire: a receive meter's rate, on its way to the source of a packet.
 *
 * Problem: the answer must find the very host that sent the packet, whatever address it has (a virtual machine's, a
 * container's), tell it more than 65 Gb/s, for whom, and be believed by nobody when it is forged or old.
 * Approach: a UDP datagram between the two addresses of the answered packet, taken out of the traffic by the sender's host at
 * its interface, before any tenant. It carries the fields of the answered packet by which the sender's own rules
 * find the service, since services may be told apart otherwise there. A SipHash tag over it and both addresses
 * is checked in the kernel; (epoch, sequence) must be newer than the last that was believed.
 *
 *   bytes  field, big-endian
 *   4      `WEIR`
 *   1, 1   format version 2, kind 5; 6: a sender's word, see below; the other kinds are the brokers' (crates/wire/src/datagram.rs)
 *   2      which key
 *   2      0 to its maker, anything to its reader: see below
 *   1      which of ports and network there are (WEIR_HAS_*), and whether the receiver has the sender's word (WEIR_FEEDBACK_ECN_ACK)
 *   1      protocol     of the answered packet, as all up to its network
 *   2, 2   source port, destination port
 *   4      service: the first four bytes of SHA-256 over its path, for people and counters
 *   1, 3   DSCP, VXLAN network
 *   8      rate, bit/s: what a sender of weight 1 may send
 *   8      epoch: which start of the receiver's agent
 *   8      sequence: ns since the receiver's kernel started
 *   8      tag, over both addresses (16 bytes each; IPv4 is ::ffff:a.b.c.d) and all before it
 *
 * The sender's word. A sender that obeys also lets switches mark packets that do not speak ECN, by a code that the receiver undoes (ecn.h). A receiver that
 * took every packet for coded would change those of hosts that know no code. So who obeys says so, some times a second while it hears
 * feedback: the feedback comes back as kind 6, between the same addresses the other way, of the same packet. And since that word may be lost
 * it codes only while the receiver's feedback says that it has it.
 *
 * The two bytes that nobody reads. An answer is made of a copy of the packet. A copy whose checksum its first sender left
 * to the hardware is still marked so: between virtual machines. The hardware of the way back then writes a
 * checksum where that packet's TCP or UDP header had it: 16 or 6 bytes into it. The latter is the checksum of the answer's own UDP
 * header, the former is here.
 *
 * Replays: sequence grows with every answer of a host. Who answers on several CPUs may be overtaken by itself; the older
 * answer is then ignored, which loses nothing. The order is kept for each destination while there is room
 * (crates/linux), also when its limiter has gone.
 *
 * Worked example: 10.0.0.2 answers a TCP packet 10.0.0.1:40000 > 10.0.0.2:7000 with 5 Gb/s: 98 bytes of frame, UDP from 10.0.0.2 to
 * 10.0.0.1, port 30565.
 *
 * Source: Parley section 3.2.1 (custom IP packet); EyeQ's packet of 64 B, IP protocol 143, has the rate in Mb/s in 16 bits
 * of the identification, no tag, IPv4 alone.
 */
#ifndef WEIR_FEEDBACK_H
#define WEIR_FEEDBACK_H

#include "packet.h"
#include "siphash.h"

/* 0x7765: `we`; feedback and the brokers' datagrams. */
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

/* What became of a datagram to the control port. */
#define WEIR_FEEDBACK_GOOD 0
#define WEIR_FEEDBACK_FOREIGN 1 /* not of this protocol */
#define WEIR_FEEDBACK_VERSION 2 /* of another version */
#define WEIR_FEEDBACK_OTHER 3   /* of another kind: a broker's */
#define WEIR_FEEDBACK_ECN_CAPABILITY 4    /* a sender's word */

/* In `has`, beside WEIR_HAS_*: who answers has the sender's word. */
#define WEIR_FEEDBACK_ECN_ACK 0x80

/*
 * ns, each longer than what it must outlast, with the time on the way. A sender gives its word again after WEIR_ECN_REFRESH; the receiver says that it has
 * it for WEIR_ECN_ACK_TIME, so that three may be lost; the sender codes for WEIR_ECN_ENCAPSULATE_TIME after it was last told so; until WEIR_ECN_DECAPSULATE_TIME
 * after the word the receiver takes what comes for coded, and until WEIR_ECN_AVOID_TIME after feedback the sender sends nothing that
 * looks coded and is not.
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
	u16 source_port; /* of the answered packet */
	u16 destination_port;
	u8 protocol;
	u8 dscp;
	u8 has; /* WEIR_HAS_* */
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
 * The tag of a body between the addresses `source` (who answers) and `destination`. What the hardware may have written is
 * left out.
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
WEIR_INLINE void weir_feedback_write_as(u32 kind, u64 body[WEIR_FEEDBACK_WORDS], const struct weir_feedback *feedback, const u64 source[2],
					const u64 destination[2], const struct weir_sip_key *key)
{
	body[0] = weir_be64((u64)WEIR_MAGIC << 32 | (u64)WEIR_WIRE_VERSION << 24 | (u64)kind << 16 | feedback->key);
	body[1] = weir_be64((u64)feedback->has << 40 | (u64)feedback->protocol << 32 | (u64)feedback->source_port << 16 |
			    feedback->destination_port);
	body[2] = weir_be64((u64)feedback->service << 32 | (u64)feedback->dscp << 24 | (feedback->vni & 0xffffff));
	body[3] = weir_be64(feedback->rate);
	body[4] = weir_be64(feedback->epoch);
	body[5] = weir_be64(feedback->sequence);
	body[6] = weir_feedback_tag(body, source, destination, key);
}

/* Fills the body of feedback. */
WEIR_INLINE void weir_feedback_write(u64 body[WEIR_FEEDBACK_WORDS], const struct weir_feedback *feedback, const u64 source[2],
				     const u64 destination[2], const struct weir_sip_key *key)
{
	weir_feedback_write_as(WEIR_KIND_FEEDBACK, body, feedback, source, destination, key);
}

/* What the first word of a datagram to the control port says that it is. */
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

/* The content of a body that weir_control_kind calls feedback or a word; nothing is believed before the tag is. */
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

/* The packet that was answered, as its sender classifies what leaves; `answer` is the answer's own packet. */
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
}

/* 1: (epoch, sequence) is newer than what was believed last. */
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

/* The sum of `count` words as the internet checksum adds them; up to 16 of them do not overflow. */
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
 * The IPv4 and UDP headers before a body; `source` is who answers. Without a UDP checksum, which IPv4 allows: the tag is
 * more than one.
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

/* The IPv6 and UDP headers before `body`, which the UDP checksum covers. */
WEIR_INLINE void weir_feedback_ipv6(u8 headers[40 + WEIR_UDP_BYTES], const u64 source[2], const u64 destination[2], const u64 body[WEIR_FEEDBACK_WORDS])
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
	/* the pseudo header's length and protocol, then the UDP header's ports and length */
	sum += length + WEIR_PROTOCOL_UDP + WEIR_CONTROL_PORT * 2 + length;
	checksum = weir_checksum_fold(sum);
	if (!checksum)
		checksum = 0xffff;
	headers[46] = (u8)(checksum >> 8);
	headers[47] = (u8)checksum;
}

#endif
