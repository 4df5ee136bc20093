/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Interface meter: the fair rate R that shares a host's capacity among its services.
 *
 * The set of active services changes faster than brokers react. The interface meter therefore runs
 * the rate law of the receive meters one level up. It finds one rate R per unit of weight at which
 * all services together use the interface's capacity C. The capacity of a service follows by the
 * policy's rule from its guarantee (min), limit (max) and weight:
 *
 *   fill:  R * weight, clipped to [min, max]
 *   add:   min + R * weight, at most max
 *
 * The caller also applies the brokers' limit; the smaller value counts. R is the rate of the
 * lightest weight. It ranges from 1 % of the lightest service's share to C. It starts at
 * that share, so guarantees hold from the first packet. C must be below the link's rate,
 * which usage cannot exceed.
 *
 * Own queue: the egress queue of the switch port towards this interface. The interface is
 * full if usage is above C, by 1/15 of C at most. The own queue then grows or stands, and its
 * marks count by service:
 *
 *                                               at its receive meter        at the interface meter
 *   the interface is not full                   count                       do not count
 *   full, the service sends 5/8 of all or more  do not count                do not count
 *   full, the service is below its committed    halve R at most, for good   R falls, see below
 *   full, other services                        halve R at most, for good   R does not rise
 *
 * The first row that fits applies. The third row needs marks on 5/8 of the packets of all services
 * below their committed rate, and sets R to saturated_rate. Both rates are what the rule yields
 * while all services are backlogged. No service exceeds its fair share while another one is below
 * its own and queueing.
 *
 * Search: while the link is saturated and nothing is marked, usage does not show how much more was
 * sent. R then falls in steps that double, every other window, to saturated_rate at the lowest.
 *
 * Worked example: C = 9 Gb/s (a cap), weights 1 and 2, both backlogged. R starts at 3 Gb/s and
 * stays: 3 and 6 Gb/s. The second service ends; the first uses 3 of 9. R rises to
 * 3 * (1 + 6/9) = 5, then 7.22, up to 9 Gb/s.
 *
 * Bounds: those of rate_law.h; weights from 1 to 10^9 thousandths.
 *
 * Source: Parley section 3.1 (shares at a machine); EyeQ's source code (device rate, 1,000 us).
 * Deviates from the paper in: the own queue's marks, saturated_rate, the search, anti-windup.
 * Derivation: docs/design/interface-meter.md.
 */
#ifndef WEIR_INTERFACE_METER_H
#define WEIR_INTERFACE_METER_H

#include "receive_meter.h"

#define WEIR_SHARE_FILL 0
#define WEIR_SHARE_ADD 1
/* The floor of R is 1/100 of the lightest service's share: 1 % of C is negligible. */
#define WEIR_SHARE_FLOOR_PART 100
/* A majority of packets or bytes: 5/8, which is half and a margin. */
#define WEIR_SHARE_MOST 5
#define WEIR_SHARE_MOST_OF 8
/*
 * While the interface is full, the usage of a service's window can deviate from C by 1/8: senders
 * release whole segments and bursts, a quarter of a window each.
 */
#define WEIR_FULL_PART 8
/*
 * The link is saturated if usage exceeds C by 1/25: 98.8 % of the link's rate, of which C is 95 %.
 * How much more was sent is then unknown.
 */
#define WEIR_SATURATED_EXCESS 25
/*
 * In a search, windows last a fifth of the interval, as the receive meters' do (200 us of 1,000 us).
 */
#define WEIR_SEARCH_PART 5
/*
 * A port that marked in one of the last 100 windows marks. If its link is saturated without a mark,
 * its queue is short, and nothing is lost. TCP that fills the link returns to the mark within tens
 * of round trips, which are some windows.
 */
