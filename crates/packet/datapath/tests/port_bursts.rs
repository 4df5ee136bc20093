//! Ports of 10 Mb/s to 10 Gb/s that do not mark, where senders release bursts: the time until their rates fit the port
//! after floods began.
//!
//! Segmentation offload sends up to 64 KiB back to back, and GRO passes as much to the programs at once: a quarter of a
//! window of the search. As in the kernel, a packet that arrives when a tick is due runs it (`datapath/host/tick.h`),
//! so a window begins and ends with a burst. While the port is saturated, usage is therefore exactly its rate,
//! whatever the bursts.

use std::collections::VecDeque;
use weir_datapath::{InterfaceMeter, ReceiveMeter};
use weir_policy::{Share, Sharing};
use weir_shaping::ShaperParameters;
use weir_units::{Bandwidth, Bytes, Duration, Instant};

const GRAIN: Bytes = Bytes::new(4 * 65_536);
/// Parts of T in which senders release what they may send.
const STEPS: u64 = 200;

/// Senders of one service, each with the same demand in bit/s.
struct Service {
    share: Share,
    demand: f64,
    meter: ReceiveMeter,
    /// By sender: bytes that are not yet a burst.
    ready: Vec<f64>,
    /// Bytes that arrived since the last tick.
    arrived: u64,
}

struct Port {
    /// ns
    now: u64,
    parameters: ShaperParameters,
    /// bit/s
    link: f64,
    buffer: u64,
    burst: u64,
    interface: InterfaceMeter,
    services: Vec<Service>,
    /// Bursts by service.
    queue: VecDeque<(usize, u64)>,
    waiting: u64,
    /// ns: when the first one begins to be sent, and when a tick is due.
    free: f64,
    due: u64,
}

fn bps(rate: f64) -> Bandwidth {
    Bandwidth::from_bps(rate as u64)
}

impl Port {
    /// A port whose services are idle: by service a guarantee and the number of senders.
    fn new(link: f64, buffer: u64, burst: u64, services: &[(f64, usize)]) -> Self {
        let mut parameters = ShaperParameters::PARLEY;
        // As a policy's intervals are scaled.
        let scaled = |time: Duration| Duration::from_nanos((time.nanos() as f64 * 10e9 / link) as u64);
        parameters.interval = scaled(parameters.interval);
        parameters.interface.interval = scaled(parameters.interface.interval);
        let shares: Vec<Share> = services.iter().map(|(min, _)| Share { min: bps(*min), ..Share::default() }).collect();
        let (start, capacity) = (1_000_000_000, bps(0.95 * link));
        let now = Instant::from_nanos(start);
        let interface = InterfaceMeter::new(now, &parameters, capacity, Sharing::Fill, &shares);
        let service = |(index, share): (usize, &Share)| {
            let mut meter = ReceiveMeter::new(now, &parameters, Bandwidth::UNLIMITED);
            // An idle service has R = C.
            meter.set_share(capacity);
            // Senders of one service do not release their bursts at the same time.
            let phase = |sender: usize| ((index * 7 + sender) as f64 * 0.618_034).fract() * burst as f64;
            let ready = (0..services[index].1).map(phase).collect();
            Service { share: *share, demand: 0.0, meter, ready, arrived: 0 }
        };
        let services = shares.iter().enumerate().map(service).collect();
        let (free, due) = (start as f64, start);
        let queue = VecDeque::new();
        Self { now: start, parameters, link, buffer, burst, interface, services, queue, waiting: 0, free, due }
    }

    /// The bit/s that a sender of a service sends.
    fn rate(service: &Service) -> f64 {
        service.demand.min(service.meter.rate().bps() as f64)
    }

    /// All senders' rates as a part of the port's.
    fn offered(&self) -> f64 {
        self.services.iter().map(|service| service.ready.len() as f64 * Self::rate(service)).sum::<f64>() / self.link
    }

