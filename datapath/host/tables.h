/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Keys and values of the maps that user space and the BPF programs share.
 *
 * crates/packet/datapath/build generates the Rust types, constants and functions from this header and
 * those it includes. The maps are in maps.h.
 *
 * User space writes the configuration, each CPU its counters, and the CPU that runs a tick the
 * meters. Where several CPUs write a value, they take a lock (limiters, destinations, and the virtual
 * queues of policers) or use atomic operations (leases, rate mailboxes).
 *
 * A service keeps its slot (its index in the maps) as long as the maps live, whatever its order in
 * later policies: user space recognises it by the hash of its name.
 */
#ifndef WEIR_TABLES_H
#define WEIR_TABLES_H

#include "feedback_sampler.h"
#include "classify.h"
#include "credit.h"
#include "credit_gate.h"
#include "credit_message.h"
#include "departure.h"
#include "destination.h"
#include "ecn.h"
#include "feedback.h"
#include "interface_meter.h"
#include "level.h"
#include "limiter.h"
#include "meter.h"
#include "policer.h"
#include "receive_tick.h"
#include "siphash.h"
#include "tunnel.h"

/*
 * An agent adopts pinned maps whose version equals its own. The build computes the version from the
 * definitions of the maps, of their keys and values, and from this number. Raise it when a value
 * changes its meaning, unit or origin and keeps its layout.
 */
#define WEIR_STATE_REVISION 2

/* One classifier in use and one being written. */
#define WEIR_TABLES 2
/*
 * ns, shortest interval between two ticks. With edt each tick is an expiry of a timer, also on an
 * idle host: every 200 us that took up to 20 % of two virtual processors from all other programs
 * (docs/design/ticks.md). At 50 us it is four times as much, nearly all of them.
 */
#define WEIR_TICK_MIN 50000ULL
/* Services of one host. */
#define WEIR_SERVICES_MAX 1024
/* Control groups of one classifier: some for each container of a large host. */
#define WEIR_CGROUPS_MAX 16384
/* Interfaces of guests of one host: virtual machines and containers, and some more while others go. */
#define WEIR_GUESTS_MAX 4096
/* Their hardware addresses, and those by which routes lead to this host or to them: some for each. */
#define WEIR_GUEST_ADDRESSES_MAX 65536
/* The VLAN of an address that is the same in all of them. */
#define WEIR_ANY_VLAN 0xffff
/* One meter for each direction of each service and of unclassified traffic. */
#define WEIR_METERS ((WEIR_SERVICES_MAX + 1) * 2)
/* The slot of unclassified traffic among receivers and senders. */
#define WEIR_REST WEIR_SERVICES_MAX
/* Slots in weir_interfaces: the receiving side, and the sending side with departure times (edt). */
#define WEIR_SIDE_RECEIVING 0
#define WEIR_SIDE_SENDING 1
#define WEIR_SIDES 2
/* Words of a bitmap of services; unclassified traffic is in the last. */
#define WEIR_ACTIVE_WORDS (WEIR_SERVICES_MAX / 64 + 1)
/* Destinations of all services together. */
#define WEIR_DESTINATIONS_MAX 16384
/* Keys in use at a time: the current and the next or previous one, twice. */
#define WEIR_KEYS 4
/* Hosts that may send brokers' datagrams to this host. */
#define WEIR_PEERS_MAX 1024
/* Rate and burst of a machine's datagrams to the agent: fifty times the reports of a rack of a thousand services. */
#define WEIR_PEER_RATE 2000000ULL
#define WEIR_PEER_BURST 65536

/*
 * Agents of other versions read `clsact` and `gso_segments`, which keep their offsets. The size of the structure may
 * change: they read as many bytes as the map has (crates/host/linux/src/maps.rs).
 */
