/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Keys and values of the maps of a PACE forwarder (forwarder.bpf.c), which its daemon shares.
 *
 * crates/packet/datapath/build generates the Rust types and constants from this header, as from host/tables.h.
 */
#ifndef WEIR_FORWARDER_H
#define WEIR_FORWARDER_H

#include "credit_message.h"
#include "host/tables.h"

/* Changes with the definitions below and those of credit.h: a daemon adopts the maps of its own layout only. */
#define WEIR_FORWARDER_LAYOUT 2
/* Flows of a port. */
#define WEIR_FORWARDER_FLOWS 16384
/* Hosts without a flow whose last message is kept; of more, those whose flows were forgotten last. */
#define WEIR_FORWARDER_HOSTS 16384
/*
 * Allocations whose credits a sender may still use when a newer one has come, and that one: a grant lives for three
 * periods.
 */
#define WEIR_FORWARDER_USABLE 4
/* Fractions of a ns in `pace`. */
#define WEIR_FORWARDER_PACE_SHIFT 20
/* The weight of a service is divided among its pairs in these parts (crates/decide/credits/src/port_shares.rs). */
#define WEIR_FORWARDER_WEIGHT_SCALE 1000

/* Written by the daemon. */
struct weir_forwarder_config {
	u32 layout;      /* WEIR_FORWARDER_LAYOUT once the port is configured */
	u32 clsact;      /* 1: the daemon added clsact and removes it again */
	u32 table;       /* index of the classifier in use */
	u32 rules;       /* index of the rules in use */
	u32 signing_key; /* index of the key that signs */
	u32 whole;       /* 1: R is the rate of the link, so that all packets have one queue */
};

/* The values that the daemon publishes each period: one in use, one being written. */
struct weir_forwarder_rules {
	struct weir_credit_rules credit;
	u64 pace;   /* ns per byte at R, in 2^-WEIR_FORWARDER_PACE_SHIFT */
	u64 memory; /* ns after the last packet of a flow for which it leaves by this port */
};

/* The numbers of services with credits by their index in the classifier's rules; 0: no credits. */
struct weir_forwarder_services {
	u32 numbers[WEIR_SERVICES_MAX];
};

/* The state of a port in the direction of the data. */
struct weir_forwarder_port {
	struct bpf_spin_lock lock; /* of the port and its flows: several CPUs may send through one port */
	u32 fraction;              /* of a ns, of `idle_at` */
	u64 idle_at;               /* ns: when a queue of credited data that drains at R is empty */
	struct weir_credit_port port;
};

/* A flow: a service's data between two addresses. */
struct weir_forwarder_key {
	u64 source[2];
	u64 destination[2];
	u32 service; /* its number in messages */
	u32 reserved;
};

/* The position in time of the last message. */
struct weir_forwarder_order {
	u64 epoch;
	u64 sequence;
};

/* A host that sends messages. */
struct weir_forwarder_host {
	u64 address[2];
};

struct weir_forwarder_flow {
	u64 left_at;    /* ns: the last packet or message that left by the port */
	u64 arrived_at; /* ns: that allocation; 0: none */
	u32 seen;       /* clock of the newest allocation that has crossed the port, with or without credits; 0: none */
	u32 unbroken;   /* the first clock of those up to `seen` that have all crossed it; 0: all of the flow */
	struct weir_allocation arrived; /* the last allocation that was new, as it arrived */
	struct weir_forwarder_order to_destination; /* requests, returns, terminations */
	struct weir_forwarder_order to_source;      /* allocations */
	struct weir_credit_flow credit;
};

/*
 * Events of a port, counted by each CPU. The status and the metrics have the same names and descriptions.
 */
struct weir_forwarder_counts {
	u64 messages;      /* Authentic messages of credits that crossed the port. */
	u64 forged;        /* Messages of credits whose tag no key verifies, dropped. */
	u64 replayed;      /* Messages of credits not newer than the last of their flow, dropped. */
	u64 other_version; /* Messages of credits of another version of the protocol, dropped. */
	u64 foreign;       /* Datagrams to the port of credits that are not of the protocol, dropped. */
	u64 malformed;     /* Messages of credits with impossible values, dropped. */
	u64 unknown;       /* Messages of credits of services that have no credits in the policy, dropped. */
	u64 flows_full;    /* Flows that got no entry because the table was full. */
	u64 dropped;       /* Packets of data beyond the grants, dropped. */
	u64 failed;        /* Allocations that could not be rewritten, dropped. */
};

#endif
