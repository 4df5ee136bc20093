//! iperf3 for the scenario's flows: TCP, or UDP at a rate.
//!
//! One server and one client process for each pair of machines of each flow group: an iperf3 server
//! serves one client at a time. The ports are taken from the service's own filter, so that the flows are its
//! own in every classifier; which port goes to which pair is fixed by their order.
//!
//! Starting a process takes long while all processors carry packets, and a hundred consecutive
//! starts would smear a phase of the scenario over half a minute. So every client is started before
//! the traffic begins, as a shell that waits for a line and then becomes iperf3; a start is one
//! write to each.

use crate::janitor::tie;
use crate::network::{Network, address, machine_name};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use weir_datapath::{Classifier, ClassifierError, Fields};
use weir_linux::netns::NetnsError;
use weir_policy::{Policy, Protocol};
use weir_scenario::{LabScenario, ServiceTransfers};
use weir_units::{Bytes, Duration, MachineId, ServiceId};

/// The ports for services whose filters leave the port open: iperf3's own default and up.
const DEFAULT_PORTS: (u16, u16) = (5201, 5999);
/// The congestion control of all flows, whatever the host's default is: of the algorithms in every
/// kernel, it is closest to the simulator's flows.
pub(crate) const CONGESTION_CONTROL: &str = "cubic";

/// The lowest priority. Hundreds of processes that always have work would otherwise take the
/// processors from the kernel threads that carry the packets; behind them each finds more to do
/// when its turn comes.
const NICE: i32 = 19;

/// IPv4 and UDP.
const UDP_HEADERS: u64 = 28;
const ETHERNET_HEADER: u64 = 14;

/// Why traffic cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// A file or a process.
    #[error("{what}: {error}")]
    Io {
        /// The attempted operation.
        what: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// Entering a namespace.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// The policy's filters.
    #[error(transparent)]
    Classifier(#[from] ClassifierError),
    /// No port makes a TCP flow the service's.
    #[error(
        "{service} has no port left on {machine} for another flow of its own; \
         give its match a wider `port` range for {protocols}"
    )]
    Ports {
        /// The service.
        service: String,
        /// The receiver.
        machine: String,
        /// The protocols for which the port must be open.
        protocols: &'static str,
    },
}

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> TrafficError {
    let what = what.into();
    move |error| TrafficError::Io { what, error }
}

/// One iperf3 connection (or several in parallel) between two machines.
struct Transfer {
    service: ServiceId,
    flows: u32,
    udp: bool,
    start: Duration,
    output: PathBuf,
    client: Child,
    /// A line into it starts the client; none once it was written.
    gate: Option<ChildStdin>,
}

/// All transfers of a scenario; their processes are killed when dropped.
pub struct Transfers {
    transfers: Vec<Transfer>,
    servers: Vec<Child>,
    /// By receiver: the ports that must be open.
    listening: BTreeMap<MachineId, Vec<u16>>,
}

/// The reports of one service's clients at their end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Goodput {
    /// The service.
    pub service: ServiceId,
    /// Connections.
    pub flows: u64,
    /// The payload that its receivers received.
    pub delivered: Bytes,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Errors of iperf3 for transfers that did not end in order.
    pub failures: Vec<String>,
}

impl Transfers {
    /// Plans ports, starts all servers and gets all clients ready. Output files go into `directory`.
    pub fn prepare(network: &Network, scenario: LabScenario<'_>, directory: &Path) -> Result<Self, TrafficError> {
        let policy = scenario.policy();
        let classifier = Classifier::of(policy, Some(crate::network::NIC))?;
        let mut all = Self { transfers: Vec::new(), servers: Vec::new(), listening: BTreeMap::new() };
        for (t, traffic) in scenario.transfers().iter().enumerate() {
            for (from, to) in traffic.pairs() {
                let taken = all.listening.entry(to).or_default();
                let udp = traffic.udp.is_some();
                let port = free_port(policy, &classifier, traffic.service, udp, (from, to), taken)?;
                taken.push(port);
                let mut server = network.machine(to).command("iperf3")?;
                server.args(["--server", "--one-off", "--port", &port.to_string()]);
                tie(&mut server, NICE);
                server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                all.servers.push(server.spawn().map_err(io_error("start iperf3"))?);
                let output = directory.join(format!(
                    "iperf3-{t}-{}-{}.json",
                    machine_name(policy, from),
                    machine_name(policy, to)
                ));
                let mut client = client(network, scenario, traffic, (from, to), port, &output)?;
                let mut client = client.spawn().map_err(io_error("start a shell for iperf3"))?;
                let gate = client.stdin.take();
                all.transfers.push(Transfer {
                    service: traffic.service,
                    flows: traffic.flows,
                    udp: traffic.udp.is_some(),
                    start: traffic.start,
                    output,
                    client,
                    gate,
                });
            }
        }
        Ok(all)
    }

