/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The maps that user space and the BPF programs share. Their Rust mirror is crates/linux/src/tables.rs,
 * which a test compares with the types that the object carries.
 *
 * Each value has one writer: user space the configuration, the timer the meters, each CPU its counters. What both
 * sides of the kernel write, the clocks of departure times, has a lock.
 *
 * A service has a place here, its slot, that stays its own as long as the maps live, whatever the policy's order becomes:
 * user space remembers slots by the services' names.
 */
#ifndef WEIR_TABLES_H
#define WEIR_TABLES_H

#include "feedback_sampler.h"
#include "classify.h"
#include "departure.h"
#include "destination.h"
#include "feedback.h"
#include "interface_meter.h"
#include "limiter.h"
#include "meter.h"
#include "receive_tick.h"
#include "siphash.h"

/* Changes whenever a value below does: what is pinned is adopted by the same version alone. */
#define WEIR_TABLES_VERSION 10

#ifndef __bpf__
/* As the kernel has it (linux/bpf.h), for layout.c. */
struct bpf_spin_lock {
	u32 val;
};
#endif

/* One table in use, one to write. */
#define WEIR_TABLES 2
/* Services that can be told apart on one host. */
#define WEIR_SERVICES_MAX 1024
/* Per service and for the unclassified, one meter for each direction. */
#define WEIR_METERS ((WEIR_SERVICES_MAX + 1) * 2)
/* The place of the unclassified among receivers and senders. */
#define WEIR_REST WEIR_SERVICES_MAX
/* The places of an interface's sides: what is received, and what is sent, by departure times (edt). */
#define WEIR_SIDE_RECEIVING 0
#define WEIR_SIDE_SENDING 1
#define WEIR_SIDES 2
/* Words of a bit per service, the unclassified in the last. */
#define WEIR_ACTIVE_WORDS (WEIR_SERVICES_MAX / 64 + 1)
/* Destinations of all services together that may be remembered. */
#define WEIR_DESTINATIONS_MAX 16384
/* Keys that are known at a time: one in use and one before or after it, twice. */
#define WEIR_KEYS 4
/* Hosts that may send brokers' datagrams to this one. */
#define WEIR_PEERS_MAX 1024
/* What a machine of the rack may send to the agent: 2 Mb/s, fifty times what a rack of a thousand services tells, and 64 kB at once. */
#define WEIR_PEER_RATE 2000000ULL
#define WEIR_PEER_BURST 65536

struct weir_config {
	u32 table;          /* which of the tables is in use */
	u32 class_major;    /* the HTB qdisc's handle, already shifted; 0 leaves priorities alone */
	u32 class_first;    /* the minor number of the class of slot 0 */
	u32 class_static;   /* the same of those of the static policy */
	u32 class_default;  /* the minor number of the class of unclassified traffic */
	u32 enforces;          /* 1: feedback is sent and obeyed; 0: packets are counted and classified only */
	u32 sharing;        /* WEIR_SHARE_*: how services share the interface */
	u32 cpus;           /* that may ever count */
	u32 listen_port;    /* the agent's, besides WEIR_CONTROL_PORT */
	u32 signing_key;           /* the place of the key that signs */
	u32 paces;          /* edt, 1: packets are given departure times, which fq obeys */
	u32 version;        /* WEIR_TABLES_VERSION */
	u32 clsact;         /* for user space: 1 where it added clsact, and takes it away again */
	u32 grain;          /* bytes: a meter's window is as long as its capacity takes to carry them */
	u32 class_control;  /* the minor number of the class of control traffic */
	u32 reserved;
	u64 agent_address[2]; /* where brokers' datagrams may go to */
	u64 agent_cookie;   /* of the agent's socket, which alone may send control traffic */
	u64 epoch;          /* which start of the agent */
	u64 tick;           /* ns between two ticks of the meters */
	u64 timeout;        /* ns without a word of the agent after which the static policy holds */
	u64 hardware;       /* the interface's hardware address, in the first six bytes */
};

struct weir_table {
	u32 count;
	u32 reserved;
	u16 starts[WEIR_STARTS]; /* of classify.h */
	struct weir_rule rules[WEIR_RULES_MAX];
};

/* A shared key as feedback uses it. */
struct weir_key {
	struct weir_sip_key sip;
	u16 id;
	u16 known; /* 1: there is one here */
	u32 reserved;
};

