// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Forwarder: a switch port that grants credits (PACE), in the direction of the data that leaves by it.
 *
 *   weir_forward_rx  Packets that arrive at the port. Allocations are verified, reduced by the port's rules
 *                    (datapath/credit.h), and tagged anew: their data leaves by this port. An allocation of a flow
 *                    whose data does not leave by it is astray and goes on without credits.
 *   weir_forward_tx  Packets that leave by the port. Requests make a flow's entry, returns release credits,
 *                    terminations end a flow. Packets of services with credits are counted against the flow's grants;
 *                    those beyond are late, and dropped where the port claims to be lossless.
 *
 * Messages that do not verify, are not newer than the last, or are of another version are counted and dropped. Messages
 * in the other direction pass: the forwarder of the port at which an allocation arrived has rewritten it, and that of
 * the port by which a request leaves checks it.
 *
 * A flow's entry is made by messages that leave, so it is evidence that the flow's data leaves by this port. A new
 * entry takes no message that is older than the last ones of its hosts' forgotten flows: agents number all messages.
 *
 * A return may be of credits that another port granted: the first message of a flow, or the first one after a silence,
 * if the port has not seen the allocations of the last periods. For the longest life of such credits the flow's data
 * without a grant is `rerouted` in place of late. After a silence alone, data beyond the grants is late.
 *
 * Q, the bytes queued, comes from a model: a queue drains at R. tc programs cannot read a backlog. It has the data that
 * grants cover, and up to 2 * C_0 packets that leave beside it: late data that is not dropped, messages, small frames
 * of services with credits, and where R is the rate of the link all other packets. Without these the grants of a whole
 * R and the others would exceed the link, and the port's queue would grow until it is full.
 *
 * Locks: the port's lock is held once per packet, for an event at the port and its flow.
 *
 * Worked example: two flows with a half of a port of 1 Gb/s each. An allocation of 25,000 B in 200 us arrives, and goes
 * on with 12,500 B; 8 packets of 1,514 B leave by the port, 388 B of the grant are left.
 *
 * Source: PACE (Carvalho et al. 2013) section III.E; docs/design/credits.md.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "classify.h"
#include "forwarder.h"

#define NEXT (-1)
#define DROP 2

#define ARRAY(name, of, entries)                                                                                \
	struct {                                                                                                \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                               \
		__uint(max_entries, entries);                                                                   \
		__type(key, u32);                                                                               \
		__type(value, of);                                                                              \
	} name SEC(".maps")

#define PERCPU(name, of)                                                                                        \
	struct {                                                                                                \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);                                                        \
		__uint(max_entries, 1);                                                                         \
		__type(key, u32);                                                                               \
		__type(value, of);                                                                              \
	} name SEC(".maps")

/* A message while it is checked: the programs' stack is short. */
struct work {
	u64 body[WEIR_CREDIT_MESSAGE_WORDS];
	struct weir_credit_message message;
	struct weir_forwarder_key key;
	struct weir_forwarder_flow fresh; /* all zeros but the orders */
};

/* written by the daemon */
ARRAY(weir_fwd_config, struct weir_forwarder_config, 1);
ARRAY(weir_fwd_tables, struct weir_rule_index, WEIR_TABLES);
ARRAY(weir_fwd_services, struct weir_forwarder_services, WEIR_TABLES);
ARRAY(weir_fwd_keys, struct weir_key, WEIR_KEYS);
ARRAY(weir_fwd_rules, struct weir_forwarder_rules, 2);
/* by the numbers of services with credits: pairs of hosts that have flows at the port, at least 1 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_SERVICES_MAX);
	__type(key, u32);
	__type(value, u32);
} weir_fwd_numbers SEC(".maps");

/* written by packets, under the port's lock; the daemon deletes flows */
ARRAY(weir_fwd_port, struct weir_forwarder_port, 1);
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_FORWARDER_FLOWS);
	__type(key, struct weir_forwarder_key);
	__type(value, struct weir_forwarder_flow);
} weir_fwd_flows SEC(".maps");
/* written by the daemon: the last messages of hosts whose flows it has deleted */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WEIR_FORWARDER_HOSTS);
	__type(key, struct weir_forwarder_host);
	__type(value, struct weir_forwarder_order);
} weir_fwd_hosts SEC(".maps");

