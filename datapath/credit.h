/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Credit port: the online part of a PACE forwarder, which reduces allocations and counts data against grants.
 *
 * An allocation authorises a sender to send `allocation` bytes in the period that follows. Each port of the data's path
 * reduces it, on its way against the data, to
 *
 *   demand      min(d, C(p) * w * a_w)              the flow's max-min share
 *   potential   min(d_p, C(p) * (w * a_w + r))      what it could use in the next period
 *   allocation  max(0, min(a, demand, 2 * C_0 - A - Q, (C(p) - max(0, Q - C_0 / 4) / 4) * w * a_w))
 *
 * with C(p) = p * R bytes, C_0 = R * the longest period of the port and its flows, A the bytes granted that have not
 * arrived, Q those queued. crates/decide/credits computes a_w, r and periods. Shares round up.
 *
 *   grants    A grant counts in A until its data arrives, its return releases what later ports cut, the second return
 *             after that what the sender has not used, or it expires: 2 * p and the wait of its data in nearer ports
 *             after it was made. Data without a live grant is late.
 *   drain     Grants of a period are all that the port sends in it, so the queue of a new flow would stay. A quarter of
 *             what exceeds C_0 / 4, where frames meet by chance, is taken from the grants of each period.
 *   queueing  Data waits in a port for at most max(2 * C_0, A + Q) / R. `queueing` of an allocation sums that up; a
 *             return has the sum of the path, and p of the sender. They correct the lifetime of the grant, and are
 *             assumed for the next one.
 *   expiry    A wheel of slots of 2^slot_bits ns has the bytes that expire at the start of each slot. A lifetime is
 *             rounded up to a slot. weir_credit_advance takes the slots that have begun from A, before all else.
 *   carry     Senders of whole frames keep a remainder below one frame for an allocation within 2 * p. Grants live one
 *             more p for that, and the next return moves up to `carry` bytes of earlier ones to its grant.
 *   repeats   A duplicate of an allocation gets at most what its grant still has; an older one without a record none.
 *   restart   A port without its state grants nothing until all earlier grants have expired; data is not late.
 *   re-route  A request passes all ports of a path. A flow whose first allocation or data comes without one was granted
 *             credits on another path: for the longest lifetime of a grant its data is `rerouted` in place of late.
 *   end       A termination releases the grants of a flow, and allocations that are on their way then get nothing
 *             until the next request. The flow's state is to be kept for a lifetime.
 *
 * Worked example: 1 Gb/s, p = 200 us, two flows of weight 1 with a_w a half: C(p) is 25,000 B, 2 * C_0 50,000 B. An
 * allocation of 25,000 B leaves with 12,500 B, A = 12,500. 1,500 B arrive: A = 11,000. A return of 10,000 B: A = 8,500.
 *
 * Order of calls: advance once for a packet; is_new for an allocation, whose demand is recorded before the shares are
 * published; then allocate. return before data of the packet that has both.
 *
 * Bounds: rates from 1 to 2^44 bit/s; A and Q below 2^32 bytes. A is what live grants have left, at most 2 * C_0 less Q
 * at a grant. Lifetimes beyond the wheel grant nothing. Calls for a port exclude each other. A clock may be a period
 * behind another CPU's. A return may overtake data of one allocation before its own.
 *
 * Source: PACE (Carvalho et al. 2013) section III.E, equations 5 to 7, corrected as docs/design/credits.md derives.
 */
#ifndef WEIR_CREDIT_H
#define WEIR_CREDIT_H

#include "types.h"

/* Ports on the longest path: those of a fat-tree's hosts, edges, aggregations and a core. */
#define WEIR_CREDIT_PORTS 6
/* Periods for which data may wait in these, two in each: assumed before a return has the wait of the flow's path. */
#define WEIR_CREDIT_WAIT_PERIODS (2 * WEIR_CREDIT_PORTS)
/*
 * Grants of a flow that a port records, a power of two. A flow gets one in a period, and a grant lives two or
 * three periods and two more for each port in which its data may wait.
 */
