//! From a file to a [`Scenario`]: names resolved, times in order, sizes bounded.
//!
//! The policy is read first, and its errors are reported under its own name beside those of the
//! scenario; a network of its own is estimated before it is built. Without a sound network names
//! cannot be resolved, so only the form of traffic, events and measurement is checked then.
//!
//! | module | reads |
//! |---|---|
//! | `files` | the source of policies and tables; other inputs of a reader |
//! | `policy` | references to a policy |
//! | `hosts` | `hosts:` |
//! | `names` | hosts, groups and links by name |
//! | `traffic`, `transfers`, `random`, `rounds`, `incasts`, `events` | `traffic:`, `events:`, `measure:` |
//! | `applications` | real servers and their clients, for the lab alone |
//! | `credit_services` | services with credits |
//! | `control` | `enforcement:`, `shaper:`, `brokers:`, events of brokers and of the policy |
//! | `credits` | paths and round trips of flows with credits, `without-forwarder:` |
//! | `overload` | random traffic above the rate of hosts' links |
//! | `trips`, `window` | round trips, and receive windows that cannot fill them |
//!
//! Worked example: `from: senders` is the ten machines of the rack `senders`; `from: [s1, s2]` is
//! two machines; a name of both a rack and a machine is refused as ambiguous.

mod applications;
mod control;
mod credit_services;
mod credits;
mod events;
mod files;
mod hosts;
mod incasts;
mod names;
mod overload;
mod policy;
mod random;
mod rounds;
mod tenants;
mod traffic;
mod transfers;
mod trips;
mod window;

pub use files::{Disk, Files, PolicyOutcome, ReadOptions};

use crate::governed::{BrokerSettings, ControlChange, Enforcement, Governed, ShaperSettings};
use crate::language::{MAX_DURATION, MAX_FILE, SCENARIO};
use crate::model::{Measurement, Scenario};
use credit_services::CreditTraffic;
use files::PolicyOnly;
use names::Names;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_document::shape::Shape;
use weir_document::{Diagnostic, Diagnostics, Field, Node, Problems, Source, Span, Suggester, check, scalar, tree};
use weir_network::graph::{Discipline, Graph, LinkRef};
use weir_network::read::NetworkReader;
use weir_network::topology::Links;
use weir_policy::Policy;
use weir_units::{Bandwidth, Bytes, ContentionPoint, Direction, Duration};

/// A scenario, or the errors; the notes are those of the policy and the scenario.
pub type Outcome = Result<(Scenario, Vec<Diagnostic>), Diagnostics>;

impl Scenario {
    /// Reads a scenario file and the files that it names. The notes are those of the policy.
    pub fn read(path: impl AsRef<Path>) -> Outcome {
        Self::read_with(path, &ReadOptions::default())
    }

    /// Reads a scenario file and the files that it names, with values set from outside and a bound
    /// on its memory.
    pub fn read_with(path: impl AsRef<Path>, options: &ReadOptions) -> Outcome {
        let path = path.as_ref();
        let source = Source::read(path, MAX_FILE)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        Self::from_files(&source, directory, &mut Disk, options)
    }

    /// Reads a scenario from a source. `load` reads the policy at the scenario's path, which is
    /// relative to `directory`; there are no other files.
    pub fn from_source(
        source: &Arc<Source>,
        directory: &Path,
        load: impl FnOnce(&Path) -> Result<(Policy, Vec<Diagnostic>), Diagnostics>,
    ) -> Outcome {
        Self::from_files(source, directory, &mut PolicyOnly::new(load), &ReadOptions::default())
    }

    /// Reads a scenario from a source. Its files come from `files`, by paths that start with
    /// `directory`.
    pub fn from_files(
        source: &Arc<Source>,
        directory: &Path,
        files: &mut impl Files,
        options: &ReadOptions,
    ) -> Outcome {
        let mut problems = Problems::new(source);
        let mut root = tree::parse(source, &mut problems);
        if let Some(root) = &mut root {
            for (path, value) in &options.set {
                weir_document::set(root, &Shape::Alternatives(&SCENARIO), path, value, &mut problems);
            }
            check::check(root, &Shape::Alternatives(&SCENARIO), &mut problems);
        }
        let (mut notes, mut others) = (Vec::new(), Vec::new());
        let scenario = root.as_ref().and_then(|root| {
            let memory = options.memory;
            let suggester = Suggester::default();
            let mut reader = Reader {
                problems: &mut problems,
                suggester,
                files,
                directory,
                memory,
                notes: &mut notes,
                others: &mut others,
            };
            // With neither a policy nor a network the names mean nothing.
            SCENARIO.chosen(root).and_then(|_| reader.scenario(root))
        });
        problems.finish_with(scenario, notes, others)
    }
}

