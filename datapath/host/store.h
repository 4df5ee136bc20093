/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Storage of a host's datapath: where the stages (host.h) differ between the kernel and a native host.
 *
 * The stages read and write tables of plain structures (host/tables.h). In the kernel a table is a BPF map, several
 * CPUs share it, and the verifier requires a check for null after each lookup. Natively a table is an array of
 * one host with one CPU. A stage names its tables, locks and clock by these macros:
 *
 *   WEIR_AT(table, index)           pointer to an entry of a table, or null
 *   WEIR_MINE(table, index)         the same in a table of this CPU
 *   WEIR_OF_CPU(table, index, cpu)  the same in that of another CPU
 *   WEIR_LOCK(lock), WEIR_UNLOCK(lock)
 *   WEIR_CLOCK()                    ns; a read costs the kernel 40 ns
 *   WEIR_JIFFIES()                  a coarse clock that costs nothing
 *   WEIR_COUNT(event)               counts an event of struct weir_counts
 *   WEIR_LOOP(n, body, context)     body(0, context) to body(n - 1, context), until one returns 1
 *   WEIR_WORDS()                    words of a bitmap of services
 *   WEIR_PACES(config)              whether packets get departure times (edt); the verifier prunes the rest
 *
 * A stage that uses them has WEIR_HOST first among its parameters, and callers pass WEIR_THIS. In the kernel both are
 * empty. A context of WEIR_LOOP has WEIR_HOST_FIELD, set by WEIR_HOST_SET; its body begins with WEIR_HOST_GET.
 *
 * Worked example: `WEIR_AT(services, 3)` is bpf_map_lookup_elem(&weir_services, &three) in the kernel, and
 * &host->services[3] natively if the host has more than three services.
 */
#ifndef WEIR_HOST_STORE_H
#define WEIR_HOST_STORE_H

#include "host/tables.h"

#ifdef __bpf__

#define WEIR_HOST
#define WEIR_THIS
#define WEIR_HOST_FIELD
#define WEIR_HOST_SET(context) ((void)0)
#define WEIR_HOST_GET(context) ((void)0)
/* The body of a loop. */
#define WEIR_BODY static long

#define WEIR_AT(table, index)                                                                                   \
	({                                                                                                      \
		u32 index_ = (index);                                                                           \
                                                                                                                \
		bpf_map_lookup_elem(&weir_##table, &index_);                                                    \
	})
#define WEIR_MINE(table, index) WEIR_AT(table, index)
#define WEIR_OF_CPU(table, index, cpu)                                                                          \
	({                                                                                                      \
		u32 index_ = (index);                                                                           \
                                                                                                                \
		bpf_map_lookup_percpu_elem(&weir_##table, &index_, (cpu));                                      \
	})
#define WEIR_LOCK(lock) bpf_spin_lock(lock)
#define WEIR_UNLOCK(lock) bpf_spin_unlock(lock)
/* WEIR_CLOCK(), WEIR_JIFFIES() and weir_paces, a constant of the loader, are in bpf/map_access.h. */
#define WEIR_WORDS() WEIR_ACTIVE_WORDS
#define WEIR_LOOP(n, body, context) bpf_loop(n, body, context, 0)
#define WEIR_PACES(config) (weir_paces && (config)->paces)

#else

#define WEIR_HOST struct weir_host *host,
#define WEIR_THIS host,
#define WEIR_HOST_FIELD struct weir_host *host;
#define WEIR_HOST_SET(context) ((context)->host = host)
#define WEIR_HOST_GET(context) struct weir_host *host = (context)->host
#define WEIR_BODY static inline long

#define WEIR_AT(table, index)                                                                                   \
	({                                                                                                      \
		u32 index_ = (index);                                                                           \
                                                                                                                \
		index_ < host->table##_count ? &host->table[index_] : 0;                                        \
	})
#define WEIR_MINE(table, index) WEIR_AT(table, index)
#define WEIR_OF_CPU(table, index, cpu) ((void)(cpu), WEIR_AT(table, index))
#define WEIR_LOCK(lock) ((void)(lock))
#define WEIR_UNLOCK(lock) ((void)(lock))
#define WEIR_CLOCK() (host->now)
/* 250 in a second, as Debian's kernels have. */
#define WEIR_JIFFIES() (host->now / 4000000)
#define WEIR_LOOP(n, body, context)                                                                             \
	do {                                                                                                    \
		u32 loop_;                                                                                      \
                                                                                                                \
		for (loop_ = 0; loop_ < (u32)(n); loop_++)                                                      \
			if (body(loop_, context))                                                               \
				break;                                                                          \
	} while (0)
#define WEIR_WORDS() (host->words)
#define WEIR_PACES(config) ((config)->paces)

/* One table of a host: its entries and their number. */
#define WEIR_TABLE(type, name)                                                                                  \
	type *name;                                                                                             \
	u32 name##_count

/* A host with one CPU. Tables that a host does not need have no entries. */
struct weir_host {
	u64 now;   /* ns: WEIR_CLOCK() */
	u32 words; /* of bitmaps of services, at most WEIR_ACTIVE_WORDS: WEIR_WORDS() */
	u32 reserved;
	WEIR_TABLE(struct weir_config, config);
	WEIR_TABLE(struct weir_service, services);
	WEIR_TABLE(struct weir_interface, interfaces);
	WEIR_TABLE(struct weir_sending, sendings);
	WEIR_TABLE(struct weir_pacing, pacings);
	WEIR_TABLE(u64, heartbeat);
	WEIR_TABLE(struct weir_level_rules, level_rules);
	WEIR_TABLE(struct weir_meter, drops);
	WEIR_TABLE(struct weir_counting, counting);
	WEIR_TABLE(struct weir_active, active);
	WEIR_TABLE(struct weir_advertised, advertised);
	WEIR_TABLE(struct weir_counts, counts);
	WEIR_TABLE(struct weir_cpu_batch, cpu_batches);
	WEIR_TABLE(struct weir_receiver, receivers);
	WEIR_TABLE(struct weir_state, states);
	WEIR_TABLE(struct weir_service_egress, service_egresses);
	WEIR_TABLE(struct weir_interface_egress, interface_egresses);
	WEIR_TABLE(struct weir_level_state, level_states);
	WEIR_TABLE(struct weir_destination_entry, destinations);
	WEIR_TABLE(struct weir_rate_mailbox, rate_mailboxes);
};

#endif

#define WEIR_COUNT(event)                                                                                       \
	do {                                                                                                    \
		struct weir_counts *counts_ = WEIR_MINE(counts, 0);                                             \
                                                                                                                \
		if (counts_)                                                                                    \
			counts_->event += 1;                                                                    \
	} while (0)

/* Returns the slot of a service among receivers and senders: unclassified traffic has the last. */
WEIR_INLINE u32 weir_slot_of(u32 service)
{
	return service < WEIR_SERVICES_MAX ? service : WEIR_REST;
}

#endif
