//! Datagrams of the brokers.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | `WEIR` |
//! | 1 | format version, 2 |
//! | 1 | kind: 1 usage report, 2 relayed limits, 3 rack report, 4 rack limits, 5 proposed, 6 reply, 7 and 8 notices |
//! | 2 | number of rows |
//! | 8 | fingerprint of the sender's policy |
//! | 8, 8 | epoch and round: of the machine (1, 3, 8) or the fabric broker (2, 4); epoch and exchange (5, 6) |
//! | 4 | the sending machine (1, 3, 6, 7, 8), or the rack to which the limits apply (2, 4, 5) |
//! | 4, 4 | first and last service covered; in kinds 7 and 8 zero, and a field of the notice |
//! | 2 | only in kind 2: age of the limits in 10 ms, rounded up |
//! | 7 to 11 each | rows: a service and two rates, see `rows.rs` |
//! | 16 | tag over all preceding bytes, see `key.rs` |
//!
//! Kind 7 is the newest epoch and round that the sender has received of another broker. Its field is that broker,
//! where the fabric broker has the number 2³² - 1. The first service is 1 in a notice about the fabric broker to the
//! rack. Kind 8 is whether the sender is shut out of the fabric broker, as 0 or 1.
//!
//! Fixed fields are big-endian. Only the magic number and the version are read before the tag is
//! verified. Each value has exactly one encoding, so a datagram that decodes encodes to the same
//! bytes. A datagram has at most 1232 bytes: with the UDP and IPv6 headers it is 1280 bytes, the
//! minimum MTU of IPv6.
//!
//! Replay: the tag does not prove freshness, `(epoch, round)` does. Brokers keep the newest pair of
//! each sender, and ignore and count older datagrams.
//!
//! Worked example: 1,000 active services with consecutive ids take 6 datagrams of 60 + 7 · 167 =
//! 1229 bytes (the last one has 1215).
//!
//! Deviates from the paper in: both directions and a tag. Parley §6.2 estimates 8 bytes per
//! service.

use super::key::{Key, TAG_LEN};
use super::rows::{self, FabricRow};
use crate::{
    EpochNotice, FabricInput, Input, LARGEST_CLAIM, LimitsRelay, RackLimits, RackReport, ShutOutNotice, UsageReport,
};
use weir_units::{Duration, MachineId, RackId, ServiceId};

const MAGIC: &[u8; 4] = b"WEIR";
/// The format version that this code encodes and decodes.
pub const VERSION: u8 = 2;
/// The maximum size of a datagram in bytes: 1280 less 40 of IPv6 and 8 of UDP.
pub const LARGEST: usize = 1_232;
const KIND_USAGE: u8 = 1;
const KIND_RELAY: u8 = 2;
const KIND_RACK_REPORT: u8 = 3;
const KIND_RACK_LIMITS: u8 = 4;
const KIND_PROPOSAL: u8 = 5;
const KIND_REPLY: u8 = 6;
const KIND_EPOCH: u8 = 7;
const KIND_SHUT_OUT: u8 = 8;
/// The fabric broker in place of a machine.
const FABRIC_BROKER: u32 = u32::MAX;
const HEADER_LEN: usize = 44;
/// The unit of a relay's age.
const AGE_STEP: Duration = Duration::from_millis(10);

/// The content of a datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// From a machine to the others of its rack: the usage of services.
    Usage(UsageReport),
    /// From a machine to the others of its rack: the fabric broker's limits.
    Relay(LimitsRelay),
    /// From a rack's leader to the fabric broker: the rack's demands.
    RackReport(RackReport),
    /// From the fabric broker to a rack's leader: the rack's limits.
    RackLimits(RackLimits),
    /// From the fabric broker to a rack's leader: limits that it proposes.
    Proposal(RackLimits),
    /// From a rack's leader to the fabric broker: the rack's offers under proposed limits.
    Reply(RackReport),
    /// From a machine to the others of its rack: whether it is shut out of the fabric broker.
    ShutOut(ShutOutNotice),
    /// To one machine: the newest stamp that the sender, another one of its rack, has received of it. From or to the
    /// fabric broker it is a message of the session, and a datagram in the simulator only.
    EpochNotice(EpochNotice),
    /// From a machine to the others of its rack: the newest stamp that it has received of the fabric broker.
    FabricEpoch(EpochNotice),
}

