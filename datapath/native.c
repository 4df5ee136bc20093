/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The per-packet code as functions that another language can call. Nothing is decided here.
 *
 * `weir_layout` lists the size of every shared structure and the place of every field: the Rust mirror
 * (crates/datapath/src/layout.rs) checks itself against it in a test.
 */
#include <stddef.h>

#include "feedback_sampler.h"
#include "classify.h"
#include "departure.h"
#include "destination.h"
#include "ecn.h"
#include "feedback.h"
#include "interface_meter.h"
#include "limiter.h"
#include "meter.h"
#include "packet.h"
#include "receive_meter.h"
#include "receive_tick.h"
#include "siphash.h"
#include "tunnel.h"

int weir_native_parse(const u8 *data, u32 size, struct weir_packet *packet);
u32 weir_native_classify(const struct weir_rule *rules, u32 count, const u16 *starts, const struct weir_packet *packet);
u32 weir_native_header_bytes(const u8 *data, u32 size);
u32 weir_native_segments(u32 bytes, u32 header_bytes, u32 gso_size, u32 gso_segs);
u64 weir_native_wire_bytes(u32 bytes, u32 header_bytes, u32 segments);
void weir_native_meter_add(struct weir_meter *meter, u64 bytes, u32 packets);
void weir_native_limiter_set_rate(struct weir_limiter *limiter, u64 now, u64 rate);
void weir_native_limiter_set_burst(struct weir_limiter *limiter, u32 bytes);
u64 weir_native_limiter_earliest(struct weir_limiter *limiter, u64 now);
u64 weir_native_limiter_departure(struct weir_limiter *limiter, u64 now, u32 bytes);
u64 weir_native_law_floor(u64 capacity);
u64 weir_native_rate_law(u64 rate, u64 capacity, u64 usage, u32 alpha, u32 marked, u64 floor);
u64 weir_native_law_marked_usage(u64 usage, u64 capacity, u64 elapsed, u32 mark_bytes, u32 marked);
void weir_native_receive_meter_init(struct weir_receive_meter *meter, u64 now, const struct weir_law *law, u64 capacity,
				    u32 feedback_bytes, u64 feedback_interval, u32 seed);
void weir_native_receive_meter_set_capacity(struct weir_receive_meter *meter, u64 capacity, u32 shared);
void weir_native_receive_meter_set_interval(struct weir_receive_meter *meter, u64 interval);
int weir_native_receive_meter_packet(struct weir_receive_meter *meter, u64 now, u64 bytes, u32 packets, u32 marked);
u64 weir_native_receive_meter_usage(const struct weir_receive_meter *meter, u64 now);
void weir_native_interface_meter_init(struct weir_interface_meter *meter, u64 now, const struct weir_law *law,
				      u64 capacity, u32 lightest, u64 total, u64 minima, u64 saturated_rate, u32 weighs);
void weir_native_interface_meter_set_capacity(struct weir_interface_meter *meter, u64 capacity, u64 saturated_rate);
int weir_native_interface_meter_packet(struct weir_interface_meter *meter, u64 now, u64 bytes);
void weir_native_interface_meter_reach(struct weir_interface_meter *meter, const struct weir_receive_meter *service, u64 now,
				       u64 bytes, u32 sharing, u64 min, u64 max, u32 weight);
u32 weir_native_receive_packet(struct weir_interface_meter *interface, struct weir_receive_meter *meter, u64 now, u64 bytes,
			       u32 packets, u32 marked, u64 committed);
u64 weir_native_interface_meter_share(const struct weir_interface_meter *meter, u32 sharing, u64 min, u64 max,
				      u32 weight);
int weir_native_feedback_waits(struct weir_feedback_sampler *sampler, u64 last, u64 bytes);
int weir_native_feedback_due(struct weir_feedback_sampler *sampler, u64 now, u64 bytes);
u32 weir_native_advertised_slot(const u64 *source, const u64 *destination, u32 service, u32 slots);
int weir_native_feedback_repeats(struct weir_advertised *advertised, const u64 *source, const u64 *destination, u32 service, u64 rate,
			       u64 now, u64 keep);
void weir_native_destination_init(struct weir_destination *destination, u64 now,
				  const struct weir_destination_rules *rules, u64 rate);
