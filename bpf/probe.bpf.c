// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Probe program for departure times (crates/host/linux/src/edt_probe.rs): it delays each packet by
 * WEIR_PROBE_WAIT.
 *
 * The program runs only in a scratch namespace. If a packet arrives sooner, the qdisc or the kernel
 * ignores departure times, and the edt backend cannot be used.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "auxiliary.h"

SEC("classifier")
int weir_probe(struct __sk_buff *skb)
{
	skb->tstamp = bpf_ktime_get_ns() + WEIR_PROBE_WAIT;
	/* TC_ACT_UNSPEC, also TCX_NEXT: continue with the next program */
	return -1;
}

char LICENSE[] SEC("license") = "GPL";
