//! [`Shaper`]: the interface of the two mechanisms that enforce rates, and the choice between them.
//!
//! `edt` sets departure times in BPF, which only the qdisc fq applies ([`crate::edt_shaper`]);
//! `htb` sets classes ([`crate::htb_shaper`]). A host without fq ignores departure times silently:
//! a limit of 100 Mb/s then runs at 20 Gb/s. [`probe`] therefore tries each in a scratch namespace,
//! and [`choose`] selects one that works or fails with all reasons. There is no mode that enforces
//! nothing.
//!
//! Worked example: on a kernel without fq, `probe` reports `edt: the kernel has no qdisc fq` and no obstacle of
//! `htb`, and `choose` returns [`Backend::Htb`].
//!
//! Source: Linux's net/sched/sch_fq.c, the qdisc that delays packets until their departure time.

use crate::dropped::Dropped;
use crate::edt_probe;
use crate::htb::{self, HtbError};
use crate::loader::LoaderError;
use crate::netlink::{Message, NetlinkError, Socket};
use crate::netns;
use crate::priority_bands;
use crate::tc::{ForeignQdisc, TC_H_ROOT, TCA_KIND, TCA_OPTIONS, tcmsg};
use std::fmt;
use weir_datapath::PacingConfig;
use weir_shaping::LeafShare;
use weir_units::{Bandwidth, Bytes, ServiceId, Weight};

/// A mechanism that enforces rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Departure times set in BPF, applied by fq.
    Edt,
    /// HTB classes per service and destination, chosen in BPF, numbers set by netlink.
    Htb,
}

impl Backend {
    /// The capacity that services share of an interface of this rate.
    pub fn shared(self, nic: Bandwidth) -> Bandwidth {
        match self {
            Self::Htb => nic,
            Self::Edt => PacingConfig::shared(nic),
        }
    }

    /// The guarantee with which this backend shares an interface as the policy's tree does while all services are
    /// backlogged.
    ///
    /// HTB divides the bandwidth in excess of all guarantees by quanta, which is inexact beside guarantees (measured:
    /// shares of 7.9 and 15.8 Mb/s became 6.8 and 14.6). Each service's whole share is therefore its guarantee in HTB,
    /// and quanta divide only the bandwidth that idle services leave.
    pub fn guarantee(self, leaf: &LeafShare) -> Bandwidth {
        match self {
            Self::Htb => leaf.committed,
            Self::Edt => leaf.flat_min,
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Edt => "edt",
            Self::Htb => "htb",
        })
    }
}

/// Whether a backend can be used on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Possible {
    /// The backend.
    pub backend: Backend,
    /// The reason against it.
    pub obstacle: Option<String>,
}

/// No backend works on this host.
#[derive(Debug, thiserror::Error)]
#[error("nothing can enforce rates on this host: {}", reasons(.0))]
pub struct NoBackend(pub Vec<Possible>);

fn reasons(possible: &[Possible]) -> String {
    let reason = |p: &Possible| format!("{}: {}", p.backend, p.obstacle.as_deref().unwrap_or("possible"));
    possible.iter().map(reason).collect::<Vec<_>>().join("; ")
}

/// Rates cannot be enforced on an interface.
#[derive(Debug, thiserror::Error)]
pub enum ShaperError {
    /// The interface has a qdisc that an administrator configured.
    #[error(transparent)]
    Foreign(ForeignQdisc),
    /// The HTB tree.
    #[error(transparent)]
    Htb(HtbError),
    /// The maps of the programs.
    #[error(transparent)]
    Loader(#[from] LoaderError),
    /// The kernel refused.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The kernel accepted fq and has another root qdisc.
    #[error("the kernel accepted fq and has not put it at the root")]
    NotThere,
}

impl From<HtbError> for ShaperError {
    fn from(error: HtbError) -> Self {
        match error {
            HtbError::Foreign(foreign) => Self::Foreign(foreign),
            error => Self::Htb(error),
        }
    }
}

/// The rates of a service on this interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceRate {
    /// The service, a leaf of the policy.
    pub service: ServiceId,
    /// Its slot in the interface's maps: `InterfaceDatapath::slot`.
    pub slot: u32,
    /// The guarantee ([`Backend::guarantee`]); zero for none.
    pub min: Bandwidth,
    /// The limit in force.
    pub max: Bandwidth,
    /// Its maximum at the machine, at most the interface's rate; `max` is never higher.
    pub machine_max: Bandwidth,
    /// Its limit while no agent runs: the machine's maximum or the part of the rack's and the
    /// fabric's maxima that this machine has without brokers, whichever is less.
    pub static_limit: Bandwidth,
    /// The weight in excess capacity.
    pub weight: Weight,
}

