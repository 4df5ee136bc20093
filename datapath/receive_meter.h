/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * One per service at its receiver: the rate that all its senders are told, and whom to tell it when.
 *
 * Problem: hold what a service receives to a capacity C within milliseconds, whoever sends, with constant work
 * per packet and no state per sender: a host sees tens of thousands of new flows each second.
 * Approach: count what comes (usage_window.h); each interval T run the control law (rate_law.h) to get one rate
 * R; every 10 kB, or when a while has passed since, answer the packet at hand with R. Who sends much is so
 * told often, and who sends little hardly ever, and has no need.
 *
 * The start. R starts at the larger of the law's floor and C / 512: a lone sender is then within 0.01 % of C
 * after 29 intervals at any capacity. From 10 Mb/s it would take 31 at 9 Gb/s, one more than Parley says,
 * and more above.
 *
 * Pauses. Windows end with packets, so a service that paused has a window of many intervals. EyeQ runs its
 * law once for it, at whatever low usage results. That is not enough: a service that filled its capacity with a
 * hundred senders, paused for a second and goes on with one would be held to C/100, and climb for
 * milliseconds, below its capacity. A timer would have run the law in every interval. So for a window of k intervals
 * below C, R is raised as if it had: with f = a * (C - y) / C, after the law by the first terms of (1 + f)^(k-1),
 * which are a little less,
 *
 *     1 + (k-1) * f + (k-1) * (k-2) / 2 * f^2       (f = 1/2: 141 for 33 intervals, 1,288 for 101)
 *
 * and not beyond what would fill C if usage grew as R does. That takes R from C/100 to C in a pause of 5.4 ms, and
 * from the start in 12.6 ms. It cannot overshoot, however often it happens, so that services of less than a packet
 * per T are steady too. A window above C runs the law once, however long it is: nobody heard of the first step when
 * the second would be taken. Marks hold R back: in a marked window the law runs once, unless it has
 * WEIR_PAUSE intervals: then the marks are from before the pause.
 *
 * So after an idle second R is C, and a hundred senders that set out at once all send at C until they hear of
 * less. This is chosen: a service that uses less than its capacity must not be slowed at all, and the receiver
 * cannot know which of the two will come. The excess below is what it may cost, and marks make it less: from C to
 * C/100 is 6 intervals when all is marked.
 *
 * Service below its capacity: while each window is at most C and unmarked, the law's bracket is at least 1, so
 * R stays at C once it is there.
 *
 * The excess. While R is above its floor, one step takes ln R down by at least a * (y - C) / C (it is ln(1 + x)
 * <= x, and marks and C only take away; the raise after a pause is at most (1 + f)^k for k intervals). R stays
 * between its floor and C, so over any number of intervals the sum of (y - C) / C is at most ln(C / floor) / a: what
 * is received above C, in any time however long, is at most
 *
 *     2 * ln(1000) = 13.8 intervals' worth of C
 *
 * for capacities up to 10 Gb/s, 21.2 at 400 Gb/s, 27.2 at 8 Tb/s, whatever the senders do: Parley's sigma = C * 15 * T,
 * and 30 T at worst. Only at the floor does it end: where senders are so many that they exceed C there, or did not
 * hear. (A window above C of several intervals, whose packets are larger than C * T, counts as one here.) Where the own
 * queue's marks take R down for a while (below), this is said of `drained`, which is never less than R and which each
 * window lowers as much.
 *
 * Convergence, in intervals to within 0.01 % of C/n for good, n = 1 to 100 senders that send all they may and
 * hear at once, through a link of 10/9 C that marks above 80 kB (crates/datapath/tests/rate_law.rs):
 *
 *     idle start                                              29 (n = 1), fewer for more; never above C
 *     busy start, 320 kB of buffer, 9 Gb/s and above          at most 27, above C for at most 8
 *     busy start, T = 200 us:  9 Gb/s, 1 MB / 2 MB / 5 MB     33, 11 / 38, 15 / 50, 29
 *                              2.5 Gb/s, 1 Gb/s, 320 kB       34, 12 / 42, 19
 *                              100 Mb/s, 320 kB               154, 134
 *     busy start, no marks, n = 100                           89
 *
 * Parley's 30 hold where the queue drains within two intervals; a deeper one (or a slower link) marks and fills C
 * as long as it drains, and adds that time, once and a half. Choose T in proportion to 1 / C: 1 Gb/s at 1.8 ms is as
 * 9 Gb/s at 200 us. Where only a part e of C follows R (the rest sends less than R anyway) an error shrinks by
 * 1 - a * e a step instead of 1 - a: Fig 4's senders of 1, 3 and any Gb/s take 44 from idle, 35 from busy.
 *
 * A new capacity takes R along in proportion: where C was full of senders at R, they fill the new one as well as
 * the old, at once; where R was C it stays C. From unlimited, R starts at C: nobody was held, and a service that
 * the brokers begin to hold must not drop to the start on the way. With no capacity (0) there is no rate, and no
 * feedback; senders forget the last rate after a second. To lift a limit at once, set the interface's rate.
 *
 * The own queue. While the interface is full (interface_meter.h), the queue of the switch's port to it grows or
 * stands, and what a service uses is what that queue lets through: what its senders sent a while ago. Two things
 * follow, while `queued` says so, which is of the window that closes:
 *
 *   - Where C is the interface's share (`shared`), usage counts as what a link carries at most, 16/15 of it. What
 *     comes above is lowered by the interface, which takes C down and R in proportion with it; to lower R for it here
 *     too, in each window until the queue has drained, would take R far below. Where C is a maximum or a broker's
 *     limit usage counts in full.
 *   - Marks come for as long as the queue takes to drain, whatever was done about it: with a buffer of four intervals
 *     and full marks they would take R to a sixteenth, and the link would stand idle until R has climbed back. So they
 *     take R down as far as it goes to drain the queue, but for good by half at most, as TCP halves once for what it lost in
 *     a window: that is `drained`, and from it R goes on in the first window without the queue. Each such run of windows
 *     halves anew, as each loss does. (Nothing for good is not enough: services whose shares are more than the interface's
 *     capacity fill the queue again at once, for good.)
 *
 * Where C is a limit, the excess is bounded as above. Where it is a share, what is above C while the interface is full
 * is at most a fifteenth of it, and the interface's law takes C down with it.
 *
 * Which packet is answered: feedback_sampler.h.
 *
 * Bounds: intervals from 10 us to 1 s, capacities from 10 kb/s to 8 Tb/s (what is outside is taken as the
 * bound); see rate_law.h and usage_window.h for why nothing overflows. Two CPUs: whoever shares a meter
 * takes a lock, or has a meter for each CPU with its part of C.
 *
 * Worked example: C = 9 Gb/s, R = 5, T = 200 us. 300 kB come in 200 us, y = 12 Gb/s. The packet that ends
 * the window makes R 4.1667 Gb/s, and is answered with it.
 *
 * Source: Parley sections 3.2.1 and 7 (interval configurable per service), Table 1; EyeQ's source code for
 * what starts and ends a window, and for 10,000 B or 100 us between answers.
 */
