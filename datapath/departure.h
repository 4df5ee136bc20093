/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Departure times: when each packet leaves an interface that all services of a host share.
 *
 * The qdisc fq delays a packet until the time stamped on it. A time is computed once, when the
 * packet is queued, and never revised. One limiter for the interface would serve the sender that
 * queues most. A fixed rate per service would waste the rate of idle services. A packet therefore
 * passes these limiters (limiter.h):
 *
 *   destination  the rate that its receiver feeds back, if there is one (destination.h)
 *   root         the service's limit: the policy's, and while the agent is alive the brokers'
 *   committed    the service's current share of the interface by the policy's rule. A committed
 *                packet does not wait for the machine limiter.
 *   machine      the interface's rate. Every packet is charged to it. An excess packet leaves when
 *                all earlier charges are repaid: excess rate is first come, first served.
 *
 *   departure = max(destination, root, min(committed, machine))
 *
 * Committed shares follow from a fair rate R of the interface (interface_meter.h). A timer runs the
 * rate law on the bytes that leave as committed. R rises while they are fewer than the interface's
 * rate, so services share the rate of idle ones by weight. R never falls below saturated_rate. It
 * returns there if a service newly exceeds its committed share, or if committed bytes exceed the
 * rate by an eighth.
 *
 * A departure is never revised. A higher limit therefore holds from the next departure at the lower
 * one, so that later packets do not overtake, unless that is far beyond the horizon. A lower limit
 * holds from now on: the debt is repaid at its rate.
 *
 * A packet that would wait beyond the horizon is dropped, unless less than `queue` bytes wait. To
 * take the lock of the limiters once for several packets, a CPU charges packets that leave at once
 * in batches, and packets that wait use a lease (lease.h).
 *
 * Worked example: 100 Mb/s, two services of weight 1: R = 49.2 Mb/s while both are backlogged. Only
 * the first sends, 1,500 B every 100 us. Packet n leaves as committed at n * 244 us, by the machine
 * limiter at n * 120 us: so as excess. R rises to 98.4 Mb/s, and all packets leave as committed.
 *
 * Bounds: those of limiter.h, and per window an eighth of a burst more for batches, the same for
 * leases, and the rate between two ticks where a tick's time replaces a clock read.
 *
 * Source: Saeed et al., Carousel, SIGCOMM 2017 (one time stamp from several limits, a horizon);
 * EyeQ section 4.2 (root and destination limiters); RFC 2698 (committed and excess rates).
 * Deviates from the paper in: the committed limiter beside the machine's, which
 * Carousel does not have.
 * Derivation: docs/design/departure.md.
 */
#ifndef WEIR_DEPARTURE_H
#define WEIR_DEPARTURE_H

#include "lease.h"
#include "limiter.h"
#include "receive_tick.h"

/*
 * The law aims at the interface's rate less 1/64. If R is too high, more leaves than the interface
 * carries; the margin drains the queue of the qdisc.
 */
#define WEIR_COMMITTED_PART 64
/*
 * Divides bit/s into bytes per 1 ms, the smallest burst after a pause (crates/host/linux/src/class.rs).
 */
#define WEIR_BURST_PART 8000

/*
 * If committed usage exceeds the law's target by more than 1/8, R returns
 * to saturated_rate at once.
 */
#define WEIR_COMMITTED_OVERSHOOT 8
/*
 * ns without waiting after which a service that exceeds its committed share is a newcomer: several
 * intervals of the law.
 */
#define WEIR_NEWCOMER 100000000ULL

/* Largest per-CPU batch, bytes: two of the largest buffers. */
#define WEIR_CPU_BATCH_MAX WEIR_LEASE_MAX
/* Shift from a burst to the part that all per-CPU batches of a limiter share: an eighth. */
#define WEIR_CPU_BATCH_SPREAD 3
/* ns: longest tick whose time can replace a clock read, half of the time that a burst lasts. */
#define WEIR_TICK_TIME_MAX 500000ULL
/* The batch or packet has no destination limiter. */
#define WEIR_NO_DESTINATION WEIR_U32_MAX

