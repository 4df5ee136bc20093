/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The rules of a classifier with their index: for a value of a packet's field, the list of rules to compare.
 *
 * Each rule is in the lists of one dimension: ports, VNIs, address prefixes, globs over control groups, globs
 * over interfaces of guests, or none (the linear list). A list contains the numbers of its rules in the order of
 * the policy. Its end is the number of a rule that matches all packets that have the list, as it specifies nothing
 * else, with WEIR_INDEX_LAST; or WEIR_INDEX_END. A reference to a list is its position; one to a list of nothing
 * but an end is the end itself, and 0 is a list without rules.
 *
 *   ports      `ports` has the list of each port of TCP, of UDP and of other protocols: a range is in the lists
 *              of all of its ports. Most rules for ports name TCP or UDP, and match all packets of the list.
 *   VNIs       A hash table.
 *   globs      `globs` has the list of each glob over control groups, `interfaces` that of each over interfaces.
 *   addresses  Binary search on prefix lengths, with one lookup in the hash table for each step. A step
 *              compares the address under the mask of its length. If the table contains the result, a longer
 *              prefix may match too: the entry has the next step. Otherwise the step has it. The last entry
 *              that was found has the list of all rules whose prefix contains the address. L different
 *              lengths of prefixes take at most log2(L) + 1 steps.
 *
 * The hash table has neither chains nor probes: a bucket of the key's hash has a displacement, which the
 * component that builds the table chooses such that no two keys get the same slot.
 *
 * The kernel and the simulator search the same structure by the same code. Its maker is
 * crates/packet/datapath/src/rule_index.rs.
 *
 * Worked example: the prefixes 10.0.0.0/8 (rule 0) and 10.1.0.7/32 (rule 1) take the steps /32, then /8. The
 * address 10.1.0.7 is found at /32, with the list 0, 1. The address 10.2.0.1 is not; /8 has the list 0.
 *
 * Source: Waldvogel, Varghese, Turner, Plattner, "Scalable High Speed IP Routing Lookups" (SIGCOMM 1997),
 * sections 3 and 4 (markers with precomputed results); Pagh, "Hash and Displace" (WADS 1999).
 */
#ifndef WEIR_RULE_INDEX_H
#define WEIR_RULE_INDEX_H

#include "rule.h"
#include "tunnel.h"

/* Rules of one interface: a few for each of a thousand guests. */
#define WEIR_RULES_MAX 4096
/*
 * Rules that a packet is compared with at most, both of its ends included. 256 comparisons take about
 * 0.5 us, the upper limit of the cost per packet.
 */
#define WEIR_COMPARISONS_MAX 256

/* Dimensions in use. */
#define WEIR_INDEX_PORTS 0x01
#define WEIR_INDEX_VNIS 0x02
#define WEIR_INDEX_ADDRESSES 0x04
#define WEIR_INDEX_GLOBS 0x08
#define WEIR_INDEX_INTERFACES 0x10
/* The bit of the end of a list, and the end that is no rule: the other bits are above every number. */
#define WEIR_INDEX_LAST 0x8000
#define WEIR_INDEX_END 0xffff
/*
 * The state of a search for an address: the next step, 0 for none, above this bit, and below it a reference to
 * the list of the longest prefix found.
 */
#define WEIR_INDEX_STEP_SHIFT 16
#define WEIR_INDEX_REFERENCE 0xffff
/* What the key of an entry is: the number of a step, from 1 on, or this. 0: the slot is empty. */
#define WEIR_INDEX_VNI_KEY 0x100

/* Tables of ports: of TCP, of UDP, of other protocols. */
#define WEIR_INDEX_TCP 0
#define WEIR_INDEX_UDP 1
#define WEIR_INDEX_OTHER 2
#define WEIR_INDEX_PROTOCOLS 3
#define WEIR_INDEX_PORT_COUNT 65536
/* Numbers in all lists, with their ends. */
#define WEIR_INDEX_LISTS WEIR_INDEX_LAST
/* Steps of searches: one for each length of a prefix, of IPv4 (32) and IPv6 (128), from 1 on. */
#define WEIR_INDEX_STEPS 256
/* Steps of one search: 128 lengths in a balanced tree. */
#define WEIR_INDEX_DEPTH 8
/* Slots of the hash table, and buckets that have a displacement. Both are powers of two. */
#define WEIR_INDEX_SLOTS_LOG2 14
#define WEIR_INDEX_SLOTS (1 << WEIR_INDEX_SLOTS_LOG2)
#define WEIR_INDEX_BUCKETS_LOG2 13
#define WEIR_INDEX_BUCKETS (1 << WEIR_INDEX_BUCKETS_LOG2)

/* A step of a search for an address. */
struct weir_index_step {
	u64 mask[2]; /* network byte order */
	u32 miss;    /* the next step, shifted, if the table does not contain the address under this mask; 0: none */
	u32 reserved;
};

