//! [`ReceiveMeter`]: the rate advertised to a service's senders, and the packets that trigger it.
//!
//! The algorithm, its decisions and its source are in `datapath/receive_meter.h`. Call
//! [`ReceiveMeter::packet`] once per packet that the service receives, in order of time; if it returns a
//! rate, send that rate to the packet's source.
//!
//! Worked example: a capacity of 9 Gb/s and an arrival rate of 12 Gb/s: R falls from 5 to 4.1667 Gb/s after 200 µs.

use crate::abi;
use crate::parameters::{from_limit, limit, receive_law};
use weir_shaping::ShaperParameters;
use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// Meters one service at its receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveMeter {
    raw: abi::ReceiveMeter,
}

impl ReceiveMeter {
    /// A meter before any traffic. The capacity is unlimited, or clamped to 10 kb/s to 8 Tb/s.
    /// Meters with different seeds send feedback for different packets.
    pub fn new(now: Instant, parameters: &ShaperParameters, capacity: Bandwidth, seed: u32) -> Self {
        let mut raw = abi::ReceiveMeter::default();
        let feedback_bytes = u32::try_from(parameters.feedback_bytes.get()).unwrap_or(u32::MAX);
        abi::receive_meter_init(
            &mut raw,
            now.nanos(),
            &receive_law(parameters),
            limit(capacity),
            feedback_bytes,
            parameters.feedback_interval.nanos(),
            seed,
        );
        Self { raw }
    }

    /// The meter with this state.
    pub(crate) fn of(raw: abi::ReceiveMeter) -> Self {
        Self { raw }
    }

    /// Counts `bytes` received at `now` in `packets` packets that switches could mark, `marked` of them marked.
    /// A packet that is not ECN-capable counts its bytes and no packets. Returns the rate to advertise to its source
    /// if feedback is due.
    #[inline]
    pub fn packet(&mut self, now: Instant, bytes: Bytes, packets: u32, marked: u32) -> Option<Bandwidth> {
        let due = abi::receive_meter_packet(&mut self.raw, now.nanos(), bytes.get(), packets, marked) != 0;
        due.then(|| self.rate())
    }

    /// Counts bytes that have left the virtual queue of the policer, in the open window.
    pub fn count(&mut self, bytes: Bytes) {
        self.raw.window.bytes = self.raw.window.bytes.saturating_add(bytes.get()).min(abi::WINDOW_BYTES_MAX);
    }

    /// Takes back the bytes of the last packet, which has entered the virtual queue of the policer.
    pub fn take_back(&mut self, bytes: Bytes) {
        self.raw.window.bytes = self.raw.window.bytes.saturating_sub(bytes.get());
    }

    pub(crate) fn raw(&self) -> &abi::ReceiveMeter {
        &self.raw
    }

    pub(crate) fn raw_mut(&mut self) -> &mut abi::ReceiveMeter {
        &mut self.raw
    }

    /// Sets the capacity; R changes in proportion, and starts at the capacity if it was unlimited.
    pub fn set_capacity(&mut self, capacity: Bandwidth) {
        abi::receive_meter_set_capacity(&mut self.raw, limit(capacity), 0);
    }

    /// Like [`ReceiveMeter::set_capacity`], for a capacity that is the service's current share of
    /// the interface and not a limit of its own: the interface meter lowers usage above it
    /// while the interface is full.
    pub fn set_share(&mut self, capacity: Bandwidth) {
        abi::receive_meter_set_capacity(&mut self.raw, limit(capacity), 1);
    }

    /// Sets T from the next window on, 10 µs to 1 s.
    pub fn set_interval(&mut self, interval: Duration) {
        abi::receive_meter_set_interval(&mut self.raw, interval.nanos());
    }

    /// Sets T from the next window on: `interval`, or the time in which the capacity carries `grain`
    /// if that is longer and fewer bytes arrive, as ticks need (`datapath/receive_tick.h`).
    pub fn set_tick_interval(&mut self, interval: Duration, grain: Bytes) {
        let grain = u32::try_from(grain.get()).unwrap_or(u32::MAX);
        abi::tick_set_interval(&mut self.raw, interval.nanos(), grain);
    }

    /// The capacity in force.
    pub fn capacity(&self) -> Bandwidth {
        from_limit(self.raw.capacity)
    }

    /// R: the rate of every sender of weight 1, as of the last step; unlimited without a capacity.
    pub fn rate(&self) -> Bandwidth {
        from_limit(self.raw.rate)
    }

    /// The usage of the last window, or of the open one if it is longer than T.
    pub fn usage(&self, now: Instant) -> Bandwidth {
        Bandwidth::from_bps(abi::receive_meter_usage(&self.raw, now.nanos()))
    }

    /// Packets that switches could mark, in all windows that closed.
    pub fn packets(&self) -> u64 {
        self.raw.packets
    }

    /// Of [`ReceiveMeter::packets`], those that were marked and count.
    pub fn marked(&self) -> u64 {
        self.raw.marked
    }

    /// T.
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.raw.law.interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    /// A meter of 9 Gb/s whose rate has reached it.
    fn meter(parameters: &ShaperParameters) -> ReceiveMeter {
        let mut meter = ReceiveMeter::new(Instant::ZERO, parameters, Bandwidth::UNLIMITED, 7);
        meter.set_capacity(Bandwidth::from_gbps(9));
        meter
    }

