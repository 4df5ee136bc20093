//! The list of transports, and the types made from it.
//!
//! A transport is a module with `Parameters`, `PARAMETERS` (its keys in a scenario), `read`, and a
//! `Sender` that is a [`Machine`]. One line in the list below adds it to [`Parameters`], [`Sender`]
//! and the scenario language. Senders are called per packet, so they are variants of an enum and
//! not behind pointers.

use crate::agents::{ControlField, PortAgent};
use crate::api::{Ack, Connection, Segment, Timeout};
use crate::receiver::{Policy, Receiver};
use weir_document::shape::Record;
use weir_document::{Node, Problems};
use weir_units::{Bandwidth, SimTime};

/// The sending half of a transport; see [`Sender`]'s methods.
pub(crate) trait Machine {
    /// Its parameters in a scenario.
    type Parameters;
    /// Whether the application may add data to send, as to a connection that stays open.
    const STREAM: bool = false;
    /// Whether the ports take part, by agents.
    const AGENTS: bool = false;
    /// Whether its data needs credits of the ports ([`crate::agents::Passing::credits`]).
    const CREDITS: bool = false;
    /// The shortest retransmission timeout, unless nothing is repeated.
    fn shortest_timeout(_parameters: &Self::Parameters) -> Option<SimTime> {
        None
    }
    /// The most unacknowledged bytes that the receiver takes, for transports with such a window.
    fn receive_window(_parameters: &Self::Parameters) -> Option<u64> {
        None
    }
    /// The time after which an unanswered handshake is repeated, and the longest such time; `None` without one.
    fn handshake(_parameters: &Self::Parameters) -> Option<[SimTime; 2]> {
        None
    }
    /// Only transports with agents make them; those of [`Self::CREDITS`] are the backend's.
    fn agent(_parameters: &Self::Parameters, _port: u32, _rate: Bandwidth) -> PortAgent {
        unreachable!("this transport has no port agents")
    }
    /// The parameters of the agents, each key with its value in the notation of the file.
    fn agent_parameters(_parameters: &Self::Parameters) -> Vec<(&'static str, String)> {
        Vec::new()
    }
    fn new(parameters: &Self::Parameters, connection: &Connection) -> Self;
    /// Only flows with a handshake are opened by one.
    fn on_open(&mut self, _now: SimTime, _round_trip: SimTime) {}
    fn poll(&mut self, now: SimTime) -> Option<Segment>;
    fn on_ack(&mut self, now: SimTime, ack: &Ack<'_>);
    fn timer(&self) -> SimTime;
    fn on_timer(&mut self, now: SimTime, all_in_host: bool) -> Timeout;
    /// Only streams are extended.
    fn write(&mut self, _now: SimTime, _bytes: u64) {
        unreachable!("this transport's flows carry what they were made for")
    }
    fn close(&mut self);
    fn is_done(&self) -> bool;
    fn acked(&self) -> u64;
    fn highest(&self) -> u64;
    fn flight(&self) -> u64;
    /// Two frames: one that is being sent, and the one behind it.
    #[inline]
    fn host_limit(&self, frame: u32) -> u64 {
        2 * u64::from(frame)
    }
    fn window(&self) -> u64;
    /// Only transports whose segments have `control` make one.
    fn control(&mut self, _now: SimTime) -> ControlField {
        unreachable!("this transport sends no control fields")
    }
    fn on_control(&mut self, _now: SimTime, _field: &ControlField) {}
}

macro_rules! registry {
    ($($(#[$doc:meta])* $variant:ident: $module:ident = $word:literal,)*) => {
        /// A transport in a scenario: its protocol, and the protocol's parameters.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Parameters {
            $($(#[$doc])* $variant(crate::$module::Parameters),)*
        }

        /// The protocols' records, in the order of the list; `id` is the protocol's keyword.
        static RECORDS: &[&Record] = &[$(&crate::$module::PARAMETERS),*];

        impl Parameters {
            /// The protocol's keyword.
            pub fn protocol(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $word,)*
                }
            }

            /// Whether its flows can stay open and carry one message after another
            /// ([`Sender::write`]).
            pub fn is_stream(&self) -> bool {
                match self {
                    $(Self::$variant(_) => <crate::$module::Sender as Machine>::STREAM,)*
                }
            }

            /// The shortest retransmission timeout of its flows; `None` for a transport that
            /// repairs nothing.
            pub fn shortest_timeout(&self) -> Option<SimTime> {
                match self {
                    $(Self::$variant(parameters) => {
                        <crate::$module::Sender as Machine>::shortest_timeout(parameters)
                    })*
                }
            }

            /// The most unacknowledged bytes of a flow that its receiver takes, at any speed and distance; `None` for a
            /// transport without such a window.
            pub fn receive_window(&self) -> Option<u64> {
                match self {
                    $(Self::$variant(parameters) => {
                        <crate::$module::Sender as Machine>::receive_window(parameters)
                    })*
                }
            }

            /// The time after which the first packet of an unanswered handshake is repeated, doubled with each
            /// repetition up to the second time; `None` if flows begin with data.
            pub fn handshake(&self) -> Option<[SimTime; 2]> {
                match self {
                    $(Self::$variant(parameters) => <crate::$module::Sender as Machine>::handshake(parameters),)*
                }
            }

            /// Whether every port needs an agent ([`Parameters::agent`]).
            #[inline]
            pub fn has_agents(&self) -> bool {
                match self {
                    $(Self::$variant(_) => <crate::$module::Sender as Machine>::AGENTS,)*
                }
            }

            /// The agent of a port whose link has this rate. No other port of the network has the
            /// same number.
            ///
            /// # Panics
            /// If the transport has no agents ([`Parameters::has_agents`]), or if its data needs credits: the backend
            /// has the agents of these.
            pub fn agent(&self, port: u32, rate: Bandwidth) -> PortAgent {
                match self {
                    $(Self::$variant(parameters) => {
                        <crate::$module::Sender as Machine>::agent(parameters, port, rate)
                    })*
                }
            }

            /// The parameters of its port agents, which all flows of a network share: each key with
            /// its value in the notation of the file.
            pub fn agent_parameters(&self) -> Vec<(&'static str, String)> {
                match self {
                    $(Self::$variant(parameters) => {
                        <crate::$module::Sender as Machine>::agent_parameters(parameters)
                    })*
                }
            }

            pub(crate) fn policy(&self) -> Policy {
                match self {
                    $(Self::$variant(parameters) => parameters.policy(),)*
                }
            }
        }

        /// Reads the parameters of a protocol from a mapping; all are the default without one.
        /// `None` if something was reported, or if there is no such protocol.
        pub fn read(protocol: &str, node: Option<&Node>, problems: &mut Problems) -> Option<Parameters> {
            match (protocol, node) {
                $(
                    ($word, None) => Some(Parameters::$variant(Default::default())),
                    ($word, Some(node)) => crate::$module::read(node, problems).map(Parameters::$variant),
                )*
                _ => None,
            }
        }

        /// The sending half of a flow. See [the crate](crate) for the order of calls.
        #[derive(Debug, Clone)]
        pub struct Sender(Variant);

        #[derive(Debug, Clone)]
        enum Variant {
            $($variant(crate::$module::Sender),)*
        }

        impl Sender {
            /// Whether its data needs credits of the ports.
            #[inline]
            pub fn needs_credits(&self) -> bool {
                match &self.0 {
                    $(Variant::$variant(_) => <crate::$module::Sender as Machine>::CREDITS,)*
                }
            }
        }

        /// Calls a method of the machine that it is.
        macro_rules! each {
            ($sender:expr, $machine:ident => $call:expr) => {
                match $sender {
                    $(Variant::$variant($machine) => $call,)*
                }
            };
        }

        impl Sender {
            /// A sender at the start of its flow.
            pub fn new(parameters: &Parameters, connection: &Connection) -> Self {
                match parameters {
                    $(Parameters::$variant(parameters) => {
                        Self(Variant::$variant(Machine::new(parameters, connection)))
                    })*
                }
            }
        }
    };
}

registry! {
    /// TCP NewReno with selective acknowledgements.
    NewReno: newreno = "newreno",
    /// TCP CUBIC.
    Cubic: cubic = "cubic",
    /// Data Center TCP.
    Dctcp: dctcp = "dctcp",
    /// D3.
    D3: d3 = "d3",
    /// ExpressPass.
    ExpressPass: expresspass = "expresspass",
    /// PACE.
    Pace: pace = "pace",
    /// pFabric.
    PFabric: pfabric = "pfabric",
    /// UDP.
    Udp: udp = "udp",
}

impl Default for Parameters {
    /// NewReno.
    fn default() -> Self {
        Self::NewReno(Default::default())
    }
}

/// The protocols' records, in the order of presentation; each `id` is the protocol's keyword.
pub fn variants() -> &'static [&'static Record] {
    RECORDS
}

impl Sender {
    /// The handshake of [`Parameters::handshake`] is complete and took `round_trip`; comes before the first
    /// [`Self::poll`].
    pub fn on_open(&mut self, now: SimTime, round_trip: SimTime) {
        each!(&mut self.0, machine => machine.on_open(now, round_trip))
    }
    /// The next packet, if one may go now.
    #[inline]
    pub fn poll(&mut self, now: SimTime) -> Option<Segment> {
        each!(&mut self.0, machine => machine.poll(now))
    }
    /// An acknowledgement arrived.
    #[inline]
    pub fn on_ack(&mut self, now: SimTime, ack: &Ack<'_>) {
        each!(&mut self.0, machine => machine.on_ack(now, ack))
    }
    /// The time for [`Self::on_timer`]: a retransmission or the next packet of a paced flow is due.
    /// [`SimTime::NEVER`] if neither is.
    #[inline]
    pub fn timer(&self) -> SimTime {
        each!(&self.0, machine => machine.timer())
    }
    /// The time of [`Self::timer`] has come; a call before it does nothing. `all_in_host` means
    /// that no unacknowledged segment has left the sending host: TCP then waits once more instead
    /// of assuming a loss, as Linux does (`skb_still_in_host_queue`).
    pub fn on_timer(&mut self, now: SimTime, all_in_host: bool) -> Timeout {
        each!(&mut self.0, machine => machine.on_timer(now, all_in_host))
    }
    /// The application adds `bytes` after all earlier ones. If the connection was idle, its window
    /// may shrink first.
    ///
    /// # Panics
    /// If the transport is no stream ([`Parameters::is_stream`]).
    pub fn write(&mut self, now: SimTime, bytes: u64) {
        each!(&mut self.0, machine => machine.write(now, bytes))
    }
    /// The application has no more data than was sent.
    pub fn close(&mut self) {
        each!(&mut self.0, machine => machine.close())
    }
    /// Whether all data of the application is acknowledged, or sent for transports without
    /// acknowledgements.
    #[inline]
    pub fn is_done(&self) -> bool {
        each!(&self.0, machine => machine.is_done())
    }
    /// Everything before this byte is acknowledged, or sent for transports without
    /// acknowledgements.
    #[inline]
    pub fn acked(&self) -> u64 {
        each!(&self.0, machine => machine.acked())
    }
    /// The end of what has been sent.
    #[inline]
    pub fn highest(&self) -> u64 {
        each!(&self.0, machine => machine.highest())
    }
    /// Bytes that have been sent and not acknowledged, nor considered lost by a timeout.
    #[inline]
    pub fn flight(&self) -> u64 {
        each!(&self.0, machine => machine.flight())
    }
    /// The most bytes of this flow that its host may hold, in frames of at most `frame` bytes; a
    /// backend stops polling while it holds more.
    #[inline]
    pub fn host_limit(&self, frame: u32) -> u64 {
        each!(&self.0, machine => machine.host_limit(frame))
    }
    /// The congestion window in bytes; for a paced flow, the bytes that it sends in a round trip,
    /// or 0 if unknown.
    #[inline]
    pub fn window(&self) -> u64 {
        each!(&self.0, machine => machine.window())
    }
    /// The control field of the segment just polled; call once for each segment that carries one.
    ///
    /// # Panics
    /// If the transport sends no control fields.
    pub fn control(&mut self, now: SimTime) -> ControlField {
        each!(&mut self.0, machine => machine.control(now))
    }
    /// A control field arrived: with an acknowledgement, whose [`Self::on_ack`] follows, or in a
    /// message of a port agent. Fields of other protocols are ignored.
    pub fn on_control(&mut self, now: SimTime, field: &ControlField) {
        each!(&mut self.0, machine => machine.on_control(now, field))
    }
}

impl Receiver {
    /// A receiver at the start of its flow.
    pub fn new(parameters: &Parameters) -> Self {
        Self::with_policy(parameters.policy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_document::Source;

    #[test]
    fn streams_are_those_of_tcp() {
        let names = variants().iter().map(|variant| variant.id);
        let streams: Vec<_> = names
            .filter(|name| {
                read(name, None, &mut Problems::new(&Source::from_text("", ""))).is_some_and(|p| p.is_stream())
            })
            .collect();
        assert_eq!(streams, ["newreno", "cubic", "dctcp", "pace"]);
    }

    #[test]
    fn transports_that_repair_nothing_have_no_timeout() {
        let shortest = |name: &str| {
            let parameters = read(name, None, &mut Problems::new(&Source::from_text("", ""))).expect("a protocol");
            parameters.shortest_timeout().map(|time| time.duration().to_string())
        };
        let names: Vec<_> = variants().iter().map(|variant| variant.id).collect();
        assert_eq!(names, ["newreno", "cubic", "dctcp", "d3", "expresspass", "pace", "pfabric", "udp"]);
        let times: Vec<_> = names.iter().map(|name| shortest(name).unwrap_or_default()).collect();
        assert_eq!(times, ["200 ms", "200 ms", "200 ms", "10 ms", "10 ms", "10 ms", "45 µs", ""]);
    }

    #[test]
    fn transports_of_tcp_have_a_receive_window() {
        let window = |name: &str| {
            let parameters = read(name, None, &mut Problems::new(&Source::from_text("", ""))).expect("a protocol");
            parameters.receive_window()
        };
        let tcp = ["newreno", "cubic", "dctcp"];
        assert_eq!(tcp.map(window), [Some(4_000_000); 3]);
        let names = variants().iter().map(|variant| variant.id);
        assert!(names.filter(|name| !tcp.contains(name)).all(|name| window(name).is_none()));
    }

    /// A run has one of each per flow, and touches them per packet: four cache lines and one.
    #[test]
    fn senders_and_receivers_are_small() {
        assert!(size_of::<Sender>() <= 256, "{}", size_of::<Sender>());
        assert!(size_of::<Receiver>() <= 64, "{}", size_of::<Receiver>());
    }
}
