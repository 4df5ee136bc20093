//! [`Shaper`]: the one interface to whatever enforces rates on this host, and which of them it can have.
//!
//! Problem: two mechanisms hold a service to a rate: `edt` (departure times set in BPF, which only the qdisc fq
//! obeys; [`crate::edt_shaper`]) and `htb` (classes; [`crate::htb_shaper`]). A host without fq ignores departure times without a word: a limit of
//! 100 Mb/s then runs at 20 Gb/s. Approach: [`probe`] tries each in a scratch namespace and says what it found;
//! [`choose`] takes what works or fails with every reason. There is no third way that enforces nothing.
//!
//! Worked example: on a kernel without fq, `probe` says `edt: the kernel has no qdisc fq` and nothing against
//! `htb`, and `choose` returns [`Backend::Htb`].
//!
//! Source: Linux's net/sched/sch_fq.c, the qdisc that waits for a packet's departure time.

use crate::dropped::Dropped;
use crate::edt_probe;
use crate::htb::{self, HtbError};
use crate::loader::LoaderError;
use crate::netlink::{Message, NetlinkError, Socket};
use crate::netns;
use crate::tc::{ForeignQdisc, TC_H_ROOT, TCA_KIND, TCA_OPTIONS, tcmsg};
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

/// Why rates cannot be enforced on an interface.
#[derive(Debug, thiserror::Error)]
pub enum ShaperError {
    /// Somebody put a qdisc there on purpose.
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
    /// The kernel took fq and has something else.
    #[error("the kernel took fq and has not put it at the root")]
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
    /// Buffers dropped since the shaper was installed, or the one before that it goes on from; what an earlier agent's classes dropped
    /// is among them. Never falls.
    pub drops: u64,
    /// Destinations that have a class of their own.
    pub destinations: u32,
}

/// Enforces rates on one interface.
pub trait Shaper: Send {
    /// The mechanism.
    fn backend(&self) -> Backend;
    /// Whether the qdisc that it works by is still at the interface's root: nobody deleted or replaced it. Reads the list of
    /// qdiscs, some hundred bytes for each class: to be asked each second, not each period.
    fn is_installed(&mut self) -> Result<bool, ShaperError>;
    /// Sets the rates of these services together; others keep theirs.
    fn set(&mut self, rates: &[ServiceRate]) -> Result<(), ShaperError>;
    /// Services that the policy does not have any more go, with what waits.
    fn forget(&mut self, slots: &[u32]) -> Result<(), ShaperError>;
    /// What services may send to destinations. Returns the class of each that has one of its own now, and 0 for the others: to be told to the
    /// kernel before the next call, which deletes the classes that are no destination's any more.
    fn hold(&mut self, rates: &[DestinationRate]) -> Result<Vec<(u32, u16)>, ShaperError>;
    /// What waits and what was dropped, by service.
    fn queues(&mut self) -> Result<Vec<ServiceQueue>, ShaperError>;
    /// What was dropped until now, for the shaper that takes this one's place.
    fn dropped(&mut self) -> Result<Dropped, ShaperError>;
    /// Counts drops from there, as one that takes another's place on the same interface.
    fn go_on_from(&mut self, dropped: Dropped);
    /// Leaves the interface as it was found.
    fn remove(self: Box<Self>) -> Result<(), ShaperError>;
    /// Whether it takes nothing down when it is dropped, in a panic too: the kernel keeps the last rates.
    fn set_kept(&mut self, kept: bool);
    /// [Kept](Self::set_kept), and gone.
    fn leave(mut self: Box<Self>) {
        self.set_kept(true);
    }
}

/// Tries every backend on the loopback interface of a scratch namespace; nothing of the host is touched. Takes a tenth of a second.
pub fn probe() -> Vec<Possible> {
    // Who may not make one asks without, and what is not enough to know is not believed.
    let tried = |work: fn() -> Result<(), String>, without: fn() -> Result<(), String>| match netns::scratch(work) {
        Ok(result) => result.err(),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => without().err(),
        Err(error) => Some(format!("a scratch namespace cannot be made: {error}")),
    };
    let unproven = || {
        is_known("fq")?;
        Err("whether departure times are obeyed is tried in a scratch namespace, which needs CAP_SYS_ADMIN".into())
    };
    vec![
        Possible { backend: Backend::Edt, obstacle: tried(edt_probe::are_obeyed, unproven) },
        Possible { backend: Backend::Htb, obstacle: tried(|| add_to_loopback("htb"), || is_known("htb")) },
    ]
}

/// The backend to use: `wanted`, or the first that is possible.
pub fn choose(possible: &[Possible], wanted: Option<Backend>) -> Result<Backend, NoBackend> {
    let asked = |p: &&Possible| wanted.is_none_or(|wanted| wanted == p.backend);
    match possible.iter().filter(asked).find(|p| p.obstacle.is_none()) {
        Some(found) => Ok(found.backend),
        None => Err(NoBackend(possible.iter().filter(asked).cloned().collect())),
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
        let both = |other| [edt.clone(), htb(other)];
        assert_eq!(choose(&both(None), None).expect("htb"), Backend::Htb);
        assert_eq!(choose(&both(None), Some(Backend::Htb)).expect("htb"), Backend::Htb);
        let error = choose(&both(None), Some(Backend::Edt)).expect_err("asked for");
        assert_eq!(error.to_string(), "nothing can enforce rates on this host: edt: the kernel has no qdisc fq");
        let error = choose(&both(Some("not permitted".into())), None).expect_err("none");
        assert_eq!(
            error.to_string(),
            "nothing can enforce rates on this host: edt: the kernel has no qdisc fq; htb: not permitted"
        );
    }
}
