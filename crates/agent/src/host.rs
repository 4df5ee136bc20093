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

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use weir_control::{MeterReading, RuntimeLimit};
use weir_datapath::{Classifier, ClassifierError};
use weir_linux::class::Sending;
use weir_linux::htb::{HtbError, HtbTree};
use weir_linux::interface::{Interface, InterfaceError};
use weir_linux::loader::{Attachment, Classes, InterfaceDatapath, LoaderError};
use weir_linux::shaper::{self, Backend, HtbShaper, NoBackend, ServiceRate, Shaper};
use weir_policy::Policy;
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, PerDirection, ServiceId};

/// Where locks are; a directory that only root writes and that a restart empties.
const LOCKS: &str = "/run";

/// Why a host cannot be brought under a policy.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Somebody else holds the interface.
    #[error("another agent runs on {interface} ({} is locked)", .lock.display())]
    Taken {
        /// The interface.
        interface: String,
        /// The file that is locked.
        lock: PathBuf,
    },
    /// Whether somebody else holds the interface cannot be told.
    #[error("{}: {error}", .lock.display())]
    Lock {
        /// The file to lock.
        lock: PathBuf,
        /// The system's answer.
        #[source]
        error: io::Error,
    },
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
    /// Leaf services whose packets are not on this interface.
    absent: Vec<ServiceId>,
    /// Receive limits of the runtime policy: known, not enforced.
    receive_limits: Vec<Bandwidth>,
    /// Held until all else is gone: fields are dropped in this order.
    _lock: File,
}

impl Host {
    /// Brings the interface under the policy of `machine`. On failure it is left as it was found.
    pub fn install(policy: &Policy, machine: MachineId, interface: &str, force: bool) -> Result<Self, HostError> {
        let interface = Interface::named(interface)?;
        // Declared first and so released last, also on failure.
        let lock = lock(Path::new(LOCKS), &interface)?;
        let classifier = Classifier::new(policy.services().classification_order(), Some(interface.name()))?;
        let backend = shaper::choose(shaper::probe())?;
        let leaves: Vec<ServiceId> = policy.services().leaves().map(|(id, _)| id).collect();
        let nic = policy.machine_capacity(machine, Direction::Tx);
        let ceilings: Vec<Bandwidth> =
            leaves.iter().map(|leaf| policy.machine_ceiling(*leaf, Direction::Tx).min(nic)).collect();
        let rate = |(service, ceiling): (&ServiceId, &Bandwidth)| {
            let share = policy.services().get(*service).share(ContentionPoint::Machine, Direction::Tx);
            ServiceRate { service: *service, min: share.min.min(*ceiling), max: *ceiling, weight: share.weight }
        };
        let rates: Vec<ServiceRate> = leaves.iter().zip(&ceilings).map(rate).collect();
        let absent = leaves.iter().filter(|leaf| !classifier.rules().iter().any(|rule| rule.service == leaf.0));
        let absent = absent.copied().collect();
        // The programs come first, still without rules: with tcx they refuse an interface that another holds, even
        // one that does not see our lock because its /run is another.
        let mut datapath = InterfaceDatapath::attach(&interface, None)?;
        let shaper: Box<dyn Shaper> = match backend {
            Backend::Htb => Box::new(HtbShaper::install(&interface, nic, &rates, Sending::over(&interface)?, force)?),
            backend => return Err(HostError::Backend(backend)),
        };
        datapath.set_rules(&classifier, Classes::Htb)?;
        let receive_limits = vec![Bandwidth::UNLIMITED; leaves.len()];
        Ok(Self { datapath, shaper, rates, ceilings, leaves, absent, receive_limits, _lock: lock })
    }

    /// The mechanism that enforces rates.
    pub fn backend(&self) -> Backend {
        self.shaper.backend()
    }

    /// How the programs are held on the interface.
    pub fn attachment(&self) -> Attachment {
        self.datapath.attachment()
    }

    /// The leaf services whose filters name only other interfaces: nothing of theirs is metered or limited here.
    pub fn absent(&self) -> &[ServiceId] {
        &self.absent
    }

    /// All meters now.
    pub fn read_meters(&self) -> Result<Vec<MeterReading>, HostError> {
        let reading = |service: &ServiceId| {
            let totals = self.datapath.totals(Some(*service))?;
            Ok(MeterReading {
                service: *service,
                bytes: PerDirection { tx: totals.tx.bytes(), rx: totals.rx.bytes() },
                network: Default::default(),
            })
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

    /// Leaves the interface as it was found.
    pub fn remove(self) -> Result<(), HostError> {
        // Programs first: then nothing points at the classes that go. Both are tried whatever the first says.
        let programs = self.datapath.remove();
        self.shaper.remove()?;
        Ok(programs?)
    }
}

/// Deletes what a killed agent left on the interface; whether there was anything. Refused while an agent runs.
pub fn remove(interface: &str) -> Result<bool, HostError> {
    let interface = Interface::named(interface)?;
    let _lock = lock(Path::new(LOCKS), &interface)?;
    // Attaching takes over the programs of a killed agent.
    InterfaceDatapath::attach(&interface, None)?.remove()?;
    Ok(HtbTree::remove_leftover(&interface)?)
}

/// Takes the lock of an interface, which one agent or removal holds at a time; released when the file is closed, also
/// by a kill. The file itself stays: deleting it would let two processes lock two files of the same name.
///
/// Its name has the namespace's inode and the interface's index, since the same name or index is another interface elsewhere.
fn lock(directory: &Path, interface: &Interface) -> Result<File, HostError> {
    const NAMESPACE: &str = "/proc/thread-self/ns/net";
    let namespace = std::fs::metadata(NAMESPACE);
    let namespace = namespace.map_err(|error| HostError::Lock { lock: NAMESPACE.into(), error })?;
    let path = directory.join(format!("weir-agent-{}-{}.lock", namespace.ino(), interface.index()));
    let failed = |error| HostError::Lock { lock: path.clone(), error };
    // Not cut off before it is ours: the holder's process number is in it.
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = open.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(HostError::Taken { interface: interface.name().into(), lock: path });
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    // For people only; the lock is what counts.
    let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(failed)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_an_interface_at_a_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let loopback = Interface::named("lo").expect("lo");
        let first = lock(directory.path(), &loopback).expect("free");
        let second = lock(directory.path(), &loopback).expect_err("taken");
        assert!(second.to_string().starts_with("another agent runs on lo ("), "{second}");
        let HostError::Taken { lock: path, .. } = second else { panic!("{second}") };
        let holder = std::fs::read_to_string(&path).expect("the lock file");
        assert_eq!(holder, format!("{}\n", std::process::id()));
        drop(first);
        drop(lock(directory.path(), &loopback).expect("free again"));
        assert!(path.exists(), "the file stays");
    }
}
