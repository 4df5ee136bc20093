//! [`ReceiveMeter`]: the rate that a service's senders are told, and when.
//!
//! The algorithm, its decisions and its source are in `datapath/receive_meter.h`. Call
//! [`ReceiveMeter::packet`] once per packet that the service receives, in order of time; when it returns a
//! rate, send it to that packet's source.
//!
//! Worked example: a capacity of 9 Gb/s and 12 Gb/s coming in: R falls from 5 to 4.1667 Gb/s after 200 µs.

use crate::layout::{RawReceiveMeter, native};
use crate::parameters::{ShaperParameters, from_limit, limit};
use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// Meters one service at its receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveMeter {
    raw: RawReceiveMeter,
}

impl ReceiveMeter {
    /// A meter with nothing counted. The capacity is unlimited, or from 10 kb/s to 8 Tb/s (what is outside is
    /// taken as the bound). Meters with different seeds answer at different packets.
    pub fn new(now: Instant, parameters: &ShaperParameters, capacity: Bandwidth, seed: u32) -> Self {
        let mut raw = RawReceiveMeter::default();
        let feedback_bytes = u32::try_from(parameters.feedback_bytes.get()).unwrap_or(u32::MAX);
        native::weir_native_receive_meter_init(
            &mut raw,
            now.nanos(),
            &parameters.receive_law(),
            limit(capacity),
            feedback_bytes,
            parameters.feedback_interval.nanos(),
            seed,
        );
        Self { raw }
    }

    /// Counts what came at `now`: `bytes` as `packets` packets that switches could mark, `marked` of them marked.
    /// A packet that does not speak ECN counts its bytes and no packets. Returns the rate to tell its source
    /// where that is due.
    #[inline]
    pub fn packet(&mut self, now: Instant, bytes: Bytes, packets: u32, marked: u32) -> Option<Bandwidth> {
        let due =
            native::weir_native_receive_meter_packet(&mut self.raw, now.nanos(), bytes.get(), packets, marked) != 0;
        due.then(|| self.rate())
    }

    pub(crate) fn raw(&self) -> &RawReceiveMeter {
        &self.raw
    }

    pub(crate) fn raw_mut(&mut self) -> &mut RawReceiveMeter {
        &mut self.raw
    }

    /// From now on the capacity is `capacity`; R goes along in proportion, from unlimited it starts there.
    pub fn set_capacity(&mut self, capacity: Bandwidth) {
        native::weir_native_receive_meter_set_capacity(&mut self.raw, limit(capacity), 0);
    }

    /// The same, where the capacity is what the interface leaves to the service now, not a limit of its own: what comes above it
    /// while the interface is full is the interface's to lower.
    pub fn set_share(&mut self, capacity: Bandwidth) {
        native::weir_native_receive_meter_set_capacity(&mut self.raw, limit(capacity), 1);
    }

    /// From the next window on T is `interval`, 10 µs to 1 s.
    pub fn set_interval(&mut self, interval: Duration) {
        native::weir_native_receive_meter_set_interval(&mut self.raw, interval.nanos());
    }

    /// The capacity in force.
    pub fn capacity(&self) -> Bandwidth {
        from_limit(self.raw.capacity)
    }

    /// R: what every sender of weight 1 may send, as of the last step; unlimited without a capacity.
    pub fn rate(&self) -> Bandwidth {
        from_limit(self.raw.rate)
    }

    /// What came lately: over the last window, or over the open one where it is longer than T already.
    pub fn usage(&self, now: Instant) -> Bandwidth {
        Bandwidth::from_bps(native::weir_native_receive_meter_usage(&self.raw, now.nanos()))
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

    /// A meter of 9 Gb/s whose rate is already there.
    fn meter(parameters: &ShaperParameters) -> ReceiveMeter {
        let mut meter = ReceiveMeter::new(Instant::ZERO, parameters, Bandwidth::UNLIMITED, 7);
        meter.set_capacity(Bandwidth::from_gbps(9));
        meter
    }

    #[test]
    fn a_window_takes_one_step() {
        // From C = 10 to 9 Gb/s: 9 * (1 - 0.5 * (12 - 9)/9) = 7.5 with 300 kB in 200 µs.
        let mut meter = meter(&ShaperParameters::PARLEY);
        for i in 0..200 {
            meter.packet(at(i), Bytes::new(1500), 1, 0);
        }
        assert_eq!(meter.rate(), Bandwidth::from_gbps(9));
        let told = meter.packet(at(200), Bytes::new(1500), 1, 0);
        assert_eq!(meter.usage(at(200)), Bandwidth::from_gbps(12));
        assert!(meter.rate().bps().abs_diff(7_500_000_000) < 20_000, "{}", meter.rate());
        assert!(told.is_none_or(|rate| rate == meter.rate()));
    }

    #[test]
    fn marks_are_counted_among_packets_that_could_be_marked() {
        // y = 9 Gb/s (225 kB in 200 µs), 30 of 75 packets that speak ECN marked: 9 * (1 - 0.4/2) = 7.2
        let mut meter = meter(&ShaperParameters::PARLEY);
        for i in 0..150 {
            meter.packet(at(i), Bytes::new(1500), u32::from(i % 2 == 0), u32::from(i % 2 == 0 && i < 60));
        }
        meter.packet(at(200), Bytes::new(1500), 1, 0);
        assert!(meter.rate().bps().abs_diff(7_200_000_000) < 20_000, "{}", meter.rate());
    }

    #[test]
    fn starts_low_and_is_at_capacity_after_a_pause() {
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
    fn a_capacity_of_less_than_a_packet_per_interval_is_met() {
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
    fn answers_once_per_ten_kilobytes_and_per_interval() {
        let mut meter = meter(&ShaperParameters { feedback_interval: Duration::ZERO, ..ShaperParameters::PARLEY });
        let told = (0..20_000).filter(|i| meter.packet(at(*i), Bytes::new(1000), 1, 0).is_some()).count();
        assert!((1950..=2050).contains(&told), "{told} answers to 20 MB");
        // A packet each ms is answered each time, after 100 to 300 µs.
        let mut meter = self::meter(&ShaperParameters::PARLEY);
        assert!((1..100).all(|i| meter.packet(at(i * 1000), Bytes::new(64), 1, 0).is_some()));
    }

    #[test]
    fn without_a_capacity_there_is_no_rate_and_no_feedback() {
        let parameters = ShaperParameters::PARLEY;
        let mut meter = ReceiveMeter::new(Instant::ZERO, &parameters, Bandwidth::UNLIMITED, 0);
        assert!((0..1000).all(|i| meter.packet(at(i), Bytes::new(1500), 1, 1).is_none()));
        assert_eq!(meter.rate(), Bandwidth::UNLIMITED);
        assert_eq!(meter.usage(at(1000)), Bandwidth::from_gbps(12));
    }

    #[test]
    fn a_new_capacity_takes_the_rate_along() {
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
