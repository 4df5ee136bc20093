//! The interface under policy.
//!
//! Problem: the broker speaks of services and limits; the kernel of programs, classes and rates. Approach:
//! each leaf service has a class whose guarantee is the service's machine minimum and whose ceiling is the
//! least of the interface, the machine maxima of the service and of those it is nested in, and the runtime
//! limit; a receive meter with its share of the interface and the brokers' limit upon that, which tells its senders how fast
//! they may send; and limits towards the destinations whose receivers tell it the same.
//!
//! Worked example: `vm` with a machine maximum of 1 Gb/s on a 10 Gb/s interface starts with a ceiling of
//! 1 Gb/s; a runtime limit of 500 Mb/s lowers it to that, and when the limit is lifted 1 Gb/s returns.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use weir_control::{MeterReading, NetworkReading, RuntimeLimit};
use weir_datapath::{Classifier, ClassifierError, ShaperConfig, SipKey};
use weir_linux::class::Sending;
use weir_linux::destinations::Destinations;
use weir_linux::htb::{HtbError, HtbTree};
use weir_linux::htb_shaper::HtbShaper;
use weir_linux::interface::{Interface, InterfaceError};
use weir_linux::loader::{Attachment, InterfaceDatapath, LoaderError};
use weir_linux::readings::{ControlCounters, ReceiveReading, TimerReading};
use weir_linux::settings::{Classes, ControlSettings, FeedbackKey};
use weir_linux::shaper::{self, Backend, NoBackend, ServiceQueue, ServiceRate, Shaper};
use weir_policy::Policy;
use weir_units::{Bandwidth, Bytes, ContentionPoint, Direction, MachineId, PerDirection, ServiceId};
use weir_wire::Key;

use crate::destination_limits::{DestinationLimits, SharedShaper};

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
    /// Nothing can be waited for, or no thread be started.
    #[error("wait for news of destinations: {0}")]
    Wait(#[source] io::Error),
    /// A bug of ours.
    #[error("the thread that holds destinations panicked")]
    DestinationThread,
    /// A backend that this version cannot drive.
    #[error("the backend {0} is not built yet")]
    Backend(Backend),
}

/// What the kernel counted and computed on an interface.
pub struct KernelReadings {
    /// By leaf: its receive meter.
    pub meters: Vec<ReceiveReading>,
    /// By leaf: what waits and what was dropped.
    pub queues: Vec<Option<ServiceQueue>>,
    /// By leaf: feedback of the destinations that answered lately.
    pub told: Vec<u64>,
    /// Events of control traffic.
    pub counters: ControlCounters,
    /// The timer.
    pub timer: TimerReading,
}

/// What the agent is to the rest of the network.
pub struct Standing<'a> {
    /// The key that the deployment shares.
    pub key: &'a Key,
    /// Who sends and gets control traffic.
    pub control: ControlSettings,
}

/// An interface that is classified, metered and shaped; as it was found again when dropped.
pub struct Host {
    datapath: InterfaceDatapath,
    /// Before the shaper goes.
    destinations: DestinationLimits,
    shaper: SharedShaper,
    backend: Backend,
    rates: Vec<ServiceRate>,
    leaves: Vec<ServiceId>,
    /// By leaf: what was counted before this agent came.
    before: Vec<PerDirection<Bytes>>,
    /// Leaf services whose packets are not on this interface.
    absent: Vec<ServiceId>,
    /// Receive limits of the runtime policy.
    receive_limits: Vec<Bandwidth>,
    /// Held until all else is gone: fields are dropped in this order.
    _lock: File,
}

