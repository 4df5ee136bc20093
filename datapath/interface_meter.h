/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * One per interface, over all its services: how the machine's capacity is shared among them, at the timescale
 * of round trips, with or without brokers.
 *
 * Problem: the services of a machine have guarantees, limits and weights at its interface, and who is active
 * changes faster than brokers speak. Approach: the law of the receive meters once more, one level up: it
 * finds one rate per unit of weight at which all services together use the interface's capacity. A service's
 * capacity follows from it by the policy's rule for sharing:
 *
 *   fill:  rate * weight, clipped between the service's min and max
 *   add:   min + rate * weight, up to max
 *
 * and the brokers' limit is put upon that by whoever sets the receive meter: the smaller holds.
 *
 * The rate is that of the lightest service, so that it may have the interface to itself when it is alone, and
 * no more: R goes up to C. The floor is a hundredth of an equal share, low enough that what it gives away, 1 % of
 * the capacity, does not matter where the guarantees leave nothing to share. R starts at the share of
 * everybody active: guarantees hold from the first packet, and R rises where they are not. Capacities must be
 * below the link's rate: a link cannot be used above its rate, so a capacity that equals it is never exceeded.
 *
 * The own queue. While more than C comes and no more than the link carries, the interface is full: the queue of the
 * switch's port to it grows or stands, and what it marks is not word of a congested network. Usage does not tell how
 * much too fast senders are: it ends at the link's rate, 20/19 of C, and lowers R by 2.6 % an interval, while a queue of
 * 1 MB fills within one. So marks do, by who was marked. A service is entitled to what the policy's rule gives it of C
 * while all services want everything.
 *
 *                                                    at its receive meter       at the interface meter
 *   the interface is not full                        count                      -
 *   full: the service brings 5/8 or more of it       do not count               -
 *   full: the service has less than it is entitled   for good by half at most   R falls to the level
 *   full: other services                             for good by half at most   R does not rise, or falls by usage
 *
 * The first line that fits holds; the last one also where too few packets of those that have less were marked. For a
 * receive meter (receive_meter.h) its own window tells, by what all services brought in it: to wait for the
 * interface's, which is as long as five of them, took R to a thirtieth by marks of which nobody knew yet whose they
 * were. Packets that were marked in the own queue come back to back, so where they come the link is full. Since senders
 * let go of whole segments and bursts, such a window may also be a little off while the interface is full. (A service
 * with little has windows of four bursts, which may be longer than the interface's.)
 *
 * The level is the R at which the rule shares out C while all want everything: nobody has more beside somebody who has
 * less and meets a queue. To fall there at once, and not by the law's half of the marked part window after window,
 * drains the queue before senders lose whole windows and wait for TCP's timers of 200 ms. Not to fall below it leaves
 * everybody what it is entitled to. It takes 5/8 of the packets of all who have less in a window: most of what they
 * sent met a queue. What is marked in passing does not take others down to what they are guaranteed; one packet of a
 * service that sends no other does, for a few intervals.
 *
 * What marks leave unused, once the queue has drained and until senders hear that they are back, is not unused capacity.
 * To take it for that raises R, and all shares with it, until they fill the queue again: two services of three senders
 * each then go back and forth between queue and idle link for good. So a window in which a service met the own queue and
 * marks (`peak`) does not raise R, nor does the one after it; and it counts as if as much had come in all of it, if 5/8 of C
 * did: bursts with an idle link between them lower nobody's share, however often they meet a queue. (A service's window that
 * ends with the interface's is closed after it: its marks are the next one's.) Else R rises by the whole of what is unused,
 * not by a of it: a service that wanted no more than a burst has cost the others a few intervals. What the interface
 * shares is used from one interval to the next, because receive meters take their R along in proportion, so nobody has
 * to be found out by trial.
 *
 * A crowd of one service has nobody to protect: its senders' own congestion control shares the link. 5/8 is half and a
 * margin: of two services that fill the interface evenly none is the crowd by chance.
 *
 * Overwinding. R rises to C while less than C comes, and above some R nobody has more by it: everybody is held by a maximum or
 * by the brokers, or wants no more. Their limits may still be more than C together: brokers share out the link, 20/19
 * of it. R then has to come down from where it has no effect, by 2.6 % an interval while the queue stands: 53 intervals for a
 * quarter of C. So where more than C came in two windows, the law starts from the highest R that still mattered to a service that
 * received something in the second: its limit, or twice what it used, by its weight; and from the level at least, to which all
 * are entitled.
 *
 * Guarantees above C. What the services are guaranteed may be up to the link's rate together, above C; shares of that
 * would never drain a queue. Guarantees then count in proportion, as much as C carries.
 *
 * What comes of it: `cargo test -p weir-sim --test crowds -- --nocapture` prints pairs of crowds, eight seeds each.
 * By it, and by service B of Parley's table 3 at 70 % (`weir reproduce parley-table3`), it was chosen that 5/8 of the
 * packets in a window must be marked: less costs B more, with three quarters large crowds lose windows.
 *
 * C may also be a cap below the link's rate. Then more than 16/15 of C can come, and that is not full: usage tells how
 * much too fast senders are. Marks then count at receive meters as Parley prints it: they are some other queue's, of a
 * network whose share this interface takes too much of, or, where the cap is just below what the link carries, those of
 * a queue that usage shows well.
 *
 * Bounds: those of rate_law.h; weights in thousandths, 1 to 10^9; R * weight / lightest is computed as
 * (R / lightest) * weight, cut off at 8 Tb/s, and (R % lightest) * weight / lightest, below 10^18.
 *
 * Worked example: C = 9 Gb/s (a cap), services of weights 1 and 2, both backlogged. R starts at 3 Gb/s and stays: 3 and
 * 6 Gb/s. The second ends; the first uses 3 of 9, so R rises to 3 * (1 + 6/9) = 5, then 7.22, up to 9 Gb/s.
 *
 * Source: EyeQ's source code, its device rate: this law every 1,000 us against 9,000 Mb/s (of 10 Gb/s), class
 * rate = weight * device rate. Parley's shares at a machine, section 3.1. Parley prints that all marks count, at
 * receive meters; which of the own queue's do, and the level, are ours.
 */