#define WEIR_MARKING_WINDOWS 100
/*
 * Half of the interval is assumed as the time that a packet waits in the own queue: a port that does not mark sends
 * 0.6 MB in it, whatever its rate (the interval is 1 ms at 10 Gb/s). The receive meters' bound for usage far above the
 * share uses the highest R of one to two such times. What waited longer was sent at an R before that, so the bound is
 * too strict for it.
 */
#define WEIR_QUEUE_TIME_PART 2
/* Doublings after which the step, 1/40 of R without one, is half of R. */
#define WEIR_SEARCH_STEPS 5
/* Phases of a search, see weir_interface_meter_search(). */
#define WEIR_SEARCH_NONE 0
#define WEIR_SEARCH_ACTS 1
#define WEIR_SEARCH_WAITS 2
/* R is limited by a service's demand, which is taken as at most twice its usage. */
#define WEIR_REACH_USAGE 2
/* Largest weight: 1,000,000, in thousandths. */
#define WEIR_WEIGHT_MAX 1000000000U

struct weir_interface_meter {
	struct weir_law law;
	struct weir_window window;
	u64 capacity; /* C, bit/s; 0 is unlimited */
	u64 rate;     /* R, bit/s for the lightest weight; 0 if unlimited */
	u64 usage;    /* bit/s of the last closed window */
	u64 received; /* bytes of all services since the start */
	/*
	 * bit/s: the highest interface usage in a service's window of this window that met the own
	 * queue and marks, or C; 0: no such window
	 */
	u64 peak;
	u64 total;          /* sum of the weights, thousandths, at least `lightest` */
	u64 minima;         /* bit/s: sum of the guarantees */
	u64 saturated_rate; /* bit/s: the fair rate while all services are backlogged */
	u64 short_packets;  /* in this window, while full: packets of services below committed */
	u64 short_marked;   /* of them, those marked CE */
	u64 reach;          /* bit/s: in this window, the highest R that affects a service */
	u32 lightest;       /* smallest weight, thousandths, 1 to WEIR_WEIGHT_MAX */
	u32 weighs;         /* 1: marks count by service while full; 0: never here (EyeQ) */
	u32 full;           /* 1: usage of the last window was in (C, 16/15 C] */
	u32 settling;       /* 1: `peak` was not 0 in the last window: usage reflects its marks */
	u32 search;         /* WEIR_SEARCH_* */
	u32 marking;        /* windows until the port counts as one that does not mark */
	u32 unmarked;       /* 1: the link was saturated through a step of a search, and no mark since */
	u32 steps;          /* of the search so far, while the link was saturated, up to WEIR_SEARCH_STEPS */
};

/*
 * Returns `rate` * `weight` / `lightest`, at most WEIR_LAW_RATE_MAX. The second
 * term is below 10^18.
 */
WEIR_INLINE u64 weir_weighted_rate(u64 rate, u32 weight, u32 lightest)
{
	u64 whole = rate / lightest;
	u64 most = WEIR_LAW_RATE_MAX / weight;

	if (whole > most)
		return WEIR_LAW_RATE_MAX;
	whole = whole * weight + rate % lightest * weight / lightest;
	return whole < WEIR_LAW_RATE_MAX ? whole : WEIR_LAW_RATE_MAX;
}

/* Returns `rate` * `part` / `whole`: the share of a weight. `part` <= `whole`, in thousandths. */
WEIR_INLINE u64 weir_weight_share(u64 rate, u32 part, u64 whole)
{
	return weir_law_scale(rate, weir_law_fraction(part, whole));
}

/* Returns the floor of R: 1/100 of the lightest service's share while all services are active. */
WEIR_INLINE u64 weir_interface_meter_floor(const struct weir_interface_meter *meter)
{
	u64 floor = weir_weight_share(meter->capacity, meter->lightest, meter->total) / WEIR_SHARE_FLOOR_PART;

	return floor ? floor : 1;
}

/*
 * Initializes a meter for services whose weights sum to `total`, with the smallest weight
 * `lightest`, and whose guarantees sum to `minima` bit/s.
 */
