/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What user space and the programs beside weir.bpf.c share: values of their maps, and constants.
 *
 * crates/packet/datapath/build generates the Rust types and constants from this header, as from host/tables.h.
 */
#ifndef WEIR_AUXILIARY_H
#define WEIR_AUXILIARY_H

#include "credit.h"
#include "credit_gate.h"
#include "level.h"
#include "limiter.h"
#include "packet.h"
#include "policer.h"
#include "port_queues.h"

/* ns by which weir_probe (probe.bpf.c) delays a packet */
#define WEIR_PROBE_WAIT 50000000ULL

/* State of a port (port.bpf.c). Only the program writes it. */
struct weir_port_state {
	struct bpf_spin_lock lock; /* several CPUs may send through one port */
	u32 reserved;
	struct weir_port_model model;
	u64 packets[WEIR_PORT_QUEUES]; /* all packets, by queue */
	u64 above[WEIR_PORT_QUEUES];   /* of `packets`, those above the threshold */
	u64 marked[WEIR_PORT_QUEUES];  /* of `above`, those that were ECN-capable and marked CE */
	u64 remarked;                  /* arriving buffers whose DSCP was re-marked to 0 */
};

/* Result of weir_verdict (verdict.bpf.c). */
struct weir_found {
	struct weir_packet packet;
	u32 parsed; /* 1: the frame was parsed */
	u32 service;
};

/* One operation of weir_limit (verdict.bpf.c) on its limiter, as the test writes it into the frame. */
struct weir_step {
	u64 now;   /* ns */
	u64 rate;  /* bit/s */
	u32 bytes; /* of the packet */
	u32 set;   /* 1: set the limiter's rate to `rate` first */
};

/* One operation of weir_police_step (verdict.bpf.c) on its policer, as the test writes it into the frame. */
struct weir_police_step {
	u64 now;      /* ns */
	u64 limit;    /* bit/s */
	u64 interval; /* ns */
	u64 followed; /* bytes of followers */
	u64 passed;   /* bytes of strangers */
	u32 bytes;    /* of the packet */
	u32 segments;
	u32 ect;
	u32 reserved;
};

/* One buffer of weir_level_step (verdict.bpf.c) at its regulator, as the test writes it into the frame. */
struct weir_level_step {
	u64 now; /* ns */
	u32 bytes;
	u32 no_type; /* 0: a test run refuses a cut header of IP, which other words here could claim */
	u64 frames;
};

/* A port and its lock, which CPUs hold for an event at the port and its flow. */
struct weir_credit_port_state {
	struct bpf_spin_lock lock;
	u32 reserved;
	struct weir_credit_port port;
};

/* Flows of weir_credit_step (verdict.bpf.c). */
#define WEIR_CREDIT_STEP_FLOWS 8
/* Its kinds of events. */
#define WEIR_CREDIT_STEP_NONE 0
#define WEIR_CREDIT_STEP_ALLOCATE 1
#define WEIR_CREDIT_STEP_ASTRAY 2
#define WEIR_CREDIT_STEP_RETURN 3
#define WEIR_CREDIT_STEP_DATA 4
#define WEIR_CREDIT_STEP_UNKNOWN 5
#define WEIR_CREDIT_STEP_TERMINATE 6
#define WEIR_CREDIT_STEP_REQUEST 7
/* An allocation and its return. */
#define WEIR_CREDIT_STEP_ROUND 8

/* One event of weir_credit_step (verdict.bpf.c) at its port, as the test writes it into the frame. */
struct weir_credit_step {
	u64 now; /* ns */
	u32 kind;
	u32 no_type; /* 0, as in struct weir_level_step */
	u32 flow;    /* below WEIR_CREDIT_STEP_FLOWS */
	u32 bytes;   /* of data */
	u32 queued;  /* bytes */
	u32 reserved;
	u64 gap;     /* ns by which a repetition of the frame is later, with the next clock; 0: neither */
	struct weir_allocation allocation;
	struct weir_returned returned;
};

/* The result of weir_credit_step (verdict.bpf.c), and how often it ran. */
struct weir_credit_outcome {
	u64 runs;
	struct weir_allocation allocation; /* as it leaves the port */
	u32 dropped;                       /* 1: the packet of data is dropped */
	u32 reserved;
};

/* Kinds of events of weir_credit_gate_step (verdict.bpf.c). */
#define WEIR_CREDIT_GATE_STEP_ALLOCATE 1
#define WEIR_CREDIT_GATE_STEP_OFFER 2
#define WEIR_CREDIT_GATE_STEP_DEPART 3
#define WEIR_CREDIT_GATE_STEP_RETURN 4

/* One event of weir_credit_gate_step (verdict.bpf.c) at its gate, as the test writes it into the frame. */
struct weir_credit_gate_step {
	u64 now; /* ns */
	u32 kind;
	u32 no_type; /* 0, as in struct weir_level_step */
	u32 bytes;   /* of a frame, or of those that wait */
	u32 reserved;
	struct weir_allocation allocation;
};

#endif
