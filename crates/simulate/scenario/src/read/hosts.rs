//! `hosts:`: the interfaces of hosts.

use super::{Files, Reader};
use crate::governed::Enforcement;
use crate::language::HOST_QUEUES;
use crate::model::{HostOrder, HostQueues};
use weir_document::{Field, Node, scalar};
use weir_network::graph::Packets;
use weir_network::language::MAX_BUFFER;
use weir_units::Bytes;

impl<F: Files> Reader<'_, F> {
    /// The interfaces of hosts that send packets of at most `packets`; `None` only if something was reported.
    pub(super) fn host_queues(&mut self, root: &Node, packets: Packets) -> Option<HostQueues> {
        let Some(node) = root.get("hosts") else { return Some(HostQueues::default()) };
        let variant = HOST_QUEUES.chosen(node)?;
        let flow_limit = self.networks().bounded_size(node, "flow-limit", MAX_BUFFER.get());
        let two = Bytes::new(2 * packets.frame());
        if let Field::Value(size, span) = flow_limit
            && size < two
        {
            let cause = format!("the flow-limit {size} is less than two packets, {two}");
            self.error(span, cause, "a host needs the packet that it sends and the next one: write at least that");
            return None;
        }
        let buffer = self.networks().bounded_size(node, "buffer", MAX_BUFFER.get());
        if let Field::Value(size, span) = buffer
            && size.get() < packets.frame()
        {
            let cause = format!("the buffer {size} holds no packet of {}", Bytes::new(packets.frame()));
            self.error(span, cause, "make it at least as large as a packet with its headers");
            return None;
        }
        let mark = node.field("mark", scalar::size);
        if let (Field::Value(mark, span), Some(buffer)) = (mark, buffer.value())
            && mark >= buffer
        {
            let cause = format!("packets would be marked above {mark}, but the buffer holds {buffer}");
            self.error(span, cause, "write a `mark` below the `buffer`");
            return None;
        }
        if variant.id == "fifo" && root.get("policy").is_some() && self.enforcement(root) != Enforcement::None {
            self.problems.note(
                node.span,
                "in a fifo, services leave in the order of arrival: machines' shares of sending do not apply",
                "write `enforcement: none`, or leave `hosts` out",
            );
        }
        let order = match variant.id {
            "fifo" => HostOrder::Fifo { buffer: buffer.value(), mark: mark.value() },
            _ => HostOrder::Fair,
        };
        Some(HostQueues { order, flow_limit: flow_limit.value() })
    }
}
