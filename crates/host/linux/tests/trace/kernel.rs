//! The kernel's side: the programs of `bpf/replay.bpf.c`, run on single packets (BPF_PROG_TEST_RUN).

use crate::common::frames::KEY;
use crate::event::{Control, Event, Frame, Kind};
use crate::setup::{DESTINATIONS, GATES, SERVICES, SLOTS, Setup};
use crate::side::{NETWORK_BYTES, Outcome, Sent, Side, Snapshot, Verdict};
use aya::maps::{Array, HashMap, Map, MapData, PerCpuArray, Queue};
use aya::programs::{SchedClassifier, TcAttachType, TestRun, TestRunOptions, tc};
use aya::{Ebpf, EbpfLoader};
use bytemuck::{Pod, TransparentWrapper};
use weir_datapath::abi::{
    self, ADVERTISED_SLOTS, Active, Advertised, Config, Counting, Counts, CpuBatch, CreditPair, CreditQueue,
    DESTINATIONS_MAX, DestinationEntry, DestinationKey, Interface, InterfaceEgress, LevelRules, LevelState, Meter,
    RateMailbox, Receiver, Reply, SERVICES_MAX, Sending, Service, ServiceEgress, State, Table,
};
use weir_datapath::{Feedback, SipKey};
use weir_linux::maps::Value;

pub(crate) static REPLAY: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/replay.bpf.o"));

/// Offsets in the kernel's `struct __sk_buff`, and its size.
const PRIORITY: usize = 32;
const IFINDEX: usize = 40;
const TSTAMP: usize = 152;
const WIRE_LEN: usize = 160;
const GSO_SEGS: usize = 164;
const GSO_SIZE: usize = 176;
const CONTEXT: usize = 192;
/// ns of a jiffy at 250 Hz.
const JIFFY: u64 = 4_000_000;
/// TC_ACT_UNSPEC and TC_ACT_SHOT
const NEXT: u32 = u32::MAX;
const DROP: u32 = 2;

type Values<T> = Array<MapData, Value<T>>;
type CpuValues<T> = PerCpuArray<MapData, Value<T>>;

/// The maps that the test reads, or writes after the begin.
struct Maps {
    clock: Values<[u64; 2]>,
    heartbeat: Values<u64>,
    services: Values<Service>,
    sendings: Values<Sending>,
    interfaces: Values<Interface>,
    level_rules: Values<LevelRules>,
    destination_slots: HashMap<MapData, Value<DestinationKey>, u32>,
    free: Queue<MapData, u32>,
    pairs: HashMap<MapData, Value<CreditPair>, Value<CreditQueue>>,
    mailboxes: Values<RateMailbox>,
    destinations: Values<DestinationEntry>,
    reply: CpuValues<Reply>,
    states: Values<State>,
    receivers: Values<Receiver>,
    counting: CpuValues<Counting>,
    service_egresses: Values<ServiceEgress>,
    interface_egresses: Values<InterfaceEgress>,
    batches: CpuValues<CpuBatch>,
    level_states: Values<LevelState>,
    counts: CpuValues<Counts>,
    active: CpuValues<Active>,
    advertised: CpuValues<Advertised>,
    drops: CpuValues<Meter>,
    meters: CpuValues<Meter>,
}

pub(crate) struct Kernel {
    object: Ebpf,
    maps: Maps,
    cpu: usize,
    device: u32,
    /// The control message that was sent last.
    body: [u64; 7],
    key: SipKey,
}

/// What a service's packet leaves by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Egress {
    pub(crate) batch: CpuBatch,
    /// Without a destination limiter.
    pub(crate) lease: abi::Lease,
    pub(crate) sent: u64,
    /// Whether the batch is to be charged to a destination whose slot another service has now.
    pub(crate) is_reassigned: bool,
}

impl Kernel {
    /// Loads the programs with maps of their own, and attaches that of departing packets to an interface
    /// of this thread's namespace, which runs on `cpu` alone: feedback leaves there.
    pub(crate) fn load(setup: &Setup, interface: &weir_linux::interface::Interface, cpu: usize) -> Self {
        let (paces, reads_sockets) = (setup.config.paces, 0u32);
        let mut loader = EbpfLoader::new();
        loader.override_global("weir_paces", &paces, true);
        loader.override_global("weir_reads_sockets", &reads_sockets, true);
        let mut object = loader.load(REPLAY).expect("the kernel takes the object");
        for name in ["weir_egress", "weir_ingress", "weir_replay_tick"] {
            let program = program(&mut object, name);
            program.load().unwrap_or_else(|error| panic!("the verifier takes {name}: {error:?}"));
        }
        // Kernels without tcx attach to clsact.
        let _ = tc::qdisc_add_clsact(interface.name());
        let egress = program(&mut object, "weir_egress");
        egress.attach(interface.name(), TcAttachType::Egress).expect("the program of departing packets");
        begin(&mut object, setup);
        let maps = Maps::take(&mut object);
        Self { object, maps, cpu, device: interface.index(), body: [0; 7], key: SipKey::new(KEY) }
    }

