//! The valid policy.
//!
//! A [`Policy`] exists only when every rule of the language and of admission control holds, so its
//! users need no checks of their own. It is immutable; a changed file makes a new one.
//!
//! Ids are indices in a canonical order that does not depend on the order of the file: services
//! with parents before children and siblings by name, machines by rack and name, racks by name
//! (numbers in names count by value, so `m2` comes before `m10`). Two hosts that read the same
//! policy therefore agree on every id, and a share does not change when a file is sorted
//! differently.
//!
//! Source: Parley §3.1 (services, contention points, min, max, weight, the star service as caps).

use crate::change::Written;
use crate::credits::Credits;
use crate::levels::{Level, LevelChoice, Levels, WorstLatency};
use crate::machine_set::{MachineSet, ids_of};
use crate::sweep;
use crate::tenants::{Tenant, TenantQueues};
use crate::tunnels::Tunnels;
use std::fmt;
use std::sync::Arc;
use weir_document::{Source, Span};
use weir_network::graph::Graph;
use weir_network::names::{find, index_by_name};
use weir_network::{Network, Wiring};
use weir_units::{
    Bandwidth, Bytes, ContentionPoint, Direction, Duration, MachineId, PerDirection, PerPoint, RackId, ServiceId,
    Weight,
};

/// A whole policy: the network, the services that share it and their shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub(crate) sharing: Sharing,
    pub(crate) network: Network,
    pub(crate) wiring: Wiring,
    pub(crate) services: Services,
    pub(crate) tunnels: Tunnels,
    pub(crate) caps: Caps,
    pub(crate) levels: Option<Levels>,
    pub(crate) credits: Option<Credits>,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) tenant_queues: TenantQueues,
    pub(crate) digest: u64,
    pub(crate) written: Written,
}