int weir_native_destination_feedback(struct weir_destination *destination, u64 now, u64 rate, u32 weight);
int weir_native_destination_asks(struct weir_destination *destination, u64 now);
int weir_native_destination_silent(struct weir_destination *destination, u64 now);
int weir_native_pacing_pass(const struct weir_pacing *pacing, struct weir_limiter *limiter, u64 now, u32 bytes, u64 *departure);
int weir_native_cpu_batch_pass(struct weir_cpu_batch *batch, u64 due, u32 slot, u32 bytes);
int weir_native_lease_take(struct weir_lease *lease, u64 due, u32 bytes, u64 *departure);
int weir_native_cpu_batch_end(struct weir_cpu_batch *batch, u64 due, u32 slot);
u64 weir_native_departure_tick_time(const struct weir_sender *sender, const struct weir_limiter *destination, u32 unpaid,
				 const struct weir_lease *lease, const struct weir_pacing *pacing, u64 tick, u64 due);
u32 weir_native_depart(struct weir_cpu_batch *batch, struct weir_limiter *paid, struct weir_limiter *destination, u32 slot,
		       struct weir_lease *lease, struct weir_sender *sender, const struct weir_sending *rules, const struct weir_pacing *pacing,
		       const struct weir_interface_meter *meter, struct weir_machine_egress *machine, u64 now, u64 due, u32 bytes,
		       u64 *departure);
u32 weir_native_departure(struct weir_sender *sender, const struct weir_sending *rules, const struct weir_pacing *pacing,
			  const struct weir_interface_meter *meter, struct weir_machine_egress *machine, u64 now, u32 bytes,
			  u32 static_only, u64 *departure);
void weir_native_sending_tick(struct weir_interface_meter *meter, u64 now, u64 bytes, u32 newcomer, u64 slack);
void weir_native_tick_take(struct weir_arrivals *arrivals, struct weir_taken *taken);
void weir_native_tick_marks(struct weir_interface_meter *interface, const struct weir_receive_meter *meter, u32 packets,
			   u32 marked, u64 committed);
int weir_native_tick_interface(struct weir_interface_meter *interface, u64 now, u64 bytes, u64 slack);
int weir_native_tick_meter(struct weir_interface_meter *interface, struct weir_receive_meter *meter, u64 now, u64 bytes,
			   u32 packets, u32 marked, u64 slack);
int weir_native_ecn_leave_ipv4(u8 *header, u32 segments, int requests_feedback);
int weir_native_ecn_leave_ipv6(u8 *header, int requests_feedback);
u32 weir_native_ecn_arrive_ipv4(u8 *header);
u32 weir_native_ecn_arrive_ipv6(u8 *header);
u64 weir_native_siphash(const struct weir_sip_key *key, const u64 *words, u32 count);
void weir_native_ecn_capability_write(u64 *body, const struct weir_feedback *feedback, const u64 *source, const u64 *destination,
			    const struct weir_sip_key *key);
void weir_native_feedback_write(u64 *body, const struct weir_feedback *feedback, const u64 *source,
				const u64 *destination, const struct weir_sip_key *key);
int weir_native_control_kind(u64 first);
int weir_native_feedback_read(const u64 *body, const u64 *source, const u64 *destination, const struct weir_sip_key *key,
			      struct weir_feedback *feedback);
void weir_native_feedback_answered(const struct weir_feedback *feedback, const struct weir_packet *carrier,
				   struct weir_packet *subject);
int weir_native_feedback_newer(u64 epoch, u64 sequence, u64 last_epoch, u64 last_sequence);
void weir_native_feedback_ipv4(u8 *headers, const u64 *source, const u64 *destination);
void weir_native_feedback_ipv6(u8 *headers, const u64 *source, const u64 *destination, const u64 *body);

int weir_native_parse(const u8 *data, u32 size, struct weir_packet *packet)
{
	weir_frame frame = { data, size };

	return weir_parse(&frame, packet);
}

u32 weir_native_classify(const struct weir_rule *rules, u32 count, const u16 *starts, const struct weir_packet *packet)
{
	return weir_classify(rules, count, starts, packet);
}

