/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Credit gate: the departures of a PACE sender whose packets keep their sizes, as on Linux.
 *
 * An allocation of `a` bytes lets the sender send them in the period p that follows, evenly: after b bytes the next
 * frame leaves at b * p / a after the allocation arrived. A frame leaves only within its credits, and at most p after
 * the allocation: later data would arrive at ports whose grants have expired. A remainder below one frame is carried
 * over to an allocation above 0 that arrives within 2 * p; without it six flows that share a link by whole frames use
 * 72 % of it. All other credits end with the next allocation, so at most one period's and a frame less one byte are
 * held. Frames up to WEIR_CREDIT_EXEMPT bytes need no credits.
 *
 * The values of an allocation are returned once. The returned potential is at most what the sender will have to send in
 * the next period: the bytes that wait and are offered in this one beyond the allocation, but for a frame, and what is
 * offered in the next one; and at least one frame. Otherwise a flow that its application limits would leave its share
 * unused. Requests and their timeouts are user space's (crates/decide/credits/src/sender.rs).
 *
 * Order of calls: init once; allocate for each allocation that arrives; offer for each frame that joins those that
 * wait; departure for each frame when it is the first of them; take_return after an allocation.
 *
 * Worked example: 5,000 B in 200 us and frames of 1,514 B: three leave after 0, 60.56 and 121.12 us, and the fourth
 * waits. The next allocation of 5,000 B has 458 B more: 5,458 B, frames leave after 0, 55.48 and 110.96 us.
 *
 * Bounds: a departure is at most 1 us early for allocations up to 1 GiB, since the pace is rounded down to 2^-20 ns
 * per byte, and late only behind an earlier frame: departures keep the order of calls, also if a clock is behind that
 * of another CPU, or if an allocation arrives before the last frames of the one before have left. Frames that need no
 * credits leave at once.
 *
 * Source: PACE (Carvalho et al. 2013) section III.D, and the corrections of docs/design/credits.md.
 */
#ifndef WEIR_CREDIT_GATE_H
#define WEIR_CREDIT_GATE_H

#include "credit.h"

/* The departure of a frame without credits: it waits for the next allocation. */
#define WEIR_CREDIT_WAIT WEIR_U64_MAX
/* Fractions of a ns in the pace: the longest period, 2^42 ns, fits 62 bits with them. */
#define WEIR_CREDIT_PACE_SHIFT 20
/* The weight of a period in the expected bytes is one of these (crates/decide/credits/src/sender.rs). */
#define WEIR_CREDIT_AVERAGED 4

struct weir_credit_gate {
	u64 began;    /* ns: when the newest allocation arrived, or the flow began */
	u64 pace;     /* ns per byte in 2^-20 */
	u64 last;     /* ns: the latest departure */
	u32 clock;    /* of the newest allocation; 0: none */
	u32 frame;    /* bytes of the largest frame */
	u32 period;   /* us: p */
	u32 allotted; /* bytes: the allocation and what was carried over */
	u32 spent;    /* bytes of these */
	u32 offered;  /* bytes since the allocation, at most 2^32 - 1 */
	u32 expected; /* bytes that are offered in a period */
	u32 owes;     /* 1: `returned` is not returned yet */
	struct weir_returned returned;
};

/* A flow begins at `now`, with frames of at most `frame` bytes, which are not 0. */
WEIR_INLINE void weir_credit_gate_init(struct weir_credit_gate *gate, u32 frame, u64 now)
{
	*gate = (struct weir_credit_gate){ .began = now, .frame = frame };
}

/* Returns the credits that are left of the newest allocation. */
WEIR_INLINE u32 weir_credit_gate_left(const struct weir_credit_gate *gate)
{
	return gate->allotted - gate->spent;
}

/* Adds a frame to those that wait. */
WEIR_INLINE void weir_credit_gate_offer(struct weir_credit_gate *gate, u32 bytes)
{
	gate->offered = bytes < WEIR_U32_MAX - gate->offered ? gate->offered + bytes : WEIR_U32_MAX;
}