impl Message {
    /// The message as an input of a rack broker; `None` if only a fabric broker accepts it.
    pub fn rack_input(&self) -> Option<Input<'_>> {
        match self {
            Self::Usage(report) => Some(Input::Report(report)),
            Self::Relay(relay) => Some(Input::Relay(relay)),
            Self::RackLimits(limits) => Some(Input::Fabric(limits)),
            Self::Proposal(limits) => Some(Input::Proposal(limits)),
            Self::ShutOut(notice) => Some(Input::ShutOut(notice)),
            Self::EpochNotice(notice) => notice.to.map(|_| Input::EpochNotice(notice)),
            Self::FabricEpoch(notice) => Some(Input::FabricEpoch(notice)),
            Self::RackReport(_) | Self::Reply(_) => None,
        }
    }
    /// The message as an input of the fabric broker; `None` if only rack brokers accept it.
    pub fn fabric_input(&self) -> Option<FabricInput<'_>> {
        match self {
            Self::RackReport(report) => Some(FabricInput::Report(report)),
            Self::Reply(reply) => Some(FabricInput::Reply(reply)),
            Self::EpochNotice(notice) if notice.to.is_none() => Some(FabricInput::EpochNotice(notice)),
            _ => None,
        }
    }
}

impl From<UsageReport> for Message {
    fn from(report: UsageReport) -> Self {
        Self::Usage(report)
    }
}
impl From<LimitsRelay> for Message {
    fn from(relay: LimitsRelay) -> Self {
        Self::Relay(relay)
    }
}
impl From<ShutOutNotice> for Message {
    fn from(notice: ShutOutNotice) -> Self {
        Self::ShutOut(notice)
    }
}
impl From<EpochNotice> for Message {
    fn from(notice: EpochNotice) -> Self {
        Self::EpochNotice(notice)
    }
}
impl From<RackReport> for Message {
    fn from(report: RackReport) -> Self {
        Self::RackReport(report)
    }
}
impl From<RackLimits> for Message {
    fn from(limits: RackLimits) -> Self {
        Self::RackLimits(limits)
    }
}

/// Why a datagram was rejected. Each reason has its own counter, and the datagram is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The datagram is shorter than the fixed fields.
    #[error("the datagram is truncated")]
    Truncated,
    /// The magic number is missing.
    #[error("not a broker's datagram")]
    Foreign,
    /// Another version of the format.
    #[error("format version {0}, this is version {VERSION}")]
    Version(u8),
    /// No key verifies the tag: the datagram is forged, altered, or of another deployment.
    #[error("the tag does not verify")]
    Forged,
    /// The tag verifies, but the content is not well-formed: the sender is faulty.
    #[error("malformed: {0}")]
    Malformed(&'static str),
}

/// The fields after the kind, which all kinds have.
struct Header {
    rows: u16,
    policy: u64,
    epoch: u64,
    round: u64,
    /// A machine or a rack.
    from: u32,
    first: ServiceId,
    last: ServiceId,
}

