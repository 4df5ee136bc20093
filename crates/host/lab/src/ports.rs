//! The ports of the lab's switches: queues and marks as a switch has them, and release of hosts' packets.
//!
//! A port is configured as that of any Linux switch ([`weir_linux::port`]): the link's rate; the scenario's buffer, and
//! its ECN threshold (`links.queue.mark`; if it has none and hosts are shaped, the simulator's, 80 kB), in each of its
//! queues. It has one queue, and a strict one for each latency level that is enforced. `weir switch show` would list
//! the same.
//!
//! A machine's port also releases the machine's packets from their sockets, as a real interface does after sending:
//! otherwise TCP would count packets in all switches as waiting in its host, and one connection could not fill a queue
//! (`bpf/release.bpf.c`).
//!
//! Worked example: under `links: { queue: { discipline: ecn, buffer: 256kB, mark: 30kB } }` a port of 100 Mb/s marks
//! packets that would wait for more than 2.4 ms.

use aya::programs::tc::{NlOptions, TcAttachOptions};
use aya::programs::{LinkOrder, ProgramError, SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfError};
use std::collections::BTreeMap;
use weir_linux::attachment::lacks_tcx;
use weir_linux::loader::RELEASE_OBJECT;
use weir_linux::netns::{Netns, NetnsError};
use weir_linux::port::{PortError, PortProgram, QueueCounts, TcSwitch};
use weir_network::graph::LinkRef;
use weir_switch::{ApplyError, FieldError, Offer, PolicyNeeds, PortConfig, ReadQueues as _, Request, apply};
use weir_units::{Bandwidth, Bytes};

const DISCARD: &str = "weir_discard";

/// Why a switch does not have its ports.
#[derive(Debug, thiserror::Error)]
pub enum PortsError {
    /// Entering the switch.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// No port can have the scenario's values.
    #[error("a port of the lab: {0}")]
    Config(#[from] FieldError),
    /// The configuration was not applied.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The program of a port.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The kernel refused the object.
    #[error("load the BPF program that releases packets: {0}")]
    Load(#[from] EbpfError),
    /// The kernel refused the program or its link.
    #[error("the BPF program that releases packets: {0}")]
    Program(#[from] ProgramError),
    /// The program and the object are of two builds.
    #[error("the BPF object has no `{0}`")]
    Missing(&'static str),
}

/// The neighbour of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neighbour {
    /// A machine, whose packets the port releases.
    Machine,
    /// A switch.
    Switch,
}

/// A port with its configuration.
#[derive(Debug, Clone)]
pub struct PortPlan {
    /// The other end.
    pub neighbour: Neighbour,
    /// The configuration.
    pub config: PortConfig,
}

impl PortPlan {
    /// A port with one queue: its rate, its buffer, and the ECN threshold if it marks.
    pub fn plain(
        neighbour: Neighbour,
        rate: Bandwidth,
        buffer: Bytes,
        mark: Option<Bytes>,
    ) -> Result<Self, PortsError> {
        let config = Request::plain(Some(rate), Some(buffer), mark).lower(Offer::PLAIN)?;
        Ok(Self { neighbour, config })
    }

    /// A port with the queues that a policy needs; `link` leads to the neighbour.
    pub fn new(
        neighbour: Neighbour,
        needs: &PolicyNeeds,
        link: LinkRef,
        (rate, buffer): (Bandwidth, Bytes),
    ) -> Result<Self, PortsError> {
        let config = needs.needs.of_port(Some(rate), Some(buffer)).lower(needs.offer)?;
        Ok(Self { neighbour, config: config.remarking(needs.remark(link)) })
    }
}

/// A configured port. Its queues and its program are the interface's; the release of packets ends with this.
pub struct Port {
    program: PortProgram,
    marks: bool,
    release: Option<Ebpf>,
}

impl Port {
    /// Puts the release of packets before programs that were attached since the port was configured. The release lets a
    /// packet arrive twice, and only programs after it see it once: a forwarder would take the second allocation for a
    /// replay. To be called in the switch, for the port of this name.
    pub fn release_first(&mut self, name: &str) -> Result<(), PortsError> {
        if self.release.take().is_some() {
            let (mut object, order) = (Ebpf::load(RELEASE_OBJECT)?, TcAttachOptions::TcxOrder(LinkOrder::first()));
            discard(&mut object)?.attach_with_options(name, TcAttachType::Ingress, order)?;
            self.release = Some(object);
        }
        Ok(())
    }
    /// The counters of its packets since it was configured first.
    pub fn counts(&self) -> Result<QueueCounts, PortsError> {
        Ok(self.program.counts()?.into_iter().fold(QueueCounts::default(), |sum, queue| sum + queue))
    }
    /// Whether it marks.
    pub fn marks(&self) -> bool {
        self.marks
    }
}

/// Configures ports of a switch, by the names of their interfaces. On an error all are as they were.
pub fn configure(switch: &Netns, ports: &BTreeMap<String, PortPlan>) -> Result<Vec<(String, Port)>, PortsError> {
    let desired = ports.iter().map(|(port, plan)| (port.clone(), plan.config.clone())).collect();
    switch.run(|| {
        let mut driver = TcSwitch::new(switch.name());
        apply(&mut driver, &desired)?;
        let configured = ports.iter().map(|(name, plan)| {
            let program = driver.program(name)?.ok_or(PortsError::Missing("weir_port"))?;
            let release = (plan.neighbour == Neighbour::Machine).then(|| release(name)).transpose()?;
            let marks = plan.config.queues().any(|queue| queue.mark.is_some());
            Ok((name.clone(), Port { program, marks, release }))
        });
        configured.collect()
    })?
}

/// The packets that ports of a switch have dropped since they were configured, by the names of their interfaces.
pub fn dropped<'a>(
    switch: &Netns,
    ports: impl Iterator<Item = &'a str> + Send,
) -> Result<Vec<(&'a str, u64)>, PortsError> {
    switch.run(|| {
        let mut driver = TcSwitch::new(switch.name());
        let of = |name| {
            let queues = driver.queues(name)?;
            Ok((name, queues.values().filter_map(|queue| queue.dropped).sum()))
        };
        ports.map(of).collect()
    })?
}

/// The loaded program of an object.
fn discard(object: &mut Ebpf) -> Result<&mut SchedClassifier, PortsError> {
    let program = object.program_mut(DISCARD).ok_or(PortsError::Missing(DISCARD))?;
    let program: &mut SchedClassifier = program.try_into()?;
    program.load()?;
    Ok(program)
}

/// Lets a port release the packets that arrive from its machine.
fn release(port: &str) -> Result<Ebpf, PortsError> {
    let mut object = Ebpf::load(RELEASE_OBJECT)?;
    let program = discard(&mut object)?;
    let link = TcAttachOptions::TcxOrder(LinkOrder::default());
    match program.attach_with_options(port, TcAttachType::Ingress, link) {
        Err(error) if lacks_tcx(&error) => {
            // The port's own program has added clsact.
            let filter = TcAttachOptions::Netlink(NlOptions::default());
            let link = program.attach_with_options(port, TcAttachType::Ingress, filter)?;
            // The filter goes with its port; dropping it in another namespace would remove a filter there.
            std::mem::forget(program.take_link(link)?);
        }
        attached => {
            attached?;
        }
    }
    Ok(object)
}