WEIR_INLINE void weir_interface_meter_init(struct weir_interface_meter *meter, u64 now, const struct weir_law *law,
					   u64 capacity, u32 lightest, u64 total, u64 minima, u64 saturated_rate,
					   u32 weighs)
{
	__builtin_memset(meter, 0, sizeof(*meter));
	weir_law_set(&meter->law, law);
	weir_window_open(&meter->window, now);
	if (!lightest)
		lightest = 1;
	if (lightest > WEIR_WEIGHT_MAX)
		lightest = WEIR_WEIGHT_MAX;
	meter->lightest = lightest;
	meter->total = total > lightest ? total : lightest;
	meter->minima = minima;
	meter->saturated_rate = saturated_rate < WEIR_LAW_RATE_MAX ? saturated_rate : WEIR_LAW_RATE_MAX;
	meter->weighs = weighs;
	meter->capacity = weir_capacity_clamp(capacity);
	meter->rate = meter->capacity ? weir_law_clamp(weir_weight_share(meter->capacity, lightest, meter->total), 1,
						       meter->capacity) :
					0;
}

/*
 * Sets the capacity in bit/s, 0 is unlimited, and its saturated_rate. R changes in proportion.
 */
WEIR_INLINE void weir_interface_meter_set_capacity(struct weir_interface_meter *meter, u64 capacity, u64 saturated_rate)
{
	u64 part;

	meter->saturated_rate = saturated_rate < WEIR_LAW_RATE_MAX ? saturated_rate : WEIR_LAW_RATE_MAX;
	capacity = weir_capacity_clamp(capacity);
	if (capacity == meter->capacity)
		return;
	part = meter->capacity ? (meter->rate << WEIR_LAW_SHIFT) / meter->capacity : WEIR_LAW_ONE;
	meter->capacity = capacity;
	meter->rate = capacity ? weir_law_clamp(weir_law_scale(capacity, part), weir_interface_meter_floor(meter),
						capacity) :
				 0;
	meter->short_packets = 0;
	meter->short_marked = 0;
	meter->reach = 0;
	meter->peak = 0;
	meter->full = 0;
	meter->settling = 0;
}

/*
 * Returns a lower bound of a service's usage in bit/s: that of its last window, or of the open
 * window with `bytes` more. The service's windows can be far longer than the interface's: the last
 * one can still reflect a pause after traffic has resumed.
 */
WEIR_INLINE u64 weir_interface_meter_used(const struct weir_interface_meter *meter,
					  const struct weir_receive_meter *service,
					  u64 now, u64 bytes)
{
	struct weir_window open = service->window;
	u64 elapsed = weir_window_elapsed(&open, now);
	u64 usage;

	weir_window_add(&open, bytes, 0, 0);
	usage = weir_window_usage(&open, elapsed > meter->law.interval ? elapsed : meter->law.interval);
	return usage > service->usage ? usage : service->usage;
}

/*
 * Records the highest R that affects a service, after a window above C (anti-windup). `bytes` more
 * of the service have arrived by `now`. It has `min`, `max` (the smaller of the policy's and the
 * brokers', 0 is unlimited) and `weight` under the rule `sharing`.
 */
WEIR_INLINE void weir_interface_meter_reach(struct weir_interface_meter *meter,
					    const struct weir_receive_meter *service, u64 now,
					    u64 bytes, u32 sharing, u64 min, u64 max, u32 weight)
{
	u64 usage, reach;

	if (!meter->weighs || meter->usage <= meter->capacity || meter->rate <= meter->saturated_rate)
		return;
	usage = weir_interface_meter_used(meter, service, now, bytes);
	if (meter->minima > meter->capacity)
		min = weir_law_scale(meter->capacity, weir_law_fraction(min, meter->minima));
	if (!max || max > meter->capacity)
		max = meter->capacity;
	usage *= WEIR_REACH_USAGE;
	if (usage < max)
		max = usage;
	if (max <= min)
		return;
	if (sharing == WEIR_SHARE_ADD)
		max -= min;
	/* lightest <= weight <= 10^9: the first product is at most max, the second below 10^18 */
	reach = max / weight * meter->lightest + max % weight * meter->lightest / weight;
	if (reach > meter->reach)
		meter->reach = reach;
}

