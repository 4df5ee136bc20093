/*
 * The flows of `make crosscheck` through ns-3: 144 hosts on 9 leaves and 4 spines, DCTCP.
 *
 * Standard input has a flow in each line, `start_ns from to bytes spine_there spine_back`; standard output has its
 * completion time in nanoseconds in the same order, from the call of connect() to the last byte at the receiver.
 *
 * What ns-3 is given, so that both simulators have one network:
 * - queues: first in, first out in bytes, marked above a threshold, as a queue disc above a device queue of one packet;
 *   the disc counts the packet below it and the rest of the one on the wire, and drops only what exceeds the buffer;
 * - routes: a leaf chooses the spine that the flow's line names, for each direction;
 * - TCP: DCTCP with an acknowledgement for every packet, without time stamps, a least timeout of 10 ms.
 */
#include <cstdint>
#include <iostream>
#include <map>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace {

constexpr uint32_t LEAVES = 9, HOSTS_OF_LEAF = 16, SPINES = 4, HOSTS = LEAVES * HOSTS_OF_LEAF;
/* PPP (2), IPv4 (20) and TCP (20) around 1460 bytes, and 65 of these frames. */
constexpr uint32_t PPP = 2, FRAME = 1502, MARK = 65 * FRAME;
/* No port drops: a window in flight of each of 144 hosts fits. */
constexpr uint32_t BUFFER = 1u << 30;
constexpr uint16_t FIRST_PORT = 10000;

struct Line {
	uint64_t start_ns;
	uint32_t from, to;
	uint64_t bytes;
	uint32_t spine_there, spine_back;
};

std::vector<Line> lines;
std::vector<uint64_t> received;
std::vector<int64_t> finished;

/* First in, first out, marked where it holds more than a threshold. */
class MarkingFifo : public QueueDisc {
public:
	static TypeId GetTypeId()
	{
		static TypeId id =
			TypeId("weir::MarkingFifo").SetParent<QueueDisc>().AddConstructor<MarkingFifo>();
		return id;
	}

	MarkingFifo() : QueueDisc(QueueDiscSizePolicy::NO_LIMITS)
	{
	}

	void SetDevice(Ptr<PointToPointNetDevice> device, DataRate rate)
	{
		m_below = device->GetQueue();
		m_rate = rate;
		device->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&MarkingFifo::OnTransmission, this));
	}

private:
	bool DoEnqueue(Ptr<QueueDiscItem> item) override
	{
		/* The disc's packets have no link header yet. */
		uint32_t held = GetNBytes() + PPP * GetNPackets() + m_below->GetNBytes() + Unsent();
		if (held + item->GetSize() > BUFFER) {
			DropBeforeEnqueue(item, "full");
			return false;
		}
		if (held > MARK)
			Mark(item, "threshold");
		return GetInternalQueue(0)->Enqueue(item);
	}
	Ptr<QueueDiscItem> DoDequeue() override
	{
		return GetInternalQueue(0)->Dequeue();
	}
	Ptr<const QueueDiscItem> DoPeek() override
	{
		return GetInternalQueue(0)->Peek();
	}
	bool CheckConfig() override
	{
		if (GetNInternalQueues() == 0)
			AddInternalQueue(CreateObjectWithAttributes<DropTailQueue<QueueDiscItem>>(
				"MaxSize", QueueSizeValue(QueueSize("1000000p"))));
		return true;
	}
	void InitializeParams() override
	{
	}

	void OnTransmission(Ptr<const Packet> packet)
	{
		m_end = Simulator::Now() + m_rate.CalculateBytesTxTime(packet->GetSize());
	}
	/* Bytes of the frame on the wire that have not been sent. */
	uint32_t Unsent() const
	{
		Time left = m_end - Simulator::Now();
		return left.IsPositive() ? left.GetSeconds() * m_rate.GetBitRate() / 8 : 0;
	}

	Ptr<Queue<Packet>> m_below;
	DataRate m_rate;
	Time m_end;
};

/* A leaf's choice of spines by flow; its own hosts have static routes. */
class SpineChoice : public Ipv4RoutingProtocol {
public:
	SpineChoice(uint32_t leaf) : m_leaf(leaf)
	{
	}

