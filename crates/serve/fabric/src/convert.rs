//! Conversion between the messages of a stream and the brokers' own.
//!
//! Problem: protobuf does not bound the values of a field, and brokers must only process messages
//! that a broker could have made. Approach: parse, don't validate. [`report`] and [`limits`] return
//! the broker's own type or the error, and no other code of this crate reads a field. The broker
//! itself checks what depends on the policy, such as whether a service exists.
//!
//! A part must also fit a rack datagram, since a rack leader relays limits in its rack
//! (`weir_control::wire`).
//!
//! Worked example: a demand of 10 Gb/s to the bit is refused, since its quantised rate is
//! 9,999,941,632 b/s.

use crate::proto;
use weir_control::rate::rounded;
use weir_control::{EpochNotice, LARGEST_CLAIM, RackLimits, RackReport, RateRow};
use weir_units::{Bandwidth, MachineId, PerDirection, RackId, ServiceId};

/// The defect of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No message at all, or one of a later version.
    #[error("a message of an unknown kind")]
    Empty,
    /// The range of services ends before it begins.
    #[error("services {first} to {last} are an empty range")]
    Range {
        /// The first service.
        first: u32,
        /// The last service.
        last: u32,
    },
    /// A service outside of the range, twice, or not ascending.
    #[error("service {0} is out of range or out of order")]
    Order(u32),
    /// A rate that no broker sends: above the largest, or not quantised.
    #[error("service {service} has a rate of {bps} b/s, which is not a quantised rate")]
    Rate {
        /// The service.
        service: u32,
        /// Its rate.
        bps: u64,
    },
    /// An epoch above the largest that a notice may have.
    #[error("a notice of epoch {0}, and the largest one is {LARGEST_CLAIM}")]
    Epoch(u64),
    /// More rows than a datagram of the rack takes.
    #[error("{0} services are more than one part has room for")]
    Size(usize),
}

fn rate(service: u32, bps: u64) -> Result<Bandwidth, Malformed> {
    let rate = Bandwidth::from_bps(bps);
    let reported = rate <= Bandwidth::MAX && rounded(rate) == rate;
    if reported { Ok(rate) } else { Err(Malformed::Rate { service, bps }) }
}

fn rows<R>(
    (first, last): (u32, u32),
    rows: &[R],
    row: impl Fn(&R) -> Result<RateRow, Malformed>,
) -> Result<Vec<RateRow>, Malformed> {
    if first > last {
        return Err(Malformed::Range { first, last });
    }
    // Checked before the rows: the smallest row has 7 bytes.
    if rows.len() > weir_control::parts::ROWS_PER_PART {
        return Err(Malformed::Size(rows.len()));
    }
    let mut taken: Vec<RateRow> = Vec::with_capacity(rows.len());
    for row in rows.iter().map(row) {
        let row = row?;
        let service = row.service.0;
        let ascends = taken.last().is_none_or(|before| before.service < row.service);
        if !ascends || service < first || service > last {
            return Err(Malformed::Order(service));
        }
        taken.push(row);
    }
    if !weir_control::wire::rows_fit(ServiceId(first), &taken) {
        return Err(Malformed::Size(rows.len()));
    }
    Ok(taken)
}

/// The report of `machine`, whose stream it arrived by.
pub fn report(machine: MachineId, report: &proto::Report) -> Result<RackReport, Malformed> {
    let proto::Report { policy, epoch, round, first, last, ref demands } = *report;
    let row = |row: &proto::Demand| {
        let rates = PerDirection { tx: rate(row.service, row.tx_bps)?, rx: rate(row.service, row.rx_bps)? };
        Ok(RateRow { service: ServiceId(row.service), rates })
    };
    let rows = rows((first, last), demands, row)?;
    Ok(RackReport { machine, policy, epoch, round, first: ServiceId(first), last: ServiceId(last), rows })
}

/// A rack's limits.
pub fn limits(limits: &proto::Limits) -> Result<RackLimits, Malformed> {
    let proto::Limits { rack, policy, epoch, round, first, last, limits: ref reported } = *limits;
    let row = |row: &proto::Limit| {
        let limit = |bps: Option<u64>| bps.map_or(Ok(Bandwidth::UNLIMITED), |bps| rate(row.service, bps));
        let rates = PerDirection { tx: limit(row.tx_bps)?, rx: limit(row.rx_bps)? };
        Ok(RateRow { service: ServiceId(row.service), rates })
    };
    let rows = rows((first, last), reported, row)?;
    Ok(RackLimits { rack: RackId(rack), policy, epoch, round, first: ServiceId(first), last: ServiceId(last), rows })
}

