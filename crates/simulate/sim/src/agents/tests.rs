//! Agents of tests on a line of two hosts and two switches: `a`, left, right, `b`.

use super::AnyAgent;
use super::Moment::{self, Enters, Leaves, Returns};
use super::scripted::{Passage, SIZE, Scripted};
use crate::checkers::{self, Checkers};
use crate::engine::Stop;
use crate::flow::FlowSpec;
use crate::ids::{AgentId, FlowId, HostId, PortId, ServiceIndex};
use crate::world::{Counters, World};
use weir_network::graph::{Discipline, LinkSpec, Packets, QueueSpec};
use weir_transport::agents::{FlowEnd, PacketKind, Watch};
use weir_transport::{Parameters, d3, newreno, pace, udp};
use weir_units::{Bandwidth, Bytes, Duration, SimTime};

const US: fn(u64) -> SimTime = SimTime::from_micros;
const ALL: Watch = Watch { all: true, leaving: false, returning: false };
const FIELDS: Watch = Watch { all: false, leaving: false, returning: false };

/// The line: its hosts, and the ports from the left to the right and back.
struct Line {
    world: World<Checkers>,
    a: HostId,
    b: HostId,
    there: PortId,
}

/// A line with edges of 1 Gb/s and an inner link of `mbps`, all of 10 µs.
fn line(mbps: u64) -> Line {
    let link = |rate| {
        let queue = QueueSpec { discipline: Discipline::Fifo, buffer: Bytes::new(1_000_000), mark: None };
        LinkSpec { rate, delay: Duration::from_micros(10), queue }
    };
    let (edge, inner) = (link(Bandwidth::from_gbps(1)), link(Bandwidth::from_mbps(mbps)));
    let mut world = World::new(1, Packets { payload: 1448, headers: 66 }, Checkers::default());
    let (left, right) = (world.add_switch(), world.add_switch());
    let (a, b) = (world.add_host(left, edge, edge), world.add_host(right, edge, edge));
    let (there, _) = world.connect(left, right, inner, inner);
    world.compute_routes();
    Line { world, a, b, there }
}

impl Line {
    fn flow(&mut self, size: u64, transport: &Parameters) -> FlowId {
        let spec = FlowSpec {
            from: self.a,
            to: self.b,
            service: ServiceIndex(0),
            priority: 0,
            start: SimTime::ZERO,
            stop: SimTime::NEVER,
            size: Some(size),
            deadline: None,
            hash: 7,
        };
        self.world.add_flow(spec, transport)
    }

    fn install(&mut self, port: PortId, agent: Scripted) -> AgentId {
        let id = AgentId(self.world.agents.installed.len() as u32);
        self.world.install(port, AnyAgent::Scripted(agent));
        id
    }

    /// Runs to `until` and checks. Returns the flows that are over, which keep their slots.
    fn run(&mut self, until: SimTime) -> Vec<FlowId> {
        let mut over = Vec::new();
        while self.world.run_until(until) != Stop::Limit {
            over.extend(std::iter::from_fn(|| self.world.next_over()));
        }
        checkers::check(&self.world);
        over
    }

    fn agent(&self, id: AgentId) -> &Scripted {
        let AnyAgent::Scripted(agent) = &self.world.agents.installed[id.index()].agent else { panic!("of a test") };
        agent
    }

    fn times(&self, id: AgentId, moment: Moment, kind: PacketKind) -> Vec<SimTime> {
        let is = |passage: &&Passage| passage.moment == moment && passage.kind == kind;
        self.agent(id).passages.iter().filter(is).map(|passage| passage.at).collect()
    }
}

/// A burst of datagrams at the host's link rate.
fn burst() -> Parameters {
    Parameters::Udp(udp::Parameters::default())
}

/// An agent of the inner port sends a message to the sender every 100 µs, and one of the port down
/// to the sender's host consumes them: they leave at the ticks, on the node of the first agent.
#[test]
fn messages_leave_at_the_timer_and_are_consumed_on_their_way() {
    let mut line = line(1000);
    let first = line.install(line.there, Scripted::sending(FlowEnd::Sender, US(100)));
    let down = line.world.down_port(line.a);
    let second = line.install(down, Scripted::consuming(PacketKind::Message, 1, FIELDS));
    line.flow(10_000_000, &Parameters::default());
    line.run(US(1050));
    assert_eq!(
        line.times(second, Enters, PacketKind::Message),
        (1..=10).map(|tick| US(100 * tick)).collect::<Vec<_>>()
    );
    let passages = &line.agent(second).passages;
    // Acknowledgements without a field do not reach an agent that watches fields.
    assert_eq!(
        passages.iter().map(|passage| (passage.size, passage.number)).collect::<Vec<_>>(),
        (1..=10).map(|number| (SIZE, Some(number))).collect::<Vec<_>>()
    );
    assert!(line.agent(first).passages.len() > 50);
    let Counters { originated, consumed, .. } = line.world.counters();
    assert_eq!((originated, consumed), (10, 10));
}