	/* The interface and the address of a spine. */
	void AddSpine(uint32_t interface, Ipv4Address address)
	{
		m_spines.emplace_back(interface, address);
	}

	Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header &, Ptr<NetDevice>,
				   Socket::SocketErrno &error) override
	{
		error = Socket::ERROR_NOROUTETOHOST;
		return nullptr;
	}

	bool RouteInput(Ptr<const Packet> packet, const Ipv4Header &header, Ptr<const NetDevice>,
			UnicastForwardCallback forward, MulticastForwardCallback, LocalDeliverCallback,
			ErrorCallback) override
	{
		uint32_t leaf = (header.GetDestination().Get() >> 16) & 0xff;
		if (leaf == m_leaf)
			return false;
		TcpHeader tcp;
		packet->PeekHeader(tcp);
		bool there = tcp.GetDestinationPort() >= FIRST_PORT && tcp.GetSourcePort() < FIRST_PORT;
		const Line &line = lines[(there ? tcp.GetDestinationPort() : tcp.GetSourcePort()) - FIRST_PORT];
		auto [interface, address] = m_spines[there ? line.spine_there : line.spine_back];
		Ptr<Ipv4Route> route = Create<Ipv4Route>();
		route->SetDestination(header.GetDestination());
		route->SetSource(header.GetSource());
		route->SetGateway(address);
		route->SetOutputDevice(m_ipv4->GetNetDevice(interface));
		forward(route, packet, header);
		return true;
	}

	void NotifyInterfaceUp(uint32_t) override
	{
	}
	void NotifyInterfaceDown(uint32_t) override
	{
	}
	void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override
	{
	}
	void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override
	{
	}
	void SetIpv4(Ptr<Ipv4> ipv4) override
	{
		m_ipv4 = ipv4;
	}
	void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override
	{
	}

private:
	uint32_t m_leaf;
	std::vector<std::pair<uint32_t, Ipv4Address>> m_spines;
	Ptr<Ipv4> m_ipv4;
};

/* Marks at the sending end of a link. */
void queue_at(Ptr<NetDevice> device, const char *rate)
{
	Ptr<TrafficControlLayer> layer = device->GetNode()->GetObject<TrafficControlLayer>();
	Ptr<MarkingFifo> disc = CreateObject<MarkingFifo>();
	disc->SetDevice(DynamicCast<PointToPointNetDevice>(device), DataRate(rate));
	if (layer->GetRootQueueDiscOnDevice(device))
		layer->DeleteRootQueueDiscOnDevice(device);
	layer->SetRootQueueDiscOnDevice(device, disc);
}

/* A link between two nodes with addresses of a network of its own; returns the interfaces. */
Ipv4InterfaceContainer link(Ptr<Node> a, Ptr<Node> b, const char *rate, Ipv4Address network)
{
	PointToPointHelper helper;
	helper.SetDeviceAttribute("DataRate", StringValue(rate));
	helper.SetChannelAttribute("Delay", StringValue("1us"));
	helper.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1p"));
	NetDeviceContainer devices = helper.Install(a, b);
	queue_at(devices.Get(0), rate);
	queue_at(devices.Get(1), rate);
	return Ipv4AddressHelper(network, "255.255.255.252").Assign(devices);
}

/* The network of a host's link: 10.leaf.host.0/30. */
Ipv4Address host_network(uint32_t host)
{
	return Ipv4Address((10u << 24) | (host / HOSTS_OF_LEAF << 16) | (host % HOSTS_OF_LEAF << 8));
}

void on_receive(uint32_t id, Ptr<Socket> socket)
{
	while (Ptr<Packet> packet = socket->Recv()) {
		if (packet->GetSize() == 0)
			break;
		received[id] += packet->GetSize();
	}
	if (received[id] >= lines[id].bytes && finished[id] < 0)
		finished[id] = Simulator::Now().GetNanoSeconds();
}

void on_accept(uint32_t id, Ptr<Socket> socket, const Address &)
{
	socket->SetRecvCallback(MakeBoundCallback(&on_receive, id));
}

void on_connected(uint32_t id, Ptr<Socket> socket)
{
	socket->Send(Create<Packet>(lines[id].bytes));
	socket->Close();
}

