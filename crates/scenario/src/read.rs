//! From a file to a [`Scenario`]: names resolved, times in order, sizes bounded.
//!
//! The policy is read first, and what is wrong with it is reported under its own name beside what is wrong
//! with the scenario. Without a sound policy names cannot be looked up, so only the form of the scenario is
//! checked then.
//!
//! Worked example: `from: senders` is the ten machines of the rack `senders`; `from: [s1, s2]` is two
//! machines; a name that is both a rack and a machine is refused, since either may be meant.

use crate::language::{
    DIRECTION_WORDS, ENFORCEMENT_WORDS, MAX_BUFFER, MAX_DELAY, MAX_DURATION, MAX_FILE, MAX_FLOWS, MAX_MTU, MAX_SAMPLES,
    MIN_MTU, PATTERN_WORDS, SCENARIO,
};
use crate::model::{Enforcement, Links, Measure, Pattern, Scenario, Traffic};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_document::shape::Shape;
use weir_document::{
    Diagnostic, Diagnostics, Field, Node, Problems, Source, Span, Suggester, check, quote, scalar, tree,
};
use weir_policy::Policy;
use weir_policy::names::NameRange;
use weir_units::{Direction, Duration, MachineId, RackId, ServiceId};

impl Scenario {
    /// Reads a scenario file and the policy that it names. The notes are those of the policy.
    pub fn read(path: impl AsRef<Path>) -> Result<(Self, Vec<Diagnostic>), Diagnostics> {
        let path = path.as_ref();
        let source = Source::read(path, MAX_FILE)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        Self::from_source(&source, directory, |policy| Policy::read(policy))
    }

    /// Reads a scenario from a source. `load` reads the policy at the path that the scenario names, which
    /// is relative to `directory`.
    pub fn from_source(
        source: &Arc<Source>,
        directory: &Path,
        load: impl FnOnce(&Path) -> Result<(Policy, Vec<Diagnostic>), Diagnostics>,
    ) -> Result<(Self, Vec<Diagnostic>), Diagnostics> {
        let mut problems = Problems::new(source);
        let root = tree::parse(source, &mut problems);
        if let Some(root) = &root {
            check::check(root, &Shape::Record(&SCENARIO), &mut problems);
        }
        let policy_path = root.as_ref().and_then(|root| root.get("policy")).and_then(Node::scalar);
        let loaded = policy_path.filter(|path| !path.is_empty()).map(|path| {
            let path = directory.join(path);
            (load(&path), path)
        });
        let (policy, mut notes, refused) = match loaded {
            Some((Ok((policy, notes)), path)) => (Some((Arc::new(policy), path)), notes, None),
            Some((Err(refused), _)) => (None, Vec::new(), Some(refused)),
            None => (None, Vec::new(), None),
        };
        let scenario = match (&root, policy) {
            (Some(root), Some((policy, path))) => Reader::new(policy, &mut problems).scenario(root, path),
            _ => None,
        };
        let own = problems.finish(scenario);
        match (own, refused) {
            (Ok((Some(scenario), own_notes)), None) => {
                notes.extend(own_notes);
                Ok((scenario, notes))
            }
            (Err(mut errors), Some(refused)) => {
                errors.merge(refused);
                Err(errors)
            }
            (Err(errors), None) | (Ok(_), Some(errors)) => Err(errors),
            (Ok((None, _)), None) => unreachable!("no scenario, so an error was reported"),
        }
    }
}

struct Reader<'a> {
    policy: Arc<Policy>,
    problems: &'a mut Problems,
    suggester: Suggester,
    /// Machines named so far, each as often as it is named.
    named: u64,
}

/// Machines that all traffic together may name. Sound traffic of [`MAX_FLOWS`] names at most half of it;
/// the bound keeps a file of refused entries from taking minutes.
const MAX_NAMED: u64 = 4 * MAX_FLOWS;

impl<'a> Reader<'a> {
    fn new(policy: Arc<Policy>, problems: &'a mut Problems) -> Self {
        Self { policy, problems, suggester: Suggester::default(), named: 0 }
    }

