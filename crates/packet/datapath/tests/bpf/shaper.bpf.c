// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Compile test of the machine shaper's headers for the BPF target; never loaded. Each function is
 * called once, with arguments that the compiler cannot evaluate.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "departure.h"
#include "destination.h"
#include "ecn.h"
#include "feedback.h"
#include "feedback_sampler.h"
#include "interface_meter.h"
#include "receive_meter.h"
#include "receive_tick.h"

struct state {
	struct weir_law law;
	struct weir_destination_rules rules;
	struct weir_interface_meter interface;
	struct weir_receive_meter meter;
	struct weir_policer policer;
	struct weir_feedback_sampler sampler;
	struct weir_destination destination;
};

__attribute__((section("classifier"), used)) int initialize(struct __sk_buff *skb)
{
	struct state *state = (struct state *)(long)skb->data;

	weir_interface_meter_init(&state->interface, skb->tstamp, &state->law, skb->mark, skb->priority, skb->hash,
				  skb->len, skb->mark, 1);
	weir_interface_meter_set_capacity(&state->interface, skb->len, skb->hash);
	weir_receive_meter_init(&state->meter, skb->tstamp, &state->law, skb->mark);
	weir_receive_meter_set_interval(&state->meter, skb->mark);
	weir_feedback_sampler_init(&state->sampler, skb->tstamp, skb->len, skb->priority, skb->hash);
	weir_destination_init(&state->destination, skb->tstamp, &state->rules, skb->mark);
	return 0;
}

__attribute__((section("classifier"), used)) int ingress(struct __sk_buff *skb)
{
	struct state *state = (struct state *)(long)skb->data;
	u64 now = skb->tstamp;
	struct weir_taken taken = { .bytes = skb->len, .stranger_bytes = skb->hash };
	u64 counted;

	weir_interface_meter_reach(&state->interface, &state->meter, now, skb->len, skb->priority, skb->hash, skb->len,
				   skb->mark);
	weir_tick_marks(&state->interface, &state->meter, 1, skb->mark, skb->hash);
	if (weir_tick_interface(&state->interface, now, skb->len, skb->priority))
		weir_receive_meter_set_capacity(&state->meter,
						weir_interface_meter_share(&state->interface, skb->priority, skb->hash,
									   skb->len, skb->mark),
						1);
	weir_tick_set_interval(&state->meter, skb->mark, skb->len);
	counted = weir_tick_policer(&state->policer, now, skb->hash, skb->mark, skb->priority, &taken);
	weir_tick_meter(&state->interface, &state->meter, now, counted, 1, skb->mark, skb->priority);
	if (!weir_feedback_not_due(&state->sampler, now, skb->len) &&
	    weir_feedback_due(&state->sampler, now, skb->len))
		weir_destination_feedback(&state->destination, now, state->meter.rate, skb->mark);
	if (weir_destination_silent(&state->destination, now) == WEIR_DESTINATION_DROP)
		return (int)state->meter.usage;
	skb->tstamp = weir_limiter_departure(&state->destination.limiter, now, skb->len);
	return weir_destination_requests(&state->destination, now);
}

struct sending {
	struct weir_pacing pacing;
	struct weir_sending rules;
	struct weir_sender sender;
	struct weir_interface_meter meter;
	struct weir_machine_egress machine;
};

__attribute__((section("classifier"), used)) int egress(struct __sk_buff *skb)
{
	struct sending *sending = (struct sending *)(long)skb->data;
	u64 now = skb->tstamp, departure = now;
	u32 leaves;

	leaves = weir_sender_departure(&sending->sender, &sending->rules, &sending->pacing, &sending->meter,
				       &sending->machine, now, skb->len, skb->mark, &departure);
	if (leaves != WEIR_LEAVES_NEVER)
		weir_machine_egress_departure(&sending->machine, &sending->pacing, now, skb->len, leaves, &departure);
	skb->tstamp = departure;
	weir_sending_tick(&sending->meter, now, skb->len, skb->hash, skb->mark);
	return 0;
}
