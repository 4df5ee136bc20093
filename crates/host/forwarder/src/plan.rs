//! [`Plan`]: what a policy needs of the ports of a forwarder.
//!
//! A packet's service must follow from the packet, since a switch has neither its socket nor its control group. A
//! filter that needs the host is refused if it is of a service with credits, or is tried before one: the switch would
//! count such packets as data without credits.

use std::collections::BTreeMap;
use std::fmt;
use weir_credits::{ForwarderSettings, Period, PeriodRule};
use weir_datapath::{Classifier, CreditPort, CreditPortSettings, Unenforceable, fits, fits_forwarders};
use weir_linux::service_number;
use weir_policy::{Match, Obstacle, Policy};
use weir_units::{Bandwidth, Bytes, Duration};

/// Periods without an allocation that end a flow, and for which a flow counts as leaving by a port: three lost in a row
/// are harmless.
const MEMORY: u64 = 4;

/// Why a policy cannot be in force at a forwarder.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// No service has credits.
    #[error("no service of the policy has credits")]
    NoCredits,
    /// The policy does not state that switches grant credits.
    #[error("the policy does not state that switches grant credits: hosts would not expect it")]
    NoForwarders,
    /// Neither buffers nor a longest period are stated.
    #[error("the longest period is not known: the policy states neither `credits: period-max` nor buffers")]
    NoPeriod,
    /// p-min is above p-max.
    #[error("the shortest period, {least}, is above the longest that the policy or its buffers allow, {most}")]
    Periods {
        /// p-min.
        least: Duration,
        /// p-max.
        most: Duration,
    },
    /// A filter needs the host.
    #[error("the filter `{filter}` of service `{service}` needs {what}, which a switch does not have{why}")]
    Host {
        /// The filter.
        filter: String,
        /// Its service.
        service: String,
        /// The fact about the host.
        what: &'static str,
        /// Why that is in the way.
        why: String,
    },
    /// Two services have one number.
    #[error("services `{0}` and `{1}` have the same number in messages: rename one")]
    Numbers(String, String),
    /// More services or filters than the tables have.
    #[error("{0}")]
    Unenforceable(#[from] Unenforceable),
}

impl PlanError {
    /// The remedy.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoCredits => Some("write `credits: {}` for a service"),
            Self::NoForwarders => Some("write `switches: { forwarders: true }`"),
            Self::NoPeriod => Some("write `switches: { buffer: 2MB }` or `credits: { period-max: 5ms }`"),
            Self::Periods { .. } => Some("write a shorter one with --period"),
            Self::Host { .. } => Some("use protocols, ports, addresses, dscp or vni"),
            Self::Unenforceable(error) => Some(error.hint()),
            Self::Numbers(..) => None,
        }
    }
}

/// The rules of one port by a plan.
#[derive(Debug, Clone)]
pub struct PortRules {
    pub(crate) classifier: Classifier,
    /// By the index of a service; 0: no credits.
    pub(crate) numbers: Vec<u32>,
    /// The paths of the services with credits, by number.
    pub(crate) services: BTreeMap<u32, String>,
    pub(crate) online: CreditPort,
    pub(crate) offline: ForwarderSettings,
    /// Whether R is the rate of the link.
    pub(crate) whole: bool,
}

/// The settings of all ports.
#[derive(Debug)]
pub struct Plan {
    policy: Policy,
    /// By the index of a service; 0: no credits.
    numbers: Vec<u32>,
    least: Period,
    most: Period,
    frame: Bytes,
    /// Why ports may lose packets; empty if they drop data without credits instead.
    obstacles: Vec<String>,
}

impl Plan {
    /// The plan of a policy with p-min.
    pub fn of(policy: Policy, least: Duration) -> Result<Self, PlanError> {
        let credits = policy.credit_plan().ok_or(PlanError::NoCredits)?;
        if !policy.network().forwarders() {
            return Err(PlanError::NoForwarders);
        }
        let most = credits.period_max.ok_or(PlanError::NoPeriod)?;
        if least > most {
            return Err(PlanError::Periods { least, most });
        }
        check_filters(&policy)?;
        fits_forwarders(&policy)?;
        let numbers = numbers(&policy)?;
        let obstacles = credits.obstacles.iter().map(|obstacle| described(*obstacle).to_owned()).collect();
        let micros = |time: Duration| Period::from_micros(u32::try_from(time.nanos() / 1_000).unwrap_or(u32::MAX));
        Ok(Self { numbers, least: micros(least), most: micros(most), frame: credits.frame, obstacles, policy })
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Why ports may lose packets of services with credits; empty if they claim to lose none.
    pub fn obstacles(&self) -> &[String] {
        &self.obstacles
    }

    /// R of a port whose link has this rate.
    pub fn rate(&self, link: Bandwidth) -> Bandwidth {
        self.policy.credit_rate(link).unwrap_or(link)
    }

    /// The rules of the port of an interface whose link has this rate.
    pub fn port(&self, interface: &str, link: Bandwidth) -> Result<PortRules, PlanError> {
        let classifier = fits(&self.policy, interface)?;
        let paths = self.policy.services().iter().map(|(_, service)| service.path().to_owned());
        let services = self.numbers.iter().copied().zip(paths).filter(|(number, _)| *number != 0).collect();
        let (rate, lossless) = (self.rate(link), self.obstacles.is_empty());
        let online = CreditPort::new(&CreditPortSettings { rate, most: self.most, lossless });
        let rule = PeriodRule { rate, least: self.least, most: self.most, frame: self.frame };
        Ok(PortRules {
            classifier,
            numbers: self.numbers.clone(),
            services,
            online: online.with_whole_frames(self.frame),
            offline: ForwarderSettings { rule, memory: MEMORY },
            whole: rate == link,
        })
    }

    /// For how long after its last packet a flow leaves by a port, of this longest period.
    pub(crate) fn memory(longest: Period) -> Duration {
        longest.duration() * MEMORY
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p from {} to {}", self.least.duration(), self.most.duration())
    }
}

fn described(obstacle: Obstacle) -> &'static str {
    match obstacle {
        Obstacle::NoForwarders => "switches grant no credits",
        Obstacle::Paths => "both directions of a flow may take different paths",
        Obstacle::UnknownBuffer(_) => "the policy does not state the buffers of all ports",
        Obstacle::SmallBuffer(_) => {
            "the buffer of a port is smaller than its grants of two of the longest periods and an eighth"
        }
        Obstacle::NoQueue => "other traffic has a part of the ports, and credits have no weighted queue",
    }
}