/* The limiter by which a packet leaves. */
#define WEIR_LEAVES_COMMITTED 0
#define WEIR_LEAVES_EXCESS 1
#define WEIR_LEAVES_NEVER 2
/* Flag beside these: the service newly exceeds its committed share. */
#define WEIR_LEAVES_NEWCOMER 4

/* Parameters of an interface. */
struct weir_pacing {
	u64 rate;    /* bit/s of the interface; 0 is unlimited */
	u64 horizon; /* ns that a packet can wait */
	u32 queue;   /* bytes that can wait longer than the horizon */
	u32 burst;   /* bytes: smallest burst of a limiter */
	u32 sharing; /* WEIR_SHARE_* */
	u32 spread;  /* shift from a burst to one CPU's batch: 3 + log2 of the number of CPUs */
};

/* Parameters of a service that sends. */
struct weir_sending {
	u64 min;          /* bit/s of the interface, the guarantee */
	u64 max;          /* bit/s of the interface; 0 is unlimited */
	u64 limit;        /* bit/s while an agent runs, at most `max`; 0: static_limit */
	u64 static_limit; /* bit/s while no agent runs; 0 is unlimited */
	u32 weight;       /* thousandths, at least 1 */
	u32 generation;   /* changes with min, max or weight */
};

/* Egress state of a service. */
struct weir_sender {
	struct weir_limiter root;
	struct weir_limiter committed;
	struct weir_lease lease; /* for packets without a destination limiter */
	u64 fair_rate;           /* bit/s: the R from which `committed` was computed */
	u64 latest;              /* ns: the last departure */
	u64 waited_at;           /* ns: when the service last exceeded its committed share */
	u64 sent;                /* bytes with a departure */
	u64 dropped;             /* buffers beyond the horizon */
	u32 generation;          /* of the weir_sending from which `committed` was computed */
	u32 reserved;
};

/* Egress state of an interface. */
struct weir_machine_egress {
	struct weir_limiter limiter;
	u64 committed; /* bytes that left as committed */
	u64 sent;      /* bytes that left */
	u64 newcomers; /* number of times that a service newly exceeded its committed share */
};

/* Packets of a service that one CPU let leave at once and has not charged yet. */
struct weir_cpu_batch {
	u64 due;    /* ns: the next tick, until which the batch is valid */
	u32 room;   /* bytes that can still leave; 0: none */
	u32 unpaid; /* bytes to charge; they left as committed */
	u32 slot;   /* of the destination, or WEIR_NO_DESTINATION */
	u32 reserved;
};

/* Sets the rate of a limiter, and its burst, if the rate is new. */
WEIR_INLINE void weir_pacing_set(const struct weir_pacing *pacing, struct weir_limiter *limiter, u64 now, u64 rate)
{
	u64 burst = rate / WEIR_BURST_PART;

	if (limiter->rate == rate)
		return;
	if (burst < pacing->burst)
		burst = pacing->burst;
	if (burst > WEIR_CHARGE_MAX)
		burst = WEIR_CHARGE_MAX;
	weir_limiter_set_rate(limiter, weir_limiter_rate_from(limiter, now, rate, pacing->horizon), rate);
	weir_limiter_set_burst(limiter, (u32)burst);
}

/*
 * Prepares a destination limiter for a new `rate` at `now`: an increase holds from the next departure at
 * the present rate.
 */
WEIR_INLINE void weir_pacing_feedback(const struct weir_pacing *pacing, struct weir_limiter *limiter, u64 now, u64 rate)
{
	weir_limiter_settle(limiter, weir_limiter_rate_from(limiter, now, rate, pacing->horizon));
}

/* Returns 1 if a packet that `limiter` lets leave at `departure` is beyond the horizon. */
WEIR_INLINE int weir_pacing_beyond(const struct weir_pacing *pacing, const struct weir_limiter *limiter, u64 now,
				   u64 departure)
{
	if (departure <= now || departure - now <= pacing->horizon)
		return 0;
	return limiter->owed > limiter->burst &&
		limiter->owed - limiter->burst > pacing->queue * WEIR_NANOBITS_PER_BYTE;
}