void start(uint32_t id, Ptr<Node> from, Ptr<Node> to, Ipv4Address address)
{
	uint16_t port = FIRST_PORT + id;
	Ptr<Socket> listener = Socket::CreateSocket(to, TcpSocketFactory::GetTypeId());
	listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), port));
	listener->Listen();
	listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address &>(),
				    MakeBoundCallback(&on_accept, id));
	Ptr<Socket> socket = Socket::CreateSocket(from, TcpSocketFactory::GetTypeId());
	/* Ports below FIRST_PORT mark the sending side. */
	if (socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), 1 + id % (FIRST_PORT - 1))) != 0)
		NS_FATAL_ERROR("flow " << id << ": its host's port is in use");
	socket->SetConnectCallback(MakeBoundCallback(&on_connected, id), MakeNullCallback<void, Ptr<Socket>>());
	socket->Connect(InetSocketAddress(address, port));
}

void configure()
{
	Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpDctcp::GetTypeId()));
	Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpClassicRecovery::GetTypeId()));
	Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1460));
	Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
	Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
	Config::SetDefault("ns3::TcpSocket::TcpNoDelay", BooleanValue(true));
	Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(1)));
	Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1u << 30));
	Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4000000));
	Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
	Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(10)));
	Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MicroSeconds(1)));
	Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue("On"));
	Config::SetDefault("ns3::Ipv4GlobalRouting::RespondToInterfaceEvents", BooleanValue(false));
}

void build(NodeContainer &hosts)
{
	NodeContainer leaves, spines;
	hosts.Create(HOSTS);
	leaves.Create(LEAVES);
	spines.Create(SPINES);
	Ipv4StaticRoutingHelper fixed;
	InternetStackHelper stack;
	stack.SetRoutingHelper(fixed);
	stack.SetIpv6StackInstall(false);
	stack.Install(hosts);
	stack.Install(spines);
	Ipv4ListRoutingHelper list;
	list.Add(fixed, 0);
	stack.SetRoutingHelper(list);
	stack.Install(leaves);

	for (uint32_t host = 0; host < HOSTS; ++host) {
		Ptr<Node> leaf = leaves.Get(host / HOSTS_OF_LEAF);
		Ipv4InterfaceContainer ends = link(hosts.Get(host), leaf, "10Gbps", host_network(host));
		fixed.GetStaticRouting(hosts.Get(host)->GetObject<Ipv4>())
			->SetDefaultRoute(ends.GetAddress(1), ends.Get(0).second);
	}
	for (uint32_t leaf = 0; leaf < LEAVES; ++leaf) {
		Ptr<Node> node = leaves.Get(leaf);
		Ptr<SpineChoice> choice = CreateObject<SpineChoice>(leaf);
		for (uint32_t spine = 0; spine < SPINES; ++spine) {
			Ipv4Address network((172u << 24) | (16u << 16) | (leaf << 8) | (spine * 4));
			Ipv4InterfaceContainer ends = link(node, spines.Get(spine), "40Gbps", network);
			choice->AddSpine(ends.Get(0).second, ends.GetAddress(1));
			Ptr<Ipv4StaticRouting> routes =
				fixed.GetStaticRouting(spines.Get(spine)->GetObject<Ipv4>());
			routes->AddNetworkRouteTo(Ipv4Address((10u << 24) | (leaf << 16)), "255.255.0.0",
						  ends.GetAddress(0), ends.Get(1).second);
		}
		Ptr<Ipv4> ipv4 = node->GetObject<Ipv4>();
		DynamicCast<Ipv4ListRouting>(ipv4->GetRoutingProtocol())->AddRoutingProtocol(choice, 10);
	}
}

} // namespace

int main()
{
	Line line;
	while (std::cin >> line.start_ns >> line.from >> line.to >> line.bytes >> line.spine_there >> line.spine_back)
		lines.push_back(line);
	received.assign(lines.size(), 0);
	finished.assign(lines.size(), -1);
	configure();
	NodeContainer hosts;
	build(hosts);
	for (uint32_t id = 0; id < lines.size(); ++id) {
		const Line &flow = lines[id];
		Ipv4Address address(host_network(flow.to).Get() | 1);
		Simulator::Schedule(NanoSeconds(flow.start_ns), &start, id, hosts.Get(flow.from), hosts.Get(flow.to),
				    address);
	}
	Simulator::Stop(Seconds(10));
	Simulator::Run();
	for (uint32_t id = 0; id < lines.size(); ++id)
		std::cout << (finished[id] < 0 ? -1 : finished[id] - (int64_t)lines[id].start_ns) << "\n";
	Simulator::Destroy();
	return 0;
}
