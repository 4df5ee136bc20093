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
 * Marks of the own queue. While more than C comes, the queue of the switch's port to this interface grows, and what
 * it marks is not word of a congested network, but of what usage tells too, except for its size: usage ends at the
 * link's rate, were the senders ten times too fast. So weir_receive_packet lets marks count by who caused them. A
 * service is entitled to what the policy's rule gives it of a full interface while all services want everything.
 *
 *                                                    at its receive meter   at the interface meter
 *   the interface is not full                        yes                    no
 *   full: the service brings 5/8 or more of it       no                     no
 *   full: the service has less than it is entitled   no                     yes
 *   full: other services                             yes                    if one with less was marked in this
 *                                                                           window or the last
 *
 * A crowd of one service has nobody to protect: its senders' own congestion control shares the link, and to
 * halve R until the queue has drained takes R far too deep, from where it climbs for many intervals. 5/8 is half and a
 * margin: of two services that fill the interface evenly none is the crowd by chance. Who has less than it is
 * entitled to must not give way, or guarantees of 8 and 1 Gb/s both end at 4. Its marks lower what the interface
 * shares out, at once, before senders lose whole windows and wait for TCP's timers; and then not again for
 * WEIR_SHARE_PATIENCE windows: until senders have heard, and the queue has drained that they built, a mark says nothing
 * new. Without that patience, a service of short messages that never wants all that it is entitled to takes the others
 * down to their guarantees whenever it meets their queue.
 *
 * The price: services that have nothing to send are entitled too. Two busy ones beside them may both have more than they
 * are entitled to; then each gives way by its own marks, and without guarantees they use 8 of 10 Gb/s instead of 9.5.
 *
 * What comes of it: `cargo test -p weir-sim --test shapers crowds -- --nocapture` prints pairs of crowds, eight seeds each.
 *
 * "Full" is more than C, which may be a cap below the link's rate: what is marked then is some other queue's, of a
 * network whose share this interface takes too much of anyway, as usage tells.
 *
 * Bounds: those of rate_law.h; weights in thousandths, 1 to 10^9; R * weight / lightest is computed as
 * (R / lightest) * weight, cut off at 8 Tb/s, and (R % lightest) * weight / lightest, below 10^18.
 *
 * Worked example: C = 9 Gb/s (a cap), services of weights 1 and 2, both backlogged. R starts at 3 Gb/s and stays: 3 and
 * 6 Gb/s. The second ends; the first uses 3 of 9, so R rises to 3 * (1 + 0.5 * 6/9) = 4, then 5.11, up to 9 Gb/s.
 *
 * Source: EyeQ's source code, its device rate: this law every 1,000 us against 9,000 Mb/s (of 10 Gb/s), class
 * rate = weight * device rate. Parley's shares at a machine, section 3.1. Which marks count, and the patience, are ours.
 */
#ifndef WEIR_INTERFACE_METER_H
#define WEIR_INTERFACE_METER_H

#include "receive_meter.h"

#define WEIR_SHARE_FILL 0
#define WEIR_SHARE_ADD 1
/* The floor of R is this part of the lightest service's share of everybody active. */
#define WEIR_SHARE_FLOOR_PART 100
/*
 * For so many windows after marks lowered R they do not count again, and in the first half of them R does not rise: feedback and
 * its effect are there within one, at 10 Gb/s a full buffer of 1 MB has drained within another, usage that shows it is that of the
 * third, and what it says is law in the fourth.
 */
#define WEIR_SHARE_PATIENCE 8U
/* 1,000,000 in thousandths. */
#define WEIR_WEIGHT_MAX 1000000000U

struct weir_interface_meter {
	struct weir_law law;
	struct weir_window window;
	u64 capacity; /* bit/s; 0 is unlimited */
	u64 rate;     /* R, bit/s for the lightest weight; 0 when unlimited */
	u64 usage;    /* bit/s of the last window that closed */
	u64 total;    /* sum of the services' weights, thousandths, at least `lightest` */
	u32 lightest; /* thousandths, 1 to WEIR_WEIGHT_MAX */
	u32 squeezed; /* whether who has less than it is entitled to was marked: bit 0 in this window, bit 1 in the last */
	u32 weighs;   /* 1: while the interface is full marks count by who caused them; 0: always (EyeQ) */
	u32 patience; /* windows for which marks do not count any more */
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

/* A meter with nothing counted, for services whose weights sum to `total`, the least of them `lightest`. */
WEIR_INLINE void weir_interface_meter_init(struct weir_interface_meter *meter, u64 now, const struct weir_law *law,
					   u64 capacity, u32 lightest, u64 total, u32 weighs)
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
	meter->weighs = weighs;
	meter->capacity = weir_capacity_clamp(capacity);
	meter->rate = meter->capacity ? weir_law_clamp(weir_weight_share(meter->capacity, lightest, meter->total), 1,
						       meter->capacity) :
					0;
}