/*
 * Charges a packet of `bytes`, offered at `now`, to a destination limiter, which comes before all
 * others. Returns 0 and the departure, or 1 if the packet is beyond the horizon.
 */
WEIR_INLINE int weir_pacing_pass(const struct weir_pacing *pacing, struct weir_limiter *limiter, u64 now, u32 bytes,
				 u64 *departure)
{
	*departure = weir_limiter_earliest(limiter, now);
	if (weir_pacing_beyond(pacing, limiter, now, *departure))
		return 1;
	weir_limiter_charge(limiter, bytes);
	return 0;
}

/*
 * Returns 1 if the limiter's departure does not depend on a clock read: the packet leaves at once
 * at any time, or later than `then` and at most half of the horizon after it. Such a departure is
 * the same for any settling time. Near the horizon the exact time decides about a drop, and a tick
 * can be late. `unpaid` bytes are to be charged, and `left` bytes to be refunded.
 */
WEIR_INLINE int weir_departure_is_clear(const struct weir_limiter *limiter, u32 unpaid, u32 left, u64 then, u64 horizon)
{
	u64 owed = limiter->owed + unpaid * WEIR_NANOBITS_PER_BYTE;
	u64 least = limiter->burst + left * WEIR_NANOBITS_PER_BYTE;
	u64 elapsed = then > limiter->paid_at ? then - limiter->paid_at : 0;
	u64 latest = then + horizon / 2, most;

	if (!limiter->rate || owed <= limiter->burst)
		return 1;
	/* another packet settled the limiter by the clock, and ticks are late */
	if (latest <= limiter->paid_at)
		return 0;
	most = latest - limiter->paid_at;
	return most < limiter->drain_ns && limiter->owed > least && limiter->owed - least > elapsed * limiter->rate &&
	       owed - limiter->burst < most * limiter->rate;
}

/*
 * Returns the timestamp of the last tick if it is accurate enough to replace a clock read (about
 * 20 % of the per-packet cost), else 0. It is accurate enough if, by the service's limiters and
 * `destination` (which can be null), the packet leaves at once at any time, or waits beyond the
 * tick after the next one and not long. After a pause the time between tick and clock can repay
 * twice, so a window carries up to one `tick` (ns) at the rate more. The next tick is due at `due`.
 * `unpaid` belongs to the batch.
 */
WEIR_INLINE u64 weir_departure_tick_time(const struct weir_sender *sender, const struct weir_limiter *destination,
					 u32 unpaid,
				      const struct weir_lease *lease, const struct weir_pacing *pacing, u64 tick,
				      u64 due)
{
	u64 then = due + tick, horizon = pacing->horizon;
	u32 left = *(const volatile u64 *)&lease->left >> 32;
	u64 last = lease->charged ? weir_lease_next(lease, left) : lease->last;

	if (tick > WEIR_TICK_TIME_MAX || due <= tick)
		return 0;
	/* only the clock decides whether the previous packet has left */
	if (last > due - tick && last <= then)
		return 0;
	if (destination && !weir_departure_is_clear(destination, unpaid, left, then, horizon))
		return 0;
	if (!weir_departure_is_clear(&sender->root, unpaid, left, then, horizon) ||
	    !weir_departure_is_clear(&sender->committed, unpaid, left, then, horizon))
		return 0;
	return due - tick;
}

/* Returns 1 if a packet to `slot` leaves at once in the batch and is charged later. */
WEIR_INLINE int weir_cpu_batch_pass(struct weir_cpu_batch *batch, u64 due, u32 slot, u32 bytes)
{
	if (batch->due != due || batch->slot != slot || batch->room < bytes)
		return 0;
	batch->room -= bytes;
	batch->unpaid += bytes;
	return 1;
}

/*
 * A delayed packet closes this CPU's batch, so later packets cannot overtake it. Returns 1 if
 * packets to the same slot can have left in the batch since the last tick: the delayed packet must
 * then not depart before the clock's time.
 */
WEIR_INLINE int weir_cpu_batch_end(struct weir_cpu_batch *batch, u64 due, u32 slot)
{
	batch->room = 0;
	return batch->due == due && batch->slot == slot;
}