/// The notice of a message from a machine, or from the fabric broker without one. The receiver is not in it.
pub fn epoch_notice(from: Option<MachineId>, message: &proto::Known) -> Result<EpochNotice, Malformed> {
    let &proto::Known { policy, epoch, round } = message;
    if epoch > LARGEST_CLAIM {
        return Err(Malformed::Epoch(epoch));
    }
    Ok(EpochNotice { from, policy, to: None, epoch, round })
}

fn known(notice: &EpochNotice) -> proto::Known {
    proto::Known { policy: notice.policy, epoch: notice.epoch, round: notice.round }
}

/// The message of a notice to the fabric broker.
pub fn from_notice_to_broker(notice: &EpochNotice) -> proto::FromLeader {
    proto::FromLeader { message: Some(proto::from_leader::Message::Notice(known(notice))) }
}

/// The message of a notice to a machine.
pub fn from_notice_to_machine(notice: &EpochNotice) -> proto::FromBroker {
    proto::FromBroker { message: Some(proto::from_broker::Message::Notice(known(notice))) }
}

/// The message of a report.
pub fn from_report(report: &RackReport) -> proto::FromLeader {
    proto::FromLeader { message: Some(proto::from_leader::Message::Report(report_fields(report))) }
}

/// The message of a reply to a proposal.
pub fn from_reply(reply: &RackReport) -> proto::FromLeader {
    proto::FromLeader { message: Some(proto::from_leader::Message::Reply(report_fields(reply))) }
}

fn report_fields(report: &RackReport) -> proto::Report {
    let demand = |row: &RateRow| proto::Demand {
        service: row.service.0,
        tx_bps: row.rates.tx.bps(),
        rx_bps: row.rates.rx.bps(),
    };
    proto::Report {
        policy: report.policy,
        epoch: report.epoch,
        round: report.round,
        first: report.first.0,
        last: report.last.0,
        demands: report.rows.iter().map(demand).collect(),
    }
}

/// The message of limits.
pub fn from_limits(limits: &RackLimits) -> proto::FromBroker {
    proto::FromBroker { message: Some(proto::from_broker::Message::Limits(limits_fields(limits))) }
}

/// The message of proposed limits.
pub fn from_proposal(limits: &RackLimits) -> proto::FromBroker {
    proto::FromBroker { message: Some(proto::from_broker::Message::Proposal(limits_fields(limits))) }
}