#define WEIR_CREDIT_GRANTS 16
/* Slots of the wheel, a power of two. */
#define WEIR_CREDIT_SLOTS 1024
/* The slot of a record without a grant: all slots of grants are later. */
#define WEIR_CREDIT_NONE 0
/* us: the longest sum of queueing. */
#define WEIR_CREDIT_QUEUEING_MAX WEIR_U32_MAX
/*
 * Bytes: on Linux, frames up to this size need no credits and use none. They are acknowledgements and control messages,
 * and have a budget of their own.
 */
#define WEIR_CREDIT_EXEMPT 128
/* The stage of a flow at a port: not seen, live, or terminated. */
#define WEIR_CREDIT_UNSEEN 0
#define WEIR_CREDIT_LIVE 1
#define WEIR_CREDIT_OVER 2
/* a_w of the whole port, in 2^-48, and the shifts to 2^-32, the unit of shares, and to 2^-30. */
#define WEIR_CREDIT_WHOLE (1ULL << 48)
#define WEIR_CREDIT_SHARE_SHIFT 16
#define WEIR_CREDIT_COARSE_SHIFT 18
/* Shifts: the queue of chance, C_0 / 4, as a part of 2 * C_0; the part of what is beyond it that a period drains. */
#define WEIR_CREDIT_CHANCE_SHIFT 3
#define WEIR_CREDIT_DRAIN_SHIFT 2
/* Bits of a period (us) times a rate (bit/s) in a byte. */
#define WEIR_CREDIT_BITS 8000000ULL

/* The fields of an allocation that ports read and write, in host order. */
struct weir_allocation {
	u32 clock;      /* number of the allocation, from 1 on */
	u32 period;     /* us: p */
	u32 longest;    /* us: the longest period that a port of the path selects by itself */
	u32 potential;  /* bytes: d_p */
	u32 demand;     /* bytes: d */
	u32 allocation; /* bytes: a */
	u32 weight;     /* thousandths */
	u32 queueing;   /* us: how long data may wait in the ports that the allocation has passed */
};

/* The values of an allocation that the sender returns. */
struct weir_returned {
	u32 clock;
	u32 period;     /* us: p as the sender got it, by which it paces */
	u32 longest;    /* us */
	u32 potential;  /* bytes: d_p, reduced to what the sender will have to send */
	u32 allocation; /* bytes: a as the sender got it */
	u32 queueing;   /* us: how long data may wait in all ports of the path */
};

/* What user space writes for a port. */
struct weir_credit_rules {
	u64 rate;         /* bit/s: R */
	u64 per_weight;   /* a_w in 2^-48 of the port for a thousandth of weight, at most WEIR_CREDIT_WHOLE */
	u64 closed_until; /* ns; 0 for a port without a past */
	u32 rest;         /* r in 2^-32 of the port */
	u32 period;       /* us: the port's own p */
	u32 longest;      /* us: the longest p of the port and its flows */
	u32 slot_bits;    /* a slot of the wheel lasts 2^slot_bits ns, below 64; constant while the port lives */
	u32 carry;        /* bytes that a sender may carry over: the largest frame less one; 0 if senders cut frames */
	u32 exempt;       /* bytes: frames up to this size need no credits and use none */
	u32 lossless;     /* 1: late data is dropped */
	u32 reserved;
};

struct weir_grant {
	u64 made;            /* ns */
	u64 over;            /* number of the slot at whose start it expires, or WEIR_CREDIT_NONE */
	u32 clock;
	u32 granted;         /* bytes */
	u32 left;            /* bytes that have not arrived */
	u32 queueing_passed; /* us: `queueing` of the allocation as it left this port */
};

/* The state of a flow at a port; all zeros at first. */
struct weir_credit_flow {
	u32 newest;         /* clock of the newest allocation; 0: none */
	u32 current;        /* clock of the newest return: the grant that data uses first; 0: none */
	u32 ahead;          /* us: how long data may wait between the sender and the port, by that return */
	u32 stage;          /* WEIR_CREDIT_UNSEEN, _LIVE or _OVER */
	u64 rerouted_until; /* ns: until then, data without a grant may have been granted on another path */
	struct weir_grant grants[WEIR_CREDIT_GRANTS]; /* by clock */
};