    fn run(&mut self, name: &'static str, frame: &Frame) -> Outcome {
        let mut context = [0; CONTEXT];
        let mut put = |at: usize, value: u32| context[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        put(IFINDEX, self.device);
        put(WIRE_LEN, frame.wire_len);
        put(GSO_SEGS, frame.gso_segs);
        put(GSO_SIZE, frame.gso_size);
        let (mut after, mut out) = ([0; CONTEXT], vec![0; frame.bytes.len()]);
        let options = TestRunOptions {
            data_in: Some(&frame.bytes),
            data_out: Some(&mut out),
            ctx_in: Some(&context),
            ctx_out: Some(&mut after),
            ..TestRunOptions::new()
        };
        let result = program(&mut self.object, name).test_run(options);
        let result = result.unwrap_or_else(|error| panic!("{error:?} on {frame:?}"));
        let verdict = match result.return_value {
            NEXT => Verdict::Next,
            DROP => return Outcome { verdict: Verdict::Drop, ..Outcome::default() },
            other => panic!("{name} returns {other} on {frame:?}"),
        };
        let network = &out[14..];
        Outcome {
            verdict,
            departure: u64::from_ne_bytes(after[TSTAMP..TSTAMP + 8].try_into().expect("eight bytes")),
            priority: u32::from_ne_bytes(after[PRIORITY..PRIORITY + 4].try_into().expect("four bytes")),
            network: network[..network.len().min(NETWORK_BYTES)].to_vec(),
            ..Outcome::default()
        }
    }

    /// The control message that left because of a packet that arrived.
    fn sent(&mut self, arrived: &Frame) -> Option<Sent> {
        let reply = self.maps.reply.get(&0, 0).expect("a reply")[self.cpu].0;
        assert_eq!(reply.stage, 0, "a reply is under way after a run");
        // Each message has another sequence number.
        if reply.body == self.body {
            return None;
        }
        self.body = reply.body;
        let (from, to) = arrived.ends().map(|(source, destination)| (destination, source))?;
        let (body, content): (&[u8], _) = (bytemuck::cast_slice(&reply.body), Feedback(reply.feedback));
        let is_ecn_capability = body == content.ecn_capability(&from, &to, &self.key);
        assert!(is_ecn_capability || body == content.body(&from, &to, &self.key), "{content:?} has another tag");
        Some(Sent { is_ecn_capability, to, content: content.0 })
    }

    fn control(&mut self, control: &Control, now: u64) {
        let maps = &mut self.maps;
        match control {
            Control::Heartbeat => set(&mut maps.heartbeat, 0, &now),
            Control::Service { slot, service } => set(&mut maps.services, *slot, service),
            Control::Sending { slot, sending } => set(&mut maps.sendings, *slot, sending),
            Control::Interface { side, interface } => set(&mut maps.interfaces, *side, interface),
            Control::Level(rules) => set(&mut maps.level_rules, 0, rules),
            Control::Free(key) => {
                let Ok(slot) = maps.destination_slots.get(&Value(*key), 0) else { return };
                maps.destination_slots.remove(&Value(*key)).expect("it was there");
                set(&mut maps.destinations, slot, &DestinationEntry::default());
                let there = maps.mailboxes.get(&slot, 0).expect("a mailbox").0;
                set(&mut maps.mailboxes, slot, &RateMailbox { class: there.class, ..RateMailbox::default() });
                maps.free.push(slot, 0).expect("the slot was in use");
            }
            Control::Class { destination, class } => {
                let Ok(slot) = maps.destination_slots.get(&Value(*destination), 0) else { return };
                let there = maps.mailboxes.get(&slot, 0).expect("a mailbox").0;
                // Any rate differs from 0, so the next feedback posts an event.
                let rate = if *class == 0 { 0 } else { there.rate };
                set(&mut maps.mailboxes, slot, &RateMailbox { class: *class, rate, unread: 0, ..there });
            }
            Control::Idle { source, destination, service } => {
                let pair = CreditPair { source: *source, destination: *destination, service: *service, reserved: 0 };
                let Ok(Value(queue)) = maps.pairs.get(&Value(pair), 0) else { return };
                maps.pairs.insert(Value(pair), Value(CreditQueue { idle: 1, ..queue }), 0).expect("it was there");
            }
        }
    }

    /// Whether the static policy is in force.
    pub(crate) fn is_in_fallback(&self) -> bool {
        self.maps.states.get(&0, 0).expect("a state").0.fallback != 0
    }

    /// By slot.
    pub(crate) fn egress(&self, slot: u32) -> Egress {
        let maps = &self.maps;
        let batch = maps.batches.get(&slot, 0).expect("a batch")[self.cpu].0;
        let lease = maps.service_egresses.get(&slot, 0).expect("a service").0.sender.lease;
        let sent = maps.interface_egresses.get(&0, 0).expect("an interface").0.machine.sent;
        let is_reassigned = batch.unpaid > 0 && batch.slot < DESTINATIONS && {
            let key = maps.destinations.get(&batch.slot, 0).expect("a destination").0.key;
            key.address != [0; 2] && key.service != slot
        };
        Egress { batch, lease, sent, is_reassigned }
    }

    /// When feedback of a service was last due.
    pub(crate) fn feedback_due_at(&self, slot: u32) -> u64 {
        self.maps.counting.get(&slot, 0).expect("counters")[self.cpu].0.sampler.sent_at
    }

    /// Asserts that no service and no destination beyond those of a snapshot has a state.
    pub(crate) fn assert_others_are_unused(&self) {
        let maps = &self.maps;
        for slot in SERVICES..SERVICES_MAX {
            assert_eq!(maps.receivers.get(&slot, 0).expect("a receiver").0, Receiver::default(), "slot {slot}");
            let egress = maps.service_egresses.get(&slot, 0).expect("a service").0;
            assert_eq!(egress, ServiceEgress::default(), "slot {slot}");
        }
        for slot in DESTINATIONS..DESTINATIONS_MAX {
            let entry = maps.destinations.get(&slot, 0).expect("a destination").0;
            assert_eq!(entry, DestinationEntry::default(), "destination {slot}");
        }
    }
}

impl Side for Kernel {
    fn apply(&mut self, event: &Event) -> Outcome {
        set(&mut self.maps.clock, 0, &[event.at, event.at / JIFFY]);
        match &event.kind {
            Kind::Leaves(frame) => self.run("weir_egress", frame),
            Kind::Arrives(frame) => {
                let outcome = self.run("weir_ingress", frame);
                // The priority of a packet that arrives is the driver's.
                Outcome { sent: self.sent(frame), priority: 0, ..outcome }
            }
            Kind::Tick => {
                let options = TestRunOptions { data_in: Some(&[0; 64]), ..TestRunOptions::new() };
                let ended = program(&mut self.object, "weir_replay_tick").test_run(options).expect("a tick");
                Outcome { next: ended.return_value, ..Outcome::default() }
            }
            Kind::Control(control) => {
                self.control(control, event.at);
                Outcome::default()
            }
        }
    }

