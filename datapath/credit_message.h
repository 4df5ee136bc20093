/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Credit messages: the datagrams of PACE, which hosts exchange and forwarders read and rewrite.
 *
 * A flow is a service's data from one host to another. Requests, returns and terminations go with the data, from the
 * flow's source to its destination; allocations go against it. Each message is a UDP datagram between the two hosts'
 * addresses with WEIR_CREDIT_MESSAGE_PORT as its destination port. A forwarder rewrites an allocation in place.
 *
 *   bytes   field, big-endian
 *   4       `PACE`
 *   1, 1    version 1, kind: 1 request, 2 allocation, 3 return, 4 termination
 *   2       key number
 *   2, 2    balance, 0
 *   4       service: the first four bytes of SHA-256 over its path, as in feedback
 *   8, 8    epoch (higher after each start of the sending agent), sequence of all its messages
 *   4, 4    clock, p
 *   4, 4    longest p, d_p
 *   4, 4    d, a
 *   4, 4    weight in thousandths, sum of queueing in us
 *   8       tag over both addresses (16 bytes each; IPv4 is ::ffff:a.b.c.d) and all fields above but the balance
 *
 * A request has the weight, and the clock of the newest allocation that its sender has had, or 0. A termination has
 * none of these fields, a return neither d nor weight. Fields that a kind does not have are 0.
 *
 *   tag       SipHash under a key that hosts and forwarders have. A forwarder verifies an allocation and tags the one
 *             that it sends on.
 *   replay    (epoch, sequence) of an agent's messages ascends. Receivers of a message ignore and count one that is not
 *             newer than the last of its flow and direction.
 *   balance   The ones' complement sum of the 16-bit words of the body is 0 with it. A rewritten body has the sum of
 *             the old one, so the UDP checksum holds as it is, whether hardware completes it or not.
 *
 * Worked example: an allocation of 25,000 B leaves a port with 12,500 B. The forwarder replaces bytes 0x61a8 by 0x30d4
 * in d_p, d and a, and writes the balance and the tag. The UDP checksum does not change.
 *
 * Source: PACE (Carvalho et al. 2013) section III.B. Deviates from the paper in: 32-bit fields, datagrams instead of
 * a header in data packets, the tag and the sequence.
 */
#ifndef WEIR_CREDIT_MESSAGE_H
#define WEIR_CREDIT_MESSAGE_H

#include "credit.h"
#include "feedback.h"

/* UDP port of credit messages: next to those of feedback, statuses and the fabric broker. */
#define WEIR_CREDIT_MESSAGE_PORT 30568
#define WEIR_CREDIT_MAGIC 0x50414345U
#define WEIR_CREDIT_VERSION 1
#define WEIR_CREDIT_MESSAGE_WORDS 9
#define WEIR_CREDIT_MESSAGE_BYTES (WEIR_CREDIT_MESSAGE_WORDS * 8)
/* The largest weight, in thousandths: that of the policy. Ports divide it in millionths, below 2^32. */
#define WEIR_CREDIT_WEIGHT_MAX 1000000U

/* Kinds of a datagram to the port of credit messages. */
#define WEIR_CREDIT_FOREIGN 0       /* of another protocol */
#define WEIR_CREDIT_REQUEST 1       /* the flow has data */
#define WEIR_CREDIT_ALLOCATION 2    /* credits for a period */
#define WEIR_CREDIT_RETURN 3        /* the values of an allocation as the sender got it */
#define WEIR_CREDIT_TERMINATION 4   /* the flow is over */
#define WEIR_CREDIT_OTHER_VERSION 5 /* of another version */
#define WEIR_CREDIT_MALFORMED 6     /* of an unknown kind */

struct weir_credit_message {
	u64 epoch;
	u64 sequence;
	u32 service;
	u16 key;
	u8 kind; /* WEIR_CREDIT_REQUEST to WEIR_CREDIT_TERMINATION */
	u8 reserved;
	struct weir_allocation fields; /* 0 where the kind has none */
};

/* Returns the kind of a datagram to the port of credit messages from its first word. */
WEIR_INLINE u32 weir_credit_kind(u64 first)
{
	u32 kind;

	first = weir_be64(first);
	kind = (u32)(first >> 16 & 0xff);
	if (first >> 32 != WEIR_CREDIT_MAGIC)
		return WEIR_CREDIT_FOREIGN;
	if ((first >> 24 & 0xff) != WEIR_CREDIT_VERSION)
		return WEIR_CREDIT_OTHER_VERSION;
	return kind >= WEIR_CREDIT_REQUEST && kind <= WEIR_CREDIT_TERMINATION ? kind : WEIR_CREDIT_MALFORMED;
}

/* The bytes of the second word that are tagged: all but the balance. */
#define WEIR_CREDIT_TAGGED 0x0000ffffffffffffULL

/* Returns the tag of a body between the addresses `source` and `destination`. */
WEIR_INLINE u64 weir_credit_message_tag(const u64 body[WEIR_CREDIT_MESSAGE_WORDS], const u64 source[2],
					const u64 destination[2], const struct weir_sip_key *key)
{
	u64 words[12];

	words[0] = source[0];
	words[1] = source[1];
	words[2] = destination[0];
	words[3] = destination[1];
	words[4] = body[0];
	words[5] = body[1] & weir_be64(WEIR_CREDIT_TAGGED);
	words[6] = body[2];
	words[7] = body[3];
	words[8] = body[4];
	words[9] = body[5];
	words[10] = body[6];
	words[11] = body[7];
	return weir_be64(weir_siphash(key, words, 12));
}