struct weir_credit_counters {
	u64 granted;      /* bytes granted */
	u64 arrived;      /* bytes of data that a grant covered */
	u64 expired;      /* bytes of grants that expired */
	u64 released;     /* bytes of grants that later ports cut, or that their flows did not use */
	u64 late;         /* bytes of data without a live grant */
	u64 late_packets; /* packets with such bytes */
	u64 unaccounted;  /* bytes of data without a grant while the port was closed after its start */
	u64 rerouted;     /* bytes of data without a grant of flows that have come from another path */
	u64 allocations;  /* allocations that arrived at the port */
	u64 duplicates;   /* allocations that came again */
	u64 stale;        /* allocations older than the newest without a record, and those of a full record */
	u64 astray;       /* allocations that arrived at another port than their data leaves by */
	u64 too_long;     /* allocations whose lifetime is longer than the wheel */
	u64 ended;        /* allocations of flows that are over */
};

/* The state of a port in the direction of the data; all zeros at first. */
struct weir_credit_port {
	u64 outstanding; /* bytes: A */
	u64 slot;        /* number of the present slot */
	struct weir_credit_counters counters;
	u32 expiring[WEIR_CREDIT_SLOTS]; /* bytes of grants that expire at the start of each slot */
};

/* Whether a clock is later than another one, modulo 2^32. */
WEIR_INLINE int weir_credit_is_later(u32 clock, u32 than)
{
	return clock - than - 1 < WEIR_U32_MAX / 2;
}

/*
 * Takes the slots that have begun from A. To be called once for a packet, before the functions below for its events:
 * the verifier follows the loop again for each path that leads to it.
 */
WEIR_INLINE void weir_credit_advance(struct weir_credit_port *port, const struct weir_credit_rules *rules, u64 now)
{
	u64 slot = now >> rules->slot_bits, passed;
	u32 i;

	if (slot <= port->slot)
		return;
	passed = slot - port->slot;
	for (i = 1; i <= WEIR_CREDIT_SLOTS; i++) {
		u32 *expiring = &port->expiring[(port->slot + i) & (WEIR_CREDIT_SLOTS - 1)];

		if (i > passed || !port->outstanding)
			break;
		port->outstanding -= *expiring;
		port->counters.expired += *expiring;
		*expiring = 0;
	}
	port->slot = slot;
}

/* Whether a record has a grant that has not expired. The port is advanced. */
WEIR_INLINE int weir_credit_is_live(const struct weir_credit_port *port, const struct weir_grant *grant)
{
	return grant->over > port->slot;
}

/* Takes up to `bytes` from a live grant and from A; returns how many. */
WEIR_INLINE u32 weir_credit_take(struct weir_credit_port *port, struct weir_grant *grant, u32 bytes)
{
	u32 taken = grant->left < bytes ? grant->left : bytes;

	grant->left -= taken;
	port->expiring[grant->over & (WEIR_CREDIT_SLOTS - 1)] -= taken;
	port->outstanding -= taken;
	return taken;
}

/* Adds bytes to a live grant and to A. */
WEIR_INLINE void weir_credit_give(struct weir_credit_port *port, struct weir_grant *grant, u32 bytes)
{
	grant->left += bytes;
	port->expiring[grant->over & (WEIR_CREDIT_SLOTS - 1)] += bytes;
	port->outstanding += bytes;
}

/* Bytes of `period` us at the rate of the port, rounded down; at most 2^32 - 1. */
WEIR_INLINE u64 weir_credit_capacity(const struct weir_credit_rules *rules, u32 period)
{
	u64 rate = rules->rate, bytes;

	/* 2^44 bit/s and 2^20 us are 64 bits; above, whole bytes per us and the rest are multiplied apart. */
	if (period < 1U << 20)
		bytes = rate * period / WEIR_CREDIT_BITS;
	else
		bytes = rate / WEIR_CREDIT_BITS * period + rate % WEIR_CREDIT_BITS * period / WEIR_CREDIT_BITS;
	return bytes < WEIR_U32_MAX ? bytes : WEIR_U32_MAX;
}

/* us: the longest p of the port and its flows. */
WEIR_INLINE u32 weir_credit_longest(const struct weir_credit_rules *rules)
{
	return rules->longest > rules->period ? rules->longest : rules->period;
}