/// The rate of a service to one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DestinationRate {
    /// The destination's slot.
    pub destination: u32,
    /// The service's slot.
    pub slot: u32,
    /// The rate in the receiver's feedback; `None` after a silence.
    pub rate: Option<Bandwidth>,
}

/// Backlog and drops of one service, or of unclassified traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceQueue {
    /// The service's slot; `None` for unclassified traffic.
    pub slot: Option<u32>,
    /// Bytes sent through the existing classes.
    pub sent: Bytes,
    /// Bytes queued in all its classes.
    pub backlog: Bytes,
    /// Buffers dropped since this shaper was installed, or the one before that it continues,
    /// including those of an earlier agent's classes. Monotonic. Those of unclassified traffic
    /// include drops that cannot be attributed to a service: control traffic's, and those of fq.
    pub drops: u64,
    /// Rate-limited destinations.
    pub destinations: u32,
}

/// Enforces rates on one interface.
pub trait Shaper: Send {
    /// The mechanism.
    fn backend(&self) -> Backend;
    /// Whether its qdisc is still at the interface's root, with the classes of levels as they were made. Reads the
    /// lists of qdiscs and classes, some hundred bytes per class: call it each second, not each period.
    fn is_installed(&mut self) -> Result<bool, ShaperError>;
    /// Sets the rates of these services together; others keep theirs.
    fn set(&mut self, rates: &[ServiceRate]) -> Result<(), ShaperError>;
    /// Removes services that are no longer in the policy, with their queues.
    fn forget(&mut self, slots: &[u32]) -> Result<(), ShaperError>;
    /// Sets the rates of destinations. Returns the class of each, or 0 if it has none of its own;
    /// the caller writes them to the kernel before the next call, which deletes the unused classes.
    fn limit_destinations(&mut self, rates: &[DestinationRate]) -> Result<Vec<(u32, u16)>, ShaperError>;
    /// Backlog and drops by service.
    fn queues(&mut self) -> Result<Vec<ServiceQueue>, ShaperError>;
    /// Drops so far, for the shaper that replaces this one.
    fn dropped(&mut self) -> Result<Dropped, ShaperError>;
    /// Continues the count of drops of the shaper that this one replaces.
    fn go_on_from(&mut self, dropped: Dropped);
    /// Restores the interface's previous configuration.
    fn remove(self: Box<Self>) -> Result<(), ShaperError>;
    /// Sets whether a drop, also by a panic, leaves the last rates in force.
    fn set_kept(&mut self, kept: bool);
    /// Drops this and [keeps](Self::set_kept) the rates.
    fn leave(mut self: Box<Self>) {
        self.set_kept(true);
    }
}

/// Tries every backend on the loopback interface of a scratch namespace, without a change of the
/// host. Takes a tenth of a second.
pub fn probe() -> Vec<Possible> {
    // Without permission for a namespace a weaker check remains, which does not suffice for `edt`.
    let tried = |work: fn() -> Result<(), String>, without: fn() -> Result<(), String>| match netns::scratch(work) {
        Ok(result) => result.err(),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => without().err(),
        Err(error) => Some(format!("a scratch namespace cannot be created: {error}")),
    };
    let unproven = || {
        is_known("fq")?;
        Err("departure times are tested in a scratch namespace, which needs CAP_SYS_ADMIN".into())
    };
    vec![
        Possible { backend: Backend::Edt, obstacle: tried(edt_probe::are_applied, unproven) },
        Possible { backend: Backend::Htb, obstacle: tried(|| add_to_loopback("htb"), || is_known("htb")) },
    ]
}

/// The obstacle, if any, to latency levels with a backend. Without permission for a namespace it is found when qdiscs
/// are installed.
pub fn obstacle_to_levels(backend: Backend) -> Option<String> {
    let kinds: &[&str] = match backend {
        Backend::Edt => &["prio", "htb", "tbf"],
        Backend::Htb => &["tbf"],
    };
    let obstacle = |kind: &&str| netns::scratch(|| add_to_loopback(kind)).ok().and_then(Result::err);
    kinds.iter().find_map(obstacle).map(|error| format!("latency levels: {error}"))
}

/// The backend `wanted`, or the first possible one.
pub fn choose(possible: &[Possible], wanted: Option<Backend>) -> Result<Backend, NoBackend> {
    let eligible = |p: &&Possible| wanted.is_none_or(|wanted| wanted == p.backend);
    match possible.iter().filter(eligible).find(|p| p.obstacle.is_none()) {
        Some(found) => Ok(found.backend),
        None => Err(NoBackend(possible.iter().filter(eligible).cloned().collect())),
    }
}