/* What the agent says of a service on this interface. */
struct weir_service {
	struct weir_law law; /* of its receive meter */
	struct weir_destination_rules rules;
	u64 rx_min;   /* bit/s */
	u64 rx_max;   /* bit/s; 0 is unlimited, as the next ones */
	u64 rx_limit; /* the brokers', with agent */
	u64 committed; /* bit/s of the interface, without the brokers' limit */
	u64 feedback_interval;
	u64 tx_static; /* the root limiter's rate without brokers */
	u64 tx_limit;  /* with them */
	u32 feedback_bytes;
	u32 rx_weight;     /* thousandths */
	u32 sender_weight; /* thousandths: this host's at the service's receivers */
	u32 known;         /* 1: the slot is a service's */
	u32 generation;    /* another one: the law is new */
	u32 name[4];       /* the first bytes of SHA-256 over its path; feedback carries the first word */
	u32 reserved;
};

/* What the agent says of a side of the interface: WEIR_SIDE_*. */
struct weir_interface {
	struct weir_law law;
	u64 capacity; /* bit/s */
	u64 total;    /* sum of weights */
	u64 minima;
	u64 saturated_rate;
	u32 lightest;
	u32 weighs;
	u32 generation; /* another one: the services or their shares are new */
	u32 reserved;
};

/* What one CPU knows of a service's packets. */
struct weir_counting {
	struct weir_arrivals arrivals;
	struct weir_feedback_sampler sampler;
	u64 feedback_sent; /* packets */
};

/* A service's receiving side; the timer writes, packets read `meter.rate`. */
struct weir_receiver {
	struct weir_receive_meter meter;
	struct weir_taken taken; /* in the tick at hand */
	u32 generation;
	u32 reserved;
	u32 name[4]; /* of the service that it is of */
};

/* What the timer knows of the interface, and writes. */
struct weir_state {
	struct weir_interface_meter receiving; /* receiving */
	struct weir_interface_meter sending;     /* sending, by departure times */
	u64 taken;      /* bytes that `level` has counted */
	u64 newcomers;  /* those that it has seen */
	u64 due;        /* ns: from then on the next tick is */
	u64 alarm;      /* ns: when the timer runs */
	u64 ticks;
	u64 late;       /* runs that were skipped since the timer ran late */
	u64 fallbacks;  /* times that the static policy took over */
	u64 visited[WEIR_ACTIVE_WORDS]; /* services with packets, of the tick at hand */
	u32 generation;
	u32 fallback;   /* 1: nothing was heard of the agent for the timeout */
	u32 sending_generation;
	u32 ticking;    /* 1: a CPU is at a tick */
};

/* Services with packets since the last tick, on one CPU. */
struct weir_active {
	u64 words[WEIR_ACTIVE_WORDS];
	u64 jiffies;  /* when the clock was looked at */
	u64 unclocked_bytes; /* what has come since, see WEIR_CLOCK_BYTES */
	u64 requests_tick; /* ns: the tick of which `asked` counts */
	u64 requests;    /* answers since then to who asked */
};

/* Whom a destination limiter holds: a service of this host towards an address. */
struct weir_destination_key {
	u64 address[2];
	u32 service;
	u32 reserved;
};

/* A destination limiter, and the order of what set it. */
struct weir_destination_entry {
	struct weir_destination destination;
	struct weir_destination_key key;
	u64 epoch;
	u64 sequence;
	u64 feedback_count; /* feedback applied */
	u64 sent;  /* bytes to it */
	u64 capability_sent_at;  /* ns: when it was last given this host's word (feedback.h) */
	u64 capability_acked_at; /* ns: when it last said that it has it */
	struct weir_lease lease;
};

/* A sender that has given its word that it codes (feedback.h): a service of this host from `source` to `destination`. */
struct weir_ecn_sender {
	u64 source[2];
	u64 destination[2];
	u64 service;
};

/* Its last word. */
struct weir_ecn_capability {
	u64 at; /* ns */
	u64 epoch;
	u64 sequence;
};

/* Senders that this host may know to code. Who is forgotten for another is known again with its next word. */
#define WEIR_ECN_SENDERS_MAX 16384

/* What a CPU remembers of one of them, so that most packets need no look into the table of all, which takes a third of a packet's time. */
struct weir_ecn_cache {
	struct weir_ecn_sender sender;
	u64 at;    /* ns: the word's; 0: it has not given it */
	u64 epoch; /* how many had given theirs when the CPU looked (weir_ecn_epoch): with one more, who had not may have */
};

/* Senders of whom a CPU remembers it. */
#define WEIR_ECN_CACHE_SLOTS 256

