/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Last stages of a packet that leaves (edt): its departure by the limiters of its destination, its service and the
 * machine (departure.h).
 *
 * One lock protects all limiters of the interface. The batch of this CPU (weir_depart_in_batch) and the lease
 * (lease.h) keep it off the path of most packets.
 *
 * Worked example: a service with a limit of 1 Gb/s that has used its burst. A packet of 1,514 B departs 12,112 ns
 * after the one before it, by the lease, without the lock.
 */
#ifndef WEIR_HOST_DEPART_H
#define WEIR_HOST_DEPART_H

#include "host/store.h"

/* The packet leaves at once, at a time, or is dropped, since it would wait beyond the horizon. */
#define WEIR_DEPARTS_NOW 0U
#define WEIR_DEPARTS_LATER 1U
#define WEIR_DEPARTS_NEVER 2U

/* Returns 1 if the packet leaves at once in this CPU's batch. `destination` is a slot or WEIR_NO_DESTINATION. */
WEIR_INLINE int weir_depart_in_batch(WEIR_HOST u32 service, u32 destination, u32 bytes)
{
	struct weir_cpu_batch *batch = WEIR_MINE(cpu_batches, weir_slot_of(service));
	struct weir_state *state = WEIR_AT(states, 0);

	return batch && state && weir_cpu_batch_pass(batch, *(volatile u64 *)&state->due, destination, bytes);
}

/* Returns the later of `departure` and the current time. */
WEIR_INLINE u64 weir_not_before_now(WEIR_HOST u64 departure)
{
	u64 now = WEIR_CLOCK();

	return departure > now ? departure : now;
}

/* Counts a buffer of `bytes` that is dropped because its departure is beyond the horizon. */
WEIR_INLINE void weir_count_drop(WEIR_HOST u32 slot, u32 bytes)
{
	struct weir_meter *drops = WEIR_MINE(drops, slot);

	WEIR_COUNT(beyond_horizon);
	if (drops)
		weir_meter_add(drops, bytes, 1);
}

/*
 * Charges a packet of `bytes` to the limiters. Returns WEIR_DEPARTS_*, and the time in `departure`. `entry` is that of
 * its destination, which can be null, at the slot `destination`.
 */
WEIR_INLINE u32 weir_depart_at(WEIR_HOST u32 bytes, u32 service, struct weir_destination_entry *entry, u32 destination,
			       u64 tick, u64 *departure)
{
	u32 slot = weir_slot_of(service), static_only, leaves;
	struct weir_service_egress *service_egress = WEIR_AT(service_egresses, slot);
	struct weir_sending *rules = WEIR_AT(sendings, slot);
	struct weir_cpu_batch *batch = WEIR_MINE(cpu_batches, slot);
	struct weir_pacing *pacing = WEIR_AT(pacings, 0);
	struct weir_interface_egress *egress = WEIR_AT(interface_egresses, 0);
	struct weir_state *state = WEIR_AT(states, 0);
	struct weir_destination_entry *charged = entry; /* the destination of the batch */
	struct weir_lease *lease;
	u64 tick_time, now, due;

	if (!service_egress || !rules || !batch || !pacing || !egress || !state)
		return WEIR_DEPARTS_NOW;
	static_only = state->fallback;
	due = *(volatile u64 *)&state->due;
	lease = entry ? &entry->lease : &service_egress->sender.lease;
	if (weir_lease_take(lease, due, bytes, departure))
		goto leased;
	if (batch->slot != destination) {
		charged = WEIR_AT(destinations, batch->slot);
		/* The slot has been reassigned to a destination of another service. */
		if (charged && charged->key.service != service)
			charged = 0;
	}
	/* Computed without the lock: another CPU may charge the limiters before this one has it. */
	tick_time = weir_departure_tick_time(&service_egress->sender, entry ? &entry->destination.limiter : 0,
					     batch->unpaid, lease, pacing, tick, due);
	now = tick_time ? tick_time : WEIR_CLOCK();
	/*
	 * One lock for all limiters of the interface: the lock costs more than the work under it.
	 */
	WEIR_LOCK(&egress->lock);
	/* The previous holder of the lock may have begun a lease. */
	if (weir_lease_take(lease, due, bytes, departure)) {
		WEIR_UNLOCK(&egress->lock);
		goto leased;
	}
	leaves = weir_depart(batch, charged ? &charged->destination.limiter : 0,
			     entry ? &entry->destination.limiter : 0, destination, lease, &service_egress->sender,
			     rules, pacing, &state->sending, &egress->machine, now, due, bytes, static_only,
			     departure);
	WEIR_UNLOCK(&egress->lock);
	if (leaves == WEIR_LEAVES_NEVER) {
		weir_count_drop(WEIR_THIS slot, bytes);
		return WEIR_DEPARTS_NEVER;
	}
	if (*departure <= now)
		return WEIR_DEPARTS_NOW;
	/*
	 * Another CPU may have charged the limiters since tick time, and the departure be in the
	 * past.
	 */
	if (tick_time && *departure <= due + tick)
		*departure = weir_not_before_now(WEIR_THIS *departure);
	return WEIR_DEPARTS_LATER;
leased:
	if (weir_cpu_batch_end(batch, due, destination))
		*departure = weir_not_before_now(WEIR_THIS *departure);
	return WEIR_DEPARTS_LATER;
}

#endif
