//! `levels:`, and the keys of services that refer to it: `level`, `latency` with `worst`.
//!
//! Rules: factors ascend; there are as many levels as services name and queues hold; a DSCP value has one meaning; a
//! frame of a level fits the network; a service on a level has no guarantee beside it, and could send a frame in an
//! epoch. Whether a level keeps its bound depends on all ports of the network and is computed elsewhere (the crate
//! `latency`).
//!
//! Worked example: `levels: { factors: [10, 1] }` is refused: the second level would be slower and less urgent.

use super::ReadService;
use crate::dscp::dscp;
use crate::language::{EPOCH_KEYWORDS, MAX_FACTOR, MAX_LEVELS, MAX_SEGMENTS, YES_NO, size_or_zero};
use crate::levels::{EpochForm, Level, LevelChoice, LevelSettings, Levels, WorstLatency};
use crate::machine_set::MachineSet;
use crate::model::{Latency, LatencyTarget, Match};
use weir_document::{Field, Node, Problems, Span, scalar};
use weir_network::Graph;
use weir_network::read::ReadNetwork;
use weir_network::switches::{Offer, Scheduler};
use weir_units::{Bytes, ContentionPoint, Direction, Duration, Load};

/// Ethernet's preamble and start delimiter (8), check sequence (4) and gap (12): IEEE 802.3.
const ETHERNET_FRAMING: Bytes = Bytes::new(24);
/// The DSCP values of levels where none are written: EF (RFC 3246), then the classes AF4 and AF3 (RFC 2597) by drop
/// precedence.
const DSCPS: [u8; MAX_LEVELS] = [46, 34, 26, 36, 28, 38];
/// DSCP values that levels cannot have: the default (0), and network control (CS6, CS7), which precedes levels.
const RESERVED_DSCPS: [u8; 3] = [0, 48, 56];
/// The smallest Ethernet frame without its check sequence.
const MIN_PACKET: Bytes = Bytes::new(60);
/// Queues of a port that levels cannot have: of network control, and of all other traffic.
const OTHER_QUEUES: usize = 2;

/// Reads `latency:` of a service.
pub(super) fn latency(node: &Node, problems: &mut Problems) -> Option<Latency> {
    let time = |key: &str| node.field(key, |text| scalar::time(text, false));
    let (p99, worst) = (time("p99"), time("worst"));
    let message = node.field("message", scalar::size).value();
    if let (Some(_), Some(span)) = (p99.span(), worst.span()) {
        problems.error(
            span,
            "a latency target has both `p99` and `worst`",
            "keep `worst` for a bound by a latency level, or `p99` for a percentile by capacity and load",
        );
        return None;
    }
    let rate = node.field("rate", |text| scalar::rate(text, false, false));
    let round_trip = node.field("round-trip", |text| scalar::word(text, "", YES_NO));
    if let Field::Value(p99, _) = p99 {
        for (key, span) in [("rate", rate.span()), ("round-trip", round_trip.span())] {
            let Some(span) = span else { continue };
            problems.error(span, format!("`{key}` has no meaning beside `p99`"), "remove it, or write `worst`");
        }
        return Some(Latency::Percentile(LatencyTarget { message: message?, p99 }));
    }
    if matches!((p99, worst), (Field::Absent, Field::Absent)) && message.is_some() {
        problems.error(
            node.span,
            "the latency target has no time",
            "write `worst: 200us` for a bound by a latency level, or `p99: 20ms` for a percentile",
        );
    }
    let worst = worst.value()?;
    if matches!(rate, Field::Absent) {
        problems.error(
            node.span,
            "the latency target has no rate",
            "write the rate at which each machine sends these messages, for example `rate: 10Mb/s`: a level holds only \
             so much",
        );
    }
    let round_trip = round_trip.value() == Some(1);
    Some(Latency::Worst(WorstLatency { message: message?, worst, rate: rate.value()?, round_trip }))
}

/// The levels of a policy, and the part of a port that they may fill.
pub(super) struct ReadLevels {
    pub(super) levels: Levels,
    pub(super) reserved: Option<Load>,
}