/* A service's sending side, where packets are given departure times. */
struct weir_service_egress {
	struct weir_sender sender;
};

/* The interface's. */
struct weir_interface_egress {
	struct weir_machine_egress machine;
	struct bpf_spin_lock lock; /* of all that departure times are made of: `machine`, and every sender and destination */
	u32 reserved;
};

/* Between kernel and agent, one word each way: what a destination may be sent, and the class that holds it to that. */
struct weir_rate_mailbox {
	u64 rate;     /* kernel: bit/s */
	u64 feedback_at; /* kernel: ns */
	u32 unread;   /* kernel: 1 when the rate is new; agent: 0 before it reads */
	u32 class;    /* agent: minor number; 0: the service's own */
};

/* A machine of the rack, by its address. */
struct weir_address {
	u64 words[2]; /* IPv4 is ::ffff:a.b.c.d */
};

struct weir_peer {
	struct weir_limiter limiter;
	u64 passed;  /* datagrams */
	u64 refused; /* beyond its rate */
};

/*
 * Addresses of others behind this interface: guests on a bridge. What arrives for one is answered until so long after it was last seen to send, ns: a
 * minute, as neighbours remember each other. One is noted again after WEIR_NEIGHBOUR_REFRESH. Who is forgotten for another is known
 * again with its next packet.
 */
#define WEIR_NEIGHBOURS_MAX 4096
#define WEIR_NEIGHBOUR_LIFETIME 60000000000ULL
#define WEIR_NEIGHBOUR_REFRESH 1000000000ULL

/* Senders of whom a CPU knows what they were told. */
#define WEIR_ADVERTISED_SLOTS 256
/* Mean times between answers for which the same rate is not told again: senders ask after two and a half. */
#define WEIR_ADVERTISED_HOLD 2

/*
 * Answers that one CPU makes in a tick for who asks, beside those that are due by bytes: whoever writes that on small packets could have each
 * answered. At 200 us and 2 us for an answer that is a third of a CPU at most, and what a hundred senders ask for that ask each 500 us.
 * Who is passed over asks again, or is answered by bytes.
 */
#define WEIR_REQUESTS_MAX 32

/* Nothing; the copy of a packet that is to become an answer; the answer itself. */
#define WEIR_REPLY_NONE 0
#define WEIR_REPLY_CLONE 1
#define WEIR_REPLY_FEEDBACK 2

/* An answer on its way from the ingress program to the egress program of the same CPU. */
struct weir_reply {
	u32 stage; /* WEIR_REPLY_* */
	u32 service;
	u64 rate;
	u64 now;
	struct weir_packet packet; /* the answered one */
	/* what is written of it: here, since the programs' stack is short */
	struct weir_feedback feedback;
	u64 body[WEIR_FEEDBACK_WORDS];
	u8 headers[40 + WEIR_UDP_BYTES];
	struct weir_ecn_sender sender;
};

/* A feedback packet that has arrived, while it is looked at. */
struct weir_feedback_arrival {
	struct weir_feedback feedback;
	struct weir_packet subject;
	u64 body[WEIR_FEEDBACK_WORDS];
};

/* What is counted of control traffic, by CPU. */
enum weir_count {
	WEIR_COUNT_FEEDBACK_FAILED,   /* an answer could not be made or sent */
	WEIR_COUNT_FEEDBACK,         /* believed */
	WEIR_COUNT_FORGED,           /* feedback with a tag that no key verifies */
	WEIR_COUNT_REPLAYED,         /* feedback not newer than what is known */
	WEIR_COUNT_UNCLASSIFIED,          /* feedback for packets of no service */
	WEIR_COUNT_DESTINATIONS_FULL,          /* feedback for a destination for which there is no room */
	WEIR_COUNT_VERSION,          /* control datagrams of another version */
	WEIR_COUNT_FOREIGN,          /* to the control port, but not of this protocol */
	WEIR_COUNT_MISDIRECTED,      /* brokers' datagrams that are not for this agent */
	WEIR_COUNT_UNKNOWN_PEER,        /* brokers' datagrams from no machine of the rack */
	WEIR_COUNT_PEER_RATE_EXCEEDED,          /* brokers' datagrams beyond what a machine may send */
	WEIR_COUNT_SPOOFED,         /* packets of tenants that look like control traffic */
	WEIR_COUNT_BEYOND_HORIZON,   /* edt: packets dropped since they would wait too long */
	WEIR_COUNT_REQUESTS_LIMITED,      /* packets that asked for an answer beyond what a tick has for such */
	WEIR_COUNTS,
};

#endif