/* written by each CPU */
PERCPU(weir_fwd_counts, struct weir_forwarder_counts);
PERCPU(weir_fwd_work, struct work);

#define count_event(field)                                                                                      \
	do {                                                                                                    \
		u32 first_ = 0;                                                                                 \
		struct weir_forwarder_counts *counts_ = bpf_map_lookup_elem(&weir_fwd_counts, &first_);         \
                                                                                                                \
		if (counts_)                                                                                    \
			counts_->field += 1;                                                                    \
	} while (0)

static __always_inline struct weir_forwarder_rules *rules_of(const struct weir_forwarder_config *config)
{
	u32 index = config->rules & 1;

	return bpf_map_lookup_elem(&weir_fwd_rules, &index);
}

/* Sets the packet's VNI and returns its service. Not inlined, so that the verifier checks its comparisons once. */
__noinline u32 classify(struct __sk_buff *skb, const struct weir_rule_index *index, struct weir_packet *packet)
{
	if (!index || !packet)
		return WEIR_UNCLASSIFIED;
	weir_index_find_vni(index, skb, packet);
	return weir_classify(index, packet);
}

/* The number of the service with credits of a packet, or 0. */
static __always_inline u32 service_of(struct __sk_buff *skb, const struct weir_forwarder_config *config,
				      struct weir_packet *packet)
{
	u32 table = config->table & 1, service;
	struct weir_rule_index *index = bpf_map_lookup_elem(&weir_fwd_tables, &table);
	struct weir_forwarder_services *services = bpf_map_lookup_elem(&weir_fwd_services, &table);

	if (!index || !services)
		return 0;
	service = classify(skb, index, packet);
	return service < WEIR_SERVICES_MAX ? services->numbers[service & (WEIR_SERVICES_MAX - 1)] : 0;
}

static __always_inline int is_message(const struct weir_packet *packet)
{
	return packet->protocol == WEIR_PROTOCOL_UDP && (packet->has & WEIR_HAS_PORTS) &&
	       packet->destination_port == WEIR_CREDIT_MESSAGE_PORT;
}

/*
 * Whether the key of this index has the number of the message and verifies its tag. A global function, so that the
 * verifier checks the tag once, not for each key.
 */
__noinline u32 key_verifies(const struct work *work, const struct weir_packet *packet, u32 index)
{
	struct weir_key *key;

	if (!work || !packet)
		return 0;
	key = bpf_map_lookup_elem(&weir_fwd_keys, &index);
	if (!key || !key->known || key->id != work->message.key)
		return 0;
	return weir_credit_message_tag(work->body, packet->source, packet->destination, &key->sip) == work->body[8];
}

/* Whether one of the keys verifies the message: numbers have 16 bits, so that two keys may have the same one. */
static __always_inline int verifies(const struct work *work, const struct weir_packet *packet)
{
	u32 i;

	for (i = 0; i < WEIR_KEYS; i++) {
		if (key_verifies(work, packet, i))
			return 1;
	}
	return 0;
}

/* Counts a datagram to the port of credits whose kind is none of this version. */
static __always_inline int refuse(u32 kind)
{
	if (kind == WEIR_CREDIT_FOREIGN)
		count_event(foreign);
	else if (kind == WEIR_CREDIT_OTHER_VERSION)
		count_event(other_version);
	else
		count_event(malformed);
	return DROP;
}

/* Reads the body of a datagram to the port of credits. Returns its kind. */
static __always_inline u32 read_message(struct __sk_buff *skb, struct work *work, const struct weir_packet *packet)
{
	u32 kind;

	if (weir_load(skb, packet->header_bytes, work->body, WEIR_CREDIT_MESSAGE_BYTES))
		return WEIR_CREDIT_FOREIGN;
	kind = weir_credit_kind(work->body[0]);
	weir_credit_message_read(work->body, &work->message);
	return kind;
}

/* Verifies a message that was read. Returns whether it is authentic, and counts it if it is not. */
static __noinline int admit(const struct work *work, const struct weir_packet *packet)
{
	if (!work || !packet)
		return 0;
	if (!verifies(work, packet)) {
		count_event(forged);
		return 0;
	}
	if (!weir_credit_message_valid(&work->message)) {
		count_event(malformed);
		return 0;
	}
	return 1;
}

