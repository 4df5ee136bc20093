//! A buffer that the ports of a switch share, with dynamic thresholds.
//!
//! Problem: with fixed parts a busy port drops while the others' parts lie idle; without any bound one port takes all.
//! Approach: a port may hold alpha times what is free now. With n busy ports each settles at
//! alpha · size / (1 + n · alpha), and size / (1 + n · alpha) stays free for ports that become busy.
//!
//! What is being sent does not count: a frame leaves the shared buffer when its transmission begins.
//!
//! Example: 100 kB and alpha 1: one busy port gets up to 50 kB, two get 33 kB each.
//!
//! Source: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches" (ToN 1998), §III.

/// The state of a switch's buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedBuffer {
    size: u64,
    alpha_thousandths: u64,
    used: u64,
}

impl SharedBuffer {
    pub(crate) fn new(size: u64, alpha_thousandths: u32) -> Self {
        Self { size, alpha_thousandths: alpha_thousandths.into(), used: 0 }
    }

    /// Whether a port that holds `held` bytes may take `size` more.
    pub(crate) fn fits(&self, held: u64, size: u32) -> bool {
        let (free, size) = (self.size - self.used, u64::from(size));
        let threshold = u128::from(free) * u128::from(self.alpha_thousandths) / 1000;
        size <= free && u128::from(held + size) <= threshold
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

    /// Fills ports in turn until none takes any more.
    fn settle(ports: usize, alpha_thousandths: u32) -> Vec<u64> {
        let mut buffer = SharedBuffer::new(100_000, alpha_thousandths);
        let mut held = vec![0; ports];
        loop {
            let mut any = false;
            for port in &mut held {
                if buffer.fits(*port, 100) {
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
    fn what_is_given_back_can_be_taken() {
        let mut buffer = SharedBuffer::new(1000, 1000);
        buffer.take(500);
        assert!(!buffer.fits(500, 1));
        buffer.give_back(400);
        assert!(buffer.fits(100, 350) && !buffer.fits(100, 851));
        assert_eq!((buffer.used, buffer.size), (100, 1000));
    }
}
