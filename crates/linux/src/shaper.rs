//! [`Shaper`]: the one interface to whatever enforces rates on this host, and which of them it can have.
//!
//! Problem: two mechanisms hold a service to a rate: `edt` (departure times set in BPF, which only the qdisc fq
//! obeys) and `htb` (classes; [`crate::htb_shaper`]). A host without fq ignores departure times without a word: a limit of
//! 100 Mb/s then runs at 20 Gb/s. Approach: [`probe`] tries each in a scratch namespace and says what it found;
//! [`choose`] takes what works or fails with every reason. There is no third way that enforces nothing.
//!
//! Worked example: on a kernel without fq, `probe` says `edt: the kernel has no qdisc fq` and nothing against
//! `htb`, and `choose` returns [`Backend::Htb`].
//!
//! Source: Linux's net/sched/sch_fq.c, the qdisc that waits for a packet's departure time.

use crate::htb::{self, HtbError};
use crate::netlink::{Message, Socket};
use crate::netns;
use crate::tc::{TC_H_ROOT, TCA_KIND, TCA_OPTIONS, tcmsg};
use std::fmt;
use weir_units::{Bandwidth, Bytes, ServiceId, Weight};

/// A mechanism that enforces rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Departure times set in BPF, obeyed by fq.
    Edt,
    /// HTB classes per service and destination, chosen in BPF, numbers set by netlink.
    Htb,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Edt => "edt",
            Self::Htb => "htb",
        })
    }
}

/// Whether a backend can be used here, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Possible {
    /// The backend.
    pub backend: Backend,
    /// The reason against it.
    pub obstacle: Option<String>,
}

/// No backend works here.
#[derive(Debug, thiserror::Error)]
#[error("nothing can enforce rates on this host: {}", reasons(.0))]
pub struct NoBackend(pub Vec<Possible>);

fn reasons(possible: &[Possible]) -> String {
    let reason = |p: &Possible| format!("{}: {}", p.backend, p.obstacle.as_deref().unwrap_or("possible"));
    possible.iter().map(reason).collect::<Vec<_>>().join("; ")
}

/// What a service may send on this interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceRate {
    /// The service, a leaf of the policy.
    pub service: ServiceId,
    /// Its slot in the interface's maps: `InterfaceDatapath::slot`.
    pub slot: u32,
    /// The guarantee; zero for none.
    pub min: Bandwidth,
    /// The limit in force.
    pub max: Bandwidth,
    /// What the static policy alone limits it to.
    pub ceiling: Bandwidth,
    /// The part taken of what is left over.
    pub weight: Weight,
}

/// What a service may send to one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DestinationRate {
    /// The destination's slot.
    pub destination: u32,
    /// The service's slot.
    pub slot: u32,
    /// The rate that the receiver says; `None` when it says nothing any more.
    pub rate: Option<Bandwidth>,
}

/// What waits and what was dropped of one service, or of the unclassified traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceQueue {
    /// `None` for unclassified traffic.
    pub service: Option<ServiceId>,
    /// Bytes sent through the classes that there are.
    pub sent: Bytes,
    /// Bytes waiting, in all its classes.
    pub backlog: Bytes,
    /// Buffers dropped since the classes that there are were made.
    pub drops: u64,
    /// Destinations that have a class of their own.
    pub destinations: u32,
}

/// Enforces rates on one interface.
pub trait Shaper: Send {
    /// The mechanism.
    fn backend(&self) -> Backend;
    /// Sets the rates of these services together; others keep theirs.
    fn set(&mut self, rates: &[ServiceRate]) -> Result<(), HtbError>;
    /// Services that the policy does not have any more go, with what waits.
    fn forget(&mut self, slots: &[u32]) -> Result<(), HtbError>;
    /// What services may send to destinations. Returns the class of each that has one of its own now, and 0 for the others.
    fn hold(&mut self, rates: &[DestinationRate]) -> Result<Vec<(u32, u16)>, HtbError>;
    /// What waits and what was dropped, by service.
    fn queues(&mut self) -> Result<Vec<ServiceQueue>, HtbError>;
    /// Leaves the interface as it was found.
    fn remove(self: Box<Self>) -> Result<(), HtbError>;
    /// Goes without taking anything down: the kernel keeps the last rates.
    fn leave(self: Box<Self>);
}