/// A message to the receiver crosses the network, and its field returns with an acknowledgement.
#[test]
fn the_field_of_a_message_returns_with_an_acknowledgement() {
    let mut line = line(1000);
    line.install(line.there, Scripted::sending(FlowEnd::Receiver, US(300)));
    let down = line.world.down_port(line.a);
    let watching = line.install(down, Scripted::watching(FIELDS));
    // No acknowledgement is delayed: the last field returns before the flow is over.
    let mut transport = newreno::Parameters::default();
    transport.tcp.delayed_ack = 1;
    line.flow(1_000_000, &Parameters::NewReno(transport));
    for over in line.run(SimTime::from_millis(100)) {
        line.world.release(over);
    }
    let before = line.world.counters().originated;
    line.run(SimTime::from_millis(200));
    let returned: Vec<_> = line.agent(watching).passages.iter().map(|passage| (passage.kind, passage.number)).collect();
    assert!(returned.len() > 20, "{returned:?}");
    let expected = (1..).map(|number| (PacketKind::Acknowledgement, Some(number)));
    assert_eq!(returned, expected.take(returned.len()).collect::<Vec<_>>());
    // The flow is gone, with the fields that it kept, and gets no more messages.
    assert_eq!((line.world.flows().count(), line.world.extensions.count()), (0, 0));
    assert_eq!(line.world.counters().originated, before);
}

/// A message to the sending host of the agent's own port needs no network.
#[test]
fn an_interface_sends_messages_to_its_own_host_and_to_others() {
    for (to, hops) in [(FlowEnd::Sender, 0), (FlowEnd::Receiver, 3)] {
        let mut line = line(1000);
        let interface = line.world.interface(line.a);
        line.install(interface, Scripted::sending(to, US(500)));
        line.flow(1448, &burst());
        let quiet = {
            let mut line = self::line(1000);
            line.flow(1448, &burst());
            line.run(US(900));
            line.world.counters()
        };
        // The flow is over before, and keeps its slot.
        line.run(US(900));
        let counters = line.world.counters();
        assert_eq!((counters.originated, counters.sent), (1, quiet.sent + 1));
        assert_eq!((counters.packet_hops, counters.delivered), (quiet.packet_hops + hops, quiet.delivered + 1));
    }
}

/// A flow whose segments are consumed on their way repeats them.
#[test]
fn consumed_segments_are_lost_to_their_flow() {
    for at_the_host in [true, false] {
        let mut line = line(1000);
        let port = if at_the_host { line.world.interface(line.a) } else { line.there };
        line.install(port, Scripted::consuming(PacketKind::Data, 5, ALL));
        let id = line.flow(100_000, &Parameters::default());
        line.run(SimTime::from_secs(5));
        let flow = line.world.flow(id);
        assert_eq!(flow.delivered().get(), 100_000);
        assert!(flow.retransmissions() > 5 && flow.in_host() == 0, "{}", flow.retransmissions());
        let Counters { consumed, dropped, .. } = line.world.counters();
        assert!(consumed > 10 && dropped == 0, "{consumed} {dropped}");
    }
}

/// A limiter releases packets to an interface whose agent consumes all of them: the flow sends until
/// its end.
#[test]
fn a_consumed_segment_makes_room_in_its_host() {
    let mut line = line(1000);
    line.world.set_short_host_queues();
    line.world.set_limit(line.a, ServiceIndex(0), Bandwidth::from_mbps(100));
    let interface = line.world.interface(line.a);
    line.install(interface, Scripted::consuming(PacketKind::Data, 1, ALL));
    line.flow(20 * 1448, &burst());
    line.run(SimTime::from_millis(100));
    let Counters { consumed, delivered, .. } = line.world.counters();
    assert_eq!((consumed, delivered, line.world.packets()), (20, 0, 0));
}

/// Departures from a slow first-in first-out port are reported when the transmission begins, and the
/// flow takes the same time as without agents.
#[test]
fn agents_inspect_departures_at_their_start() {
    let finished = |agent: Option<Scripted>| {
        let mut line = line(100);
        agent.map(|agent| line.install(line.there, agent));
        let flow = line.flow(10 * 1448, &burst());
        line.run(SimTime::from_millis(5));
        (line.world.flow(flow).finished().expect("no loss"), line)
    };
    let (with, line) = finished(Some(Scripted::watching(Watch { leaving: true, ..ALL })));
    assert_eq!(finished(None).0, with);
    let id = AgentId(0);
    let [entered, left] = [Enters, Leaves].map(|moment| line.times(id, moment, PacketKind::Data));
    let passages = &line.agent(id).passages;
    assert_eq!((entered.len(), left.len(), entered[0]), (10, 10, left[0]));
    // 1514 B at 100 Mb/s.
    let gaps: Vec<_> = left.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [SimTime::from_nanos(121_120); 9]);
    // The port has taken a packet that leaves, and not one that enters; it holds neither.
    let states: Vec<_> =
        passages[..3].iter().map(|passage| (passage.moment, passage.port.taken, passage.port.held)).collect();
    assert_eq!(states[..2], [(Enters, 0, 0), (Leaves, 1514, 0)]);
    assert_eq!((states[2].0, states[2].1), (Enters, 1514));
}

