/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Receive meter: the rate R of all senders to one service at one receiver.
 *
 * The meter keeps the receive rate of a service at a capacity C within milliseconds, whatever its
 * senders are. It keeps no state per sender: a host receives tens of thousands of new flows per
 * second. Ticks (receive_tick.h) count bytes and marks in windows (usage_window.h) and run the rate
 * law once per interval T (rate_law.h). The feedback sampler (feedback_sampler.h) selects packets,
 * about one per 10 kB. Their sources receive R as feedback. Fast senders thus receive frequent
 * feedback; slow senders need little.
 *
 *   start     R = max(floor, C / 512): a lone sender reaches C to within 0.01 % in 29 intervals.
 *   pause     A window of k > 1 intervals, below C and without valid marks, raises R almost as much
 *             as k intervals of the law. After an idle second R is C. A window above C runs the law
 *             once.
 *   capacity  A new C changes R in proportion; a window in which it falls counts against the former.
 *             From unlimited, R starts at C.
 *
 * Own queue: while the interface is full (interface_meter.h), usage reflects the queue of the
 * switch port towards this host. Then
 *
 *   - usage counts up to 16/15 C if C is the interface's share (`shared`); the interface meter
 *     handles the rest; behind a port that does not mark, R is at most C / usage of the highest R
 *     that the senders had lately;
 *   - marks lower R, but by half at most for good: `drained` is the R from which the law continues
 *     once the queue has drained.
 *
 * Worked example: C = 9 Gb/s, R = 5 Gb/s, T = 200 us. 300 kB arrive in 200 us: y = 12 Gb/s. The
 * tick that closes the window sets R to 4.1667 Gb/s.
 *
 * Bounds: over any time, the overshoot (bytes above C) is at most 2 * ln(C / floor) intervals
 * of C while R is above its floor: 13.8 up to 10 Gb/s, 27.2 at 8 Tb/s. Intervals from 10 us
 * to 1 s, capacities from 10 kb/s to 8 Tb/s; values outside are clamped. One CPU at a time writes a
 * meter.
 *
 * Source: Parley sections 3.2.1 and 7 (interval per service), Table 1; EyeQ's source code for the
 * start and end of a window, and for 10,000 B or 100 us between feedback packets.
 * Deviates from the paper in: start, pauses, own queue. Derivation: docs/design/receive-meter.md.
 */
#ifndef WEIR_RECEIVE_METER_H
#define WEIR_RECEIVE_METER_H

#include "rate_law.h"
#include "usage_window.h"

/*
 * R starts at C / 512, from which one sender needs 29 intervals. From 10 Mb/s at
 * 9 Gb/s it needs 31.
 */
#define WEIR_START_PART 512
/* Marks are stale in windows of more intervals: 6.4 ms at 200 us, many round trips. */
#define WEIR_PAUSE 32
/*
 * A link carries at most 1/15 more than an interface's capacity. The capacity is 95 % of the link's
 * rate, so 1/19, and a margin for windows that do not end with the interval.
 */
#define WEIR_LINK_PART 15
/*
 * Longer windows count as 512 intervals. R then grows by 3 * 10^4 at a = 1/2: from the floor to C
 * for capacities up to 300 Gb/s.
 */
#define WEIR_CATCH_UP_MAX 512

/* Parameters of the law, for receive and interface meters. */
struct weir_law {
	u64 interval;   /* T, ns, WEIR_INTERVAL_MIN to WEIR_INTERVAL_MAX */
	u32 alpha;      /* a in 2^-20, at most 1 */
	u32 catch_up;   /* 1: a window of k intervals raises R k times; 0: once (EyeQ) */
	u32 mark_bytes; /* 0: marks lower R by b / 2; else they add to usage (EyeQ), up to 10^8 */
	u32 marks;      /* 0: marks are ignored */
};

