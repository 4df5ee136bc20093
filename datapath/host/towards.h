/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * First stage of a packet of a service towards a receiver: the destination's feedback (datapath/destination.h).
 *
 * ECN is encapsulated only towards receivers that decapsulate it (ecn.h). Feedback is requested by such packets.
 * The limiter of the destination is charged with those of the service and the machine (depart.h), or by an HTB class
 * (htb).
 */
#ifndef WEIR_HOST_TOWARDS_H
#define WEIR_HOST_TOWARDS_H

#include "host/store.h"

/* The destination's limiter applies to the packet. */
#define WEIR_TOWARDS_LIMITED 1U
/* Its ECN bits are written for a receiver that restores them: a tenant's own marker is changed. */
#define WEIR_TOWARDS_ECN 2U
/* Its ECN bits are encapsulated. */
#define WEIR_TOWARDS_ENCAPSULATED 4U
/* It requests feedback. */
#define WEIR_TOWARDS_REQUESTS 8U

/*
 * Processes a packet of `bytes` towards a destination at `now`, which can be the time of a tick. Returns
 * WEIR_TOWARDS_*. Without WEIR_TOWARDS_LIMITED the destination's feedback has timed out.
 */
WEIR_INLINE u32 weir_towards(struct weir_destination_entry *entry, u32 bytes, u64 now)
{
	u32 towards = WEIR_TOWARDS_LIMITED | WEIR_TOWARDS_ECN;

	if (!entry)
		return 0;
	if (weir_destination_silent(&entry->destination, now) == WEIR_DESTINATION_DROP)
		return now - entry->destination.feedback_at < WEIR_ECN_AVOID_TIME ? WEIR_TOWARDS_ECN : 0;
	entry->sent += bytes;
	if (!entry->capability_acked_at)
		return towards;
	if (now >= entry->capability_acked_at && now - entry->capability_acked_at >= WEIR_ECN_ENCAPSULATE_TIME)
		return towards;
	towards |= WEIR_TOWARDS_ENCAPSULATED;
	if (weir_destination_requests(&entry->destination, now))
		towards |= WEIR_TOWARDS_REQUESTS;
	return towards;
}

#endif