impl Policy {
    /// The sharing rule of the top-level services at each contention point.
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }
    /// Racks and machines.
    pub fn network(&self) -> &Network {
        &self.network
    }
    /// The network's links, as far as the file states them.
    pub fn wiring(&self) -> &Wiring {
        &self.wiring
    }
    /// Hosts, switches and links of the network. Host i is machine i.
    pub fn graph(&self) -> Arc<Graph> {
        self.wiring.graph(&self.network)
    }
    /// The tree of services.
    pub fn services(&self) -> &Services {
        &self.services
    }
    /// The UDP ports of tunnels whose networks filters specify.
    pub fn tunnels(&self) -> &Tunnels {
        &self.tunnels
    }
    /// Caps on the sum of all traffic at a contention point: the papers' star service (Parley Fig
    /// 1).
    pub fn caps(&self) -> &Caps {
        &self.caps
    }
    /// The latency levels, if the policy has any.
    pub fn levels(&self) -> Option<&Levels> {
        self.levels.as_ref()
    }
    /// `credits:` of the file; `None` if no service has credits.
    pub fn credits(&self) -> Option<&Credits> {
        self.credits.as_ref()
    }
    /// The level of a service's traffic; `None` for traffic of no level, and for a level that is still to be chosen.
    pub fn level_of(&self, service: ServiceId) -> Option<Level> {
        match self.services.get(service).level? {
            LevelChoice::Numbered(level) => Some(level),
            LevelChoice::Auto => None,
        }
    }
    /// The tenants, in name order; a [`weir_units::TenantId`] is the index into this list.
    pub fn tenants(&self) -> &[Tenant] {
        &self.tenants
    }
    /// The binding of queues to tenants.
    pub fn tenant_queues(&self) -> &TenantQueues {
        &self.tenant_queues
    }
    /// A fingerprint of everything that decides shares. Hosts whose fingerprints differ do not
    /// agree on ids and must not mix their usage reports.
    pub fn digest(&self) -> u64 {
        self.digest
    }
    /// The weight of a sending machine at the receivers of a leaf service; 1 where none is written
    /// (Parley §3.2.1, weighted senders). It sends at this many times the rate that a receiver
    /// feeds back.
    pub fn sender_weight(&self, service: ServiceId, machine: MachineId) -> Weight {
        let senders = &self.services.get(service).senders;
        senders.binary_search_by_key(&machine, |(id, _)| *id).map_or(Weight::ONE, |place| senders[place].1)
    }
    /// The capacity of a machine's network interface: its speed, for receiving
    /// [`RECEIVE_PERCENT`] of it, or the machine cap where that is lower.
    pub fn machine_capacity(&self, machine: MachineId, direction: Direction) -> Bandwidth {
        let speed = self.network.machine(machine).nic()[direction];
        let usable = match direction {
            Direction::Tx => speed,
            Direction::Rx => Bandwidth::from_bps((u128::from(speed.bps()) * RECEIVE_PERCENT / 100) as u64),
        };
        usable.min(self.caps[ContentionPoint::Machine][direction])
    }
    /// The largest guarantee at an instance of a contention point: the sum of the minima of the
    /// top-level services that run there.
    pub fn guaranteed(&self, point: ContentionPoint, direction: Direction) -> Bandwidth {
        let roots = self.services.roots().iter().map(|id| self.services.get(*id));
        let minima = roots.map(|service| (service.machines(), service.share(point, direction).min.bps().into()));
        let largest = sweep::sums(&self.network, point, minima).into_iter().map(|(_, sum)| sum).max();
        Bandwidth::from_bps(largest.and_then(|sum| u64::try_from(sum).ok()).unwrap_or(0))
    }
    /// Whether a service runs at an instance of a contention point.
    pub fn runs_at(&self, service: ServiceId, place: Place) -> bool {
        let Some(machines) = self.services.get(service).machines() else { return true };
        match place {
            Place::Machine(machine) => machines.contains(machine),
            Place::Rack(rack) => machines.overlaps(&ids_of(self.network.rack(rack))),
            Place::Fabric => true,
        }
    }
    /// The share of a service at an instance of a contention point: without a guarantee where it
    /// does not run; the reservation of a placed tenant at a machine. Traffic that matches a service there is limited
    /// as the service is.
    pub fn share_at(&self, service: ServiceId, place: Place, direction: Direction) -> Share {
        if let Place::Machine(machine) = place {
            let reserved = &self.services.get(service).reserved;
            if let Ok(at) = reserved.binary_search_by_key(&machine, |(id, _)| *id) {
                return reserved[at].1;
            }
        }
        let share = self.services.get(service).share(place.point(), direction);
        match self.runs_at(service, place) {
            true => share,
            false => Share { min: Bandwidth::ZERO, ..share },
        }
    }
    /// How many machines of an instance of a contention point a service runs on.
    pub fn machines_running(&self, service: ServiceId, place: Place) -> usize {
        let ids = match place {
            Place::Machine(MachineId(id)) => id..id + 1,
            Place::Rack(rack) => ids_of(self.network.rack(rack)),
            Place::Fabric => 0..self.network.machines().len() as u32,
        };
        self.services.get(service).machines().map_or(ids.len(), |machines| machines.count_in(&ids))
    }
    /// Whether some service runs on some machines only.
    pub fn has_placements(&self) -> bool {
        self.services.all().iter().any(|service| service.machines.is_some())
    }
    /// The position of the largest part of the receiving machines' guarantee; `None` without a
    /// guarantee.
    pub fn receive_minimum_place(&self) -> Option<(&Arc<Source>, Span)> {
        self.written.receive_minimum.as_ref().map(|(source, span)| (source, *span))
    }
    /// The most that the static policy lets a service have of a machine: the least of its own
    /// machine maximum and those of the services that it is nested in.
    pub fn machine_ceiling(&self, service: ServiceId, direction: Direction) -> Bandwidth {
        let mut ceiling = Bandwidth::UNLIMITED;
        let mut at = Some(service);
        while let Some(id) = at {
            let service = self.services.get(id);
            ceiling = ceiling.min(service.share(ContentionPoint::Machine, direction).max);
            at = service.parent();
        }
        ceiling
    }
    /// The capacity of a rack's uplink: its speed, or the rack cap where that is lower.
    pub fn rack_capacity(&self, rack: RackId, direction: Direction) -> Bandwidth {
        self.network.rack(rack).uplink()[direction].min(self.caps[ContentionPoint::Rack][direction])
    }
    /// The capacity of the fabric: the sum of all uplinks, or the fabric cap where that is lower.
    pub fn fabric_capacity(&self, direction: Direction) -> Bandwidth {
        let uplinks: Bandwidth = self.network.racks().iter().map(|rack| rack.uplink()[direction]).sum();
        uplinks.min(self.caps[ContentionPoint::Fabric][direction])
    }
}