/* 2 * C_0 in bytes; at most 2^32 - 1, so that A fits the slots of the wheel. */
WEIR_INLINE u64 weir_credit_budget(const struct weir_credit_rules *rules)
{
	u64 budget = 2 * weir_credit_capacity(rules, weir_credit_longest(rules));

	return budget < WEIR_U32_MAX ? budget : WEIR_U32_MAX;
}

/* The part `share` (2^-32) of `capacity` bytes, rounded up. Both are below 2^32. */
WEIR_INLINE u32 weir_credit_part(u64 capacity, u64 share)
{
	return (u32)((capacity * share + WEIR_U32_MAX) >> 32);
}

/* The share of a weight, w * a_w, in 2^-32, rounded up; at most 2^32 - 1. */
WEIR_INLINE u64 weir_credit_share(const struct weir_credit_rules *rules, u32 weight)
{
	u64 share;

	/* In 2^-30, rounded down, the product has 62 bits at most. Below the whole port the exact one has fewer. */
	if ((rules->per_weight >> WEIR_CREDIT_COARSE_SHIFT) * weight >= WEIR_CREDIT_WHOLE >> WEIR_CREDIT_COARSE_SHIFT)
		return WEIR_U32_MAX;
	share = (rules->per_weight * weight + (1U << WEIR_CREDIT_SHARE_SHIFT) - 1) >> WEIR_CREDIT_SHARE_SHIFT;
	return share < WEIR_U32_MAX ? share : WEIR_U32_MAX;
}

/* Reduces d_p and d to the shares of the port, in the period that the message has. */
WEIR_INLINE void weir_credit_reduce(const struct weir_credit_rules *rules, struct weir_allocation *allocation)
{
	u64 capacity = weir_credit_capacity(rules, allocation->period);
	u64 share = weir_credit_share(rules, allocation->weight), most = share + rules->rest;
	u32 part = weir_credit_part(capacity, share);

	if (allocation->demand > part)
		allocation->demand = part;
	part = weir_credit_part(capacity, most < WEIR_U32_MAX ? most : WEIR_U32_MAX);
	if (allocation->potential > part)
		allocation->potential = part;
}

/*
 * Writes a longer period into a message. d_p and d, which are bytes per period, are converted; a, which is granted, is
 * not.
 */
WEIR_INLINE void weir_credit_lengthen(const struct weir_credit_rules *rules, struct weir_allocation *allocation)
{
	u64 potential, demand;

	if (allocation->longest < rules->period)
		allocation->longest = rules->period;
	if (allocation->period >= rules->period)
		return;
	if (allocation->period) {
		potential = (u64)allocation->potential * rules->period / allocation->period;
		demand = (u64)allocation->demand * rules->period / allocation->period;
		allocation->potential = potential < WEIR_U32_MAX ? (u32)potential : WEIR_U32_MAX;
		allocation->demand = demand < WEIR_U32_MAX ? (u32)demand : WEIR_U32_MAX;
	}
	allocation->period = rules->period;
}

/*
 * Adds the time for which data may wait in the port to `queueing`. `used` is A + Q, which exceeds 2 * C_0 after the
 * rate or the longest period has fallen.
 */
WEIR_INLINE void weir_credit_queue(const struct weir_credit_rules *rules, struct weir_allocation *allocation, u64 used,
				   u64 budget)
{
	u64 queueing = allocation->queueing + 2 * (u64)weir_credit_longest(rules);

	if (used > budget)
		queueing = allocation->queueing + (used * WEIR_CREDIT_BITS + rules->rate - 1) / rules->rate;
	allocation->queueing = queueing < WEIR_CREDIT_QUEUEING_MAX ? (u32)queueing : WEIR_CREDIT_QUEUEING_MAX;
}

/* us: how long data of an allocation may wait between the sender and the port. */
WEIR_INLINE u64 weir_credit_wait(const struct weir_credit_rules *rules, const struct weir_credit_flow *flow, u32 period)
{
	u32 longest = weir_credit_longest(rules);

	if (flow->current)
		return flow->ahead;
	return WEIR_CREDIT_WAIT_PERIODS * (u64)(period > longest ? period : longest);
}

