/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Destination limiter: the rate of a service towards one receiver, below
 * the service's root limiter.
 *
 * A receiver advertises the rate R that each of its senders may use. The sender limits itself to R
 * times its weight at that receiver, as long as the receiver sends feedback. The first feedback
 * creates the limiter. A destination that sends no feedback has no limiter.
 *
 * Without feedback for `silence` (1 s), the receiver has no meter any more, or received no packet
 * that gets feedback. Two modes exist:
 *
 *   drop   (Parley removes idle limiters) the caller removes the limiter
 *   halve  (EyeQ) the rate halves, and again after each further `silence`, down to `halved_floor`
 *
 * Feedback requests: a receiver sends feedback for one packet per 10 kB, so a sender at a rate r receives
 * feedback every 80,000 / r s on average. That is late for slow senders and for many senders. A
 * sender without feedback for `request_after` sends a packet as ECT(1) instead of ECT(0), at most
 * once per `request_after`. Switches treat both alike, and the receiver sends feedback without state. A
 * CE mark overwrites the request; the next request replaces it. 0 disables requests.
 *
 * The burst is `burst` bytes, or the bytes of `burst_time` at the rate if these are more.
 *
 * Worked example: feedback of 3 Gb/s to a sender of weight 2 sets 6 Gb/s. With EyeQ's values a
 * limiter starts at 5,000 Mb/s. Feedback of 900 at 0 us sets 900. Feedback of 600 at 100 us is too
 * early; at 120 us it sets 600. Without feedback the rate is 300 after 1 s and 150 after 2 s.
 *
 * Bounds: rates from 1 bit/s to 8 Tb/s. rate * weight / 1000 has two parts, each below
 * 2^63. burst_time is at most 1 s: (rate / 8,000) * ns / 10^6 with rate / 8,000 <= 10^9 is
 * below 2^60. The limiter clamps bursts to 256 MiB. A call halves at most once: call at
 * least once per `silence`.
 *
 * Source: Parley sections 3.2.1 (w_sender * R) and 7 (burst size per service); EyeQ's source code
 * (5,000 Mb/s, 120 us, 1 s, 2 Mb/s, 150 us, 64 kB).
 * Deviates from the paper in: feedback requests. Reasons: docs/design/destination-limiter.md.
 */
#ifndef WEIR_DESTINATION_H
#define WEIR_DESTINATION_H

#include "limiter.h"
#include "rate_law.h"

#define WEIR_DESTINATION_KEEP 0
#define WEIR_DESTINATION_DROP 1

struct weir_destination_rules {
	u64 hold;          /* ns for which a new rate stays despite further feedback; 0: none */
	u64 silence;       /* ns without feedback after which the limiter is dropped or halved */
	u64 burst_time;    /* ns, up to 1 s */
	u64 halved_floor;  /* bit/s; 0: silence drops the limiter */
	u64 request_after; /* ns without feedback after which a packet requests it; 0: never */
	u32 burst;         /* bytes */
	u32 reserved;
};

struct weir_destination {
	struct weir_limiter limiter;
	struct weir_destination_rules rules;
	u64 feedback_at;  /* ns: the last feedback, or the creation */
	u64 halved_at;    /* ns: start of the current period of silence */
	u64 changed_at;   /* ns: when feedback last set the rate; valid with `changed` */
	u64 requested_at; /* ns: the last feedback request, or the creation */
	u32 changed;      /* 1: feedback has set the rate */
	u32 reserved;
};

/*
 * Returns `rate` * `weight` / 1000, from 1 bit/s to WEIR_LAW_RATE_MAX. `weight` is in
 * thousandths, up to 10^9.
 */
WEIR_INLINE u64 weir_sender_rate(u64 rate, u32 weight)
{
	if (rate > WEIR_LAW_RATE_MAX)
		rate = WEIR_LAW_RATE_MAX;
	/* at most 8 * 10^9 * 10^9 + 10^9 */
	rate = rate / 1000 * weight + rate % 1000 * weight / 1000;
	return weir_law_clamp(rate, 1, WEIR_LAW_RATE_MAX);
}

/* Sets the rate in bit/s as of `now`, and the burst that belongs to it. */
WEIR_INLINE void weir_destination_set(struct weir_destination *destination, u64 now, u64 rate)
{
	u64 burst = rate / 8000 * destination->rules.burst_time / 1000000;

	if (burst < destination->rules.burst)
		burst = destination->rules.burst;
	if (burst > WEIR_CHARGE_MAX)
		burst = WEIR_CHARGE_MAX;
	weir_limiter_set_rate(&destination->limiter, now, rate);
	weir_limiter_set_burst(&destination->limiter, (u32)burst);
}

/* Replaces the rules after a policy change. The burst follows with the next feedback. */
WEIR_INLINE void weir_destination_set_rules(struct weir_destination *destination,
					    const struct weir_destination_rules *rules)
{
	destination->rules = *rules;
	if (destination->rules.burst_time > 1000000000)
		destination->rules.burst_time = 1000000000;
}

/* Creates a limiter at `now` with `rate` bit/s. */
WEIR_INLINE void weir_destination_init(struct weir_destination *destination, u64 now,
				       const struct weir_destination_rules *rules, u64 rate)
{
	__builtin_memset(destination, 0, sizeof(*destination));
	weir_destination_set_rules(destination, rules);
	destination->limiter.paid_at = now;
	destination->limiter.rest_at = now;
	destination->feedback_at = now;
	destination->halved_at = now;
	destination->requested_at = now;
	weir_destination_set(destination, now, weir_law_clamp(rate, 1, WEIR_LAW_RATE_MAX));
}

/*
 * Applies feedback of `rate` bit/s; this sender has `weight` thousandths at the receiver. Returns 1
 * if the feedback set the rate, 0 within `hold`.
 */
WEIR_INLINE int weir_destination_feedback(struct weir_destination *destination, u64 now, u64 rate, u32 weight)
{
	destination->feedback_at = now;
	destination->halved_at = now;
	if (destination->changed && now - destination->changed_at < destination->rules.hold)
		return 0;
	destination->changed = 1;
	destination->changed_at = now;
	weir_destination_set(destination, now, weir_sender_rate(rate, weight));
	return 1;
}

/* Returns 1 if the packet that leaves at `now` is to request feedback. */
WEIR_INLINE int weir_destination_requests(struct weir_destination *destination, u64 now)
{
	u64 after = destination->rules.request_after;

	if (!after || now < destination->feedback_at || now - destination->feedback_at < after)
		return 0;
	if (now < destination->requested_at || now - destination->requested_at < after)
		return 0;
	destination->requested_at = now;
	return 1;
}

/* Handles missing feedback at `now`. Returns WEIR_DESTINATION_KEEP or WEIR_DESTINATION_DROP. */
WEIR_INLINE int weir_destination_silent(struct weir_destination *destination, u64 now)
{
	const struct weir_destination_rules *rules = &destination->rules;
	u64 rate = destination->limiter.rate;

	if (now <= destination->halved_at || now - destination->halved_at < rules->silence)
		return WEIR_DESTINATION_KEEP;
	if (!rules->halved_floor)
		return WEIR_DESTINATION_DROP;
	/* counts from the time at which it was due, so late calls do not lengthen the periods */
	destination->halved_at += rules->silence;
	if (rate > rules->halved_floor) {
		rate /= 2;
		weir_destination_set(destination, now, rate > rules->halved_floor ? rate : rules->halved_floor);
	}
	return WEIR_DESTINATION_KEEP;
}

#endif
