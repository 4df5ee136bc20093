/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The maps of tables.h. They are pinned by their names; see crates/linux/src/pins.rs. */
#ifndef WEIR_MAPS_H
#define WEIR_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "tables.h"

/* tc's "go on with the next program": TC_ACT_UNSPEC, which is also TCX_NEXT. */
#define NEXT (-1)
#define DROP 2

/* linux/pkt_sched.h, TC_PRIO_CONTROL */
#define WEIR_PRIORITY_CONTROL 7
/* linux/if_packet.h, PACKET_OTHERHOST: to another's hardware address */
#define WEIR_PACKET_OTHERHOST 3

struct weir_timer {
	struct bpf_timer timer;
};

#define WEIR_ARRAY(name, of, entries)                                                                                       \
	struct {                                                                                                            \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                                           \
		__uint(max_entries, entries);                                                                               \
		__type(key, u32);                                                                                           \
		__type(value, of);                                                                                          \
	} name SEC(".maps")

#define WEIR_PERCPU(name, of, entries)                                                                                      \
	struct {                                                                                                            \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);                                                                    \
		__uint(max_entries, entries);                                                                               \
		__type(key, u32);                                                                                           \
		__type(value, of);                                                                                          \
	} name SEC(".maps")

/* user space writes */
WEIR_ARRAY(weir_config, struct weir_config, 1);
WEIR_ARRAY(weir_tables, struct weir_table, WEIR_TABLES);
WEIR_ARRAY(weir_keys, struct weir_key, WEIR_KEYS);
WEIR_ARRAY(weir_services, struct weir_service, WEIR_SERVICES_MAX);
WEIR_ARRAY(weir_interfaces, struct weir_interface, WEIR_SIDES);
WEIR_ARRAY(weir_sendings, struct weir_sending, WEIR_SERVICES_MAX + 1);
WEIR_ARRAY(weir_pacings, struct weir_pacing, 1);
WEIR_ARRAY(weir_heartbeat, u64, 1); /* ns: when the agent was last alive */

/* each CPU writes */
WEIR_PERCPU(weir_meters, struct weir_meter, WEIR_METERS);
WEIR_PERCPU(weir_counting, struct weir_counting, WEIR_SERVICES_MAX + 1);
WEIR_PERCPU(weir_active, struct weir_active, 1);
WEIR_PERCPU(weir_advertised, struct weir_advertised, WEIR_ADVERTISED_SLOTS);
WEIR_PERCPU(weir_ecn_cache, struct weir_ecn_cache, WEIR_ECN_CACHE_SLOTS);
WEIR_PERCPU(weir_reply, struct weir_reply, 1);
WEIR_PERCPU(weir_feedback_arrival, struct weir_feedback_arrival, 1);
WEIR_PERCPU(weir_counts, u64, WEIR_COUNTS);
WEIR_PERCPU(weir_cpu_batches, struct weir_cpu_batch, WEIR_SERVICES_MAX + 1);

/* ticks write */
WEIR_ARRAY(weir_receivers, struct weir_receiver, WEIR_SERVICES_MAX + 1);
WEIR_ARRAY(weir_states, struct weir_state, 1);
WEIR_ARRAY(weir_timers, struct weir_timer, 1);

/* packets that leave write, under a lock */
WEIR_ARRAY(weir_service_egresses, struct weir_service_egress, WEIR_SERVICES_MAX + 1);
WEIR_ARRAY(weir_interface_egresses, struct weir_interface_egress, 1);

/* arriving words write */
WEIR_ARRAY(weir_ecn_epoch, u64, 1); /* senders that have given their first word, ever */

/* destinations */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_DESTINATIONS_MAX);
	__type(key, struct weir_destination_key);
	__type(value, u32);
} weir_destination_slots SEC(".maps");
WEIR_ARRAY(weir_destinations, struct weir_destination_entry, WEIR_DESTINATIONS_MAX);
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_DESTINATIONS_MAX);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct weir_rate_mailbox);
} weir_rate_mailboxes SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, WEIR_DESTINATIONS_MAX);
	__type(value, u32);
} weir_free_slots SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, WEIR_DESTINATIONS_MAX * 16);
} weir_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WEIR_ECN_SENDERS_MAX);
	__type(key, struct weir_ecn_sender);
	__type(value, struct weir_ecn_capability);
} weir_ecn_senders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WEIR_NEIGHBOURS_MAX);
	__type(key, struct weir_address);
	__type(value, u64); /* ns: when it last was seen to send */
} weir_neighbours SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_PEERS_MAX);
	__type(key, struct weir_address);
	__type(value, struct weir_peer);
} weir_peers SEC(".maps");

/*
 * 0: loaded for a host where packets get no departure times (htb). What is for those is then no part of the programs, and the verifier need
 * not look at it, which is half of its work: a second of a processor at each start of an agent. The loader writes.
 */
const volatile u32 weir_paces = 1;

/* Whether packets are given departure times. */
static __always_inline int paces(const struct weir_config *config)
{
	return weir_paces && config->paces;
}

