// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * For a probe alone, in a namespace of its own (crates/linux/src/edt_probe.rs): every packet is to leave 50 ms later. Whoever obeys
 * departure times lets none leave before.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define WEIR_PROBE_WAIT 50000000ULL

SEC("classifier")
int weir_probe(struct __sk_buff *skb)
{
	skb->tstamp = bpf_ktime_get_ns() + WEIR_PROBE_WAIT;
	/* the next program */
	return -1;
}

char LICENSE[] SEC("license") = "GPL";
