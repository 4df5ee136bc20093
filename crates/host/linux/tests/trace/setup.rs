//! The configuration that both sides of a trace begin with, as an agent writes it into the maps.

use crate::common::frames::KEY;
use weir_datapath::abi::{
    self, CREDITS, Config, Interface, LEVEL_RECEIVED, LEVEL_SENT, LevelRules, Pacing, REST, SIDE_RECEIVING,
    SIDE_SENDING, Sending, Service, Table,
};
use weir_datapath::{
    Classifier, InterfaceMeter, LEVEL_QUEUE, PacingConfig, SipKey, destination_rules, level_rules, receive_law,
};
use weir_linux::{htb, service_number};
use weir_policy::{Policy, Share, Sharing};
use weir_shaping::{LevelLimits, ShaperConfig};
use weir_units::{Bandwidth, Bytes, Direction, Duration, Instant, MachineId};

/// Slots of the services, which have the TCP ports from [`FIRST_PORT`] on.
pub(crate) const PLAIN: u32 = 0;
pub(crate) const GUARANTEED: u32 = 1;
/// With a receive limit.
pub(crate) const LIMITED: u32 = 2;
/// On a latency level.
pub(crate) const LEVELLED: u32 = 3;
/// With credits, where the backend is htb.
pub(crate) const CREDITED: u32 = 4;
pub(crate) const SERVICES: u32 = 5;
pub(crate) const FIRST_PORT: u16 = 7000;
/// Slots of destinations and gates of credits: fewer than the trace needs, so that both run out.
pub(crate) const DESTINATIONS: u32 = 24;
pub(crate) const GATES: u32 = 6;
/// The DSCP value of the level.
pub(crate) const LEVEL_DSCP: u8 = 46;
/// Time without a heartbeat until fallback.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(50);
/// The interface's hardware address, in its first six bytes.
pub(crate) const HARDWARE: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// The rate of the interface.
pub(crate) const NIC: Bandwidth = Bandwidth::from_gbps(10);
/// What [`SERVICES`] and unclassified traffic have in maps by service.
pub(crate) const SLOTS: [u32; SERVICES as usize + 1] = [PLAIN, GUARANTEED, LIMITED, LEVELLED, CREDITED, REST];

/// Services have slots in the order of their names.
const POLICY: &str = "\
weir: 1
network:
  nic: 10Gb/s
  racks: { r: { uplink: 10Gb/s, machines: [a, b] } }
services:
  s0: { match: [ { protocol: tcp, port: 7000 } ] }
  s1: { match: [ { protocol: tcp, port: 7001 } ], machine: { min: 2Gb/s } }
  s2: { match: [ { protocol: tcp, port: 7002 } ], machine: { rx: { max: 10Mb/s } } }
  s3: { match: [ { protocol: tcp, port: 7003 } ] }
  s4: { match: [ { protocol: tcp, port: 7004 } ] }
";

/// Values of the maps that user space writes.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) table: Box<Table>,
    /// As [`Setup::table`] has it.
    pub(crate) classifier: Classifier,
    pub(crate) key: abi::Key,
    /// By slot.
    pub(crate) services: Vec<Service>,
    pub(crate) marks: Vec<u32>,
    /// By slot; that of unclassified traffic is the last.
    pub(crate) sendings: Vec<Sending>,
    pub(crate) interfaces: [Interface; 2],
    pub(crate) pacing: Pacing,
    pub(crate) level: LevelRules,
}

impl Setup {
    /// For departure times (`paces`) or HTB classes.
    pub(crate) fn new(paces: bool, cpus: u32) -> Self {
        let policy = Policy::parse("policy.yaml", POLICY).expect("the policy is valid").0;
        let shaper = ShaperConfig::parley(&policy, None, None);
        let classifier = Classifier::of(&policy, Some("eth")).expect("supported");
        let mut table = bytemuck::zeroed_box::<Table>();
        table.index = *classifier.index();
        let pacing = PacingConfig {
            rate: NIC,
            sharing: Sharing::Fill,
            horizon: Duration::from_millis(20),
            queue: Bytes::new(128 * 1514),
            burst: Bytes::new(10 * 1514),
            cpus,
        };
        let shares = sending_shares(&policy, &shaper);
        let mut sendings: Vec<Sending> = shares
            .iter()
            .map(|share| pacing.sending(share, Bandwidth::from_gbps(4), Bandwidth::from_gbps(1)))
            .collect();
        sendings.push(pacing.unclassified());
        let shortest = shaper.services.iter().map(|service| service.interval).min().expect("a service");
        let tick = shortest.min(shaper.parameters.interface.interval).nanos().max(abi::TICK_MIN.into());
        Self {
            config: config(paces, cpus, tick),
            table,
            classifier,
            key: abi::Key { sip: SipKey::new(KEY).raw(), id: 7, known: 1, reserved: 0 },
            services: services(&policy, &shaper),
            marks: vec![0, 0, 0, (LEVEL_SENT & 1) | LEVEL_RECEIVED, if paces { 0 } else { CREDITS }],
            sendings,
            interfaces: interfaces(&shaper, &pacing, &shares),
            pacing: pacing.raw(),
            level: level(Bandwidth::from_mbps(200), None, LEVEL_QUEUE),
        }
    }
}

