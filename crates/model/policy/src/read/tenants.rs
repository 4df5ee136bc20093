//! Tenants with their positions.

use super::services::{ReadService, Reader, order};
use super::share::ReadShare;
use crate::dscp::dscp;
use crate::language::{
    MAX_CONTROL_INTERVAL, MAX_TENANT_VMS, MAX_TENANTS, MIN_CONTROL_INTERVAL, PATHS_KEYWORDS, SHARED_KEYWORDS,
};
use crate::model::{Policy, Service, Shaper, Sharing};
use crate::tenants::{SharedQueue, Tenant, TenantPaths, TenantQueues, VmGroup};
use weir_document::{Field, Key, Node, Problems, Span, scalar};
use weir_network::layers;
use weir_network::names::natural_order;
use weir_network::read::ReadNetwork;
use weir_network::switches::Offer;
use weir_units::{Bandwidth, PerDirection, PerPoint, ServiceId};

impl Reader<'_> {
    /// Reads the tenants, each with its service behind all services so far, by name.
    pub(super) fn tenants(&mut self, node: &Node) -> Vec<Tenant> {
        let mut entries: Vec<_> = node.entries().iter().collect();
        entries.sort_by(|(a, _), (b, _)| natural_order(&a.text, &b.text));
        if let Some((key, _)) = entries.get(MAX_TENANTS) {
            self.problems.error(key.span, format!("the policy has more than {MAX_TENANTS} tenants"), "remove some");
            entries.truncate(MAX_TENANTS);
        }
        entries.into_iter().filter_map(|(key, node)| self.tenant(key, node)).collect()
    }

    fn tenant(&mut self, key: &Key, node: &Node) -> Option<Tenant> {
        let same = |read: &&ReadService| read.service.path == key.text;
        if let Some(service) = self.services.iter().find(same) {
            self.problems.error_with(
                key.span,
                format!("`{}` is a tenant and a service", key.text),
                "give one of them another name: results and counters name both alike",
                (service.name, "the service"),
            );
            return None;
        }
        let groups = self.groups(node)?;
        let id = ServiceId(self.services.len() as u32);
        let mut service = Service {
            path: key.text.clone(),
            parent: None,
            children: Vec::new(),
            sharing: Sharing::default(),
            matches: Vec::new(),
            order: node.field("order", order).value().unwrap_or(0),
            shares: PerPoint::default(),
            latency: None,
            level: None,
            credits: None,
            shaper: Shaper::default(),
            senders: Vec::new(),
            machines: None,
            reserved: Vec::new(),
        };
        let match_spans = self.filters(node, &mut service);
        let no_share = PerDirection::both(ReadShare::none());
        self.services.push(ReadService {
            name: key.span,
            shares: PerPoint { machine: no_share, rack: no_share, fabric: no_share },
            match_spans,
            level_span: None,
            latency_span: None,
            credits_span: None,
            senders_span: None,
            machines_span: None,
            is_tenant: true,
            service,
        });
        let tenant = Tenant { name: key.text.clone(), service: id, groups };
        let vms: u64 = tenant.groups.iter().map(|group| u64::from(group.vms)).sum();
        if vms > u64::from(MAX_TENANT_VMS) {
            let cause = format!("tenant `{}` has {vms} virtual machines", tenant.name);
            self.problems.error(key.span, cause, format!("a tenant has at most {MAX_TENANT_VMS}"));
            return None;
        }
        let sum =
            tenant.groups.iter().map(|group| u128::from(group.vms) * u128::from(group.bandwidth.bps())).sum::<u128>();
        if sum > u128::from(Bandwidth::MAX.bps()) {
            let cause = format!("the bandwidths of tenant `{}` sum to more than {}", tenant.name, Bandwidth::MAX);
            self.problems.error(key.span, cause, "no network has so much: check the units of its bandwidth");
            return None;
        }
        Some(tenant)
    }

    /// `vms: 20` with `bandwidth: 100Mb/s`, or both by group.
    fn groups(&mut self, node: &Node) -> Option<Vec<VmGroup>> {
        let (vms, bandwidth) = (node.get("vms")?, node.get("bandwidth")?);
        let by_group = |node: &Node| !node.entries().is_empty();
        if !by_group(vms) && !by_group(bandwidth) {
            let vms = vms.read(count).value()?;
            return Some(vec![VmGroup { name: None, vms, bandwidth: bandwidth.read(rate).value()? }]);
        }
        if !by_group(vms) {
            self.mismatch(bandwidth.span, "`bandwidth` is by group, `vms` is not", vms.span);
            return None;
        }
        let mut entries: Vec<_> = vms.entries().iter().collect();
        entries.sort_by(|(a, _), (b, _)| natural_order(&a.text, &b.text));
        let mut groups = Vec::new();
        for (key, vms) in entries {
            let bandwidth = match by_group(bandwidth) {
                true => bandwidth.field(&key.text, rate),
                false => bandwidth.read(rate),
            };
            if matches!(bandwidth, Field::Absent) {
                self.mismatch(key.span, &format!("group `{}` has no bandwidth", key.text), node.span);
            }
            let (Some(vms), Some(bandwidth)) = (vms.read(count).value(), bandwidth.value()) else { continue };
            groups.push(VmGroup { name: Some(key.text.clone()), vms, bandwidth });
        }
        for (key, _) in bandwidth.entries() {
            if vms.get(&key.text).is_none() {
                self.mismatch(key.span, &format!("group `{}` has no virtual machines", key.text), vms.span);
            }
        }
        Some(groups)
    }

    fn mismatch(&mut self, at: Span, cause: &str, other: Span) {
        let hint = "name the same groups in both, for example `vms: { web: 4, db: 2 }, bandwidth: { web: 200Mb/s, \
                    db: 1Gb/s }`";
        self.problems.error_with(at, cause, hint, (other, "beside this"));
    }
}