    /// `None` only if something was reported.
    fn scenario(mut self, root: &Node, policy_path: PathBuf) -> Option<Scenario> {
        let duration = self.time(root, "duration", MAX_DURATION);
        let links = self.links(root.get("links"));
        let mut traffic = Vec::new();
        let mut flows: u64 = 0;
        for item in root.get("traffic").map_or(&[][..], Node::items) {
            // Reported once; a file may have thousands of entries that each name a whole network.
            if flows > MAX_FLOWS || self.named > MAX_NAMED {
                break;
            }
            if let Some(read) = self.traffic(item, duration, &mut flows) {
                traffic.push(read);
            }
        }
        let measure = root.get("measure").and_then(|node| self.measure(node, duration));
        let seed = root.field("seed", |text| scalar::integer(text, "", 0, u64::MAX.into()));
        let enforcement = root.field("enforcement", |text| scalar::word(text, "", ENFORCEMENT_WORDS));
        Some(Scenario {
            name: root.get("name")?.scalar()?.to_owned(),
            policy: self.policy,
            policy_path,
            seed: match seed.value() {
                Some(seed) => u64::try_from(seed).ok()?,
                None => 1,
            },
            duration: duration.value()?,
            enforcement: match enforcement.value() {
                Some(1) => Enforcement::None,
                _ => Enforcement::RackBroker,
            },
            links,
            traffic,
            measure: measure?,
        })
    }

    /// A time above zero and at most `most`.
    fn time(&mut self, node: &Node, key: &str, most: Duration) -> Field<Duration> {
        let field = node.field(key, |text| scalar::time(text, false));
        if let Field::Value(time, span) = field
            && time > most
        {
            self.problems.error(
                span,
                format!("the {key} {time} is longer than {most}"),
                format!("write at most {most}"),
            );
            return Field::Bad;
        }
        field
    }

    fn links(&mut self, node: Option<&Node>) -> Links {
        let mut links = Links::default();
        let Some(node) = node else { return links };
        if let Field::Value(delay, _) = self.time(node, "delay", MAX_DELAY) {
            links.delay = delay;
        }
        let (buffer, mtu) = (node.field("buffer", scalar::size), node.field("mtu", scalar::size));
        if let Field::Value(size, span) = mtu {
            if (MIN_MTU..=MAX_MTU).contains(&size) {
                links.mtu = size;
            } else {
                self.problems.error(
                    span,
                    format!("the mtu {size} is not between {} B and {} B", MIN_MTU.get(), MAX_MTU.get()),
                    "write for example `1500B`",
                );
            }
        }
        if let Field::Value(size, span) = buffer {
            links.buffer = size;
            if size > MAX_BUFFER {
                self.problems.error(
                    span,
                    format!("the buffer {size} is larger than {MAX_BUFFER}"),
                    "for example `256kB`",
                );
            }
        }
        if links.buffer < links.mtu {
            let span = buffer.span().or(mtu.span()).unwrap_or(node.span);
            self.problems.error(
                span,
                format!("the buffer {} holds no packet of {}", links.buffer, links.mtu),
                "make it at least as large as the mtu",
            );
        }
        if let Some(spines) = node.field("spines", |text| scalar::integer(text, "", 1, 64)).value() {
            links.spines = spines as u32;
        }
        links
    }

    /// Reads one entry of `traffic`; `flows` counts the connections of all of them.
    fn traffic(&mut self, node: &Node, duration: Field<Duration>, flows: &mut u64) -> Option<Traffic> {
        let service = node.get("service").and_then(|node| self.service(node));
        let from = node.get("from").and_then(|node| self.machines(node));
        let to = node.get("to").and_then(|node| self.machines(node));
        let pattern = node.field("pattern", |text| scalar::word(text, "", PATTERN_WORDS));
        let pattern = match pattern {
            Field::Value(1, _) => Pattern::Pairs,
            Field::Value(..) | Field::Absent => Pattern::FullMesh,
            Field::Bad => return None,
        };
        let per_pair = match node.field("flows", |text| scalar::integer(text, "", 1, MAX_FLOWS.into())) {
            Field::Value(flows, _) => u32::try_from(flows).ok()?,
            Field::Absent => 1,
            Field::Bad => return None,
        };
        let start = node.field("start", |text| scalar::time(text, true));
        let stop = node.field("stop", |text| scalar::time(text, false));
        let (start, stop) = self.interval(start, stop, duration, node.span)?;
        let traffic = Traffic { service: service?, from: from?, to: to?, pattern, flows: per_pair, start, stop };
        self.pairs(&traffic, node, flows).then_some(traffic)
    }