/// Tries every backend on the loopback interface of a scratch namespace; nothing of the host is touched.
pub fn probe() -> Vec<Possible> {
    let tried = |kind: &'static str| match netns::scratch(|| add_to_loopback(kind)) {
        Ok(Ok(())) => None,
        Ok(Err(reason)) => Some(reason),
        // Who may not make one asks without.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => is_known(kind).err(),
        Err(error) => Some(format!("a scratch namespace cannot be made: {error}")),
    };
    let edt = tried("fq")
        .unwrap_or_else(|| "the kernel has fq, but this version's BPF program does not set departure times".into());
    vec![
        Possible { backend: Backend::Edt, obstacle: Some(edt) },
        Possible { backend: Backend::Htb, obstacle: tried("htb") },
    ]
}

/// The backend to use: the first that is possible.
pub fn choose(possible: Vec<Possible>) -> Result<Backend, NoBackend> {
    match possible.iter().find(|p| p.obstacle.is_none()) {
        Some(found) => Ok(found.backend),
        None => Err(NoBackend(possible)),
    }
}

/// Puts a qdisc with its defaults (for those that have none, some) at the root of `lo`, in the namespace of the
/// calling thread.
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
        "htb" => htb::with_defaults(message),
        "tbf" => message.nest(TCA_OPTIONS, |m| m.attribute(TCA_TBF_PARMS, &tbf_parameters())),
        _ => message,
    };
    match socket.request(&format!("add {kind}"), vec![message]) {
        Ok(()) => Ok(()),
        Err(error) if error.errno() == Some(libc::ENOENT) => Err(format!("the kernel has no qdisc {kind}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether the kernel has this qdisc (`htb` or `fq`), by a request that it refuses after it has found it: nothing is changed.
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
    match socket.request(&format!("ask for {kind}"), vec![request]) {
        Err(error) if error.errno() == Some(libc::EINVAL) => Ok(()),
        Err(error) if error.errno() == Some(libc::ENOENT) => Err(format!("the kernel has no qdisc {kind}")),
        Err(error) => Err(error.to_string()),
        Ok(()) => Err(format!("the kernel took a {kind} that cannot be")),
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
    fn a_qdisc_is_known_without_a_namespace_and_without_a_trace() {
        let Ok(known) = netns::scratch(|| {
            let before = crate::tc::qdiscs(&mut Socket::open().expect("a socket"), 1).expect("listed");
            let known = ["htb", "nosuch"].map(is_known);
            let after = crate::tc::qdiscs(&mut Socket::open().expect("a socket"), 1).expect("listed");
            assert_eq!(before, after);
            known
        }) else {
            eprintln!("skipped: asking for qdiscs needs root");
            return;
        };
        assert_eq!(known, [Ok(()), Err("the kernel has no qdisc nosuch".to_owned())]);
    }

    #[test]
    fn chooses_what_works_and_tells_why_nothing_does() {
        let edt = Possible { backend: Backend::Edt, obstacle: Some("the kernel has no qdisc fq".into()) };
        let htb = |obstacle| Possible { backend: Backend::Htb, obstacle };
        assert_eq!(choose(vec![edt.clone(), htb(None)]).expect("htb"), Backend::Htb);
        let error = choose(vec![edt, htb(Some("not permitted".into()))]).expect_err("none");
        assert_eq!(
            error.to_string(),
            "nothing can enforce rates on this host: edt: the kernel has no qdisc fq; htb: not permitted"
        );
    }
}