/* Returns the bytes that `limiter` allows one CPU as a batch. */
WEIR_INLINE u32 weir_cpu_batch_room(const struct weir_pacing *pacing, const struct weir_limiter *limiter)
{
	u64 room;

	if (!limiter->rate)
		return WEIR_CPU_BATCH_MAX;
	if (limiter->owed >= limiter->burst)
		return 0;
	room = limiter->burst >> (pacing->spread & 63);
	if (room > limiter->burst - limiter->owed)
		room = limiter->burst - limiter->owed;
	room >>= 33; /* nanobits to bytes: 8.6 * 10^9 instead of 8 * 10^9 avoids a division */
	return room < WEIR_CPU_BATCH_MAX ? (u32)room : WEIR_CPU_BATCH_MAX;
}

/*
 * Returns the root limit in bit/s, 0 is unlimited. The brokers' limit does
 * not count if `static_only`.
 */
WEIR_INLINE u64 weir_sending_limit(const struct weir_sending *rules, u32 static_only)
{
	return static_only || !rules->limit ? rules->static_limit : rules->limit;
}

/*
 * First half of a departure: the service's limiters. Returns WEIR_LEAVES_*, possibly with
 * WEIR_LEAVES_NEWCOMER. `meter` is the interface's. `machine` is only read and can change
 * meanwhile. `departure` is on input the destination limiter's time, or `now`.
 */
WEIR_INLINE u32 weir_sender_departure(struct weir_sender *sender, const struct weir_sending *rules,
				      const struct weir_pacing *pacing, const struct weir_interface_meter *meter,
				      const struct weir_machine_egress *machine, u64 now, u32 bytes, u32 static_only,
				      u64 *departure)
{
	u64 rate = *(const volatile u64 *)&meter->rate;
	u64 root, own;
	u32 leaves = WEIR_LEAVES_COMMITTED, newcomer = 0;

	weir_pacing_set(pacing, &sender->root, now, weir_sending_limit(rules, static_only));
	if (sender->fair_rate != rate || sender->generation != rules->generation) {
		sender->fair_rate = rate;
		sender->generation = rules->generation;
		weir_pacing_set(pacing, &sender->committed, now,
				weir_interface_meter_share(meter, pacing->sharing, rules->min, rules->max,
							   rules->weight));
	}
	root = weir_limiter_earliest(&sender->root, now);
	own = weir_limiter_earliest(&sender->committed, now);
	if (weir_pacing_beyond(pacing, &sender->root, now, root))
		leaves = WEIR_LEAVES_NEVER;
	if (leaves == WEIR_LEAVES_COMMITTED && own > now && own > root) {
		struct weir_limiter all = machine->limiter;
		u64 excess = weir_limiter_earliest(&all, now);

		if (excess < own)
			leaves = weir_pacing_beyond(pacing, &all, now, excess) ? WEIR_LEAVES_NEVER : WEIR_LEAVES_EXCESS;
		else if (weir_pacing_beyond(pacing, &sender->committed, now, own))
			leaves = WEIR_LEAVES_NEVER;
	}
	if (leaves == WEIR_LEAVES_NEVER) {
		sender->dropped += 1;
		return leaves;
	}
	weir_limiter_charge(&sender->root, bytes);
	if (root > *departure)
		*departure = root;
	if (leaves == WEIR_LEAVES_COMMITTED) {
		weir_limiter_charge(&sender->committed, bytes);
		if (own > *departure)
			*departure = own;
	}
	/* the time of a tick can lie before the time of another packet */
	if (own > now && now > sender->waited_at) {
		if (now - sender->waited_at > WEIR_NEWCOMER)
			newcomer = WEIR_LEAVES_NEWCOMER;
		sender->waited_at = now;
	}
	sender->sent += bytes;
	return leaves | newcomer;
}