/// A remark if switches cannot give tenants queues.
pub(super) fn note_queues(root: &Node, offer: Option<Offer>, problems: &mut Problems) {
    let key = root.entries().iter().find(|(key, node)| key.text == "tenants" && !node.entries().is_empty());
    if let Some((key, _)) = key
        && offer.is_none_or(|offer| offer.available().1 == 0)
    {
        problems.note(
            key.span,
            "the network's switches have no weighted queues, so tenants have no guarantees inside it",
            "write what they have under `network`, for example `switches: { queues: 8, scheduler: weighted }`",
        );
    }
}

/// Packets are spread only over networks where reservations on all equal paths are sound.
pub(super) fn check_paths(root: &Node, queues: &TenantQueues, network: &ReadNetwork, problems: &mut Problems) {
    let paths = root.get("tenant-queues").and_then(|node| node.get("paths"));
    let (Some(paths), TenantPaths::Spread, 0) = (paths, queues.paths, problems.count()) else { return };
    let graph = network.wiring.graph(&network.network);
    if !layers::has_one_path(&graph) && !layers::is_layered(&graph) {
        problems.error(
            paths.span,
            "packets are spread over a network whose shortest paths do not all go up and then down, so the links that \
             a tenant needs are not known",
            "write `paths: routed` and route each tenant along its tree, as `weir place` lists it",
        );
    }
}

/// Tenants with queues of their own differ by DSCP values: there is at least one.
pub(super) fn check_dscps(root: &Node, policy: &Policy, problems: &mut Problems) {
    let queues = policy.network().offer().map_or(0, |offer| offer.available().1);
    let values = policy.tenant_dscps().len();
    if policy.tenants().is_empty() || values >= queues {
        return;
    }
    let key = |name: &str| root.entries().iter().find(|(key, _)| key.text == name).map(|(_, node)| node);
    let reserved = key("tenant-queues").and_then(|node| node.get("reserved-dscp"));
    let span = reserved.or(key("tenants")).map_or(root.span, |node| node.span);
    let hint =
        "of 64 values, 0, CS6, CS7, those of latency levels, of filters and of `reserved-dscp` are not for tenants";
    match values {
        0 => problems.error(span, "no DSCP value is left for tenants, so none can have a queue of its own", hint),
        _ => {
            let cause = format!("{values} DSCP values are left for the tenants of {queues} queues at every port");
            problems.note(span, cause, hint);
        }
    }
}

/// Reads `tenant-queues:`.
pub(super) fn queues(node: Option<&Node>, problems: &mut Problems) -> TenantQueues {
    let default = TenantQueues::default();
    let Some(node) = node else { return default };
    let interval = node.field("interval", |text| scalar::time(text, false));
    if let Field::Value(time, span) = interval
        && !(MIN_CONTROL_INTERVAL..=MAX_CONTROL_INTERVAL).contains(&time)
    {
        let cause = format!("the interval {time} is not between {MIN_CONTROL_INTERVAL} and {MAX_CONTROL_INTERVAL}");
        problems.error(span, cause, "for example `4s`");
    }
    let shared = node.field("shared", |text| scalar::word(text, "", SHARED_KEYWORDS)).value();
    let reserved = node.get("reserved-dscp").map_or(&[][..], Node::items).iter();
    TenantQueues {
        interval: interval.value().unwrap_or(default.interval),
        shared: if shared == Some(1) { SharedQueue::Cap } else { SharedQueue::Elastic },
        reserved_dscps: reserved.filter_map(|item| item.read(dscp).value()).collect(),
        paths: match node.field("paths", |text| scalar::word(text, "", PATHS_KEYWORDS)).value() {
            Some(0) => TenantPaths::Routed,
            Some(_) => TenantPaths::Spread,
            None => TenantPaths::Unstated,
        },
    }
}

fn count(text: &str) -> Result<u32, scalar::Refusal> {
    scalar::integer(text, "", 1, MAX_TENANT_VMS.into()).map(|vms| vms as u32)
}

fn rate(text: &str) -> Result<Bandwidth, scalar::Refusal> {
    scalar::rate(text, false, false)
}
