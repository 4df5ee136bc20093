//! The lab's network.
//!
//! ```text
//! m-s1: eth0 ══ m0 ┐                                                           ┌ m10 ══ eth0 :m-d1
//! m-s2: eth0 ══ m1 ┤ r-senders: br0 uplink ══ r0 spine: br0 r1 ══ uplink br0 :r-receivers
//! ...              ┘                                                           └ ...
//! ```
//!
//! Between exactly two racks there is nothing to switch: their uplinks are the two ends of one
//! cable, and each direction has the lower of the two racks' rates. One hop less for every packet
//! saves a fifth of the work per packet of a host with two processors.
//!
//! Every port of a switch has the rate of its link, a drop-tail buffer and an ECN threshold, as a Linux
//! switch has them ([`crate::ports`]): a rack's uplink at both ends, and the switch's port to each
//! machine. The agent's root class limits a machine's own interface to its speed; without agents a TBF
//! does that.
//!
//! Where tenants have queues, two racks have a spine too, and all have an interface in the controller's network,
//! 10.78.0.0/16.
//!
//! All machines are in one subnet, 10.77.0.0/16, so that switches need no routes. Neighbour entries are set
//! by hand: no broadcasts, and nothing waits for address resolution.

use crate::ports::{self, Neighbour, Port, PortPlan, PortsError, configure};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::Command;
use weir_linux::interface::{Interface, InterfaceError};
use weir_linux::netns::{Netns, NetnsError, Prefix, connect};
use weir_linux::port::QueueCounts;
use weir_network::graph::LinkRef;
use weir_policy::Policy;
use weir_scenario::{Enforcement, LabScenario};
use weir_switch::PolicyNeeds;
use weir_units::{Bandwidth, Bytes, MachineId, RackId};

/// The interface of a machine.
pub const NIC: &str = "eth0";
/// The uplink of a rack's switch.
pub const UPLINK: &str = "uplink";
/// The interface towards the controller of tenants' queues.
const MANAGEMENT: &str = "management";
/// The controller's address.
pub(crate) const CONTROLLER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const BRIDGE: &str = "br0";
/// Bytes of a frame beside its IP packet (IEEE 802.3: two addresses and a type).
const ETHERNET_HEADER: u64 = 14;

/// Why the network could not be built.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// Namespaces and cables.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// Offloads and names.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The rate of a machine's interface.
    #[error("tc {arguments}: {message}")]
    Tc {
        /// The arguments.
        arguments: String,
        /// The output of the command.
        message: String,
    },
    /// The ports of a switch.
    #[error(transparent)]
    Ports(#[from] PortsError),
    /// More machines than the lab has addresses for.
    #[error("{0} machines do not fit the lab; it has addresses for {MOST_MACHINES}")]
    TooMany(usize),
}

/// The needs of a scenario's ports: without enforcement a queue alone, with `priorities: off` none for levels.
fn port_needs(scenario: LabScenario<'_>) -> PolicyNeeds {
    let levels = &scenario.governed().levels;
    let needs = PolicyNeeds::of(scenario.policy(), scenario.marks_above(), levels.disobedient.clone());
    match scenario.enforcement() {
        Enforcement::None => needs.one_queue(),
        _ if levels.priorities => needs,
        _ => needs.without_levels(),
    }
}

/// The machines that fit: each is a namespace with an agent, and one kernel has to carry them all.
pub const MOST_MACHINES: usize = 200;

/// The namespaces of a scenario; taken down when dropped.
pub struct Network {
    /// The switches' ports, by name.
    ports: Vec<(String, Port)>,
    /// By machine id.
    machines: Vec<Netns>,
    /// By rack id.
    racks: Vec<Netns>,
    /// None between two racks.
    spine: Option<Netns>,
    /// The controller's network, where tenants have queues.
    management: Option<Netns>,
}