static __always_inline int is_newer(const struct weir_credit_message *message, const struct weir_forwarder_order *last)
{
	return weir_feedback_newer(message->epoch, message->sequence, last->epoch, last->sequence);
}

static __always_inline void note_order(const struct weir_credit_message *message, struct weir_forwarder_order *last)
{
	last->epoch = message->epoch;
	last->sequence = message->sequence;
}

/* Adds a packet of credited data to the queue of the model. */
static __always_inline void enqueue(struct weir_forwarder_port *port, const struct weir_forwarder_rules *rules,
				    u32 bytes, u64 now)
{
	u64 time = (u64)bytes * rules->pace + port->fraction;

	if (port->idle_at < now)
		port->idle_at = now;
	port->idle_at += time >> WEIR_FORWARDER_PACE_SHIFT;
	port->fraction = (u32)time & ((1U << WEIR_FORWARDER_PACE_SHIFT) - 1);
}

/*
 * Adds a packet that no grant covers to the queue of the model, up to 2 * C_0: there nothing is granted, and packets
 * beyond it do not pass the port's real queue either. Grants bound the data that they cover.
 */
static __always_inline void enqueue_beside(struct weir_forwarder_port *port, const struct weir_forwarder_rules *rules,
					   u32 bytes, u64 now)
{
	u64 most = 2000ULL * weir_credit_longest(&rules->credit);

	if (port->idle_at < now + most)
		enqueue(port, rules, bytes, now);
}

/* Adds a packet that needs no credits to the queue of the model. */
static __always_inline void enqueue_other(const struct weir_forwarder_rules *rules, u32 bytes, u64 now)
{
	u32 zero = 0;
	struct weir_forwarder_port *port = bpf_map_lookup_elem(&weir_fwd_port, &zero);

	if (!port)
		return;
	bpf_spin_lock(&port->lock);
	enqueue_beside(port, rules, bytes, now);
	bpf_spin_unlock(&port->lock);
}

/* Q in bytes, rounded up to a microsecond of the port. */
static __always_inline u32 queued(const struct weir_forwarder_port *port, const struct weir_forwarder_rules *rules,
				  u64 now)
{
	u64 wait = port->idle_at > now ? (port->idle_at - now + 999) / 1000 : 0;

	return (u32)weir_credit_capacity(&rules->credit, wait < WEIR_U32_MAX ? (u32)wait : WEIR_U32_MAX);
}

/* Whether a flow's data has left by the port a short time ago. */
static __always_inline int leaves_here(const struct weir_forwarder_flow *flow, const struct weir_forwarder_rules *rules,
				       u64 now)
{
	u64 left_at = flow->left_at;

	return now <= left_at || now - left_at <= rules->memory;
}

/* An allocation with this clock crosses the port. */
static __always_inline void note_clock(struct weir_forwarder_flow *flow, u32 clock)
{
	if (flow->seen && !weir_credit_is_later(clock, flow->seen))
		return;
	if (clock != flow->seen + 1)
		flow->unbroken = clock;
	flow->seen = clock;
}

/*
 * A request has set the clocks back: those of an earlier receiver are no evidence of which allocations of the present
 * one have crossed the port.
 */
static __always_inline void reset_clock(struct weir_forwarder_flow *flow, u32 clock)
{
	if (flow->credit.newest != clock || !flow->seen || !weir_credit_is_later(flow->seen, clock))
		return;
	flow->seen = clock;
	flow->unbroken = clock;
}

/* Whether all credits that a sender may use when it returns the allocation with this clock have crossed the port. */
static __always_inline int has_crossed(const struct weir_forwarder_flow *flow, u32 clock)
{
	u32 run = clock - flow->unbroken + 1;

	if (!flow->seen || weir_credit_is_later(clock, flow->seen))
		return 0;
	return !flow->unbroken || (run >= WEIR_FORWARDER_USABLE && run <= WEIR_U32_MAX / 2);
}

/*
 * A flow comes from another port, with data for which that port has granted credits: the values returned and those of
 * one allocation on its way live for three periods, one more, and the wait.
 */
