//! What an agent tells the programs of an interface: rules, shares, limits, keys, who may send control traffic, and that it is alive.
//!
//! Problem: the kernel reads while we write. Approach: what must change together changes by one aligned word (the table in use, the key
//! that signs, an entry's generation); of everything else each word stands alone. A service's entry is only written where it
//! differs, so that an agent that starts anew finds meters as they were.
//!
//! Worked example: a policy with the service `dfs` of 3 Gb/s at least: its slot's entry has `rx_min` 3,000,000,000; when the rack
//! broker limits it to 2 Gb/s, `rx_limit` becomes 2,000,000,000, and the next tick tells its senders less.

use crate::class::Sending;
use crate::htb;
use crate::loader::{InterfaceDatapath, LoaderError};
use crate::slots::name;
use crate::tables::{InterfaceEntry, KEYS_MAX, KeyEntry, Peer, SERVICES_MAX, ServiceEntry, Table};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use weir_datapath::{Address, Classifier, Rule, ShaperConfig, SipKey};
use weir_policy::{Policy, Sharing};
use weir_units::{Bandwidth, Direction, Duration, Instant, MachineId, PerDirection, ServiceId};

/// Bursts in a window of a receive meter, at least: then one more or less is a quarter of its usage, as a segment of 64 KiB is of
/// what 10 Gb/s carry in Parley's 200 µs.
const GRAIN_BURSTS: u64 = 4;

/// What the programs write on packets that leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classes {
    /// `skb->priority` is set to the class of [`htb::HtbTree`].
    Htb,
    /// Packets get departure times, by what [`crate::edt_shaper::EdtShaper`] says.
    Edt,
    /// Priorities stay as they are: measuring only.
    None,
}

/// A shared key as feedback uses it: with its number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedbackKey {
    /// The number.
    pub id: u16,
    /// The key.
    pub key: SipKey,
}

/// Who sends and gets the control traffic of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlSettings {
    /// Where the agent listens: brokers' datagrams may go nowhere else.
    pub listen: SocketAddr,
    /// The kernel's cookie of the agent's socket (SO_COOKIE), which alone may send control traffic.
    pub cookie: u64,
    /// Which start of the agent this is; feedback carries it.
    pub epoch: u64,
    /// The machines of the rack: brokers' datagrams come from nobody else.
    pub peers: Vec<IpAddr>,
    /// How long without a word of the agent before the static policy holds.
    pub timeout: Duration,
}

/// An address as packets have it: IPv4 as `::ffff:a.b.c.d`, in the order of the wire.
pub fn address(of: IpAddr) -> Address {
    let octets = match of {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let word = |from: usize| u64::from_ne_bytes(octets[from..from + 8].try_into().expect("eight of sixteen bytes"));
    [word(0), word(8)]
}

/// The kernel's cookie of a socket: a number that no other socket has, and that only the kernel gives out.
pub fn cookie(socket: &impl AsRawFd) -> io::Result<u64> {
    let mut cookie = 0u64;
    let mut size = size_of::<u64>() as libc::socklen_t;
    // SAFETY: fills at most `size` bytes of the number.
    let got = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_COOKIE, (&raw mut cookie).cast(), &raw mut size)
    };
    if got == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