/* The number of the slot at whose start a grant expires, of data that may wait for `wait` us. */
WEIR_INLINE u64 weir_credit_expiry(const struct weir_credit_rules *rules, u64 made, u32 period, u64 wait)
{
	u64 periods = rules->carry ? 3 : 2;

	return ((made + (periods * period + wait) * 1000) >> rules->slot_bits) + 1;
}

/* The most bytes that a new allocation gets, whose demand is reduced already; `queued` wait in the port. */
WEIR_INLINE u32 weir_credit_room(const struct weir_credit_port *port, const struct weir_credit_rules *rules,
				 const struct weir_allocation *allocation, u64 budget, u32 queued)
{
	u64 used = port->outstanding + queued, room = used < budget ? budget - used : 0;
	u64 chance = budget >> WEIR_CREDIT_CHANCE_SHIFT, capacity, drained, part;

	if (queued <= chance)
		return (u32)room;
	capacity = weir_credit_capacity(rules, allocation->period);
	drained = (queued - chance) >> WEIR_CREDIT_DRAIN_SHIFT;
	capacity = drained < capacity ? capacity - drained : 0;
	part = weir_credit_part(capacity, weir_credit_share(rules, allocation->weight));
	return (u32)(part < room ? part : room);
}

/* Grants up to `granted` bytes to a new allocation: records the grant and counts it in A. The port is advanced. */
WEIR_INLINE void weir_credit_grant(struct weir_credit_port *port, const struct weir_credit_rules *rules,
				   struct weir_credit_flow *flow, struct weir_allocation *allocation, u64 now,
				   u32 granted)
{
	struct weir_grant *grant = &flow->grants[allocation->clock & (WEIR_CREDIT_GRANTS - 1)];
	u32 period = allocation->period > rules->period ? allocation->period : rules->period;
	u64 over = weir_credit_expiry(rules, now, period, weir_credit_wait(rules, flow, allocation->period));

	if (granted > allocation->demand)
		granted = allocation->demand;
	if (granted > allocation->allocation)
		granted = allocation->allocation;
	/* The record of a live grant is kept: its bytes are in A. */
	if (weir_credit_is_live(port, grant) && grant->left) {
		port->counters.stale += 1;
		allocation->allocation = 0;
		return;
	}
	if (over - port->slot - 1 >= WEIR_CREDIT_SLOTS) {
		port->counters.too_long += 1;
		over = WEIR_CREDIT_NONE;
		granted = 0;
	}
	grant->made = now;
	grant->over = over;
	grant->clock = allocation->clock;
	grant->granted = granted;
	grant->left = 0;
	grant->queueing_passed = allocation->queueing;
	weir_credit_give(port, grant, granted);
	port->counters.granted += granted;
	allocation->allocation = granted;
}

/* An allocation arrives at another port than its data leaves by: it goes on without credits. */
WEIR_INLINE void weir_credit_astray(struct weir_credit_port *port, struct weir_allocation *allocation)
{
	port->counters.allocations += 1;
	port->counters.astray += 1;
	allocation->allocation = 0;
}

/* Whether an allocation is later than those before, of a flow that is not over: the shares are to have its demand. */
WEIR_INLINE int weir_credit_is_new(const struct weir_credit_flow *flow, const struct weir_allocation *allocation)
{
	return allocation->clock && flow->stage != WEIR_CREDIT_OVER &&
	       (!flow->newest || weir_credit_is_later(allocation->clock, flow->newest));
}

/*
 * The sender of a flow requests credits; `clock` is that of its newest allocation. A request from before is void while
 * a grant lives. After a lifetime without grants it is of a sender that has lost its clock, as after a restart, and
 * the clocks of the port continue from it: the receiver may have lost its clock too, and all would be stale.
 */
WEIR_INLINE void weir_credit_request(const struct weir_credit_port *port, struct weir_credit_flow *flow, u32 clock)
{
	int is_before = flow->current && weir_credit_is_later(flow->current, clock), is_live;
	u64 later = 0;
	u32 i;

	/* A live grant sets the top bit. Without a branch, since the verifier follows each path. */
	for (i = 0; i < WEIR_CREDIT_GRANTS; i++)
		later |= port->slot - flow->grants[i].over;
	is_live = (int)(later >> 63);
	if (is_before && is_live)
		return;
	if (is_before)
		flow->current = 0;
	if (!is_live && flow->newest && weir_credit_is_later(flow->newest, clock))
		flow->newest = clock;
	flow->stage = WEIR_CREDIT_LIVE;
}