/// The fact about the host that a filter needs.
fn host_fact(filter: &Match) -> Option<&'static str> {
    match filter {
        Match { cgroup: Some(_), .. } => Some("the control group of its socket"),
        Match { priority: Some(_), .. } => Some("the priority of its socket"),
        Match { interface: Some(_), .. } => Some("the interface of its host or guest"),
        _ => None,
    }
}

fn check_filters(policy: &Policy) -> Result<(), PlanError> {
    let services = policy.services();
    let order = services.classification_order();
    let has_credits = |(id, _): &(_, &Match)| services.get(*id).credits().is_some();
    let last = order.iter().rposition(has_credits);
    for entry @ (id, filter) in &order[..last.map_or(0, |last| last + 1)] {
        let Some(what) = host_fact(filter) else { continue };
        let why = match has_credits(entry) {
            true => String::new(),
            false => ", and is tried before those of services with credits".to_owned(),
        };
        let service = services.get(*id).path().to_owned();
        return Err(PlanError::Host { filter: filter.canonical_text(), service, what, why });
    }
    Ok(())
}

/// The numbers of services by index; 0: no credits.
fn numbers(policy: &Policy) -> Result<Vec<u32>, PlanError> {
    let mut numbers = Vec::new();
    for (_, service) in policy.services().iter() {
        let number = service.credits().map_or(0, |_| service_number(service.path()));
        if number != 0
            && let Some(other) = numbers.iter().position(|there| *there == number)
        {
            let (_, other) = policy.services().iter().nth(other).expect("an index of the list");
            return Err(PlanError::Numbers(other.path().to_owned(), service.path().to_owned()));
        }
        numbers.push(number);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(network: &str, services: &str) -> Result<Plan, PlanError> {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 1Gb/s, racks: {{ r: {{ uplink: 10Gb/s, machines: [m1, m2] }} }}{network} }}\n\
             services: {{ {services} }}\n"
        );
        let (policy, _) = Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}"));
        Plan::of(policy, Duration::from_millis(1))
    }

    const FORWARDERS: &str = ", switches: { forwarders: true, buffer: 4MB }";
    const CREDITS: &str = "a: { match: [ { protocol: tcp, port: 7000 } ], credits: {} }";

    #[test]
    fn ports_alone_are_lossless() {
        let plan = plan(FORWARDERS, CREDITS).expect("a plan");
        assert_eq!(plan.numbers, [service_number("a")]);
        let port = plan.port("swp1", Bandwidth::from_gbps(1)).expect("rules");
        assert_eq!(port.services.get(&service_number("a")).map(String::as_str), Some("a"));
        assert_eq!((plan.obstacles(), plan.rate(Bandwidth::from_gbps(1))), (&[][..], Bandwidth::from_gbps(1)));
        // 2 MB at 10 Gb/s: 0.8 ms would be the longest of the uplinks.
        let error = self::plan(", switches: { forwarders: true, buffer: 2MB }", CREDITS).expect_err("too short");
        assert!(matches!(error, PlanError::Periods { .. }), "{error}");
    }

    #[test]
    fn policies_have_the_weights_of_messages() {
        assert_eq!(weir_policy::language::MAX_CREDIT_WEIGHT * 1_000, weir_credits::wire::MAX_WEIGHT);
    }

    #[test]
    fn other_services_have_their_part_and_no_queue() {
        let plan = plan(FORWARDERS, &format!("{CREDITS}, b: {{ match: [ {{ port: 2 }} ] }}")).expect("a plan");
        assert_eq!(plan.rate(Bandwidth::from_gbps(1)), Bandwidth::from_mbps(500));
        assert_eq!(plan.obstacles().len(), 1);
        assert_eq!(plan.numbers[1], 0);
    }

    #[test]
    fn incomplete_policies_are_refused() {
        let refused = |network: &str, services: &str| plan(network, services).expect_err("refused").to_string();
        assert!(refused(FORWARDERS, "a: { match: [ { port: 1 } ] }").contains("no service"));
        assert!(refused("", CREDITS).contains("does not state that switches grant"));
        assert!(refused(", switches: { forwarders: true }", CREDITS).contains("longest period is not known"));
        for (filter, what) in
            [("cgroup: \"/x\"", "control group"), ("priority: 3", "priority"), ("interface: \"tap*\"", "interface")]
        {
            let own = refused(FORWARDERS, &format!("a: {{ match: [ {{ {filter} }} ], credits: {{}} }}"));
            assert!(own.contains(what) && own.contains("service `a`"), "{own}");
            let before = refused(FORWARDERS, &format!("{CREDITS}, b: {{ match: [ {{ {filter} }} ] }}"));
            assert!(before.contains("tried before"), "{before}");
        }
    }
}