/*
 * Expects as much in a period of `period` us as was offered since the last allocation, averaged over some periods: a
 * period has one frame of a slow flow more than the next one.
 */
WEIR_INLINE void weir_credit_gate_expect(struct weir_credit_gate *gate, u32 period, u64 now)
{
	u64 elapsed = now > gate->began ? (now - gate->began) / 1000 : 0, expected;

	expected = (u64)gate->offered * period / (elapsed ? elapsed : 1);
	if (expected > WEIR_U32_MAX)
		expected = WEIR_U32_MAX;
	if (gate->clock)
		expected = ((u64)gate->expected * (WEIR_CREDIT_AVERAGED - 1) + expected) / WEIR_CREDIT_AVERAGED;
	gate->expected = (u32)expected;
	gate->offered = 0;
}

/*
 * An allocation arrives while `backlog` bytes wait. Returns 1 if it counts, and 0 for one that is not later than the
 * newest, which changes nothing.
 */
WEIR_INLINE int weir_credit_gate_allocate(struct weir_credit_gate *gate, const struct weir_allocation *allocation,
					  u32 backlog, u64 now)
{
	u32 carried = weir_credit_gate_left(gate);
	u64 useful, allotted, sent;

	if (!allocation->clock || (gate->clock && !weir_credit_is_later(allocation->clock, gate->clock)))
		return 0;
	weir_credit_gate_expect(gate, allocation->period, now);
	if (carried > gate->frame - 1)
		carried = gate->frame - 1;
	/* A port that grants nothing may have lost its state, and with it the grant of the remainder. */
	if (now > gate->began + 2 * (u64)gate->period * 1000 || !allocation->allocation)
		carried = 0;
	allotted = (u64)allocation->allocation + carried;
	gate->clock = allocation->clock;
	gate->period = allocation->period;
	gate->allotted = allotted < WEIR_U32_MAX ? (u32)allotted : WEIR_U32_MAX;
	gate->spent = 0;
	gate->began = now;
	gate->pace = gate->allotted ? ((u64)gate->period * 1000 << WEIR_CREDIT_PACE_SHIFT) / gate->allotted : 0;
	useful = (u64)backlog + gate->expected;
	/* Of what is added a frame may be left over. A backlog to which nothing is added counts in full. */
	sent = (u64)gate->allotted + (gate->frame < gate->expected ? gate->frame : gate->expected);
	useful = (useful > sent ? useful - sent : 0) + gate->expected;
	if (useful < gate->frame)
		useful = gate->frame;
	gate->returned.clock = allocation->clock;
	gate->returned.period = allocation->period;
	gate->returned.longest = allocation->longest;
	gate->returned.potential = allocation->potential < useful ? allocation->potential : (u32)useful;
	gate->returned.allocation = allocation->allocation;
	gate->returned.queueing = allocation->queueing;
	gate->owes = 1;
	return 1;
}

/*
 * Returns the departure of a frame, at `now` or later, and spends its credits; WEIR_CREDIT_WAIT if there are too few,
 * or if the period is over.
 */
WEIR_INLINE u64 weir_credit_gate_departure(struct weir_credit_gate *gate, u32 bytes, u64 now)
{
	u64 departure;

	if (bytes <= WEIR_CREDIT_EXEMPT)
		return now;
	/* `spent` is at most `allotted`, so the product is at most the period. */
	departure = gate->began + (gate->spent * gate->pace >> WEIR_CREDIT_PACE_SHIFT);
	if (departure < now)
		departure = now;
	if (departure < gate->last)
		departure = gate->last;
	if (bytes > weir_credit_gate_left(gate) || departure > gate->began + (u64)gate->period * 1000)
		return WEIR_CREDIT_WAIT;
	gate->spent += bytes;
	gate->last = departure;
	return departure;
}

/* Writes the values of the newest allocation to return. Returns 1, or 0 if they have been returned. */
WEIR_INLINE int weir_credit_gate_take_return(struct weir_credit_gate *gate, struct weir_returned *returned)
{
	if (!gate->owes)
		return 0;
	gate->owes = 0;
	*returned = gate->returned;
	return 1;
}

#endif
