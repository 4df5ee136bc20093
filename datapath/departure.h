/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * When a packet leaves an interface that all services of a machine share, where a qdisc (fq) waits for the time that is written on it.
 *
 * Problem: a time is given once, when the packet is handed over, and never taken back. One clock for the whole interface, by
 * which packets leave in the order in which they come, gives the interface to whoever hands over most; a rate for each service
 * wastes what the others do not use. Approach: two clocks of a service and one of the machine (limiter.h), and two ways to leave.
 *
 *   root       the service's limit: the brokers', or its own maximum while no agent is alive. Holds every packet.
 *   entitled   what the policy's rule gives the service of the interface now. A packet that it lets go leaves whatever the
 *              machine's clock says: guarantees do not wait behind what others have handed over.
 *   machine    the interface's rate; every packet is charged to it. What is beyond `entitled` may leave when all that was
 *              charged is paid: it takes what is spare, first come first served.
 *
 *   departure = max(destination, root, min(entitled, machine))
 *
 * The packet is charged to the clock by which it leaves, to the machine's and to those above. What is entitled sums up to the interface's
 * rate, so the machine's clock holds back only what is not.
 *
 * What a service is entitled to follows from one level R for all, as on the receiving side (interface_meter.h: fill or add, min, max,
 * weight), and a timer runs the same law on it, against what leaves as entitled. While that is less than the interface carries R rises,
 * so that what idle services leave is shared by weight and not by who comes first; while it is more R falls. It never falls below the
 * level at which the rule shares out everything while all want everything: that is never too much. It falls there at once when
 * much more leaves as entitled than the interface carries, or when a service begins to want more than it is entitled to: until R is found
 * anew, what is left over goes to who comes first. Being wrong about R costs fairness of that part, neither guarantees nor throughput,
 * so it is found slowly: what is handed over is late by what waits, up to the horizon, and a law with an interval below that swings.
 * With an interval of the horizon and a = 1/4, R comes to its place without going beyond.
 *
 * The law aims at WEIR_COMMITTED_PART less than the interface's rate. While R is too high more can leave than the interface carries, and
 * that waits in the qdisc; the margin drains it, and while nothing waits it is given out as spare.
 *
 * Batches. All clocks of an interface are under one lock, which costs as much as all the rest of a departure. So while nothing has to wait, a CPU lets
 * some packets of a service leave before it charges them (struct weir_cpu_batch), and takes the lock once for all of them. It does so within a
 * tick, towards one destination, and up to an eighth of the smallest burst for all CPUs together. A window carries as much more, and what
 * the rate carries between two ticks where the last one's time stands for the clock (weir_departure_tick_time).
 *
 * What waits takes its departure from a grant (lease.h), for which the clocks are looked at once for several packets, too.
 *
 * The horizon. Nothing limits what is handed over before its time (local senders are held by their sockets' buffers, guests by nothing).
 * So a packet that would wait for longer than the horizon is dropped, unless what waits before it is less than 128 frames: at
 * low rates that takes longer. The numbers are those of an HTB class's queue. It is charged to the clocks above the one that
 * refuses it, as by a queue behind a queue.
 *
 * Bounds: those of limiter.h and interface_meter.h. When a rate rises, packets that have their time keep it, and later ones may get
 * an earlier one: by fq a flow then is out of order.
 * Where one CPU's packet has to wait, another's may leave before it what is left of a batch: once, until the next tick. A limit that falls is
 * obeyed when the batch and the grant are at an end: at the next tick at the latest.
 *
 * Worked example: 100 Mb/s, two services of weight 1, so R = 49.2 Mb/s while both want everything. The first alone hands over 1,500 B each
 * 100 us: by `entitled` the n-th packet leaves at n * 244 us, by the machine's clock at n * 120 us, so it leaves by that, spare. R
 * rises to 98.4 Mb/s in some intervals of 20 ms, and it leaves as entitled. The second comes: its packets leave at once, and when the first
 * that has to wait is seen R is 49.2 Mb/s again, at the next tick.
 *
 * Source: Saeed et al., Carousel, SIGCOMM 2017 (one time stamp from several limits, a horizon); EyeQ section 4.2 (root and
 * destination limiters); the clock of what is entitled beside the machine's is ours, after committed and excess rates of RFC 2698.
 */
#ifndef WEIR_DEPARTURE_H
#define WEIR_DEPARTURE_H

#include "lease.h"
#include "limiter.h"
#include "receive_tick.h"

/* The law aims at the interface's rate less this part of it. */
#define WEIR_COMMITTED_PART 64
/* Bytes that a rate carries in 1 ms, from bit/s: what may leave at once after a pause, at least (crates/linux/src/class.rs). */
#define WEIR_BURST_PART 8000

/* More than this part of the interface's rate above it is too much to be lowered step by step. */
#define WEIR_COMMITTED_OVERSHOOT 8
/* ns after which a service that has to wait again is a newcomer: several intervals. */
#define WEIR_NEWCOMER 100000000ULL

/* Bytes that one CPU may let leave before it charges them, at most: two of the largest buffers. */
#define WEIR_CPU_BATCH_MAX WEIR_LEASE_MAX
/* Of a burst, so many bits less are for all CPUs together: an eighth. */
#define WEIR_CPU_BATCH_SPREAD 3
/* ns between two ticks, at most, where the last one's time does for the clock's: half of the time that a burst is of. */
#define WEIR_TICK_TIME_MAX 500000ULL
/* No destination. */
#define WEIR_NO_DESTINATION WEIR_U32_MAX

/* By which clock a packet leaves. */
#define WEIR_LEAVES_COMMITTED 0
#define WEIR_LEAVES_EXCESS 1
#define WEIR_LEAVES_NEVER 2
/* Beside these: its service wants more than it is entitled to, and did not lately. */
#define WEIR_LEAVES_NEWCOMER 4

/* How an interface is paced. */
struct weir_pacing {
	u64 rate;    /* bit/s of the interface; 0 is unlimited */
	u64 horizon; /* ns that a packet may wait */
	u32 queue;   /* bytes that may wait for longer */
	u32 burst;   /* bytes that may leave at once after a pause, at least */
	u32 sharing; /* WEIR_SHARE_* */
	u32 spread;  /* bits: 2^-spread of a burst is one CPU's batch */
};

/* What a service may send. */
struct weir_sending {
	u64 min;     /* bit/s, as the next ones; of the interface */
	u64 max;     /* of the interface; 0 is unlimited, as the next ones */
	u64 limit;   /* the brokers' */
	u64 ceiling; /* without them */
	u32 weight;  /* thousandths, at least 1 */
	u32 generation; /* another one: min, max or weight are new */
};

/* A service's sending side. */
struct weir_sender {
	struct weir_limiter root;
	struct weir_limiter committed;
	struct weir_lease lease; /* of what no destination's limiter holds */
	u64 fair_rate;   /* the R that `entitled` follows from */
	u64 latest;  /* ns: the last departure */
	u64 waited_at; /* ns: when it last wanted more than it is entitled to */
	u64 sent;    /* bytes that were given a departure */
	u64 excess;   /* of them, those that left as spare */
	u64 dropped; /* buffers beyond the horizon */
	u32 generation;
	u32 reserved;
};

/* The interface's. */
struct weir_machine_egress {
	struct weir_limiter limiter;
	u64 committed; /* bytes that left as entitled */
	u64 sent;     /* all */
	u64 newcomers; /* times that a service began to want more than it is entitled to */
};

/* What one CPU has let leave of a service, and not yet charged. */
struct weir_cpu_batch {
	u64 due;    /* ns: when the tick is due before which it may let more leave */
	u32 room;   /* bytes of these; 0: none */
	u32 unpaid; /* bytes to be charged; they left as entitled */
	u32 slot;  /* the destination's slot, or WEIR_NO_DESTINATION */
	u32 reserved;
};

/* Gives a clock its rate, where that is another than it has. */
WEIR_INLINE void weir_pacing_set(const struct weir_pacing *pacing, struct weir_limiter *limiter, u64 now, u64 rate)
{
	u64 burst = rate / WEIR_BURST_PART;

	if (limiter->rate == rate)
		return;
	if (burst < pacing->burst)
		burst = pacing->burst;
	if (burst > WEIR_CHARGE_MAX)
		burst = WEIR_CHARGE_MAX;
	weir_limiter_set_rate(limiter, now, rate);
	weir_limiter_set_burst(limiter, (u32)burst);
}

/* 1: a packet that `limiter` lets leave at `departure` is beyond the horizon. */
WEIR_INLINE int weir_pacing_beyond(const struct weir_pacing *pacing, const struct weir_limiter *limiter, u64 now, u64 departure)
{
	if (departure <= now || departure - now <= pacing->horizon)
		return 0;
	return limiter->owed > limiter->burst && limiter->owed - limiter->burst > pacing->queue * WEIR_NANOBITS_PER_BYTE;
}

/*
 * A packet of `bytes`, offered at `now`, passes a limiter of its own before all others, a destination's. 0, and when it leaves by that;
 * or 1: never.
 */
WEIR_INLINE int weir_pacing_pass(const struct weir_pacing *pacing, struct weir_limiter *limiter, u64 now, u32 bytes, u64 *departure)
{
	*departure = weir_limiter_earliest(limiter, now);
	if (weir_pacing_beyond(pacing, limiter, now, *departure))
		return 1;
	weir_limiter_charge(limiter, bytes);
	return 0;
}

/*
 * 1: the clock says nothing new of a packet: it leaves at once whatever the time is, or later than `then` in any case and by half of the horizon
 * at most. Its departure is the same at whatever time before that what is owed was last paid. What is near the horizon is refused by what time it is, and a
 * tick may be late. `unpaid` bytes are to be charged, and `left` given back.
 */
WEIR_INLINE int weir_departure_is_clear(const struct weir_limiter *limiter, u32 unpaid, u32 left, u64 then, u64 horizon)
{
	u64 owed = limiter->owed + unpaid * WEIR_NANOBITS_PER_BYTE;
	u64 least = limiter->burst + left * WEIR_NANOBITS_PER_BYTE;
	u64 elapsed = then > limiter->paid_at ? then - limiter->paid_at : 0;
	u64 latest = then + horizon / 2, most;

	if (!limiter->rate || owed <= limiter->burst)
		return 1;
	/* another packet looked at the clock, and ticks are late */
	if (latest <= limiter->paid_at)
		return 0;
	most = latest - limiter->paid_at;
	return most < limiter->drain_ns && limiter->owed > least && limiter->owed - least > elapsed * limiter->rate &&
	       owed - limiter->burst < most * limiter->rate;
}

/*
 * The time of the last tick where that does for the clock's, which costs a fifth of what is done for a packet in all; or 0. It does where a packet leaves
 * at once by its service's clocks and `destination`, where it has one, whatever the time is, or waits beyond the tick after the next and not for long. What was
 * paid between the two times may be paid once more after a pause: a window carries as much more as the rate does between two ticks of `tick` ns.
 * The next is due at `due`; `unpaid` is of the CPU's batch.
 */
WEIR_INLINE u64 weir_departure_tick_time(const struct weir_sender *sender, const struct weir_limiter *destination, u32 unpaid,
				      const struct weir_lease *lease, const struct weir_pacing *pacing, u64 tick, u64 due)
{
	u64 then = due + tick, horizon = pacing->horizon;
	u32 left = *(const volatile u64 *)&lease->left >> 32;
	u64 last = lease->charged ? weir_lease_next(lease, left) : lease->last;

	if (tick > WEIR_TICK_TIME_MAX || due <= tick)
		return 0;
	/* whether the packet before it has left already, the clock alone knows */
	if (last > due - tick && last <= then)
		return 0;
	if (destination && !weir_departure_is_clear(destination, unpaid, left, then, horizon))
		return 0;
	if (!weir_departure_is_clear(&sender->root, unpaid, left, then, horizon) ||
	    !weir_departure_is_clear(&sender->committed, unpaid, left, then, horizon))
		return 0;
	return due - tick;
}

/* 1: a packet to `place` leaves at once, and is charged later. */
WEIR_INLINE int weir_cpu_batch_pass(struct weir_cpu_batch *batch, u64 due, u32 slot, u32 bytes)
{
	if (batch->due != due || batch->slot != slot || batch->room < bytes)
		return 0;
	batch->room -= bytes;
	batch->unpaid += bytes;
	return 1;
}

/*
 * What waits ends its CPU's batch, so that none leaves before it. 1: packets to the same place may have left in it since the last tick, so that
 * it must not leave before now.
 */
WEIR_INLINE int weir_cpu_batch_end(struct weir_cpu_batch *batch, u64 due, u32 slot)
{
	batch->room = 0;
	return batch->due == due && batch->slot == slot;
}

/* What `limiter` lets one CPU have as a batch, bytes. */
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
	room >>= 33; /* by 8.6 * 10^9 instead of 8 * 10^9: no division */
	return room < WEIR_CPU_BATCH_MAX ? (u32)room : WEIR_CPU_BATCH_MAX;
}

