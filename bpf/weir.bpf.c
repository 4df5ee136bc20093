// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The tc programs of an interface.
 *
 * Problem: measure and rate-limit each service's traffic, transparently to tenants. Approach: one
 * tc program per direction, built from the headers in datapath/, and a periodic tick.
 *
 *   weir_egress   Classifies and counts the packet, encapsulates ECN towards receivers that send
 *                 feedback (ecn.h), and sets the departure time (skb->tstamp) or the HTB class
 *                 (skb->priority). Both are kernel metadata and not part of the packet. transmit.h
 *                 Packets of a latency level pass its regulator instead. levels.h
 *   weir_ingress  Classifies and counts the packet, restores the ECN bits, marks or drops packets of
 *                 senders without Weir above a receive limit, and sends feedback when it is due.
 *                 receive.h
 *   tick          Runs the rate law of the receive meters. Packets and a timer run it. host/tick.h, timer.h
 *   weir_start    Starts the timer.
 *
 * Control traffic has its own path (control.h) and the highest priority. Unclassified traffic has
 * its own meter and class. A packet that passes returns NEXT, so that other programs on the
 * interface run as well.
 *
 * Rule updates are atomic: user space writes the table that is not in use and then changes `table`
 * in the configuration, a single aligned word.
 *
 * Lengths. Egress packets are counted by skb->wire_len, which the kernel computes with the headers
 * of all segments, tunnels included, and which HTB charges. Ingress packets may have been merged by
 * GRO and are counted by datapath/meter.h.
 *
 * Source: EyeQ section 4 (classify and meter at the host); net/sched/sch_htb.c (skb->priority
 * selects the class).
 */
#include "credits.h"
#include "levels.h"
#include "transmit.h"
#include "receive.h"
#include "timer.h"

SEC("classifier")
int weir_egress(struct __sk_buff *skb)
{
	struct weir_packet packet = {};
	struct weir_config *config;
	struct weir_reply *reply = reply_state();
	struct destination destination = { .slot = WEIR_NO_DESTINATION };
	u32 service, segments, marks;
	u32 key = 0;
	int origin = WEIR_ORIGIN_TENANT;

	config = bpf_map_lookup_elem(&weir_config, &key);
	if (!config || !reply)
		return NEXT;
	if (reply->stage == WEIR_REPLY_CLONE) {
		if (rewrite(skb, reply, config)) {
			WEIR_COUNT(feedback_failed);
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
	packet.has = WEIR_HAS_DEPARTED;
	/* A forwarded packet's priority is from its type of service, which guests choose. */
	if (skb->sk) {
		packet.priority = skb->priority;
		packet.has = WEIR_HAS_DEPARTED | WEIR_HAS_PRIORITY;
	}
	service = parse_and_classify(skb, config->table, &packet);
	if (config->enforces)
		origin = origin_of(skb, config, &packet);
	if (origin == WEIR_ORIGIN_SPOOFED)
		return DROP;
	segments = weir_segments(skb->len, packet.header_bytes, skb->gso_size, skb->gso_segs);
	/* The agent's datagrams pass no limiter of a service, whatever filter matches them. */
	meter_packet(origin == WEIR_ORIGIN_AGENT ? WEIR_UNCLASSIFIED : service, WEIR_TX, skb->wire_len, segments);
	if (origin == WEIR_ORIGIN_AGENT) {
		if (config->credit_port && packet.source_port == config->credit_port &&
		    packet.dscp != WEIR_CREDIT_MESSAGE_DSCP)
			set_dscp(skb, packet.network, packet.family, WEIR_CREDIT_MESSAGE_DSCP);
		prioritize_control(skb, config);
		return NEXT;
	}
	if (config->enforces && (packet.has & WEIR_HAS_IP))
		note_neighbour(skb, config, &packet);
	marks = marks_of(config, service);
	if (marks & WEIR_LEVEL_SENT)
		return send_on_level(skb, &packet, marks & WEIR_LEVEL_SENT,
				     service < WEIR_SERVICES_MAX ? service : WEIR_REST, segments);
	if (mark_beside_levels(skb, config, &packet, marks, segments) == DROP)
		return DROP;
	if ((marks & WEIR_CREDITS) && !WEIR_PACES(config) && (packet.has & WEIR_HAS_IP))
		return wait_for_credits(skb, config, &packet, service);
	if (config->enforces && service < WEIR_SERVICES_MAX && (packet.has & WEIR_HAS_IP))
		destination = transmit(skb, config, &packet, service, segments);
	if (WEIR_PACES(config)) {
		leave_level_class(skb, config);
		if (weir_depart_in_batch(service, destination.slot, skb->wire_len))
			return NEXT;
		return pace(skb, service, destination.entry, destination.slot, config->tick);
	}
	choose_class(skb, config, service, destination.class);
	return NEXT;
}

SEC("classifier")
int weir_ingress(struct __sk_buff *skb)
{
	struct weir_packet packet = {};
	struct weir_config *config;
	u32 service, segments, headers;
	struct weir_feedback_arrival *arrival;
	u64 bytes;
	u32 key = 0;
	int verdict;

	config = bpf_map_lookup_elem(&weir_config, &key);
	if (!config)
		return NEXT;
	service = parse_and_classify(skb, config->table, &packet);
	headers = skb->gso_size ? headers_of(skb, &packet, config->table) : packet.header_bytes;
	segments = weir_segments(skb->len, headers, skb->gso_size, skb->gso_segs);
	bytes = weir_wire_bytes(skb->len, headers, segments);
	if (!config->enforces) {
		meter_packet(service, WEIR_RX, bytes, segments);
		return NEXT;
	}
	if (packet.protocol == WEIR_PROTOCOL_UDP && (packet.has & WEIR_HAS_PORTS) &&
	    is_control(config, packet.destination_port)) {
		/*
		 * On a host that mostly sends, most ingress packets are feedback: they keep tick
		 * time current.
		 */
		meter_packet(service, WEIR_RX, bytes, segments);
		weir_tick_at(WEIR_CLOCK());
		verdict = receive_control(skb, config, &packet);
		if (verdict == SEND_CAPABILITY) {
			arrival = bpf_map_lookup_elem(&weir_feedback_arrival, &key);
			if (arrival)
				send_ecn_capability(skb, config, &packet, &arrival->feedback);
			return DROP;
		}
		return verdict;
	}
	/*
	 * What the policer drops is no usage of the service. It has counters of its own. Levelled traffic
	 * is received like unclassified traffic: its senders' levels limit it, and feedback would not.
	 */
	if (receive(skb, config, &packet,
		    arrives_on_level(config, &packet, service) ? WEIR_UNCLASSIFIED : service, bytes, segments) == DROP)
		return DROP;
	meter_packet(service, WEIR_RX, bytes, segments);
	return NEXT;
}

/*
 * Starts the timer. The agent runs it on an empty frame (BPF_PROG_TEST_RUN) until it returns 0: the
 * kernel may have no memory for a timer at once.
 */
SEC("classifier")
int weir_start(struct __sk_buff *skb __attribute__((unused)))
{
	return start_timer();
}

char LICENSE[] SEC("license") = "GPL";
