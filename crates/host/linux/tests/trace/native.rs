//! The native side: frames are parsed and rewritten here, as the programs in `bpf/` do it, and the stages of
//! `datapath/host/` decide, compiled for this host.
//!
//! What the programs look up in hash tables is looked up here: slots of destinations, ECN senders, neighbours, gates.

use crate::event::{Content, Control, Event, Frame, Kind};
use crate::header::{NETWORK, arrive_ecn, leave_ecn, set_ce, set_dscp};
use crate::setup::{DESTINATIONS, GATES, HARDWARE, SERVICES, SLOTS, Setup};
use crate::side::{NETWORK_BYTES, Outcome, Sent, Side, Snapshot, Verdict};
use std::collections::{HashMap, VecDeque};
use weir_datapath::abi::{
    self, ADVERTISED_SLOTS, Arrived, CREDIT_DATA_DSCP, CREDIT_EXEMPT, CREDIT_MESSAGE_DSCP, CREDITS, DestinationEntry,
    ECN_ACK_TIME, ECN_DECAPSULATE_TIME, Ecn, FEEDBACK_ECN_ACK, HAS_IP, HAS_PORTS, LEVEL_RECEIVED, LEVEL_SENT, Meter,
    NEIGHBOUR_LIFETIME, NEIGHBOUR_REFRESH, NO_DESTINATION, Offered, Packet, REST, RX, RateMailbox, TCP_SYN, TX,
    UNCLASSIFIED,
};
use weir_datapath::{
    Address, Departs, FEEDBACK_BYTES, Feedback, Host, HostTables, PoliceVerdict, header_bytes, segments, wire_bytes,
};
use weir_units::Instant;

/// A sender and a receiver, and the service of their packets.
type Pair = (Address, Address, u32);

pub(crate) struct Native {
    host: Host,
    setup: Setup,
    /// ns, as in the maps.
    now: u64,
    slots: HashMap<(Address, u32), u32>,
    free: VecDeque<u32>,
    /// The last ECN capability message of a sender: its time, epoch and sequence.
    senders: HashMap<Pair, (u64, u64, u64)>,
    neighbours: HashMap<Address, u64>,
    /// Their gates.
    pairs: HashMap<Pair, u32>,
    gates: VecDeque<u32>,
    /// Sent and received, of each slot of [`SLOTS`].
    meters: Vec<Meter>,
}

impl Native {
    pub(crate) fn new(setup: &Setup) -> Self {
        Self {
            host: Host { tables: tables(setup) },
            setup: setup.clone(),
            now: 0,
            slots: HashMap::new(),
            free: (0..DESTINATIONS).collect(),
            senders: HashMap::new(),
            neighbours: HashMap::new(),
            pairs: HashMap::new(),
            gates: (0..GATES).collect(),
            meters: vec![Meter::default(); SLOTS.len() * 2],
        }
    }

