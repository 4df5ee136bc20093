//! A port of 100 Mb/s that does not mark, and drops what its buffer does not hold: the time until
//! services have their guarantees again beside senders that were not limited until then.

use std::collections::VecDeque;
use weir_datapath::{InterfaceMeter, ReceiveMeter};
use weir_policy::{Share, Sharing};
use weir_shaping::ShaperParameters;
use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// The port's rate, bit/s.
const LINK: f64 = 100e6;
/// What the interface shares, bit/s.
const CAPACITY: f64 = 95e6;
/// Four bursts of 64 KiB.
const GRAIN: u64 = 4 * 65_536;
/// Between two ticks.
const TICK: Duration = Duration::from_millis(1);

/// Senders of one service, each with the same demand in bit/s.
struct Service {
    share: Share,
    senders: f64,
    demand: f64,
    /// The rate in the feedback that the senders have.
    rate: f64,
    meter: ReceiveMeter,
    bytes: f64,
}

/// The interface behind the port.
struct Port {
    now: Instant,
    interface: InterfaceMeter,
    services: Vec<Service>,
    /// Bytes by service in the order of their arrival.
    queue: VecDeque<Vec<f64>>,
    buffer: f64,
}

fn bps(rate: f64) -> Bandwidth {
    Bandwidth::from_bps(rate as u64)
}

/// Parley's constants, scaled to the port as a policy's are.
fn parameters() -> ShaperParameters {
    let mut parameters = ShaperParameters::PARLEY;
    parameters.interval = Duration::from_millis(20);
    parameters.interface.interval = Duration::from_millis(100);
    parameters
}

impl Port {
    /// A port whose services are idle: by service a guarantee and the senders.
    fn new(buffer: f64, services: &[(f64, f64)]) -> Self {
        let shares: Vec<Share> = services.iter().map(|(min, _)| Share { min: bps(*min), ..Share::default() }).collect();
        let interface = InterfaceMeter::new(Instant::ZERO, &parameters(), bps(CAPACITY), Sharing::Fill, &shares);
        let service = |(share, (_, senders)): (&Share, &(f64, f64))| Service {
            share: *share,
            senders: *senders,
            demand: 0.0,
            rate: CAPACITY,
            meter: ReceiveMeter::new(Instant::ZERO, &parameters(), bps(CAPACITY)),
            bytes: 0.0,
        };
        let services = shares.iter().zip(services).map(service).collect();
        Self { now: Instant::ZERO, interface, services, queue: VecDeque::new(), buffer }
    }

    /// Sends for a tick, and returns what arrived of each service.
    fn carry(&mut self) -> Vec<f64> {
        let seconds = TICK.nanos() as f64 / 1e9;
        let offer = |service: &Service| service.senders * service.demand.min(service.rate) * seconds / 8.0;
        let offered: Vec<f64> = self.services.iter().map(offer).collect();
        self.queue.push_back(offered);
        let mut left = LINK * seconds / 8.0;
        let mut carried = vec![0.0; self.services.len()];
        while left > 0.0
            && let Some(first) = self.queue.front_mut()
        {
            let all: f64 = first.iter().sum();
            let part = if all <= left { 1.0 } else { left / all };
            for (carried, waiting) in carried.iter_mut().zip(first.iter_mut()) {
                *carried += *waiting * part;
                *waiting *= 1.0 - part;
            }
            left -= all * part;
            if part < 1.0 {
                break;
            }
            self.queue.pop_front();
        }
        let waiting: f64 = self.queue.iter().flatten().sum();
        if let Some(last) = self.queue.back_mut() {
            let newest: f64 = last.iter().sum();
            let keep = (1.0 - (waiting - self.buffer).max(0.0) / newest.max(1.0)).max(0.0);
            last.iter_mut().for_each(|bytes| *bytes *= keep);
        }
        carried
    }

