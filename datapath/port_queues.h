/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Queues of a switch port: which one a packet joins, and how many bytes wait in it.
 *
 * Problem: a Linux switch has HTB, which queues and orders packets, but no qdisc that marks is in
 * every kernel, and a BPF program cannot read the backlog of a class. Approach: the program models
 * the port's queues. Each queue holds bytes; between two packets the port's rate drains them: the
 * strict queues first, the highest number before the others, then the weighted queues in
 * proportion to their weights. The model admits a packet exactly if the queue's buffer has room
 * for it, as the class's bfifo does. So each modelled queue has the length of its class, up to the
 * bucket of the port's rate (1 ms) and to one round of HTB's deficit round robin.
 *
 * A packet is above the threshold if its queue, with the packet, holds more than `mark` bytes (the
 * simulator's rule). With one queue the model is a limiter's debt (limiter.h).
 *
 * Weighted queues drain as a fluid: each round divides the remaining capacity by weight among the queues
 * that hold bytes; a round that empties none is the last. Eight queues need at most eight rounds.
 * The division drops less than one nanobit per unit of weight and round.
 *
 * Worked example: 100 Mb/s, queues 0 and 1 of weights 1 and 3 with 30,000 B each. In 2 ms the port
 * drains 25,000 B: 6,250 of queue 0, 18,750 of queue 1. With 6,000 B in queue 1 instead, it is
 * empty after 640 us, and queue 0 has lost 19,000 B after 2 ms.
 *
 * Bounds: a buffer of at most WEIR_PORT_BUFFER_MAX bytes, weights below 2^16.
 *
 * Source: Parekh and Gallager 1993 (generalised processor sharing); DCTCP section 3.1 (marking by
 * instantaneous queue length); RFC 2474 (DSCP).
 */
#ifndef WEIR_PORT_QUEUES_H
#define WEIR_PORT_QUEUES_H

#include "limiter.h"
#include "ip_header.h"

#define WEIR_PORT_QUEUES 8
#define WEIR_DSCPS 64
/* The most that is drained between two packets, nanobits: 1.15 GB. Eight full queues hold less. */
#define WEIR_PORT_DRAIN_MAX (WEIR_U64_MAX >> 1)
#define WEIR_PORT_BUFFER_MAX (128U << 20)
/* Changes with the layout or meaning of struct weir_port. A port of another layout is installed anew. */
#define WEIR_PORT_LAYOUT 2

/*
 * Configuration of a port. User space may change a field while packets pass: each is aligned and
 * read once per packet, and any mix of old and new fields is a valid configuration.
 */
struct weir_port {
	u64 rate;                       /* bit/s, not 0 */
	u64 mark[WEIR_PORT_QUEUES];     /* bytes, the marking threshold; WEIR_U64_MAX: never */
	u64 buffer[WEIR_PORT_QUEUES];   /* bytes, at most WEIR_PORT_BUFFER_MAX */
	u32 weight[WEIR_PORT_QUEUES];   /* of a weighted queue; 0: strict, or absent */
	u32 strict;                     /* bit q: queue q is strict */
	u32 mapped;                     /* 0: packets are neither assigned to a queue nor marked */
	u32 class;                      /* skb->priority of queue 0; that of queue q is q more */
	u32 layout;                     /* WEIR_PORT_LAYOUT */
	u32 clsact;                     /* user space: 1 if clsact was added for the program */
	u32 stated;                     /* user space: bit q: the buffer of queue q is no default */
	u8 queue_of[WEIR_DSCPS];        /* by DSCP */
	u64 remark;                     /* one bit for each DSCP that is re-marked to 0 where packets arrive */
};

/* The modelled queues. */
struct weir_port_model {
	u64 at;                         /* ns, the time until which the queues are drained */
	u64 owed[WEIR_PORT_QUEUES];     /* nanobits that wait */
};

/* The smaller of two values below 2^63, without a branch that doubles the verifier's paths. */
WEIR_INLINE u64 weir_port_min(u64 a, u64 b)
{
	u64 less = (u64)((long long)(a - b) >> 63);

	WEIR_OPAQUE(less);
	return b + ((a - b) & less);
}

/* All ones if `value`, below 2^63, is not 0. */
WEIR_INLINE u64 weir_port_mask(u64 value)
{
	u64 mask = (u64)((long long)(0 - value) >> 63);

	WEIR_OPAQUE(mask);
	return mask;
}

/* Drains the weighted queues by at most `budget` nanobits. */
WEIR_INLINE void weir_port_drain_weighted(struct weir_port_model *model, const struct weir_port *port, u64 budget)
{
	u32 round, q;

	for (round = 0; round < WEIR_PORT_QUEUES; round++) {
		u64 weights = 0, unit, left = budget;

		for (q = 0; q < WEIR_PORT_QUEUES; q++)
			weights += port->weight[q] & weir_port_mask(model->owed[q]);
		if (!weights)
			return;
		unit = budget / weights;
		if (!unit)
			return;
		for (q = 0; q < WEIR_PORT_QUEUES; q++) {
			u64 take = weir_port_min(model->owed[q], unit * (port->weight[q] & 0xffff));

			model->owed[q] -= take;
			left -= take;
		}
		budget = left;
	}
}

/* Drains the queues until `now`. A `now` before `at` (two CPUs) drains nothing. */
WEIR_INLINE void weir_port_drain(struct weir_port_model *model, const struct weir_port *port, u64 now)
{
	u64 rate = port->rate, elapsed, budget;
	u32 strict = port->strict, i;

	if (now <= model->at || !rate)
		return;
	elapsed = now - model->at;
	model->at = now;
	budget = elapsed <= WEIR_PORT_DRAIN_MAX / rate ? elapsed * rate : WEIR_PORT_DRAIN_MAX;
	for (i = 0; i < WEIR_PORT_QUEUES; i++) {
		u32 q = WEIR_PORT_QUEUES - 1 - i;
		u64 is_strict = weir_port_mask(strict >> q & 1);
		u64 take = weir_port_min(model->owed[q], budget) & is_strict;

		model->owed[q] -= take;
		budget -= take;
		/* What a removed queue held is gone. */
		model->owed[q] &= is_strict | weir_port_mask(port->weight[q]);
	}
	weir_port_drain_weighted(model, port, budget);
}

/*
 * Adds a packet of `bytes` that arrives at `now` to the model of `queue`, below WEIR_PORT_QUEUES, if
 * the queue's buffer has room. Returns 1 if the packet is above the queue's threshold.
 */
WEIR_INLINE int weir_port_arrive(struct weir_port_model *model, const struct weir_port *port, u64 now, u32 queue,
				 u32 bytes)
{
	u64 length;

	weir_port_drain(model, port, now);
	length = model->owed[queue] / WEIR_NANOBITS_PER_BYTE + bytes;
	if (length <= port->buffer[queue])
		model->owed[queue] += bytes * WEIR_NANOBITS_PER_BYTE;
	return length > port->mark[queue];
}

/* The DSCP of a frame; 0 for frames without an IP header. VLAN tags may precede it. */
WEIR_INLINE u32 weir_port_dscp(weir_frame *frame)
{
	return weir_ip_header_of(frame).dscp;
}

#endif
