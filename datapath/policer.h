/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Policer: the bound on what senders without Weir deliver to a service with a receive limit.
 *
 * R limits only senders that apply feedback. All others (strangers) share one virtual queue per
 * service: it fills with the bytes that pass and drains at the strangers' rate. Its length is
 * counted in ns that its bytes take at the limit C.
 *
 *   up to F       the packet passes
 *   F to F + F/4  one packet in 1/p is marked CE if its sender uses ECN, else dropped;
 *                 p = ((length - F) / (F / 4))^2, summed up until it yields a packet
 *   above         the packet is dropped
 *
 * F is 250 ms, or 10 full packets if the limit takes longer for them. A sender is recognised by its
 * ECN capability messages (feedback.h), which only a host that applies feedback sends. Its packets
 * pass and are counted. With the limit C and the followers' usage w, strangers may use
 *
 *   length below F/2   33/32 C - w        strangers that R limits are never policed
 *   else, w = 0        C
 *   else               15/16 C - w        y stays below C, and R rises
 *
 * and always C / 2. Neither side takes more than half of C from the other. The usage y counts what
 * leaves the virtual queue, not what enters it: TCP that loses packets comes in bursts.
 *
 * Worked example: C = 20 Mb/s, a UDP flood of 200 Mb/s. 0.31 s of C (781 kB) fill the virtual queue
 * in 35 ms; from then on one packet in ten passes. When a follower has w = 4 Mb/s, strangers have 14.75
 * Mb/s, y is 18.75 Mb/s, and R rises by 3 % an interval until both have 10 Mb/s.
 *
 * Bounds: a limit of 10 kb/s to 8 Tb/s or 0 (none), packets up to WEIR_POLICED_MAX bytes; the product
 * with 8 * 10^9 is below 2^61. Over any time strangers deliver at most their rate, 5/4 F of C, and a packet.
 * A policer without a limit has no state: with the next limit it starts anew.
 *
 * Source: the virtual queue of HULL (NSDI 2012) and of phantom-queue policers (BC-PQP, SIGCOMM
 * 2024); squared probability: RFC 9332; summed probability: RFC 8033 section 5.4. Constants:
 * docs/design/policer.md.
 */
#ifndef WEIR_POLICER_H
#define WEIR_POLICER_H

#include "usage_window.h"

#define WEIR_POLICE_PASS 0
#define WEIR_POLICE_MARK 1
#define WEIR_POLICE_DROP 2

/* ns: F. TCP's least retransmission timeout, 200 ms, in which credit must not be lost, and a quarter. */
#define WEIR_POLICER_FREE 250000000ULL
/* Least bytes of F: the initial window of TCP, 10 segments (RFC 6928). */
#define WEIR_POLICER_FREE_BYTES 15140ULL
/* The strangers' rate is in 2^-20 of C. */
#define WEIR_POLICER_SHIFT 20
/* Part of F in which p rises from 0 to 1. */
#define WEIR_POLICER_RAMP_PART 4
/*
 * Part of C above it that strangers may use while their virtual queue is short. Senders that R limits, but that are not
 * recognised as followers, are at C on average, and must not fill it.
 */
#define WEIR_POLICER_SLACK_PART 32
/* Part of C that stays unused beside followers: y is then 15/16 C, and R rises by 3 % per interval. */
#define WEIR_POLICER_YIELD_PART 16
/*
 * w is the mean of about 8 windows: a follower can send its burst in one window and nothing in the next ones
 * (WEIR_GRAIN_BURSTS), and the strangers' rate must not alternate between C and C / 2.
 */
#define WEIR_POLICER_SMOOTH_PART 8
/* Pauses up to 2^42 ns (73 minutes) drain the queue. A packet of 512 KiB takes 7 minutes at 10 kb/s. */
#define WEIR_POLICER_PAUSE_MAX (1ULL << 42)
/* w below C / 4096 counts as 0: less than the floor of R (C / 1000) that a single backlogged follower has. */
#define WEIR_POLICER_FEW_SHIFT 12
/* Largest packet that counts, bytes, and most segments of one (their sum of p is below 2^49). */
#define WEIR_POLICED_MAX (1U << 28)
#define WEIR_POLICED_SEGMENTS_MAX (1U << 16)

struct weir_policer {
	/* written by ticks */
	u64 limit;                    /* bit/s: C; 0: none */
	u64 drain;                    /* the strangers' rate in 2^-20 of C */
	u64 free;                     /* ns: F */
	u64 followed;                 /* bit/s: w, smoothed */
	u64 backlog;                  /* ns: length at the last tick */
	struct weir_window followers; /* bytes of followers */
	/* written by strangers' packets, under a lock if several CPUs receive them */
	u64 length;    /* ns at C: the virtual queue at `at` */
	u64 at;        /* ns */
	u64 congested; /* sum of p since the last mark or drop, in 2^-32 */
};