/* Adds with end-around carry: a ones' complement sum, which holds for the four 16-bit words of each word as well. */
WEIR_INLINE u64 weir_credit_message_add(u64 sum, u64 word)
{
	sum += word;
	return sum + (sum < word);
}

/* Writes the balance of a body. The sum is formed in the order of memory: it does not depend on the order of bytes. */
WEIR_INLINE void weir_credit_message_balance(u64 body[WEIR_CREDIT_MESSAGE_WORDS])
{
	u64 sum = 0;

	body[1] &= weir_be64(WEIR_CREDIT_TAGGED);
	sum = weir_credit_message_add(body[0], body[1]);
	sum = weir_credit_message_add(sum, body[2]);
	sum = weir_credit_message_add(sum, body[3]);
	sum = weir_credit_message_add(sum, body[4]);
	sum = weir_credit_message_add(sum, body[5]);
	sum = weir_credit_message_add(sum, body[6]);
	sum = weir_credit_message_add(sum, body[7]);
	sum = weir_credit_message_add(sum, body[8]);
	/* The complement of the sum, at the first two bytes of the second word. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	body[1] |= (u64)weir_checksum_fold(sum) << 48;
#else
	body[1] |= weir_checksum_fold(sum);
#endif
}

WEIR_INLINE u64 weir_credit_message_pair(u32 first, u32 second)
{
	return weir_be64((u64)first << 32 | second);
}

/* Writes the fields that ports change, the number of the key, the tag and the balance. */
WEIR_INLINE void weir_credit_message_rewrite(u64 body[WEIR_CREDIT_MESSAGE_WORDS], const struct weir_allocation *fields,
					     u16 key_number, const u64 source[2], const u64 destination[2],
					     const struct weir_sip_key *key)
{
	body[0] = (body[0] & weir_be64(0xffffffffffff0000ULL)) | weir_be64(key_number);
	body[4] = weir_credit_message_pair(fields->clock, fields->period);
	body[5] = weir_credit_message_pair(fields->longest, fields->potential);
	body[6] = weir_credit_message_pair(fields->demand, fields->allocation);
	body[7] = weir_credit_message_pair(fields->weight, fields->queueing);
	body[8] = weir_credit_message_tag(body, source, destination, key);
	weir_credit_message_balance(body);
}

/* Fills the body of a message from `source` to `destination`, the addresses of its datagram. */
WEIR_INLINE void weir_credit_message_write(u64 body[WEIR_CREDIT_MESSAGE_WORDS],
					   const struct weir_credit_message *message, const u64 source[2],
					   const u64 destination[2], const struct weir_sip_key *key)
{
	body[0] = weir_be64((u64)WEIR_CREDIT_MAGIC << 32 | (u64)WEIR_CREDIT_VERSION << 24 | (u64)message->kind << 16);
	body[1] = weir_be64(message->service);
	body[2] = weir_be64(message->epoch);
	body[3] = weir_be64(message->sequence);
	weir_credit_message_rewrite(body, &message->fields, message->key, source, destination, key);
}

/* Reads a body whose kind weir_credit_kind() returns. The content is not trusted before the tag is verified. */
WEIR_INLINE void weir_credit_message_read(const u64 body[WEIR_CREDIT_MESSAGE_WORDS],
					  struct weir_credit_message *message)
{
	u64 first = weir_be64(body[0]), word;

	message->kind = (u8)(first >> 16);
	message->key = (u16)first;
	message->reserved = 0;
	message->service = (u32)weir_be64(body[1]);
	message->epoch = weir_be64(body[2]);
	message->sequence = weir_be64(body[3]);
	word = weir_be64(body[4]);
	message->fields.clock = (u32)(word >> 32);
	message->fields.period = (u32)word;
	word = weir_be64(body[5]);
	message->fields.longest = (u32)(word >> 32);
	message->fields.potential = (u32)word;
	word = weir_be64(body[6]);
	message->fields.demand = (u32)(word >> 32);
	message->fields.allocation = (u32)word;
	word = weir_be64(body[7]);
	message->fields.weight = (u32)(word >> 32);
	message->fields.queueing = (u32)word;
}

/* Whether the fields of an authentic message are possible values of its kind. */
WEIR_INLINE int weir_credit_message_valid(const struct weir_credit_message *message)
{
	const struct weir_allocation *fields = &message->fields;
	u32 has_values = fields->clock && fields->period;
	u32 others = fields->period | fields->longest | fields->potential | fields->demand | fields->allocation |
		     fields->queueing;
	u32 weighs = fields->weight && fields->weight <= WEIR_CREDIT_WEIGHT_MAX;

	if (message->kind == WEIR_CREDIT_ALLOCATION)
		return has_values && weighs;
	if (message->kind == WEIR_CREDIT_RETURN)
		return has_values && !fields->demand && !fields->weight;
	if (message->kind == WEIR_CREDIT_REQUEST)
		return !others && weighs;
	return !others && !fields->clock && !fields->weight;
}

#endif
