/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Credit port: the online part of a PACE forwarder, which reduces allocations and counts data against grants.
 *
 * An allocation authorises a sender to send `allocation` bytes in the period that follows. It travels against the
 * data and passes each port of the data's path, which reduces it to
 *
 *   demand      min(d, C(p) * w * a_w)              the flow's max-min share
 *   potential   min(d_p, C(p) * (w * a_w + r))      what it could use in the next period
 *   allocation  max(0, min(a, demand, 2 * C_0 - A - Q))
 *
 * with C(p) = p * R bytes in the period of the message, C_0 = R * the longest period of the port and its flows, A the
 * bytes granted and not yet arrived, Q the bytes queued. User space computes a_w, r and the periods
 * (crates/decide/credits). Shares round up.
 *
 *   grants    A grant counts in A until its data arrives, a later port's reduction is returned, or its lifetime
 *             2 * max(p of the message, p of the port) + the queueing bound of the ports between the sender and
 *             this one has passed. Data without a live grant is late.
 *   queueing  Data waits in a port for at most 2 * C_0 / R. `queueing` sums that up on the way to the sender, which
 *             returns the sum; the next allocation has it in `ahead`, and each port takes its own part out.
 *   expiry    A wheel of slots of 2^slot_bits ns has the bytes that expire in each slot. A grant expires at the end
 *             of a slot, so its lifetime is rounded up. Each event first takes the slots that have passed from A.
 *   repeats   A duplicate of an allocation is rewritten with the recorded grant; one that is older than the newest
 *             and has no record grants nothing.
 *   restart   A port that has lost its state cannot know A. It grants nothing until `closed_until`, by when all
 *             earlier grants have expired; data that arrives before is not late.
 *
 * Worked example: 1 Gb/s, p = 200 us, two flows of weight 1 with a_w a half: C(p) is 25,000 B and 2 * C_0 is
 * 50,000 B. An allocation of 25,000 B leaves with 12,500 B, A = 12,500. 1,500 B of data arrive: A = 11,000. A return
 * of 10,000 B releases 2,500 B: A = 8,500.
 *
 * Bounds: bytes below 2^32; rates up to 2^44 bit/s; periods below 2^32 us; weights (thousandths) up to 2^30. A never
 * exceeds 2 * C_0 less Q at a grant, and never falls below 0. A lifetime longer than the wheel grants nothing.
 *
 * Source: PACE (Carvalho et al. 2013) section III.E, equations 5 to 7, corrected as docs/design/credits.md derives.
 */
#ifndef WEIR_CREDIT_H
#define WEIR_CREDIT_H

#include "types.h"

/*
 * Grants of a flow that a port remembers, a power of two. A flow gets one in a period, and a grant lives two periods
 * and two more for each port that the data may wait in: six ports of a fat-tree need 14.
 */
#define WEIR_CREDIT_GRANTS 16
/* Slots of the wheel, a power of two. */
#define WEIR_CREDIT_SLOTS 1024
/* A slot that is over: no grant is live. */
#define WEIR_CREDIT_OVER 0
/* No return has arrived that has the queueing bound of the path. */
#define WEIR_CREDIT_UNKNOWN WEIR_U32_MAX
/* Periods of queueing that are assumed then: two in each of six ports. */
#define WEIR_CREDIT_UNKNOWN_PERIODS 12
/*
 * Bytes: frames up to this size need no credits. They are acknowledgements and control messages, and have a budget of
 * their own.
 */
#define WEIR_CREDIT_EXEMPT 128
/* Shift from 2^-48, the unit of `per_weight`, to 2^-32, the unit of shares. */
#define WEIR_CREDIT_WEIGHT_SHIFT 16
#define WEIR_CREDIT_WHOLE (1ULL << 48)
/* Bits of a period (us) times a rate (bit/s) in a byte. */
#define WEIR_CREDIT_BITS 8000000ULL

/* The fields of an allocation, in host order. */
struct weir_allocation {
	u32 clock;      /* number of the allocation, from 1 on */
	u32 period;     /* us: p */
	u32 longest;    /* us: the longest period that a port of the path selects by itself */
	u32 potential;  /* bytes: d_p */
	u32 demand;     /* bytes: d */
	u32 allocation; /* bytes: a */
	u32 weight;     /* thousandths */
	u32 queueing;   /* us: how long data may wait in the ports that the allocation has passed */
	u32 ahead;      /* us: the same of the ports that it has not passed; WEIR_CREDIT_UNKNOWN: not returned yet */
};

/* The values of an allocation that the sender returns to the ports. */
struct weir_returned {
	u32 clock;
	u32 allocation; /* bytes: a as the sender got it */
};