/* An entry of the hash table. */
struct weir_index_slot {
	u64 key[2]; /* an address under the mask of a step, or a VNI and 0 */
	u32 kind;   /* of `key`: a step's number, WEIR_INDEX_VNI_KEY, or 0 */
	u32 found;  /* a reference to a list; for an address the state of its search, see WEIR_INDEX_STEP_SHIFT */
};

struct weir_rule_index {
	u64 seed;       /* of the hash */
	u32 count;      /* of rules */
	u32 dimensions; /* WEIR_INDEX_*: those that have rules */
	u32 search[2];  /* the initial state of a search for an address, of IPv4 and of IPv6 */
	u32 linear;     /* the list of rules in no dimension */
	u32 needs;      /* WEIR_HAS_*: headers that some rule needs */
	struct weir_tunnels tunnels;
	u16 globs[WEIR_CGROUP_GLOBS_MAX];
	u16 interfaces[WEIR_RULES_MAX]; /* by the number of a glob less 1; each is of a rule at least */
	struct weir_index_step steps[WEIR_INDEX_STEPS];
	u16 displacements[WEIR_INDEX_BUCKETS];
	struct weir_index_slot slots[WEIR_INDEX_SLOTS];
	u16 ports[WEIR_INDEX_PROTOCOLS][WEIR_INDEX_PORT_COUNT];
	u16 lists[WEIR_INDEX_LISTS];
	struct weir_rule rules[WEIR_RULES_MAX]; /* in the order of the policy */
};

/* Sets the VNI of a parsed packet if a rule specifies one: most policies have no such rule. */
WEIR_INLINE void weir_index_find_vni(const struct weir_rule_index *index, weir_frame *frame,
				     struct weir_packet *packet)
{
	if (index->needs & WEIR_HAS_VNI)
		weir_find_vni(frame, &index->tunnels, packet);
}

/*
 * Returns the hash of a key; another function requires another WEIR_STATE_REVISION. The high half of a product
 * depends on all bits below; the second product mixes it with the low half. The factors are from SplitMix64
 * (Steele, Lea, Flood 2014).
 */
WEIR_INLINE u64 weir_index_hash(u64 seed, u32 kind, u64 first, u64 second)
{
	u64 hash = (first ^ seed) * 0xbf58476d1ce4e5b9ULL + (second ^ kind) * 0x94d049bb133111ebULL;

	return (hash ^ hash >> 32) * 0x9e3779b97f4a7c15ULL;
}

/* Returns the bucket of a hash, whose displacement determines the slot. */
WEIR_INLINE u32 weir_index_bucket(u64 hash)
{
	return (u32)(hash >> (64 - WEIR_INDEX_BUCKETS_LOG2));
}

/* Returns the slot of a hash. */
WEIR_INLINE u32 weir_index_slot_of(u64 hash, u32 displacement)
{
	return ((u32)(hash >> 32) + displacement) & (WEIR_INDEX_SLOTS - 1);
}

/* Returns the entry of a key, or null. */
WEIR_INLINE const struct weir_index_slot *weir_index_find(const struct weir_rule_index *index, u32 kind, u64 first,
							  u64 second)
{
	u64 hash = weir_index_hash(index->seed, kind, first, second);
	u32 bucket = weir_index_bucket(hash), at;
	const struct weir_index_slot *slot;

	/* Otherwise the compiler drops the bounds, which the verifier does not derive from a shift. */
	WEIR_OPAQUE(bucket);
	at = weir_index_slot_of(hash, index->displacements[bucket & (WEIR_INDEX_BUCKETS - 1)]);
	WEIR_OPAQUE(at);
	slot = &index->slots[at & (WEIR_INDEX_SLOTS - 1)];
	return slot->kind == kind && slot->key[0] == first && slot->key[1] == second ? slot : 0;
}

/* Takes a step of the search for an address, given by its words; returns the state after it. */
WEIR_INLINE u32 weir_index_take_step(const struct weir_rule_index *index, u32 state, u64 first, u64 second)
{
	u32 step = state >> WEIR_INDEX_STEP_SHIFT;
	const struct weir_index_step *at = &index->steps[step & (WEIR_INDEX_STEPS - 1)];
	const struct weir_index_slot *slot = weir_index_find(index, step, first & at->mask[0], second & at->mask[1]);

	return slot ? slot->found : at->miss | (state & WEIR_INDEX_REFERENCE);
}

/* Returns the lists of the ports of a protocol. */
WEIR_INLINE const u16 *weir_index_ports(const struct weir_rule_index *index, u8 protocol)
{
	if (protocol == WEIR_PROTOCOL_TCP)
		return index->ports[WEIR_INDEX_TCP];
	return index->ports[protocol == WEIR_PROTOCOL_UDP ? WEIR_INDEX_UDP : WEIR_INDEX_OTHER];
}

/* Returns the reference to the list of a VNI. */
WEIR_INLINE u32 weir_index_vni(const struct weir_rule_index *index, u32 vni)
{
	const struct weir_index_slot *slot = weir_index_find(index, WEIR_INDEX_VNI_KEY, vni, 0);

	return slot ? slot->found : 0;
}

#endif
