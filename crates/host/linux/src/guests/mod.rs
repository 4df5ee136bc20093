//! Guests: virtual machines and containers with an interface on this host, by which filters select their packets.
//!
//! Problem: a filter such as `interface: "tap*"` is about packets of guests, which the agent's interface, the uplink,
//! carries beside others. Approach: a departing packet has the interface at which it entered the host (`skb->skb_iif`),
//! and an arriving one is looked up as the kernel will forward it: by a bridge's forwarding database, which this module
//! copies, or by a route (`bpf/guest.h`). Guests come and go: a `watcher` follows the links and forwarding databases
//! of the uplink's namespace. Where the host routes the packets of guests, a program on their interfaces numbers them
//! (`bpf/guest.bpf.c`); nothing is attached to guests in a bridge with the uplink.
//!
//! | module | does |
//! |---|---|
//! | `links`, `neighbours` | messages of the kernel to links and entries of forwarding databases |
//! | `pods` | records of pods, by which filters select interfaces of guests |
//! | `topology` | the addresses of frames on the uplink that a bridge forwards to a guest |
//! | `state` | the entries of the programs' maps |
//! | `marks` | the program on interfaces of guests |
//! | `watcher` | the thread that keeps them up to date |
//!
//! Worked example: `vm: { match: [ { interface: "tap*" } ] }` on an agent of `eth0`, a port of `br0`. `ip tuntap add
//! tap3 mode tap` and `ip link set tap3 master br0` add the row of `tap3` to `weir_guests`; the first packet of the
//! guest adds its address to `br0`, and a message of the kernel then adds it to `weir_guest_addresses`.
//!
//! Source: rtnetlink(7); net/bridge/br_fdb.c; limits: docs/reference/endpoints.md.

mod links;
pub(crate) mod marks;
mod neighbours;
mod pods;
mod state;
mod topology;
mod watcher;

use crate::loader::{InterfaceDatapath, LoaderError};
use crate::maps::GuestMaps;
use crate::netlink::NetlinkError;
use crate::netns;
use aya::maps::MapError;
use marks::Marks;
use state::State;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use watcher::{Watcher, lock};
use weir_datapath::{Classifier, GuestGlob};
use weir_pods::Directory;

pub use weir_pods::DIRECTORY as PODS;

/// Why guests cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The lists of links or of forwarding databases.
    #[error("interfaces of guests: {0}")]
    Netlink(#[from] NetlinkError),
    /// The maps.
    #[error("BPF map: {0}")]
    Map(#[from] MapError),
    /// The program on interfaces of guests.
    #[error("number the packets of guests: {0}")]
    Program(#[source] Box<LoaderError>),
    /// The interface's namespace cannot be entered, or no thread be started.
    #[error("follow the interfaces of guests: {0}")]
    Wait(#[source] io::Error),
    /// A fault of the agent.
    #[error("the thread that follows the interfaces of guests panicked")]
    Thread,
}

/// The guests in force on an interface.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct GuestReading {
    /// Interfaces of guests that a glob matches.
    pub guests: usize,
    /// Why packets of other interfaces that globs match, or to some addresses, are of no guest, if there are such.
    pub missed: Option<String>,
    /// Globs over names that match no interface on this host but the agent's and those on its side of a bridge, and
    /// selectors of pods that match no pod here.
    pub unmatched: Vec<GuestGlob>,
}

/// The guests of an interface's classifier: the maps' entries and the thread that keeps them up to date.
pub(crate) struct GuestFilters {
    state: Arc<Mutex<State>>,
    /// `None` without globs over guests.
    watcher: Option<Watcher>,
    /// The directory of the records of pods.
    pods: Directory,
    /// Whether the classifier that was set last has such globs.
    has_globs: bool,
}

impl GuestFilters {
    /// From the maps as an earlier agent left them.
    pub(crate) fn new(maps: GuestMaps) -> Result<Self, LoaderError> {
        let state = Arc::new(Mutex::new(State::open(maps)?));
        Ok(Self { state, watcher: None, pods: Directory::new(PODS), has_globs: false })
    }
}

impl InterfaceDatapath {
    /// Sets the directory of the records of pods, before the first classifier; [`PODS`] by default.
    pub fn set_pods(&mut self, directory: &Path) {
        self.guests.pods = Directory::new(directory);
    }

    /// Writes the guests of a classifier that is about to be put in force, beside those of the one in use.
    pub(crate) fn prepare_guests(&mut self, classifier: &Classifier) -> Result<(), GuestError> {
        self.guests.has_globs = !classifier.guests().is_empty();
        if !self.guests.has_globs {
            return Ok(());
        }
        let watcher = match &mut self.guests.watcher {
            Some(watcher) => watcher,
            none => {
                let marks = Marks::open(&self.pins, self.attachment);
                let marks = marks.map_err(|error| GuestError::Program(Box::new(error)))?;
                let state = Arc::clone(&self.guests.state);
                let (uplink, pods) = (self.interface.index(), self.guests.pods.clone());
                none.insert(Watcher::new(&self.namespace, uplink, state, marks, pods)?)
            }
        };
        lock(&self.guests.state).set_classifier(1 - self.config.table, Some(Arc::new(classifier.clone())));
        watcher.update()
    }

    /// Follows the guests of the table in use from now on, and of no other one.
    pub(crate) fn follow_guests(&mut self) -> Result<(), GuestError> {
        if !self.guests.has_globs {
            // Without a watcher an earlier agent may have left programs.
            self.leave_guests()?;
            return Ok(lock(&self.guests.state).clear()?);
        }
        lock(&self.guests.state).set_classifier(1 - self.config.table, None);
        let Some(watcher) = self.guests.watcher.as_mut() else { return Ok(()) };
        watcher.update()?;
        watcher.start()
    }

    /// Ends the thread, and removes the programs from interfaces of guests. Their links end with the pins.
    pub(crate) fn leave_guests(&mut self) -> Result<(), GuestError> {
        let wrap = |error| GuestError::Program(Box::new(error));
        match self.guests.watcher.take() {
            Some(mut watcher) => {
                watcher.end();
                watcher.unmark()
            }
            None => {
                // Another program that unpinned the map has deleted the record of filters with it.
                let Ok(mut marks) = Marks::open(&self.pins, self.attachment) else { return Ok(()) };
                let set = || marks.set(&Default::default());
                netns::inside(&self.namespace, set).map_err(GuestError::Wait)?.map(drop).map_err(wrap)
            }
        }
    }

    /// The guests in force; `None` without filters by their interfaces.
    pub fn guest_reading(&self) -> Result<Option<GuestReading>, GuestError> {
        self.guests.watcher.as_ref().map(|watcher| watcher.reading(self.config.table)).transpose()
    }

    /// An error if the thread that follows guests has ended.
    pub fn check_guests(&self) -> Result<(), GuestError> {
        self.guests.watcher.as_ref().map_or(Ok(()), Watcher::check)
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