/// The shared state of the reader's parts.
struct Reader<'a, F> {
    problems: &'a mut Problems,
    suggester: Suggester,
    files: &'a mut F,
    directory: &'a Path,
    memory: Option<Bytes>,
    /// Remarks on other files.
    notes: &'a mut Vec<Diagnostic>,
    /// Errors of other files.
    others: &'a mut Vec<Diagnostics>,
}

/// A policy with its file, and the links between its racks.
struct Base {
    policy: Arc<Policy>,
    path: PathBuf,
    /// `None` over a topology.
    links: Option<Links>,
}

impl<F: Files> Reader<'_, F> {
    fn error(&mut self, span: Span, cause: impl Into<String>, hint: impl Into<String>) {
        self.problems.error(span, cause, hint);
    }

    /// `None` only if something was reported.
    fn scenario(&mut self, root: &Node) -> Option<Scenario> {
        let duration = self.duration(root);
        let (graph, base) = match root.get("policy") {
            Some(_) => self.policy_network(root)?,
            None => (root.get("network").and_then(|network| self.networks().graph(network)).map(Arc::new), None),
        };
        let graph = graph?;
        let policy = base.as_ref().map(|base| &base.policy);
        let hosts = self.host_queues(root, graph.packets);
        let names = Names::new(&graph, policy.map(|policy| policy.network()));
        let transport = self.transport(root.get("transport"));
        let (traffic, applications) = self.traffic(root.get("traffic"), &names, policy, transport.as_ref(), duration);
        let items = root.get("traffic").map_or(&[][..], Node::items);
        // Where a flow group is missing, something is reported anyway.
        if items.len() == traffic.len() {
            overload::remark(items, &traffic, &graph, self.problems);
            window::remark(&traffic, &graph, policy.map(|policy| &**policy), self.problems);
            self.credits_can_be(root, items, &traffic, &graph);
        }
        let mut aggregates = if base.is_none() { self.aggregates(root, items, &traffic, &graph) } else { None };
        let mut without_forwarder = self.without_forwarder(root.get("without-forwarder"), &graph);
        let events = self.events(root.get("events"), &names, duration);
        let (measurement, governed) = match base {
            Some(base) => {
                let transfers = traffic.iter().filter_map(|read| read.transfers.clone()).collect();
                let (measurement, governed) = self.governed(root, base, &names, duration)?;
                let of = CreditTraffic { root, traffic: &traffic, graph: &graph, governed: &governed };
                aggregates = self.credits_of_policy(of);
                if aggregates.is_some() && !governed.policy.network().forwarders() {
                    without_forwarder = Some((0..graph.switches.len()).collect());
                }
                (Some(measurement), Some(Governed { transfers, applications, ..governed }))
            }
            None => (self.measure_links(root.get("measure"), &names, duration), None),
        };
        self.remarks(root, &traffic, &graph, governed.as_ref().is_some_and(|governed| governed.enforcement.marks()));
        self.remark_without_forwarder(root, &traffic, aggregates.is_some());
        let seed = root.field("seed", |text| scalar::integer(text, "", 0, u64::MAX.into()));
        let lab_only = self.lab_only(root);
        let simulator_only = simulator_only(root, governed.as_ref(), &traffic, &graph);
        drop(names);
        Some(Scenario {
            name: root.get("name")?.scalar()?.to_owned(),
            seed: match seed.value() {
                Some(seed) => u64::try_from(seed).ok()?,
                None => 1,
            },
            duration: duration.value()?,
            graph,
            hosts: hosts?,
            flow_groups: traffic.into_iter().map(|read| read.traffic).collect(),
            events,
            measurement: measurement?,
            without_forwarder: without_forwarder?,
            aggregates,
            governed,
            simulator_only,
            lab_only,
        })
    }

    /// The keys of a scenario under a policy, without its traffic; `None` only if something was
    /// reported.
    fn governed(
        &mut self,
        root: &Node,
        base: Base,
        names: &Names<'_>,
        duration: Field<Duration>,
    ) -> Option<(Measurement, Governed)> {
        let Base { policy, path, links } = base;
        let measure = root.get("measure").and_then(|node| self.measure_rack(node, &policy, duration))?;
        let watched = names.graph.rack_uplinks(measure.rack, measure.direction);
        let measurement = Measurement { every: measure.every, links: watched, are_named: true };
        let enforcement = self.enforcement(root);
        let shaper = self.shaper_settings(root.get("shaper"));
        let levels = self.level_switches(root.get("levels"), names)?;
        let tenants = self.tenancy(root, enforcement, names, &policy)?;
        let brokers = self.broker_settings(root.get("brokers"), names);
        let events = self.control_events(root.get("events"), names, &policy, duration);
        let changed = events.iter().filter_map(|event| match &event.change {
            ControlChange::Policy(change) => Some(&*change.policy),
            _ => None,
        });
        let policies: Vec<&Policy> = std::iter::once(&*policy).chain(changed).collect();
        self.without_effect(root, enforcement, &policies);
        let governed = Governed {
            policy,
            policy_path: path,
            enforcement,
            levels,
            tenants,
            shaper,
            brokers,
            events,
            links,
            transfers: Vec::new(),
            applications: Vec::new(),
            measure,
        };
        Some((measurement, governed))
    }

    /// Remarks on transports whose features the network does not support; `marks` if the enforcement marks packets in
    /// all queues of switches.
    fn remarks(&mut self, root: &Node, traffic: &[traffic::Read], graph: &Graph, marks: bool) {
        let sent_by = |protocol| traffic.iter().any(|read| read.traffic.transport.protocol() == protocol);
        // From the switches: these transports do not use the order in hosts' own interfaces.
        let queues = || graph.links().filter(|link| !matches!(link, LinkRef::Up(_))).map(|link| graph.link(link).queue);
        let at = root.get("transport").or(root.get("traffic")).map_or(root.span, |node| node.span);
        if sent_by("dctcp") && !marks && !queues().any(|queue| queue.mark.is_some()) {
            self.problems.note(
                at,
                "no queue marks packets, so dctcp will do as newreno does",
                "give queues a `mark`, for example `queue: { discipline: ecn, mark: 97500B }`",
            );
        }
        if sent_by("pfabric") && !queues().any(|queue| queue.discipline == Discipline::PFabric) {
            self.problems.note(
                at,
                "no queue orders packets by the remaining bytes of their flow, so pfabric's priorities have no effect",
                "write `queue: pfabric`",
            );
        }
    }

    /// The duration of the run, at most [`MAX_DURATION`].
    fn duration(&mut self, root: &Node) -> Field<Duration> {
        let duration = root.field("duration", |text| scalar::time(text, false));
        if let Field::Value(time, span) = duration
            && time > MAX_DURATION
        {
            self.error(
                span,
                format!("the duration {time} is longer than 200 d"),
                "write at most `200d`: the simulator counts picoseconds in 64 bits, which are 213 days",
            );
            return Field::Bad;
        }
        duration
    }

    /// The reader of networks, links and queues.
    fn networks(&mut self) -> NetworkReader<'_> {
        NetworkReader::new(self.problems, self.memory)
    }
}

