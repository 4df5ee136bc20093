//! [`Deadlines`]: the next event of each of many flows.

use std::collections::{BTreeMap, BTreeSet};
use weir_units::Instant;

/// At most one time for each key.
#[derive(Debug, Clone)]
pub(crate) struct Deadlines<K> {
    times: BTreeMap<K, Instant>,
    order: BTreeSet<(Instant, K)>,
}

impl<K: Copy + Ord> Deadlines<K> {
    pub(crate) fn new() -> Self {
        Self { times: BTreeMap::new(), order: BTreeSet::new() }
    }

    /// The time of a key, in place of the one before.
    pub(crate) fn set(&mut self, key: K, time: Option<Instant>) {
        let before = match time {
            Some(time) => self.times.insert(key, time),
            None => self.times.remove(&key),
        };
        if before == time {
            return;
        }
        if let Some(before) = before {
            self.order.remove(&(before, key));
        }
        if let Some(time) = time {
            self.order.insert((time, key));
        }
    }

    /// The keys that have a time.
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    /// The earliest time.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.order.first().map(|&(time, _)| time)
    }

    /// The keys that are due at `now`.
    pub(crate) fn due(&self, now: Instant) -> impl Iterator<Item = K> + '_ {
        self.order.iter().take_while(move |(time, _)| *time <= now).map(|(_, key)| *key)
    }

    /// Removes the earliest key that is due at `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<K> {
        let &(time, key) = self.order.first()?;
        if time > now {
            return None;
        }
        self.order.remove(&(time, key));
        self.times.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_due_in_order_of_their_last_times() {
        let at = Instant::from_nanos;
        let mut deadlines = Deadlines::new();
        for (key, time) in [(1, 30), (2, 20), (3, 10), (1, 5), (3, 40)] {
            deadlines.set(key, Some(at(time)));
        }
        deadlines.set(2, None);
        deadlines.set(1, Some(at(5)));
        assert_eq!((deadlines.first(), deadlines.len()), (Some(at(5)), 2));
        assert_eq!([4, 39, 40].map(|now| deadlines.due(at(now)).collect::<Vec<_>>()), [vec![], vec![1], vec![1, 3]]);
        assert_eq!(
            [at(4), at(5), at(39), at(40), at(99)].map(|now| deadlines.pop(now)),
            [None, Some(1), None, Some(3), None]
        );
        assert_eq!(deadlines.first(), None);
    }
}
