/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Authentic feedback sets the rate of its destination (datapath/destination.h).
 *
 * Feedback is applied in the order of its epoch and sequence: a replayed, duplicated or reordered message has no
 * effect. With edt the limiter acts from the next packet on. With htb the agent reads the rate from a mailbox and sets
 * the destination's class.
 *
 * Source: Parley section 3.2.1.
 */
#ifndef WEIR_HOST_APPLY_H
#define WEIR_HOST_APPLY_H

#include "host/store.h"

/* The feedback was newer than all before, and set the rate. */
#define WEIR_APPLIED 1U
/* The rate in the mailbox has changed. */
#define WEIR_APPLIED_CHANGED 2U
/* The receiver is due another ECN capability message (WEIR_ECN_REFRESH). */
#define WEIR_APPLIED_CAPABILITY_DUE 4U

/*
 * Stores a destination's new rate in its mailbox. The caller has the lock, so that an older rate
 * never follows a newer one. Returns 1 if the rate has changed. A change of 1/128 or less is not
 * worth a change of HTB classes and is ignored: capacity that it leaves unused raises the following
 * rates until the difference exceeds 1/128.
 */
WEIR_INLINE int weir_store_rate(struct weir_rate_mailbox *mailbox, u64 rate, u64 now)
{
	u64 before = mailbox->rate, change = before > rate ? before - rate : rate - before;

	mailbox->feedback_at = now;
	if (change <= before / 128)
		return 0;
	mailbox->rate = rate;
	return 1;
}

/*
 * Returns 0 if no agent creates the classes that apply a destination's rate (htb). A capability
 * message would then exempt this host from the receiver's policer (policer.h).
 */
WEIR_INLINE int weir_applies_rates(WEIR_HOST const struct weir_config *config)
{
	struct weir_state *state = WEIR_AT(states, 0);

	return WEIR_PACES(config) || !state || !state->fallback;
}

/*
 * Applies feedback to its destination's limiter at `now`. `settings` are those of the destination's service. Returns
 * WEIR_APPLIED*; 0 for feedback that is not newer than the last.
 */
WEIR_INLINE u32 weir_apply_feedback(WEIR_HOST const struct weir_config *config,
				    const struct weir_service *settings, struct weir_destination_entry *entry,
				    struct weir_rate_mailbox *mailbox, const struct weir_feedback *feedback, u64 now)
{
	struct weir_interface_egress *egress = WEIR_AT(interface_egresses, 0);
	struct weir_pacing *pacing = WEIR_AT(pacings, 0);
	struct weir_destination_rules rules = settings->rules;
	u32 weight = settings->sender_weight, applied = 0;
	u64 rate = feedback->rate;
	int newer;

	if (!egress || !pacing)
		return 0;
	/* Most replays end here, without the lock. */
	if (!weir_feedback_newer(feedback->epoch, feedback->sequence, entry->epoch, entry->sequence))
		return 0;
	WEIR_LOCK(&egress->lock);
	/* Another CPU may have applied newer feedback, or this packet's duplicate, since the check. */
	newer = weir_feedback_newer(feedback->epoch, feedback->sequence, entry->epoch, entry->sequence);
	if (newer) {
		entry->epoch = feedback->epoch;
		entry->sequence = feedback->sequence;
		entry->feedback_count += 1;
		if (!entry->destination.feedback_at ||
		    weir_destination_silent(&entry->destination, now) == WEIR_DESTINATION_DROP)
			weir_destination_init(&entry->destination, now, &rules, WEIR_LAW_RATE_MAX);
		else
			weir_destination_set_rules(&entry->destination, &rules);
		if (WEIR_PACES(config))
			weir_pacing_feedback(pacing, &entry->destination.limiter, now, weir_sender_rate(rate, weight));
		weir_destination_feedback(&entry->destination, now, rate, weight);
		applied = WEIR_APPLIED;
		if (weir_store_rate(mailbox, entry->destination.limiter.rate, now))
			applied |= WEIR_APPLIED_CHANGED;
	}
	WEIR_UNLOCK(&egress->lock);
	if (!newer)
		return 0;
	if (feedback->has & WEIR_FEEDBACK_ECN_ACK)
		entry->capability_acked_at = now;
	if (!weir_applies_rates(WEIR_THIS config))
		return applied;
	if (entry->capability_sent_at && now - entry->capability_sent_at < WEIR_ECN_REFRESH)
		return applied;
	entry->capability_sent_at = now;
	return applied | WEIR_APPLIED_CAPABILITY_DUE;
}

#endif