struct weir_config {
	u64 version;          /* of the maps, see WEIR_STATE_REVISION */
	u32 clsact;           /* 1: the agent added clsact and removes it again */
	u32 table;            /* index of the classifier in use */
	u32 class_major;      /* the HTB qdisc's handle, shifted; 0 leaves priorities unchanged */
	u32 class_first;      /* minor number of the class of slot 0 */
	u32 class_static;     /* the same, of the classes of the static policy */
	u32 class_default;    /* minor number of the class of unclassified traffic */
	u32 enforces;         /* 1: feedback is sent and applied; 0: packets are only counted and classified */
	u32 sharing;          /* WEIR_SHARE_*: rule by which services share the interface */
	u32 cpus;             /* possible CPUs */
	u32 listen_port;      /* the agent's, besides WEIR_CONTROL_PORT */
	u32 signing_key;      /* index of the key that signs */
	u32 paces;            /* 1: packets get departure times, which fq applies (edt) */
	u32 grain;            /* bytes: a meter's window is at least the time its capacity takes to carry them */
	u32 class_control;    /* minor number of the class of control traffic */
	u64 agent_address[2]; /* destination of brokers' datagrams */
	u64 agent_cookie;     /* of the agent's socket, the only local sender of control traffic */
	u64 epoch;            /* number of the agent's start */
	u64 tick;             /* ns between two ticks of the meters, at least WEIR_TICK_MIN */
	u64 timeout;          /* ns without a heartbeat of the agent after which the static policy applies */
	u64 hardware;         /* the interface's hardware address, in the first six bytes */
	u64 level_dscps;      /* one bit for each DSCP value of a level */
	u64 tenant_dscps;     /* one bit for each that a tenant can have */
	u32 levels;           /* number of latency levels */
	u32 class_level;      /* the class of level 1, with its qdisc's handle; those of other levels follow. 0: none */
	u32 gso_segments;     /* the interface's gso_max_segs before the agent lowered it; 0: not lowered */
	u32 level_segments;   /* most segments of a buffer of no level, by the policy; 0: no limit */
	u32 class_credit;     /* minor number of the first gate of credits; 0: no service has credits */
	u32 credit_port;      /* port of the agent's credit messages; 0: none */
	u64 credit_cookie;    /* of the socket that sends them, the only local one that does */
	u64 fabric_ports;     /* one bit for each port in weir_fabric_ends, by its last six bits; 0: no broker */
};

struct weir_table {
	u32 cgroups; /* entries of `cgroup_depths`; 0: no rule needs the packet's socket */
	u32 guests;  /* globs over interfaces of guests; 0: no rule needs the packet's guest */
	u16 cgroup_depths[WEIR_CGROUP_GLOBS_MAX]; /* of globs over control groups: each once, the largest first */
	struct weir_rule_index index;
};

/* The globs of each classifier that include a control group, which at least one of them matches. */
struct weir_cgroup {
	u64 filters[WEIR_TABLES];
};

/* A guest's interface: the globs of each classifier that match its name, as a packet has them. */
struct weir_guest {
	u16 interfaces[WEIR_TABLES][WEIR_GUEST_GLOBS];
};

/* The program that numbers packets (guest.bpf.c) is attached to a guest's interface. An agent added clsact for it. */
#define WEIR_GUEST_MARKED 0x1
#define WEIR_GUEST_CLSACT 0x2

/* A hardware address and the frames that carry it as their destination. */
struct weir_guest_address {
	u8 hardware[6];
	u16 vlan;   /* the outer tag's, 0 for none, or WEIR_ANY_VLAN */
	u32 bridge; /* index of the bridge to which a route leads; 0: frames of the agent's interface */
};

/* The ways from the agent's interface to guests that exist: 1 or 0. */
struct weir_guest_paths {
	u32 bridged; /* a bridge has both a guest and the agent's interface */
	u32 routed;  /* a guest is in no such bridge */
};

/* A shared key of feedback. */
struct weir_key {
	struct weir_sip_key sip;
	u16 id;
	u16 known; /* 1: the entry is in use */
	u32 reserved;
};