/* From now on the interface's capacity is `capacity` bit/s; 0 is unlimited. R goes along in proportion. */
WEIR_INLINE void weir_interface_meter_set_capacity(struct weir_interface_meter *meter, u64 capacity)
{
	u64 part;

	capacity = weir_capacity_clamp(capacity);
	if (capacity == meter->capacity)
		return;
	part = meter->capacity ? (meter->rate << WEIR_LAW_SHIFT) / meter->capacity : WEIR_LAW_ONE;
	meter->capacity = capacity;
	meter->rate = capacity ? weir_law_clamp(weir_law_scale(capacity, part), weir_interface_meter_floor(meter),
						capacity) :
				 0;
}

/* After a window of `elapsed` ns: R, which was `before`, as patience lets it be. */
WEIR_INLINE void weir_interface_meter_wait(struct weir_interface_meter *meter, u64 before, u64 elapsed)
{
	u64 windows = elapsed / meter->law.interval;

	if (meter->weighs && meter->window.marked) {
		meter->patience = WEIR_SHARE_PATIENCE;
	} else if (windows < meter->patience) {
		meter->patience -= (u32)windows;
		if (meter->rate > before && meter->patience >= WEIR_SHARE_PATIENCE / 2)
			meter->rate = before;
	} else {
		meter->patience = 0;
	}
}

/* Counts as weir_receive_meter_packet does. 1: R was computed anew, and with it the services' capacities. */
WEIR_INLINE int weir_interface_meter_packet(struct weir_interface_meter *meter, u64 now, u64 bytes, u32 packets,
					    u32 marked)
{
	struct weir_window *window = &meter->window;
	u64 elapsed = weir_window_elapsed(window, now);
	int stepped = 0;

	if (elapsed >= meter->law.interval) {
		meter->usage = weir_window_usage(window, elapsed);
		if (meter->capacity) {
			u64 before = meter->rate;

			meter->rate = weir_law_run(&meter->law, meter->rate, meter->capacity,
						   weir_interface_meter_floor(meter), meter->usage, elapsed,
						   weir_law_fraction(window->marked, window->packets));
			weir_interface_meter_wait(meter, before, elapsed);
			stepped = 1;
		}
		weir_window_open(window, now);
		meter->squeezed = meter->squeezed << 1 & 2;
	}
	weir_window_add(window, bytes, packets, meter->patience ? 0 : marked);
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

/* Whether more than the capacity came in the last window. */
WEIR_INLINE int weir_interface_meter_is_full(const struct weir_interface_meter *meter)
{
	return meter->capacity && meter->usage > meter->capacity;
}

/* weir_receive_packet: this packet's source is to be told the receive meter's rate */
#define WEIR_RECEIVED_FEEDBACK 1U
/* weir_receive_packet: the interface's shares are new */
#define WEIR_RECEIVED_SHARES 2U

/*
 * A packet (or several at once) of the service of `meter`, which is entitled to `entitled` bit/s of this interface, has
 * come: counts at both levels, marks as above, and says what is due.
 */
WEIR_INLINE u32 weir_receive_packet(struct weir_interface_meter *interface, struct weir_receive_meter *meter, u64 now,
				    u64 bytes, u32 packets, u32 marked, u64 entitled)
{
	u32 own = marked, shared = 0, due = 0;

	if (interface->weighs && weir_interface_meter_is_full(interface)) {
		u64 usage = weir_receive_meter_usage(meter, now);
		int crowd = usage >= interface->usage / 8 * 5;
		int squeezed = !crowd && usage < entitled;

		own = crowd || squeezed ? 0 : marked;
		if (squeezed && marked)
			interface->squeezed |= 1;
		shared = !crowd && interface->squeezed ? marked : 0;
	}
	if (weir_interface_meter_packet(interface, now, bytes, packets, shared))
		due |= WEIR_RECEIVED_SHARES;
	if (weir_receive_meter_packet(meter, now, bytes, packets, own))
		due |= WEIR_RECEIVED_FEEDBACK;
	return due;
}

#endif
