//! Transports against the models that their authors give: windows under periodic loss, DCTCP's
//! sawtooth.

mod support;

use std::collections::VecDeque;
use support::{Network, World};
use weir_transport::{
    Ack, AckContent, Acknowledge, Arrival, Connection, Parameters, Receiver, SackBlocks, Segment, Sender, cubic, dctcp,
    newreno, tcp,
};
use weir_units::{Bandwidth, SimTime};

/// The common parameters of TCP here: each packet is acknowledged, as the models assume, and
/// windows have room.
fn common() -> tcp::Parameters {
    tcp::Parameters { delayed_ack: 1, receive_window: 1 << 30, ..tcp::Parameters::default() }
}

/// The mean window in packets over the second half, when the start has no effect any more, while
/// every `period`-th of `packets` is lost and a round trip takes `rtt`.
fn mean_window(parameters: &Parameters, packets: u64, period: u64, rtt: SimTime) -> f64 {
    let delay = SimTime::from_picos(rtt.picos() / 2);
    let (lost, doubled, marked, jitter) = (0, 0, 0, SimTime::ZERO);
    let network = Network { seed: 1, delay, jitter, lost, every: period, doubled, marked };
    let outcome = World::new(parameters, packets * 1000, network).run();
    // The timer was never needed.
    assert_eq!(outcome.timeouts, 0);
    (packets / 2) as f64 * rtt.picos() as f64 / (outcome.delivered - outcome.half).picos() as f64
}

/// Mathis et al., "The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm", CCR 1997:
/// the mean window is √(3 / 2p) packets when one of 1/p is lost.
#[test]
fn newreno_follows_the_square_root_law() {
    let newreno = Parameters::NewReno(newreno::Parameters { tcp: common() });
    for period in [500, 2_000, 8_000] {
        let law = (1.5 * period as f64).sqrt();
        let window = mean_window(&newreno, 200 * period, period, SimTime::from_millis(20));
        assert!((window / law - 1.0).abs() < 0.1, "one of {period}: {window} instead of {law}");
    }
}

/// RFC 9438 §5: the mean window is ∜(C·(3 + β) / (4·(1 − β))) · (RTT / p)^¾ packets when one of 1/p
/// is lost.
#[test]
fn cubic_follows_its_response_function() {
    let parameters =
        cubic::Parameters { tcp: common(), fast_convergence: false, hystart: false, ..cubic::Parameters::default() };
    for (period, millis) in [(10_000, 100), (30_000, 100), (10_000, 200)] {
        let law = (0.4 * 3.7 / 1.2_f64).powf(0.25) * (millis as f64 / 1000.0 * period as f64).powf(0.75);
        let cubic = Parameters::Cubic(parameters.clone());
        let window = mean_window(&cubic, 100 * period, period, SimTime::from_millis(millis));
        // Flat around its old maximum, the window converges slowly: it is still a little above.
        assert!((0.95..1.15).contains(&(window / law)), "one of {period}, {millis} ms: {window} instead of {law}");
    }
}

/// One flow through one queue that sends a packet per tick and marks each packet that finds
/// `threshold` packets in it; the acknowledgement takes `delay` ticks.
struct Bottleneck {
    sender: Sender,
    receiver: Receiver,
    queue: VecDeque<(Segment, SimTime, bool)>,
    acks: VecDeque<(u64, AckContent, SackBlocks)>,
    delay: u64,
    threshold: usize,
    tick: u64,
}

impl Bottleneck {
    fn new(parameters: &Parameters, delay: u64, threshold: usize) -> Self {
        let connection = Connection {
            bytes: u64::MAX,
            payload: 1000,
            headers: 66,
            start: SimTime::ZERO,
            deadline: None,
            line_rate: Bandwidth::from_gbps(10),
            round_trip: None,
            sprayed: false,
        };
        let (queue, acks) = (VecDeque::new(), VecDeque::new());
        let (sender, receiver) = (Sender::new(parameters, &connection), Receiver::new(parameters));
        Self { sender, receiver, queue, acks, delay, threshold, tick: 0 }
    }

    /// One tick. Returns how many packets wait.
    fn step(&mut self) -> usize {
        self.tick += 1;
        let now = SimTime::from_micros(self.tick);
        while self.acks.front().is_some_and(|content| content.0 <= self.tick) {
            let Some((_, content, sack)) = self.acks.pop_front() else { unreachable!() };
            let sack = &sack.blocks[..usize::from(sack.count)];
            self.sender.on_ack(now, &Ack { content, sack });
        }
        while let Some(segment) = self.sender.poll(now) {
            let marked = segment.capable && self.queue.len() >= self.threshold;
            self.queue.push_back((segment, now, marked));
        }
        if let Some((segment, stamp, marked)) = self.queue.pop_front() {
            let arrival = Arrival { sequence: segment.sequence, length: segment.length, stamp, marked };
            let reaction = self.receiver.on_segment(now, &arrival);
            assert_eq!((reaction.before, reaction.acknowledge), (None, Acknowledge::Now));
            self.acks.push_back((self.tick + self.delay, self.receiver.acknowledge(), self.receiver.sack()));
        }
        self.queue.len()
    }
}

/// Alizadeh et al., SIGCOMM 2010, §3.3 with one flow: W* = C·RTT + K, α²·(1 − α/4) = (2·W* + 1) /
/// (W* + 1)², the queue is at most K + 1 and swings by (W* + 1)·α / 2 (with N = 1).
#[test]
fn dctcp_swings_as_in_its_paper() {
    for (delay, threshold) in [(100_u64, 20_usize), (300, 50)] {
        let parameters = dctcp::Parameters { tcp: common(), ..dctcp::Parameters::default() };
        let mut path = Bottleneck::new(&Parameters::Dctcp(parameters), delay, threshold);
        // Until the start has no effect any more.
        let long = 400 * delay;
        for _ in 0..long {
            path.step();
        }
        let (mut least, mut most) = (usize::MAX, 0);
        for _ in 0..long {
            let queue = path.step();
            (least, most) = (least.min(queue), most.max(queue));
        }
        let w = (delay + threshold as u64) as f64;
        let rhs = (2.0 * w + 1.0) / ((w + 1.0) * (w + 1.0));
        // The root by bisection; the left side grows with α.
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..50 {
            let alpha: f64 = (low + high) / 2.0;
            if alpha * alpha * (1.0 - alpha / 4.0) < rhs { low = alpha } else { high = alpha }
        }
        let swing = (w + 1.0) * low / 2.0;
        assert!((threshold..=threshold + 3).contains(&most), "at most {most} at a threshold of {threshold}");
        let seen = (most - least) as f64;
        assert!((seen / swing - 1.0).abs() < 0.25, "K = {threshold}: the queue swings by {seen}, not {swing}");
    }
}