#ifndef WEIR_INTERFACE_METER_H
#define WEIR_INTERFACE_METER_H

#include "receive_meter.h"

#define WEIR_SHARE_FILL 0
#define WEIR_SHARE_ADD 1
/* The floor of R is this part of the lightest service's share of everybody active. */
#define WEIR_SHARE_FLOOR_PART 100
/* Most of something: 5 of 8. */
#define WEIR_SHARE_MOST 5
#define WEIR_SHARE_MOST_OF 8
/* While an interface is full as much as this part of C may be missing in a service's window, or be too much: senders let go of whole
 * segments and bursts, a quarter of a window each. */
#define WEIR_FULL_PART 8
/* R is taken to matter to a service up to so many times what it uses. */
#define WEIR_REACH_USAGE 2
/* 1,000,000 in thousandths. */
#define WEIR_WEIGHT_MAX 1000000000U

struct weir_interface_meter {
	struct weir_law law;
	struct weir_window window;
	u64 capacity; /* bit/s; 0 is unlimited */
	u64 rate;     /* R, bit/s for the lightest weight; 0 when unlimited */
	u64 usage;    /* bit/s of the last window that closed */
	u64 received; /* bytes since the start, of all services */
	u64 peak;     /* bit/s: in this window, the most that came in a service's own with marks of the own queue, or C; 0: none met it */
	u64 total;    /* sum of the services' weights, thousandths, at least `lightest` */
	u64 minima;   /* bit/s: sum of the services' guarantees */
	u64 saturated_rate;    /* bit/s: the R at which the rule shares out C while all services want everything */
	u64 short_packets; /* in this window, while it is full: those of services with less than they are entitled to */
	u64 short_marked;  /* of them, those that were marked */
	u64 reach;    /* bit/s: in this window, the highest R that mattered to a service; 0 where none was noted */
	u32 lightest; /* thousandths, 1 to WEIR_WEIGHT_MAX */
	u32 weighs;   /* 1: while the interface is full marks count by who was marked; 0: always, and never here (EyeQ) */
	u32 full;     /* 1: more than C came in the last window, and no more than the link can carry */
	u32 settling; /* 1: `peak` was not 0 in the last window, and usage tells what marks left */
};

/* `rate` * `weight` / `lightest`, at most WEIR_LAW_RATE_MAX. */
WEIR_INLINE u64 weir_weighted_rate(u64 rate, u32 weight, u32 lightest)
{
	u64 whole = rate / lightest;
	u64 most = WEIR_LAW_RATE_MAX / weight;

	if (whole > most)
		return WEIR_LAW_RATE_MAX;
	whole = whole * weight + rate % lightest * weight / lightest;
	return whole < WEIR_LAW_RATE_MAX ? whole : WEIR_LAW_RATE_MAX;
}

