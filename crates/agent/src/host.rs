//! The interface under policy.
//!
//! Problem: the broker speaks of services and limits; the kernel of programs, classes and rates. Approach:
//! each leaf service has a class whose guarantee is the service's machine minimum and whose ceiling is the
//! least of the interface, the machine maxima of the service and of those it is nested in, and the runtime
//! limit. Only transmit limits are enforced here: the receive direction is measured and shared by the
//! broker, and its limits are kept for whoever asks.
//!
//! Worked example: `vm` with a machine maximum of 1 Gb/s on a 10 Gb/s interface starts with a ceiling of
//! 1 Gb/s; a runtime limit of 500 Mb/s lowers it to that, and when the limit is lifted 1 Gb/s returns.

use weir_control::{MeterReading, RuntimeLimit};
use weir_datapath::{Classifier, ClassifierError};
use weir_linux::class::Sending;
use weir_linux::htb::{HtbError, HtbTree};
use weir_linux::interface::{Interface, InterfaceError};
use weir_linux::loader::{Classes, InterfaceDatapath, LoaderError};
use weir_linux::shaper::{self, Backend, HtbShaper, NoBackend, ServiceRate, Shaper};
use weir_policy::Policy;
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, PerDirection, ServiceId};

/// Why a host cannot be brought under a policy.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The interface.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The policy's filters.
    #[error(transparent)]
    Classifier(#[from] ClassifierError),
    /// The BPF programs.
    #[error(transparent)]
    Loader(#[from] LoaderError),
    /// The HTB tree.
    #[error(transparent)]
    Htb(#[from] HtbError),
    /// No way to enforce rates.
    #[error(transparent)]
    NoBackend(#[from] NoBackend),
    /// A backend that this version cannot drive.
    #[error("the backend {0} is not built yet")]
    Backend(Backend),
}

/// An interface that is classified, metered and shaped; as it was found again when dropped.
pub struct Host {
    datapath: InterfaceDatapath,
    shaper: Box<dyn Shaper>,
    rates: Vec<ServiceRate>,
    /// The ceilings of the static policy, by leaf.
    ceilings: Vec<Bandwidth>,
    leaves: Vec<ServiceId>,
    /// Receive limits of the runtime policy: known, not enforced.
    receive_limits: Vec<Bandwidth>,
}

impl Host {
    /// Brings the interface under the policy of `machine`. On failure it is left as it was found.
    pub fn install(policy: &Policy, machine: MachineId, interface: &str, force: bool) -> Result<Self, HostError> {
        let interface = Interface::named(interface)?;
        let classifier = Classifier::new(policy.services().classification_order(), Some(interface.name()))?;
        let backend = shaper::choose(shaper::probe())?;
        let leaves: Vec<ServiceId> = policy.services().leaves().map(|(id, _)| id).collect();
        let nic = policy.machine_capacity(machine, Direction::Tx);
        let ceilings: Vec<Bandwidth> = leaves.iter().map(|leaf| static_ceiling(policy, *leaf).min(nic)).collect();
        let rate = |(service, ceiling): (&ServiceId, &Bandwidth)| {
            let share = policy.services().get(*service).share(ContentionPoint::Machine, Direction::Tx);
            ServiceRate { service: *service, min: share.min.min(*ceiling), max: *ceiling, weight: share.weight }
        };
        let rates: Vec<ServiceRate> = leaves.iter().zip(&ceilings).map(rate).collect();
        // The programs come first, still without rules: they refuse an interface on which another agent runs,
        // whose classes would otherwise be taken for those of a killed one.
        let mut datapath = InterfaceDatapath::attach(&interface, None)?;
        let shaper: Box<dyn Shaper> = match backend {
            Backend::Htb => Box::new(HtbShaper::install(&interface, nic, &rates, Sending::over(&interface)?, force)?),
            backend => return Err(HostError::Backend(backend)),
        };
        datapath.set_rules(&classifier, Classes::Htb)?;
        let receive_limits = vec![Bandwidth::UNLIMITED; leaves.len()];
        Ok(Self { datapath, shaper, rates, ceilings, leaves, receive_limits })
    }

    /// The mechanism that enforces rates.
    pub fn backend(&self) -> Backend {
        self.shaper.backend()
    }

    /// The leaf services, ascending.
    pub fn leaves(&self) -> &[ServiceId] {
        &self.leaves
    }

    /// All meters now.
    pub fn read_meters(&self) -> Result<Vec<MeterReading>, HostError> {
        let reading = |service: &ServiceId| {
            let totals = self.datapath.totals(Some(*service))?;
            Ok(MeterReading { service: *service, bytes: PerDirection { tx: totals.tx.bytes(), rx: totals.rx.bytes() } })
        };
        self.leaves.iter().map(reading).collect()
    }

    /// Puts runtime limits in force; the static policy holds where they are unlimited. Returns those that
    /// differ from what was in force.
    pub fn set_limits(&mut self, limits: &[RuntimeLimit]) -> Result<Vec<RuntimeLimit>, HostError> {
        let mut changed = Vec::new();
        for limit in limits {
            let Ok(leaf) = self.leaves.binary_search(&limit.service) else { continue };
            match limit.direction {
                Direction::Tx => {
                    let max = limit.limit.min(self.ceilings[leaf]);
                    if self.rates[leaf].max != max {
                        self.rates[leaf].max = max;
                        changed.push(*limit);
                    }
                }
                Direction::Rx => {
                    if self.receive_limits[leaf] != limit.limit {
                        self.receive_limits[leaf] = limit.limit;
                        changed.push(*limit);
                    }
                }
            }
        }
        let capped = |rate: &ServiceRate| ServiceRate { min: rate.min.min(rate.max), ..*rate };
        let rates: Vec<ServiceRate> = self.rates.iter().map(capped).collect();
        self.shaper.set(&rates)?;
        Ok(changed)
    }

    /// The transmit ceiling in force for the `leaf`-th leaf service.
    pub fn ceiling(&self, leaf: usize) -> Bandwidth {
        self.rates[leaf].max
    }

    /// Leaves the interface as it was found.
    pub fn remove(self) -> Result<(), HostError> {
        // Programs first: then nothing points at the classes that go. Both are tried whatever the first says.
        let programs = self.datapath.remove();
        self.shaper.remove()?;
        Ok(programs?)
    }
}

/// The least of the machine maxima of a service and of those it is nested in.
fn static_ceiling(policy: &Policy, leaf: ServiceId) -> Bandwidth {
    let mut ceiling = Bandwidth::UNLIMITED;
    let mut at = Some(leaf);
    while let Some(id) = at {
        let service = policy.services().get(id);
        ceiling = ceiling.min(service.share(ContentionPoint::Machine, Direction::Tx).max);
        at = service.parent();
    }
    ceiling
}

/// Deletes what a killed agent left on the interface; whether there was anything. Refused while an agent runs.
pub fn remove(interface: &str) -> Result<bool, HostError> {
    let interface = Interface::named(interface)?;
    // Attaching takes over the programs of a killed agent and fails where one lives.
    InterfaceDatapath::attach(&interface, None)?.remove()?;
    Ok(HtbTree::remove_leftover(&interface)?)
}