#ifndef WEIR_RECEIVE_METER_H
#define WEIR_RECEIVE_METER_H

#include "feedback_sampler.h"
#include "rate_law.h"
#include "usage_window.h"

/* R starts at this part of the capacity: 29 intervals from C for one sender, see above. */
#define WEIR_START_PART 512
/* So many intervals without a packet make marks old: 6.4 ms at 200 us, many round trips. */
#define WEIR_PAUSE 32
/* A link carries this part of an interface's capacity more than it, at most: the capacity is 95 % of the link's rate, so 1/19, and
 * a margin for windows that do not end with the interval. */
#define WEIR_LINK_PART 15
/* Longer windows count as so many intervals: R rises by 3 * 10^4 at a = 1/2, from the floor of 300 Gb/s to C. */
#define WEIR_CATCH_UP_MAX 512

/* How the law is run; the same for receive and interface meters. */
struct weir_law {
	u64 interval;   /* ns, WEIR_INTERVAL_MIN to WEIR_INTERVAL_MAX */
	u32 alpha;      /* in 2^-20, at most 1 */
	u32 catch_up;   /* 1: windows of many intervals raise R as often; 0: once (EyeQ) */
	u32 mark_bytes; /* 0: marks lower the rate by b / 2; else they count as bytes (EyeQ), up to 10^8 */
	u32 marks;      /* 0: marks are not looked at */
};