/// Whether a policy limits racks' uplinks beyond their speed.
fn limits_racks(policy: &Policy) -> bool {
    let has_limit = |share: weir_policy::Share| share.min > Bandwidth::ZERO || !share.max.is_unlimited();
    Direction::ALL.iter().any(|direction| {
        !policy.caps()[ContentionPoint::Rack][*direction].is_unlimited()
            || policy.services().iter().any(|(_, service)| has_limit(service.share(ContentionPoint::Rack, *direction)))
    })
}

/// The reason why agents do not have an enforcement's part at hosts.
fn not_of_agents(policy: &Policy, enforcement: Enforcement) -> Option<String> {
    let system = match enforcement {
        Enforcement::None => return None,
        Enforcement::EyeQ => Some("its agents have Parley's machine shapers and not EyeQ's"),
        Enforcement::Pairs(_) => Some("its agents limit no pairs of machines"),
        _ => None,
    };
    system.map(str::to_owned).or_else(|| credit_services::not_of_lab(policy))
}

/// The first reason why the lab cannot run a scenario.
fn simulator_only(
    root: &Node,
    governed: Option<&Governed>,
    traffic: &[traffic::Read],
    graph: &Graph,
) -> Option<String> {
    let Some(governed) = governed else {
        return Some("it has a network of its own, and the lab builds the network of a policy".to_owned());
    };
    if governed.links.is_none() {
        return Some("its network is a topology, and the lab builds racks".to_owned());
    }
    let policy = &governed.policy;
    if let Some(reason) = not_of_agents(policy, governed.enforcement) {
        return Some(reason);
    }
    if root.get("policy-set").is_some_and(|settings| !settings.items().is_empty()) {
        return Some("it changes the policy (`policy-set`), and agents read the policy's file".to_owned());
    }
    if !governed.levels.regulators {
        return Some("it takes the regulators of levels away, and agents have them".to_owned());
    }
    if governed.enforcement == Enforcement::Levels {
        return Some("agents have shapers, and `levels` has none".to_owned());
    }
    if governed.enforcement == Enforcement::Parley && weir_alloc::has_fabric_limits(policy) {
        return Some("its policy limits the fabric, and the lab has no fabric broker".to_owned());
    }
    // Its own rack broker needs no message of others.
    if governed.enforcement == Enforcement::Shaper
        && policy.network().racks().iter().any(|rack| rack.machines().len() == 1)
        && limits_racks(policy)
    {
        return Some("a machine alone in its rack is its own rack broker, and the policy limits racks".to_owned());
    }
    if governed.enforcement != Enforcement::None && governed.shaper != ShaperSettings::default() {
        return Some("its agents take intervals and bursts from the policy, not from `shaper`".to_owned());
    }
    let timing = BrokerSettings { fabric: governed.brokers.fabric, ..BrokerSettings::default() };
    if governed.enforcement == Enforcement::Parley && governed.brokers != timing {
        return Some("its agents' brokers have Parley's timing, and `brokers` sets another".to_owned());
    }
    if root.get("hosts").is_some() {
        return Some("it sets the order in hosts' interfaces, and the lab's hosts have Linux's".to_owned());
    }
    if root.get("without-forwarder").is_some_and(|switches| !switches.items().is_empty()) {
        return Some("some of its switches have no forwarder, and all of the lab's have one".to_owned());
    }
    if root.get("events").is_some_and(|events| !events.items().is_empty()) {
        return Some("it has events in the network".to_owned());
    }
    if graph.hosts.iter().any(|host| host.down.queue.discipline != Discipline::Fifo) {
        return Some("its queues have classes or orders of their own".to_owned());
    }
    debug_assert!(governed.transfers.len() <= traffic.len());
    if let Some(reason) = root.get("aggregates").and_then(credit_services::aggregates_not_of_lab) {
        return Some(reason);
    }
    traffic.iter().find_map(not_sent_by_lab)
}