impl Header {
    fn of(message: &Message) -> (u8, Self) {
        let header = |rows: usize, (policy, epoch, round), from, (first, last)| Self {
            rows: rows as u16,
            policy,
            epoch,
            round,
            from,
            first,
            last,
        };
        let of_limits =
            |l: &RackLimits| header(l.rows.len(), (l.policy, l.epoch, l.round), l.rack.0, (l.first, l.last));
        let of_report =
            |r: &RackReport| header(r.rows.len(), (r.policy, r.epoch, r.round), r.machine.0, (r.first, r.last));
        match message {
            Message::Usage(r) => {
                (KIND_USAGE, header(r.rows.len(), (r.policy, r.epoch, r.round), r.machine.0, (r.first, r.last)))
            }
            Message::Relay(relay) => (KIND_RELAY, of_limits(&relay.limits)),
            Message::RackReport(report) => (KIND_RACK_REPORT, of_report(report)),
            Message::RackLimits(limits) => (KIND_RACK_LIMITS, of_limits(limits)),
            Message::Proposal(limits) => (KIND_PROPOSAL, of_limits(limits)),
            Message::Reply(reply) => (KIND_REPLY, of_report(reply)),
            Message::ShutOut(n) => {
                let flag = (ServiceId(0), ServiceId(n.shut_out.into()));
                (KIND_SHUT_OUT, header(0, (n.policy, n.epoch, n.round), n.machine.0, flag))
            }
            Message::EpochNotice(n) | Message::FabricEpoch(n) => {
                let number = |machine: Option<MachineId>| machine.map_or(FABRIC_BROKER, |machine| machine.0);
                let for_rack = matches!(message, Message::FabricEpoch(_));
                let to = (ServiceId(for_rack.into()), ServiceId(number(n.to)));
                (KIND_EPOCH, header(0, (n.policy, n.epoch, n.round), number(n.from), to))
            }
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.rows.to_be_bytes());
        for field in [self.policy, self.epoch, self.round] {
            out.extend(field.to_be_bytes());
        }
        for field in [self.from, self.first.0, self.last.0] {
            out.extend(field.to_be_bytes());
        }
    }

    fn take(fields: &mut Fields<'_>) -> Self {
        Self {
            rows: fields.take(u16::from_be_bytes),
            policy: fields.take(u64::from_be_bytes),
            epoch: fields.take(u64::from_be_bytes),
            round: fields.take(u64::from_be_bytes),
            from: fields.take(u32::from_be_bytes),
            first: ServiceId(fields.take(u32::from_be_bytes)),
            last: ServiceId(fields.take(u32::from_be_bytes)),
        }
    }

    fn limits(&self, rows: Vec<FabricRow<true>>) -> RackLimits {
        RackLimits {
            rack: RackId(self.from),
            policy: self.policy,
            epoch: self.epoch,
            round: self.round,
            first: self.first,
            last: self.last,
            rows: rows.into_iter().map(|row| row.0).collect(),
        }
    }
}

/// Encodes a message as a datagram with a tag.
///
/// # Panics
/// With debug assertions, if the rows do not fit or do not ascend within the message's range.
pub fn encode(message: &Message, key: &Key) -> Vec<u8> {
    let (kind, header) = Header::of(message);
    let mut out = Vec::with_capacity(LARGEST);
    out.extend(MAGIC);
    out.extend([VERSION, kind]);
    header.put(&mut out);
    match message {
        Message::Usage(report) => rows::put(&mut out, header.first, report.rows.iter().copied()),
        Message::Relay(relay) => {
            let steps = relay.age.nanos().div_ceil(AGE_STEP.nanos());
            out.extend(u16::try_from(steps).unwrap_or(u16::MAX).to_be_bytes());
            rows::put(&mut out, header.first, relay.limits.rows.iter().map(|row| FabricRow::<true>(*row)));
        }
        Message::RackReport(report) | Message::Reply(report) => {
            rows::put(&mut out, header.first, report.rows.iter().map(|row| FabricRow::<false>(*row)));
        }
        Message::RackLimits(limits) | Message::Proposal(limits) => {
            rows::put(&mut out, header.first, limits.rows.iter().map(|row| FabricRow::<true>(*row)));
        }
        Message::ShutOut(_) | Message::EpochNotice(_) | Message::FabricEpoch(_) => {}
    }
    let tag = key.tag(&out);
    out.extend(tag);
    debug_assert!(out.len() <= LARGEST, "{} bytes: too many rows for one datagram", out.len());
    out
}

