/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What user space and the programs beside weir.bpf.c share: values of their maps, and constants.
 *
 * crates/datapath/build generates the Rust types and constants from this header, as from tables.h.
 */
#ifndef WEIR_AUXILIARY_H
#define WEIR_AUXILIARY_H

#include "limiter.h"
#include "packet.h"
#include "policer.h"

/* ns by which weir_probe (probe.bpf.c) delays a packet */
#define WEIR_PROBE_WAIT 50000000ULL

/* Configuration of a port of the lab (port.bpf.c). User space writes it before it attaches the program. */
struct weir_port {
	u64 rate;   /* bit/s, not 0 */
	u64 mark;   /* bytes, the marking threshold */
	u64 buffer; /* bytes */
};

/* State of a port of the lab. Only the program writes it. */
struct weir_port_queue {
	struct bpf_spin_lock lock; /* several CPUs may send through one port */
	u32 reserved;
	struct weir_limiter queue; /* the model; `owed` is its length in nanobits */
	u64 packets; /* all packets */
	u64 above;   /* of `packets`, those above the threshold */
	u64 marked;  /* of `above`, those that were ECN-capable and marked CE */
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

#endif
