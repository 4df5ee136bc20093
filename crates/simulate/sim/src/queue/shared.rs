//! A buffer that the ports of a switch share, with dynamic thresholds.
//!
//! Problem: with fixed parts a busy port drops while the others' parts lie idle; without any bound
//! one port takes all. Approach: a port may hold alpha times the space that is free now. With n
//! busy ports each settles at alpha · size / (1 + n · alpha), and size / (1 + n · alpha) stays free
//! for ports that become busy.
//!
//! The frame in transmission does not count: a frame leaves the shared buffer when its transmission
//! begins.
//!
//! Example: 100 kB and alpha 1: one busy port gets up to 50 kB, two get 33 kB each.
//!
//! Source: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches"
//! (ToN 1998), §III.

/// The state of a switch's buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedBuffer {
    size: u64,
    alpha_thousandths: u32,
    used: u64,
}

impl SharedBuffer {
    pub(crate) fn new(size: u64, alpha_thousandths: u32) -> Self {
        Self { size, alpha_thousandths, used: 0 }
    }

    /// How many of the `held` bytes of a port must go before it may take `size` more; 0 if it may
    /// now.
    ///
    /// Bytes that a port gives up are free at once, so they lower the port's occupancy and raise
    /// its threshold: with `g` given up, held − g + size ≤ alpha · (free + g), and size ≤ free + g.
    pub(crate) fn missing(&self, held: u64, size: u32) -> u64 {
        let (free, size, alpha) = (self.size - self.used, u64::from(size), u128::from(self.alpha_thousandths));
        let wanted = u128::from(held + size) * 1000;
        let above = wanted.saturating_sub(u128::from(free) * alpha).div_ceil(1000 + alpha);
        // At most `held + size`, since alpha is not negative.
        size.saturating_sub(free).max(above as u64)
    }

    /// Its size in bytes, and the thousandths of the free space that a port may hold.
    pub(crate) fn limits(&self) -> (u64, u32) {
        (self.size, self.alpha_thousandths)
    }

    /// Bytes that its ports hold.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    pub(crate) fn take(&mut self, size: u32) {
        self.used += u64::from(size);
        debug_assert!(self.used <= self.size, "a shared buffer holds more than it can");
    }

    pub(crate) fn give_back(&mut self, size: u32) {
        self.used -= u64::from(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whether a port that holds `held` bytes may take `size` more, by the definition.
    fn fits(buffer: &SharedBuffer, held: u64, size: u32) -> bool {
        let (free, size) = (buffer.size - buffer.used, u64::from(size));
        let threshold = u128::from(free) * u128::from(buffer.alpha_thousandths) / 1000;
        size <= free && u128::from(held + size) <= threshold
    }

    /// Fills ports in turn until none takes any more.
    fn settle(ports: usize, alpha_thousandths: u32) -> Vec<u64> {
        let mut buffer = SharedBuffer::new(100_000, alpha_thousandths);
        let mut held = vec![0; ports];
        loop {
            let mut any = false;
            for port in &mut held {
                if buffer.missing(*port, 100) == 0 {
                    buffer.take(100);
                    *port += 100;
                    any = true;
                }
            }
            if !any {
                return held;
            }
        }
    }

    #[test]
    fn the_worked_example() {
        assert_eq!(settle(1, 1000), [50_000]);
        // 100,000 / 3, to within a frame.
        assert_eq!(settle(2, 1000), [33_400, 33_300]);
        // alpha 8: 8/9 for one port, to within a frame.
        assert_eq!(settle(1, 8000), [88_900]);
    }

    #[test]
    fn freed_bytes_can_be_taken() {
        let mut buffer = SharedBuffer::new(1000, 1000);
        buffer.take(500);
        assert_eq!(buffer.missing(500, 1), 1);
        buffer.give_back(400);
        assert!(fits(&buffer, 100, 350) && !fits(&buffer, 100, 851));
        assert_eq!((buffer.missing(100, 350), buffer.used(), buffer.size), (0, 100, 1000));
    }

    proptest! {
        /// The missing bytes are the least that must be given up: one byte less is not enough.
        #[test]
        fn as_much_as_is_missing_must_go(
            size in 1u64..100_000, alpha in 0u32..20_000,
            used in 0.0f64..1.0, held in 0.0f64..1.0, frame in 1u32..10_000,
        ) {
            let used = (size as f64 * used) as u64;
            let held = (used as f64 * held) as u64;
            let buffer = SharedBuffer { used, ..SharedBuffer::new(size, alpha) };
            let missing = buffer.missing(held, frame);
            prop_assert!(missing <= held + u64::from(frame));
            let after = |gone: u64| fits(&SharedBuffer { used: used - gone, ..buffer }, held - gone, frame);
            if missing <= held {
                prop_assert!(after(missing));
            }
            if let Some(less) = missing.checked_sub(1) {
                prop_assert!(!after(less.min(held)));
            }
        }
    }
}