impl Network {
    /// Builds the scenario's network. On failure the finished part is taken down again.
    pub fn build(prefix: &Prefix, scenario: LabScenario<'_>) -> Result<Self, NetworkError> {
        let policy = scenario.policy();
        let count = policy.network().machines().len();
        if count > MOST_MACHINES {
            return Err(NetworkError::TooMany(count));
        }
        let name = |kind: char, index: usize| format!("{kind}{index}");
        let racks = policy.network().racks();
        // Each port of the policy's network has its queues, those of the spine too.
        let has_queues = scenario.enforcement() == Enforcement::QShare;
        let spine = if racks.len() == 2 && !has_queues { None } else { Some(prefix.create("spine")?) };
        let management = has_queues.then(|| prefix.create("management")).transpose()?;
        let mut network = Self { ports: Vec::new(), machines: Vec::new(), racks: Vec::new(), spine, management };
        if let Some(spine) = &network.spine {
            add_bridge(spine)?;
        }
        for rack in racks {
            let netns = prefix.create(&format!("r-{}", rack.name()))?;
            add_bridge(&netns)?;
            network.racks.push(netns);
        }
        match (&network.spine, network.racks.as_slice()) {
            (None, [one, other]) => connect((one, UPLINK, None), (other, UPLINK, None))?,
            (spine, racks) => {
                for (r, rack) in racks.iter().enumerate() {
                    let spine = spine.as_ref().expect("all but two racks have a spine");
                    connect((rack, UPLINK, None), (spine, &name('r', r), None))?;
                    join_bridge(spine, &name('r', r))?;
                }
            }
        }
        for rack in &network.racks {
            join_bridge(rack, UPLINK)?;
        }
        for (m, machine) in policy.network().machines().iter().enumerate() {
            let netns = prefix.create(&format!("m-{}", machine.name()))?;
            let rack = &network.racks[machine.rack().index()];
            let address = format!("{}/16", address(MachineId(m as u32)));
            connect((&netns, NIC, Some(&address)), (rack, &name('m', m), None))?;
            join_bridge(rack, &name('m', m))?;
            network.machines.push(netns);
        }
        network.connect_management()?;
        network.set_up_interfaces(scenario)?;
        network.configure_ports(scenario)?;
        network.set_neighbours()?;
        Ok(network)
    }

    /// A machine's namespace.
    pub fn machine(&self, machine: MachineId) -> &Netns {
        &self.machines[machine.index()]
    }
    /// A rack switch's namespace.
    pub fn rack(&self, rack: RackId) -> &Netns {
        &self.racks[rack.index()]
    }
    /// The spine's namespace, if there is one.
    pub fn spine(&self) -> Option<&Netns> {
        self.spine.as_ref()
    }
    /// The namespace of the controller of tenants' queues, if there is one.
    pub fn management(&self) -> Option<&Netns> {
        self.management.as_ref()
    }

    /// Connects machines and switches to the controller's network.
    fn connect_management(&self) -> Result<(), NetworkError> {
        let Some(management) = &self.management else { return Ok(()) };
        add_bridge(management)?;
        management.ip(["addr", "add", &format!("{CONTROLLER}/16"), "dev", BRIDGE])?;
        let all = self.machines.iter().chain(&self.racks).chain(&self.spine);
        for (number, netns) in (2u32..).zip(all) {
            let address = format!("{}/16", Ipv4Addr::from(u32::from(CONTROLLER) - 1 + number));
            let port = format!("c{number}");
            connect((netns, MANAGEMENT, Some(&address)), (management, &port, None))?;
            join_bridge(management, &port)?;
        }
        Ok(())
    }

    /// The other end of a rack's uplink: a port of the spine, or the other rack's uplink.
    pub fn far_end(&self, rack: RackId) -> (&Netns, String) {
        match &self.spine {
            Some(spine) => (spine, format!("r{}", rack.index())),
            None => (&self.racks[1 - rack.index()], UPLINK.to_owned()),
        }
    }

    fn set_up_interfaces(&self, scenario: LabScenario<'_>) -> Result<(), NetworkError> {
        let (policy, links) = (scenario.policy(), scenario.links());
        let mtu = links.mtu.get();
        let no_offloads = |netns: &Netns, name: &str| -> Result<(), NetworkError> {
            netns.ip(["link", "set", "dev", name, "mtu", &mtu.to_string()])?;
            netns.run(|| Interface::named(name)?.set_offloads(false))??;
            Ok(())
        };
        for (r, switch) in self.racks.iter().enumerate() {
            let (far, port) = self.far_end(RackId(r as u32));
            no_offloads(switch, UPLINK)?;
            no_offloads(far, &port)?;
        }
        for (m, machine) in policy.network().machines().iter().enumerate() {
            let (switch, port) = (&self.racks[machine.rack().index()], format!("m{m}"));
            no_offloads(&self.machines[m], NIC)?;
            // Only frames of the MTU crossed the links; the receiving stack may take several at once.
            self.machines[m].run(|| Interface::named(NIC)?.set_receive_merging(true))??;
            no_offloads(switch, &port)?;
            if !scenario.has_agent(MachineId(m as u32)) {
                limit_interface(&self.machines[m], NIC, machine.nic().tx, links.queue.buffer, mtu)?;
            }
        }
        Ok(())
    }