/* What a service may send: brokers count unless `alone`. */
WEIR_INLINE u64 weir_sending_limit(const struct weir_sending *rules, u32 static_only)
{
	if (static_only || !rules->limit)
		return rules->ceiling;
	return rules->ceiling && rules->ceiling < rules->limit ? rules->ceiling : rules->limit;
}

/*
 * First half: WEIR_LEAVES_*, perhaps with WEIR_LEAVES_NEWCOMER, and the departure by the service's own clocks. `machine` is only read, and may change meanwhile.
 * `level` is the interface's; `departure` comes in as what a destination's limiter said, or `now`.
 */
WEIR_INLINE u32 weir_sender_departure(struct weir_sender *sender, const struct weir_sending *rules,
				      const struct weir_pacing *pacing, const struct weir_interface_meter *meter,
				      const struct weir_machine_egress *machine, u64 now, u32 bytes, u32 static_only, u64 *departure)
{
	u64 rate = *(const volatile u64 *)&meter->rate;
	u64 root, own;
	u32 leaves = WEIR_LEAVES_COMMITTED, newcomer = 0;

	weir_pacing_set(pacing, &sender->root, now, weir_sending_limit(rules, static_only));
	if (sender->fair_rate != rate || sender->generation != rules->generation) {
		sender->fair_rate = rate;
		sender->generation = rules->generation;
		weir_pacing_set(pacing, &sender->committed, now,
				weir_interface_meter_share(meter, pacing->sharing, rules->min, rules->max, rules->weight));
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
	} else {
		sender->excess += bytes;
	}
	/* the time of a tick may lie before another packet's */
	if (own > now && now > sender->waited_at) {
		if (now - sender->waited_at > WEIR_NEWCOMER)
			newcomer = WEIR_LEAVES_NEWCOMER;
		sender->waited_at = now;
	}
	sender->sent += bytes;
	sender->latest = *departure;
	return leaves | newcomer;
}

