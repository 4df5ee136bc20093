//! Flows: a connection between two hosts and its place in the world.

use crate::ids::{Class, HostId};
use crate::timer::Timer;
use crate::transport::receiver::Receiver;
use crate::transport::sender::Sender;
use crate::transport::{TCP_OVERHEAD, TcpConfig};
use weir_units::Bytes;
use weir_units::SimTime;

/// What a flow is to do.
#[derive(Debug, Clone, Copy)]
pub struct FlowSpec {
    /// The host that sends.
    pub from: HostId,
    /// The host that receives.
    pub to: HostId,
    /// The service that its packets, both ways, belong to.
    pub class: Class,
    /// When it starts.
    pub start: SimTime,
    /// From when on it sends nothing new; [`SimTime::NEVER`] to go on.
    pub stop: SimTime,
    /// How many bytes it carries; `None` to go on until it is stopped.
    pub size: Option<u64>,
    /// What distinguishes it to ECMP (a hash of its addresses and ports).
    pub hash: u32,
    /// The parameters of its transport.
    pub tcp: TcpConfig,
}

/// A flow in a world.
#[derive(Debug)]
pub struct Flow {
    pub(crate) spec: FlowSpec,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) retransmit: Timer,
    pub(crate) delayed_ack: Timer,
    /// Bytes of its frames that have not left the sending host.
    pub(crate) in_host: u64,
    pub(crate) finished: Option<SimTime>,
    pub(crate) retransmissions: u64,
    pub(crate) timeouts: u64,
}

impl Flow {
    pub(crate) fn new(spec: FlowSpec) -> Self {
        Self {
            spec,
            sender: Sender::new(&spec.tcp, spec.size.unwrap_or(u64::MAX)),
            receiver: Receiver::default(),
            retransmit: Timer::default(),
            delayed_ack: Timer::default(),
            in_host: 0,
            finished: None,
            retransmissions: 0,
            timeouts: 0,
        }
    }

    /// What it was asked to do.
    pub fn spec(&self) -> &FlowSpec {
        &self.spec
    }
    /// The sending half.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }
    /// Bytes that the receiving application got, in order.
    pub fn delivered(&self) -> Bytes {
        Bytes::new(self.receiver.next())
    }
    /// When the last byte of a finite flow reached its receiver.
    pub fn finished(&self) -> Option<SimTime> {
        self.finished
    }
    /// How many segments were sent again.
    pub fn retransmissions(&self) -> u64 {
        self.retransmissions
    }
    /// How often its retransmission timer expired.
    pub fn timeouts(&self) -> u64 {
        self.timeouts
    }
    /// Whether nothing that is unacknowledged has left the sending host: then nothing can have been lost.
    pub(crate) fn all_in_host(&self) -> bool {
        let frame = u64::from(self.spec.tcp.mss + TCP_OVERHEAD);
        self.in_host > 0 && self.in_host.div_ceil(frame) * u64::from(self.spec.tcp.mss) >= self.sender.flight()
    }
    /// Bytes of its frames that have not left the sending host.
    pub fn in_host(&self) -> u64 {
        self.in_host
    }
}