struct weir_receive_meter {
	struct weir_law law;
	struct weir_window window;
	u64 capacity; /* C, bit/s; 0 is unlimited */
	u64 former;   /* bit/s: C when the window opened; 0: the window counts as it is */
	u64 rate;     /* R, bit/s; 0 if unlimited */
	u64 usage;    /* bit/s of the last closed window */
	u64 packets;  /* ECN-capable packets of all closed windows */
	u64 marked;   /* of them, those marked CE that count (interface_meter.h) */
	u64 drained;  /* bit/s: R once the own queue has drained; R itself without a queue */
	u64 unqueued; /* bit/s: maximum of `drained` since the own queue began; 0 without a queue */
	u64 beside;   /* bytes of all services at the interface when the window opened */
	u32 queued;   /* 1: the own queue determines usage, see above */
	u32 shared;   /* 1: the capacity is the interface's share; 0: a limit of the service */
	u32 grain;    /* bytes after which a window may close early; 0: never (receive_tick.h) */
	u32 censored; /* 1: the port does not mark, so usage alone shows how much too high R is */
	u64 soonest;  /* ns that such a window lasts at least */
	u64 queue_time; /* ns that a packet waits in the own queue, assumed (WEIR_QUEUE_TIME_PART) */
	u64 highest_at; /* ns: when `highest` began */
	u64 highest;    /* bit/s: maximum of R since then */
	u64 earlier;    /* bit/s: maximum of R in the `queue_time` before */
};

/* Clamps a capacity to the range of the law. 0, unlimited, remains 0. */
WEIR_INLINE u64 weir_capacity_clamp(u64 capacity)
{
	if (capacity && capacity < WEIR_LAW_RATE_MIN)
		return WEIR_LAW_RATE_MIN;
	return capacity < WEIR_LAW_RATE_MAX ? capacity : WEIR_LAW_RATE_MAX;
}

/* Returns the initial R of a meter of `capacity`. */
WEIR_INLINE u64 weir_start_rate(u64 capacity)
{
	return weir_law_clamp(capacity / WEIR_START_PART, weir_law_floor(capacity), capacity);
}

/* Copies law parameters, clamped to their bounds. */
WEIR_INLINE void weir_law_set(struct weir_law *law, const struct weir_law *wanted)
{
	*law = *wanted;
	law->interval = weir_interval_clamp(wanted->interval);
	if (law->alpha > WEIR_LAW_ONE)
		law->alpha = WEIR_LAW_ONE;
	if (law->mark_bytes > 100000000)
		law->mark_bytes = 100000000;
}

/*
 * Returns `rate` after `more` further intervals that each allow a raise by `raise`, in 2^-20 and at
 * most 1. The result is at most `fill` and at least `rate`.
 *
 * more <= 512 and raise <= 2^20 make the growth at most 1 + 512 + 512 * 511 / 2 < 2^18 in units of
 * 2^-20, below 2^38. The product is used only if rate * growth is below fill * 2^20 < 2^63.
 */
WEIR_INLINE u64 weir_law_grow(u64 rate, u64 fill, u64 raise, u64 more)
{
	u64 square = (raise * raise) >> WEIR_LAW_SHIFT;
	u64 growth = WEIR_LAW_ONE + more * raise + more * (more - 1) / 2 * square;

	if (fill <= rate)
		return rate;
	if (growth >= (fill << WEIR_LAW_SHIFT) / rate)
		return fill;
	return (rate * growth) >> WEIR_LAW_SHIFT;
}

/*
 * Returns R after a window of `elapsed` ns (at least one interval) with `usage` bit/s and a marked
 * fraction `marked` in 2^-20. `floor` is at least 1.
 */
