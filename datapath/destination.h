/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * A sender's limiter towards one destination of a service, below the service's root limiter.
 *
 * Problem: a receiver says how fast each of its senders may send; the sender holds itself to that, for as long as
 * the receiver is there to say so. Approach: a limiter (limiter.h) whose rate is what was fed back, times the
 * weight that the sender has at that receiver. Sent where feedback comes from, and made by its first feedback:
 * a destination that never answers has none, and is not held.
 *
 * When no feedback came for `silence` (1 s) the receiver has no meter any more, or nothing was sent that it
 * could answer. Two ways:
 *   drop   (Parley: idle limiters go) the caller forgets the limiter
 *   halve  (EyeQ) the rate halves, and again after each further `silence`, down to `halved_floor`
 *
 * Asking. A receiver answers one packet per 10 kB, whosever it is, so a sender at rate r hears each 80,000 / r s on
 * average. That is late in two ways. A sender that was told 10 Mb/s in a bad moment hears of better times
 * after 8 ms on average, and of many senders some wait much longer: of ten at 9 Gb/s one was seen to stay at 10 Mb/s
 * for 40 ms. And a loop that is late by more than pi / (2 a), 3 intervals, swings: at 9 Gb/s and T = 200 us,
 * 30 senders settle, 50 use two thirds of C. So a sender that has not heard for `ask_after` asks, at most once per
 * `ask_after`: a packet that leaves is sent as ECT(1) instead of ECT(0), which switches treat alike, and the
 * receiver answers what asks, without any state. What is marked on the way no longer shows that it asked; the
 * next ask will. With 500 us, 100 senders settle, at T = 200 us slowly, at 500 us in 21 intervals. This is ours, not
 * Parley's. 0 is never: then give T a third of the time in which C carries 10 kB from each sender, or more (0.3 ms for
 * 100 senders at 9 Gb/s), so that what is late is late by few intervals.
 *
 * The bucket: `burst` bytes, or what `burst_time` carries at the rate, whichever is more.
 *
 * Bounds: rates 1 bit/s to 8 Tb/s; rate * weight / 1000 is computed in two parts, each below 2^63. burst_time up
 * to 1 s: rate / 8 * burst_time is computed as (rate / 8,000) * ns / 10^6 with rate / 8,000 <= 10^9 and is below
 * 2^60; the limiter cuts bursts at 256 MiB. Halving is at most once per call: call at least once per `silence`.
 *
 * Worked example: feedback of 3 Gb/s to a sender of weight 2: 6 Gb/s. EyeQ: 5,000 Mb/s at first; feedback 900 at
 * 0 us sets 900; 600 at 100 us is too soon, 600 at 120 us sets it. Then nothing: 300 after 1 s, 150 after 2 s.
 *
 * Source: Parley section 3.2.1 (w_sender * R) and 7 (burst size per service); EyeQ's source code (5,000 Mb/s, 120
 * us, 1 s, 2 Mb/s, 150 us, 64 kB).
 */
#ifndef WEIR_DESTINATION_H
#define WEIR_DESTINATION_H

#include "limiter.h"
#include "rate_law.h"

#define WEIR_DESTINATION_KEEP 0
#define WEIR_DESTINATION_DROP 1

struct weir_destination_rules {
	u64 hold;         /* ns for which a new rate stays, whatever is fed back; 0: not at all */
	u64 silence;      /* ns without feedback after which the limiter is dropped or its rate halved */
	u64 burst_time;   /* ns, up to 1 s */
	u64 halved_floor; /* bit/s; 0: silence drops the limiter */
	u64 request_after;    /* ns without feedback after which packets ask for it; 0: never */
	u32 burst;        /* bytes */
	u32 reserved;
};

struct weir_destination {
	struct weir_limiter limiter;
	struct weir_destination_rules rules;
	u64 feedback_at;   /* ns: the last feedback, or the making */
	u64 halved_at;  /* ns: the last time that silence was counted from */
	u64 changed_at; /* ns: when feedback last set the rate; with `changed` */
	u64 requested_at;   /* ns: the last packet that asked; the making at first */
	u32 changed;    /* 1: feedback has set the rate */
	u32 reserved;
};

/* `rate` * `weight` / 1000, from 1 bit/s to WEIR_LAW_RATE_MAX: `weight` in thousandths, up to 10^9. */
WEIR_INLINE u64 weir_sender_rate(u64 rate, u32 weight)
{
	if (rate > WEIR_LAW_RATE_MAX)
		rate = WEIR_LAW_RATE_MAX;
	/* at most 8 * 10^9 * 10^9 + 10^9 */
	rate = rate / 1000 * weight + rate % 1000 * weight / 1000;
	return weir_law_clamp(rate, 1, WEIR_LAW_RATE_MAX);
}

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

/* From the next feedback on these rules hold: a policy may have changed. */
WEIR_INLINE void weir_destination_set_rules(struct weir_destination *destination, const struct weir_destination_rules *rules)
{
	destination->rules = *rules;
	if (destination->rules.burst_time > 1000000000)
		destination->rules.burst_time = 1000000000;
}

/* A limiter made at `now` with `rate` bit/s. */
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

/* The receiver says `rate` bit/s; this sender has `weight` thousandths there. 1: that is now its rate. */
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

/* 1: the packet that leaves at `now` asks for feedback. */
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

/* What comes of silence at `now`: WEIR_DESTINATION_KEEP or WEIR_DESTINATION_DROP. */
WEIR_INLINE int weir_destination_silent(struct weir_destination *destination, u64 now)
{
	const struct weir_destination_rules *rules = &destination->rules;
	u64 rate = destination->limiter.rate;

	if (now <= destination->halved_at || now - destination->halved_at < rules->silence)
		return WEIR_DESTINATION_KEEP;
	if (!rules->halved_floor)
		return WEIR_DESTINATION_DROP;
	/* from the time that it was due, so that late calls do not stretch the seconds */
	destination->halved_at += rules->silence;
	if (rate > rules->halved_floor) {
		rate /= 2;
		weir_destination_set(destination, now, rate > rules->halved_floor ? rate : rules->halved_floor);
	}
	return WEIR_DESTINATION_KEEP;
}

#endif