static __always_inline void reroute(struct weir_forwarder_flow *flow, const struct weir_forwarder_rules *rules,
				    const struct weir_returned *returned, u64 now)
{
	u64 most = (u64)WEIR_CREDIT_SLOTS << rules->credit.slot_bits;
	u64 life = ((u64)WEIR_FORWARDER_USABLE * returned->period + returned->queueing) * 1000;

	flow->credit.stage = WEIR_CREDIT_LIVE;
	flow->credit.rerouted_until = now + (life < most ? life : most);
}

/* The weight of a flow, in 1/WEIR_FORWARDER_WEIGHT_SCALE: the service's, divided among its pairs. */
static __always_inline u32 divided(u32 weight, u32 pairs)
{
	/* A message's weight is at most WEIR_CREDIT_WEIGHT_MAX, so the product is below 2^32. */
	u32 fine = weight * WEIR_FORWARDER_WEIGHT_SCALE / (pairs ? pairs : 1);

	return fine ? fine : 1;
}

/* An authentic allocation arrives. Returns whether it is newer than the last; the fields are reduced then. */
static __noinline int allocate(struct work *work, const struct weir_forwarder_rules *rules, u64 now)
{
	struct weir_credit_message *message;
	struct weir_forwarder_flow *flow;
	struct weir_forwarder_port *port;
	u32 zero = 0, weight, *pairs;
	int newer = 1;

	if (!work || !rules)
		return 0;
	message = &work->message;
	pairs = bpf_map_lookup_elem(&weir_fwd_numbers, &work->key.service);
	weight = message->fields.weight;
	port = bpf_map_lookup_elem(&weir_fwd_port, &zero);
	flow = bpf_map_lookup_elem(&weir_fwd_flows, &work->key);
	if (!port)
		return 0;
	bpf_spin_lock(&port->lock);
	if (!flow) {
		weir_credit_astray(&port->port, &message->fields);
	} else if (!is_newer(message, &flow->to_source)) {
		newer = 0;
	} else if (!leaves_here(flow, rules, now)) {
		note_order(message, &flow->to_source);
		note_clock(flow, message->fields.clock);
		weir_credit_astray(&port->port, &message->fields);
	} else {
		note_order(message, &flow->to_source);
		note_clock(flow, message->fields.clock);
		if (weir_credit_is_new(&flow->credit, &message->fields)) {
			flow->arrived = message->fields;
			flow->arrived_at = now;
		}
		message->fields.weight = divided(weight, pairs ? *pairs : 1);
		weir_credit_advance(&port->port, &rules->credit, now);
		weir_credit_allocate(&port->port, &rules->credit, &flow->credit, &message->fields, now,
				     queued(port, rules, now));
		message->fields.weight = weight;
	}
	bpf_spin_unlock(&port->lock);
	return newer;
}

/* Tags the reduced allocation and writes it into the packet. */
static __noinline int rewrite(struct __sk_buff *skb, const struct weir_forwarder_config *config, struct work *work,
			      const struct weir_packet *packet)
{
	struct weir_key *key;
	u32 index;

	if (!config || !work || !packet)
		return -1;
	index = config->signing_key & (WEIR_KEYS - 1);
	key = bpf_map_lookup_elem(&weir_fwd_keys, &index);
	if (!key || !key->known)
		return -1;
	weir_credit_message_rewrite(work->body, &work->message.fields, key->id, packet->source, packet->destination,
				    &key->sip);
	return (int)bpf_skb_store_bytes(skb, packet->header_bytes, work->body, WEIR_CREDIT_MESSAGE_BYTES, 0);
}