    fn clock(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    fn paces(&self) -> bool {
        self.setup.config.paces != 0
    }

    fn meter(&mut self, service: u32, direction: u32, bytes: u64, packets: u32) {
        let index = SLOTS.iter().position(|slot| *slot == service).unwrap_or(SLOTS.len() - 1);
        let meter = &mut self.meters[index * 2 + direction as usize];
        meter.bytes += bytes;
        meter.packets += u64::from(packets);
    }

    fn tick_time(&self) -> u64 {
        self.host.tables.states[0].due.saturating_sub(self.setup.config.tick)
    }

    /// The packet of a frame, and its service.
    fn parse(&self, frame: &Frame) -> (Packet, u32) {
        let packet = self.setup.classifier.packet(&frame.bytes).unwrap_or_default();
        let service = self.setup.classifier.classify_packet(&packet);
        (packet, service.map_or(UNCLASSIFIED, |service| service.0))
    }

    /// The DSCP values that packets must not claim.
    fn claimable(&self) -> u64 {
        let config = &self.setup.config;
        let of_credits = 1u64 << CREDIT_DATA_DSCP | 1u64 << CREDIT_MESSAGE_DSCP;
        config.level_dscps | config.tenant_dscps | if config.class_credit != 0 { of_credits } else { 0 }
    }

    fn marks(&self, service: u32) -> u32 {
        self.setup.marks.get(service as usize).copied().unwrap_or(0)
    }

    fn leaves(&mut self, frame: &Frame) -> Outcome {
        let (packet, service) = self.parse(frame);
        let is_ip = packet.has & HAS_IP != 0;
        if is_control(&packet) {
            self.host.tables.counts[0].spoofed += 1;
            return dropped();
        }
        let mut bytes = frame.bytes.clone();
        let segments = segments(bytes.len() as u32, packet.header_bytes, frame.gso_size, frame.gso_segs);
        self.meter(service, TX, frame.wire_len.into(), segments);
        if is_ip {
            self.note_neighbour(frame, &packet);
        }
        let marks = self.marks(service);
        let level = marks & LEVEL_SENT;
        if level != 0 {
            return self.send_on_level(bytes, &packet, (level, service), (frame.wire_len, segments));
        }
        self.mark_beside_levels(&mut bytes, &packet, segments);
        if marks & CREDITS != 0 && !self.paces() && is_ip {
            return self.wait_for_credits(bytes, &packet, service, frame.wire_len);
        }
        let known = self.slots.get(&(packet.destination, service)).filter(|_| service < SERVICES && is_ip);
        let destination = known.copied().unwrap_or(NO_DESTINATION);
        let offered = Offered { service, bytes: frame.wire_len, segments, destination, ..Offered::default() };
        let sent = self.host.send(self.clock(), &offered);
        let does = |towards| sent.towards & towards != 0;
        if does(abi::TOWARDS_ECN) && (does(abi::TOWARDS_ENCAPSULATED) || packet.ecn != 0) {
            leave_ecn(&mut bytes, segments, does(abi::TOWARDS_REQUESTS));
        }
        let class = match does(abi::TOWARDS_LIMITED) {
            true => self.host.tables.rate_mailboxes[destination as usize].class,
            false => 0,
        };
        match sent.departs {
            Departs::Never => dropped(),
            Departs::At(time) => passed(&bytes, time.nanos(), 0),
            Departs::Now if self.paces() => passed(&bytes, 0, 0),
            Departs::Now => passed(&bytes, 0, self.class(service, class)),
        }
    }

    fn note_neighbour(&mut self, frame: &Frame, packet: &Packet) {
        if frame.bytes[6..12] == HARDWARE {
            return;
        }
        let coarse = self.tick_time();
        let seen = self.neighbours.get(&packet.source);
        if seen.is_none_or(|seen| coarse >= *seen && coarse - seen >= NEIGHBOUR_REFRESH.into()) {
            self.neighbours.insert(packet.source, self.now);
        }
    }

    fn is_neighbour(&self, packet: &Packet) -> bool {
        let seen = self.neighbours.get(&packet.destination);
        seen.is_some_and(|seen| self.now < *seen || self.now - seen < NEIGHBOUR_LIFETIME)
    }

    fn send_on_level(
        &mut self,
        mut bytes: Vec<u8>,
        packet: &Packet,
        (level, service): (u32, u32),
        (wire_len, segments): (u32, u32),
    ) -> Outcome {
        let offered = Offered { service, bytes: wire_len, segments, level, ..Offered::default() };
        if self.host.send(self.clock(), &offered).departs == Departs::Never {
            return dropped();
        }
        let index = level - 1;
        if packet.has & HAS_IP != 0 {
            set_dscp(&mut bytes, self.host.tables.level_rules[index as usize].dscp as u8);
        }
        passed(&bytes, 0, self.setup.config.class_level + index)
    }

    fn mark_beside_levels(&mut self, bytes: &mut [u8], packet: &Packet, segments: u32) {
        let most = self.setup.config.level_segments;
        let dscp = packet.dscp;
        let claims = self.claimable() >> (dscp & 0x3f) & 1 != 0;
        let tables = &mut self.host.tables;
        tables.counts[0].long_buffers += u64::from(segments > most);
        if packet.has & HAS_IP == 0 || !claims {
            return;
        }
        match tables.level_rules[0].dscp == u32::from(dscp) {
            true => tables.level_states[0].remarked += u64::from(segments),
            false => tables.counts[0].tags_claimed += 1,
        }
        set_dscp(bytes, 0);
    }

    /// The class of a service's packet (htb).
    fn class(&self, service: u32, other: u32) -> u32 {
        let config = &self.setup.config;
        let fallback = self.host.tables.states[0].fallback != 0;
        let minor = match service < SERVICES {
            true if fallback => config.class_static + service,
            true if other != 0 => other,
            true => config.class_first + service,
            false => config.class_default,
        };
        config.class_major | minor & 0xffff
    }

    fn wait_for_credits(&mut self, bytes: Vec<u8>, packet: &Packet, service: u32, wire_len: u32) -> Outcome {
        let is_small = wire_len <= CREDIT_EXEMPT;
        let fallback = self.host.tables.states[0].fallback != 0;
        if fallback || (is_small && u32::from(packet.tcp_flags) & TCP_SYN == 0) {
            return passed(&bytes, 0, self.class(service, 0));
        }
        let pair = (packet.source, packet.destination, service);
        let gate = self.pairs.get(&pair).copied().or_else(|| {
            let gate = self.gates.pop_front()?;
            self.pairs.insert(pair, gate);
            Some(gate)
        });
        match gate {
            _ if is_small => passed(&bytes, 0, self.class(service, 0)),
            Some(gate) => passed(&bytes, 0, self.class(service, self.setup.config.class_credit + gate)),
            None => {
                self.host.tables.counts[0].credit_gates_full += 1;
                dropped()
            }
        }
    }

    fn arrives(&mut self, frame: &Frame) -> Outcome {
        let (packet, service) = self.parse(frame);
        let headers = match frame.gso_size {
            0 => packet.header_bytes,
            _ => header_bytes(&frame.bytes, &weir_policy::Tunnels::default()).unwrap_or(0),
        };
        let segments = segments(frame.bytes.len() as u32, headers, frame.gso_size, frame.gso_segs);
        let bytes = wire_bytes(frame.bytes.len() as u32, headers, segments).get();
        if is_control(&packet) {
            self.meter(service, RX, bytes, segments);
            self.host.tick(self.clock());
            return self.receive_control(frame, &packet);
        }
        let on_level = self.marks(service) & LEVEL_RECEIVED != 0
            && packet.has & HAS_IP != 0
            && self.setup.config.level_dscps >> packet.dscp & 1 != 0;
        let outcome = self.receive(frame, &packet, if on_level { UNCLASSIFIED } else { service }, bytes, segments);
        if outcome.verdict == Verdict::Next {
            self.meter(service, RX, bytes, segments);
        }
        outcome
    }

    /// Whether the sender of a packet sent an ECN capability message less than `since` ns before `now`.
    fn is_ecn_sender(&self, packet: &Packet, service: u32, now: u64, since: u64) -> bool {
        let last = self.senders.get(&(packet.source, packet.destination, service));
        last.is_some_and(|(at, ..)| now < *at || now - at < since)
    }

    fn receive(&mut self, frame: &Frame, packet: &Packet, service: u32, bytes: u64, segments: u32) -> Outcome {
        let slot = if service < SERVICES { service } else { REST };
        let mut after = frame.bytes.clone();
        let follows = self.is_ecn_sender(packet, slot, self.tick_time(), ECN_DECAPSULATE_TIME.into());
        let mut ecn = Ecn { capable: (packet.ecn != 0).into(), marked: (packet.ecn == 3).into(), ..Ecn::default() };
        if ecn.capable != 0 && service < SERVICES && follows {
            let found = arrive_ecn(&mut after);
            if found.encapsulated {
                ecn.encapsulated = 1;
                ecn.requests_feedback = found.requests_feedback.into();
            }
        }
        let arrived = Arrived {
            source: packet.source,
            destination: packet.destination,
            ecn,
            service,
            bytes: bytes as u32,
            segments,
            follows: follows.into(),
            ect: (packet.ecn != 0).into(),
            elsewhere: (frame.bytes[..6] != HARDWARE && !self.is_neighbour(packet)).into(),
            ..Arrived::default()
        };
        let (verdict, rate) = self.host.receive(self.clock(), &arrived);
        if verdict == PoliceVerdict::Mark {
            set_ce(&mut after);
        }
        // A dropped packet can be due feedback, too.
        let mut outcome = if verdict == PoliceVerdict::Drop { dropped() } else { passed(&after, 0, 0) };
        outcome.sent = rate.map(|rate| self.advertise(packet, slot, rate.bps()));
        outcome
    }

    /// Feedback to the sender of a packet.
    fn advertise(&mut self, packet: &Packet, slot: u32, rate: u64) -> Sent {
        let acknowledges = self.is_ecn_sender(packet, slot, self.now, ECN_ACK_TIME.into());
        let content = abi::Feedback {
            rate,
            epoch: self.setup.config.epoch,
            sequence: self.now,
            service: self.host.tables.services[slot as usize].name[0],
            vni: packet.vni,
            key: self.setup.key.id,
            source_port: packet.source_port,
            destination_port: packet.destination_port,
            protocol: packet.protocol,
            dscp: packet.dscp,
            has: packet.has | if acknowledges { FEEDBACK_ECN_ACK } else { 0 },
            reserved: [0; 7],
        };
        self.send(false, packet, content)
    }

    /// A control message to the source of a packet.
    fn send(&mut self, is_ecn_capability: bool, packet: &Packet, content: abi::Feedback) -> Sent {
        let headers = if packet.family == 4 { 28 } else { 48 };
        self.meter(UNCLASSIFIED, TX, (NETWORK + headers + FEEDBACK_BYTES) as u64, 1);
        Sent { is_ecn_capability, to: packet.source, content }
    }

    fn receive_control(&mut self, frame: &Frame, packet: &Packet) -> Outcome {
        let counts = &mut self.host.tables.counts[0];
        let Some(content) = frame.message else {
            counts.foreign += 1;
            return dropped();
        };
        if frame.content == Content::Forged {
            counts.feedback_forged += 1;
            return dropped();
        }
        let subject = Feedback(content).subject(packet);
        let service = self.setup.classifier.classify_packet(&subject).map_or(UNCLASSIFIED, |service| service.0);
        match frame.content {
            Content::EcnCapability => self.receive_ecn_capability(&content, packet, service),
            _ if self.apply_feedback(&content, packet, service) => {
                let (epoch, key) = (self.setup.config.epoch, self.setup.key.id);
                let content = abi::Feedback { rate: 0, epoch, sequence: self.now, key, ..content };
                return Outcome { sent: Some(self.send(true, packet, content)), ..dropped() };
            }
            _ => {}
        }
        dropped()
    }

    fn receive_ecn_capability(&mut self, message: &abi::Feedback, packet: &Packet, service: u32) {
        if service >= SERVICES {
            return;
        }
        let sender = (packet.source, packet.destination, service);
        let last = self.senders.get(&sender).map(|(_, epoch, sequence)| (*epoch, *sequence));
        if last.is_some_and(|last| !Feedback(*message).is_newer(last)) {
            self.host.tables.counts[0].feedback_replayed += 1;
            return;
        }
        self.senders.insert(sender, (self.now, message.epoch, message.sequence));
    }

    /// Whether the receiver is due an ECN capability message.
    fn apply_feedback(&mut self, feedback: &abi::Feedback, packet: &Packet, service: u32) -> bool {
        let known = service < SERVICES;
        let slot = known.then(|| self.destination_slot(packet.source, service)).flatten().unwrap_or(NO_DESTINATION);
        let applied = self.host.feedback(self.clock(), feedback, service, slot);
        if applied & abi::APPLIED_CHANGED != 0 && !self.paces() {
            self.host.tables.rate_mailboxes[slot as usize].unread = 1;
        }
        applied & abi::APPLIED_CAPABILITY_DUE != 0
    }

    fn destination_slot(&mut self, address: Address, service: u32) -> Option<u32> {
        if let Some(slot) = self.slots.get(&(address, service)) {
            return Some(*slot);
        }
        let slot = self.free.pop_front()?;
        let key = abi::DestinationKey { address, service, reserved: 0 };
        self.host.tables.destinations[slot as usize] = DestinationEntry { key, ..DestinationEntry::default() };
        self.slots.insert((address, service), slot);
        Some(slot)
    }

    fn control(&mut self, control: &Control) {
        let now = self.now;
        let tables = &mut self.host.tables;
        match control {
            Control::Heartbeat => tables.heartbeat[0] = now,
            Control::Service { slot, service } => tables.services[*slot as usize] = *service,
            Control::Sending { slot, sending } => tables.sendings[*slot as usize] = *sending,
            Control::Interface { side, interface } => tables.interfaces[*side as usize] = *interface,
            Control::Level(rules) => tables.level_rules[0] = *rules,
            Control::Free(key) => {
                let Some(slot) = self.slots.remove(&(key.address, key.service)) else { return };
                tables.destinations[slot as usize] = DestinationEntry::default();
                let mailbox = &mut tables.rate_mailboxes[slot as usize];
                *mailbox = RateMailbox { class: mailbox.class, ..RateMailbox::default() };
                self.free.push_back(slot);
            }
            Control::Class { destination, class } => {
                let Some(slot) = self.slots.get(&(destination.address, destination.service)) else { return };
                let mailbox = &mut tables.rate_mailboxes[*slot as usize];
                let rate = if *class == 0 { 0 } else { mailbox.rate };
                *mailbox = RateMailbox { class: *class, rate, unread: 0, ..*mailbox };
            }
            // The next packet of the pair posts an event, and has the same gate.
            Control::Idle { .. } => {}
        }
    }
}

impl Side for Native {
    fn apply(&mut self, event: &Event) -> Outcome {
        self.now = event.at;
        match &event.kind {
            Kind::Leaves(frame) => self.leaves(frame),
            Kind::Arrives(frame) => self.arrives(frame),
            Kind::Tick => {
                let next = self.host.timer(self.clock()).nanos();
                Outcome { next: u32::try_from(next).expect("less than four seconds"), ..Outcome::default() }
            }
            Kind::Control(control) => {
                self.control(control);
                Outcome::default()
            }
        }
    }