/* `part` thousandths of `whole` thousandths of `rate`: what a weight is due of it. `part` <= `whole`. */
WEIR_INLINE u64 weir_weight_share(u64 rate, u32 part, u64 whole)
{
	return weir_law_scale(rate, weir_law_fraction(part, whole));
}

/* The least R: a hundredth of the lightest service's share of everybody active. */
WEIR_INLINE u64 weir_interface_meter_floor(const struct weir_interface_meter *meter)
{
	u64 floor = weir_weight_share(meter->capacity, meter->lightest, meter->total) / WEIR_SHARE_FLOOR_PART;

	return floor ? floor : 1;
}

/*
 * A meter with nothing counted, for services whose weights sum to `total`, the least of them `lightest`, and whose guarantees
 * sum to `minima` bit/s. `level` is described above.
 */
WEIR_INLINE void weir_interface_meter_init(struct weir_interface_meter *meter, u64 now, const struct weir_law *law,
					   u64 capacity, u32 lightest, u64 total, u64 minima, u64 saturated_rate, u32 weighs)
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

/* From now on the capacity is `capacity` bit/s, 0 is unlimited, and `level` that of it. R goes along in proportion. */
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
 * What a service is known to use at least, in bit/s: in its last window, or in the one that is open, with `bytes` more. Its windows may be
 * far longer than the interface's, and tell of a pause while it has long begun.
 */