/* A service's configuration on this interface. */
struct weir_service {
	struct weir_law law; /* of its receive meter */
	struct weir_destination_rules rules;
	u64 rx_min;            /* bit/s */
	u64 rx_max;            /* bit/s; 0 is unlimited, as below */
	u64 rx_limit;          /* the brokers', while an agent runs */
	u64 committed;         /* bit/s of the interface, without the brokers' limit */
	u64 feedback_interval; /* ns */
	u64 rx_static;         /* without brokers: the part of the maxima that this machine has */
	u64 tx_limit;          /* the root limiter's rate with brokers */
	u32 feedback_bytes;
	u32 rx_weight;     /* thousandths */
	u32 sender_weight; /* thousandths: this host's weight at the service's receivers */
	u32 known;         /* 1: a service has this slot */
	u32 generation;    /* changes with the law */
	u32 name[4];       /* the first bytes of SHA-256 of its path; feedback carries the first word */
	u32 reserved;
};

/* The configuration of a side of the interface, WEIR_SIDE_*. */
struct weir_interface {
	struct weir_law law;
	u64 capacity;       /* bit/s */
	u64 total;          /* sum of the services' weights */
	u64 minima;         /* bit/s: sum of the services' guarantees */
	u64 saturated_rate; /* bit/s: R while all services are backlogged */
	u32 lightest;
	u32 weighs;
	u32 generation; /* changes with the services or their shares */
	u32 reserved;
};

/* One CPU's counts of a service's received packets. */
struct weir_counting {
	struct weir_arrivals arrivals;
	struct weir_policed policed;
	struct weir_feedback_sampler sampler;
	u64 feedback_sent; /* packets */
};

/*
 * A service's receiving side, written by ticks, except for the virtual queue of the policer. Packets read `meter.rate`
 * and `policer.limit`.
 */
struct weir_receiver {
	struct weir_receive_meter meter;
	struct weir_taken taken; /* counts of the current tick */
	struct weir_policer policer;
	u32 generation;
	struct bpf_spin_lock lock; /* of the policer's virtual queue */
	u32 name[4]; /* of the service whose meter it is */
};

/* The state of the interface's ticks. */
struct weir_state {
	struct weir_interface_meter receiving;
	struct weir_interface_meter sending; /* with departure times */
	u64 taken;      /* committed bytes that `sending` has counted */
	u64 newcomers;  /* newcomers that `sending` has counted */
	u64 charged_at; /* ns: when levels were last charged to the interface */
	u64 uncharged;  /* bytes of levels beyond what the interface carries between ticks, still to charge */
	u64 due;        /* ns: time of the next tick */
	u64 alarm;      /* ns: expiry of the timer */
	u64 ticks;
	u64 late;       /* expiries skipped because the timer was late */
	u64 fallbacks;  /* changes to the static policy */
	u64 visited[WEIR_ACTIVE_WORDS]; /* services with packets in the current tick */
	u32 generation;
	u32 fallback;   /* 1: the agent's heartbeat has timed out */
	u32 sending_generation;
	u32 ticking;    /* 1: a CPU runs a tick */
};

/* One CPU's bitmap of services with packets since the last tick. */
struct weir_active {
	u64 words[WEIR_ACTIVE_WORDS];
	u64 jiffies;         /* at the last clock read */
	u64 unclocked_bytes; /* received since, see WEIR_CLOCK_BYTES */
	u64 requests_tick;   /* ns: the tick that `requests` belongs to */
	u64 requests;        /* feedback sent on request in that tick */
};

/* A destination: a service of this host and a receiver's address. */
struct weir_destination_key {
	u64 address[2];
	u32 service;
	u32 reserved;
};

/*
 * A destination limiter and the position in time of its last feedback, both under the lock of the
 * interface's egress.
 */
struct weir_destination_entry {
	struct weir_destination destination;
	struct weir_destination_key key;
	u64 epoch;
	u64 sequence;
	u64 feedback_count;      /* feedback applied */
	u64 sent;                /* bytes to it */
	u64 capability_sent_at;  /* ns: last ECN capability message to it (feedback.h) */
	u64 capability_acked_at; /* ns: its last acknowledgement */
	struct weir_lease lease;
};

/* A sender of an ECN capability message (feedback.h): a service of this host from `source` to `destination`. */
struct weir_ecn_sender {
	u64 source[2];
	u64 destination[2];
	u64 service;
};

/* Its last ECN capability message. */
struct weir_ecn_capability {
	u64 at; /* ns */
	u64 epoch;
	u64 sequence;
};