/*
 * The service of a packet. A function of its own, which the verifier looks at once: its 256 comparisons are otherwise
 * multiplied by all ways to get there.
 */
__noinline u32 classify(const struct weir_table *table, const struct weir_packet *packet)
{
	if (!table || !packet)
		return WEIR_UNCLASSIFIED;
	return weir_classify(table->rules, table->count, table->starts, packet);
}

/* Who sends a packet of a service, as words are known by. */
static __always_inline void ecn_sender_of(const struct weir_packet *packet, u32 service, struct weir_ecn_sender *sender)
{
	sender->source[0] = packet->source[0];
	sender->source[1] = packet->source[1];
	sender->destination[0] = packet->destination[0];
	sender->destination[1] = packet->destination[1];
	sender->service = service;
}

/* Whether the sender of a packet of a service has given its word that it codes, less than `since` ns before `now`. */
static __always_inline int is_ecn_sender(const struct weir_packet *packet, u32 service, u64 now, u64 since)
{
	struct weir_ecn_sender sender = {};
	struct weir_ecn_capability *capability;

	ecn_sender_of(packet, service, &sender);
	capability = bpf_map_lookup_elem(&weir_ecn_senders, &sender);
	/* the time of a tick may lie before the word */
	return capability && (now < capability->at || now - capability->at < since);
}

/* The same for WEIR_ECN_DECAPSULATE_TIME, as this CPU remembers it, or else by the table of all. */
static __always_inline int decapsulates(const struct weir_packet *packet, u32 service, u64 now)
{
	u32 slot = weir_advertised_slot(packet->source, packet->destination, service, WEIR_ECN_CACHE_SLOTS);
	struct weir_ecn_cache *cached = bpf_map_lookup_elem(&weir_ecn_cache, &slot);
	struct weir_ecn_capability *capability;
	u32 key = 0;
	u64 *epoch = bpf_map_lookup_elem(&weir_ecn_epoch, &key), known;

	if (!cached || !epoch)
		return 0;
	/* before the look into the table, as whoever writes there counts afterwards */
	known = *(volatile u64 *)epoch;
	/* the time of a tick may lie before the word */
	if (cached->sender.source[0] == packet->source[0] && cached->sender.source[1] == packet->source[1] &&
	    cached->sender.destination[0] == packet->destination[0] && cached->sender.destination[1] == packet->destination[1] &&
	    cached->sender.service == service) {
		if (cached->at && (now < cached->at || now - cached->at < WEIR_ECN_DECAPSULATE_TIME))
			return 1;
		if (!cached->at && cached->epoch == known)
			return 0;
	}
	/* what is found is remembered, whoever had the place */
	ecn_sender_of(packet, service, &cached->sender);
	capability = bpf_map_lookup_elem(&weir_ecn_senders, &cached->sender);
	cached->at = capability ? capability->at : 0;
	cached->epoch = known;
	return capability && (now < capability->at || now - capability->at < WEIR_ECN_DECAPSULATE_TIME);
}

/* When the last tick was: some milliseconds ago at most; reading the clock costs as much as half a packet. 0 before the first. */
static __always_inline u64 tick_time(u64 tick)
{
	u32 key = 0;
	struct weir_state *state = bpf_map_lookup_elem(&weir_states, &key);
	u64 next = state ? *(volatile u64 *)&state->due : 0;

	return next > tick ? next - tick : 0;
}

/* Notes that somebody behind this host sends: the frame's hardware source is not this interface. */
static __always_inline void note_neighbour(struct __sk_buff *skb, const struct weir_config *config, const struct weir_packet *packet)
{
	u8 hardware[12] WEIR_ALIGNED;
	struct weir_address from;
	u64 source = 0, now, *seen;

	if (weir_load(skb, 0, hardware, 12))
		return;
	__builtin_memcpy(&source, hardware + 6, 6);
	if (source == config->hardware)
		return;
	from.words[0] = packet->source[0];
	from.words[1] = packet->source[1];
	seen = bpf_map_lookup_elem(&weir_neighbours, &from);
	now = tick_time(config->tick);
	if (seen && (now < *seen || now - *seen < WEIR_NEIGHBOUR_REFRESH))
		return;
	now = bpf_ktime_get_ns();
	bpf_map_update_elem(&weir_neighbours, &from, &now, BPF_ANY);
}

/* Whether the destination of a packet was lately seen to send from behind this host. */
static __always_inline int is_neighbour(const struct weir_packet *packet, u64 now)
{
	struct weir_address to;
	u64 *seen;

	to.words[0] = packet->destination[0];
	to.words[1] = packet->destination[1];
	seen = bpf_map_lookup_elem(&weir_neighbours, &to);
	return seen && (now < *seen || now - *seen < WEIR_NEIGHBOUR_LIFETIME);
}

static __always_inline void count_event(u32 which)
{
	u64 *count = bpf_map_lookup_elem(&weir_counts, &which);

	if (count)
		*count += 1;
}

#endif