WEIR_INLINE u64 weir_interface_meter_used(const struct weir_interface_meter *meter, const struct weir_receive_meter *service,
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
 * Notes how far R matters to the service of a receive meter, of which `bytes` more have come by `now`, after a window above C. It has `min`,
 * `max` (the least of the policy's and the brokers', 0 is unlimited) and `weight` under the rule `sharing`.
 */
WEIR_INLINE void weir_interface_meter_reach(struct weir_interface_meter *meter, const struct weir_receive_meter *service, u64 now,
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
	/* lightest <= weight <= 10^9: below max, and below 10^18 */
	reach = max / weight * meter->lightest + max % weight * meter->lightest / weight;
	if (reach > meter->reach)
		meter->reach = reach;
}

/* Whether more than C comes, and no more than the link can carry. */
WEIR_INLINE u32 weir_interface_meter_is_full(const struct weir_interface_meter *meter, u64 usage)
{
	return meter->weighs && usage > meter->capacity && usage - meter->capacity <= meter->capacity / WEIR_LINK_PART;
}

/* R after a window of `elapsed` ns. */
WEIR_INLINE u64 weir_interface_meter_step(const struct weir_interface_meter *meter, u64 elapsed)
{
	struct weir_law law = meter->law;
	u64 floor = weir_interface_meter_floor(meter), rate = meter->rate, usage = meter->usage, most;
	/* marks from before a pause are old, see receive_meter.h */
	int old = elapsed / law.interval > WEIR_PAUSE;

	if (usage < meter->peak && !old)
		usage = usage >= meter->capacity / WEIR_SHARE_MOST_OF * WEIR_SHARE_MOST ? meter->peak : meter->capacity;
	if (meter->weighs && usage < meter->capacity)
		law.alpha = WEIR_LAW_ONE;
	most = meter->reach > meter->saturated_rate ? meter->reach : meter->saturated_rate;
	if (meter->reach && meter->usage > meter->capacity && rate > most)
		rate = most > floor ? most : floor;
	rate = weir_law_run(&law, rate, meter->capacity, floor, usage, elapsed, 0);
	if ((meter->settling || meter->peak) && !old && rate > meter->rate)
		rate = meter->rate;
	if (meter->short_marked && !old && meter->short_marked * WEIR_SHARE_MOST_OF >= meter->short_packets * WEIR_SHARE_MOST &&
	    rate > meter->saturated_rate)
		rate = meter->saturated_rate > floor ? meter->saturated_rate : floor;
	return rate;
}

/*
 * Closes the window that is open, `elapsed` ns long and at least an interval, and opens the next. The law is run over
 * `counted` ns. 1: R was computed anew, and with it the services' capacities.
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

/* Counts what came. 1: R was computed anew, and with it the services' capacities. */
WEIR_INLINE int weir_interface_meter_packet(struct weir_interface_meter *meter, u64 now, u64 bytes)
{
	u64 elapsed = weir_window_elapsed(&meter->window, now);
	int stepped = 0;

	if (elapsed >= meter->law.interval)
		stepped = weir_interface_meter_close(meter, now, elapsed, elapsed);
	weir_window_add(&meter->window, bytes, 0, 0);
	meter->received += bytes;
	return stepped;
}

/*
 * The capacity in bit/s of a service with `min`, `max` (0 is unlimited) and `weight` thousandths (at least 1)
 * under the rule `sharing`; 0, unlimited, where neither the interface nor the service has a limit. Never above
 * the interface's capacity, and at least 1.
 */
WEIR_INLINE u64 weir_interface_meter_share(const struct weir_interface_meter *meter, u32 sharing, u64 min, u64 max,
					   u32 weight)
{
	u64 share;

	if (!meter->capacity)
		return max;
	/* min <= minima: above, the part of C that belongs to it */
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

/* weir_receive_packet: this packet's source is to be told the receive meter's rate */
#define WEIR_RECEIVED_FEEDBACK 1U
/* weir_receive_packet: the interface's shares are new */
#define WEIR_RECEIVED_SHARES 2U

/*
 * Notes the marks of a service while the interface is full: those of one that has less than it is `entitled` to count here, see the table
 * above, and those of any but the crowd keep R from rising, however long the service's own windows are.
 */
WEIR_INLINE void weir_note_marks(struct weir_interface_meter *interface, u64 usage, u32 packets, u32 marked, u64 committed)
{
	if (!interface->full || usage >= interface->usage / WEIR_SHARE_MOST_OF * WEIR_SHARE_MOST)
		return;
	if (marked && interface->peak < interface->capacity)
		interface->peak = interface->capacity;
	if (usage >= committed)
		return;
	interface->short_packets += packets;
	interface->short_marked += marked;
}

/* Whether the interface was full in a service's window in which it received so much. */
WEIR_INLINE u32 weir_interface_meter_was_full(const struct weir_interface_meter *meter, u64 usage)
{
	u64 around = meter->capacity / WEIR_FULL_PART;

	if (!meter->capacity)
		return 0;
	return weir_interface_meter_is_full(meter, usage) ||
	       (meter->full && usage >= meter->capacity - around && usage <= meter->capacity + around);
}

/*
 * The window of `meter` ends, `elapsed` ns long and more than none, when its interface has `received` so many bytes of all services:
 * whether it met the own queue, and which of its marks count. A pause tells nothing of a queue, nor does a window that is longer than
 * is measured, or from when the interface had another meter that received more.
 */
WEIR_INLINE void weir_note_own_queue(struct weir_interface_meter *interface, struct weir_receive_meter *meter, u64 received, u64 elapsed)
{
	u64 most = interface->capacity + interface->capacity / WEIR_LINK_PART, usage;
	struct weir_window all = {};
	int known = received >= meter->beside && elapsed / meter->law.interval <= WEIR_PAUSE && elapsed < WEIR_WINDOW_NS_MAX;

	if (known)
		weir_window_add(&all, received - meter->beside, 0, 0);
	meter->beside = received;
	usage = weir_window_usage(&all, elapsed);
	meter->queued = known && weir_interface_meter_was_full(interface, usage);
	if (!meter->queued)
		return;
	if (weir_window_usage(&meter->window, elapsed) >= usage / WEIR_SHARE_MOST_OF * WEIR_SHARE_MOST)
		meter->window.marked = 0;
	if (usage > most)
		usage = most;
	if (meter->window.marked && usage > interface->peak)
		interface->peak = usage;
}

/*
 * A packet (or several at once) of the service of `meter`, which is entitled to `entitled` bit/s of this interface, has
 * come: counts at both levels, marks as above, and says what is due.
 */
WEIR_INLINE u32 weir_receive_packet(struct weir_interface_meter *interface, struct weir_receive_meter *meter, u64 now,
				    u64 bytes, u32 packets, u32 marked, u64 committed)
{
	u64 elapsed = weir_window_elapsed(&meter->window, now);
	u32 due = 0;

	if (weir_interface_meter_packet(interface, now, bytes))
		due |= WEIR_RECEIVED_SHARES;
	if (interface->full)
		weir_note_marks(interface, weir_receive_meter_usage(meter, now), packets, marked, committed);
	if (elapsed >= meter->law.interval)
		weir_note_own_queue(interface, meter, interface->received - bytes, elapsed);
	if (weir_receive_meter_packet(meter, now, bytes, packets, marked))
		due |= WEIR_RECEIVED_FEEDBACK;
	return due;
}

#endif