/// Reads `levels:`; `None` if no service has a level, or something was reported.
pub(super) fn read(
    node: Option<&Node>,
    network: &ReadNetwork,
    services: &[ReadService],
    problems: &mut Problems,
) -> Option<ReadLevels> {
    let levelled = || services.iter().filter_map(|read| Some((read, read.service.level?, read.level_span?)));
    worst_without_a_level(services, problems);
    if levelled().next().is_none() {
        if let Some(node) = node {
            problems.note(node.span, "no service is on a latency level", "write `level: 1` on a service");
        }
        return None;
    }
    let nothing = Node { kind: weir_document::Kind::Mapping(Vec::new()), span: Span::default() };
    let before = problems.count();
    let node = node.unwrap_or(&nothing);
    let factors = factors(node, problems);
    let numbered = levelled().filter_map(|(_, choice, span)| match choice {
        LevelChoice::Numbered(level) => Some((level, span)),
        LevelChoice::Auto => None,
    });
    let auto = levelled().find(|(_, choice, _)| *choice == LevelChoice::Auto).map(|(.., span)| span);
    let mut reader = Reader { node, problems };
    reader.numbers(factors.as_deref(), numbered.clone(), auto);
    let count = factors.as_ref().map_or(1, Vec::len);
    reader.queues(count, network.network.offer());
    if before != reader.problems.count() || !network.complete || network.network.machines().is_empty() {
        return None;
    }
    let graph = network.wiring.graph(&network.network);
    let settings = reader.settings(count, &graph)?;
    let senders = |index: usize| senders(services, Level::from_index(index));
    let table = factors.unwrap_or_default().into_iter().enumerate().map(|(index, factor)| (factor, senders(index)));
    let levels = Levels::new(settings, table.collect(), network.network.machines().len() as u64);
    reader.filters(services, &levels);
    reader.shares(services, &levels);
    let reserved = levels.reserved();
    Some(ReadLevels { reserved, levels })
}

/// A bound needs a level, and the choice of a level a bound.
fn worst_without_a_level(services: &[ReadService], problems: &mut Problems) {
    for read in services {
        if let (Some(LevelChoice::Auto), None, Some(span)) =
            (read.service.level, read.service.worst_latency(), read.level_span)
        {
            let cause = format!("service `{}` has `level: auto` and no worst latency", read.service.path());
            problems.error(
                span,
                cause,
                "write its messages, for example `latency: { message: 1kB, worst: 400us, rate: 10Mb/s }`",
            );
        }
        if let (None, Some(_), Some(span)) = (read.service.level, read.service.worst_latency(), read.latency_span) {
            let cause = format!("service `{}` has a worst latency as its target and no level", read.service.path());
            problems.error(span, cause, "write `level: auto`, and `weir plan` chooses it");
        }
    }
}

/// Filters by socket priority, which applications choose, and those that no received packet matches.
pub(super) fn socket_filters(services: &[ReadService], problems: &mut Problems) {
    for read in services {
        let matches = &read.service.matches;
        let by_priority = matches.iter().position(|filter| filter.priority.is_some());
        if let (Some(first), Some(_)) = (by_priority, read.service.level) {
            problems.note(
                read.match_spans[first],
                format!("applications choose to be service `{}` by their sockets' priority", read.service.path()),
                "any process may set priorities from 0 to 6: match a cgroup or a port where that matters",
            );
        }
        if matches.is_empty() || matches.iter().any(Match::is_known_on_receipt) {
            in_tunnels(read, problems);
            continue;
        }
        let hint = match by_priority {
            Some(_) => "match a port as well: a socket's priority does not travel in packets",
            None => "match TCP or UDP: the sockets of other received packets are not known",
        };
        for point in ContentionPoint::ALL {
            let share = &read.shares[point][Direction::Rx];
            let Some(span) = share.min.span().or(share.max.span()) else { continue };
            problems.error(
                span,
                format!(
                    "service `{}` has a receive share at the {point}, and its packets are not known on receipt",
                    read.service.path()
                ),
                format!("write the share under `tx`, or {hint}"),
            );
        }
    }
}

/// A remark on control groups in tunnels, whose received packets have the socket of the tunnel.
fn in_tunnels(read: &ReadService, problems: &mut Problems) {
    let matches = &read.service.matches;
    let is_in_tunnel = |filter: &Match| filter.cgroup.is_some() && filter.vni.is_some();
    if let (Some(span), true) = (read.match_spans.first(), matches.iter().all(is_in_tunnel)) {
        problems.note(
            *span,
            format!("received packets of service `{}` match only by the tunnel's control group", read.service.path()),
            "match the network or the group alone: the sockets of packets in a tunnel are not known on receipt",
        );
    }
}

