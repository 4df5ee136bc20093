/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The maps that user space and the BPF programs share. Their Rust mirror is crates/linux/src/tables.rs,
 * which a test compares with the sizes that the kernel reports for the maps.
 */
#ifndef WEIR_TABLES_H
#define WEIR_TABLES_H

#include "classify.h"

/* One table in use, one to write. */
#define WEIR_TABLES 2
/* Services that can be told apart on one host; ids are places in the policy's canonical order. */
#define WEIR_SERVICES_MAX 1024
/* Per service and for the unclassified, one meter for each direction. */
#define WEIR_METERS ((WEIR_SERVICES_MAX + 1) * 2)

struct weir_config {
	u32 table;         /* which of the tables is in use */
	u32 class_major;   /* the HTB qdisc's handle, already shifted; 0 leaves priorities alone */
	u32 class_first;   /* the minor number of service 0's class */
	u32 class_default; /* the minor number of the class of unclassified traffic */
};

struct weir_table {
	u32 count;
	u32 reserved;
	struct weir_rule rules[WEIR_RULES_MAX];
};

#endif