SEC("classifier")
int weir_forward_rx(struct __sk_buff *skb)
{
	struct weir_packet packet = {};
	u32 zero = 0, kind;
	struct weir_forwarder_config *config = bpf_map_lookup_elem(&weir_fwd_config, &zero);
	struct weir_forwarder_rules *rules;
	struct work *work;

	if (!config || config->layout != WEIR_FORWARDER_LAYOUT)
		return NEXT;
	if (weir_parse(skb, &packet) != WEIR_PARSED || !is_message(&packet))
		return NEXT;
	rules = rules_of(config);
	work = bpf_map_lookup_elem(&weir_fwd_work, &zero);
	if (!rules || !work)
		return DROP;
	kind = read_message(skb, work, &packet);
	if (kind == WEIR_CREDIT_REQUEST || kind == WEIR_CREDIT_RETURN || kind == WEIR_CREDIT_TERMINATION)
		return NEXT;
	if (kind != WEIR_CREDIT_ALLOCATION)
		return refuse(kind);
	if (!admit(work, &packet))
		return DROP;
	/* Allocations go against the data. */
	work->key.source[0] = packet.destination[0];
	work->key.source[1] = packet.destination[1];
	work->key.destination[0] = packet.source[0];
	work->key.destination[1] = packet.source[1];
	work->key.service = work->message.service;
	if (!allocate(work, rules, bpf_ktime_get_ns())) {
		count_event(replayed);
		return DROP;
	}
	if (rewrite(skb, config, work, &packet)) {
		count_event(failed);
		return DROP;
	}
	count_event(messages);
	return NEXT;
}

/* Reads the last message of a host's forgotten flows. */
static __always_inline void last_of(const u64 *address, struct weir_forwarder_order *order)
{
	struct weir_forwarder_host host = {};
	struct weir_forwarder_order *last;

	host.address[0] = address[0];
	host.address[1] = address[1];
	last = bpf_map_lookup_elem(&weir_fwd_hosts, &host);
	order->epoch = last ? last->epoch : 0;
	order->sequence = last ? last->sequence : 0;
}

/* Prepares the entry of a flow that has none. Returns whether its message is newer than those of forgotten flows. */
static __always_inline int prepare(struct work *work)
{
	last_of(work->key.source, &work->fresh.to_destination);
	last_of(work->key.destination, &work->fresh.to_source);
	return is_newer(&work->message, &work->fresh.to_destination);
}

/* Makes the entry that is prepared. */
static __always_inline struct weir_forwarder_flow *make_entry(struct work *work)
{
	/* Another CPU may make it at the same moment. */
	bpf_map_update_elem(&weir_fwd_flows, &work->key, &work->fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&weir_fwd_flows, &work->key);
}

/* An authentic request, return or termination leaves by the port. Returns whether it is newer than the last. */
static __noinline int leave(struct work *work, const struct weir_forwarder_rules *rules, u64 now)
{
	struct weir_credit_message *message;
	struct weir_forwarder_flow *flow;
	struct weir_forwarder_port *port;
	struct weir_returned returned;
	u32 zero = 0;
	int newer;

	if (!work || !rules)
		return 0;
	message = &work->message;
	port = bpf_map_lookup_elem(&weir_fwd_port, &zero);
	flow = bpf_map_lookup_elem(&weir_fwd_flows, &work->key);
	if (!port)
		return 0;
	if (!flow) {
		if (!prepare(work))
			return 0;
		flow = make_entry(work);
	}
	if (!flow) {
		count_event(flows_full);
		return 1;
	}
	returned.clock = message->fields.clock;
	returned.period = message->fields.period;
	returned.longest = message->fields.longest;
	returned.potential = message->fields.potential;
	returned.allocation = message->fields.allocation;
	returned.queueing = message->fields.queueing;
	bpf_spin_lock(&port->lock);
	newer = is_newer(message, &flow->to_destination);
	if (newer) {
		weir_credit_advance(&port->port, &rules->credit, now);
		if (message->kind == WEIR_CREDIT_RETURN) {
			if (flow->credit.stage == WEIR_CREDIT_UNSEEN ||
			    (flow->credit.stage == WEIR_CREDIT_LIVE && !leaves_here(flow, rules, now) &&
			     !has_crossed(flow, returned.clock)))
				reroute(flow, rules, &returned, now);
			weir_credit_return(&port->port, &rules->credit, &flow->credit, &returned);
		} else if (message->kind == WEIR_CREDIT_TERMINATION) {
			weir_credit_terminate(&port->port, &flow->credit);
		} else {
			weir_credit_request(&port->port, &flow->credit, message->fields.clock);
			reset_clock(flow, message->fields.clock);
		}
		flow->left_at = now;
		note_order(message, &flow->to_destination);
	}
	bpf_spin_unlock(&port->lock);
	return newer;
}

