/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Level regulator: the departure times that keep a latency level of a host within its burst and rate.
 *
 * A host may put at most burst + rate * t bytes of a level into the network in any time t; the bound on
 * the level's delay follows from it (docs/design/levels.md). One regulator serves all services of a
 * level. It delays packets and drops one only if more than `queue` bytes would wait. Two forms:
 *
 *   token bucket  A packet leaves when the bucket, which holds `burst` bytes and fills at `rate`, holds
 *                 all of it. The limiter (limiter.h) charges it: the debt before the packet must not
 *                 exceed the burst less the packet.
 *   window        At most `burst` bytes in a window of `epoch` ns, which begins with its first packet:
 *                 the authors' qdisc, except that it drops what does not fit.
 *
 * A frame counts with its framing on the wire. A buffer that is larger than the burst can never
 * conform: it leaves when all earlier debt is repaid, is charged in full, and is counted, unless it is
 * cut into frames behind the regulator. So are frames larger than `packet`, the P of the bounds.
 *
 * Worked example: 100 Mb/s, a burst of 3,000 B, frames of 1,500 B that are offered at 0 leave at 0, 0,
 * 120, 240 us. In windows of 240 us they leave at 0, 0, 240, 240 us.
 *
 * Bounds: those of limiter.h; an epoch is below 2^63 ns.
 *
 * Source: QJump's slides (one packet in a network epoch); the authors' kernel module, sch_qjump, for
 * the window, whose deadline is set by the first packet after the one before; Cruz 1991 (sigma, rho).
 */
#ifndef WEIR_LEVEL_H
#define WEIR_LEVEL_H

#include "limiter.h"

/* The departure of a packet that is dropped: more than `queue` bytes would wait. */
#define WEIR_LEVEL_DROP WEIR_U64_MAX

struct weir_level_rules {
	u64 rate;    /* bit/s; more than 0 for a token bucket */
	u64 epoch;   /* ns of a window; 0 for a token bucket */
	u32 burst;   /* bytes of the bucket, or of a window; at least `packet` */
	u32 packet;  /* bytes of the largest frame on the wire */
	u32 framing; /* bytes of each frame on the wire beside the frame */
	u32 queue;   /* most bytes that wait */
	u32 dscp;    /* of the level's packets */
	u32 cuts;    /* 1: buffers are cut into frames behind the regulator, and each waits by itself */
	u32 smallest; /* bytes to which shorter frames are padded */
	u32 reserved;
};

struct weir_level {
	struct weir_limiter limiter; /* of a token bucket; its burst is 0 */
	u64 window;       /* ns: begin of the latest window; it can lie in the future */
	u64 used;         /* bytes in that window */
	u64 sent;         /* bytes that left or wait, with framing */
	u64 packets;      /* frames of these */
	u64 oversize;     /* frames larger than `packet`, and buffers larger than the burst */
	u64 dropped;      /* packets that found a full queue */
	u64 longest_wait; /* ns */
	u64 last;         /* ns: the latest departure */
};

/*
 * Returns the departure of `charge` bytes from the token bucket, that of the last frame if they are cut into frames, or
 * WEIR_LEVEL_DROP.
 */
WEIR_INLINE u64 weir_level_bucket(struct weir_level *level, const struct weir_level_rules *rules, u64 now, u64 charge)
{
	struct weir_limiter *limiter = &level->limiter;
	u64 burst = rules->burst * WEIR_NANOBITS_PER_BYTE;
	u64 needed = (charge < rules->burst || rules->cuts ? charge : rules->burst) * WEIR_NANOBITS_PER_BYTE;
	u64 departure = now, ahead;

	if (limiter->rate != rules->rate) {
		weir_limiter_set_rate(limiter, now, rules->rate);
		level->last = 0;
	}
	weir_limiter_settle(limiter, now);
	if (limiter->rate && limiter->owed + needed > burst) {
		ahead = limiter->owed + needed - burst;
		if (ahead > rules->queue * WEIR_NANOBITS_PER_BYTE)
			return WEIR_LEVEL_DROP;
		/* paid_at is at least now */
		departure = limiter->paid_at + (ahead - 1) / limiter->rate + 1;
	}
	weir_limiter_charge(limiter, (u32)charge);
	return departure;
}

/* Returns the departure of `charge` bytes in a window, or WEIR_LEVEL_DROP. */
WEIR_INLINE u64 weir_level_window(struct weir_level *level, const struct weir_level_rules *rules, u64 now, u64 charge)
{
	u64 quota = rules->burst ? rules->burst : 1;
	/* A buffer larger than the quota takes as many epochs as quotas. */
	u64 epochs = level->used > quota ? (level->used - 1) / quota + 1 : 1;
	u64 end = level->window + epochs * rules->epoch, waiting;

	if (!level->used || now >= end) {
		level->window = now;
		level->used = charge;
		return now;
	}
	if (level->used + charge <= quota) {
		level->used += charge;
		return level->window > now ? level->window : now;
	}
	waiting = (end - now) / rules->epoch * quota;
	if (waiting > rules->queue)
		return WEIR_LEVEL_DROP;
	level->window = end;
	level->used = charge;
	return end;
}

/*
 * Returns the departure, at `now` or later, of a buffer of `bytes` in `frames` frames that is offered at
 * `now`, and charges it; WEIR_LEVEL_DROP for one that is dropped. A departure is not before that of an
 * earlier buffer at the same rate. `frames` is at least 1.
 */
WEIR_INLINE u64 weir_level_departure(struct weir_level *level, const struct weir_level_rules *rules, u64 now, u32 bytes,
				     u32 frames)
{
	u64 padded = (u64)rules->smallest * frames, departure;
	u64 charge = (bytes > padded ? bytes : padded) + (u64)rules->framing * frames;

	if (charge > WEIR_CHARGE_MAX)
		charge = WEIR_CHARGE_MAX;
	if (rules->epoch)
		departure = weir_level_window(level, rules, now, charge);
	else
		departure = weir_level_bucket(level, rules, now, charge);
	if (departure == WEIR_LEVEL_DROP) {
		level->dropped += 1;
		return departure;
	}
	/* Two CPUs can have read the clock in the other order. */
	if (departure < level->last)
		departure = level->last;
	level->last = departure;
	level->sent += charge;
	level->packets += frames;
	if ((charge > rules->burst && !rules->cuts) || charge > (u64)rules->packet * frames)
		level->oversize += 1;
	if (departure - now > level->longest_wait)
		level->longest_wait = departure - now;
	return departure;
}

/* Returns the bytes that wait at `now`, rounded down. */
WEIR_INLINE u64 weir_level_backlog(const struct weir_level *level, const struct weir_level_rules *rules, u64 now)
{
	u64 wait = level->last > now ? level->last - now : 0;

	if (!wait)
		return 0;
	if (rules->epoch)
		return wait / rules->epoch * rules->burst + (level->window > now ? level->used : 0);
	/* at most WEIR_OWED_MAX */
	return wait < level->limiter.drain_ns ? wait * level->limiter.rate / WEIR_NANOBITS_PER_BYTE
					      : WEIR_OWED_MAX / WEIR_NANOBITS_PER_BYTE;
}

/* Returns the bytes that have left at `now`, with framing. */
WEIR_INLINE u64 weir_level_departed(const struct weir_level *level, const struct weir_level_rules *rules, u64 now)
{
	u64 backlog = weir_level_backlog(level, rules, now);

	return level->sent > backlog ? level->sent - backlog : 0;
}

#endif