/* Second half of a departure, for a packet that leaves: the machine limiter. */
WEIR_INLINE void weir_machine_egress_departure(struct weir_machine_egress *machine, const struct weir_pacing *pacing,
					       u64 now, u32 bytes,
					u32 leaves, u64 *departure)
{
	u64 excess;

	weir_pacing_set(pacing, &machine->limiter, now, pacing->rate);
	excess = weir_limiter_departure(&machine->limiter, now, bytes);
	machine->sent += bytes;
	machine->newcomers += leaves / WEIR_LEAVES_NEWCOMER;
	if (leaves % WEIR_LEAVES_NEWCOMER == WEIR_LEAVES_COMMITTED)
		machine->committed += bytes;
	else if (excess > *departure)
		*departure = excess;
}

/*
 * Charges `bytes` that have left on latency levels since the last tick, with the framing of links: they leave before
 * all others, so they count as committed, and excess packets wait for them.
 */
WEIR_INLINE void weir_machine_egress_levels(struct weir_machine_egress *machine, const struct weir_pacing *pacing,
					    u64 now, u64 bytes)
{
	weir_pacing_set(pacing, &machine->limiter, now, pacing->rate);
	weir_limiter_settle(&machine->limiter, now);
	weir_limiter_charge(&machine->limiter, bytes < WEIR_CHARGE_MAX ? (u32)bytes : WEIR_CHARGE_MAX);
	machine->sent += bytes;
	machine->committed += bytes;
}

/* Ends a lease with `left` remaining bytes: counts the used bytes and refunds the others. */
WEIR_INLINE void weir_depart_return(const struct weir_lease *lease, u32 left, struct weir_limiter *destination,
				    struct weir_sender *sender,
				    struct weir_machine_egress *machine)
{
	u32 used = lease->charged - left;

	if (destination)
		weir_lease_return(lease, destination, left);
	weir_lease_return(lease, &sender->root, left);
	weir_lease_return(lease, &sender->committed, left);
	weir_lease_return(lease, &machine->limiter, left);
	sender->sent += used;
	machine->sent += used;
	machine->committed += used;
}

/*
 * Starts a lease of at most `wanted` bytes after a packet of `bytes` that waits until `departure`.
 * Starts none if the limiters allow less than another packet of this size.
 */
WEIR_INLINE void weir_depart_lease(struct weir_lease *lease, struct weir_limiter *destination,
				   struct weir_sender *sender,
				   struct weir_machine_egress *machine, const struct weir_pacing *pacing, u64 now,
				   u32 bytes, u32 wanted,
				   u64 departure)
{
	u64 end = departure, step;

	wanted = weir_lease_part(&sender->root, now, wanted);
	wanted = weir_lease_part(&sender->committed, now, wanted);
	if (destination)
		wanted = weir_lease_part(destination, now, wanted);
	if (wanted < bytes)
		return;
	end = weir_lease_after(&sender->root, wanted, end);
	end = weir_lease_after(&sender->committed, wanted, end);
	if (destination)
		end = weir_lease_after(destination, wanted, end);
	if (end - departure > WEIR_LEASE_TIME || end > now + pacing->horizon)
		return;
	/* at most 2^16 * 10^6 / 120, since two frames are at least 120 bytes */
	step = ((end - departure) << 16) / ((u64)bytes + wanted) + 1;
	if (destination) {
		weir_lease_charge(destination, wanted);
		now = weir_lease_later(destination, now);
	}
	weir_lease_charge(&sender->root, wanted);
	weir_lease_charge(&sender->committed, wanted);
	weir_lease_charge(&machine->limiter, wanted);
	now = weir_lease_later(&sender->root, now);
	now = weir_lease_later(&sender->committed, now);
	lease->charged_at = weir_lease_later(&machine->limiter, now);
	lease->charged = wanted;
	lease->step = (u32)step;
	lease->end = departure + (((u64)bytes + wanted) * step >> 16);
	weir_lease_begin(lease);
}

/*
 * Processes, under the lock, a packet that neither the CPU's batch nor the lease covers: charges
 * the batch, ends the lease, computes the packet's departure, and starts another batch if the
 * packet leaves at once, or another lease if it waits. `paid` is the limiter of the batch's
 * destination, `destination` that of the packet's, at `slot`; either can be null. `due` is the time
 * of the next tick. Returns WEIR_LEAVES_*.
 */