/* An allocation or data of a flow arrives: without a request before, the flow has had another path. */
WEIR_INLINE void weir_credit_meet(const struct weir_credit_rules *rules, struct weir_credit_flow *flow, u64 now)
{
	if (flow->stage != WEIR_CREDIT_UNSEEN)
		return;
	flow->stage = WEIR_CREDIT_LIVE;
	flow->rerouted_until = now + ((u64)WEIR_CREDIT_SLOTS << rules->slot_bits);
}

/* An allocation of `flow` arrives over the link of the port at `now`; `queued` bytes of data wait in the port. */
WEIR_INLINE void weir_credit_allocate(struct weir_credit_port *port, const struct weir_credit_rules *rules,
				      struct weir_credit_flow *flow, struct weir_allocation *allocation, u64 now,
				      u32 queued)
{
	struct weir_grant *grant = &flow->grants[allocation->clock & (WEIR_CREDIT_GRANTS - 1)];
	int is_recorded = grant->clock == allocation->clock;
	int is_new = weir_credit_is_new(flow, allocation);
	u64 budget = weir_credit_budget(rules), used = port->outstanding + queued;
	u32 most;

	port->counters.allocations += 1;
	weir_credit_meet(rules, flow, now);
	weir_credit_queue(rules, allocation, used, budget);
	weir_credit_reduce(rules, allocation);
	if (flow->stage == WEIR_CREDIT_OVER) {
		port->counters.ended += 1;
		allocation->allocation = 0;
	} else if (!allocation->clock || (!is_new && !is_recorded)) {
		port->counters.stale += 1;
		allocation->allocation = 0;
	} else if (is_recorded) {
		port->counters.duplicates += 1;
		most = weir_credit_is_live(port, grant) ? grant->left : 0;
		if (most > grant->granted)
			most = grant->granted;
		if (allocation->allocation > most)
			allocation->allocation = most;
	} else {
		flow->newest = allocation->clock;
		most = weir_credit_room(port, rules, allocation, budget, queued);
		if (now < rules->closed_until)
			most = 0;
		weir_credit_grant(port, rules, flow, allocation, now, most);
	}
	weir_credit_lengthen(rules, allocation);
}

/* Corrects the lifetime of a live grant by the values that its sender returned. */
WEIR_INLINE void weir_credit_correct(struct weir_credit_port *port, const struct weir_credit_rules *rules,
				     struct weir_grant *grant, u32 period, u32 ahead)
{
	u64 over = weir_credit_expiry(rules, grant->made, period, ahead);
	u32 left = grant->left;

	if (over <= port->slot)
		over = port->slot + 1;
	if (over > port->slot + WEIR_CREDIT_SLOTS)
		over = port->slot + WEIR_CREDIT_SLOTS;
	weir_credit_take(port, grant, left);
	grant->over = over;
	weir_credit_give(port, grant, left);
}

/*
 * Ends the grants before a live one, whose allocation has replaced theirs at the sender. A remainder that a sender of
 * whole frames may carry over moves to it: after a lost return not only that of the grant just before. The rest is
 * released, but for the grant just before, whose last data a return of its own may have overtaken.
 */
WEIR_INLINE void weir_credit_replace(struct weir_credit_port *port, const struct weir_credit_rules *rules,
				     struct weir_credit_flow *flow, struct weir_grant *grant)
{
	u32 carried = 0, i;

	for (i = 1; i < WEIR_CREDIT_GRANTS; i++) {
		struct weir_grant *before = &flow->grants[(grant->clock - i) & (WEIR_CREDIT_GRANTS - 1)];

		if (before->clock != grant->clock - i || !weir_credit_is_live(port, before))
			continue;
		carried += weir_credit_take(port, before, rules->carry - carried);
		if (i > 1)
			port->counters.released += weir_credit_take(port, before, before->left);
	}
	weir_credit_give(port, grant, carried);
}

