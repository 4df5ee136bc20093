//! `kind: transfers`: pairs of senders and receivers, and the number of flows.

use super::traffic::Context;
use super::{Files, Reader};
use crate::language::{MAX_FLOWS, PATTERN_KEYWORDS};
use crate::model::{Pattern, ServiceTransfers};
use std::collections::BTreeSet;
use weir_document::{Field, Node, scalar};
use weir_units::{Bytes, Duration, ServiceId, SimTime};
use weir_workload::{Hosts, Spec, SpecError};

impl<F: Files> Reader<'_, F> {
    /// Transfers, and the same for the lab if they are long-lived; `flows` counts those of all flow
    /// groups.
    pub(super) fn transfers(
        &mut self,
        item: &Node,
        context: Context<'_, '_>,
        flows: &mut u64,
    ) -> Option<(Spec, Option<ServiceTransfers>)> {
        let names = context.names;
        let (from, to) = (self.hosts_of(item, "from", names), self.hosts_of(item, "to", names));
        let pattern = match item.field("pattern", |text| scalar::word(text, "", PATTERN_KEYWORDS)) {
            Field::Value(1, _) => Pattern::Pairs,
            Field::Value(..) | Field::Absent => Pattern::FullMesh,
            Field::Bad => return None,
        };
        let per_pair = match item.field("flows", |text| scalar::integer(text, "", 1, MAX_FLOWS.into())) {
            Field::Value(flows, _) => u32::try_from(flows).ok()?,
            Field::Absent => 1,
            Field::Bad => return None,
        };
        let size = item.field("size", scalar::size);
        let spread = item.field("spread", |text| scalar::time(text, false));
        let (start, stop) = self.interval(item, context.duration)?;
        // The caller fills in the service and the transport.
        let transfers = ServiceTransfers {
            service: ServiceId(0),
            from: from?,
            to: to?,
            pattern,
            flows: per_pair,
            udp: None,
            start,
            stop,
        };
        if !self.pairs(&transfers, item, context, flows) || size.is_bad() || spread.is_bad() {
            return None;
        }
        // Flows of a size end with their last byte unless a stop is written.
        let stops = item.get("stop").is_some() || size.value().is_none();
        let stop = if stops { SimTime::from(stop) } else { SimTime::NEVER };
        let spec = workload(&transfers, size.value(), spread.value(), stop);
        let spec = self.accept(item, "spread", spec)?;
        let lab = size.value().is_none() && spread.value().is_none();
        Some((Spec::Transfers(spec), lab.then_some(transfers)))
    }

    /// Checks the pairs and counts the connections.
    fn pairs(&mut self, traffic: &ServiceTransfers, node: &Node, context: Context<'_, '_>, flows: &mut u64) -> bool {
        let (from, to) = (&traffic.from, &traffic.to);
        let names = context.names;
        let place = node.get("to").map_or(node.span, |to| to.span);
        let pairs = match traffic.pattern {
            Pattern::FullMesh => {
                let receivers: BTreeSet<_> = to.iter().collect();
                let both = from.iter().filter(|host| receivers.contains(host)).count() as u64;
                let pairs = from.len() as u64 * to.len() as u64 - both;
                if pairs == 0 {
                    self.error(
                        place,
                        format!("{} `{}` would send to itself only", names.host_line(), names.name_of(from[0])),
                        format!("name other {}s in `to`", names.host_line()),
                    );
                }
                pairs
            }
            Pattern::Pairs if from.len() != to.len() => {
                self.error(
                    place,
                    format!("pairs need as many receivers as senders: {} senders, {} receivers", from.len(), to.len()),
                    format!("name as many {}s in `to` as in `from`, or write `pattern: full-mesh`", names.host_line()),
                );
                0
            }
            Pattern::Pairs => match from.iter().zip(to).find(|(from, to)| from == to) {
                Some((host, _)) => {
                    self.error(
                        place,
                        format!("{} `{}` would send to itself", names.host_line(), names.name_of(*host)),
                        format!("pairs are made in canonical order; name other {}s in `to`", names.host_line()),
                    );
                    0
                }
                None => from.len() as u64,
            },
        };
        *flows = flows.saturating_add(pairs.saturating_mul(traffic.flows.into()));
        if *flows > MAX_FLOWS {
            self.error(
                node.span,
                format!("the scenario has more than {MAX_FLOWS} flows"),
                format!("lower `flows`, or name fewer {}s", names.host_line()),
            );
            return false;
        }
        pairs > 0
    }
}

fn workload(
    transfers: &ServiceTransfers,
    size: Option<Bytes>,
    spread: Option<Duration>,
    stop: SimTime,
) -> Result<weir_workload::Transfers, SpecError> {
    let workload = match transfers.pattern {
        Pattern::FullMesh => {
            let from = Hosts::new(transfers.from.clone(), "senders")?;
            weir_workload::Transfers::mesh(&from, &Hosts::new(transfers.to.clone(), "receivers")?)?
        }
        Pattern::Pairs => weir_workload::Transfers::pairs(transfers.pairs())?,
    };
    let mut workload = workload.per_pair(transfers.flows)?;
    if let Some(size) = size {
        workload = workload.bytes(size.get())?;
    }
    workload.times(transfers.start.into(), spread.unwrap_or(Duration::ZERO).into(), stop)
}