struct weir_receive_meter {
	struct weir_law law;
	struct weir_window window;
	u64 capacity; /* bit/s; 0 is unlimited */
	u64 rate;     /* R, bit/s; 0 when unlimited */
	u64 usage;    /* bit/s of the last window that closed */
	u64 packets; /* in all windows that closed: those that switches could mark */
	u64 marked;  /* of them, those that were marked and count (interface_meter.h) */
	u64 drained; /* bit/s: R once the own queue has drained; R itself while there is none */
	u64 unqueued; /* bit/s: the most that `drained` was since the own queue began; 0 while there is none */
	u64 beside;  /* bytes: what the interface had received of all services when the window opened */
	u32 queued;  /* 1: usage is what the own queue lets through, see above */
	u32 shared;  /* 1: the capacity is the interface's share, not a limit of the service's own */
	struct weir_feedback_sampler sampler; /* where packets are counted one by one; the kernel has one for each CPU */
};

/* `capacity` as the law can take it; 0 stays 0, unlimited. */
WEIR_INLINE u64 weir_capacity_clamp(u64 capacity)
{
	if (capacity && capacity < WEIR_LAW_RATE_MIN)
		return WEIR_LAW_RATE_MIN;
	return capacity < WEIR_LAW_RATE_MAX ? capacity : WEIR_LAW_RATE_MAX;
}

/* The rate with which a meter of `capacity` starts. */
WEIR_INLINE u64 weir_start_rate(u64 capacity)
{
	return weir_law_clamp(capacity / WEIR_START_PART, weir_law_floor(capacity), capacity);
}

/* The law as it can be run: its values inside their bounds. */
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
 * `rate` after `more` further intervals in which it could have risen by `raise`, in 2^-20 and at most 1; at most
 * `fill`, at least `rate`.
 *
 * more <= 512 and raise <= 2^20 make the growth at most 1 + 512 + 512 * 511 / 2 < 2^17 in 2^-20, below 2^38. It is
 * used only where rate * growth stays below fill * 2^20 < 2^63.
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
 * The rate after a window of `elapsed` ns (at least one interval) with `usage` bit/s, of which `marked` in 2^-20
 * of the packets were marked. `floor` at least 1.
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

/* `rate` under the capacity `before`, in the same proportion under `capacity`; both are at least 1. */
WEIR_INLINE u64 weir_law_moved(u64 rate, u64 before, u64 capacity)
{
	/* R <= C < 2^43; the part is at most 1 */
	u64 part = (rate << WEIR_LAW_SHIFT) / before;

	return weir_law_clamp(weir_law_scale(capacity, part), weir_law_floor(capacity), capacity);
}

/*
 * A meter with nothing counted. `feedback_bytes` and `feedback_interval` are means; any `seed` will do, meters
 * with different ones answer at different packets.
 */
WEIR_INLINE void weir_receive_meter_init(struct weir_receive_meter *meter, u64 now, const struct weir_law *law,
					 u64 capacity, u32 feedback_bytes, u64 feedback_interval, u32 seed)
{
	__builtin_memset(meter, 0, sizeof(*meter));
	weir_law_set(&meter->law, law);
	weir_window_open(&meter->window, now);
	meter->capacity = weir_capacity_clamp(capacity);
	meter->rate = meter->capacity ? weir_start_rate(meter->capacity) : 0;
	meter->drained = meter->rate;
	weir_feedback_sampler_init(&meter->sampler, now, feedback_bytes, feedback_interval, seed);
}

/*
 * From now on the capacity is `capacity` bit/s; 0 is unlimited. R goes along in proportion. `shared`: it is what the interface
 * leaves to the service now, not a maximum or a broker's limit.
 */
WEIR_INLINE void weir_receive_meter_set_capacity(struct weir_receive_meter *meter, u64 capacity, u32 shared)
{
	u64 before = meter->capacity;

	meter->shared = shared;
	capacity = weir_capacity_clamp(capacity);
	if (capacity == before)
		return;
	if (capacity && before) {
		meter->rate = weir_law_moved(meter->rate, before, capacity);
		meter->drained = weir_law_moved(meter->drained, before, capacity);
		if (meter->unqueued)
			meter->unqueued = weir_law_moved(meter->unqueued, before, capacity);
	} else {
		/* from unlimited R starts at C, see above; unlimited there is none */
		meter->rate = capacity;
		meter->drained = capacity;
		meter->unqueued = 0;
	}
	meter->capacity = capacity;
}

