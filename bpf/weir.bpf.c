// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * What the kernel runs for every packet of an interface.
 *
 * Problem: enforce and measure per service without tenants noticing. Approach: two tc programs over the headers in
 * datapath/, a step of the law that one of them runs when it is due, and a timer.
 *
 *   leaving   find the service and count; towards a receiver that answers, let switches mark the packet (ecn.h); write down when
 *             it leaves (skb->tstamp), or choose the HTB class (skb->priority): kernel metadata, never on the wire. transmit.h
 *   arriving  find the service and count; undo what a sender that runs Weir did to the ECN bits; answer with the rate. receive.h
 *   ticks     the law of the receive meters, run by packets and a timer. tick.h
 *
 * Control traffic is the hosts' own (control.h), and leaves first. Unclassified traffic has a meter and a class of its own. Packets that pass return
 * "next", so that other programs on the interface still run.
 *
 * User space replaces rules in two steps, so that no packet sees half a table: it writes the table that is
 * not in use, then flips `table` in the configuration, one aligned word.
 *
 * Lengths: leaving packets are counted by skb->wire_len, which the kernel has computed with the headers of
 * every segment, tunnels included, and which HTB charges by; arriving ones were merged by GRO and are
 * counted by datapath/meter.h.
 *
 * Source: EyeQ section 4 (classify and meter at the host); net/sched/sch_htb.c (skb->priority names the class).
 */
#include "transmit.h"
#include "receive.h"
#include "tick.h"

SEC("classifier")
int weir_egress(struct __sk_buff *skb)
{
	struct weir_packet packet;
	struct weir_config *config;
	struct weir_reply *reply = reply_state();
	struct receiver receiver = { .destination = WEIR_NO_DESTINATION };
	u32 service, segments;
	u32 key = 0;
	int sender = WEIR_ORIGIN_TENANT;

	config = bpf_map_lookup_elem(&weir_config, &key);
	if (!config || !reply)
		return NEXT;
	if (reply->stage == WEIR_REPLY_CLONE) {
		if (rewrite(skb, reply, config)) {
			count_event(WEIR_COUNT_FEEDBACK_FAILED);
			return DROP;
		}
		reply->stage = WEIR_REPLY_FEEDBACK;
		return (int)bpf_redirect(skb->ifindex, 0);
	}
	if (reply->stage == WEIR_REPLY_FEEDBACK) {
		reply->stage = WEIR_REPLY_NONE;
		skb->tstamp = 0;
		meter_packet(WEIR_UNCLASSIFIED, WEIR_TX, skb->len, 1);
		prioritize_control(skb, config);
		return NEXT;
	}
	service = verdict(skb, config, &packet);
	if (config->enforces)
		sender = origin_of(skb, config, &packet);
	if (sender == WEIR_ORIGIN_SPOOFED)
		return DROP;
	segments = weir_segments(skb->len, packet.header_bytes, skb->gso_size, skb->gso_segs);
	meter_packet(service, WEIR_TX, skb->wire_len, segments);
	if (sender == WEIR_ORIGIN_AGENT) {
		prioritize_control(skb, config);
		return NEXT;
	}
	if (config->enforces && (packet.has & WEIR_HAS_IP))
		note_neighbour(skb, config, &packet);
	if (config->enforces && service < WEIR_SERVICES_MAX && (packet.has & WEIR_HAS_IP))
		receiver = transmit(skb, config, &packet, service, segments);
	if (paces(config)) {
		if (passes_in_batch(skb, service, receiver.destination))
			return NEXT;
		return pace(skb, service, receiver.entry, receiver.destination, config->tick) ? DROP : NEXT;
	}
	choose_class(skb, config, service, receiver.class);
	return NEXT;
}

SEC("classifier")
int weir_ingress(struct __sk_buff *skb)
{
	struct weir_packet packet;
	struct weir_config *config;
	u32 service, segments, headers;
	struct weir_feedback_arrival *arrival;
	u64 bytes;
	u32 key = 0;
	int arrived;

	config = bpf_map_lookup_elem(&weir_config, &key);
	if (!config)
		return NEXT;
	service = verdict(skb, config, &packet);
	headers = skb->gso_size ? headers_of(skb, &packet) : packet.header_bytes;
	segments = weir_segments(skb->len, headers, skb->gso_size, skb->gso_segs);
	bytes = weir_wire_bytes(skb->len, headers, segments);
	meter_packet(service, WEIR_RX, bytes, segments);
	if (!config->enforces)
		return NEXT;
	if (packet.protocol == WEIR_PROTOCOL_UDP && (packet.has & WEIR_HAS_PORTS) &&
	    is_control(config, packet.destination_port)) {
		/* who mostly sends sees little else arrive: so the time that it goes by goes on */
		tick_at(bpf_ktime_get_ns());
		arrived = receive_control(skb, config, &packet);
		if (arrived == SEND_CAPABILITY) {
			arrival = bpf_map_lookup_elem(&weir_feedback_arrival, &key);
			if (arrival)
				send_ecn_capability(skb, config, &packet, &arrival->feedback);
			return DROP;
		}
		return arrived;
	}
	receive(skb, config, &packet, service, bytes, segments);
	return NEXT;
}

/* Run once by the agent, on no packet: starts the timer. */
SEC("classifier")
int weir_start(struct __sk_buff *skb __attribute__((unused)))
{
	return start();
}

char LICENSE[] SEC("license") = "GPL";