WEIR_INLINE u64 weir_law_run(const struct weir_law *law, u64 rate, u64 capacity, u64 floor, u64 usage, u64 elapsed,
			     u32 marked)
{
	u64 more = elapsed / law->interval - 1;
	u64 fill = capacity;
	u64 next;

	if (!law->marks)
		marked = 0;
	if (law->mark_bytes) {
		usage = weir_law_marked_usage(usage, capacity, elapsed, law->mark_bytes, marked);
		marked = 0;
	}
	next = weir_rate_law(rate, capacity, usage, law->alpha, marked, floor);
	if (!law->catch_up || !more || usage >= capacity || (marked && more < WEIR_PAUSE))
		return next;
	/* rate * capacity / usage; with rate < usage < 2^43 the product is below capacity * 2^20 */
	if (rate < usage)
		fill = (rate * ((capacity << WEIR_LAW_SHIFT) / usage)) >> WEIR_LAW_SHIFT;
	if (more > WEIR_CATCH_UP_MAX)
		more = WEIR_CATCH_UP_MAX;
	return weir_law_grow(next, fill, weir_law_factor(capacity, usage, law->alpha, 0) - WEIR_LAW_ONE, more);
}

/* Returns `rate` under `before`, in the same proportion under `capacity`. Both are at least 1. */
WEIR_INLINE u64 weir_law_moved(u64 rate, u64 before, u64 capacity)
{
	/* rate <= before < 2^43, and the fraction is at most 1 */
	u64 part = (rate << WEIR_LAW_SHIFT) / before;

	return weir_law_clamp(weir_law_scale(capacity, part), weir_law_floor(capacity), capacity);
}

/* Initializes a meter whose first window opens at `now`. */
WEIR_INLINE void weir_receive_meter_init(struct weir_receive_meter *meter, u64 now, const struct weir_law *law,
					 u64 capacity)
{
	__builtin_memset(meter, 0, sizeof(*meter));
	weir_law_set(&meter->law, law);
	weir_window_open(&meter->window, now);
	meter->capacity = weir_capacity_clamp(capacity);
	meter->former = meter->capacity;
	meter->rate = meter->capacity ? weir_start_rate(meter->capacity) : 0;
	meter->drained = meter->rate;
}

/*
 * Sets the capacity in bit/s; 0 is unlimited. R changes in proportion. `shared`: the capacity is
 * the interface's current share for the service, not a maximum or a broker's limit.
 */
WEIR_INLINE void weir_receive_meter_set_capacity(struct weir_receive_meter *meter, u64 capacity, u32 shared)
{
	u64 before = meter->capacity;

	meter->shared = shared;
	capacity = weir_capacity_clamp(capacity);
	if (capacity == before)
		return;
	if (meter->rate > meter->highest)
		meter->highest = meter->rate;
	if (capacity && before) {
		meter->rate = weir_law_moved(meter->rate, before, capacity);
		meter->drained = weir_law_moved(meter->drained, before, capacity);
		if (meter->unqueued)
			meter->unqueued = weir_law_moved(meter->unqueued, before, capacity);
	} else {
		/* from unlimited, R starts at C; without a capacity there is no R */
		meter->rate = capacity;
		meter->drained = capacity;
		meter->unqueued = 0;
	}
	meter->capacity = capacity;
}

/* Sets the interval of the law, from the next window on. */
WEIR_INLINE void weir_receive_meter_set_interval(struct weir_receive_meter *meter, u64 interval)
{
	meter->law.interval = weir_interval_clamp(interval);
}

/* Returns R after a window of `elapsed` ns from `rate`, see weir_law_run(); 0 without a meter. */
WEIR_ONCE u64 weir_receive_meter_law(const struct weir_receive_meter *meter, u64 rate, u64 usage, u64 elapsed,
				     u32 marked)
{
	if (!meter)
		return 0;
	return weir_law_run(&meter->law, rate, meter->capacity, weir_law_floor(meter->capacity), usage, elapsed,
			    marked);
}

/*
 * Returns `drained` after another window with the own queue. Marks lower it as they lower R, but
 * not below half of its value before the queue.
 */
WEIR_INLINE u64 weir_receive_meter_drain(const struct weir_receive_meter *meter, u64 usage, u64 elapsed, u32 marked)
{
	u64 lowered = weir_receive_meter_law(meter, meter->drained, usage, elapsed, marked);
	u64 least = weir_receive_meter_law(meter, meter->drained, usage, elapsed, 0);

	if (least > meter->unqueued / 2)
		least = meter->unqueued / 2;
	return lowered > least ? lowered : least;
}