/* Returns 1 if `usage` exceeds C by no more than the link can carry. */
WEIR_INLINE u32 weir_interface_meter_is_full(const struct weir_interface_meter *meter, u64 usage)
{
	return meter->weighs && usage > meter->capacity && usage - meter->capacity <= meter->capacity / WEIR_LINK_PART;
}

/* Returns the interval after which the open window closes. */
WEIR_INLINE u64 weir_interface_meter_interval(const struct weir_interface_meter *meter)
{
	return meter->search ? weir_interval_clamp(meter->law.interval / WEIR_SEARCH_PART) : meter->law.interval;
}

/* Returns 1 if marks show the excess: those of the port, or of EyeQ's law. */
WEIR_INLINE u32 weir_interface_meter_is_marked(const struct weir_interface_meter *meter)
{
	return !meter->law.marks || meter->marking;
}

/*
 * Begins, continues or ends a search after a window without marks. A saturated link begins it. It
 * acts in every other window: the window after an act still has the effect of the R before. It ends
 * with a usage near C, and where R can go no further, which is C, or, while the link is saturated,
 * saturated_rate.
 */
WEIR_INLINE void weir_interface_meter_search(struct weir_interface_meter *meter)
{
	u64 around = meter->capacity / WEIR_SATURATED_EXCESS;
	u32 saturated = meter->full && meter->usage - meter->capacity >= around;
	u32 ends = saturated ? meter->rate <= meter->saturated_rate :
			       meter->rate >= meter->capacity || meter->usage + around >= meter->capacity;

	if (ends || weir_interface_meter_is_marked(meter)) {
		meter->search = WEIR_SEARCH_NONE;
	} else if (meter->search == WEIR_SEARCH_ACTS) {
		meter->search = WEIR_SEARCH_WAITS;
	} else if (meter->search == WEIR_SEARCH_WAITS) {
		meter->search = WEIR_SEARCH_ACTS;
		meter->steps += meter->steps < WEIR_SEARCH_STEPS;
		meter->unmarked |= saturated;
	} else if (saturated) {
		meter->search = WEIR_SEARCH_ACTS;
		meter->steps = 0;
	}
	if (!saturated)
		meter->steps = 0;
}

/*
 * Returns R after a window that saturated the link. The law counts the excess that can be seen twice
 * as much after each step of the search. R falls by half at most, and to saturated_rate at the lowest.
 */
WEIR_INLINE u64 weir_interface_meter_lower(const struct weir_interface_meter *meter, u64 rate, u64 usage, u64 floor)
{
	u64 least = meter->saturated_rate > floor ? meter->saturated_rate : floor;
	u64 factor = weir_law_factor(meter->capacity, usage, meter->law.alpha << meter->steps, 0);

	rate = weir_law_scale(rate, factor > WEIR_LAW_ONE / 2 ? factor : WEIR_LAW_ONE / 2);
	return rate > least ? rate : least;
}