struct weir_grant {
	u64 slot;    /* number of the slot at whose end it expires; WEIR_CREDIT_OVER: none */
	u32 clock;
	u32 granted; /* bytes */
	u32 left;    /* bytes that have not arrived */
	u32 reserved;
};

/* The state of a flow at a port. */
struct weir_credit_flow {
	u32 newest;  /* clock of the newest allocation; 0: none */
	u32 current; /* clock of the newest return: the grant that data uses first */
	struct weir_grant grants[WEIR_CREDIT_GRANTS]; /* by clock */
};

struct weir_credit_counters {
	u64 granted;       /* bytes granted */
	u64 arrived;       /* bytes of data that a grant covered */
	u64 expired;       /* bytes of grants that expired */
	u64 released;      /* bytes that later ports or the sender cut from grants */
	u64 late;          /* bytes of data without a live grant */
	u64 late_packets;  /* packets of these */
	u64 unaccounted;   /* bytes of data without a grant while the port was closed after its start */
	u64 allocations;   /* allocations that the port reduced or passed */
	u64 duplicates;    /* allocations that came again */
	u64 stale;         /* allocations older than the newest without a record, and those of a full record */
	u64 astray;        /* allocations that arrived at another port than their data leaves by */
	u64 too_long;      /* allocations whose lifetime is longer than the wheel */
};

/* One port in the direction of the data. */
struct weir_credit_port {
	/* settings */
	u64 rate;      /* bit/s: R */
	u32 slot_bits; /* a slot of the wheel lasts 2^slot_bits ns */
	u32 lossless;  /* 1: late data is dropped */
	/* published by user space */
	u64 per_weight; /* a_w in 2^-48 of the port for a thousandth of weight */
	u32 rest;       /* r in 2^-32 of the port */
	u32 period;     /* us: the port's own p */
	u32 longest;    /* us: the longest p of the port and its flows */
	u32 reserved;
	/* state */
	u64 closed_until; /* ns; 0 for a port without a past */
	u64 outstanding;  /* bytes: A */
	u64 slot;         /* number of the present slot; all earlier ones are over */
	struct weir_credit_counters counters;
	u32 expiring[WEIR_CREDIT_SLOTS]; /* bytes of grants that expire at the end of each slot */
};

/* Takes the slots that have passed from A. */
WEIR_INLINE void weir_credit_advance(struct weir_credit_port *port, u64 now)
{
	u64 slot = now >> port->slot_bits, passed, at;
	u32 i;

	if (slot <= port->slot)
		return;
	passed = slot - port->slot;
	if (passed > WEIR_CREDIT_SLOTS)
		passed = WEIR_CREDIT_SLOTS;
	for (i = 0; i < WEIR_CREDIT_SLOTS; i++) {
		if (i >= passed)
			break;
		at = (port->slot + i) & (WEIR_CREDIT_SLOTS - 1);
		port->outstanding -= port->expiring[at];
		port->counters.expired += port->expiring[at];
		port->expiring[at] = 0;
	}
	port->slot = slot;
}

/* Whether a grant still counts in A. The port is advanced. */
WEIR_INLINE int weir_credit_is_live(const struct weir_credit_port *port, const struct weir_grant *grant)
{
	return grant->left && grant->slot >= port->slot;
}

/* Takes up to `bytes` from a live grant and from A; returns how many. */
WEIR_INLINE u32 weir_credit_take(struct weir_credit_port *port, struct weir_grant *grant, u32 bytes)
{
	u32 taken = grant->left < bytes ? grant->left : bytes;

	grant->left -= taken;
	port->expiring[grant->slot & (WEIR_CREDIT_SLOTS - 1)] -= taken;
	port->outstanding -= taken;
	return taken;
}

/* Bytes of `period` us at the rate of the port; at most 2^32 - 1. */
WEIR_INLINE u64 weir_credit_capacity(const struct weir_credit_port *port, u32 period)
{
	u64 bytes;

	/* The product fits: 2^44 bit/s are 2^20 us in 64 bits. Longer periods are divided first. */
	if (period >= 1U << 20)
		bytes = port->rate / WEIR_CREDIT_BITS * period;
	else
		bytes = port->rate * period / WEIR_CREDIT_BITS;
	return bytes < WEIR_U32_MAX ? bytes : WEIR_U32_MAX;
}

/* us: the longest p of the port and its flows. */
WEIR_INLINE u32 weir_credit_longest(const struct weir_credit_port *port)
{
	return port->longest > port->period ? port->longest : port->period;
}