    /// One tick, as the kernel runs it.
    fn tick(&mut self) {
        self.now = self.now + TICK;
        let carried = self.carry();
        let mut counted = vec![0; carried.len()];
        for ((service, carried), counted) in self.services.iter_mut().zip(&carried).zip(&mut counted) {
            let before = service.bytes as u64;
            service.bytes += carried;
            *counted = service.bytes as u64 - before;
        }
        let slack = Duration::from_nanos(TICK.nanos() / 2);
        for (service, &counted) in self.services.iter().zip(&counted) {
            let (bytes, limit) = (Bytes::new(counted), Bandwidth::UNLIMITED);
            self.interface.reach(&service.meter, self.now, bytes, &service.share, limit, Sharing::Fill);
        }
        if counted.iter().any(|&bytes| bytes > 0) {
            self.interface.tick(self.now, Bytes::new(counted.iter().sum()), slack);
        }
        for (service, &bytes) in self.services.iter_mut().zip(&counted).filter(|(_, bytes)| **bytes > 0) {
            let capacity = self.interface.share(&service.share, Sharing::Fill);
            service.meter.set_share(capacity);
            service.meter.set_tick_interval(parameters().interval, Bytes::new(GRAIN));
            self.interface.tick_meter(&mut service.meter, self.now, Bytes::new(bytes), 1, 0, slack);
            service.rate = service.meter.rate().bps() as f64;
        }
    }

    /// bit/s of each service over the time.
    fn run(&mut self, time: Duration) -> Vec<f64> {
        let before: Vec<f64> = self.services.iter().map(|service| service.bytes).collect();
        for _ in 0..time.nanos() / TICK.nanos() {
            self.tick();
        }
        let rate = |(service, before): (&Service, &f64)| (service.bytes - before) * 8e9 / time.nanos() as f64;
        self.services.iter().zip(&before).map(rate).collect()
    }

    /// The time until the service has `least` bit/s in each of ten windows of 100 ms.
    fn until(&mut self, service: usize, least: f64) -> f64 {
        let mut since = 0;
        for window in 0..300 {
            let rates = self.run(Duration::from_millis(100));
            if rates[service] < least {
                since = window + 1;
            }
            if window + 1 >= since + 10 {
                return f64::from(since) / 10.0;
            }
        }
        f64::INFINITY
    }
}

#[test]
fn a_guarantee_returns_beside_floods() {
    // 1 MB lasts 80 ms at the port's rate, in which no step shows its effect.
    for (buffer, longest) in [(64e3, 0.7), (256e3, 1.0), (1e6, 1.3)] {
        // 40 Mb/s beside 16 senders and a flood.
        let mut port = Port::new(buffer, &[(0.0, 16.0), (0.0, 1.0), (40e6, 1.0)]);
        port.services[2].demand = 40e6;
        port.run(Duration::from_secs(5));
        port.services[0].demand = 100e6;
        port.services[1].demand = 100e6;
        let time = port.until(2, 38e6);
        println!("40 Mb/s beside 17 senders, buffer of {buffer} B: after {time} s");
        // By the law alone 4 to 5 s.
        assert!(time <= longest, "{time} s with {buffer} B");
    }
}

#[test]
fn guarantees_of_many_services_return_beside_a_flood() {
    for buffer in [64e3, 256e3, 1e6] {
        // 46 of 200 services send 2 Mb/s, their guarantee.
        let mut services = vec![(0.0, 1.0); 153];
        services.extend([(2e6, 1.0); 46]);
        services.push((0.0, 1.0));
        let mut port = Port::new(buffer, &services);
        for service in &mut port.services[153..199] {
            service.demand = 2e6;
        }
        port.run(Duration::from_secs(5));
        port.services[199].demand = 100e6;
        let time = port.until(198, 1.9e6);
        println!("2 Mb/s of each of 46 services, buffer of {buffer} B: after {time} s");
        // By the law alone 7.4 s.
        assert!(time <= 0.5, "{time} s with {buffer} B");
    }
}