/* Records R, which senders had until `now`. */
WEIR_INLINE void weir_receive_meter_record(struct weir_receive_meter *meter, u64 now)
{
	u64 since = now > meter->highest_at ? now - meter->highest_at : 0;

	if (meter->rate > meter->highest)
		meter->highest = meter->rate;
	if (since < meter->queue_time)
		return;
	meter->earlier = meter->highest;
	meter->highest = meter->rate;
	meter->highest_at = now;
}

/*
 * Returns the highest R at which the senders of a window of `usage` bit/s would not exceed C, which
 * is less. They had at most the highest R of the last one to two `queue_time`.
 */
WEIR_INLINE u64 weir_receive_meter_bound(const struct weir_receive_meter *meter, u64 usage)
{
	u64 had = meter->highest > meter->earlier ? meter->highest : meter->earlier;

	return weir_law_clamp(weir_law_scale(had, (u32)((meter->capacity << WEIR_LAW_SHIFT) / usage)),
			      weir_law_floor(meter->capacity), meter->capacity);
}

/*
 * Returns the usage of the window as the law counts it: in proportion, if C has fallen since the
 * window opened. Its senders had the R of the former C, and R has fallen in proportion. Against the
 * new C, their usage would lower R a second time.
 */
WEIR_INLINE u64 weir_receive_meter_counted(const struct weir_receive_meter *meter)
{
	u64 former = meter->former, whole, part;

	if (former <= meter->capacity)
		return meter->usage;
	whole = meter->usage / former;
	if (whole >= WEIR_LAW_OVERUSE_MAX)
		return meter->capacity * WEIR_LAW_OVERUSE_MAX;
	part = ((meter->usage % former) << WEIR_LAW_SHIFT) / former;
	return meter->capacity * whole + weir_law_scale(meter->capacity, part);
}

/* Sets R after a window, as the law counts `elapsed` ns of it. */
WEIR_INLINE void weir_receive_meter_step(struct weir_receive_meter *meter, u64 elapsed)
{
	u64 usage = weir_receive_meter_counted(meter), bound = meter->capacity;
	u32 marked = weir_law_fraction(meter->window.marked, meter->window.packets);

	if (!meter->queued) {
		meter->rate = weir_receive_meter_law(meter, meter->drained, usage, elapsed, marked);
		meter->drained = meter->rate;
		meter->unqueued = 0;
		return;
	}
	if (meter->shared && usage > meter->capacity + meter->capacity / WEIR_LINK_PART) {
		if (meter->censored)
			bound = weir_receive_meter_bound(meter, meter->usage);
		usage = meter->capacity + meter->capacity / WEIR_LINK_PART;
	}
	if (meter->unqueued < meter->drained)
		meter->unqueued = meter->drained;
	meter->rate = weir_receive_meter_law(meter, meter->rate, usage, elapsed, marked);
	meter->drained = weir_receive_meter_drain(meter, usage, elapsed, marked);
	if (meter->rate > bound)
		meter->rate = bound;
	if (meter->drained > bound)
		meter->drained = bound;
}

/*
 * Closes the open window, which lasted `elapsed` ns, and opens the next. The law counts `counted`
 * ns: `elapsed`, or an interval after an early tick.
 */
WEIR_INLINE void weir_receive_meter_close(struct weir_receive_meter *meter, u64 now, u64 elapsed, u64 counted)
{
	meter->usage = weir_window_usage(&meter->window, elapsed);
	meter->packets += meter->window.packets;
	meter->marked += meter->window.marked;
	weir_receive_meter_record(meter, now);
	if (meter->capacity)
		weir_receive_meter_step(meter, counted);
	meter->former = meter->capacity;
	weir_window_open(&meter->window, now);
}

#endif