/* The part `share` (2^-32) of `capacity` bytes, rounded up. Both are below 2^32. */
WEIR_INLINE u32 weir_credit_part(u64 capacity, u64 share)
{
	return (u32)((capacity * share + WEIR_U32_MAX) >> 32);
}

/* The share of a weight, w * a_w, in 2^-32; at most 2^32 - 1. */
WEIR_INLINE u64 weir_credit_share(const struct weir_credit_port *port, u32 weight)
{
	u64 share;

	if (weight && port->per_weight >= WEIR_CREDIT_WHOLE / weight)
		return WEIR_U32_MAX;
	share = (port->per_weight * weight + (1U << WEIR_CREDIT_WEIGHT_SHIFT) - 1) >> WEIR_CREDIT_WEIGHT_SHIFT;
	return share < WEIR_U32_MAX ? share : WEIR_U32_MAX;
}

/* Reduces d_p and d to the shares of the port, in the period that the message has. */
WEIR_INLINE void weir_credit_reduce(const struct weir_credit_port *port, struct weir_allocation *allocation)
{
	u64 capacity = weir_credit_capacity(port, allocation->period);
	u64 share = weir_credit_share(port, allocation->weight), most = share + port->rest;
	u32 part = weir_credit_part(capacity, share);

	if (allocation->demand > part)
		allocation->demand = part;
	part = weir_credit_part(capacity, most < WEIR_U32_MAX ? most : WEIR_U32_MAX);
	if (allocation->potential > part)
		allocation->potential = part;
}

/* Returns what the port can still grant with `queued` bytes: 2 * C_0 - A - Q, at least 0. The port is advanced. */
WEIR_INLINE u32 weir_credit_free(const struct weir_credit_port *port, u64 now, u64 queued)
{
	u64 budget = 2 * weir_credit_capacity(port, weir_credit_longest(port)), used = port->outstanding + queued, left;

	if (now < port->closed_until || used >= budget)
		return 0;
	left = budget - used;
	return left < WEIR_U32_MAX ? (u32)left : WEIR_U32_MAX;
}

/* Writes a longer period into a message. d_p and d, which are bytes per period, are converted; a is granted and is not. */
WEIR_INLINE void weir_credit_lengthen(const struct weir_credit_port *port, struct weir_allocation *allocation)
{
	u64 potential, demand;

	if (allocation->longest < port->period)
		allocation->longest = port->period;
	if (allocation->period >= port->period)
		return;
	if (allocation->period) {
		potential = (u64)allocation->potential * port->period / allocation->period;
		demand = (u64)allocation->demand * port->period / allocation->period;
		allocation->potential = potential < WEIR_U32_MAX ? (u32)potential : WEIR_U32_MAX;
		allocation->demand = demand < WEIR_U32_MAX ? (u32)demand : WEIR_U32_MAX;
	}
	allocation->period = port->period;
}

/* Returns how long data may wait between the sender and the port, in us, and moves the bounds of a message on. */
WEIR_INLINE u64 weir_credit_wait(const struct weir_credit_port *port, struct weir_allocation *allocation)
{
	u32 longest = weir_credit_longest(port), own = 2 * longest, ahead = allocation->ahead;

	allocation->queueing += own;
	if (ahead == WEIR_CREDIT_UNKNOWN)
		return WEIR_CREDIT_UNKNOWN_PERIODS * (u64)(allocation->period > longest ? allocation->period : longest);
	allocation->ahead = ahead > own ? ahead - own : 0;
	return allocation->ahead;
}

/*
 * The number of the slot at whose end a grant expires whose data may wait for `wait` us on its way to the port.
 * WEIR_CREDIT_OVER if the wheel is too short.
 */
WEIR_INLINE u64 weir_credit_expiry(const struct weir_credit_port *port, u32 message_period, u64 wait, u64 now)
{
	u64 period = message_period > port->period ? message_period : port->period;
	u64 slot = (now + (2 * period + wait) * 1000) >> port->slot_bits;

	return slot - port->slot < WEIR_CREDIT_SLOTS ? slot : WEIR_CREDIT_OVER;
}

/* Grants a new allocation: records it and counts it in A. The port is advanced. */
WEIR_INLINE void weir_credit_grant(struct weir_credit_port *port, struct weir_credit_flow *flow,
				   struct weir_allocation *allocation, u64 wait, u64 now, u64 queued)
{
	struct weir_grant *grant = &flow->grants[allocation->clock & (WEIR_CREDIT_GRANTS - 1)];
	u32 granted = weir_credit_free(port, now, queued);
	u64 slot = weir_credit_expiry(port, allocation->period, wait, now);