/* ECN senders of this host. An evicted sender is added again by its next message. */
#define WEIR_ECN_SENDERS_MAX 16384

/* One CPU's cache of weir_ecn_senders: a lookup there takes a third of a packet's time. */
struct weir_ecn_cache {
	struct weir_ecn_sender sender;
	u64 at;    /* ns: last message; 0: none */
	u64 epoch; /* weir_ecn_epoch at the lookup; a negative entry is stale once that has changed */
};

/* Slots of that cache. */
#define WEIR_ECN_CACHE_SLOTS 256

/* A service's sending side with departure times. */
struct weir_service_egress {
	struct weir_sender sender;
};

/* Latency levels at most: the priorities of HTB and of most switches less those of control and of other traffic. */
#define WEIR_LEVELS_MAX 6

/* Of the levels of a service: the level of its sent packets, from 1 on, or 0; whether other hosts send on a level. */
#define WEIR_LEVEL_SENT 0xff
#define WEIR_LEVEL_RECEIVED 0x100
/* Its packets get a DSCP value, from this bit on. */
#define WEIR_TAGGED 0x200
#define WEIR_TAG_SHIFT 16

/* Its packets wait for credits (credits.h). */
#define WEIR_CREDITS 0x400

/* DSCP values of data with credits and of their messages: AF11 and CS5 (RFC 4594), by which switches choose queues. */
#define WEIR_CREDIT_DATA_DSCP 10
#define WEIR_CREDIT_MESSAGE_DSCP 40

/* Pairs of a service with credits and another host, each with a gate: the class numbers that HTB has beside others. */
#define WEIR_CREDIT_GATES_MAX 1792
/* The class of a packet for which no gate is free. */
#define WEIR_CREDIT_DROP WEIR_U32_MAX

/* The data of a service from one of this host's addresses to another host. */
struct weir_credit_pair {
	u64 source[2];
	u64 destination[2];
	u32 service;
	u32 reserved;
};

/* The gate of a pair. */
struct weir_credit_queue {
	u32 gate; /* kernel */
	u32 idle; /* agent: 1, so that the next packet posts an event; kernel: 0 then */
};

/* A pair that is new or no longer idle. */
struct weir_credit_event {
	struct weir_credit_pair pair;
	u32 gate;
	u32 reserved;
};

/* A latency level of this host (levels.h). */
struct weir_level_state {
	struct weir_level level;   /* only packets write it */
	u64 charged;               /* bytes that ticks have charged to the interface; only ticks write it */
	u64 remarked;              /* packets of no level with its DSCP value, which were re-marked to 0 */
	struct bpf_spin_lock lock; /* of `level` */
	u32 reserved;
};

/* The interface's sending side with departure times. */
struct weir_interface_egress {
	struct weir_machine_egress machine;
	struct bpf_spin_lock lock; /* of `machine`, every sender and every destination */
	u32 reserved;
};

/* A destination's rate, from the kernel to the agent, and its HTB class, from the agent to the kernel. */
struct weir_rate_mailbox {
	u64 rate;        /* kernel: bit/s */
	u64 feedback_at; /* kernel: ns */
	u32 unread;      /* kernel: 1 after a change of the rate; agent: 0 before it reads */
	u32 class;       /* agent: minor number; 0: the service's own class */
};

/* An address; IPv4 is ::ffff:a.b.c.d. */
struct weir_address {
	u64 words[2];
};

/* Addresses and ports of fabric brokers at most, and sockets of agents that may connect to them. */
#define WEIR_FABRIC_ENDS_MAX 256
#define WEIR_FABRIC_SOCKETS_MAX 64

/* An address and port of a fabric broker. */
struct weir_fabric_end {
	u64 address[2]; /* as in struct weir_packet */
	u32 port;       /* host byte order; 0: TCP packets without ports, which are fragments or have cut headers */
	u32 reserved;
};

/* A machine of the rack. */
struct weir_peer {
	struct weir_limiter limiter; /* of its datagrams */
	struct bpf_spin_lock lock;   /* of `limiter`: several CPUs may receive its datagrams */
	u32 reserved;
};

