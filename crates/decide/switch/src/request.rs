//! [`Request`]: what a policy needs of a port, and its lowering to a [`PortConfig`].
//!
//! Problem: mechanisms need different things of the same queues: Parley's law an ECN threshold, latency levels strict
//! queues, tenants and credits weighted ones; and switches offer different queues. Approach: one function from what is
//! needed and what is offered to the queues of a port:
//!
//! | queues | numbers | of |
//! |---|---|---|
//! | shared | 0 | all DSCP values that nothing else has |
//! | groups | from 1 | the DSCP values of each group, by weight |
//! | credits | after the groups | data with credits, by weight or strict, if other traffic has a part of the ports |
//! | network control | below the levels | CS6 and CS7 beside levels, and messages of credits; strict, if one is left |
//! | levels | the highest | the DSCP values of each level, strict; the most urgent has the highest number |
//!
//! Network control (routing protocols) is below the levels, whose bounds would otherwise depend on its traffic, and
//! above everything else. Without a queue of its own it is in the shared one, as on switches with one queue. Ports to
//! machines re-mark its values beside levels, since a guest could otherwise precede all services with them.
//!
//! Messages of credits are with network control: few, and a period must not be shorter than their round trip. Without a
//! strict queue they are with the data of credits, whose queue is bounded. A strict queue of data takes no more than
//! ports grant from the weighted ones. A queue of data has no ECN threshold: it may hold 2 R p without congestion, and
//! a sender that slows down below its credits leaves a part of its share unused.
//!
//! On switches with strict queues alone the shared queue is strict too, and the least urgent. A switch without
//! schedulers ([`Scheduler::Plain`]) has one queue.
//!
//! Worked example: levels {46} and {34}, no groups, on 8 strict queues: queues 0 (shared), 1 (48, 56), 2 (34), 3 (46).
//! Credits with 60 % beside other services on 2 strict and 6 weighted queues: 0 (shared, weight 2), 1 (10, weight 3),
//! 2 (40, strict).
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

/// The DSCP values of credits at switches that grant them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreditClasses {
    /// The value of data, and the service of its queue; `None`: it is in the shared queue.
    pub data: Option<(u8, Schedule)>,
    /// The value of messages.
    pub messages: u8,
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
    /// Credits, where switches grant them.
    pub credits: Option<CreditClasses>,
    /// The weight of the queue of all other traffic, at least 1.
    pub shared: u16,
}

impl Needs {
    /// One queue with an ECN threshold: what Parley needs.
    pub fn marks(mark: Bytes) -> Self {
        Self { mark: Some(mark), levels: Vec::new(), groups: Vec::new(), credits: None, shared: 1 }
    }
    /// The needs at one port, with its rate and buffer.
    pub fn of_port(&self, rate: Option<Bandwidth>, buffer: Option<Bytes>) -> Request {
        Request { rate, buffer, credit_buffer: buffer, needs: self.clone() }
    }
}

/// The needs of a policy at a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The rate to which the port is limited; `None`: its line rate.
    pub rate: Option<Bandwidth>,
    /// The buffer of each queue; `None`: the switch's default.
    pub buffer: Option<Bytes>,
    /// The buffer of the queue of data with credits; `None`: the switch's default.
    pub credit_buffer: Option<Bytes>,
    /// The needs at all ports of the network.
    pub needs: Needs,
}

impl Request {
    /// One queue with an ECN threshold: what Parley needs.
    pub fn plain(rate: Option<Bandwidth>, buffer: Option<Bytes>, mark: Option<Bytes>) -> Self {
        let needs = Needs { mark, levels: Vec::new(), groups: Vec::new(), credits: None, shared: 1 };
        Self { rate, buffer, credit_buffer: buffer, needs }
    }

    /// The same with another buffer of the queue of data with credits.
    #[must_use]
    pub fn with_credit_buffer(self, credit_buffer: Option<Bytes>) -> Self {
        Self { credit_buffer, ..self }
    }

