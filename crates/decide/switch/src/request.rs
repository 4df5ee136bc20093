//! [`Request`]: what a policy needs of a port, and its lowering to a [`PortConfig`].
//!
//! Problem: mechanisms need different things of the same queues: Parley's law an ECN threshold, latency levels strict
//! queues, tenants weighted ones; and switches offer different queues. Approach: one function from what is needed and
//! what is offered to the queues of a port:
//!
//! | queues | numbers | of |
//! |---|---|---|
//! | shared | 0 | all DSCP values that nothing else has |
//! | groups | from 1 | the DSCP values of each group, by weight |
//! | network control | below the levels | CS6 and CS7 beside levels, strict, if a queue is left |
//! | levels | the highest | the DSCP values of each level, strict; the most urgent has the highest number |
//!
//! Network control (routing protocols) is below the levels, whose bounds would otherwise depend on its traffic, and
//! above everything else. Without a queue of its own it is in the shared one, as on switches with one queue. Ports to
//! machines re-mark its values beside levels, since a guest could otherwise precede all services with them.
//!
//! On switches with strict queues alone the shared queue is strict too, and the least urgent. A switch without
//! schedulers ([`Scheduler::Plain`]) has one queue.
//!
//! Worked example: levels {46} and {34}, no groups, on 8 strict queues: queues 0 (shared), 1 (48, 56), 2 (34), 3 (46).
//!
//! Source: QJump's slides (levels), QShare §IV (tenants' queues beside a shared one); Parley Table 1 (threshold); RFC
//! 4594 (CS6 for network control), RFC 2474 (CS6 and CS7 before all others).

use crate::change::Field;
use crate::port::{DSCPS, DscpMap, FieldError, PortConfig, QueueConfig, Schedule};
use weir_network::switches::{Offer, Scheduler};
use weir_units::{Bandwidth, Bytes};

pub(crate) use weir_network::switches::NETWORK_CONTROL as CONTROL;

/// Traffic with a weighted queue of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its DSCP values.
    pub dscps: Vec<u8>,
    /// Its weight, at least 1.
    pub weight: u16,
}

/// The needs of a policy at all ports of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// The ECN threshold of each queue; `None`: no marks.
    pub mark: Option<Bytes>,
    /// The DSCP values of each latency level, the most urgent level first.
    pub levels: Vec<Vec<u8>>,
    /// Traffic with weighted queues.
    pub groups: Vec<Group>,
    /// The weight of the queue of all other traffic, at least 1.
    pub shared: u16,
}

impl Needs {
    /// One queue with an ECN threshold: what Parley needs.
    pub fn marks(mark: Bytes) -> Self {
        Self { mark: Some(mark), levels: Vec::new(), groups: Vec::new(), shared: 1 }
    }
    /// The needs at one port, with its rate and buffer.
    pub fn of_port(&self, rate: Option<Bandwidth>, buffer: Option<Bytes>) -> Request {
        Request { rate, buffer, needs: self.clone() }
    }
}

/// The needs of a policy at a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The rate to which the port is limited; `None`: its line rate.
    pub rate: Option<Bandwidth>,
    /// The buffer of each queue; `None`: the switch's default.
    pub buffer: Option<Bytes>,
    /// The needs at all ports of the network.
    pub needs: Needs,
}

impl Request {
    /// One queue with an ECN threshold: what Parley needs.
    pub fn plain(rate: Option<Bandwidth>, buffer: Option<Bytes>, mark: Option<Bytes>) -> Self {
        Self { rate, buffer, needs: Needs { mark, levels: Vec::new(), groups: Vec::new(), shared: 1 } }
    }

    /// The configuration of a port of such switches. Refuses more levels or groups than the switches have queues for, a
    /// DSCP value above 63 or with two queues, and values that no port can have ([`PortConfig::new`]).
    pub fn lower(&self, offer: Offer) -> Result<PortConfig, FieldError> {
        let (strict, weighted) = offer.available();
        let Needs { mark, levels, groups, shared } = &self.needs;
        for (noun, needed, available) in [("levels", levels.len(), strict), ("groups", groups.len(), weighted)] {
            if needed > available {
                let cause = format!("{needed} needed for {noun}, {available} available beside the shared one");
                let hint = format!("use fewer {noun}, or switches with more queues");
                return Err(FieldError::new(Field::Queues, cause, hint));
            }
        }
        let queue = |schedule| QueueConfig { schedule, mark: *mark, buffer: self.buffer };
        let shared = if offer.scheduler == Scheduler::Strict { Schedule::Strict } else { Schedule::Weighted(*shared) };
        let mut queues = vec![queue(shared)];
        queues.extend(groups.iter().map(|group| queue(Schedule::Weighted(group.weight))));
        let of_groups = groups.iter().map(|group| &group.dscps);
        let taken: Vec<u8> = levels.iter().chain(of_groups.clone()).flatten().copied().collect();
        let control: Vec<u8> = CONTROL.into_iter().filter(|dscp| !taken.contains(dscp)).collect();
        let left = !levels.is_empty() && levels.len() < strict && !control.is_empty();
        let control = left.then_some(control);
        queues.extend(control.iter().chain(levels).map(|_| queue(Schedule::Strict)));
        let sets = of_groups.chain(&control).chain(levels.iter().rev());
        PortConfig::new(self.rate, queues, map(sets)?)
    }
}