/// The percentage of an interface's speed that its machine's services may receive together. Machine
/// shapers throttle senders when more arrives, and usage cannot exceed the link: at 95 it still
/// distinguishes a full link from one that is not (`docs/design/interface-meter.md`).
pub const RECEIVE_PERCENT: u128 = 95;

/// An instance of a contention point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// A machine's interface.
    Machine(MachineId),
    /// A rack's uplink.
    Rack(RackId),
    /// The fabric.
    Fabric,
}

impl Place {
    /// The kind of contention point.
    pub fn point(self) -> ContentionPoint {
        match self {
            Self::Machine(_) => ContentionPoint::Machine,
            Self::Rack(_) => ContentionPoint::Rack,
            Self::Fabric => ContentionPoint::Fabric,
        }
    }
}

/// Caps per contention point and direction; [`Bandwidth::UNLIMITED`] where none is written.
pub type Caps = PerPoint<PerDirection<Bandwidth>>;

/// The rule by which children divide their parent's bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Sharing {
    /// Guarantees first, then the excess by weight up to the maxima (Parley §3.1, the text). The
    /// default.
    #[default]
    Add,
    /// One fair share by weight, clipped between min and max (the result of Parley's Fig 14).
    Fill,
}

impl Sharing {
    /// `add` or `fill`, the keyword in the policy file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Fill => "fill",
        }
    }
}

/// The share of a service at one contention point in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Share {
    /// The guarantee, bit/s; zero when none. Never above `max`.
    pub min: Bandwidth,
    /// The limit; [`Bandwidth::UNLIMITED`] when none.
    pub max: Bandwidth,
    /// The weight in the excess.
    pub weight: Weight,
}

impl Default for Share {
    fn default() -> Self {
        Self { min: Bandwidth::ZERO, max: Bandwidth::UNLIMITED, weight: Weight::ONE }
    }
}

/// The tree of services in canonical order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Services {
    all: Vec<Service>,
    roots: Vec<ServiceId>,
    /// Indices into `all`, sorted by path.
    by_path: Vec<u32>,
}

impl Services {
    pub(crate) fn get_mut(&mut self, id: ServiceId) -> &mut Service {
        &mut self.all[id.index()]
    }
    /// A tree from a table that is already in canonical order.
    pub(crate) fn new(all: Vec<Service>) -> Self {
        let by_path = index_by_name(all.len(), |i| &all[i as usize].path);
        let roots = (0..all.len()).filter(|i| all[*i].parent.is_none()).map(|i| ServiceId(i as u32)).collect();
        Self { all, roots, by_path }
    }
    /// All services, parents before children; a [`ServiceId`] is the index into this table.
    pub fn all(&self) -> &[Service] {
        &self.all
    }
    /// The top-level services.
    pub fn roots(&self) -> &[ServiceId] {
        &self.roots
    }
    /// A service by id.
    pub fn get(&self, id: ServiceId) -> &Service {
        &self.all[id.index()]
    }
    /// The id of the service with this path, such as `dfs/hbase`.
    pub fn named(&self, path: &str) -> Option<ServiceId> {
        find(&self.by_path, path, |i| &self.all[i as usize].path).map(ServiceId)
    }
    /// All filters in the order in which a packet is compared with them; the first that matches
    /// decides.
    ///
    /// Filters of endpoints ([`Match::is_endpoint`]) come before those of headers, within each
    /// group lower [`Service::order`] first, then lower id. Where two filters of different services
    /// overlap, the group or the order decides, never the id: such policies are refused.
    pub fn classification_order(&self) -> Vec<(ServiceId, &Match)> {
        let mut filters: Vec<_> =
            self.leaves().flat_map(|(id, service)| service.matches.iter().map(move |filter| (id, filter))).collect();
        // Stable: the filters of one service keep their order.
        filters.sort_by_key(|(id, filter)| (!filter.is_endpoint(), self.get(*id).order, *id));
        filters
    }
    /// Every id with its service, in order.
    pub fn iter(&self) -> impl Iterator<Item = (ServiceId, &Service)> {
        self.all.iter().enumerate().map(|(i, service)| (ServiceId(i as u32), service))
    }
    /// The services that packets are classified to: those without children.
    pub fn leaves(&self) -> impl Iterator<Item = (ServiceId, &Service)> {
        self.iter().filter(|(_, service)| service.is_leaf())
    }
}

