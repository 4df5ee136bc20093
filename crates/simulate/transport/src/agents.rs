//! Port agents: computation in the network, without clock or socket.
//!
//! A protocol whose switches take part has an agent at each port. An agent inspects the packets that
//! pass its port, rewrites the control field of those that carry one ([`ControlField`]), takes
//! packets out, and originates messages to the ends of flows. It is a state machine ([`Agent`]);
//! the backend (the simulator) owns time and packets:
//!
//! - it calls [`Agent::on_enter`] for each packet that has room at the port, before the packet is
//!   counted and queued, and [`Agent::on_leave`] when the packet's transmission begins;
//! - it calls [`Agent::on_return`] for each packet that arrives over the opposite direction of the
//!   port's link, before that packet is forwarded: a receiver's message about data that leaves by
//!   this port passes the port there;
//! - after each call it reads [`Agent::timer`]. When that time has come, it calls
//!   [`Agent::on_timer`], then [`Agent::poll`] until that returns nothing, and sends each message
//!   from the node that owns the port. So messages leave at a timer and never within another call.
//!
//! [`Agent::watch`] states which of these calls an agent needs; other packets cost nothing. Several
//! agents of one port inspect a packet in the order of their installation, until one consumes it.
//!
//! Example: a D3 flow requests 100 Mb/s from an idle port of 1 Gb/s, which grants that and the
//! whole remaining capacity.
//!
//! ```
//! use weir_transport::agents::{Agent, ControlField, PacketKind, Passing, PortState, Verdict};
//! use weir_transport::d3::{RateHeader, Router};
//! use weir_units::{Bandwidth, SimTime};
//!
//! let mut agent = Router::new(0, Bandwidth::from_gbps(1));
//! let header = RateHeader { desired: Bandwidth::from_mbps(100), ..RateHeader::EMPTY };
//! let mut field = ControlField::from(Box::new(header));
//! let port = PortState { taken: 0, held: 0 };
//! let (kind, size, control) = (PacketKind::Data, 66, Some(&mut field));
//! let mut packet = Passing { kind, size, flow: None, credits: false, direct: true, port, control };
//! assert_eq!(agent.on_enter(SimTime::ZERO, &mut packet), Verdict::Pass);
//! let granted = field.get::<Box<RateHeader>>().expect("D3's field");
//! assert_eq!(granted.rate, Bandwidth::from_gbps(1));
//! ```

use weir_units::{Bandwidth, SimTime};

/// The kind of a packet that passes a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketKind {
    /// A segment, with or without data.
    Data,
    /// An acknowledgement.
    Acknowledgement,
    /// A message: a control field without data ([`Message`]).
    Message,
    /// A packet of a flow's handshake.
    Handshake,
    /// A packet of no flow.
    Other,
}

/// The identity of a flow, as the packets of both of its directions have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// The backend's index of the flow, which a later flow may have again.
    pub slot: u32,
    /// The sending host.
    pub from: u32,
    /// The receiving host.
    pub to: u32,
    /// The hash of the flow's addresses and ports.
    pub hash: u32,
}

/// The state of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortState {
    /// Bytes that it has taken so far: a packet that leaves is among them, one that enters is not.
    pub taken: u64,
    /// Bytes that it holds, without the packet in question: waiting frames and the unsent part of
    /// the frame on the wire.
    pub held: u64,
}

/// A packet that passes a port.
#[derive(Debug)]
pub struct Passing<'a> {
    /// Its kind.
    pub kind: PacketKind,
    /// The frame's size in bytes.
    pub size: u32,
    /// Its flow, if it belongs to one.
    pub flow: Option<FlowKey>,
    /// Whether it is a segment of a flow whose data needs credits.
    pub credits: bool,
    /// For [`Agent::on_return`]: whether the flow's data, if it goes the other way, leaves by the agent's port.
    pub direct: bool,
    /// The agent's port, which for [`Agent::on_return`] is not the port that the packet came over.
    pub port: PortState,
    /// Its control field, if it carries one.
    pub control: Option<&'a mut ControlField>,
}

impl Passing<'_> {
    /// Its control field in the layout of one protocol.
    pub fn control<L: Layout>(&mut self) -> Option<&mut L> {
        self.control.as_deref_mut().and_then(L::of_mut)
    }
}

/// An agent's decision about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The packet continues.
    Pass,
    /// The packet continues without its control field.
    PassWithout,
    /// The packet ends here. It counts as consumed, not as dropped, and its sender is not notified.
    Consume,
}

/// The calls that an agent needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Watch {
    /// Packets without a control field too.
    pub all: bool,
    /// [`Agent::on_leave`].
    pub leaving: bool,
    /// [`Agent::on_return`].
    pub returning: bool,
}

/// An end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowEnd {
    /// The sender: the message reaches [`crate::Sender::on_control`].
    Sender,
    /// The receiver: the field returns to the sender with the next acknowledgement.
    Receiver,
}

/// A message that an agent originates: a packet with a control field and without data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The flow. A message to a flow that has ended is not sent.
    pub flow: FlowKey,
    /// The end that receives it.
    pub to: FlowEnd,
    /// The frame's size in bytes.
    pub size: u32,
    /// The field.
    pub control: ControlField,
}