/// The machines that may send on a level: those of its services. `None` for every machine.
fn senders(services: &[ReadService], level: Level) -> Option<MachineSet> {
    let on = services.iter().filter(|read| read.service.level == Some(LevelChoice::Numbered(level)));
    let mut all = MachineSet::default();
    for read in on {
        all = all.union(read.service.machines()?);
    }
    Some(all)
}

/// The factors, ascending.
fn factors(node: &Node, problems: &mut Problems) -> Option<Vec<u32>> {
    let list = node.get("factors")?;
    let number = |text: &str| scalar::integer(text, "", 1, MAX_FACTOR.into());
    let fields: Vec<Field<i128>> = list.items().iter().map(|item| item.read(number)).collect();
    for pair in fields.windows(2) {
        if let [Field::Value(first, _), Field::Value(second, span)] = pair
            && second <= first
        {
            problems.error(
                *span,
                format!("the factor {second} is not above the one before, {first}"),
                "write factors in ascending order: a less urgent level gets a higher rate, or it has no use",
            );
            return None;
        }
    }
    fields.into_iter().map(|field| field.value().and_then(|factor| u32::try_from(factor).ok())).collect()
}

struct Reader<'a> {
    node: &'a Node,
    problems: &'a mut Problems,
}

impl Reader<'_> {
    fn error(&mut self, span: Span, cause: impl Into<String>, hint: impl Into<String>) {
        self.problems.error(span, cause, hint);
    }

    /// Every number has a factor; without factors the planner numbers all services.
    fn numbers(&mut self, factors: Option<&[u32]>, numbered: impl Iterator<Item = (Level, Span)>, auto: Option<Span>) {
        let windowed = self.node.field("epoch", |text| scalar::word(text, "", EPOCH_KEYWORDS)).value() == Some(1);
        for (level, span) in numbered {
            match factors {
                None if auto.is_some() => {
                    let cause = "some services have numbered levels and others `auto`, and no factors are written";
                    let hint = "write `factors` under `levels`, or `level: auto` on all of these services";
                    return self.error(span, cause, hint);
                }
                None => {
                    let cause = format!("there is no level {level}: the policy has no factors of levels");
                    let hint = "write for example `levels: { factors: [1] }`, or `level: auto`";
                    return self.error(span, cause, hint);
                }
                Some(factors) if level.index() >= factors.len() => {
                    let cause = format!("there is no level {level}: `levels.factors` has {}", factors.len());
                    self.error(span, cause, "write a factor for it, or a lower number");
                }
                Some(_) => {}
            }
        }
        if let (Some(span), None, true) = (auto, factors, windowed) {
            let cause = "factors are chosen for token buckets, not for windows";
            self.error(span, cause, "write `factors` under `levels`, or `epoch: regulated`");
        }
    }

    /// The switches have a strict queue for each level.
    fn queues(&mut self, count: usize, offer: Option<Offer>) {
        let span = self.node.get("factors").map_or(self.node.span, |factors| factors.span);
        let (strict, of) = match offer {
            None => {
                (MAX_LEVELS, "a port has 8 queues, of which network control and other traffic have one each".into())
            }
            Some(offer @ Offer { queues, scheduler: Scheduler::Strict }) => {
                let strict = offer.available().0.saturating_sub(OTHER_QUEUES - 1);
                (strict, format!("the network's switches have {queues} strict queues"))
            }
            Some(offer) => {
                let strict = offer.available().0;
                (strict, format!("the scheduler of the network's switches is {}", offer.scheduler.name()))
            }
        };
        if count > strict.min(MAX_LEVELS) {
            let levels = if count == 1 { "a level needs a strict queue".to_owned() } else { format!("{count} levels") };
            let hint = match strict.min(MAX_LEVELS) {
                0 => "write `scheduler: strict` under `network.switches` if they have strict priorities; without them \
                      shares and limits keep latency, and bound nothing"
                    .to_owned(),
                most => format!("use at most {most}"),
            };
            self.error(span, format!("{levels}, and {of}"), hint);
        }
    }

    fn settings(&mut self, count: usize, graph: &Graph) -> Option<LevelSettings> {
        let (node, before) = (self.node, self.problems.count());
        let framing = node.field("framing", size_or_zero).value().unwrap_or(ETHERNET_FRAMING);
        let largest = Bytes::new(graph.packets.frame() + framing.get());
        let packet = node.field("packet", scalar::size);
        if let Field::Value(packet, span) = packet
            && !(MIN_PACKET..=largest).contains(&packet)
        {
            let cause = format!(
                "the frame {packet} of levels is not between {} B and the largest of the network, {} B with {framing} \
                 of framing",
                MIN_PACKET.get(),
                largest.get()
            );
            self.error(span, cause, "write the size of the largest message that one frame carries, or a larger `mtu`");
        }
        let percent = node.field("load", |text| scalar::percent(text, "", "")).value().unwrap_or(500_000);
        let epoch = match node.field("epoch", |text| scalar::word(text, "", EPOCH_KEYWORDS)).value() {
            Some(1) => EpochForm::Windowed,
            _ => EpochForm::Regulated,
        };
        let segments = node.field("segments", |text| scalar::integer(text, "", 1, MAX_SEGMENTS.into())).value();
        let settings = LevelSettings {
            packet: packet.value().unwrap_or(largest),
            framing,
            load: Load::from_billionths(u32::try_from(percent * 1_000).ok()?).ok()?,
            epoch,
            processing: node.field("processing", |text| scalar::time(text, true)).value().unwrap_or(Duration::ZERO),
            slowest: graph.links().map(|link| graph.link(link).rate).min()?,
            segments: segments.and_then(|segments| u32::try_from(segments).ok()),
            dscp: self.dscp(count)?,
        };
        (self.problems.count() == before).then_some(settings)
    }

    /// A value for each level, each once.
    fn dscp(&mut self, count: usize) -> Option<Vec<u8>> {
        let Some(list) = self.node.get("dscp") else { return Some(DSCPS.to_vec()) };
        let mut values = Vec::new();
        for item in list.items() {
            let value = item.read(dscp).value()?;
            if RESERVED_DSCPS.contains(&value) {
                let cause = format!("DSCP {value} cannot be the value of a level");
                self.error(
                    item.span,
                    cause,
                    "0 is the value of other traffic, 48 and 56 of network control: write another",
                );
                return None;
            }
            if values.contains(&value) {
                self.error(item.span, format!("DSCP {value} is the value of two levels"), "give each level its own");
                return None;
            }
            values.push(value);
        }
        if values.len() < count {
            let cause = format!("{count} levels have {} DSCP values", values.len());
            self.error(list.span, cause, "write a value for each level, the most urgent first");
            return None;
        }
        Some(values)
    }

    /// No service is identified by the value of a level: hosts set these values.
    fn filters(&mut self, services: &[ReadService], levels: &Levels) {
        let values = &levels.settings().dscp[..levels.all().len().max(1)];
        for read in services {
            for (filter, span) in read.service.matches.iter().zip(&read.match_spans) {
                let Some(dscp) = filter.dscp.filter(|dscp| values.contains(dscp)) else { continue };
                self.error(
                    *span,
                    format!("service `{}` matches DSCP {dscp}, the value of a latency level", read.service.path()),
                    "match other fields, or write other values for levels: `levels: { dscp: [ … ] }`",
                );
            }
        }
    }

    /// A service on a level has the level's rate, in place of a guarantee; and no limit below a frame in an epoch.
    fn shares(&mut self, services: &[ReadService], levels: &Levels) {
        for read in services {
            let (Some(choice), path) = (read.service.level, read.service.path()) else { continue };
            for point in ContentionPoint::ALL {
                let min = Direction::ALL.into_iter().find_map(|direction| read.shares[point][direction].min.span());
                let Some(span) = min else { continue };
                self.error(
                    span,
                    format!("service `{path}` has a guarantee at the {point} and a latency level"),
                    "remove the guarantee: the level has its own rate, before all shares",
                );
            }
            let LevelChoice::Numbered(level) = choice else { continue };
            let least = levels.settings().rate(1, levels.epoch());
            for point in ContentionPoint::ALL {
                let Field::Value(max, span) = read.shares[point][Direction::Tx].max else { continue };
                if max < least {
                    let cause = format!(
                        "service `{path}` may send {max} at the {point}: less than a frame in an epoch of {}, which is \
                         {least}",
                        levels.epoch()
                    );
                    self.error(span, cause, format!("raise the maximum, or take it from level {level}"));
                }
            }
        }
    }
}