/// A bundle of traffic that the policy names (Parley §3.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    pub(crate) path: String,
    pub(crate) parent: Option<ServiceId>,
    pub(crate) children: Vec<ServiceId>,
    pub(crate) sharing: Sharing,
    pub(crate) matches: Vec<Match>,
    pub(crate) order: i32,
    pub(crate) shares: PerPoint<PerDirection<Share>>,
    pub(crate) latency: Option<Latency>,
    pub(crate) level: Option<LevelChoice>,
    pub(crate) credits: Option<Weight>,
    pub(crate) shaper: Shaper,
    pub(crate) senders: Vec<(MachineId, Weight)>,
    pub(crate) machines: Option<Arc<MachineSet>>,
    /// A placed tenant's shares of machines' interfaces, ascending; empty for others.
    pub(crate) reserved: Vec<(MachineId, Share)>,
}

impl Service {
    /// The name with its parents' names before it: `dfs/hbase`.
    pub fn path(&self) -> &str {
        &self.path
    }
    /// The service that it is nested in.
    pub fn parent(&self) -> Option<ServiceId> {
        self.parent
    }
    /// The services nested in it, ascending; empty for a leaf.
    pub fn children(&self) -> &[ServiceId] {
        &self.children
    }
    /// Whether packets are classified to it directly.
    pub fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }
    /// The rule by which its children divide its bandwidth.
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }
    /// The packets that belong to it: any of these. Empty for a service with children.
    pub fn matches(&self) -> &[Match] {
        &self.matches
    }
    /// The order in which overlapping services are tried, lowest first; 0 where the file has none.
    pub fn order(&self) -> i32 {
        self.order
    }
    /// Its share at a contention point in a direction.
    pub fn share(&self, point: ContentionPoint, direction: Direction) -> Share {
        self.shares[point][direction]
    }
    /// The requested 99th percentile of completion times.
    pub fn latency(&self) -> Option<LatencyTarget> {
        match self.latency {
            Some(Latency::Percentile(target)) => Some(target),
            _ => None,
        }
    }
    /// The requested worst case of completion times.
    pub fn worst_latency(&self) -> Option<WorstLatency> {
        match self.latency {
            Some(Latency::Worst(target)) => Some(target),
            _ => None,
        }
    }
    /// The requested latency level.
    pub fn level(&self) -> Option<LevelChoice> {
        self.level
    }
    /// The weight of its flows in the credits that ports grant; `None` for a service without credits.
    pub fn credits(&self) -> Option<Weight> {
        self.credits
    }
    /// The parameters of machine shapers for it, if the file gives any. None for a service with
    /// children.
    pub fn shaper(&self) -> Shaper {
        self.shaper
    }
    /// The machines on which it runs; `None` for every machine.
    pub fn machines(&self) -> Option<&MachineSet> {
        self.machines.as_deref()
    }
    /// The sending machines whose weight at its receivers is not 1, ascending; see
    /// [`Policy::sender_weight`].
    pub fn senders(&self) -> &[(MachineId, Weight)] {
        &self.senders
    }
}

/// `shaper: { interval: 200us, burst: 64kB }`: the parameters of machine shapers for a service
/// (Parley §7). Each machine may have its own default for missing ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Shaper {
    /// The interval of its receive meters, [`MIN_INTERVAL`](crate::language::MIN_INTERVAL) to
    /// [`MAX_INTERVAL`](crate::language::MAX_INTERVAL).
    pub interval: Option<Duration>,
    /// The burst of its destination limiters,
    /// [`MIN_BURST`](crate::language::MIN_BURST) to [`MAX_BURST`](crate::language::MAX_BURST).
    pub burst: Option<Bytes>,
}

