//! Transmitters: one frame at a time, at the rate, and never idle while a frame waits.
//!
//! A transmission must start at the later of two times: the end of the one before, and the time at
//! which the waiting frames began to wait. An earlier start would be two frames at once; a later
//! one would be idling. A busy period (frames back to back) must carry no more bits than the rate
//! allows in its time, and no fewer except for rounding up to a picosecond.

use super::entry;
use crate::ids::PortId;
use crate::port::Transmission;
use std::collections::VecDeque;
use weir_units::Bandwidth;
use weir_units::SimTime;

/// The activity of each port's transmitter.
#[derive(Debug, Default)]
pub struct Transmitters {
    ports: Vec<Transmitter>,
}

#[derive(Debug, Default)]
struct Transmitter {
    waiting: u64,
    waiting_since: SimTime,
    end: SimTime,
    busy_since: SimTime,
    busy_bytes: u64,
    /// Starts and ends of the frames that had not begun at the last check.
    ahead: VecDeque<(SimTime, SimTime)>,
    /// The end of the last frame that has begun.
    begun: SimTime,
    /// The next frame begins a period of its own: the rate has changed.
    afresh: bool,
    /// Finished busy periods with the highest and the lowest rate: picoseconds and bytes.
    fastest: Option<(u64, u64)>,
    slowest: Option<(u64, u64)>,
}

impl Transmitter {
    /// Finds the frames that have begun by now.
    fn look(&mut self, now: SimTime) {
        while let Some(&(start, end)) = self.ahead.front()
            && start <= now
        {
            self.begun = end;
            self.ahead.pop_front();
        }
    }

    fn close(&mut self) {
        let period = (self.end.saturating_sub(self.busy_since).picos(), self.busy_bytes);
        if period.1 == 0 {
            return;
        }
        // Whether a carries more bytes per time than b.
        let faster =
            |a: (u64, u64), b: (u64, u64)| u128::from(a.1) * u128::from(b.0) > u128::from(b.1) * u128::from(a.0);
        if self.fastest.is_none_or(|fastest| faster(period, fastest)) {
            self.fastest = Some(period);
        }
        if self.slowest.is_none_or(|slowest| faster(slowest, period)) {
            self.slowest = Some(period);
        }
    }
}

impl Transmitters {
    /// A port takes a frame.
    pub fn accepted(&mut self, now: SimTime, port: PortId) {
        let transmitter = entry(&mut self.ports, port.index());
        transmitter.look(now);
        if transmitter.waiting == 0 {
            transmitter.waiting_since = now;
        }
        transmitter.waiting += 1;
    }

    /// A port's transmitter is handed a frame.
    pub fn transmitted(&mut self, port: PortId, size: u32, transmission: Transmission) {
        let transmitter = entry(&mut self.ports, port.index());
        assert!(transmitter.waiting > 0, "port {} sends what it never took", port.0);
        let due = transmitter.end.max(transmitter.waiting_since);
        let start = transmission.start;
        assert!(start >= transmitter.end, "port {} sends two frames at once at {start}", port.0);
        assert!(start <= due, "port {} idles until {start} though a frame waits since {due}", port.0);
        if start > transmitter.end || transmitter.afresh {
            transmitter.close();
            transmitter.afresh = false;
            (transmitter.busy_since, transmitter.busy_bytes) = (start, 0);
        }
        transmitter.busy_bytes += u64::from(size);
        transmitter.end = transmission.end;
        transmitter.ahead.push_back((start, transmission.end));
        transmitter.waiting -= 1;
    }

    /// A port drops a waiting frame.
    pub fn gave_up(&mut self, port: PortId) {
        let transmitter = entry(&mut self.ports, port.index());
        assert!(transmitter.waiting > 0, "port {} drops what it never took", port.0);
        transmitter.waiting -= 1;
    }

    /// A port's rate was `before`: its transmissions are checked against that rate, except those of
    /// the current period.
    pub fn rate_changed(&mut self, now: SimTime, port: PortId, before: Bandwidth, withdrawn: u64, free_at: SimTime) {
        let transmitter = entry(&mut self.ports, port.index());
        transmitter.look(now);
        assert_eq!(transmitter.ahead.len() as u64, withdrawn, "port {}: frames that have not begun", port.0);
        if withdrawn > 0 {
            assert_eq!(free_at, transmitter.begun.max(now), "port {}: the frame on the wire", port.0);
        }
        transmitter.ahead.clear();
        let underway = std::mem::take(&mut transmitter.busy_bytes);
        if transmitter.end <= now {
            transmitter.busy_bytes = underway;
            transmitter.close();
            transmitter.busy_bytes = 0;
        }
        if transmitter.waiting == 0 {
            transmitter.waiting_since = now;
        }
        transmitter.waiting += withdrawn;
        transmitter.end = transmitter.end.min(free_at.max(now));
        transmitter.afresh = true;
        self.check(port, before);
        let transmitter = entry(&mut self.ports, port.index());
        (transmitter.fastest, transmitter.slowest) = (None, None);
    }

    /// The frames of a port's transmitter are lost; its finished transmissions are not checked any
    /// more.
    pub fn cut(&mut self, now: SimTime, port: PortId) {
        let transmitter = entry(&mut self.ports, port.index());
        transmitter.ahead.clear();
        transmitter.begun = transmitter.begun.min(now);
        transmitter.end = transmitter.end.min(now);
        transmitter.busy_bytes = 0;
        transmitter.afresh = true;
    }

    /// A port's link is up again.
    pub fn restored(&mut self, now: SimTime, port: PortId) {
        entry(&mut self.ports, port.index()).waiting_since = now;
    }

    /// Checks a port's busy periods against its rate.
    pub fn check(&self, port: PortId, rate: Bandwidth) {
        let Some(transmitter) = self.ports.get(port.index()) else { return };
        let current = (transmitter.end.saturating_sub(transmitter.busy_since).picos(), transmitter.busy_bytes);
        let periods = [transmitter.fastest, transmitter.slowest, Some(current).filter(|current| current.1 > 0)];
        for (picos, bytes) in periods.into_iter().flatten() {
            let exact = (u128::from(bytes) * 8_000_000_000_000).div_ceil(u128::from(rate.bps()));
            assert_eq!(u128::from(picos), exact, "port {} at {rate}: the time of {bytes} B", port.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(transmitters: &mut Transmitters, accepted: u64, start: u64, end: u64) {
        let t = SimTime::from_nanos;
        transmitters.accepted(t(accepted), PortId(0));
        transmitters.transmitted(PortId(0), 1, Transmission { start: t(start), end: t(end), arrival: t(end) });
    }

    #[test]
    #[should_panic(expected = "two frames at once")]
    fn catches_an_overlap() {
        let mut transmitters = Transmitters::default();
        send(&mut transmitters, 0, 0, 10);
        send(&mut transmitters, 5, 9, 19);
    }

    #[test]
    #[should_panic(expected = "idles until")]
    fn catches_idling() {
        let mut transmitters = Transmitters::default();
        send(&mut transmitters, 0, 0, 10);
        send(&mut transmitters, 5, 11, 21);
    }

    #[test]
    #[should_panic(expected = "the time of 1 B")]
    fn catches_speeding() {
        let mut transmitters = Transmitters::default();
        // A byte at 1 Gb/s takes 8 ns, not 7.
        send(&mut transmitters, 0, 0, 7);
        transmitters.check(PortId(0), Bandwidth::from_gbps(1));
    }
}
