//! A sender with Weir that begins beside a flood of strangers at a receive limit, in ticks as the kernel runs them: the
//! time until it has its half of the limit.

use weir_datapath::{InterfaceMeter, PoliceVerdict, Policer, ReceiveMeter, abi};
use weir_policy::{Share, Sharing};
use weir_shaping::ShaperParameters;
use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// A burst of the sender, which segmentation offload makes one packet of.
const BURST: f64 = 65_536.0;
const GRAIN: Bytes = Bytes::new(4 * 65_536);
const PACKET: f64 = 1500.0;

/// A service with a limit at a receiver, and what its senders have ready, in bytes.
struct Receiver {
    now: Instant,
    tick: Duration,
    limit: Bandwidth,
    interface: InterfaceMeter,
    meter: ReceiveMeter,
    policer: Policer,
    own: f64,
    flood: f64,
}

impl Receiver {
    /// At an interface of this rate, whose intervals are scaled as a policy's are.
    fn new(nic: Bandwidth, limit: Bandwidth) -> Self {
        let mut parameters = ShaperParameters::PARLEY;
        let scale = 10_000_000_000 / nic.bps();
        parameters.interval = Duration::from_nanos(parameters.interval.nanos() * scale);
        parameters.interface.interval = Duration::from_nanos(parameters.interface.interval.nanos() * scale);
        let (now, capacity) = (Instant::from_nanos(1_000_000_000), Bandwidth::from_bps(nic.bps() / 100 * 95));
        let interface = InterfaceMeter::new(now, &parameters, capacity, Sharing::Fill, &[Share::default()]);
        let mut meter = ReceiveMeter::new(now, &parameters, Bandwidth::UNLIMITED);
        // From unlimited, R starts at the limit.
        meter.set_capacity(limit);
        let mut policer = Policer::default();
        policer.tick(now, limit, parameters.interval, Bytes::ZERO, Bytes::ZERO);
        Self { now, tick: parameters.interval, limit, interface, meter, policer, own: 0.0, flood: 0.0 }
    }

    /// One tick, in which the sender with Weir sends at R if it does at all. The flood is ten times the limit.
    fn step(&mut self, sends: bool) {
        let bytes = |rate: Bandwidth| rate.bps() as f64 * self.tick.as_secs_f64() / 8.0;
        let mut taken = abi::Taken::default();
        self.own += if sends { bytes(self.meter.rate()) } else { 0.0 };
        self.flood += 10.0 * bytes(self.limit);
        while self.own >= BURST {
            self.own -= BURST;
            taken.bytes += BURST as u64;
        }
        taken.followed_bytes = taken.bytes;
        while self.flood >= PACKET {
            self.flood -= PACKET;
            let dropped = self.policer.police(self.now, Bytes::new(1500), 1, false) == PoliceVerdict::Drop;
            *(if dropped { &mut taken.dropped_bytes } else { &mut taken.stranger_bytes }) += 1500;
        }
        self.now = self.now + self.tick;
        let arrived = taken.bytes + taken.stranger_bytes + taken.dropped_bytes;
        if arrived == 0 {
            return;
        }
        let slack = Duration::from_nanos(self.tick.nanos() / 2);
        self.interface.tick(self.now, Bytes::new(arrived), slack);
        self.meter.set_capacity(self.limit);
        self.meter.set_tick_interval(self.tick, GRAIN);
        let counted = self.policer.tick_taken(self.now, self.limit, self.meter.interval(), &taken);
        self.interface.tick_meter(&mut self.meter, self.now, counted, 1, 0, slack);
    }

    /// What senders with Weir use, as a part of the limit.
    fn followed(&self) -> f64 {
        self.policer.raw().followed as f64 / self.limit.bps() as f64
    }
}

#[test]
fn sender_with_weir_gets_its_half_beside_a_flood() {
    for (nic, mbps, longest) in
        [(10_000, 1000, 0.5), (1000, 200, 1.5), (1000, 20, 10.0), (1000, 5, 40.0), (1000, 1, 80.0)]
    {
        let mut receiver = Receiver::new(Bandwidth::from_mbps(nic), Bandwidth::from_mbps(mbps));
        let steps = |time: f64| (time / receiver.tick.as_secs_f64()) as u64;
        let (before, most) = (steps(2.0), steps(300.0));
        (0..before).for_each(|_| receiver.step(false));
        let seconds = |step: u64, receiver: &Receiver| step as f64 * receiver.tick.as_secs_f64();
        let reaches = |receiver: &mut Receiver, part: f64| {
            let until = (1..=most).find(|_| {
                receiver.step(true);
                receiver.followed() >= part
            });
            seconds(until.expect("it rises"), receiver)
        };
        let fifth = reaches(&mut receiver, 0.2);
        let half = fifth + reaches(&mut receiver, 0.45);
        println!("{mbps} Mb/s of {nic}: 20 % after {fifth:.2} s, 45 % after {half:.2} s");
        assert!(half <= longest, "{mbps} Mb/s: {half} s");
    }
}
