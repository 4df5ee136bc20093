//! The agent's configuration of an interface's programs: rules, shares, limits, keys, peers, heartbeat.
//!
//! The kernel reads while the agent writes: changes that belong together take effect by one aligned
//! word (the index of the classifier in use or of the signing key, an entry's generation); all
//! other words are independent. A service's entry is only written if it differs, so that a
//! restarted agent does not reset meters.
//!
//! Worked example: for a service `dfs` with a guarantee of 3 Gb/s, its slot's entry has `rx_min`
//! 3,000,000,000; when the rack broker limits it to 2 Gb/s, `rx_limit` becomes 2,000,000,000, and
//! the next tick lowers the rate of its senders.

use crate::class::Sending;
use crate::htb;
use crate::keys;
use crate::loader::{InterfaceDatapath, LoaderError};
use crate::slots::name;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use weir_datapath::abi::{self, Interface, Peer, SERVICES_MAX, Service, Table};
use weir_datapath::{Address, Classifier, InterfaceMeter, SipKey, destination_rules, receive_law};
use weir_policy::{Policy, Sharing};
use weir_shaping::ShaperConfig;
use weir_units::{Bandwidth, Direction, Duration, Instant, MachineId, PerDirection, ServiceId};

/// Metadata that the programs set on departing packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classes {
    /// `skb->priority` is set to the class of [`htb::HtbTree`].
    Htb,
    /// `skb->tstamp` is set to the departure time, as configured by [`crate::edt_shaper::EdtShaper`].
    Edt,
    /// None: packets are only measured.
    None,
}

/// A shared key of feedback with its number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedbackKey {
    /// The number.
    pub id: u16,
    /// The key.
    pub key: SipKey,
}

/// Endpoints of this host's control traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlSettings {
    /// The agent's address, the only destination of brokers' datagrams.
    pub listen: SocketAddr,
    /// The kernel's cookie (SO_COOKIE) of the agent's socket, the only local sender of control traffic.
    pub cookie: u64,
    /// The number of the agent's start, carried in feedback.
    pub epoch: u64,
    /// The machines of the rack, the only sources of brokers' datagrams.
    pub peers: Vec<IpAddr>,
    /// Time without a heartbeat after which the static policy applies.
    pub timeout: Duration,
}

/// An address in network byte order; IPv4 is `::ffff:a.b.c.d`.
pub fn address(of: IpAddr) -> Address {
    let octets = match of {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let word = |from: usize| u64::from_ne_bytes(octets[from..from + 8].try_into().expect("eight of sixteen bytes"));
    [word(0), word(8)]
}

/// The kernel's cookie of a socket, unique and unforgeable.
pub fn cookie(socket: &impl AsRawFd) -> io::Result<u64> {
    let mut cookie = 0u64;
    let mut size = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes to `cookie`.
    let got = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_COOKIE, (&raw mut cookie).cast(), &raw mut size)
    };
    if got == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