    #[test]
    fn closing_a_window_runs_one_step() {
        // From C = 10 to 9 Gb/s: 9 * (1 - 0.5 * (12 - 9)/9) = 7.5 with 300 kB in 200 µs.
        let mut meter = meter(&ShaperParameters::PARLEY);
        for i in 0..200 {
            meter.packet(at(i), Bytes::new(1500), 1, 0);
        }
        assert_eq!(meter.rate(), Bandwidth::from_gbps(9));
        let advertised = meter.packet(at(200), Bytes::new(1500), 1, 0);
        assert_eq!(meter.usage(at(200)), Bandwidth::from_gbps(12));
        assert!(meter.rate().bps().abs_diff(7_500_000_000) < 20_000, "{}", meter.rate());
        assert!(advertised.is_none_or(|rate| rate == meter.rate()));
    }

    #[test]
    fn marks_count_among_ecn_capable_packets() {
        // y = 9 Gb/s (225 kB in 200 µs), 30 of 75 ECN-capable packets marked: 9 * (1 - 0.4/2) = 7.2
        let mut meter = meter(&ShaperParameters::PARLEY);
        for i in 0..150 {
            meter.packet(at(i), Bytes::new(1500), u32::from(i % 2 == 0), u32::from(i % 2 == 0 && i < 60));
        }
        meter.packet(at(200), Bytes::new(1500), 1, 0);
        assert!(meter.rate().bps().abs_diff(7_200_000_000) < 20_000, "{}", meter.rate());
    }

    #[test]
    fn rate_starts_low_and_reaches_capacity_after_a_pause() {
        let mut meter = ReceiveMeter::new(Instant::ZERO, &ShaperParameters::PARLEY, Bandwidth::from_gbps(9), 0);
        assert_eq!(meter.rate(), Bandwidth::from_bps(9_000_000_000 / 512));
        meter.packet(at(13_000), Bytes::new(64), 1, 0);
        assert_eq!(meter.rate(), Bandwidth::from_gbps(9));
        // EyeQ takes one step, however long the pause was.
        let mut meter = ReceiveMeter::new(Instant::ZERO, &ShaperParameters::EYEQ, Bandwidth::from_gbps(9), 0);
        meter.packet(at(13_000), Bytes::new(64), 1, 0);
        assert!(meter.rate() < Bandwidth::from_mbps(27));
    }

    #[test]
    fn capacity_below_one_packet_per_interval_is_met() {
        // 1,500 B each 1.2 ms is 10 Mb/s, at T = 200 µs: six intervals a packet.
        let capacity = Bandwidth::from_mbps(10);
        let mut meter = ReceiveMeter::new(Instant::ZERO, &ShaperParameters::PARLEY, capacity, 0);
        meter.packet(at(100_000), Bytes::new(1500), 1, 0);
        for i in 1..100 {
            meter.packet(at(100_000 + i * 1200), Bytes::new(1500), 1, 0);
            assert_eq!((meter.rate(), meter.usage(at(100_000 + i * 1200))), (capacity, capacity));
        }
    }

    #[test]
    fn feedback_is_sent_per_ten_kilobytes_and_per_interval() {
        let mut meter = meter(&ShaperParameters { feedback_interval: Duration::ZERO, ..ShaperParameters::PARLEY });
        let sent = (0..20_000).filter(|i| meter.packet(at(*i), Bytes::new(1000), 1, 0).is_some()).count();
        assert!((1950..=2050).contains(&sent), "{sent} feedback packets for 20 MB");
        // One packet each ms triggers feedback each time, as the mean interval is 100 to 300 µs.
        let mut meter = self::meter(&ShaperParameters::PARLEY);
        assert!((1..100).all(|i| meter.packet(at(i * 1000), Bytes::new(64), 1, 0).is_some()));
    }

    #[test]
    fn unlimited_meter_sends_no_feedback() {
        let parameters = ShaperParameters::PARLEY;
        let mut meter = ReceiveMeter::new(Instant::ZERO, &parameters, Bandwidth::UNLIMITED, 0);
        assert!((0..1000).all(|i| meter.packet(at(i), Bytes::new(1500), 1, 1).is_none()));
        assert_eq!(meter.rate(), Bandwidth::UNLIMITED);
        assert_eq!(meter.usage(at(1000)), Bandwidth::from_gbps(12));
    }

    #[test]
    fn rate_changes_in_proportion_to_the_capacity() {
        let mut meter = meter(&ShaperParameters::PARLEY);
        meter.set_capacity(Bandwidth::from_gbps(3));
        assert_eq!(meter.rate(), Bandwidth::from_gbps(3), "from R = C to the new C");
        for i in 0..=200 {
            meter.packet(at(i), Bytes::new(750), 1, 0); // 6 Gb/s: 3 * (1 - 0.5) = 1.5
        }
        assert!(meter.rate().bps().abs_diff(1_500_000_000) < 10_000);
        meter.set_capacity(Bandwidth::from_gbps(6));
        assert!(meter.rate().bps().abs_diff(3_000_000_000) < 20_000);
        meter.set_capacity(Bandwidth::UNLIMITED);
        assert_eq!(meter.rate(), Bandwidth::UNLIMITED);
    }
}