    /// Releases what has become a burst in `time` ns. What the buffer does not hold is dropped.
    fn release(&mut self, time: u64) {
        for (index, service) in self.services.iter_mut().enumerate() {
            let bytes = Self::rate(service) * time as f64 / 8e9;
            for ready in &mut service.ready {
                *ready += bytes;
                while *ready >= self.burst as f64 {
                    *ready -= self.burst as f64;
                    let kept = self.burst.min(self.buffer - self.waiting);
                    if kept > 0 {
                        self.queue.push_back((index, kept));
                        self.waiting += kept;
                    }
                }
            }
        }
    }

    /// A tick, as the kernel runs it.
    fn tick(&mut self, at: u64) {
        let (now, slack) = (Instant::from_nanos(at), Duration::from_nanos(self.parameters.interval.nanos() / 2));
        self.due = (self.due + self.parameters.interval.nanos()).max(at);
        let all: u64 = self.services.iter().map(|service| service.arrived).sum();
        let arrived = |service: &&mut Service| service.arrived > 0;
        for service in self.services.iter_mut().filter(arrived) {
            let (bytes, limit) = (Bytes::new(service.arrived), Bandwidth::UNLIMITED);
            self.interface.reach(&service.meter, now, bytes, &service.share, limit, Sharing::Fill);
        }
        self.interface.tick(now, Bytes::new(all), slack);
        for service in self.services.iter_mut().filter(arrived) {
            service.meter.set_share(self.interface.share(&service.share, Sharing::Fill));
            service.meter.set_tick_interval(self.parameters.interval, GRAIN);
            let bytes = Bytes::new(std::mem::take(&mut service.arrived));
            self.interface.tick_meter(&mut service.meter, now, bytes, 1, 0, slack);
        }
    }

    /// Runs for a number of intervals of the receive meters.
    fn run(&mut self, intervals: u64) {
        let step = self.parameters.interval.nanos() / STEPS;
        for _ in 0..intervals * STEPS {
            if self.queue.is_empty() {
                self.free = self.free.max(self.now as f64);
            }
            self.release(step);
            self.now += step;
            while let Some(&(service, bytes)) = self.queue.front() {
                let sent = self.free + bytes as f64 * 8e9 / self.link;
                if sent > self.now as f64 {
                    break;
                }
                self.free = sent;
                self.queue.pop_front();
                self.waiting -= bytes;
                self.services[service].arrived += bytes;
                if sent as u64 >= self.due {
                    self.tick(sent as u64);
                }
            }
        }
    }

    /// The intervals of the receive meters until the senders' rates fit the port, in the mean of each five of fifty:
    /// with bursts each rate varies from window to window.
    fn intervals_until_rates_fit(&mut self) -> u64 {
        let mut since = 0;
        for five in 1..=300 {
            let mut offered = 0.0;
            for _ in 0..5 {
                self.run(1);
                offered += self.offered() / 5.0;
            }
            if offered > 1.02 {
                since = five;
            }
            if five >= since + 10 {
                return since * 5;
            }
        }
        panic!("{} of the port's rate is offered", self.offered());
    }
}

#[test]
fn bursts_do_not_end_a_search_early() {
    for link in [10e6, 100e6, 1e9, 10e9] {
        // The largest bursts alone would fill the smallest buffer.
        for (buffer, burst) in [
            (64_000, 1500),
            (256_000, 1500),
            (1_000_000, 1500),
            (256_000, 16_384),
            (1_000_000, 16_384),
            (256_000, 65_536),
            (1_000_000, 65_536),
        ] {
            // 40 % of the port beside 16 senders and a flood.
            let mut port = Port::new(link, buffer, burst, &[(0.0, 16), (0.0, 1), (0.4 * link, 1)]);
            port.services[2].demand = 0.4 * link;
            port.run(100);
            port.services[0].demand = link;
            port.services[1].demand = link;
            let intervals = port.intervals_until_rates_fit();
            let time = intervals as f64 * port.parameters.interval.as_secs_f64();
            let mbps = link / 1e6;
            println!("{mbps} Mb/s, {burst} B at once, buffer {buffer} B: after {intervals} intervals, {time:.3} s");
            // By the law alone 200 to 250.
            assert!(intervals <= 40, "{mbps} Mb/s, {burst} B, {buffer} B: {intervals} intervals");
        }
    }
}