impl InterfaceDatapath {
    /// Assigns a slot to every service of the policy, identified by its path, and releases all others. Slots whose
    /// service changes have no credits from the next [`InterfaceDatapath::set_levels`] on, so before the rules.
    pub fn set_slots<'a>(&mut self, services: impl Iterator<Item = (ServiceId, &'a str)>) -> Result<(), LoaderError> {
        for slot in self.slots.assign(services)? {
            let generation = self.maps.services.get(slot)?.generation;
            self.maps.services.set(slot, Service { generation, ..Service::default() })?;
            self.marks.remove_credits(slot);
        }
        // From here on the next agent can restore the assignment.
        for (_, slot, name) in self.slots.iter() {
            let there = self.maps.services.get(slot)?;
            if there.known == 0 || there.name != name {
                // A generation continues, so that the meter detects the change of the slot's service.
                let entry = Service { name, known: 1, generation: there.generation, ..Service::default() };
                self.maps.services.set(slot, entry)?;
                self.marks.remove_credits(slot);
            }
        }
        Ok(())
    }

    /// Replaces the classifier (built for this interface's name, of services that have slots) and
    /// the kind of metadata from the next packet on. Meters are not reset. The control groups of its
    /// globs, and the guests whose interfaces they match, are known from then on, and followed.
    pub fn set_rules(&mut self, classifier: &Classifier, classes: Classes) -> Result<(), LoaderError> {
        if classes == Classes::Edt && !self.paces {
            return Err(LoaderError::WithoutEdt);
        }
        let mut table = table(classifier);
        for rule in &mut table.index.rules[..classifier.rules().len()] {
            rule.service = self.slots.of(ServiceId(rule.service))?;
        }
        let next = 1 - self.config.table;
        if !self.has_prepared(classifier) {
            self.prepare_cgroups(classifier)?;
        }
        self.prepare_guests(classifier)?;
        self.maps.tables.set_large(next, &table)?;
        self.config.table = next;
        (self.config.class_major, self.config.class_static) = match classes {
            Classes::Htb => (u32::from(htb::MAJOR) << 16, u32::from(htb::STATIC_FIRST)),
            Classes::Edt | Classes::None => (0, 0),
        };
        self.config.paces = u32::from(classes == Classes::Edt);
        self.config.class_first = u32::from(htb::OTHERS_FIRST);
        self.config.class_default = u32::from(htb::DEFAULT_MINOR);
        self.config.class_control = u32::from(htb::CONTROL_MINOR);
        self.write_config()?;
        self.follow_guests()?;
        Ok(self.follow_cgroups()?)
    }

    /// Configures receive meters and feedback by the policy for this machine, whose interface sends
    /// like `sending`. Call after [`InterfaceDatapath::set_slots`].
    pub fn set_shaper(
        &mut self,
        policy: &Policy,
        machine: MachineId,
        shaper: &ShaperConfig,
        sending: Sending,
    ) -> Result<(), LoaderError> {
        let mut shortest = shaper.parameters.interface.interval;
        let shares = shaper.shares(machine, Direction::Rx);
        for (((id, service), own), leaf) in policy.services().leaves().zip(&shaper.services).zip(shares) {
            let (parameters, share) = (shaper.of(own), leaf.enforced());
            let slot = self.slots.of(id)?;
            let there = self.maps.services.get(slot)?;
            let wanted = Service {
                law: receive_law(&parameters),
                rules: destination_rules(&parameters.destination),
                rx_min: share.min.bps(),
                rx_max: limit(share.max),
                rx_limit: there.rx_limit,
                committed: leaf.committed.bps(),
                feedback_interval: parameters.feedback_interval.nanos(),
                rx_static: there.rx_static,
                tx_limit: there.tx_limit,
                feedback_bytes: u32::try_from(parameters.feedback_bytes.get()).unwrap_or(u32::MAX),
                rx_weight: share.weight.thousandths(),
                sender_weight: policy.sender_weight(id, machine).thousandths(),
                known: 1,
                generation: there.generation,
                name: name(service.path()),
                reserved: 0,
            };
            if wanted != there || there.generation == 0 {
                let generation = there.generation.wrapping_add(1).max(1);
                self.maps.services.set(slot, Service { generation, ..wanted })?;
            }
            shortest = shortest.min(own.interval);
        }
        let meter = InterfaceMeter::of_machine(shaper, machine, Direction::Rx, Instant::ZERO)
            .expect("every shaper has an interface meter for receiving");
        let there = self.maps.interfaces.get(abi::SIDE_RECEIVING)?;
        let wanted = meter.configuration(there.generation);
        if wanted != there || there.generation == 0 {
            let generation = there.generation.wrapping_add(1).max(1);
            self.maps.interfaces.set(abi::SIDE_RECEIVING, Interface { generation, ..wanted })?;
        }
        self.config.sharing = match shaper.sharing {
            Sharing::Fill => abi::SHARE_FILL,
            Sharing::Add => abi::SHARE_ADD,
        };
        // Assumes that senders send in bursts like this host.
        let burst = crate::class::burst_bytes(sending).get().max(sending.segment.get());
        self.config.grain = u32::try_from(burst * u64::from(abi::GRAIN_BURSTS)).unwrap_or(u32::MAX);
        self.config.tick = tick(shortest);
        self.config.cpus = possible_cpus()?;
        self.config.enforces = 1;
        self.write_config()
    }

    /// Sets the limits of what services receive while no agent runs; unlimited removes one. The
    /// shaper has those of what they send.
    pub fn set_static_limits(&mut self, limits: &[(ServiceId, Bandwidth)]) -> Result<(), LoaderError> {
        for (service, rate) in limits {
            let slot = self.slots.of(*service)?;
            let there = self.maps.services.get(slot)?;
            if there.rx_static != limit(*rate) {
                self.maps.services.set(slot, Service { rx_static: limit(*rate), ..there })?;
            }
        }
        Ok(())
    }

    /// Sets the brokers' limits; unlimited removes one. The shaper enforces the sending limits,
    /// which are stored here for the next agent.
    pub fn set_limits(&mut self, limits: &[(ServiceId, PerDirection<Bandwidth>)]) -> Result<(), LoaderError> {
        for (service, rates) in limits {
            let slot = self.slots.of(*service)?;
            let there = self.maps.services.get(slot)?;
            let wanted = Service { rx_limit: limit(rates.rx), tx_limit: limit(rates.tx), ..there };
            if wanted != there {
                self.maps.services.set(slot, wanted)?;
            }
        }
        Ok(())
    }

    /// The limits in force.
    pub fn limits(&self) -> Result<Vec<(ServiceId, PerDirection<Bandwidth>)>, LoaderError> {
        let rate = |bps: u64| if bps == 0 { Bandwidth::UNLIMITED } else { Bandwidth::from_bps(bps) };
        let of = |(service, slot, _)| {
            let entry = self.maps.services.get(slot)?;
            Ok((service, PerDirection { tx: rate(entry.tx_limit), rx: rate(entry.rx_limit) }))
        };
        self.slots.iter().map(of).collect()
    }

    /// Sets the keys that verify feedback; the first signs. Feedback signed with any other key
    /// counts as forged from the next packet on.
    ///
    /// # Panics
    /// With more than [`KEYS_MAX`](crate::KEYS_MAX) keys, or none.
    pub fn set_keys(&mut self, keys: &[FeedbackKey]) -> Result<(), LoaderError> {
        let placed = keys::place(&mut self.maps.keys, keys)?;
        self.config.signing_key = placed.signing();
        self.write_config()?;
        placed.clear_others(&mut self.maps.keys)
    }

    /// Sets the endpoints of control traffic.
    pub fn set_control(&mut self, control: &ControlSettings) -> Result<(), LoaderError> {
        let wanted: Vec<Address> = control.peers.iter().map(|peer| address(*peer)).collect();
        let there: Vec<Address> = self.maps.peers.keys()?.into_iter().map(|peer| peer.words).collect();
        for gone in there.iter().filter(|peer| !wanted.contains(peer)) {
            self.maps.peers.remove(abi::Address { words: *gone })?;
        }
        for new in wanted.iter().filter(|peer| !there.contains(peer)) {
            self.maps.peers.insert(abi::Address { words: *new }, Peer::default())?;
        }
        self.config.agent_address = address(control.listen.ip());
        self.config.listen_port = u32::from(control.listen.port());
        self.config.agent_cookie = control.cookie;
        self.config.epoch = control.epoch;
        self.config.timeout = control.timeout.nanos();
        self.write_config()
    }

    /// Refreshes the heartbeat; call it several times within the timeout.
    pub fn heartbeat(&mut self) -> Result<(), LoaderError> {
        Ok(self.maps.heartbeat.set(0, kernel_time())?)
    }

    /// The slot of a service of the policy in force.
    pub fn slot(&self, service: ServiceId) -> Result<u32, LoaderError> {
        self.slots.of(service)
    }

    /// The service of a slot.
    pub fn service(&self, slot: u32) -> Option<ServiceId> {
        self.slots.service(slot)
    }
}