u32 weir_native_header_bytes(const u8 *data, u32 size)
{
	const struct weir_bytes frame = { data, size };
	struct weir_packet packet;

	if (weir_parse(&frame, &packet) != WEIR_PARSED)
		return WEIR_U32_MAX;
	return weir_header_bytes(&frame, &packet);
}

u32 weir_native_segments(u32 bytes, u32 header_bytes, u32 gso_size, u32 gso_segs)
{
	return weir_segments(bytes, header_bytes, gso_size, gso_segs);
}

u64 weir_native_wire_bytes(u32 bytes, u32 header_bytes, u32 segments)
{
	return weir_wire_bytes(bytes, header_bytes, segments);
}

void weir_native_meter_add(struct weir_meter *meter, u64 bytes, u32 packets)
{
	weir_meter_add(meter, bytes, packets);
}

void weir_native_limiter_set_rate(struct weir_limiter *limiter, u64 now, u64 rate)
{
	weir_limiter_set_rate(limiter, now, rate);
}

void weir_native_limiter_set_burst(struct weir_limiter *limiter, u32 bytes)
{
	weir_limiter_set_burst(limiter, bytes);
}

u64 weir_native_limiter_earliest(struct weir_limiter *limiter, u64 now)
{
	return weir_limiter_earliest(limiter, now);
}

u64 weir_native_limiter_departure(struct weir_limiter *limiter, u64 now, u32 bytes)
{
	return weir_limiter_departure(limiter, now, bytes);
}

u64 weir_native_law_floor(u64 capacity)
{
	return weir_law_floor(capacity);
}

u64 weir_native_rate_law(u64 rate, u64 capacity, u64 usage, u32 alpha, u32 marked, u64 floor)
{
	return weir_rate_law(rate, capacity, usage, alpha, marked, floor);
}

u64 weir_native_law_marked_usage(u64 usage, u64 capacity, u64 elapsed, u32 mark_bytes, u32 marked)
{
	return weir_law_marked_usage(usage, capacity, elapsed, mark_bytes, marked);
}

void weir_native_receive_meter_init(struct weir_receive_meter *meter, u64 now, const struct weir_law *law, u64 capacity,
				    u32 feedback_bytes, u64 feedback_interval, u32 seed)
{
	weir_receive_meter_init(meter, now, law, capacity, feedback_bytes, feedback_interval, seed);
}

void weir_native_receive_meter_set_capacity(struct weir_receive_meter *meter, u64 capacity, u32 shared)
{
	weir_receive_meter_set_capacity(meter, capacity, shared);
}

void weir_native_receive_meter_set_interval(struct weir_receive_meter *meter, u64 interval)
{
	weir_receive_meter_set_interval(meter, interval);
}

int weir_native_receive_meter_packet(struct weir_receive_meter *meter, u64 now, u64 bytes, u32 packets, u32 marked)
{
	return weir_receive_meter_packet(meter, now, bytes, packets, marked);
}

u64 weir_native_receive_meter_usage(const struct weir_receive_meter *meter, u64 now)
{
	return weir_receive_meter_usage(meter, now);
}

void weir_native_interface_meter_init(struct weir_interface_meter *meter, u64 now, const struct weir_law *law,
				      u64 capacity, u32 lightest, u64 total, u64 minima, u64 saturated_rate, u32 weighs)
{
	weir_interface_meter_init(meter, now, law, capacity, lightest, total, minima, saturated_rate, weighs);
}

void weir_native_interface_meter_set_capacity(struct weir_interface_meter *meter, u64 capacity, u64 saturated_rate)
{
	weir_interface_meter_set_capacity(meter, capacity, saturated_rate);
}

int weir_native_interface_meter_packet(struct weir_interface_meter *meter, u64 now, u64 bytes)
{
	return weir_interface_meter_packet(meter, now, bytes);
}

void weir_native_interface_meter_reach(struct weir_interface_meter *meter, const struct weir_receive_meter *service, u64 now,
				       u64 bytes, u32 sharing, u64 min, u64 max, u32 weight)
{
	weir_interface_meter_reach(meter, service, now, bytes, sharing, min, max, weight);
}

u32 weir_native_receive_packet(struct weir_interface_meter *interface, struct weir_receive_meter *meter, u64 now, u64 bytes,
			       u32 packets, u32 marked, u64 committed)
{
	return weir_receive_packet(interface, meter, now, bytes, packets, marked, committed);
}

