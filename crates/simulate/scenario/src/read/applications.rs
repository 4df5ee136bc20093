//! `kind: redis`, `memcached` and `ptp`: real servers and their clients, for the lab only.

use super::traffic::Context;
use super::{Files, Reader};
use crate::language::{MAX_CONNECTIONS, MAX_VALUE, MEMCACHED, PTP, SERVICE_TRAFFIC, is_real};
use crate::model::{Application, Program, ValueServer, Values};
use weir_document::{Diagnostic, Field, Node, scalar};
use weir_units::ServiceId;

impl<F: Files> Reader<'_, F> {
    /// Without its service, which the caller fills in; `None` only if something was reported.
    pub(super) fn application(
        &mut self,
        item: &Node,
        (kind, context): (&str, Context<'_, '_>),
        name: String,
    ) -> Option<Application> {
        for key in ["transport", "priority"] {
            if let Some(node) = item.get(key) {
                let cause = format!("`{key}` does not go with `kind: {kind}`: its packets are the host's own");
                self.error(node.span, cause, format!("remove `{key}`"));
            }
        }
        let from = self.hosts_of(item, "from", context.names);
        let to = item.get("to").and_then(|node| self.one_host(node, context.names));
        let program = match kind {
            PTP => Some(Program::Ptp),
            MEMCACHED => self.values(item, ValueServer::Memcached),
            _ => self.values(item, ValueServer::Redis),
        };
        let (start, stop) = self.interval(item, context.duration)?;
        let (from, to) = (from?, to?);
        if from.contains(&to) {
            let span = item.get("to").map_or(item.span, |node| node.span);
            let cause = format!("machine `{}` would send requests to itself", context.names.name_of(to));
            self.error(span, cause, "let the server be on a machine that no client is on");
            return None;
        }
        Some(Application { name, service: ServiceId(0), from, to, program: program?, start, stop })
    }

    fn values(&mut self, item: &Node, server: ValueServer) -> Option<Program> {
        let connections = match item.field("connections", |text| scalar::integer(text, "", 1, MAX_CONNECTIONS.into())) {
            Field::Absent => 1,
            field => u32::try_from(field.value()?).ok()?,
        };
        let value = self.networks().bounded_size(item, "value", MAX_VALUE.get());
        let gap = item.field("gap", |text| scalar::time(text, false));
        Some(Program::Values(Values { server, connections, value: value.value()?, gap: gap.value()? }))
    }

    /// The position of the first real server, which the simulator cannot run.
    pub(super) fn lab_only(&self, root: &Node) -> Option<Diagnostic> {
        let items = root.get("traffic").map_or(&[][..], Node::items);
        let real = |item: &Node| SERVICE_TRAFFIC.chosen(item).map(|variant| variant.id).filter(|kind| is_real(kind));
        let (item, kind) = items.iter().find_map(|item| Some((item, real(item)?)))?;
        let span = item.get("kind").map_or(item.span, |kind| kind.span);
        let cause = format!("`kind: {kind}` is of real programs, which the simulator cannot run");
        let hint = "run it with `weir lab`; in the simulator `kind: requests` has clients and servers of its own";
        let (source, span) = self.problems.place(span);
        Some(Diagnostic::error(&source, span, cause, hint))
    }
}