/*
 * Addresses behind this interface that are not the host's: guests on a bridge. Packets to a
 * neighbour get feedback for WEIR_NEIGHBOUR_LIFETIME ns after its last packet, a minute as in the
 * neighbour tables of hosts; its entry is refreshed at most once per WEIR_NEIGHBOUR_REFRESH. An
 * evicted neighbour is added again by its next packet.
 */
#define WEIR_NEIGHBOURS_MAX 4096
#define WEIR_NEIGHBOUR_LIFETIME 60000000000ULL
#define WEIR_NEIGHBOUR_REFRESH 1000000000ULL

/* Slots of one CPU's table of advertised rates. */
#define WEIR_ADVERTISED_SLOTS 256
/*
 * An unchanged rate is not advertised again for this many mean feedback intervals; senders request
 * feedback after two and a half.
 */
#define WEIR_ADVERTISED_HOLD 2

/*
 * Feedback that one CPU sends on request in a tick, beside feedback that is due by bytes; without a
 * bound, a sender could have every small packet sampled. At 200 us a tick and 2 us a packet that is
 * at most a third of a CPU, and the requests of a hundred senders every 500 us. A sender beyond the
 * bound requests again, or gets feedback by bytes.
 */
#define WEIR_REQUESTS_MAX 32

/* Stages of a reply: none; the clone of a packet that becomes feedback; the feedback itself. */
#define WEIR_REPLY_NONE 0
#define WEIR_REPLY_CLONE 1
#define WEIR_REPLY_FEEDBACK 2

/* Feedback on its way from the ingress program to the egress program of the same CPU. */
struct weir_reply {
	u32 stage; /* WEIR_REPLY_* */
	u32 service;
	u64 rate;
	u64 now;
	struct weir_packet packet; /* the packet that triggered it */
	/* what is written of it, here because the programs' stack is short */
	struct weir_feedback feedback;
	u64 body[WEIR_FEEDBACK_WORDS];
	u8 headers[40 + WEIR_UDP_BYTES];
	struct weir_ecn_sender sender;
};

/* A received feedback packet while it is checked. */
struct weir_feedback_arrival {
	struct weir_feedback feedback;
	struct weir_packet subject;
	u64 body[WEIR_FEEDBACK_WORDS];
};

/*
 * Events, counted by each CPU. The status and the metrics have the same names and descriptions
 * (crates/serve/status/src/counters.rs): `feedback_failed` is weir_kernel_feedback_failed_total there.
 */
struct weir_counts {
	u64 feedback_failed;       /* Feedback that could not be built or sent. */
	u64 feedback_accepted;     /* Feedback that was applied. */
	u64 feedback_forged;       /* Feedback whose tag no key verifies. */
	u64 feedback_replayed;     /* Feedback not newer than the last: replayed, duplicated or reordered. */
	u64 feedback_unclassified; /* Feedback about packets of no service of this host. */
	u64 destinations_full;     /* Feedback of a destination that got no entry because the table was full. */
	u64 other_version;         /* Control datagrams of another version of the protocol. */
	u64 foreign;               /* Datagrams to the control port that are not of the protocol. */
	u64 misdirected;           /* Brokers' datagrams to an address that is not the agent's. */
	u64 unknown_peer;          /* Brokers' datagrams from a host outside the rack. */
	u64 peer_rate_exceeded;    /* Brokers' datagrams beyond the rate of one machine. */
	u64 spoofed;               /* Tenants' packets in the form of control traffic or to a fabric broker, dropped. */
	u64 beyond_horizon;        /* Packets dropped because their departure was beyond the horizon (`edt`). */
	u64 requests_limited;      /* Feedback requests beyond the limit of one tick, without feedback. */
	/* Buffers of no latency level with more segments than `levels.segments`: bounds do not hold beside them. */
	u64 long_buffers;
	u64 cgroups_unknown;       /* Packets without a known socket on this host, while filters name control groups. */
	u64 tags_claimed;          /* Buffers that carried the DSCP value of another tenant or of credits, re-marked. */
	u64 credit_gates_full;     /* Packets of services with credits that were dropped because no gate was free. */
};

#endif