	if (granted > allocation->demand)
		granted = allocation->demand;
	if (granted > allocation->allocation)
		granted = allocation->allocation;
	/* The record of a live grant is kept: its bytes are in A. */
	if (weir_credit_is_live(port, grant)) {
		port->counters.stale += 1;
		allocation->allocation = 0;
		return;
	}
	if (slot == WEIR_CREDIT_OVER) {
		port->counters.too_long += 1;
		granted = 0;
	}
	grant->slot = slot;
	grant->clock = allocation->clock;
	grant->granted = granted;
	grant->left = granted;
	port->expiring[slot & (WEIR_CREDIT_SLOTS - 1)] += granted;
	port->outstanding += granted;
	port->counters.granted += granted;
	allocation->allocation = granted;
}

/*
 * An allocation of `flow` arrives over the link of the port at `now`; `queued` bytes of data wait in the port. `direct`
 * is 0 if the flow's data leaves by another port: the allocation goes on without credits.
 */
WEIR_INLINE void weir_credit_allocate(struct weir_credit_port *port, struct weir_credit_flow *flow,
				      struct weir_allocation *allocation, u64 now, u64 queued, u32 direct)
{
	struct weir_grant *grant = &flow->grants[allocation->clock & (WEIR_CREDIT_GRANTS - 1)];
	u32 later = allocation->clock - flow->newest;
	u64 wait;

	weir_credit_advance(port, now);
	port->counters.allocations += 1;
	if (!direct) {
		port->counters.astray += 1;
		allocation->allocation = 0;
		return;
	}
	wait = weir_credit_wait(port, allocation);
	weir_credit_reduce(port, allocation);
	if (flow->newest && grant->clock == allocation->clock) {
		port->counters.duplicates += 1;
		if (allocation->allocation > grant->granted)
			allocation->allocation = grant->granted;
	} else if (flow->newest && (!later || later > WEIR_U32_MAX / 2)) {
		port->counters.stale += 1;
		allocation->allocation = 0;
	} else {
		flow->newest = allocation->clock;
		weir_credit_grant(port, flow, allocation, wait, now, queued);
	}
	weir_credit_lengthen(port, allocation);
}

/* The sender returns the values of an allocation with its first data, or alone: cuts of later ports are released. */
WEIR_INLINE void weir_credit_return(struct weir_credit_port *port, struct weir_credit_flow *flow,
				    const struct weir_returned *returned, u64 now)
{
	struct weir_grant *grant = &flow->grants[returned->clock & (WEIR_CREDIT_GRANTS - 1)];
	u32 later = returned->clock - flow->current;

	weir_credit_advance(port, now);
	if (grant->clock != returned->clock)
		return;
	if (!flow->current || (later && later <= WEIR_U32_MAX / 2))
		flow->current = returned->clock;
	if (returned->allocation >= grant->granted)
		return;
	if (weir_credit_is_live(port, grant))
		port->counters.released += weir_credit_take(port, grant, grant->granted - returned->allocation);
	grant->granted = returned->allocation;
}

/*
 * `bytes` of data arrive, of `flow` or, if it is null, of a flow without state. They use the grant of the newest return
 * first, then older ones, then newer ones. Returns 1 if the packet is late and the port drops late data.
 */
WEIR_INLINE int weir_credit_data(struct weir_credit_port *port, struct weir_credit_flow *flow, u32 bytes, u64 now)
{
	u32 left = bytes, i;

	weir_credit_advance(port, now);
	for (i = 0; flow && left && i < WEIR_CREDIT_GRANTS; i++) {
		struct weir_grant *grant = &flow->grants[(flow->current - i) & (WEIR_CREDIT_GRANTS - 1)];

		if (weir_credit_is_live(port, grant))
			left -= weir_credit_take(port, grant, left);
	}
	port->counters.arrived += bytes - left;
	if (!left || bytes <= WEIR_CREDIT_EXEMPT)
		return 0;
	if (now < port->closed_until) {
		port->counters.unaccounted += left;
		return 0;
	}
	port->counters.late += left;
	port->counters.late_packets += 1;
	return port->lossless;
}

/* The flow is over: its grants are released. */
WEIR_INLINE void weir_credit_terminate(struct weir_credit_port *port, struct weir_credit_flow *flow, u64 now)
{
	u32 i;

	weir_credit_advance(port, now);
	for (i = 0; i < WEIR_CREDIT_GRANTS; i++) {
		struct weir_grant *grant = &flow->grants[i];

		if (weir_credit_is_live(port, grant))
			port->counters.released += weir_credit_take(port, grant, grant->left);
	}
}

#endif