/// The interval between two ticks where the shortest interval of a meter is this, in nanoseconds.
fn tick(shortest: Duration) -> u64 {
    shortest.nanos().max(abi::TICK_MIN.into())
}

/// The table of a classifier, whose rules name services and not yet slots.
fn table(classifier: &Classifier) -> Box<Table> {
    let mut table = bytemuck::zeroed_box::<Table>();
    table.index = *classifier.index();
    // A path has at most 2,047 parts.
    let depths: BTreeSet<u16> = classifier.cgroups().iter().map(|glob| glob.depth() as u16).collect();
    table.cgroups = depths.len() as u32;
    table.guests = classifier.guests().len() as u32;
    for (entry, depth) in table.cgroup_depths.iter_mut().zip(depths.into_iter().rev()) {
        *entry = depth;
    }
    table
}

/// A limit in the maps, where 0 is unlimited.
fn limit(rate: Bandwidth) -> u64 {
    if rate.is_unlimited() { 0 } else { rate.bps().max(1) }
}

/// Nanoseconds of CLOCK_MONOTONIC, which BPF programs read.
pub fn kernel_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The number of possible CPUs, which per-CPU maps have a value for.
pub(crate) fn possible_cpus() -> Result<u32, LoaderError> {
    let cpus = aya::util::nr_cpus();
    cpus.map(|cpus| cpus as u32).map_err(|(what, error)| LoaderError::Io {
        what: if what.is_empty() { "count processors" } else { "read the possible processors" },
        error: io::Error::other(error),
    })
}

const _: () = assert!(SERVICES_MAX <= 0x1000, "a thousand hexadecimal classes of each kind");

#[cfg(test)]
mod tests {
    use super::*;
    use weir_policy::{CgroupGlob, Match};

    #[test]
    fn table_has_the_depths_of_its_globs_from_the_largest_on() {
        let of = |globs: &[&str]| {
            let filter =
                |text: &&str| Match { cgroup: Some(CgroupGlob::new(text).expect("a glob")), ..Match::default() };
            let filters: Vec<Match> = globs.iter().map(filter).collect();
            table(&Classifier::new((0..).map(ServiceId).zip(&filters), None).expect("supported"))
        };
        let table = of(&["/a/b", "/a", "/c/*", "/*/b/c"]);
        assert_eq!((table.cgroups, &table.cgroup_depths[..4]), (3, &[3, 2, 1, 0][..]));
        assert_eq!(of(&[]).cgroups, 0);
    }

    #[test]
    fn ticks_are_as_frequent_as_the_shortest_interval_and_not_below_50_us() {
        for (shortest, expected) in [(10, 50_000), (50, 50_000), (51, 51_000), (200, 200_000)] {
            assert_eq!(tick(Duration::from_micros(shortest)), expected, "{shortest} µs");
        }
    }
}
