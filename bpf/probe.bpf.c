// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Probe program for departure times (crates/linux/src/edt_probe.rs): it delays each packet by 50
 * ms.
 *
 * The program runs only in a scratch namespace. If a packet arrives sooner, the qdisc or the kernel
 * ignores departure times, and the edt backend cannot be used.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* ns; WAIT in edt_probe.rs */
#define WEIR_PROBE_WAIT 50000000ULL

SEC("classifier")
int weir_probe(struct __sk_buff *skb)
{
	skb->tstamp = bpf_ktime_get_ns() + WEIR_PROBE_WAIT;
	/* TC_ACT_UNSPEC, also TCX_NEXT: continue with the next program */
	return -1;
}

char LICENSE[] SEC("license") = "GPL";