    /// Configures the ports of all switches.
    fn configure_ports(&mut self, scenario: LabScenario<'_>) -> Result<(), NetworkError> {
        let (policy, links) = (scenario.policy(), scenario.links());
        // A buffer that just holds the largest IP packet holds its frame.
        let buffer = links.queue.buffer.max(Bytes::new(links.mtu.get() + ETHERNET_HEADER));
        let needs = port_needs(scenario);
        let plan = |neighbour, link, rate| PortPlan::new(neighbour, &needs, link, (rate, buffer));
        let mut racks: Vec<BTreeMap<String, PortPlan>> = vec![BTreeMap::new(); self.racks.len()];
        let mut spine = BTreeMap::new();
        for (r, rack) in policy.network().racks().iter().enumerate() {
            racks[r]
                .insert(UPLINK.to_owned(), plan(Neighbour::Switch, LinkRef::Forward(r), self.uplink_rate(policy, r))?);
            spine.insert(format!("r{r}"), plan(Neighbour::Switch, LinkRef::Backward(r), rack.uplink().rx)?);
        }
        for (m, machine) in policy.network().machines().iter().enumerate() {
            let plan = plan(Neighbour::Machine, LinkRef::Down(MachineId(m as u32)), machine.nic().rx)?;
            racks[machine.rack().index()].insert(format!("m{m}"), plan);
        }
        let spine = self.spine.as_ref().map(|netns| (netns, &spine));
        let mut all = Vec::new();
        for (switch, ports) in self.racks.iter().zip(&racks).chain(spine) {
            let configured = configure(switch, ports)?.into_iter();
            all.extend(configured.map(|(port, own)| (format!("{}:{port}", switch.name()), own)));
        }
        self.ports = all;
        Ok(())
    }

    /// Puts the release of machines' packets before programs that were attached since the network was built
    /// ([`Port::release_first`]).
    pub fn release_first(&mut self) -> Result<(), PortsError> {
        let switches: Vec<&Netns> = self.racks.iter().chain(&self.spine).collect();
        for (name, port) in &mut self.ports {
            let of = |switch: &&&Netns| name.strip_prefix(switch.name()).is_some_and(|rest| rest.starts_with(':'));
            let switch = switches.iter().find(of).expect("a port is a switch's");
            let (_, interface) = name.rsplit_once(':').expect("its name begins with that of its switch");
            switch.run(|| port.release_first(interface))??;
        }
        Ok(())
    }

    /// How often TCP found packets overtaken, on all machines since they were made.
    pub fn reorderings(&self) -> Result<u64, NetnsError> {
        let mut sum = 0;
        for machine in &self.machines {
            // Of the namespace that the thread is in; a kernel without the file counts none.
            let text = machine.run(|| std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default())?;
            sum += reorderings(&text);
        }
        Ok(sum)
    }

    /// The counters of the ports that mark, by name.
    pub fn port_counts(&self) -> Result<Vec<(String, QueueCounts)>, PortsError> {
        let marking = self.ports.iter().filter(|(_, port)| port.marks());
        marking.map(|(name, port)| Ok((name.clone(), port.counts()?))).collect()
    }

    /// The packets that the ports of all switches have dropped.
    pub fn dropped(&self) -> Result<u64, PortsError> {
        let mut sum = 0;
        for switch in self.racks.iter().chain(&self.spine) {
            let names = self.ports.iter().filter_map(|(name, _)| name.strip_prefix(switch.name())?.strip_prefix(':'));
            sum += ports::dropped(switch, names)?.into_iter().map(|(_, dropped)| dropped).sum::<u64>();
        }
        Ok(sum)
    }

    /// The rate of a rack's uplink: between two racks at most the other one's.
    fn uplink_rate(&self, policy: &Policy, rack: usize) -> Bandwidth {
        let racks = policy.network().racks();
        match &self.spine {
            Some(_) => racks[rack].uplink().tx,
            None => racks[rack].uplink().tx.min(racks[1 - rack].uplink().rx),
        }
    }