/* The sender returns the values of an allocation with its first data, or alone: cuts of later ports are released. */
WEIR_INLINE void weir_credit_return(struct weir_credit_port *port, const struct weir_credit_rules *rules,
				    struct weir_credit_flow *flow, const struct weir_returned *returned)
{
	struct weir_grant *grant = &flow->grants[returned->clock & (WEIR_CREDIT_GRANTS - 1)];
	int is_later = !flow->current || weir_credit_is_later(returned->clock, flow->current), is_live;
	u32 ahead;

	if (!returned->clock || grant->clock != returned->clock)
		return;
	is_live = weir_credit_is_live(port, grant);
	ahead = returned->queueing > grant->queueing_passed ? returned->queueing - grant->queueing_passed : 0;
	if (returned->allocation < grant->granted) {
		if (is_live)
			port->counters.released += weir_credit_take(port, grant, grant->granted - returned->allocation);
		grant->granted = returned->allocation;
	}
	if (is_live)
		weir_credit_correct(port, rules, grant, returned->period, ahead);
	if (!is_later)
		return;
	if (is_live)
		weir_credit_replace(port, rules, flow, grant);
	flow->current = returned->clock;
	flow->ahead = ahead;
}

/* Counts `bytes` of data without a live grant. Returns 1 if they are dropped. */
WEIR_INLINE int weir_credit_late(struct weir_credit_port *port, const struct weir_credit_rules *rules,
				 u64 rerouted_until, u32 bytes, u64 now)
{
	if (now < rules->closed_until) {
		port->counters.unaccounted += bytes;
		return 0;
	}
	if (now < rerouted_until) {
		port->counters.rerouted += bytes;
		return 0;
	}
	port->counters.late += bytes;
	port->counters.late_packets += 1;
	return rules->lossless != 0;
}

/*
 * The clock, modulo the records, of the grant that data uses as the i-th one: that of the newest return, the one
 * before, then newer ones from the oldest on, whose returns are lost. Without a return, all from the oldest on.
 */
WEIR_INLINE u32 weir_credit_order(const struct weir_credit_flow *flow, u32 i)
{
	if (!flow->current)
		return flow->newest + 1 + i;
	return i < 2 ? flow->current - i : flow->current + i - 1;
}

/* A packet of `bytes` of data of `flow` arrives. Returns 1 if it is late and the port drops late data. */
WEIR_INLINE int weir_credit_data(struct weir_credit_port *port, const struct weir_credit_rules *rules,
				 struct weir_credit_flow *flow, u32 bytes, u64 now)
{
	u32 left = bytes, i;

	if (bytes <= rules->exempt)
		return 0;
	weir_credit_meet(rules, flow, now);
	for (i = 0; left && i < WEIR_CREDIT_GRANTS; i++) {
		struct weir_grant *grant = &flow->grants[weir_credit_order(flow, i) & (WEIR_CREDIT_GRANTS - 1)];

		if (weir_credit_is_live(port, grant))
			left -= weir_credit_take(port, grant, left);
	}
	port->counters.arrived += bytes - left;
	return left ? weir_credit_late(port, rules, flow->rerouted_until, left, now) : 0;
}

/* A packet of `bytes` of data arrives of a flow for which there is no state. Returns 1 if the port drops it. */
WEIR_INLINE int weir_credit_unknown(struct weir_credit_port *port, const struct weir_credit_rules *rules, u32 bytes,
				    u64 now)
{
	return bytes > rules->exempt && weir_credit_late(port, rules, 0, bytes, now);
}

/*
 * The flow is over: its grants are released. Its clocks are kept, so that no earlier allocation is granted again, and
 * no later one before a request: a receiver issues allocations until the termination reaches it.
 */
WEIR_INLINE void weir_credit_terminate(struct weir_credit_port *port, struct weir_credit_flow *flow)
{
	u32 i;

	for (i = 0; i < WEIR_CREDIT_GRANTS; i++) {
		struct weir_grant *grant = &flow->grants[i];

		if (weir_credit_is_live(port, grant))
			port->counters.released += weir_credit_take(port, grant, grant->left);
	}
	flow->stage = WEIR_CREDIT_OVER;
}

#endif