    fn state(&self) -> Snapshot {
        let tables = &self.host.tables;
        Snapshot {
            state: tables.states[0],
            receivers: of_services(&tables.receivers),
            counting: of_services(&tables.counting),
            service_egresses: of_services(&tables.service_egresses),
            interface_egress: tables.interface_egresses[0],
            batches: of_services(&tables.cpu_batches),
            destinations: tables.destinations.clone(),
            mailboxes: tables.rate_mailboxes.clone(),
            level: tables.level_states[0],
            counts: tables.counts[0],
            active: tables.active[0],
            advertised: tables.advertised.clone(),
            drops: of_services(&tables.drops),
            meters: self.meters.clone(),
        }
    }
}

/// The tables that a trace begins with.
fn tables(setup: &Setup) -> HostTables {
    let slots = REST as usize + 1;
    let mut tables = HostTables {
        config: vec![abi::Config { cpus: 1, ..setup.config }],
        services: setup.services.clone(),
        interfaces: setup.interfaces.to_vec(),
        sendings: vec![abi::Sending::default(); slots],
        pacings: vec![setup.pacing],
        heartbeat: vec![0],
        level_rules: vec![setup.level],
        drops: vec![Meter::default(); slots],
        counting: vec![abi::Counting::default(); slots],
        active: vec![abi::Active::default()],
        advertised: vec![abi::Advertised::default(); ADVERTISED_SLOTS as usize],
        counts: vec![abi::Counts::default()],
        cpu_batches: vec![abi::CpuBatch::default(); slots],
        receivers: vec![abi::Receiver::default(); slots],
        states: vec![abi::State::default()],
        service_egresses: vec![abi::ServiceEgress::default(); slots],
        interface_egresses: vec![abi::InterfaceEgress::default()],
        level_states: vec![abi::LevelState::default()],
        destinations: vec![DestinationEntry::default(); DESTINATIONS as usize],
        rate_mailboxes: vec![RateMailbox::default(); DESTINATIONS as usize],
    };
    for (slot, sending) in SLOTS.iter().zip(&setup.sendings) {
        tables.sendings[*slot as usize] = *sending;
    }
    tables
}

fn of_services<T: Copy>(table: &[T]) -> Vec<T> {
    SLOTS.iter().map(|slot| table[*slot as usize]).collect()
}

fn is_control(packet: &Packet) -> bool {
    const UDP: u8 = 17;
    let ports = [packet.source_port, packet.destination_port];
    packet.protocol == UDP && packet.has & HAS_PORTS != 0 && ports.contains(&abi::CONTROL_PORT)
}

fn dropped() -> Outcome {
    Outcome { verdict: Verdict::Drop, ..Outcome::default() }
}

fn passed(bytes: &[u8], departure: u64, priority: u32) -> Outcome {
    let network = &bytes[NETWORK..];
    let network = network[..network.len().min(NETWORK_BYTES)].to_vec();
    Outcome { verdict: Verdict::Next, departure, priority, network, ..Outcome::default() }
}
