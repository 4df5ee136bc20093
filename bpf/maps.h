/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The pinned maps, and nothing else: this text is part of the version of the maps
 * (crates/packet/datapath/build/version.rs). They are pinned by their names, see crates/host/linux/src/pins.rs.
 * The shared helpers are in map_access.h.
 */
#ifndef WEIR_MAPS_H
#define WEIR_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "tables.h"

struct weir_timer {
	struct bpf_timer timer;
};

#define WEIR_ARRAY(name, of, entries)                                                                           \
	struct {                                                                                                \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                               \
		__uint(max_entries, entries);                                                                   \
		__type(key, u32);                                                                               \
		__type(value, of);                                                                              \
	} name SEC(".maps")

#define WEIR_PERCPU(name, of, entries)                                                                          \
	struct {                                                                                                \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);                                                        \
		__uint(max_entries, entries);                                                                   \
		__type(key, u32);                                                                               \
		__type(value, of);                                                                              \
	} name SEC(".maps")

/* written by user space */
WEIR_ARRAY(weir_config, struct weir_config, 1);
WEIR_ARRAY(weir_tables, struct weir_table, WEIR_TABLES);
WEIR_ARRAY(weir_keys, struct weir_key, WEIR_KEYS);
WEIR_ARRAY(weir_services, struct weir_service, WEIR_SERVICES_MAX);
WEIR_ARRAY(weir_interfaces, struct weir_interface, WEIR_SIDES);
WEIR_ARRAY(weir_sendings, struct weir_sending, WEIR_SERVICES_MAX + 1);
WEIR_ARRAY(weir_pacings, struct weir_pacing, 1);
WEIR_ARRAY(weir_heartbeat, u64, 1); /* ns: last heartbeat of the agent */
WEIR_ARRAY(weir_service_marks, u32, WEIR_SERVICES_MAX + 1); /* WEIR_LEVEL_*, WEIR_TAGGED, WEIR_CREDITS */
WEIR_ARRAY(weir_level_rules, struct weir_level_rules, WEIR_LEVELS_MAX);

/* written by each CPU */
WEIR_PERCPU(weir_meters, struct weir_meter, WEIR_METERS);
WEIR_PERCPU(weir_drops, struct weir_meter, WEIR_SERVICES_MAX + 1); /* by pacing and levels; `packets` are buffers */
WEIR_PERCPU(weir_counting, struct weir_counting, WEIR_SERVICES_MAX + 1);
WEIR_PERCPU(weir_active, struct weir_active, 1);
WEIR_PERCPU(weir_advertised, struct weir_advertised, WEIR_ADVERTISED_SLOTS);
WEIR_PERCPU(weir_ecn_cache, struct weir_ecn_cache, WEIR_ECN_CACHE_SLOTS);
WEIR_PERCPU(weir_reply, struct weir_reply, 1);
WEIR_PERCPU(weir_feedback_arrival, struct weir_feedback_arrival, 1);
WEIR_PERCPU(weir_counts, struct weir_counts, 1);
WEIR_PERCPU(weir_cpu_batches, struct weir_cpu_batch, WEIR_SERVICES_MAX + 1);

/* written by ticks; the policers' virtual queues (weir_receivers) also by packets, under a lock */
WEIR_ARRAY(weir_receivers, struct weir_receiver, WEIR_SERVICES_MAX + 1);
WEIR_ARRAY(weir_states, struct weir_state, 1);
WEIR_ARRAY(weir_timers, struct weir_timer, 1);

/* written for departing packets, under a lock */
WEIR_ARRAY(weir_service_egresses, struct weir_service_egress, WEIR_SERVICES_MAX + 1);
WEIR_ARRAY(weir_interface_egresses, struct weir_interface_egress, 1);
WEIR_ARRAY(weir_level_states, struct weir_level_state, WEIR_LEVELS_MAX);

/* written for ECN capability messages */
WEIR_ARRAY(weir_ecn_epoch, u64, 1); /* senders added so far */

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

/*
 * credits: pairs by their hosts and service; closed gates that no pair has; new pairs and those that are not idle, of
 * 56 bytes each with their headers
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_CREDIT_GATES_MAX);
	__type(key, struct weir_credit_pair);
	__type(value, struct weir_credit_queue);
} weir_credit_pairs SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, WEIR_CREDIT_GATES_MAX);
	__type(value, u32);
} weir_credit_gates SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 131072);
} weir_credit_events SEC(".maps");

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
	__type(value, u64); /* ns: its last packet */
} weir_neighbours SEC(".maps");

/* written by user space; by the ids of control groups: those of two classifiers while one replaces the other */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_CGROUPS_MAX * WEIR_TABLES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct weir_cgroup);
} weir_cgroups SEC(".maps");

/* written by user space: guests by the index of their interface, which the kernel does not use again; the ways to
 * them; the indexes of their interfaces by number, and by hardware address, 0 for addresses of this host */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_GUESTS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct weir_guest);
} weir_guests SEC(".maps");
WEIR_ARRAY(weir_guest_paths, struct weir_guest_paths, 1);
/* by the index of a guest's interface: WEIR_GUEST_MARKED, for the agent that removes the program */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_GUESTS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u32);
} weir_guest_marks SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_GUESTS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* tc_index of a guest's packets */
	__type(value, u32); /* index of its interface */
} weir_guest_numbers SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_GUEST_ADDRESSES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct weir_guest_address);
	__type(value, u32);
} weir_guest_addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_PEERS_MAX);
	__type(key, struct weir_address);
	__type(value, struct weir_peer);
} weir_peers SEC(".maps");

/* written by user space: the ends of connections to fabric brokers, and the cookies of the sockets that may connect */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_FABRIC_ENDS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct weir_fabric_end);
	__type(value, u32);
} weir_fabric_ends SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_FABRIC_SOCKETS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, u32);
} weir_fabric_sockets SEC(".maps");

#endif