/* From the next window on the law is run every `interval` ns. */
WEIR_INLINE void weir_receive_meter_set_interval(struct weir_receive_meter *meter, u64 interval)
{
	meter->law.interval = weir_interval_clamp(interval);
}

/* R after a window of `elapsed` ns from `rate`, see weir_law_run; 0 without a meter. */
WEIR_ONCE u64 weir_receive_meter_law(const struct weir_receive_meter *meter, u64 rate, u64 usage, u64 elapsed, u32 marked)
{
	if (!meter)
		return 0;
	return weir_law_run(&meter->law, rate, meter->capacity, weir_law_floor(meter->capacity), usage, elapsed, marked);
}

/*
 * What R is to be once the own queue has drained, after another window of it: marks lower it as they lower R, but not below half of
 * what it was before the queue.
 */
WEIR_INLINE u64 weir_receive_meter_drain(const struct weir_receive_meter *meter, u64 usage, u64 elapsed, u32 marked)
{
	u64 lowered = weir_receive_meter_law(meter, meter->drained, usage, elapsed, marked);
	u64 least = weir_receive_meter_law(meter, meter->drained, usage, elapsed, 0);

	if (least > meter->unqueued / 2)
		least = meter->unqueued / 2;
	return lowered > least ? lowered : least;
}

/* R after a window of `elapsed` ns, in which so much was used and so many of the packets were marked. */
WEIR_INLINE void weir_receive_meter_step(struct weir_receive_meter *meter, u64 elapsed)
{
	u64 usage = meter->usage;
	u32 marked = weir_law_fraction(meter->window.marked, meter->window.packets);

	if (!meter->queued) {
		meter->rate = weir_receive_meter_law(meter, meter->drained, usage, elapsed, marked);
		meter->drained = meter->rate;
		meter->unqueued = 0;
		return;
	}
	if (meter->shared && usage > meter->capacity + meter->capacity / WEIR_LINK_PART)
		usage = meter->capacity + meter->capacity / WEIR_LINK_PART;
	if (meter->unqueued < meter->drained)
		meter->unqueued = meter->drained;
	meter->rate = weir_receive_meter_law(meter, meter->rate, usage, elapsed, marked);
	meter->drained = weir_receive_meter_drain(meter, usage, elapsed, marked);
}

/*
 * Closes the window that is open, `elapsed` ns long and at least an interval, and opens the next. The law is run over
 * `counted` intervals' time: `elapsed`, unless a tick was early.
 */
WEIR_INLINE void weir_receive_meter_close(struct weir_receive_meter *meter, u64 now, u64 elapsed, u64 counted)
{
	meter->usage = weir_window_usage(&meter->window, elapsed);
	meter->packets += meter->window.packets;
	meter->marked += meter->window.marked;
	if (meter->capacity)
		weir_receive_meter_step(meter, counted);
	weir_window_open(&meter->window, now);
}

/*
 * Counts a buffer of `bytes` that came at `now` as `packets` packets that switches could mark (ECN-capable
 * ones), `marked` of which they did. 1: tell its source meter->rate; 0: tell nothing.
 */
WEIR_INLINE int weir_receive_meter_packet(struct weir_receive_meter *meter, u64 now, u64 bytes, u32 packets, u32 marked)
{
	u64 elapsed = weir_window_elapsed(&meter->window, now);

	if (elapsed >= meter->law.interval)
		weir_receive_meter_close(meter, now, elapsed, elapsed);
	weir_window_add(&meter->window, bytes, packets, marked);
	return meter->capacity ? weir_feedback_due(&meter->sampler, now, bytes) : 0;
}

/* The usage in bit/s at `now`: of the last window, or of the open one where it is already longer than T. */
WEIR_INLINE u64 weir_receive_meter_usage(const struct weir_receive_meter *meter, u64 now)
{
	u64 elapsed = weir_window_elapsed(&meter->window, now);

	return elapsed >= meter->law.interval ? weir_window_usage(&meter->window, elapsed) : meter->usage;
}

#endif