impl Host {
    /// Brings the interface under the policy of `machine`. What an earlier agent left in force is taken over. On failure the
    /// interface is left as it was found.
    pub fn install(
        policy: &Policy,
        machine: MachineId,
        interface: &str,
        standing: &Standing<'_>,
        force: bool,
    ) -> Result<Self, HostError> {
        let interface = Interface::named(interface)?;
        // Declared first and so released last, also on failure.
        let lock = lock(Path::new(LOCKS), &interface)?;
        let services = policy.services();
        let classifier = Classifier::new(services.classification_order(), Some(interface.name()))?;
        let backend = shaper::choose(shaper::probe())?;
        let leaves: Vec<ServiceId> = services.leaves().map(|(id, _)| id).collect();
        let absent = leaves.iter().filter(|leaf| !classifier.rules().iter().any(|rule| rule.service == leaf.0));
        let absent = absent.copied().collect();
        let sending = Sending::over(&interface)?;
        // The programs come first: they refuse an interface that another holds, even one that does not see our lock because its
        // /run is another.
        let mut datapath = InterfaceDatapath::attach(&interface, None)?;
        let classes = match backend {
            Backend::Htb => Classes::Htb,
            backend => return Err(HostError::Backend(backend)),
        };
        datapath.set_slots(services.leaves().map(|(id, service)| (id, service.path())))?;
        datapath.set_shaper(policy, machine, &ShaperConfig::parley(policy, None, None), sending)?;
        let nic = policy.machine_capacity(machine, Direction::Tx);
        let in_force = datapath.limits()?;
        let rate = |leaf: &ServiceId| -> Result<ServiceRate, HostError> {
            let ceiling = policy.machine_ceiling(*leaf, Direction::Tx).min(nic);
            let share = services.get(*leaf).share(ContentionPoint::Machine, Direction::Tx);
            let limit = in_force.iter().find(|(service, _)| service == leaf);
            Ok(ServiceRate {
                service: *leaf,
                slot: datapath.slot(*leaf)?,
                min: share.min.min(ceiling),
                max: limit.map_or(ceiling, |(_, limits)| limits.tx.min(ceiling)),
                ceiling,
                weight: share.weight,
            })
        };
        let rates: Vec<ServiceRate> = leaves.iter().map(rate).collect::<Result<_, _>>()?;
        let receive_limits = leaves.iter().map(|leaf| {
            let limit = in_force.iter().find(|(service, _)| service == leaf);
            limit.map_or(Bandwidth::UNLIMITED, |(_, limits)| limits.rx)
        });
        let receive_limits = receive_limits.collect();
        let mut destinations = Destinations::open(&datapath)?;
        let held = destinations.held()?;
        let shaper: Box<dyn Shaper> = Box::new(HtbShaper::install(&interface, nic, &rates, &held, sending, force)?);
        let shaper = Arc::new(Mutex::new(Some(shaper)));
        let secret = standing.key.feedback();
        datapath.set_keys(&[FeedbackKey { id: secret.number, key: SipKey::new(secret.bytes) }])?;
        datapath.set_control(&standing.control)?;
        datapath.tell_alive()?;
        // Last, so that no packet is sent to a class that is not there yet.
        datapath.set_rules(&classifier, classes)?;
        datapath.start_timer()?;
        let before = leaves.iter().map(|leaf| {
            let totals = datapath.totals(Some(*leaf))?;
            Ok(PerDirection { tx: totals.tx.bytes(), rx: totals.rx.bytes() })
        });
        let before = before.collect::<Result<_, LoaderError>>()?;
        let destinations = DestinationLimits::start(destinations, Arc::clone(&shaper)).map_err(HostError::Wait)?;
        Ok(Self { datapath, destinations, shaper, backend, rates, leaves, before, absent, receive_limits, _lock: lock })
    }

    /// The mechanism that enforces rates.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Whether this goes on where an earlier agent ended.
    pub fn is_adopted(&self) -> bool {
        self.datapath.is_adopted()
    }

    /// Whether destinations are set by a real-time thread.
    pub fn is_prompt(&self) -> bool {
        self.destinations.is_prompt()
    }

