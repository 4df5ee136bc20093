//! Timers that move often and fire seldom.
//!
//! Problem: TCP postpones its retransmission timer with every acknowledgement. One event for each
//! move would fill the event queue with events that have no effect.
//!
//! Approach: the timer stores its due time and the time of its event. Moving it later touches
//! nothing else: the event comes too early and is scheduled again for the new time. Moving it
//! before its event schedules another; the scheduled time serves as the version number that
//! identifies the old one as stale.
//!
//! Example: set to 200 ms, moved to 210 ms: the event at 200 ms returns [`Fired::Again`] (210 ms),
//! the one at 210 ms [`Fired::Due`].

use weir_units::SimTime;

/// A timer. Call [`Timer::set`] or [`Timer::cancel`] at will and [`Timer::fire`] for each event.
#[derive(Debug, Clone, Copy)]
pub struct Timer {
    due: SimTime,
    scheduled: SimTime,
}

/// The meaning of a timer's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fired {
    /// Nothing: the timer moved or was cancelled.
    Stale,
    /// The timer moved later: schedule an event for then.
    Again(SimTime),
    /// The timer is due. It is off now.
    Due,
}

impl Default for Timer {
    fn default() -> Self {
        Self { due: SimTime::NEVER, scheduled: SimTime::NEVER }
    }
}

impl Timer {
    /// Whether it will fire.
    pub fn is_set(&self) -> bool {
        self.due != SimTime::NEVER
    }

    /// Sets or moves the timer. Returns the time for which the caller must schedule an event, if
    /// any.
    #[inline]
    #[must_use]
    pub fn set(&mut self, due: SimTime) -> Option<SimTime> {
        self.due = due;
        if due < self.scheduled {
            self.scheduled = due;
            return Some(due);
        }
        None
    }

    /// Switches the timer off.
    #[inline]
    pub fn cancel(&mut self) {
        self.due = SimTime::NEVER;
    }

    /// Handles an event of this timer.
    #[inline]
    #[must_use]
    pub fn fire(&mut self, now: SimTime) -> Fired {
        if now != self.scheduled {
            return Fired::Stale;
        }
        if self.due <= now {
            *self = Self::default();
            return Fired::Due;
        }
        self.scheduled = self.due;
        if self.is_set() { Fired::Again(self.due) } else { Fired::Stale }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_costs_no_event_and_earlier_makes_the_old_one_stale() {
        let ms = SimTime::from_millis;
        let mut timer = Timer::default();
        assert_eq!(timer.set(ms(200)), Some(ms(200)));
        assert_eq!(timer.set(ms(210)), None);
        assert_eq!(timer.fire(ms(200)), Fired::Again(ms(210)));
        assert_eq!(timer.set(ms(205)), Some(ms(205)));
        assert_eq!(timer.fire(ms(205)), Fired::Due);
        assert_eq!(timer.fire(ms(210)), Fired::Stale);
        assert_eq!(timer.set(ms(300)), Some(ms(300)));
        timer.cancel();
        assert_eq!(timer.fire(ms(300)), Fired::Stale);
        assert!(!timer.is_set());
    }
}