    fn state(&self) -> Snapshot {
        let (maps, cpu) = (&self.maps, self.cpu);
        Snapshot {
            state: of(&maps.states, [0]).remove(0),
            receivers: of(&maps.receivers, SLOTS),
            counting: of_cpu(&maps.counting, SLOTS, cpu),
            service_egresses: of(&maps.service_egresses, SLOTS),
            interface_egress: of(&maps.interface_egresses, [0]).remove(0),
            batches: of_cpu(&maps.batches, SLOTS, cpu),
            destinations: of(&maps.destinations, 0..DESTINATIONS),
            mailboxes: of(&maps.mailboxes, 0..DESTINATIONS),
            level: of(&maps.level_states, [0]).remove(0),
            counts: of_cpu(&maps.counts, [0], cpu).remove(0),
            active: of_cpu(&maps.active, [0], cpu).remove(0),
            advertised: of_cpu(&maps.advertised, 0..ADVERTISED_SLOTS, cpu),
            drops: of_cpu(&maps.drops, SLOTS, cpu),
            meters: of_cpu(&maps.meters, SLOTS.iter().flat_map(|slot| [slot * 2, slot * 2 + 1]), cpu),
        }
    }
}

fn of<T: Pod>(map: &Values<T>, slots: impl IntoIterator<Item = u32>) -> Vec<T> {
    slots.into_iter().map(|slot| map.get(&slot, 0).expect("a value").0).collect()
}

fn of_cpu<T: Pod>(map: &CpuValues<T>, slots: impl IntoIterator<Item = u32>, cpu: usize) -> Vec<T> {
    slots.into_iter().map(|slot| map.get(&slot, 0).expect("a value")[cpu].0).collect()
}

fn set<T: Pod>(map: &mut Values<T>, slot: u32, value: &T) {
    map.set(slot, Value::wrap_ref(value), 0).expect("a value");
}

fn program<'a>(object: &'a mut Ebpf, name: &str) -> &'a mut SchedClassifier {
    object.program_mut(name).expect(name).try_into().expect("a classifier")
}