WEIR_INLINE u32 weir_depart(struct weir_cpu_batch *batch, struct weir_limiter *paid, struct weir_limiter *destination,
			    u32 slot,
			    struct weir_lease *lease, struct weir_sender *sender, const struct weir_sending *rules,
			    const struct weir_pacing *pacing, const struct weir_interface_meter *meter,
			    struct weir_machine_egress *machine, u64 now, u64 due, u32 bytes, u32 static_only,
			    u64 *departure)
{
	u32 unpaid = batch->unpaid, left = weir_lease_end(lease), leaves, room, other;
	u32 wanted = weir_lease_wanted(lease, left, due, bytes);
	u64 last = lease->last;

	batch->room = 0;
	batch->unpaid = 0;
	if (unpaid) {
		if (paid)
			weir_limiter_charge(paid, unpaid);
		weir_limiter_charge(&sender->root, unpaid);
		weir_limiter_charge(&sender->committed, unpaid);
		weir_limiter_charge(&machine->limiter, unpaid);
		sender->sent += unpaid;
		machine->sent += unpaid;
		machine->committed += unpaid;
	}
	if (lease->charged) {
		if (left != lease->charged)
			last = weir_lease_next(lease, left);
		weir_depart_return(lease, left, destination, sender, machine);
		lease->charged = 0;
		lease->last = last;
	}
	lease->due = due;
	*departure = now;
	if (destination && weir_pacing_pass(pacing, destination, now, bytes, departure))
		return WEIR_LEAVES_NEVER;
	leaves = weir_sender_departure(sender, rules, pacing, meter, machine, now, bytes, static_only, departure);
	if (leaves == WEIR_LEAVES_NEVER) {
		if (destination)
			weir_limiter_refund(destination, bytes);
		return leaves;
	}
	weir_machine_egress_departure(machine, pacing, now, bytes, leaves, departure);
	/* a refund, or a limit that was lifted */
	if (last > *departure && last - *departure <= pacing->horizon)
		*departure = last;
	sender->latest = *departure;
	lease->last = *departure > now ? *departure : 0;
	if (leaves == WEIR_LEAVES_COMMITTED && *departure > now)
		weir_depart_lease(lease, destination, sender, machine, pacing, now, bytes, wanted, *departure);
	/* a sender of buffers larger than a batch has no use for one */
	if (leaves != WEIR_LEAVES_COMMITTED || *departure > now || bytes > WEIR_CPU_BATCH_MAX)
		return leaves;
	room = weir_cpu_batch_room(pacing, &sender->root);
	other = weir_cpu_batch_room(pacing, &sender->committed);
	if (other < room)
		room = other;
	if (destination) {
		other = weir_cpu_batch_room(pacing, destination);
		if (other < room)
			room = other;
	}
	batch->due = due;
	batch->room = room;
	batch->slot = destination ? slot : WEIR_NO_DESTINATION;
	return leaves;
}

/*
 * Counts the `bytes` that left as committed since the last tick, and runs the law when the
 * window is over. `newcomer`: a service newly exceeds its committed share. A window can
 * close `slack` ns early.
 */
WEIR_INLINE void weir_sending_tick(struct weir_interface_meter *meter, u64 now, u64 bytes, u32 newcomer, u64 slack)
{
	u64 elapsed = weir_window_elapsed(&meter->window, now);
	u64 floor = weir_interface_meter_floor(meter);
	u64 counted;

	if (!meter->capacity)
		return;
	if (floor < meter->saturated_rate)
		floor = meter->saturated_rate;
	if (newcomer) {
		meter->rate = floor;
		weir_window_open(&meter->window, now);
		return;
	}
	if (!bytes)
		return;
	weir_window_add(&meter->window, bytes, 0, 0);
	if (!weir_tick_closes(elapsed, meter->law.interval, slack, &counted))
		return;
	meter->usage = weir_window_usage(&meter->window, elapsed);
	meter->rate = weir_law_run(&meter->law, meter->rate, meter->capacity, floor, meter->usage, counted, 0);
	if (meter->usage > meter->capacity &&
	    meter->usage - meter->capacity > meter->capacity / WEIR_COMMITTED_OVERSHOOT)
		meter->rate = floor;
	weir_window_open(&meter->window, now);
}

#endif