/* Returns R after a window, as the law counts `elapsed` ns of it. */
WEIR_INLINE u64 weir_interface_meter_step(const struct weir_interface_meter *meter, u64 elapsed)
{
	struct weir_law law = meter->law;
	u64 floor = weir_interface_meter_floor(meter), rate = meter->rate, usage = meter->usage, most;
	/* the marks are from before a pause, see receive_meter.h */
	int old = elapsed / law.interval > WEIR_PAUSE;

	if (usage < meter->peak && !old)
		usage = usage >= meter->capacity / WEIR_SHARE_MOST_OF * WEIR_SHARE_MOST ? meter->peak : meter->capacity;
	if (meter->weighs && usage < meter->capacity)
		law.alpha = WEIR_LAW_ONE;
	most = meter->reach > meter->saturated_rate ? meter->reach : meter->saturated_rate;
	if (meter->reach && meter->usage > meter->capacity && rate > most)
		rate = most > floor ? most : floor;
	if (meter->search == WEIR_SEARCH_WAITS)
		return meter->rate;
	if (meter->search && meter->steps)
		return weir_interface_meter_lower(meter, rate, usage, floor);
	rate = weir_law_run(&law, rate, meter->capacity, floor, usage, elapsed, 0);
	if ((meter->settling || meter->peak) && !old && rate > meter->rate)
		rate = meter->rate;
	if (meter->short_marked && !old &&
	    meter->short_marked * WEIR_SHARE_MOST_OF >= meter->short_packets * WEIR_SHARE_MOST &&
	    rate > meter->saturated_rate)
		rate = meter->saturated_rate > floor ? meter->saturated_rate : floor;
	return rate;
}

/*
 * Closes the open window, which lasted `elapsed` ns, and opens the next. The law counts `counted`
 * ns, at least an interval. Returns 1 if R is new, and with it the services' capacities.
 */
WEIR_ONCE int weir_interface_meter_close(struct weir_interface_meter *meter, u64 now, u64 elapsed, u64 counted)
{
	int stepped = 0;

	if (!meter)
		return 0;
	meter->usage = weir_window_usage(&meter->window, elapsed);
	meter->full = 0;
	if (meter->capacity) {
		meter->full = weir_interface_meter_is_full(meter, meter->usage);
		weir_interface_meter_search(meter);
		meter->marking -= meter->marking > 0;
		meter->rate = weir_interface_meter_step(meter, counted);
		stepped = 1;
	}
	weir_window_open(&meter->window, now);
	meter->settling = meter->peak != 0;
	meter->peak = 0;
	meter->short_packets = 0;
	meter->short_marked = 0;
	meter->reach = 0;
	return stepped;
}

/*
 * Counts `bytes` that arrived at `now`. Returns 1 if R is new, and with
 * it the services' capacities.
 */
WEIR_INLINE int weir_interface_meter_packet(struct weir_interface_meter *meter, u64 now, u64 bytes)
{
	u64 elapsed = weir_window_elapsed(&meter->window, now);
	int stepped = 0;

	if (elapsed >= weir_interface_meter_interval(meter))
		stepped = weir_interface_meter_close(meter, now, elapsed,
						     elapsed > meter->law.interval ? elapsed : meter->law.interval);
	weir_window_add(&meter->window, bytes, 0, 0);
	meter->received += bytes;
	return stepped;
}

/*
 * Returns the capacity in bit/s of a service with `min`, `max` (0 is unlimited) and `weight`
 * thousandths (at least 1) under the rule `sharing`. Returns 0, unlimited, if neither the interface
 * nor the service has a limit. The result is at least 1 and at most the interface's capacity.
 */
WEIR_INLINE u64 weir_interface_meter_share(const struct weir_interface_meter *meter, u32 sharing, u64 min, u64 max,
					   u32 weight)
{
	u64 share;

	if (!meter->capacity)
		return max;
	/* guarantees above C in sum count in proportion; min <= minima */
	if (meter->weighs && meter->minima > meter->capacity)
		min = weir_law_scale(meter->capacity, weir_law_fraction(min, meter->minima));
	if (!max || max > meter->capacity)
		max = meter->capacity;
	share = weir_weighted_rate(meter->rate, weight, meter->lightest);
	if (sharing == WEIR_SHARE_ADD)
		share = min < WEIR_LAW_RATE_MAX ? share + min : WEIR_LAW_RATE_MAX;
	else if (share < min)
		share = min;
	if (share > max)
		share = max;
	return share ? share : 1;
}