fn limits_fields(limits: &RackLimits) -> proto::Limits {
    let rate = |rate: Bandwidth| (!rate.is_unlimited()).then(|| rate.bps());
    let limit =
        |row: &RateRow| proto::Limit { service: row.service.0, tx_bps: rate(row.rates.tx), rx_bps: rate(row.rates.rx) };
    proto::Limits {
        rack: limits.rack.0,
        policy: limits.policy,
        epoch: limits.epoch,
        round: limits.round,
        first: limits.first.0,
        last: limits.last.0,
        limits: limits.rows.iter().map(limit).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn a_report() -> proto::Report {
        let demands = vec![
            proto::Demand { service: 1, tx_bps: 8_000, rx_bps: 0 },
            proto::Demand { service: 3, tx_bps: 152_587 << 16, rx_bps: 1 },
        ];
        proto::Report { policy: 7, epoch: 1, round: 2, first: 1, last: 9, demands }
    }

    #[test]
    fn each_bad_field_has_its_own_error() {
        let refused = |change: fn(&mut proto::Report)| {
            let mut altered = a_report();
            change(&mut altered);
            report(MachineId(0), &altered).expect_err("refused")
        };
        assert_eq!(report(MachineId(4), &a_report()).expect("a report").machine, MachineId(4));
        assert_eq!(refused(|r| r.first = 10), Malformed::Range { first: 10, last: 9 });
        assert_eq!(refused(|r| r.first = 2), Malformed::Order(1));
        assert_eq!(refused(|r| r.last = 2), Malformed::Order(3));
        assert_eq!(refused(|r| r.demands[1].service = 1), Malformed::Order(1));
        assert_eq!(refused(|r| r.demands.swap(0, 1)), Malformed::Order(1));
        let exact = 10_000_000_000;
        assert_eq!(
            refused(|r| r.demands[0].rx_bps = 10_000_000_000),
            Malformed::Rate { service: 1, bps: exact },
            "the worked example"
        );
        assert_eq!(refused(|r| r.demands[0].tx_bps = u64::MAX), Malformed::Rate { service: 1, bps: u64::MAX });
        let rows = |rows: u32, step: u32| {
            let demand = |index| proto::Demand { service: index * step, tx_bps: 1, rx_bps: 1 };
            let altered =
                proto::Report { first: 0, last: u32::MAX, demands: (0..rows).map(demand).collect(), ..a_report() };
            report(MachineId(0), &altered).map(|report| report.rows.len())
        };
        assert_eq!(rows(167, 1), Ok(167));
        assert_eq!(rows(168, 1), Err(Malformed::Size(168)));
        assert_eq!(
            rows(167, 128),
            Err(Malformed::Size(167)),
            "service ids with distances of two bytes leave room for fewer"
        );
    }

    #[test]
    fn absent_limit_is_unlimited() {
        let reported = vec![proto::Limit { service: 1, tx_bps: Some(8_000), rx_bps: None }];
        let message = proto::Limits { policy: 7, epoch: 1, round: 2, first: 0, last: 9, limits: reported, rack: 3 };
        let parsed = limits(&message).expect("limits");
        assert_eq!(parsed.rows[0].rates, PerDirection { tx: Bandwidth::from_bps(8_000), rx: Bandwidth::UNLIMITED });
        assert_eq!(parsed.rack, RackId(3));
        let mut unlimited = message;
        unlimited.limits[0].rx_bps = Some(u64::MAX);
        assert_eq!(
            limits(&unlimited),
            Err(Malformed::Rate { service: 1, bps: u64::MAX }),
            "unlimited has one encoding"
        );
    }

    #[test]
    fn notices_survive_conversion_up_to_the_largest_claim() {
        let sent = EpochNotice { from: None, policy: 7, to: None, epoch: LARGEST_CLAIM, round: 3 };
        let proto::FromBroker { message: Some(proto::from_broker::Message::Notice(message)) } =
            from_notice_to_machine(&sent)
        else {
            panic!("a notice")
        };
        assert_eq!(epoch_notice(None, &message), Ok(sent));
        let of_machine = EpochNotice { from: Some(MachineId(2)), ..sent };
        let proto::FromLeader { message: Some(proto::from_leader::Message::Notice(message)) } =
            from_notice_to_broker(&of_machine)
        else {
            panic!("a notice")
        };
        assert_eq!(epoch_notice(Some(MachineId(2)), &message), Ok(of_machine));
        let larger = proto::Known { epoch: LARGEST_CLAIM + 1, ..message };
        assert_eq!(epoch_notice(None, &larger), Err(Malformed::Epoch(LARGEST_CLAIM + 1)));
    }

    fn rates() -> impl Strategy<Value = Vec<(u32, u64, Option<u64>)>> {
        let reported = |bps: u64| rounded(Bandwidth::from_bps(bps)).bps();
        let rate = (0u64..=Bandwidth::MAX.bps()).prop_map(reported);
        let row = (1u32..100, rate.clone(), proptest::option::of(rate));
        proptest::collection::vec(row, 0..100).prop_map(|rows| {
            let mut service = 0;
            rows.into_iter()
                .map(|(step, tx, rx)| {
                    service += step;
                    (service, tx, rx)
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn messages_of_brokers_survive_conversion(rates in rates(), stamp: (u64, u64, u64)) {
            let row = |(service, tx, rx): &(u32, u64, Option<u64>), none| RateRow {
                service: ServiceId(*service),
                rates: PerDirection { tx: Bandwidth::from_bps(*tx), rx: rx.map_or(none, Bandwidth::from_bps) },
            };
            let (policy, epoch, round) = stamp;
            let (first, last) = (ServiceId(0), ServiceId(u32::MAX));
            let rows = rates.iter().map(|rate| row(rate, Bandwidth::ZERO)).collect();
            let sent = RackReport { machine: MachineId(5), policy, epoch, round, first, last, rows };
            let proto::FromLeader { message: Some(proto::from_leader::Message::Report(message)) } = from_report(&sent)
                else { panic!("a report") };
            prop_assert_eq!(report(MachineId(5), &message), Ok(sent));
            let rows = rates.iter().map(|rate| row(rate, Bandwidth::UNLIMITED)).collect();
            let sent = RackLimits { rack: RackId(2), policy, epoch, round, first, last, rows };
            let proto::FromBroker { message: Some(proto::from_broker::Message::Limits(message)) } = from_limits(&sent)
                else { panic!("limits") };
            prop_assert_eq!(limits(&message), Ok(sent));
        }
    }
}