u64 weir_native_interface_meter_share(const struct weir_interface_meter *meter, u32 sharing, u64 min, u64 max,
				      u32 weight)
{
	return weir_interface_meter_share(meter, sharing, min, max, weight);
}

int weir_native_feedback_waits(struct weir_feedback_sampler *sampler, u64 last, u64 bytes)
{
	return weir_feedback_not_due(sampler, last, bytes);
}

int weir_native_feedback_due(struct weir_feedback_sampler *sampler, u64 now, u64 bytes)
{
	return weir_feedback_due(sampler, now, bytes);
}

u32 weir_native_advertised_slot(const u64 *source, const u64 *destination, u32 service, u32 slots)
{
	return weir_advertised_slot(source, destination, service, slots);
}

int weir_native_feedback_repeats(struct weir_advertised *advertised, const u64 *source, const u64 *destination, u32 service, u64 rate,
			       u64 now, u64 keep)
{
	return weir_feedback_repeats(advertised, source, destination, service, rate, now, keep);
}

void weir_native_destination_init(struct weir_destination *destination, u64 now,
				  const struct weir_destination_rules *rules, u64 rate)
{
	weir_destination_init(destination, now, rules, rate);
}

int weir_native_destination_feedback(struct weir_destination *destination, u64 now, u64 rate, u32 weight)
{
	return weir_destination_feedback(destination, now, rate, weight);
}

int weir_native_destination_asks(struct weir_destination *destination, u64 now)
{
	return weir_destination_requests(destination, now);
}

int weir_native_destination_silent(struct weir_destination *destination, u64 now)
{
	return weir_destination_silent(destination, now);
}

int weir_native_pacing_pass(const struct weir_pacing *pacing, struct weir_limiter *limiter, u64 now, u32 bytes, u64 *departure)
{
	return weir_pacing_pass(pacing, limiter, now, bytes, departure);
}

u32 weir_native_departure(struct weir_sender *sender, const struct weir_sending *rules, const struct weir_pacing *pacing,
			  const struct weir_interface_meter *meter, struct weir_machine_egress *machine, u64 now, u32 bytes,
			  u32 static_only, u64 *departure)
{
	u32 leaves = weir_sender_departure(sender, rules, pacing, meter, machine, now, bytes, static_only, departure);

	if (leaves != WEIR_LEAVES_NEVER)
		weir_machine_egress_departure(machine, pacing, now, bytes, leaves, departure);
	return leaves;
}

int weir_native_cpu_batch_pass(struct weir_cpu_batch *batch, u64 due, u32 slot, u32 bytes)
{
	return weir_cpu_batch_pass(batch, due, slot, bytes);
}

int weir_native_lease_take(struct weir_lease *lease, u64 due, u32 bytes, u64 *departure)
{
	return weir_lease_take(lease, due, bytes, departure);
}

int weir_native_cpu_batch_end(struct weir_cpu_batch *batch, u64 due, u32 slot)
{
	return weir_cpu_batch_end(batch, due, slot);
}

u64 weir_native_departure_tick_time(const struct weir_sender *sender, const struct weir_limiter *destination, u32 unpaid,
				 const struct weir_lease *lease, const struct weir_pacing *pacing, u64 tick, u64 due)
{
	return weir_departure_tick_time(sender, destination, unpaid, lease ? lease : &sender->lease, pacing, tick, due);
}

u32 weir_native_depart(struct weir_cpu_batch *batch, struct weir_limiter *paid, struct weir_limiter *destination, u32 slot,
		       struct weir_lease *lease, struct weir_sender *sender, const struct weir_sending *rules, const struct weir_pacing *pacing,
		       const struct weir_interface_meter *meter, struct weir_machine_egress *machine, u64 now, u64 due, u32 bytes,
		       u64 *departure)
{
	/* the caller cannot name one limiter twice */
	return weir_depart(batch, batch->slot == slot ? destination : paid, destination, slot,
			   lease ? lease : &sender->lease, sender, rules, pacing, meter, machine, now, due, bytes, 0, departure);
}

void weir_native_sending_tick(struct weir_interface_meter *meter, u64 now, u64 bytes, u32 newcomer, u64 slack)
{
	weir_sending_tick(meter, now, bytes, newcomer, slack);
}