    /// The times of an entry: `start` before `stop`, `stop` within the duration.
    fn interval(
        &mut self,
        start: Field<Duration>,
        stop: Field<Duration>,
        duration: Field<Duration>,
        entry: Span,
    ) -> Option<(Duration, Duration)> {
        if start.is_bad() || stop.is_bad() {
            return None;
        }
        let duration = duration.value()?;
        let from = start.value().unwrap_or(Duration::ZERO);
        let to = stop.value().unwrap_or(duration);
        if let Field::Value(stop, span) = stop
            && stop > duration
        {
            self.problems.error(
                span,
                format!("traffic stops at {stop}, after the end of the run at {duration}"),
                "stop earlier, or make `duration` longer",
            );
            return None;
        }
        if to <= from {
            self.problems.error(
                stop.span().or(start.span()).unwrap_or(entry),
                format!("traffic stops at {to} but starts at {from}"),
                "write a `stop` after the `start`",
            );
            return None;
        }
        Some((from, to))
    }

    /// Checks who sends to whom and counts the connections.
    fn pairs(&mut self, traffic: &Traffic, node: &Node, flows: &mut u64) -> bool {
        let (from, to) = (&traffic.from, &traffic.to);
        let network = self.policy.network();
        let place = node.get("to").map_or(node.span, |to| to.span);
        let pairs = match traffic.pattern {
            Pattern::FullMesh => {
                let receivers: BTreeSet<_> = to.iter().collect();
                let both = from.iter().filter(|machine| receivers.contains(machine)).count() as u64;
                let pairs = from.len() as u64 * to.len() as u64 - both;
                if pairs == 0 {
                    self.problems.error(
                        place,
                        format!("machine `{}` would send to itself only", network.machine(from[0]).name()),
                        "name other machines in `to`",
                    );
                }
                pairs
            }
            Pattern::Pairs if from.len() != to.len() => {
                self.problems.error(
                    place,
                    format!("pairs need as many receivers as senders: {} senders, {} receivers", from.len(), to.len()),
                    "name as many machines in `to` as in `from`, or write `pattern: full-mesh`",
                );
                0
            }
            Pattern::Pairs => match from.iter().zip(to).find(|(from, to)| from == to) {
                Some((machine, _)) => {
                    self.problems.error(
                        place,
                        format!("machine `{}` would send to itself", network.machine(*machine).name()),
                        "pairs are made in canonical order; name other machines in `to`",
                    );
                    0
                }
                None => from.len() as u64,
            },
        };
        *flows = flows.saturating_add(pairs.saturating_mul(traffic.flows.into()));
        if *flows > MAX_FLOWS {
            self.problems.error(
                node.span,
                format!("the scenario has more than {MAX_FLOWS} flows"),
                "lower `flows`, or name fewer machines",
            );
            return false;
        }
        pairs > 0
    }

    /// The machines that a name, a range or a list of them stands for, ascending.
    fn machines(&mut self, node: &Node) -> Option<Vec<MachineId>> {
        let items = if node.items().is_empty() { std::slice::from_ref(node) } else { node.items() };
        let before = self.problems.count();
        let mut all = BTreeSet::new();
        for item in items {
            self.add_machines(item, &mut all);
        }
        (self.problems.count() == before && !all.is_empty()).then(|| all.into_iter().collect())
    }