/// One packet filter: a packet matches when every field that is present does.
///
/// `ports` and `address` match either end of a packet, so both directions of a service's
/// connections are its own, at the client and at the server alike.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Match {
    /// The IP protocol.
    pub protocol: Option<Protocol>,
    /// First and last port, inclusive; source or destination.
    pub ports: Option<(u16, u16)>,
    /// A prefix that the source or the destination address is in.
    pub address: Option<ipnet::IpNet>,
    /// A glob (`*`, `?`) over the name of the agent's interface, or of that of the guest that sends or receives.
    pub interface: Option<String>,
    /// The pods that may send or receive.
    pub pod: Option<crate::PodSelector>,
    /// The control groups that the packet's socket may be in.
    pub cgroup: Option<crate::CgroupGlob>,
    /// The differentiated-services code point, 0 to 63.
    pub dscp: Option<u8>,
    /// The network identifier of VXLAN or Geneve, 0 to 2^24 − 1.
    pub vni: Option<u32>,
    /// The priority of the sending socket (`SO_PRIORITY`).
    pub priority: Option<u32>,
}

impl Match {
    /// Whether the filter names an endpoint (interface, pod, cgroup, virtual network, socket priority) and not only
    /// headers. Endpoint filters are tried first: a tenant's traffic is the tenant's on every port.
    pub fn is_endpoint(&self) -> bool {
        self.is_of_guests() || self.cgroup.is_some() || self.vni.is_some() || self.priority.is_some()
    }
    /// Whether the filter names an interface or pods.
    pub fn is_of_guests(&self) -> bool {
        self.interface.is_some() || self.pod.is_some()
    }
    /// Whether packets that a host receives can match. The priority of a sender's socket does not travel in packets,
    /// and the receiving socket, which has a control group, is looked up for TCP and UDP. The socket of a packet in a
    /// tunnel is the tunnel's.
    pub fn is_known_on_receipt(&self) -> bool {
        let has_socket = self.protocol.is_none_or(|protocol| [Protocol::TCP, Protocol::UDP].contains(&protocol));
        self.priority.is_none() && (self.cgroup.is_none() || has_socket)
    }
    /// The filter in one spelling, the same for all equal filters: for sorting, fingerprints and
    /// messages.
    pub fn canonical_text(&self) -> String {
        let fields = [
            self.protocol.map(|protocol| format!("protocol {protocol}")),
            self.ports.map(|(first, last)| match first == last {
                true => format!("port {first}"),
                false => format!("port {first}-{last}"),
            }),
            self.address.map(|address| format!("address {address}")),
            self.interface.as_ref().map(|interface| format!("interface {interface}")),
            self.pod.as_ref().map(|pod| format!("pod {pod}")),
            self.cgroup.as_ref().map(|cgroup| format!("cgroup {cgroup}")),
            self.dscp.map(|dscp| format!("dscp {dscp}")),
            self.vni.map(|vni| format!("vni {vni}")),
            self.priority.map(|priority| format!("priority {priority}")),
        ];
        fields.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// An IP protocol by number, with the names that files use for the common ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// TCP, 6.
    pub const TCP: Self = Self(6);
    /// UDP, 17.
    pub const UDP: Self = Self(17);
    /// ICMP, 1.
    pub const ICMP: Self = Self(1);
    /// SCTP, 132.
    pub const SCTP: Self = Self(132);
    /// ICMP for IPv6, 58.
    pub const ICMPV6: Self = Self(58);
    /// The names that files may use, with their numbers.
    pub(crate) const NAMES: &'static [(&'static str, i128)] =
        &[("tcp", 6), ("udp", 17), ("icmp", 1), ("icmpv6", 58), ("sctp", 132)];
}

impl fmt::Display for Protocol {
    /// The name where there is one, otherwise the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(_, number)| *number == self.0.into()) {
            Some((name, _)) => f.pad(name),
            None => f.pad(&self.0.to_string()),
        }
    }
}

/// `latency: { message: 1MB, p99: 20ms }`: a completion time to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LatencyTarget {
    /// The message's size.
    pub message: Bytes,
    /// The time within which 99 of 100 messages must finish.
    pub p99: Duration,
}

/// The target of `latency:` of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Latency {
    /// A percentile, kept by capacity and load.
    Percentile(LatencyTarget),
    /// A worst case, kept by a latency level.
    Worst(WorstLatency),
}