/* Second half, for what leaves at all. */
WEIR_INLINE void weir_machine_egress_departure(struct weir_machine_egress *machine, const struct weir_pacing *pacing, u64 now, u32 bytes,
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

/* A grant ends, with `left` bytes: what was used is counted, the rest given back. */
WEIR_INLINE void weir_depart_return(const struct weir_lease *lease, u32 left, struct weir_limiter *destination, struct weir_sender *sender,
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

/* A grant begins, of at most `wanted` bytes after a packet of `bytes` that waits until `departure`; none if that is less than it has. */
WEIR_INLINE void weir_depart_lease(struct weir_lease *lease, struct weir_limiter *destination, struct weir_sender *sender,
				   struct weir_machine_egress *machine, const struct weir_pacing *pacing, u64 now, u32 bytes, u32 wanted,
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
	/* at most 2^16 * 10^6 by 120 */
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
 * What a packet does that is neither in its CPU's batch nor in the grant of its place, under the lock: charges the batch, ends the grant, finds
 * the packet's departure, and begins another batch where nothing has to wait and another grant where it has. `paid` is the limiter of the batch's
 * destination and `destination` that of the packet's, at `place`; null where there is none. `due` is when the next tick is. WEIR_LEAVES_*.
 */
WEIR_INLINE u32 weir_depart(struct weir_cpu_batch *batch, struct weir_limiter *paid, struct weir_limiter *destination, u32 slot,
			    struct weir_lease *lease, struct weir_sender *sender, const struct weir_sending *rules,
			    const struct weir_pacing *pacing, const struct weir_interface_meter *meter,
			    struct weir_machine_egress *machine, u64 now, u64 due, u32 bytes, u32 static_only, u64 *departure)
{
	u32 unpaid = batch->unpaid, left = weir_lease_end(lease), wanted = weir_lease_wanted(lease, left, due, bytes), leaves, room, other;
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
	if (leaves == WEIR_LEAVES_NEVER)
		return leaves;
	weir_machine_egress_departure(machine, pacing, now, bytes, leaves, departure);
	if (last > *departure && last - *departure <= WEIR_LEASE_TIME)
		*departure = last;
	lease->last = *departure > now ? *departure : 0;
	if (leaves == WEIR_LEAVES_COMMITTED && *departure > now)
		weir_depart_lease(lease, destination, sender, machine, pacing, now, bytes, wanted, *departure);
	/* who hands over more than a batch at a time makes no use of one */
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
 * Counts what left as entitled since the last tick, if anything did. `newcomer`: a service began to want more than that. A
 * window may close `slack` early.
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
	if (meter->usage > meter->capacity && meter->usage - meter->capacity > meter->capacity / WEIR_COMMITTED_OVERSHOOT)
		meter->rate = floor;
	weir_window_open(&meter->window, now);
}

#endif