/// Adds a qdisc with default parameters at the root of `lo` in the namespace of the calling thread.
pub(crate) fn add_to_loopback(kind: &str) -> Result<(), String> {
    const LOOPBACK: u32 = 1;
    const TCA_TBF_PARMS: u16 = 1;
    let mut socket = Socket::open().map_err(|error| error.to_string())?;
    let message = Message::new(
        libc::RTM_NEWQDISC,
        libc::NLM_F_CREATE | libc::NLM_F_REPLACE,
        &tcmsg(LOOPBACK, u32::from(htb::MAJOR) << 16, TC_H_ROOT),
    )
    .text(TCA_KIND, kind);
    let message = match kind {
        "htb" => htb::with_default(message, htb::DEFAULT_MINOR),
        "prio" => priority_bands::with_bands(message),
        "tbf" => message.nest(TCA_OPTIONS, |m| m.attribute(TCA_TBF_PARMS, &tbf_parameters())),
        _ => message,
    };
    match socket.request(&format!("add {kind}"), vec![message]) {
        Ok(()) => Ok(()),
        Err(error) if error.errno() == Some(libc::ENOENT) => Err(format!("the kernel has no qdisc {kind}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether the kernel has this qdisc (`htb` or `fq`), by a request that fails after the lookup and changes nothing.
pub(crate) fn is_known(kind: &str) -> Result<(), String> {
    const LOOPBACK: u32 = 1;
    const TCA_FQ_QUANTUM: u16 = 3;
    let mut socket = Socket::open().map_err(|error| error.to_string())?;
    let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    let request = Message::new(libc::RTM_NEWQDISC, flags, &tcmsg(LOOPBACK, u32::from(htb::MAJOR) << 16, TC_H_ROOT));
    let request = request.text(TCA_KIND, kind);
    // No quantum is 0; htb has no defaults.
    let request = match kind {
        "fq" => request.nest(TCA_OPTIONS, |m| m.attribute(TCA_FQ_QUANTUM, &[0; 4])),
        _ => request,
    };
    match socket.request(&format!("look up {kind}"), vec![request]) {
        Err(error) if error.errno() == Some(libc::EINVAL) => Ok(()),
        Err(error) if error.errno() == Some(libc::ENOENT) => Err(format!("the kernel has no qdisc {kind}")),
        Err(error) => Err(error.to_string()),
        Ok(()) => Err(format!("the kernel accepted invalid parameters of {kind}")),
    }
}

/// struct tc_tbf_qopt of 1 Mb/s with a burst of 1 s: tbf has no defaults.
fn tbf_parameters() -> Vec<u8> {
    // tc_ratespec: cell_log, linklayer (Ethernet: sizes as they are, no table), overhead, cell_align, mpu, rate in B/s.
    let mut bytes = vec![0, 1, 0, 0, 0, 0, 0, 0];
    bytes.extend(u32::to_ne_bytes(125_000));
    // No peak rate.
    bytes.extend([0; 12]);
    // Queue in bytes, burst in ticks of 64 ns, mtu (of the peak rate's table).
    for word in [125_000, 15_625_000, 0] {
        bytes.extend(u32::to_ne_bytes(word));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qdisc_is_looked_up_without_a_namespace_or_a_change() {
        let Ok(known) = netns::scratch(|| {
            let before = crate::tc::qdiscs(&mut Socket::open().expect("a socket"), 1).expect("listed");
            let known = ["htb", "nosuch"].map(is_known);
            let after = crate::tc::qdiscs(&mut Socket::open().expect("a socket"), 1).expect("listed");
            assert_eq!(before, after);
            known
        }) else {
            eprintln!("skipped: looking up qdiscs needs root");
            return;
        };
        assert_eq!(known, [Ok(()), Err("the kernel has no qdisc nosuch".to_owned())]);
    }

    #[test]
    fn working_backend_is_chosen_or_all_reasons_are_reported() {
        let edt = Possible { backend: Backend::Edt, obstacle: Some("the kernel has no qdisc fq".into()) };
        let htb = |obstacle| Possible { backend: Backend::Htb, obstacle };
        let both = |other| [edt.clone(), htb(other)];
        assert_eq!(choose(&both(None), None).expect("htb"), Backend::Htb);
        assert_eq!(choose(&both(None), Some(Backend::Htb)).expect("htb"), Backend::Htb);
        let error = choose(&both(None), Some(Backend::Edt)).expect_err("edt is not possible");
        assert_eq!(error.to_string(), "nothing can enforce rates on this host: edt: the kernel has no qdisc fq");
        let error = choose(&both(Some("not permitted".into())), None).expect_err("none");
        assert_eq!(
            error.to_string(),
            "nothing can enforce rates on this host: edt: the kernel has no qdisc fq; htb: not permitted"
        );
    }
}