/// A map of the object, in the type that its name has.
fn map<T: TryFrom<Map, Error: std::fmt::Debug>>(object: &mut Ebpf, name: &str) -> T {
    T::try_from(object.take_map(name).expect(name)).expect(name)
}

impl Maps {
    fn take(object: &mut Ebpf) -> Self {
        Self {
            clock: map(object, "weir_replay_clock"),
            heartbeat: map(object, "weir_heartbeat"),
            services: map(object, "weir_services"),
            sendings: map(object, "weir_sendings"),
            interfaces: map(object, "weir_interfaces"),
            level_rules: map(object, "weir_level_rules"),
            destination_slots: map(object, "weir_destination_slots"),
            free: map(object, "weir_free_slots"),
            pairs: map(object, "weir_credit_pairs"),
            mailboxes: map(object, "weir_rate_mailboxes"),
            destinations: map(object, "weir_destinations"),
            reply: map(object, "weir_reply"),
            states: map(object, "weir_states"),
            receivers: map(object, "weir_receivers"),
            counting: map(object, "weir_counting"),
            service_egresses: map(object, "weir_service_egresses"),
            interface_egresses: map(object, "weir_interface_egresses"),
            batches: map(object, "weir_cpu_batches"),
            level_states: map(object, "weir_level_states"),
            counts: map(object, "weir_counts"),
            active: map(object, "weir_active"),
            advertised: map(object, "weir_advertised"),
            drops: map(object, "weir_drops"),
            meters: map(object, "weir_meters"),
        }
    }
}

/// Writes the configuration.
fn begin(object: &mut Ebpf, setup: &Setup) {
    let mut config: Values<Config> = map(object, "weir_config");
    set(&mut config, 0, &setup.config);
    let mut tables: Values<Table> = map(object, "weir_tables");
    set(&mut tables, 0, &*setup.table);
    let mut keys: Values<abi::Key> = map(object, "weir_keys");
    set(&mut keys, 0, &setup.key);
    let mut pacings: Values<abi::Pacing> = map(object, "weir_pacings");
    set(&mut pacings, 0, &setup.pacing);
    let mut marks: Values<u32> = map(object, "weir_service_marks");
    for (slot, (service, own)) in (0..).zip(setup.services.iter().zip(&setup.marks)) {
        set(&mut marks, slot, own);
        let map = object.map_mut("weir_services").expect("a map");
        let mut services = Array::<_, Value<Service>>::try_from(map).expect("the sizes agree");
        services.set(slot, Value::wrap_ref(service), 0).expect("a service");
    }
    for (slot, sending) in SLOTS.iter().zip(&setup.sendings) {
        let map = object.map_mut("weir_sendings").expect("a map");
        let mut sendings = Array::<_, Value<Sending>>::try_from(map).expect("the sizes agree");
        sendings.set(*slot, Value::wrap_ref(sending), 0).expect("limits");
    }
    for (side, interface) in (0..).zip(&setup.interfaces) {
        let map = object.map_mut("weir_interfaces").expect("a map");
        let mut interfaces = Array::<_, Value<Interface>>::try_from(map).expect("the sizes agree");
        interfaces.set(side, Value::wrap_ref(interface), 0).expect("a side");
    }
    let rules = object.map_mut("weir_level_rules").expect("a map");
    let mut rules = Array::<_, Value<LevelRules>>::try_from(rules).expect("the sizes agree");
    rules.set(0, Value::wrap_ref(&setup.level), 0).expect("rules");
    for (name, count) in [("weir_free_slots", DESTINATIONS), ("weir_credit_gates", GATES)] {
        let map = object.map_mut(name).expect(name);
        let mut queue = Queue::<_, u32>::try_from(map).expect("the sizes agree");
        (0..count).for_each(|slot| queue.push(slot, 0).expect("room"));
    }
}