    /// The configuration of a port of such switches. Refuses more levels or groups than the switches have queues for, a
    /// DSCP value above 63 or with two queues, and values that no port can have ([`PortConfig::new`]).
    pub fn lower(&self, offer: Offer) -> Result<PortConfig, FieldError> {
        let (strict, weighted) = offer.available();
        let Needs { mark, levels, groups, credits, shared } = &self.needs;
        let data = credits.and_then(|credits| credits.data);
        let of_data = |is_strict| usize::from(data.is_some_and(|(_, schedule)| schedule.is_strict() == is_strict));
        let (strict_needed, weighted_needed) = (levels.len() + of_data(true), groups.len() + of_data(false));
        for (noun, needed, available) in [("levels", strict_needed, strict), ("groups", weighted_needed, weighted)] {
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
        queues.extend(data.map(|(_, schedule)| QueueConfig { schedule, mark: None, buffer: self.credit_buffer }));
        let of_groups = groups.iter().map(|group| &group.dscps);
        let taken: Vec<u8> = levels.iter().chain(of_groups.clone()).flatten().copied().collect();
        let mut control = self.control(&taken);
        let is_left = strict_needed < strict && !control.is_empty();
        let mut of_credits: Option<Vec<u8>> = data.map(|(dscp, _)| vec![dscp]);
        if !is_left {
            // Beside network control, whose values then have the shared queue.
            of_credits.iter_mut().for_each(|own| own.extend(credits.map(|credits| credits.messages)));
            control.clear();
        }
        let control = is_left.then_some(control);
        queues.extend(control.iter().chain(levels).map(|_| queue(Schedule::Strict)));
        let sets = of_groups.chain(&of_credits).chain(&control).chain(levels.iter().rev());
        PortConfig::new(self.rate, queues, map(sets)?)
    }

    /// The values of the strict queue below the levels: network control beside levels, and messages of credits, as far
    /// as others have not `taken` them.
    fn control(&self, taken: &[u8]) -> Vec<u8> {
        let beside_levels = CONTROL.into_iter().filter(|dscp| !self.needs.levels.is_empty() && !taken.contains(dscp));
        beside_levels.chain(self.needs.credits.map(|credits| credits.messages)).collect()
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
        let mark = Some(Bytes::new(80_000));
        Needs { levels, groups, credits: None, shared: 5, mark }.of_port(None, None).lower(offer)
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

    /// A port for credits whose data has this queue, and for these levels.
    fn with_credits(offer: Offer, levels: &[&[u8]], queue: Option<Schedule>) -> PortConfig {
        let credits = Some(CreditClasses { data: queue.map(|schedule| (10, schedule)), messages: 40 });
        let levels = levels.iter().map(|dscps| dscps.to_vec()).collect();
        let needs = Needs { levels, credits, shared: 2, ..Needs::marks(Bytes::new(80_000)) };
        let request = needs.of_port(None, Some(Bytes::new(256_000))).with_credit_buffer(Some(Bytes::new(300_000)));
        request.lower(offer).expect("valid")
    }

    #[test]
    fn data_with_credits_has_its_weight_and_messages_are_above() {
        let mixed = Offer { queues: 8, scheduler: Scheduler::Mixed { strict: 2, weighted: 6 } };
        let queues_of = |config: &PortConfig| [0, 10, 40, 46, 48].map(|dscp| config.map().queue(dscp));
        let weight = Some(Schedule::Weighted(3));
        let config = with_credits(mixed, &[], weight);
        assert_eq!(schedules(&config), [Schedule::Weighted(2), Schedule::Weighted(3), Schedule::Strict]);
        assert_eq!(queues_of(&config), [0, 1, 2, 0, 0]);
        let (marks, buffers): (Vec<_>, Vec<_>) = config.queues().map(|queue| (queue.mark, queue.buffer)).unzip();
        let bytes = |bytes| Some(Bytes::new(bytes));
        assert_eq!(marks, [bytes(80_000), None, bytes(80_000)]);
        assert_eq!(buffers, [bytes(256_000), bytes(300_000), bytes(256_000)]);
        // Below a level, with network control.
        let config = with_credits(mixed, &[&[46]], weight);
        assert_eq!((schedules(&config).len(), queues_of(&config)), (4, [0, 1, 2, 3, 2]));
        // Without a strict queue for them, messages are with the data, and network control is in the shared queue.
        let config = with_credits(mixed, &[&[46], &[34]], weight);
        assert_eq!((schedules(&config).len(), queues_of(&config)), (4, [0, 1, 1, 3, 0]));
        let weighted = Offer { queues: 8, scheduler: Scheduler::Weighted };
        let config = with_credits(weighted, &[], weight);
        assert_eq!((schedules(&config).len(), queues_of(&config)), (2, [0, 1, 1, 0, 0]));
        // Alone: one queue for all data.
        assert_eq!(queues_of(&with_credits(mixed, &[], None)), [0, 0, 1, 0, 0]);
        assert_eq!(queues_of(&with_credits(Offer::PLAIN, &[], None)), [0; 5]);
    }

    #[test]
    fn strict_queues_of_data_are_below_network_control() {
        let of = |strict, levels: &[&[u8]]| {
            let offer = Offer { queues: 8, scheduler: Scheduler::Mixed { strict, weighted: 5 } };
            let config = with_credits(offer, levels, Some(Schedule::Strict));
            (config.queues().len(), [0, 10, 40, 46, 48].map(|dscp| config.map().queue(dscp)))
        };
        assert_eq!(of(3, &[&[46]]), (4, [0, 1, 2, 3, 2]));
        assert_eq!(of(2, &[]), (3, [0, 1, 2, 0, 0]));
        assert_eq!(of(1, &[]), (2, [0, 1, 1, 0, 0]));
        assert_eq!(of(2, &[&[46]]), (3, [0, 1, 1, 2, 0]));
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