impl InterfaceDatapath {
    /// Gives every service of the policy, by its path, its slot. Those that the policy does not have any more lose theirs.
    pub fn set_slots<'a>(&mut self, services: impl Iterator<Item = (ServiceId, &'a str)>) -> Result<(), LoaderError> {
        for slot in self.slots.assign(services)? {
            let generation = self.maps.services.get(&slot, 0)?.generation;
            self.maps.services.set(slot, ServiceEntry { generation, ..ServiceEntry::default() }, 0)?;
        }
        // Whose slot is whose is known to the next agent from here on.
        for (_, slot, name) in self.slots.iter() {
            let there = self.maps.services.get(&slot, 0)?;
            if there.known == 0 || there.name != name {
                // The generation goes on, so that the meter sees that the slot is another's.
                let entry = ServiceEntry { name, known: 1, generation: there.generation, ..ServiceEntry::default() };
                self.maps.services.set(slot, entry, 0)?;
            }
        }
        Ok(())
    }

    /// From the next packet on, packets are classified by `classifier` (made for this interface's name), which names services that have
    /// slots, and are given to what `classes` says. Meters go on counting.
    pub fn set_rules(&mut self, classifier: &Classifier, classes: Classes) -> Result<(), LoaderError> {
        if classes == Classes::Edt && !self.paces {
            return Err(LoaderError::WithoutEdt);
        }
        let rule = |rule: &Rule| Ok(Rule { service: self.slots.of(ServiceId(rule.service))?, ..*rule });
        let rules: Vec<Rule> = classifier.rules().iter().map(rule).collect::<Result<_, LoaderError>>()?;
        let next = 1 - self.config.table;
        self.maps.tables.set(next, Table::new(&rules), 0)?;
        self.config.table = next;
        (self.config.class_major, self.config.class_static) = match classes {
            Classes::Htb => (u32::from(htb::MAJOR) << 16, u32::from(htb::STATIC_FIRST)),
            Classes::Edt | Classes::None => (0, 0),
        };
        self.config.paces = u32::from(classes == Classes::Edt);
        self.config.class_first = u32::from(htb::OTHERS_FIRST);
        self.config.class_default = u32::from(htb::DEFAULT_MINOR);
        self.config.class_control = u32::from(htb::CONTROL_MINOR);
        self.write_config()
    }

    /// Receive meters and feedback as the policy has them for this machine, whose interface sends like `sending`. After
    /// [`InterfaceDatapath::set_slots`].
    pub fn set_shaper(
        &mut self,
        policy: &Policy,
        machine: MachineId,
        shaper: &ShaperConfig,
        sending: Sending,
    ) -> Result<(), LoaderError> {
        let entitlements = shaper.entitlements(machine);
        let mut tick = shaper.parameters.interface.interval;
        for (((id, service), own), committed) in policy.services().leaves().zip(&shaper.services).zip(entitlements) {
            let parameters = shaper.of(own);
            let slot = self.slots.of(id)?;
            let there = self.maps.services.get(&slot, 0)?;
            let tx = own.shares.tx;
            let wanted = ServiceEntry {
                law: parameters.receive_law(),
                rules: parameters.destination.raw(),
                rx_min: own.shares.rx.min.bps(),
                rx_max: limit(own.shares.rx.max),
                rx_limit: there.rx_limit,
                committed: committed.bps(),
                feedback_interval: parameters.feedback_interval.nanos(),
                tx_static: limit(tx.max),
                tx_limit: there.tx_limit,
                feedback_bytes: u32::try_from(parameters.feedback_bytes.get()).unwrap_or(u32::MAX),
                rx_weight: own.shares.rx.weight.thousandths(),
                sender_weight: policy.sender_weight(id, machine).thousandths(),
                known: 1,
                generation: there.generation,
                name: name(service.path()),
                reserved: 0,
            };
            if wanted != there || there.generation == 0 {
                let generation = there.generation.wrapping_add(1).max(1);
                self.maps.services.set(slot, ServiceEntry { generation, ..wanted }, 0)?;
            }
            tick = tick.min(own.interval);
        }
        let meter = shaper
            .interface_meter(machine, Direction::Rx, Instant::ZERO)
            .expect("every shaper has the receiving level");
        let (raw, there) = (meter.raw(), self.maps.interfaces.get(&0, 0)?);
        let wanted = InterfaceEntry {
            law: raw.law,
            capacity: raw.capacity,
            total: raw.total,
            minima: raw.minima,
            level: raw.level,
            lightest: raw.lightest,
            weighs: raw.weighs,
            generation: there.generation,
            reserved: 0,
        };
        if wanted != there || there.generation == 0 {
            let generation = there.generation.wrapping_add(1).max(1);
            self.maps.interfaces.set(0, InterfaceEntry { generation, ..wanted }, 0)?;
        }
        self.config.sharing = match shaper.sharing {
            Sharing::Fill => 0,
            Sharing::Add => 1,
        };
        // Senders are taken to send as this host does.
        let burst = crate::class::burst_bytes(sending).get().max(sending.segment.get());
        self.config.grain = u32::try_from(burst * GRAIN_BURSTS).unwrap_or(u32::MAX);
        self.config.tick = tick.nanos();
        self.config.cpus = possible_cpus()?;
        self.config.holds = 1;
        self.write_config()
    }

    /// What the brokers let services send and receive; unlimited lifts it. What is sent is held by the shaper, and kept here
    /// for the next agent.
    pub fn set_limits(&mut self, limits: &[(ServiceId, PerDirection<Bandwidth>)]) -> Result<(), LoaderError> {
        for (service, rates) in limits {
            let slot = self.slots.of(*service)?;
            let there = self.maps.services.get(&slot, 0)?;
            let wanted = ServiceEntry { rx_limit: limit(rates.rx), tx_limit: limit(rates.tx), ..there };
            if wanted != there {
                self.maps.services.set(slot, wanted, 0)?;
            }
        }
        Ok(())
    }

    /// The limits in force.
    pub fn limits(&self) -> Result<Vec<(ServiceId, PerDirection<Bandwidth>)>, LoaderError> {
        let rate = |bps: u64| if bps == 0 { Bandwidth::UNLIMITED } else { Bandwidth::from_bps(bps) };
        let of = |(service, slot, _)| {
            let entry = self.maps.services.get(&slot, 0)?;
            Ok((service, PerDirection { tx: rate(entry.tx_limit), rx: rate(entry.rx_limit) }))
        };
        self.slots.iter().map(of).collect()
    }

    /// The keys that verify feedback, of which the first signs. What is signed with any other is forged from the next packet on.
    ///
    /// # Panics
    /// With more than [`KEYS_MAX`] keys, or none.
    pub fn set_keys(&mut self, keys: &[FeedbackKey]) -> Result<(), LoaderError> {
        assert!((1..=KEYS_MAX).contains(&keys.len()), "{} keys", keys.len());
        let entry = |key: &FeedbackKey| KeyEntry { sip: key.key.raw(), id: key.id, known: 1, reserved: 0 };
        let there: Vec<KeyEntry> =
            (0..KEYS_MAX as u32).map(|place| self.maps.keys.get(&place, 0)).collect::<Result<_, _>>()?;
        let is =
            |entry: &KeyEntry, key: &FeedbackKey| entry.known == 1 && entry.id == key.id && entry.sip == key.key.raw();
        // A key that stays keeps its place: nothing is written over that a packet may be using.
        let mut places: Vec<Option<usize>> =
            keys.iter().map(|key| there.iter().position(|entry| is(entry, key))).collect();
        for (key, at) in keys.iter().zip(0..) {
            if places[at].is_none() {
                let free = (0..KEYS_MAX).find(|place| !places.contains(&Some(*place))).expect("as many places as keys");
                self.maps.keys.set(free as u32, KeyEntry { known: 0, ..KeyEntry::default() }, 0)?;
                self.maps.keys.set(free as u32, entry(key), 0)?;
                places[at] = Some(free);
            }
        }
        self.config.sign = places[0].expect("given a place") as u32;
        self.write_config()?;
        for place in (0..KEYS_MAX).filter(|place| !places.contains(&Some(*place))) {
            self.maps.keys.set(place as u32, KeyEntry::default(), 0)?;
        }
        Ok(())
    }

    /// Who sends and gets control traffic.
    pub fn set_control(&mut self, control: &ControlSettings) -> Result<(), LoaderError> {
        let wanted: Vec<Address> = control.peers.iter().map(|peer| address(*peer)).collect();
        let there: Vec<Address> = self.maps.peers.keys().collect::<Result<_, _>>()?;
        for gone in there.iter().filter(|peer| !wanted.contains(peer)) {
            self.maps.peers.remove(gone)?;
        }
        for new in wanted.iter().filter(|peer| !there.contains(peer)) {
            self.maps.peers.insert(*new, Peer::default(), 0)?;
        }
        self.config.agent_address = address(control.listen.ip());
        self.config.listen_port = u32::from(control.listen.port());
        self.config.agent_cookie = control.cookie;
        self.config.epoch = control.epoch;
        self.config.timeout = control.timeout.nanos();
        self.write_config()
    }

    /// The agent is alive; to be called several times within the timeout.
    pub fn heartbeat(&mut self) -> Result<(), LoaderError> {
        Ok(self.maps.alive.set(0, kernel_time(), 0)?)
    }

    /// The slot of a service of the policy in force.
    pub fn slot(&self, service: ServiceId) -> Result<u32, LoaderError> {
        self.slots.of(service)
    }

    /// The service of a slot.
    pub fn service(&self, slot: u32) -> Option<ServiceId> {
        self.slots.service(slot)
    }

    pub(crate) fn write_config(&mut self) -> Result<(), LoaderError> {
        Ok(self.maps.config.set(0, self.config, 0)?)
    }
}

/// A limit as the kernel's side has it: 0 is unlimited.
fn limit(rate: Bandwidth) -> u64 {
    if rate.is_unlimited() { 0 } else { rate.bps().max(1) }
}

/// Nanoseconds of the clock that BPF programs read.
pub(crate) fn kernel_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the time that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How many processors may ever count: per-CPU maps have a value for each.
pub(crate) fn possible_cpus() -> Result<u32, LoaderError> {
    let cpus = aya::util::nr_cpus();
    cpus.map(|cpus| cpus as u32).map_err(|(what, error)| LoaderError::Io {
        what: if what.is_empty() { "count processors" } else { "read the possible processors" },
        error: io::Error::other(error),
    })
}

const _: () = assert!(SERVICES_MAX <= 0x1000, "a thousand hexadecimal classes of each kind");