/// The agent of the port towards the receiver inspects the acknowledgements when they come back.
#[test]
fn agents_inspect_the_opposite_direction_on_arrival() {
    let mut line = line(1000);
    let watching = line.install(line.there, Scripted::watching(Watch { returning: true, ..ALL }));
    let down = line.world.down_port(line.a);
    let below = line.install(down, Scripted::watching(ALL));
    line.flow(100_000, &Parameters::default());
    line.run(SimTime::from_secs(1));
    let returned = line.times(watching, Returns, PacketKind::Acknowledgement);
    // The switch forwards them at once.
    assert!(returned.len() >= 35 && returned == line.times(below, Enters, PacketKind::Acknowledgement));

    let mut line = self::line(1000);
    line.install(line.there, Scripted::consuming(PacketKind::Acknowledgement, 1, Watch { returning: true, ..ALL }));
    let id = line.flow(100_000, &Parameters::default());
    line.run(SimTime::from_millis(150));
    assert_eq!((line.world.flow(id).sender().acked(), line.world.counters().consumed > 0), (0, true));
}

/// Agents that only watch change nothing, whatever the queues of their ports are.
#[test]
fn watching_changes_nothing() {
    let run = |watched: bool| {
        let mut line = line(500);
        for port in (0..line.world.ports().len() as u32).map(PortId) {
            for _ in 0..if watched { 2 } else { 0 } {
                line.install(port, Scripted::watching(Watch { returning: true, ..ALL }));
            }
        }
        let ids = [Parameters::default(), Parameters::D3(d3::Parameters::default()), burst()]
            .map(|transport| line.flow(300_000, &transport));
        line.run(SimTime::from_millis(2));
        line.world.set_rate(line.there, Bandwidth::from_mbps(200));
        line.world.take_down(line.there);
        line.world.compute_routes();
        line.run(SimTime::from_millis(4));
        line.world.bring_up(line.there);
        line.world.compute_routes();
        line.run(SimTime::from_secs(3));
        let rates = if watched { line.agent(AgentId(2 * line.there.0)).rates.clone() } else { Vec::new() };
        (ids.map(|id| line.world.flow(id).finished()), line.world.counters(), rates)
    };
    let (finished, counters, rates) = run(true);
    assert_eq!(run(false), (finished, counters, Vec::new()));
    assert_eq!(rates, [Bandwidth::from_mbps(200)]);
    assert!(finished[0].is_some() && finished[1].is_some(), "{finished:?}");
}

/// A port that writes a smaller rate behind D3's grants limits the flow.
#[test]
fn an_agent_rewrites_the_fields_that_pass() {
    let mut line = line(1000);
    let transport = Parameters::D3(d3::Parameters::default());
    let id = line.flow(100_000_000, &transport);
    let agent = Scripted { writes: Some(Bandwidth::from_mbps(50)), ..Scripted::watching(FIELDS) };
    let down = line.world.down_port(line.b);
    line.install(down, agent);
    line.run(SimTime::from_millis(200));
    let mbps = line.world.flow(id).delivered().get() as f64 * 8.0 / 0.2 / 1e6;
    assert!((45.0..50.0).contains(&mbps), "{mbps}");
}

/// Another agent at each port takes the short way past forwarders away: packets and grants are the same.
#[test]
fn the_short_way_past_forwarders_changes_nothing() {
    let outcome = |beside: bool| {
        let mut line = line(300);
        let pace = Parameters::Pace(pace::Parameters::default());
        let flows = [400_000, 100_000].map(|size| line.flow(size, &pace));
        line.flow(200_000, &Parameters::default());
        if beside {
            for port in (0..line.world.ports().len() as u32).map(PortId) {
                line.install(port, Scripted::watching(FIELDS));
            }
        }
        assert_eq!(line.world.agents.shortcuts.forwarder(line.there).is_some(), !beside);
        let over = line.run(US(50_000));
        let ends = flows.map(|flow| line.world.flow(flow).finished());
        (over, ends, format!("{:?}", line.world.counters()), line.world.credit_counters())
    };
    let short = outcome(false);
    assert_eq!(short.0.len(), 3);
    assert!(short.3["credits_arrived"] > 500_000, "{:?}", short.3);
    assert_eq!(short, outcome(true));
}