/* Counters of one CPU for one service with a receive limit. */
struct weir_policed {
	u64 bytes;   /* of strangers that passed, marked ones included */
	u64 packets; /* the same */
	u64 marked_packets;
	u64 dropped_bytes;
	u64 dropped_packets;
	u64 followed_bytes; /* of followers */
	u64 taken_bytes; /* only ticks write this and the next two fields */
	u64 taken_dropped;
	u64 taken_followed;
};

/* Clears a policer: it has no limit, and its virtual queue is empty. */
WEIR_INLINE void weir_policer_clear(struct weir_policer *policer)
{
	__builtin_memset(policer, 0, sizeof(*policer));
}

/* Returns the length of the virtual queue, in ns at C. `drain` is below 2^21, so the product is below 2^63. */
WEIR_INLINE u64 weir_policer_length(const struct weir_policer *policer, u64 now)
{
	u64 elapsed = now > policer->at ? now - policer->at : 0, drained;

	if (elapsed > WEIR_POLICER_PAUSE_MAX)
		elapsed = WEIR_POLICER_PAUSE_MAX;
	drained = (elapsed * policer->drain) >> WEIR_POLICER_SHIFT;
	return policer->length > drained ? policer->length - drained : 0;
}

/*
 * Returns the bytes that a length stands for at `limit`, under which it has come about. The product is 8,000 for a
 * byte: at most 5/4 F at 8 Tb/s (313 GB) and a packet, so it is below 2^52.
 */
WEIR_INLINE u64 weir_policer_bytes(u64 limit, u64 length)
{
	return limit / 1000 * (length / 1000) / 8000;
}

/* Returns WEIR_POLICE_* for a stranger's `bytes` in `segments` packets. `ect`: its sender uses ECN. */
WEIR_INLINE int weir_police(struct weir_policer *policer, u64 now, u32 bytes, u32 segments, int ect)
{
	u64 limit = policer->limit, ramp = policer->free / WEIR_POLICER_RAMP_PART;
	u64 length = weir_policer_length(policer, now), part;
	int verdict = WEIR_POLICE_PASS;

	if (!limit)
		return WEIR_POLICE_PASS;
	if (length >= policer->free + ramp)
		return WEIR_POLICE_DROP;
	if (length > policer->free) {
		part = ((length - policer->free) << 16) / ramp;
		policer->congested +=
			part * part * (segments < WEIR_POLICED_SEGMENTS_MAX ? segments : WEIR_POLICED_SEGMENTS_MAX);
		if (policer->congested >> 32) {
			/* A merged packet is one loss to its sender, however many segments it has. */
			policer->congested &= 0xffffffff;
			verdict = ect ? WEIR_POLICE_MARK : WEIR_POLICE_DROP;
		}
	}
	if (verdict == WEIR_POLICE_DROP)
		return verdict;
	policer->length = length + (bytes < WEIR_POLICED_MAX ? bytes : WEIR_POLICED_MAX) * 8000000000ULL / limit;
	if (now > policer->at)
		policer->at = now;
	return verdict;
}

/*
 * Sets C, F and the strangers' rate at `now`, when the virtual queue has `length`: the drain of earlier time is at the
 * earlier rate. `limit` is 10 kb/s to 8 Tb/s. At another limit than before, a length above 5/4 F of the new one counts
 * as that: below 484 kb/s F is longer than 250 ms, and the queue of a lower limit would be a pause of seconds.
 */
WEIR_INLINE void weir_policer_set(struct weir_policer *policer, u64 now, u64 length, u64 limit)
{
	u64 least = WEIR_POLICER_FREE_BYTES * 8000000000ULL / limit, most;
	u64 followed = policer->followed, rate = limit;

	policer->free = least > WEIR_POLICER_FREE ? least : WEIR_POLICER_FREE;
	most = policer->free + policer->free / WEIR_POLICER_RAMP_PART;
	if (limit != policer->limit && length > most)
		length = most;
	if (followed <= limit >> WEIR_POLICER_FEW_SHIFT)
		followed = 0;
	if (length < policer->free / 2)
		rate += limit / WEIR_POLICER_SLACK_PART;
	else if (followed)
		rate -= limit / WEIR_POLICER_YIELD_PART;
	rate = rate > followed ? rate - followed : 0;
	if (rate < limit / 2)
		rate = limit / 2;
	policer->length = length;
	/* A packet on another CPU can have counted at a later time than that of the tick. */
	if (now > policer->at)
		policer->at = now;
	policer->drain = (rate << WEIR_POLICER_SHIFT) / limit;
	policer->limit = limit;
}

/* Counts the `usage` of followers, in bit/s, of a window that is over. Rounded, so that w reaches 0 without usage. */
WEIR_INLINE void weir_policer_follow(struct weir_policer *policer, u64 usage)
{
	policer->followed -= (policer->followed + WEIR_POLICER_SMOOTH_PART - 1) / WEIR_POLICER_SMOOTH_PART;
	policer->followed += usage / WEIR_POLICER_SMOOTH_PART;
}

#endif
