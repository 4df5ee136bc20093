//! Switch ports that mark, and release packets of hosts from the senders' sockets.
//!
//! Problem: the rate law needs marks as its congestion signal, and the lab's ports (TBF) do not
//! mark. Approach: the BPF program `bpf/port.bpf.c` runs before each port's TBF, models its queue,
//! and sets CE on ECN-capable packets that find the queue above the threshold. Each port has a copy
//! of the program with maps of its own.
//!
//! The threshold is the scenario's (`links.queue.mark`); if it has none and hosts are shaped, the
//! simulator's, 80 kB.
//!
//! A machine's port also releases the machine's packets from their sockets, as a real interface
//! does after sending: otherwise TCP would count packets in all switches as waiting in its host,
//! and one connection could not fill a queue (`bpf/port.bpf.c`).
//!
//! Worked example: under `links: { queue: { discipline: ecn, buffer: 256kB, mark: 30kB } }` a port
//! of 100 Mb/s marks packets that would wait for more than 2.4 ms.

use aya::maps::{Array, MapError};
use aya::programs::links::LinkError;
use aya::programs::tc::{NlOptions, TcAttachOptions, TcError, qdisc_add_clsact};
use aya::programs::{LinkOrder, ProgramError, SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfError};
use weir_datapath::abi::{Port, PortQueue};
use weir_linux::attachment::lacks_tcx;
use weir_linux::loader::PORT_OBJECT;
use weir_linux::maps::Value;
use weir_linux::netns::{Netns, NetnsError};
use weir_units::{Bandwidth, Bytes};

const MARK: &str = "weir_mark";
const DISCARD: &str = "weir_discard";
const SETTINGS: &str = "weir_port";
const QUEUE: &str = "weir_port_queue";

/// Why a port does not mark.
#[derive(Debug, thiserror::Error)]
pub enum MarksError {
    /// Entering the switch.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// The kernel refused the object.
    #[error("load the port's BPF program: {0}")]
    Load(#[from] EbpfError),
    /// The kernel refused the program or its link.
    #[error("the port's BPF program: {0}")]
    Program(#[from] ProgramError),
    /// A link.
    #[error("the port's BPF link: {0}")]
    Link(#[from] LinkError),
    /// A map.
    #[error("the port's BPF map: {0}")]
    Map(#[from] MapError),
    /// The clsact qdisc of kernels without tcx.
    #[error("add clsact to the port: {0}")]
    Clsact(#[from] TcError),
    /// The program and the object are of two builds.
    #[error("the port's BPF object has no `{0}`")]
    Missing(&'static str),
}

/// Counters of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortCounts {
    /// Packets that left by the port, or that it dropped.
    pub packets: u64,
    /// Of them, those that found the queue above the threshold.
    pub above: u64,
    /// Of these, those that were ECN-capable and are CE now.
    pub marked: u64,
}

/// A port that marks, until dropped or its namespace goes.
pub struct MarkingPort {
    object: Ebpf,
}

impl MarkingPort {
    /// Begins to mark packets that leave by a port of `rate` and `buffer` behind more than `mark`
    /// bytes.
    pub fn attach(switch: &Netns, port: &str, rate: Bandwidth, buffer: Bytes, mark: Bytes) -> Result<Self, MarksError> {
        Self::attach_all(switch, port, rate, buffer, mark, &[(MARK, TcAttachType::Egress)])
    }

    /// The same for the port to a machine, which releases the machine's packets.
    pub fn attach_to_machine(
        switch: &Netns,
        port: &str,
        rate: Bandwidth,
        buffer: Bytes,
        mark: Bytes,
    ) -> Result<Self, MarksError> {
        let programs = [(MARK, TcAttachType::Egress), (DISCARD, TcAttachType::Ingress)];
        Self::attach_all(switch, port, rate, buffer, mark, &programs)
    }

    fn attach_all(
        switch: &Netns,
        port: &str,
        rate: Bandwidth,
        buffer: Bytes,
        mark: Bytes,
        programs: &[(&'static str, TcAttachType)],
    ) -> Result<Self, MarksError> {
        let settings = Port { rate: rate.bps().max(1), mark: mark.get(), buffer: buffer.get() };
        switch.run(|| {
            let mut object = Ebpf::load(PORT_OBJECT)?;
            let map = object.map_mut(SETTINGS).ok_or(MarksError::Missing(SETTINGS))?;
            Array::<_, Value<Port>>::try_from(map)?.set(0, Value(settings), 0)?;
            let mut clsact = false;
            for &(name, direction) in programs {
                let program = object.program_mut(name).ok_or(MarksError::Missing(name))?;
                let program: &mut SchedClassifier = program.try_into()?;
                program.load()?;
                let link = TcAttachOptions::TcxOrder(LinkOrder::default());
                match program.attach_with_options(port, direction, link) {
                    Err(error) if lacks_tcx(&error) => {
                        if !std::mem::replace(&mut clsact, true) {
                            qdisc_add_clsact(port)?;
                        }
                        let filter = TcAttachOptions::Netlink(NlOptions::default());
                        let link = program.attach_with_options(port, direction, filter)?;
                        // The filter goes with its port; dropping it in another namespace would
                        // remove a filter there.
                        std::mem::forget(program.take_link(link)?);
                    }
                    attached => {
                        attached?;
                    }
                }
            }
            Ok(Self { object })
        })?
    }

    /// The counters since the attachment.
    pub fn counts(&self) -> Result<PortCounts, MarksError> {
        let map = self.object.map(QUEUE).ok_or(MarksError::Missing(QUEUE))?;
        let Value(queue) = Array::<_, Value<PortQueue>>::try_from(map)?.get(&0, 0)?;
        Ok(PortCounts { packets: queue.packets, above: queue.above, marked: queue.marked })
    }
}