/// The map that assigns the values of each set to the next queue, from 1 on, and all others to queue 0.
fn map<'a>(sets: impl Iterator<Item = &'a Vec<u8>>) -> Result<DscpMap, FieldError> {
    let mut map = DscpMap::all(0);
    for (queue, set) in (1..).zip(sets) {
        for &dscp in set {
            if usize::from(dscp) >= DSCPS {
                let hint = "DSCP values are 0 to 63";
                return Err(FieldError::new(Field::Dscp(dscp), "no such value", hint));
            }
            let taken = map.queue(dscp);
            if taken != 0 && taken != queue {
                let cause = format!("belongs in queue {taken} and in queue {queue}");
                return Err(FieldError::new(Field::Dscp(dscp), cause, "give each level and group values of its own"));
            }
            map.assign(dscp, queue);
        }
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(offer: Offer, levels: &[&[u8]], groups: &[(&[u8], u16)]) -> Result<PortConfig, FieldError> {
        let groups = groups.iter().map(|(dscps, weight)| Group { dscps: dscps.to_vec(), weight: *weight }).collect();
        let levels = levels.iter().map(|dscps| dscps.to_vec()).collect();
        Needs { levels, groups, shared: 5, mark: Some(Bytes::new(80_000)) }.of_port(None, None).lower(offer)
    }

    fn schedules(config: &PortConfig) -> Vec<Schedule> {
        config.queues().map(|queue| queue.schedule).collect()
    }

    #[test]
    fn plain_switches_get_one_queue_with_a_threshold() {
        let config = Request::plain(None, None, Some(Bytes::new(80_000))).lower(Offer::PLAIN).expect("valid");
        assert_eq!(schedules(&config), [Schedule::Weighted(1)]);
        assert_eq!(config.map(), DscpMap::all(0));
        assert!(config.queues().all(|queue| queue.mark == Some(Bytes::new(80_000))));
    }

    #[test]
    fn the_most_urgent_level_has_the_highest_queue() {
        let offer = Offer { queues: 8, scheduler: Scheduler::Strict };
        let config = of(offer, &[&[46], &[34]], &[]).expect("valid");
        assert_eq!(schedules(&config), [Schedule::Strict; 4]);
        assert_eq!([0, 34, 46, 48, 56].map(|dscp| config.map().queue(dscp)), [0, 2, 3, 1, 1]);
        // No queue is left for network control, or a level has its values.
        let offer = Offer { queues: 3, ..offer };
        let config = of(offer, &[&[46], &[34]], &[]).expect("valid");
        assert_eq!([0, 34, 46, 48].map(|dscp| config.map().queue(dscp)), [0, 1, 2, 0]);
        let config = of(offer, &[&[48]], &[]).expect("valid");
        assert_eq!([0, 48, 56].map(|dscp| config.map().queue(dscp)), [0, 2, 1]);
    }

    #[test]
    fn levels_and_groups_share_the_queues_of_a_mixed_port() {
        let offer = Offer { queues: 8, scheduler: Scheduler::Mixed { strict: 2, weighted: 6 } };
        let config = of(offer, &[&[46, 47], &[34]], &[(&[10], 2), (&[12], 3)]).expect("valid");
        let weights = [5, 2, 3].map(Schedule::Weighted);
        assert_eq!(schedules(&config), [&weights[..], &[Schedule::Strict; 2]].concat());
        assert_eq!([0, 10, 12, 34, 46, 47].map(|dscp| config.map().queue(dscp)), [0, 1, 2, 3, 4, 4]);
    }

    #[test]
    fn more_than_the_switches_offer_is_refused() {
        let text = |result: Result<PortConfig, FieldError>| result.expect_err("refused").to_string();
        let strict = Offer { queues: 2, scheduler: Scheduler::Strict };
        let needs = "queues: 2 needed for levels, 1 available beside the shared one";
        assert_eq!(text(of(strict, &[&[46], &[34]], &[])), needs);
        assert!(text(of(strict, &[], &[(&[10], 1)])).starts_with("queues: 1 needed for groups"));
        assert!(text(of(Offer::PLAIN, &[&[46]], &[])).contains(", 0 available beside"));
        let both = Offer { queues: 8, scheduler: Scheduler::Mixed { strict: 2, weighted: 6 } };
        assert_eq!(text(of(both, &[&[10]], &[(&[10], 1)])), "DSCP 10: belongs in queue 1 and in queue 3");
        assert_eq!(text(of(both, &[&[64]], &[])), "DSCP 64: no such value");
    }
}
