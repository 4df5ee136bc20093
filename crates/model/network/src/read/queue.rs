//! Queues and links: from their keys to [`QueueSpec`] and [`LinkSpec`].

use super::NetworkReader;
use crate::graph::{Discipline, LinkSpec, PRIORITIES, Packets, QueueSpec};
use crate::language::{MAX_BUFFER, MAX_QUANTUM, MAX_RATE, MAX_WEIGHT, MIN_RATE, QUEUE};
use weir_document::{Field, Node, scalar};
use weir_units::{Bandwidth, Bytes, Duration};

/// The default delay of a link: 200 m of fibre, a large datacenter hall.
const DELAY: Duration = Duration::from_micros(1);
/// The default buffer of a pFabric port: about 24 full packets, two bandwidth-delay products of the
/// paper's network (pFabric, SIGCOMM 2013, §5.2).
const PFABRIC_BUFFER: Bytes = Bytes::new(36_000);

/// The possible rates, as a hint.
pub fn links_have() -> String {
    format!("links have {MIN_RATE} to {MAX_RATE}")
}

/// Whether the simulator's clock can count the bytes of a link.
pub fn can_be_simulated(rate: Bandwidth) -> bool {
    (MIN_RATE..=MAX_RATE).contains(&rate)
}

impl NetworkReader<'_> {
    /// A queue; `None` only if something was reported. `default` applies without keys, for packets
    /// of at most `packets`. `own_buffer` is whether ports have buffers of their own.
    pub fn queue(
        &mut self,
        node: Option<&Node>,
        default: QueueSpec,
        packets: Packets,
        own_buffer: bool,
    ) -> Option<QueueSpec> {
        let Some(node) = node else { return Some(default) };
        let variant = QUEUE.chosen(node)?;
        let discipline = match variant.id {
            "strict-priority" => Discipline::StrictPriority,
            "deficit-round-robin" => Discipline::DeficitRoundRobin {
                weights: node.get("weights").and_then(|node| self.weights(node)).unwrap_or([1; PRIORITIES]),
                quantum: self.quantum(node, packets),
            },
            "pfabric" => Discipline::PFabric,
            _ => Discipline::Fifo,
        };
        let written = self.bounded_size(node, "buffer", MAX_BUFFER.get());
        let otherwise = if discipline == Discipline::PFabric { PFABRIC_BUFFER } else { QueueSpec::default().buffer };
        let buffer = written.value().unwrap_or(otherwise.max(Bytes::new(packets.frame())));
        if let Field::Value(size, span) = written
            && size.get() < packets.frame()
        {
            self.error(
                span,
                format!("the buffer {size} holds no packet of {}", Bytes::new(packets.frame())),
                "make it at least as large as a packet with its headers",
            );
            return None;
        }
        let mark = node.field("mark", scalar::size);
        if let Field::Value(mark, span) = mark
            && own_buffer
            && mark >= buffer
            && !written.is_bad()
        {
            self.error(
                span,
                format!("packets would be marked above {mark}, but the buffer holds {buffer}"),
                "write a `mark` below the `buffer`",
            );
        }
        Some(QueueSpec { discipline, buffer, mark: mark.value() })
    }

    /// Weights of all classes.
    pub fn weights(&mut self, node: &Node) -> Option<[u32; PRIORITIES]> {
        let found = node.items().len();
        if found == 0 {
            return None;
        }
        if found != PRIORITIES {
            self.error(
                node.span,
                format!("there are {PRIORITIES} classes, but {found} weights"),
                format!("write a weight for each class, for example `[{}]`", ["1"; PRIORITIES].join(", ")),
            );
            return None;
        }
        let mut weights = [1; PRIORITIES];
        for (weight, item) in weights.iter_mut().zip(node.items()) {
            let read = item.read(|text| scalar::integer(text, "", 1, MAX_WEIGHT.into()));
            *weight = u32::try_from(read.value()?).ok()?;
        }
        Some(weights)
    }

    fn quantum(&mut self, node: &Node, packets: Packets) -> u32 {
        let quantum = self.bounded_size(node, "quantum", MAX_QUANTUM).value();
        quantum.map_or(packets.frame(), Bytes::get) as u32
    }

    /// A size of at most `most` bytes.
    pub fn bounded_size(&mut self, node: &Node, key: &str, most: u64) -> Field<Bytes> {
        let field = node.field(key, scalar::size);
        match field {
            Field::Value(size, span) if size.get() > most => {
                let most = Bytes::new(most);
                self.error(span, format!("the {key} {size} is larger than {most}"), format!("write at most {most}"));
                Field::Bad
            }
            field => field,
        }
    }

    /// The rate of a link.
    pub fn link_rate(&mut self, node: &Node) -> Field<Bandwidth> {
        let field = node.field("rate", |text| scalar::rate(text, false, false));
        if let Field::Value(rate, span) = field
            && !can_be_simulated(rate)
        {
            self.error(span, format!("a link of {rate} cannot be simulated"), links_have());
            return Field::Bad;
        }
        field
    }

    /// A link: `rate` is for links that may omit it. `None` only if something was reported.
    pub(super) fn link(
        &mut self,
        node: &Node,
        rate: Option<Bandwidth>,
        queue: QueueSpec,
        packets: Packets,
        own_buffer: bool,
    ) -> Option<LinkSpec> {
        let delay = self.delay(node);
        let queue = self.queue(node.get("queue"), queue, packets, own_buffer);
        let rate = match self.link_rate(node) {
            Field::Absent => rate,
            field => field.value(),
        };
        let delay = match delay {
            Field::Absent => DELAY,
            field => field.value()?,
        };
        Some(LinkSpec { rate: rate?, delay, queue: queue? })
    }
}