    /// The ports in use on a machine.
    pub(crate) fn taken(&self, machine: MachineId) -> &[u16] {
        self.listening.get(&machine).map_or(&[], Vec::as_slice)
    }

    /// The number of TCP flows, and of UDP flows.
    pub fn flow_counts(&self) -> (u64, u64) {
        let count = |udp: bool| {
            self.transfers.iter().filter(|transfer| transfer.udp == udp).map(|transfer| u64::from(transfer.flows)).sum()
        };
        (count(false), count(true))
    }

    /// Whether every server listens.
    pub fn servers_listen(&self, network: &Network) -> Result<bool, TrafficError> {
        for (machine, ports) in &self.listening {
            let open = network.machine(*machine).run(open_ports)?.map_err(io_error("read open ports"))?;
            if !ports.iter().all(|port| open.contains(port)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// When the next client is due, since the start of the traffic.
    pub fn next_start(&self) -> Option<Duration> {
        self.transfers.iter().filter(|transfer| transfer.gate.is_some()).map(|transfer| transfer.start).min()
    }

    /// Starts the clients that are due at `now`.
    pub fn start_clients(&mut self, now: Duration) -> Result<(), TrafficError> {
        for transfer in self.transfers.iter_mut().filter(|transfer| transfer.start <= now) {
            if let Some(mut gate) = transfer.gate.take() {
                gate.write_all(b"\n").map_err(io_error("start an iperf3 client"))?;
            }
        }
        Ok(())
    }

    /// Whether all clients have ended.
    pub fn ended(&mut self) -> bool {
        self.transfers.iter_mut().all(|transfer| !matches!(transfer.client.try_wait(), Ok(None)))
    }

    /// The reports of the clients, by service.
    pub fn goodputs(&self) -> Vec<Goodput> {
        let mut goodputs: BTreeMap<ServiceId, Goodput> = BTreeMap::new();
        for transfer in &self.transfers {
            let entry = goodputs.entry(transfer.service).or_insert_with(|| Goodput {
                service: transfer.service,
                flows: 0,
                delivered: Bytes::ZERO,
                retransmissions: 0,
                failures: Vec::new(),
            });
            entry.flows += u64::from(transfer.flows);
            let text = fs::read_to_string(&transfer.output).unwrap_or_default();
            let report: Value = serde_json::from_str(&text).unwrap_or_default();
            let received = match transfer.udp {
                true => datagrams(&report["end"]["sum"]),
                false => report["end"]["sum_received"]["bytes"].as_u64(),
            };
            match (report["error"].as_str(), received) {
                (None, Some(bytes)) => {
                    entry.delivered += Bytes::new(bytes);
                    entry.retransmissions += report["end"]["sum_sent"]["retransmits"].as_u64().unwrap_or(0);
                }
                (error, _) => entry.failures.push(error.unwrap_or("no report").to_owned()),
            }
        }
        goodputs.into_values().collect()
    }
}

impl Drop for Transfers {
    fn drop(&mut self) {
        let clients = self.transfers.iter_mut().map(|transfer| &mut transfer.client);
        for child in clients.chain(&mut self.servers) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The client's command: a shell that waits for a line and becomes iperf3.
fn client(
    network: &Network,
    scenario: LabScenario<'_>,
    traffic: &ServiceTransfers,
    (from, to): (MachineId, MachineId),
    port: u16,
    output: &Path,
) -> Result<Command, TrafficError> {
    let seconds = traffic.stop.saturating_sub(traffic.start).as_secs_f64();
    let mut command = network.machine(from).command("sh")?;
    command.args(["-c", "read -r _ && exec \"$@\"", "sh", "iperf3"]);
    command.args(["--client", &address(to).to_string(), "--port", &port.to_string()]);
    // iperf3 takes whole seconds; clients that would run longer than the scenario are ended with
    // the lab.
    command.args(["--time", &format!("{:.0}", seconds.ceil()), "--parallel", &traffic.flows.to_string()]);
    match traffic.udp {
        None => command.args(["--congestion", CONGESTION_CONTROL]),
        Some(rate) => {
            let mtu = scenario.links().mtu.get();
            let rate = rate.unwrap_or_else(|| scenario.policy().network().machine(from).nic().tx);
            let length = mtu - UDP_HEADERS;
            let payload = u128::from(rate.bps()) * u128::from(length) / u128::from(mtu + ETHERNET_HEADER);
            command.args(["--udp", "--bitrate", &payload.to_string(), "--length", &length.to_string()])
        }
    };
    command.args(["--interval", "0", "--json"]);
    tie(&mut command, NICE);
    let output_file = File::create(output).map_err(io_error(format!("create {}", output.display())))?;
    command.stdin(Stdio::piped()).stdout(output_file).stderr(Stdio::null());
    Ok(command)
}

/// The bytes of datagrams that arrived, by the receiver's count of lost ones.
fn datagrams(sum: &Value) -> Option<u64> {
    let (bytes, packets, lost) = (sum["bytes"].as_u64()?, sum["packets"].as_u64()?, sum["lost_packets"].as_u64()?);
    let arrived = u128::from(bytes) * u128::from(packets.saturating_sub(lost)) / u128::from(packets.max(1));
    u64::try_from(arrived).ok()
}

/// A port that makes a flow between the two the service's and that the receiver does not use yet.
/// iperf3 also uses TCP for its control connection when it sends UDP, on the same port.
pub(crate) fn free_port(
    policy: &Policy,
    classifier: &Classifier,
    own: ServiceId,
    udp: bool,
    (from, to): (MachineId, MachineId),
    taken: &[u16],
) -> Result<u16, TrafficError> {
    let service = policy.services().get(own);
    let tcp = service.matches().iter().filter(|m| m.protocol.is_none_or(|protocol| protocol == Protocol::TCP));
    let ranges = tcp.map(|m| m.ports.unwrap_or(DEFAULT_PORTS));
    let classified = |port, protocol| is_classified(classifier, own, (from, to), port, protocol);
    let fits = |port: &u16| {
        !taken.contains(port) && classified(*port, Protocol::TCP) && (!udp || classified(*port, Protocol::UDP))
    };
    ranges.flat_map(|(first, last)| first..=last).find(fits).ok_or_else(|| TrafficError::Ports {
        service: service.path().to_owned(),
        machine: machine_name(policy, to).to_owned(),
        protocols: if udp { "tcp and udp" } else { "tcp" },
    })
}

/// Whether packets between the two to a port are the service's.
pub(crate) fn is_classified(
    classifier: &Classifier,
    own: ServiceId,
    (from, to): (MachineId, MachineId),
    port: u16,
    protocol: Protocol,
) -> bool {
    let fields = Fields {
        protocol,
        source: IpAddr::V4(address(from)),
        destination: IpAddr::V4(address(to)),
        // A client's own port is in the ephemeral range; it must not make the flow another service's.
        ports: Some((40_000, port)),
        dscp: 0,
        vni: None,
    };
    classifier.classify_fields(&fields) == Some(own)
}

/// The TCP ports that listen in the namespace of the calling thread.
fn open_ports() -> io::Result<Vec<u16>> {
    let mut ports = Vec::new();
    for table in ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"] {
        for line in fs::read_to_string(table)?.lines().skip(1) {
            // `sl local_address rem_address st ...`; state 0A listens.
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let (Some(local), Some(&"0A")) = (fields.get(1), fields.get(3)) {
                let port = local.rsplit(':').next().and_then(|port| u16::from_str_radix(port, 16).ok());
                ports.extend(port);
            }
        }
    }
    Ok(ports)
}
