//! Flows: a connection between two hosts and its place in the world.

use crate::ids::{Class, HostId};
use crate::timer::Timer;
use weir_transport::d3::RateHeader;
use weir_transport::{Connection, Parameters, Receiver, Sender};
use weir_units::{Bytes, SimTime};

/// What a flow is to do.
#[derive(Debug, Clone, Copy)]
pub struct FlowSpec {
    /// The host that sends.
    pub from: HostId,
    /// The host that receives.
    pub to: HostId,
    /// The service that its packets, both ways, belong to.
    pub class: Class,
    /// The class of its packets at queues with several: 0, the most urgent, to 7.
    pub priority: u8,
    /// When it starts.
    pub start: SimTime,
    /// From when on it sends nothing new; [`SimTime::NEVER`] to go on.
    pub stop: SimTime,
    /// How many bytes it carries; `None` to go on until it is stopped.
    pub size: Option<u64>,
    /// When the last byte should be there, for transports that know deadlines.
    pub deadline: Option<SimTime>,
    /// What distinguishes it to ECMP (a hash of its addresses and ports).
    pub hash: u32,
}

/// A flow in a world. Its sender's half comes first and what its receiver's half needs last, so that a packet touches one of them.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Flow {
    pub(crate) sender: Sender,
    pub(crate) timer: Timer,
    /// Bytes of its frames that have not left the sending host.
    pub(crate) in_host: u64,
    pub(crate) retransmissions: u32,
    pub(crate) timeouts: u32,
    pub(crate) spec: FlowSpec,
    /// Its packets that exist, acknowledgements included.
    pub(crate) packets: u32,
    pub(crate) life: Life,
    pub(crate) receiver: Receiver,
    pub(crate) delayed_ack: Timer,
    /// What the network granted, for the next acknowledgement.
    pub(crate) grant: Option<Box<RateHeader>>,
    /// Payload bytes that arrived without being acknowledged (UDP).
    pub(crate) unacknowledged: u64,
    /// When the last byte arrived.
    pub(crate) finished: Option<SimTime>,
}

/// How far a flow has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// Something is still to be delivered.
    Running,
    /// The world has told that everything was delivered, or that nothing more will be.
    Over,
    /// Nobody will ask for it again: its place is free once its sender is done and its packets are gone.
    Released,
    /// Its place is free.
    Gone,
}

impl Flow {
    pub(crate) fn new(spec: FlowSpec, parameters: &Parameters, connection: &Connection) -> Self {
        Self {
            sender: Sender::new(parameters, connection),
            timer: Timer::default(),
            spec,
            in_host: 0,
            packets: 0,
            retransmissions: 0,
            timeouts: 0,
            life: Life::Running,
            receiver: Receiver::new(parameters),
            delayed_ack: Timer::default(),
            grant: None,
            unacknowledged: 0,
            finished: None,
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
    /// Bytes that the receiving application got: in order, but for datagrams.
    pub fn delivered(&self) -> Bytes {
        Bytes::new(self.receiver.next().max(self.unacknowledged))
    }
    /// When the last byte of a finite flow reached its receiver.
    pub fn finished(&self) -> Option<SimTime> {
        self.finished
    }
    /// How many segments were sent again.
    pub fn retransmissions(&self) -> u32 {
        self.retransmissions
    }
    /// How often its retransmission timer expired.
    pub fn timeouts(&self) -> u32 {
        self.timeouts
    }
    /// Bytes of its frames that have not left the sending host.
    pub fn in_host(&self) -> u64 {
        self.in_host
    }

    /// Whether nothing that is unacknowledged has left the sending host: then nothing can have been lost.
    pub(crate) fn all_in_host(&self, payload: u32, headers: u32) -> bool {
        let frame = u64::from(payload + headers);
        self.in_host > 0 && self.in_host.div_ceil(frame) * u64::from(payload) >= self.sender.flight()
    }

    /// Whether its place may be used again.
    pub(crate) fn is_gone(&self) -> bool {
        self.life == Life::Released && self.packets == 0 && self.sender.is_done()
    }
}