/// The reason why the lab cannot send a flow group.
fn not_sent_by_lab(read: &traffic::Read) -> Option<String> {
    let name = &read.traffic.name;
    let protocol = read.traffic.transport.protocol();
    let rounds = matches!(read.traffic.spec, weir_workload::Spec::Rounds(_));
    if matches!(read.traffic.spec, weir_workload::Spec::Incasts(_)) {
        return Some(format!("{name} has incasts that arrive by themselves, and the lab sends rounds to one receiver"));
    }
    if read.transfers.is_none() && !rounds {
        return Some(format!("{name} is neither long-lived transfers nor messages in rounds"));
    }
    if rounds && protocol == "udp" {
        return Some(format!("{name} sends messages by UDP"));
    }
    if !matches!(protocol, "newreno" | "cubic" | "udp") {
        return Some(format!("{name} is sent by {protocol}, and the lab has CUBIC and UDP only"));
    }
    if let weir_transport::Parameters::Udp(udp) = &read.traffic.transport
        && (udp.packet.is_some() || udp.burst > 1 || udp.on_off.is_some())
    {
        return Some(format!("{name} sends UDP in packets, bursts or times of its own"));
    }
    if read.traffic.connections.is_some() {
        return Some(format!("{name} sends messages on connections that stay open"));
    }
    (read.traffic.priority > 0).then(|| format!("{name} has a priority"))
}