/// A level's rules with its constant parts.
pub(crate) fn level(rate: Bandwidth, epoch: Option<Duration>, queue: Bytes) -> LevelRules {
    let limits = LevelLimits {
        rate,
        burst: Bytes::new(20_000),
        epoch,
        packet: Bytes::new(1538),
        framing: Bytes::new(24),
        dscp: LEVEL_DSCP,
    };
    LevelRules { cuts: 1, smallest: 60, ..level_rules(&limits, queue) }
}

fn config(paces: bool, cpus: u32, tick: u64) -> Config {
    let [a, b, c, d, e, f] = HARDWARE;
    let major = u32::from(htb::MAJOR) << 16;
    Config {
        class_major: if paces { 0 } else { major },
        class_first: htb::OTHERS_FIRST.into(),
        class_static: if paces { 0 } else { htb::STATIC_FIRST.into() },
        class_default: htb::DEFAULT_MINOR.into(),
        class_control: htb::CONTROL_MINOR.into(),
        enforces: 1,
        sharing: abi::SHARE_FILL,
        cpus,
        paces: paces.into(),
        grain: 4 * 1514 * 10,
        epoch: 3,
        tick,
        timeout: TIMEOUT.nanos(),
        hardware: u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]),
        level_dscps: 1 << LEVEL_DSCP,
        levels: 1,
        class_level: major | u32::from(htb::LEVEL_FIRST),
        level_segments: 40,
        class_credit: if paces { 0 } else { 0x4000 },
        ..Config::default()
    }
}

fn services(policy: &Policy, shaper: &ShaperConfig) -> Vec<Service> {
    let shares = shaper.shares(MachineId(0), Direction::Rx);
    let each = policy.services().leaves().zip(&shaper.services).zip(shares);
    let one = |(((id, service), own), leaf): (((_, &weir_policy::Service), &_), &weir_shaping::LeafShare)| {
        let (parameters, share) = (shaper.of(own), leaf.enforced());
        Service {
            law: receive_law(&parameters),
            rules: destination_rules(&parameters.destination),
            rx_min: share.min.bps(),
            rx_max: if share.max.is_unlimited() { 0 } else { share.max.bps() },
            committed: leaf.committed.bps(),
            feedback_interval: parameters.feedback_interval.nanos(),
            rx_static: 1_000_000_000,
            feedback_bytes: parameters.feedback_bytes.get() as u32,
            rx_weight: share.weight.thousandths(),
            sender_weight: policy.sender_weight(id, MachineId(0)).thousandths(),
            known: 1,
            generation: 1,
            name: [service_number(service.path()), 0, 0, 0],
            ..Service::default()
        }
    };
    each.map(one).collect()
}

fn sending_shares(policy: &Policy, shaper: &ShaperConfig) -> Vec<Share> {
    assert_eq!(policy.services().leaves().count(), SERVICES as usize);
    shaper.shares(MachineId(0), Direction::Tx).map(weir_shaping::LeafShare::enforced).collect()
}

fn interfaces(shaper: &ShaperConfig, pacing: &PacingConfig, shares: &[Share]) -> [Interface; 2] {
    let receiving = InterfaceMeter::of_machine(shaper, MachineId(0), Direction::Rx, Instant::ZERO);
    let receiving = receiving.expect("an interface meter for receiving");
    let sending = pacing.interface_meter(shares, Bytes::new(65_536));
    let mut sides = [Interface::default(); 2];
    for (side, meter) in [(SIDE_RECEIVING, receiving), (SIDE_SENDING, sending)] {
        sides[side as usize] = meter.configuration(1);
    }
    sides
}