/// Decodes a datagram that one of the keys verifies. `keys` is a [`Key`] or [`crate::Keys`].
pub fn decode(datagram: &[u8], keys: &(impl AsRef<[Key]> + ?Sized)) -> Result<Message, DecodeError> {
    if datagram.len() < 5 {
        return Err(DecodeError::Truncated);
    }
    if &datagram[..4] != MAGIC {
        return Err(DecodeError::Foreign);
    }
    if datagram[4] != VERSION {
        return Err(DecodeError::Version(datagram[4]));
    }
    if datagram.len() < HEADER_LEN + TAG_LEN {
        return Err(DecodeError::Truncated);
    }
    let (message, tag) = datagram.split_at(datagram.len() - TAG_LEN);
    if !keys.as_ref().iter().any(|key| key.verify(message, tag)) {
        return Err(DecodeError::Forged);
    }
    let mut fields = Fields(&message[6..]);
    let header = Header::take(&mut fields);
    let Header { policy, epoch, round, from, first, last, .. } = header;
    if first > last {
        return Err(DecodeError::Malformed("empty range of services"));
    }
    let check_count = |rows: usize| {
        let equal = rows == usize::from(header.rows);
        equal.then_some(()).ok_or(DecodeError::Malformed("wrong number of rows"))
    };
    match message[5] {
        KIND_USAGE => {
            let rows = rows::take(fields.0, first, last)?;
            check_count(rows.len())?;
            let machine = MachineId(from);
            Ok(Message::Usage(UsageReport { machine, policy, epoch, round, first, last, rows }))
        }
        KIND_RELAY => {
            if fields.0.len() < 2 {
                return Err(DecodeError::Malformed("relay without an age"));
            }
            let age = AGE_STEP * u64::from(fields.take(u16::from_be_bytes));
            let rows = rows::take(fields.0, first, last)?;
            check_count(rows.len())?;
            Ok(Message::Relay(LimitsRelay { age, limits: header.limits(rows) }))
        }
        kind @ (KIND_RACK_REPORT | KIND_REPLY) => {
            let rows = rows::take::<FabricRow<false>>(fields.0, first, last)?;
            check_count(rows.len())?;
            let (machine, rows) = (MachineId(from), rows.into_iter().map(|row| row.0).collect());
            let report = RackReport { machine, policy, epoch, round, first, last, rows };
            Ok(if kind == KIND_REPLY { Message::Reply(report) } else { Message::RackReport(report) })
        }
        kind @ (KIND_RACK_LIMITS | KIND_PROPOSAL) => {
            let rows = rows::take(fields.0, first, last)?;
            check_count(rows.len())?;
            let limits = header.limits(rows);
            Ok(if kind == KIND_PROPOSAL { Message::Proposal(limits) } else { Message::RackLimits(limits) })
        }
        KIND_SHUT_OUT => {
            let shut_out = match (first.0, last.0) {
                (0, flag @ (0 | 1)) => flag == 1,
                _ => return Err(DecodeError::Malformed("neither shut out nor not")),
            };
            check_end(&header, &fields)?;
            Ok(Message::ShutOut(ShutOutNotice { machine: MachineId(from), policy, epoch, round, shut_out }))
        }
        KIND_EPOCH => epoch_notice(&header, &fields),
        _ => Err(DecodeError::Malformed("unknown kind")),
    }
}

/// Checks that a notice has no rows.
fn check_end(header: &Header, fields: &Fields<'_>) -> Result<(), DecodeError> {
    let ends = header.rows == 0 && fields.0.is_empty();
    ends.then_some(()).ok_or(DecodeError::Malformed("a notice with rows"))
}

fn epoch_notice(header: &Header, fields: &Fields<'_>) -> Result<Message, DecodeError> {
    let &Header { policy, epoch, round, .. } = header;
    let machine = |number: u32| (number != FABRIC_BROKER).then_some(MachineId(number));
    let (from, to) = (machine(header.from), machine(header.last.0));
    let notice = EpochNotice { from, policy, to, epoch, round };
    let message = match header.first.0 {
        0 if from != to => Message::EpochNotice(notice),
        1 if from.is_some() && to.is_none() => Message::FabricEpoch(notice),
        _ => return Err(DecodeError::Malformed("a notice without a receiver")),
    };
    if epoch > LARGEST_CLAIM {
        return Err(DecodeError::Malformed("epoch out of range"));
    }
    check_end(header, fields)?;
    Ok(message)
}

/// Reads fixed fields from the front. The caller has checked the length.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize, T>(&mut self, read: fn([u8; N]) -> T) -> T {
        let (field, rest) = self.0.split_first_chunk().expect("the length was checked");
        self.0 = rest;
        read(*field)
    }
}

#[cfg(test)]
mod tests;