void weir_native_tick_take(struct weir_arrivals *arrivals, struct weir_taken *taken)
{
	weir_tick_take(arrivals, taken);
}

void weir_native_tick_marks(struct weir_interface_meter *interface, const struct weir_receive_meter *meter, u32 packets,
			   u32 marked, u64 committed)
{
	weir_tick_marks(interface, meter, packets, marked, committed);
}

int weir_native_tick_interface(struct weir_interface_meter *interface, u64 now, u64 bytes, u64 slack)
{
	return weir_tick_interface(interface, now, bytes, slack);
}

int weir_native_tick_meter(struct weir_interface_meter *interface, struct weir_receive_meter *meter, u64 now, u64 bytes,
			   u32 packets, u32 marked, u64 slack)
{
	return weir_tick_meter(interface, meter, now, bytes, packets, marked, slack);
}

int weir_native_ecn_leave_ipv4(u8 *header, u32 segments, int requests_feedback)
{
	return weir_ecn_leave_ipv4(header, segments, requests_feedback);
}

int weir_native_ecn_leave_ipv6(u8 *header, int requests_feedback)
{
	return weir_ecn_leave_ipv6(header, requests_feedback);
}

/* The four answers of `struct weir_ecn` as bits, in order. */
static u32 ecn_bits(struct weir_ecn found)
{
	return (u32)(found.capable | found.marked << 1 | found.requests_feedback << 2 | found.encapsulated << 3);
}

u32 weir_native_ecn_arrive_ipv4(u8 *header)
{
	return ecn_bits(weir_ecn_arrive_ipv4(header));
}

u32 weir_native_ecn_arrive_ipv6(u8 *header)
{
	return ecn_bits(weir_ecn_arrive_ipv6(header));
}

u64 weir_native_siphash(const struct weir_sip_key *key, const u64 *words, u32 count)
{
	return weir_siphash(key, words, count);
}

void weir_native_ecn_capability_write(u64 *body, const struct weir_feedback *feedback, const u64 *source, const u64 *destination,
			    const struct weir_sip_key *key)
{
	weir_feedback_write_as(WEIR_KIND_ECN_CAPABILITY, body, feedback, source, destination, key);
}

void weir_native_feedback_write(u64 *body, const struct weir_feedback *feedback, const u64 *source,
				const u64 *destination, const struct weir_sip_key *key)
{
	weir_feedback_write(body, feedback, source, destination, key);
}

int weir_native_control_kind(u64 first)
{
	return weir_control_kind(first);
}

/* 1: the tag verifies. */
int weir_native_feedback_read(const u64 *body, const u64 *source, const u64 *destination, const struct weir_sip_key *key,
			      struct weir_feedback *feedback)
{
	weir_feedback_read(body, feedback);
	return weir_feedback_tag(body, source, destination, key) == body[6];
}

void weir_native_feedback_answered(const struct weir_feedback *feedback, const struct weir_packet *carrier,
				   struct weir_packet *subject)
{
	weir_feedback_subject(feedback, carrier, subject);
}

int weir_native_feedback_newer(u64 epoch, u64 sequence, u64 last_epoch, u64 last_sequence)
{
	return weir_feedback_newer(epoch, sequence, last_epoch, last_sequence);
}

void weir_native_feedback_ipv4(u8 *headers, const u64 *source, const u64 *destination)
{
	weir_feedback_ipv4(headers, source, destination);
}

void weir_native_feedback_ipv6(u8 *headers, const u64 *source, const u64 *destination, const u64 *body)
{
	weir_feedback_ipv6(headers, source, destination, body);
}

#define SIZE(type) sizeof(struct type)
#define FIELD(type, field) offsetof(struct type, field)