    /// Gives every machine the hardware address of every other.
    fn set_neighbours(&self) -> Result<(), NetworkError> {
        let mut hardware = Vec::with_capacity(self.machines.len());
        for netns in &self.machines {
            let text = netns.ip(["-o", "link", "show", "dev", NIC])?;
            let address = text.split("link/ether ").nth(1).and_then(|rest| rest.split(' ').next());
            hardware.push(address.unwrap_or_default().to_owned());
        }
        for (m, netns) in self.machines.iter().enumerate() {
            let mut batch = String::new();
            for (other, hardware) in hardware.iter().enumerate().filter(|(other, _)| *other != m) {
                let address = address(MachineId(other as u32));
                batch.push_str(&format!("neigh replace {address} lladdr {hardware} nud permanent dev {NIC}\n"));
            }
            netns.ip_batch(&batch)?;
        }
        Ok(())
    }
}

/// The address of a machine in the lab.
pub fn address(machine: MachineId) -> Ipv4Addr {
    let n = machine.0 + 1;
    Ipv4Addr::new(10, 77, (n / 250) as u8, (n % 250 + 1) as u8)
}

fn add_bridge(netns: &Netns) -> Result<(), NetnsError> {
    netns.ip(["link", "add", BRIDGE, "type", "bridge", "mcast_snooping", "0"])?;
    netns.ip(["link", "set", "dev", BRIDGE, "up"])?;
    // A switch has no firewall: without this every frame passes the host's iptables hooks at each hop.
    netns.run(|| {
        for table in ["iptables", "ip6tables", "arptables"] {
            // The file is missing if the kernel has no bridge netfilter, and then there is nothing
            // to turn off.
            let _ = std::fs::write(format!("/proc/sys/net/bridge/bridge-nf-call-{table}"), "0");
        }
    })
}

fn join_bridge(netns: &Netns, port: &str) -> Result<(), NetnsError> {
    netns.ip(["link", "set", "dev", port, "master", BRIDGE]).map(|_| ())
}

/// A rate and a drop-tail buffer for packets that leave by a machine's interface. The bucket bridges
/// 1 ms, or two frames.
fn limit_interface(netns: &Netns, port: &str, rate: Bandwidth, buffer: Bytes, mtu: u64) -> Result<(), NetworkError> {
    let frame = mtu + ETHERNET_HEADER;
    let burst = (rate.bps() / 8 / 1000).max(2 * frame);
    let (rate, burst) = (format!("{}bit", rate.bps()), format!("{burst}b"));
    let limit = format!("{}b", buffer.get().max(frame));
    let arguments = ["qdisc", "add", "dev", port, "root", "tbf", "rate", &rate, "burst", &burst, "limit", &limit];
    tc(netns.command("tc")?, &arguments)
}

fn tc(mut command: Command, arguments: &[&str]) -> Result<(), NetworkError> {
    let failed = |message: String| NetworkError::Tc { arguments: arguments.join(" "), message };
    // Ctrl-C at the terminal is for the lab, which ends in order.
    let output = command.args(arguments).process_group(0).output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// The name of a machine in messages.
pub fn machine_name(policy: &Policy, machine: MachineId) -> &str {
    policy.network().machine(machine).name()
}

/// The sum of TCP's counters of reordering (`TCPSACKReorder` and the like) in the kernel's table of extended counters:
/// pairs of lines, the names and the values.
fn reorderings(text: &str) -> u64 {
    let lines: Vec<&str> = text.lines().collect();
    let counters = lines.chunks(2).filter_map(|pair| Some(pair.first()?.split(' ').zip(pair.get(1)?.split(' '))));
    let of_tcp = counters.flatten().filter(|(name, _)| name.starts_with("TCP") && name.ends_with("Reorder"));
    of_tcp.filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_reordering_are_added() {
        let text = "TcpExt: SyncookiesSent TCPSACKReorder TCPTSReorder TCPHystartTrainDetect\nTcpExt: 1 20 3 4\n\
                    IpExt: InNoRoutes\nIpExt: 7\n";
        assert_eq!(reorderings(text), 23);
        assert_eq!(reorderings(""), 0);
    }
}