/*
 * Returns the same as weir_interface_meter_share(). The verifier checks it once; but it rejects calls
 * in a region under a lock, which therefore needs the inlined function.
 */
WEIR_ONCE u64 weir_interface_meter_capacity_of(const struct weir_interface_meter *meter, u32 sharing, u64 min,
					       u64 max, u32 weight)
{
	return meter ? weir_interface_meter_share(meter, sharing, min, max, weight) : 0;
}

/* Notes that the port of the interface marks. */
WEIR_INLINE void weir_note_marking(struct weir_interface_meter *interface)
{
	interface->marking = WEIR_MARKING_WINDOWS;
	interface->unmarked = 0;
}

/*
 * Counts the marks of a service while the interface is full. Marks of a service that is not
 * dominant keep R from rising, however long the service's windows are. Those of a service below
 * `committed` bit/s also count for the fall to saturated_rate.
 */
WEIR_INLINE void weir_note_marks(struct weir_interface_meter *interface, u64 usage, u32 packets, u32 marked,
				 u64 committed)
{
	if (interface->full && marked)
		weir_note_marking(interface);
	if (!interface->full || usage >= interface->usage / WEIR_SHARE_MOST_OF * WEIR_SHARE_MOST)
		return;
	if (marked && interface->peak < interface->capacity)
		interface->peak = interface->capacity;
	if (usage >= committed)
		return;
	interface->short_packets += packets;
	interface->short_marked += marked;
}

/*
 * Returns 1 if the interface was full in a service's window, in which `usage` bit/s
 * of all services arrived.
 */
WEIR_INLINE u32 weir_interface_meter_was_full(const struct weir_interface_meter *meter, u64 usage)
{
	u64 around = meter->capacity / WEIR_FULL_PART;

	if (!meter->capacity)
		return 0;
	return weir_interface_meter_is_full(meter, usage) ||
	       (meter->full && usage >= meter->capacity - around && usage <= meter->capacity + around);
}

/*
 * Ends the window of `meter`, `elapsed` ns long and not 0, when the interface has `received` bytes
 * of all services. Determines whether the service met the own queue, and which of its marks count.
 * The result is negative after a pause, for a window longer than WEIR_WINDOW_NS_MAX, and for a
 * window that began under another interface meter, which received more.
 */
WEIR_INLINE void weir_note_own_queue(struct weir_interface_meter *interface, struct weir_receive_meter *meter,
				     u64 received, u64 elapsed)
{
	u64 most = interface->capacity + interface->capacity / WEIR_LINK_PART, usage;
	struct weir_window all = {};
	int known = received >= meter->beside && elapsed / meter->law.interval <= WEIR_PAUSE &&
		elapsed < WEIR_WINDOW_NS_MAX;

	if (known)
		weir_window_add(&all, received - meter->beside, 0, 0);
	meter->beside = received;
	meter->queue_time = interface->law.interval / WEIR_QUEUE_TIME_PART;
	usage = weir_window_usage(&all, elapsed);
	meter->queued = known && weir_interface_meter_was_full(interface, usage);
	if (meter->queued && meter->window.marked)
		weir_note_marking(interface);
	meter->censored = interface->unmarked;
	/*
	 * Behind a port that does not mark, usage is what the port carries, whatever R was. EyeQ counts
	 * every window as it is.
	 */
	if (!interface->weighs || meter->censored || (meter->queued && !weir_interface_meter_is_marked(interface)))
		meter->former = 0;
	if (!meter->queued)
		return;
	if (weir_window_usage(&meter->window, elapsed) >= usage / WEIR_SHARE_MOST_OF * WEIR_SHARE_MOST)
		meter->window.marked = 0;
	if (usage > most)
		usage = most;
	if (meter->window.marked && usage > interface->peak)
		interface->peak = usage;
}

#endif