/// The decisions of a port agent. See the module's documentation for the order of calls.
pub trait Agent {
    /// The port is a host's interface; comes before all other calls.
    fn at_host(&mut self) {}
    /// The calls that it needs; constant.
    fn watch(&self) -> Watch;
    /// The port takes a packet.
    fn on_enter(&mut self, now: SimTime, packet: &mut Passing<'_>) -> Verdict;
    /// The transmission of a packet begins.
    fn on_leave(&mut self, _now: SimTime, _packet: &mut Passing<'_>) {}
    /// A packet has arrived over the opposite direction of the port's link.
    fn on_return(&mut self, _now: SimTime, _packet: &mut Passing<'_>) -> Verdict {
        Verdict::Pass
    }
    /// The time for [`Agent::on_timer`]; a time that has passed means now, [`SimTime::NEVER`] none.
    fn timer(&self) -> SimTime {
        SimTime::NEVER
    }
    /// The time of [`Agent::timer`] has come; the timer must be later after this call.
    fn on_timer(&mut self, _now: SimTime, _port: PortState) {}
    /// The next message to send.
    fn poll(&mut self) -> Option<Message> {
        None
    }
    /// The rate of the port's link has changed.
    fn set_rate(&mut self, _rate: Bandwidth) {}
}

/// A protocol's layout of the control field.
pub trait Layout: Into<ControlField> {
    /// The field, if it has this layout.
    fn of(field: &ControlField) -> Option<&Self>;
    /// The same for rewriting.
    fn of_mut(field: &mut ControlField) -> Option<&mut Self>;
}

macro_rules! agents {
    (
        agents { $($(#[$doc:meta])* $variant:ident: $agent:ty;)* }
        fields { $($(#[$field_doc:meta])* $field:ident: $layout:ty;)* }
    ) => {
        /// The agent of a port: one of the protocols'.
        #[derive(Debug, Clone)]
        pub enum PortAgent {
            $($(#[$doc])* $variant($agent),)*
        }

        /// A field of a packet that agents read and rewrite, in the layout of one protocol.
        /// Backends move it without reading it.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum ControlField {
            $($(#[$field_doc])* $field($layout),)*
        }

        $(
            impl From<$layout> for ControlField {
                fn from(layout: $layout) -> Self {
                    Self::$field(layout)
                }
            }

            impl Layout for $layout {
                fn of(field: &ControlField) -> Option<&Self> {
                    match field {
                        ControlField::$field(layout) => Some(layout),
                        _ => None,
                    }
                }
                fn of_mut(field: &mut ControlField) -> Option<&mut Self> {
                    match field {
                        ControlField::$field(layout) => Some(layout),
                        _ => None,
                    }
                }
            }
        )*

        /// Calls a method of the agent that it is.
        macro_rules! each {
            ($port_agent:expr, $one:ident => $call:expr) => {
                match $port_agent {
                    $(PortAgent::$variant($one) => $call,)*
                }
            };
        }
    };
}

agents! {
    agents {
        /// D3's routers.
        D3: crate::d3::Router;
        /// ExpressPass's ports.
        ExpressPass: crate::expresspass::Port;
    }
    fields {
        /// D3's. Its notes are a list as long as the path, so the field holds a pointer.
        D3: Box<crate::d3::RateHeader>;
        /// ExpressPass's.
        ExpressPass: crate::expresspass::Header;
        /// PACE's, whose agents are the backend's: they run the per-packet code.
        Credits: Box<weir_credits::Message>;
    }
}

impl ControlField {
    /// The field, if it has this layout.
    pub fn get<L: Layout>(&self) -> Option<&L> {
        L::of(self)
    }
}

impl Agent for PortAgent {
    fn at_host(&mut self) {
        each!(self, agent => agent.at_host())
    }
    fn watch(&self) -> Watch {
        each!(self, agent => agent.watch())
    }
    fn on_enter(&mut self, now: SimTime, packet: &mut Passing<'_>) -> Verdict {
        each!(self, agent => agent.on_enter(now, packet))
    }
    fn on_leave(&mut self, now: SimTime, packet: &mut Passing<'_>) {
        each!(self, agent => agent.on_leave(now, packet))
    }
    fn on_return(&mut self, now: SimTime, packet: &mut Passing<'_>) -> Verdict {
        each!(self, agent => agent.on_return(now, packet))
    }
    fn timer(&self) -> SimTime {
        each!(self, agent => agent.timer())
    }
    fn on_timer(&mut self, now: SimTime, port: PortState) {
        each!(self, agent => agent.on_timer(now, port))
    }
    fn poll(&mut self) -> Option<Message> {
        each!(self, agent => agent.poll())
    }
    fn set_rate(&mut self, rate: Bandwidth) {
        each!(self, agent => agent.set_rate(rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field is stored beside selective acknowledgements, in slots of a cache line.
    #[test]
    fn control_fields_are_small() {
        assert!(size_of::<ControlField>() <= 48, "{}", size_of::<ControlField>());
    }
}