/* A datagram to the port of credits leaves by the port. */
static __noinline int leaving_message(struct __sk_buff *skb, const struct weir_forwarder_rules *rules,
				      const struct weir_packet *packet)
{
	u32 zero = 0, kind;
	struct work *work = bpf_map_lookup_elem(&weir_fwd_work, &zero);

	if (!work || !packet || !rules)
		return DROP;
	kind = read_message(skb, work, packet);
	if (kind == WEIR_CREDIT_ALLOCATION) {
		enqueue_other(rules, skb->wire_len, bpf_ktime_get_ns());
		return NEXT;
	}
	if (kind != WEIR_CREDIT_REQUEST && kind != WEIR_CREDIT_RETURN && kind != WEIR_CREDIT_TERMINATION)
		return refuse(kind);
	if (!admit(work, packet))
		return DROP;
	work->key.source[0] = packet->source[0];
	work->key.source[1] = packet->source[1];
	work->key.destination[0] = packet->destination[0];
	work->key.destination[1] = packet->destination[1];
	work->key.service = work->message.service;
	if (!bpf_map_lookup_elem(&weir_fwd_numbers, &work->key.service)) {
		count_event(unknown);
		return DROP;
	}
	if (!leave(work, rules, bpf_ktime_get_ns())) {
		count_event(replayed);
		return DROP;
	}
	enqueue_other(rules, skb->wire_len, bpf_ktime_get_ns());
	count_event(messages);
	return NEXT;
}

/* A packet of data of a service with credits leaves. Returns whether it is dropped. */
static __always_inline int data(const struct weir_forwarder_rules *rules, const struct weir_forwarder_key *key,
				u32 bytes, u64 now)
{
	u32 zero = 0;
	struct weir_forwarder_flow *flow = bpf_map_lookup_elem(&weir_fwd_flows, key);
	struct weir_forwarder_port *port = bpf_map_lookup_elem(&weir_fwd_port, &zero);
	u64 arrived;
	int dropped;

	if (!port)
		return 0;
	bpf_spin_lock(&port->lock);
	weir_credit_advance(&port->port, &rules->credit, now);
	arrived = port->port.counters.arrived;
	if (flow) {
		dropped = weir_credit_data(&port->port, &rules->credit, &flow->credit, bytes, now);
		flow->left_at = now;
	} else {
		dropped = weir_credit_unknown(&port->port, &rules->credit, bytes, now);
	}
	/* `arrived` counts bytes that grants cover. */
	if (port->port.counters.arrived - arrived == bytes)
		enqueue(port, rules, bytes, now);
	else if (!dropped)
		enqueue_beside(port, rules, bytes, now);
	bpf_spin_unlock(&port->lock);
	return dropped;
}

SEC("classifier")
int weir_forward_tx(struct __sk_buff *skb)
{
	struct weir_packet packet = {};
	struct weir_forwarder_key key = {};
	u32 zero = 0;
	struct weir_forwarder_config *config = bpf_map_lookup_elem(&weir_fwd_config, &zero);
	struct weir_forwarder_rules *rules;

	if (!config || config->layout != WEIR_FORWARDER_LAYOUT)
		return NEXT;
	rules = rules_of(config);
	if (!rules)
		return NEXT;
	if (weir_parse(skb, &packet) == WEIR_PARSED) {
		if (is_message(&packet))
			return leaving_message(skb, rules, &packet);
		key.service = service_of(skb, config, &packet);
	}
	/* Acknowledgements and the like need no credits. */
	if (!key.service || skb->wire_len <= rules->credit.exempt) {
		if (key.service || config->whole)
			enqueue_other(rules, skb->wire_len, bpf_ktime_get_ns());
		return NEXT;
	}
	key.source[0] = packet.source[0];
	key.source[1] = packet.source[1];
	key.destination[0] = packet.destination[0];
	key.destination[1] = packet.destination[1];
	if (data(rules, &key, skb->wire_len, bpf_ktime_get_ns())) {
		count_event(dropped);
		return DROP;
	}
	return NEXT;
}

char LICENSE[] SEC("license") = "GPL";