    /// What the kernel counted and computed, for whoever watches.
    pub fn kernel_readings(&mut self) -> Result<KernelReadings, HostError> {
        let meter = |leaf: &ServiceId| Ok(self.datapath.receive_reading(*leaf)?);
        let meters = self.leaves.iter().map(meter).collect::<Result<_, HostError>>()?;
        let queues = match self.shaper.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(shaper) => shaper.queues()?,
            None => Vec::new(),
        };
        let queue = |leaf: &ServiceId| queues.iter().find(|queue| queue.service == Some(*leaf)).copied();
        let mut told = vec![0; self.leaves.len()];
        for destination in self.destinations.readings()? {
            let service = self.datapath.service(destination.slot);
            if let Some(leaf) = service.and_then(|service| self.leaves.binary_search(&service).ok()) {
                told[leaf] += destination.told;
            }
        }
        Ok(KernelReadings {
            meters,
            queues: self.leaves.iter().map(queue).collect(),
            told,
            counters: self.datapath.control_counters()?,
            timer: self.datapath.timer()?,
        })
    }

    /// How the programs are held on the interface.
    pub fn attachment(&self) -> Attachment {
        self.datapath.attachment()
    }

    /// The leaf services whose filters name only other interfaces: nothing of theirs is metered or limited here.
    pub fn absent(&self) -> &[ServiceId] {
        &self.absent
    }

    /// All meters now, counted from when this agent came. Says to the kernel that the agent is alive.
    pub fn read_meters(&mut self) -> Result<Vec<MeterReading>, HostError> {
        self.destinations.check()?;
        self.datapath.tell_alive()?;
        let reading = |(service, before): (&ServiceId, &PerDirection<Bytes>)| {
            let totals = self.datapath.totals(Some(*service))?;
            let meter = self.datapath.receive_reading(*service)?;
            let network = NetworkReading {
                packets: meter.packets,
                marked: meter.marked,
                rate: (!meter.rate.is_unlimited()).then_some(meter.rate),
            };
            let bytes = PerDirection {
                tx: totals.tx.bytes().saturating_sub(before.tx),
                rx: totals.rx.bytes().saturating_sub(before.rx),
            };
            Ok(MeterReading { service: *service, bytes, network })
        };
        self.leaves.iter().zip(&self.before).map(reading).collect()
    }

    /// Puts runtime limits in force; the static policy holds where they are unlimited. Returns those that
    /// differ from what was in force.
    pub fn set_limits(&mut self, limits: &[RuntimeLimit]) -> Result<Vec<RuntimeLimit>, HostError> {
        let mut changed = Vec::new();
        for limit in limits {
            let Ok(leaf) = self.leaves.binary_search(&limit.service) else { continue };
            let wanted = match limit.direction {
                Direction::Tx => limit.limit.min(self.rates[leaf].ceiling),
                Direction::Rx => limit.limit,
            };
            let in_force = match limit.direction {
                Direction::Tx => &mut self.rates[leaf].max,
                Direction::Rx => &mut self.receive_limits[leaf],
            };
            if *in_force != wanted {
                *in_force = wanted;
                changed.push(*limit);
            }
        }
        let capped = |rate: &ServiceRate| ServiceRate { min: rate.min.min(rate.max), ..*rate };
        let rates: Vec<ServiceRate> = self.rates.iter().map(capped).collect();
        if let Some(shaper) = self.shaper.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            shaper.set(&rates)?;
        }
        let limits = self.leaves.iter().zip(&self.rates).zip(&self.receive_limits);
        let limits = limits.map(|((leaf, rate), rx)| (*leaf, PerDirection { tx: rate.max, rx: *rx }));
        self.datapath.set_limits(&limits.collect::<Vec<_>>())?;
        Ok(changed)
    }

    /// Leaves the interface as it was found.
    pub fn remove(self) -> Result<(), HostError> {
        let Self { datapath, destinations, shaper, _lock, .. } = self;
        drop(destinations);
        // Programs first: then nothing points at the classes that go. Both are tried whatever the first says.
        let programs = datapath.remove();
        if let Some(shaper) = shaper.lock().unwrap_or_else(PoisonError::into_inner).take() {
            shaper.remove()?;
        }
        Ok(programs?)
    }

    /// Goes, and leaves everything in force for the next agent; the kernel takes the static policy when none comes.
    pub fn leave(self) {
        let Self { datapath, destinations, shaper, _lock, .. } = self;
        drop(destinations);
        datapath.leave();
        if let Some(shaper) = shaper.lock().unwrap_or_else(PoisonError::into_inner).take() {
            shaper.leave();
        }
    }
}

/// Deletes what a killed agent left on the interface; whether there was anything. Refused while an agent runs.
pub fn remove(interface: &str) -> Result<bool, HostError> {
    let interface = Interface::named(interface)?;
    let _lock = lock(Path::new(LOCKS), &interface)?;
    let programs = InterfaceDatapath::remove_leftover(&interface)?;
    Ok(HtbTree::remove_leftover(&interface)? || programs)
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