    fn add_machines(&mut self, item: &Node, all: &mut BTreeSet<MachineId>) {
        let Some(Ok(range)) = item.scalar().map(NameRange::parse) else { return };
        let network = Arc::clone(&self.policy);
        let network = network.network();
        if range.count() > network.machines().len() as u64 {
            let count = network.machines().len();
            self.problems.error(
                item.span,
                format!("the range names {} machines, the policy has {count}", range.count()),
                "check the ends of this range",
            );
            return;
        }
        for name in range.names() {
            let (rack, machine) = (network.rack_named(&name), network.machine_named(&name));
            let machines = match (rack, machine) {
                (Some(_), Some(_)) => {
                    self.problems.error(
                        item.span,
                        format!("{} is both a rack and a machine", quote(&name)),
                        "rename one of them in the policy",
                    );
                    return;
                }
                (Some(rack), None) => network.rack(rack).machines().to_vec(),
                (None, Some(machine)) => vec![machine],
                (None, None) => {
                    let known = network.racks().iter().map(|rack| rack.name());
                    let known = known.chain(network.machines().iter().map(|machine| machine.name()));
                    let hint = self.suggester.hint(&name, known, "name racks and machines of the policy");
                    self.problems.error(
                        item.span,
                        format!("there is no rack and no machine {} in the policy", quote(&name)),
                        hint,
                    );
                    return;
                }
            };
            self.named += machines.len() as u64;
            if self.named > MAX_NAMED {
                self.problems.error(
                    item.span,
                    format!("the traffic names machines more than {MAX_NAMED} times"),
                    "name fewer machines",
                );
                return;
            }
            for machine in machines {
                if !all.insert(machine) {
                    self.problems.error(
                        item.span,
                        format!("machine `{}` is named twice", network.machine(machine).name()),
                        "name each machine once; a rack names all of its machines",
                    );
                    return;
                }
            }
        }
    }

    fn service(&mut self, node: &Node) -> Option<ServiceId> {
        let path = node.scalar()?;
        let services = self.policy.services();
        let Some(id) = services.named(path) else {
            let known = services.leaves().map(|(_, service)| service.path());
            let hint = self.suggester.hint(path, known, "name a service of the policy, nested ones as `parent/child`");
            self.problems.error(node.span, format!("there is no service {} in the policy", quote(path)), hint);
            return None;
        };
        let service = services.get(id);
        if let Some(child) = service.children().first() {
            self.problems.error(
                node.span,
                format!("service `{path}` has no traffic of its own: its children have"),
                format!("name one of its children, for example `{}`", services.get(*child).path()),
            );
            return None;
        }
        Some(id)
    }

    fn rack(&mut self, node: &Node) -> Option<RackId> {
        let name = node.scalar()?;
        let network = self.policy.network();
        let found = network.rack_named(name);
        if found.is_none() {
            let known = network.racks().iter().map(|rack| rack.name());
            let hint = self.suggester.hint(name, known, "name a rack of the policy");
            self.problems.error(node.span, format!("there is no rack {} in the policy", quote(name)), hint);
        }
        found
    }

    fn measure(&mut self, node: &Node, duration: Field<Duration>) -> Option<Measure> {
        let rack = node.get("rack").and_then(|node| self.rack(node));
        let direction = node.field("direction", |text| scalar::word(text, "", DIRECTION_WORDS)).value();
        let every = node.field("every", |text| scalar::time(text, false));
        if let (Field::Value(every, span), Field::Value(duration, _)) = (every, duration) {
            if every > duration {
                self.problems.error(
                    span,
                    format!("one sample of {every} is longer than the run of {duration}"),
                    "sample more often, or make `duration` longer",
                );
            } else if every.nanos() > 0 && duration.nanos() / every.nanos() > MAX_SAMPLES {
                self.problems.error(
                    span,
                    format!("a sample every {every} in a run of {duration} gives more than {MAX_SAMPLES} samples"),
                    "sample less often",
                );
            }
        }
        Some(Measure { rack: rack?, direction: Direction::ALL[direction?], every: every.value()? })
    }
}