const u32 weir_layout[] = {
	SIZE(weir_packet),
	FIELD(weir_packet, source),
	FIELD(weir_packet, destination),
	FIELD(weir_packet, header_bytes),
	FIELD(weir_packet, vni),
	FIELD(weir_packet, network),
	FIELD(weir_packet, source_port),
	FIELD(weir_packet, destination_port),
	FIELD(weir_packet, family),
	FIELD(weir_packet, protocol),
	FIELD(weir_packet, dscp),
	FIELD(weir_packet, has),
	FIELD(weir_packet, ecn),
	SIZE(weir_rule),
	FIELD(weir_rule, address),
	FIELD(weir_rule, mask),
	FIELD(weir_rule, service),
	FIELD(weir_rule, vni),
	FIELD(weir_rule, port_first),
	FIELD(weir_rule, port_last),
	FIELD(weir_rule, fields),
	FIELD(weir_rule, needs),
	FIELD(weir_rule, protocol),
	FIELD(weir_rule, dscp),
	FIELD(weir_rule, family),
	SIZE(weir_meter),
	FIELD(weir_meter, bytes),
	FIELD(weir_meter, packets),
	SIZE(weir_limiter),
	FIELD(weir_limiter, rate),
	FIELD(weir_limiter, burst),
	FIELD(weir_limiter, owed),
	FIELD(weir_limiter, paid_at),
	FIELD(weir_limiter, drain_ns),
	FIELD(weir_limiter, rest_at),
	FIELD(weir_limiter, kept),
	SIZE(weir_lease),
	FIELD(weir_lease, left),
	FIELD(weir_lease, due),
	FIELD(weir_lease, end),
	FIELD(weir_lease, last),
	FIELD(weir_lease, charged_at),
	FIELD(weir_lease, charged),
	FIELD(weir_lease, step),
	SIZE(weir_law),
	FIELD(weir_law, interval),
	FIELD(weir_law, alpha),
	FIELD(weir_law, catch_up),
	FIELD(weir_law, mark_bytes),
	FIELD(weir_law, marks),
	SIZE(weir_window),
	FIELD(weir_window, opened_at),
	FIELD(weir_window, bytes),
	FIELD(weir_window, packets),
	FIELD(weir_window, marked),
	SIZE(weir_feedback_sampler),
	FIELD(weir_feedback_sampler, interval),
	FIELD(weir_feedback_sampler, sent_at),
	FIELD(weir_feedback_sampler, unsent_bytes),
	FIELD(weir_feedback_sampler, bytes),
	FIELD(weir_feedback_sampler, draw),
	SIZE(weir_receive_meter),
	FIELD(weir_receive_meter, law),
	FIELD(weir_receive_meter, window),
	FIELD(weir_receive_meter, capacity),
	FIELD(weir_receive_meter, rate),
	FIELD(weir_receive_meter, usage),
	FIELD(weir_receive_meter, packets),
	FIELD(weir_receive_meter, marked),
	FIELD(weir_receive_meter, drained),
	FIELD(weir_receive_meter, unqueued),
	FIELD(weir_receive_meter, beside),
	FIELD(weir_receive_meter, queued),
	FIELD(weir_receive_meter, shared),
	FIELD(weir_receive_meter, sampler),
	SIZE(weir_interface_meter),
	FIELD(weir_interface_meter, law),
	FIELD(weir_interface_meter, window),
	FIELD(weir_interface_meter, capacity),
	FIELD(weir_interface_meter, rate),
	FIELD(weir_interface_meter, usage),
	FIELD(weir_interface_meter, received),
	FIELD(weir_interface_meter, peak),
	FIELD(weir_interface_meter, total),
	FIELD(weir_interface_meter, minima),
	FIELD(weir_interface_meter, saturated_rate),
	FIELD(weir_interface_meter, short_packets),
	FIELD(weir_interface_meter, short_marked),
	FIELD(weir_interface_meter, reach),
	FIELD(weir_interface_meter, lightest),
	FIELD(weir_interface_meter, weighs),
	FIELD(weir_interface_meter, full),
	FIELD(weir_interface_meter, settling),
	SIZE(weir_arrivals),
	FIELD(weir_arrivals, bytes),
	FIELD(weir_arrivals, packets),
	FIELD(weir_arrivals, marked),
	FIELD(weir_arrivals, taken_bytes),
	FIELD(weir_arrivals, taken_packets),
	FIELD(weir_arrivals, taken_marked),
	SIZE(weir_taken),
	FIELD(weir_taken, bytes),
	FIELD(weir_taken, packets),
	FIELD(weir_taken, marked),
	SIZE(weir_sip_key),
	FIELD(weir_sip_key, first),
	FIELD(weir_sip_key, second),
	SIZE(weir_feedback),
	FIELD(weir_feedback, rate),
	FIELD(weir_feedback, epoch),
	FIELD(weir_feedback, sequence),
	FIELD(weir_feedback, service),
	FIELD(weir_feedback, vni),
	FIELD(weir_feedback, key),
	FIELD(weir_feedback, source_port),
	FIELD(weir_feedback, destination_port),
	FIELD(weir_feedback, protocol),
	FIELD(weir_feedback, dscp),
	FIELD(weir_feedback, has),
	SIZE(weir_destination_rules),
	FIELD(weir_destination_rules, hold),
	FIELD(weir_destination_rules, silence),
	FIELD(weir_destination_rules, burst_time),
	FIELD(weir_destination_rules, halved_floor),
	FIELD(weir_destination_rules, request_after),
	FIELD(weir_destination_rules, burst),
	SIZE(weir_destination),
	FIELD(weir_destination, limiter),
	FIELD(weir_destination, rules),
	FIELD(weir_destination, feedback_at),
	FIELD(weir_destination, halved_at),
	FIELD(weir_destination, changed_at),
	FIELD(weir_destination, requested_at),
	FIELD(weir_destination, changed),
	SIZE(weir_pacing),
	FIELD(weir_pacing, rate),
	FIELD(weir_pacing, horizon),
	FIELD(weir_pacing, queue),
	FIELD(weir_pacing, burst),
	FIELD(weir_pacing, sharing),
	FIELD(weir_pacing, spread),
	SIZE(weir_sending),
	FIELD(weir_sending, min),
	FIELD(weir_sending, max),
	FIELD(weir_sending, limit),
	FIELD(weir_sending, ceiling),
	FIELD(weir_sending, weight),
	FIELD(weir_sending, generation),
	SIZE(weir_sender),
	FIELD(weir_sender, root),
	FIELD(weir_sender, committed),
	FIELD(weir_sender, lease),
	FIELD(weir_sender, fair_rate),
	FIELD(weir_sender, latest),
	FIELD(weir_sender, waited_at),
	FIELD(weir_sender, sent),
	FIELD(weir_sender, excess),
	FIELD(weir_sender, dropped),
	FIELD(weir_sender, generation),
	SIZE(weir_machine_egress),
	FIELD(weir_machine_egress, limiter),
	FIELD(weir_machine_egress, committed),
	FIELD(weir_machine_egress, sent),
	FIELD(weir_machine_egress, newcomers),
	SIZE(weir_cpu_batch),
	FIELD(weir_cpu_batch, due),
	FIELD(weir_cpu_batch, room),
	FIELD(weir_cpu_batch, unpaid),
	FIELD(weir_cpu_batch, slot),
	WEIR_COMMITTED_PART,
	WEIR_CPU_BATCH_SPREAD,
	WEIR_NO_DESTINATION,
	WEIR_LEAVES_COMMITTED,
	WEIR_LEAVES_EXCESS,
	WEIR_LEAVES_NEVER,
	WEIR_LEAVES_NEWCOMER,
	WEIR_FEEDBACK_WORDS,
	WEIR_CONTROL_PORT,
	WEIR_FEEDBACK_GOOD,
	WEIR_FEEDBACK_FOREIGN,
	WEIR_FEEDBACK_VERSION,
	WEIR_FEEDBACK_OTHER,
	WEIR_FEEDBACK_ECN_CAPABILITY,
	WEIR_FEEDBACK_ECN_ACK,
	WEIR_RULES_MAX,
	WEIR_STARTS,
	WEIR_UNCLASSIFIED,
	WEIR_MALFORMED,
	WEIR_HAS_IP,
	WEIR_HAS_PORTS,
	WEIR_HAS_VNI,
	WEIR_RULE_PROTOCOL,
	WEIR_RULE_PORTS,
	WEIR_RULE_ADDRESS,
	WEIR_RULE_DSCP,
	WEIR_RULE_VNI,
	WEIR_LAW_ONE,
	WEIR_INTERVAL_MIN,
	WEIR_SHARE_FILL,
	WEIR_SHARE_ADD,
	WEIR_RECEIVED_FEEDBACK,
	WEIR_RECEIVED_SHARES,
	WEIR_DESTINATION_DROP,
};
const u32 weir_layout_size = sizeof(weir_layout) / sizeof(weir_layout[0]);
