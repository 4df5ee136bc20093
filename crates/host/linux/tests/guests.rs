//! Services by the interfaces of guests, which are namespaces behind a bridge or a route of a host.

mod common;

use aya::Ebpf;
use aya::programs::tc::TcAttachOptions;
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType};
use common::{Cable, interface, later, pause, services, skipped};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use weir_datapath::Classifier;
use weir_linux::attachment::{Attachment, lacks_tcx};
use weir_linux::loader::{InterfaceDatapath, LoaderError, VERDICT_OBJECT};
use weir_linux::netns::{Netns, Prefix, connect};
use weir_linux::settings::Classes;
use weir_policy::Match;
use weir_units::{Direction, ServiceId};

/// Bytes of payload in each direction of a connection.
const PAYLOAD: u64 = 100_000;
/// More than the headers of so many bytes, and segments that are sent again on a busy machine.
const OVERHEAD: u64 = 100_000;
/// ARP, and the last segments of earlier connections.
const NOISE: u64 = 1_000;

/// Services 0, 1, ... by these globs.
fn classifier(globs: &[&str]) -> Classifier {
    let filter = |glob: &&str| Match { interface: Some((*glob).into()), ..Match::default() };
    let filters: Vec<Match> = globs.iter().map(filter).collect();
    Classifier::new((0..).map(ServiceId).zip(&filters), Some("eth")).expect("supported")
}

/// Puts services 0, 1, ... by these globs in force.
fn set(datapath: &mut InterfaceDatapath, globs: &[&str]) {
    datapath.set_slots(services(globs.len() as u32)).expect("slots");
    datapath.set_rules(&classifier(globs), Classes::None).expect("rules");
}

/// The programs on the uplink of a host.
fn attach(host: &Netns, attachment: Option<Attachment>, globs: &[&str]) -> InterfaceDatapath {
    host.run(|| {
        let mut datapath = InterfaceDatapath::attach_without_edt(&interface(), attachment).expect("attach");
        set(&mut datapath, globs);
        datapath
    })
    .expect("enter")
}

/// The ways of attachment that this kernel has: clsact, and since 6.6 tcx.
fn attachments(host: &Netns) -> Vec<Attachment> {
    let tcx = || match InterfaceDatapath::attach_without_edt(&interface(), Some(Attachment::Tcx)) {
        Ok(datapath) => datapath.remove().map(|()| true).expect("removed"),
        Err(LoaderError::Program(error)) if lacks_tcx(&error) => false,
        Err(error) => panic!("{error}"),
    };
    let tcx = host.run(tcx).expect("enter").then_some(Attachment::Tcx);
    [Attachment::Clsact].into_iter().chain(tcx).collect()
}

/// By service and then of unclassified packets: bytes sent and received.
fn totals(datapath: &InterfaceDatapath) -> Vec<[u64; 2]> {
    let of = |service| {
        // A policy may have one service.
        let totals = datapath.totals(service).unwrap_or_default();
        [totals.tx.bytes().get(), totals.rx.bytes().get()]
    };
    [Some(ServiceId(0)), Some(ServiceId(1)), None].map(of).to_vec()
}

fn address(text: &str, port: u16) -> SocketAddr {
    SocketAddr::new(text.parse().expect("an address"), port)
}

/// The payload in both directions of a connection from a namespace to an address of another.
fn exchange(from: &Netns, to: &Netns, at: &str) {
    let listener = to.run(|| TcpListener::bind(address("0.0.0.0", 7001)).expect("a port")).expect("enter");
    let mut client = from.run(|| TcpStream::connect(address(at, 7001)).expect("connected")).expect("enter");
    let mut server = listener.accept().expect("accepted").0;
    let data = vec![7u8; PAYLOAD as usize];
    let (mut out, mut back) = (client.try_clone().expect("a clone"), server.try_clone().expect("a clone"));
    std::thread::scope(|scope| {
        scope.spawn(|| out.write_all(&data).expect("sent"));
        scope.spawn(|| back.write_all(&data).expect("sent"));
        for stream in [&mut client, &mut server] {
            stream.read_exact(&mut vec![0; PAYLOAD as usize]).expect("received");
        }
    });
}

/// Asserts that the packets of a connection belong to a service, 2 for none, by direction. The bridge has
/// addresses from an earlier connection, and the agent within milliseconds, or later on a busy host.
#[track_caller]
fn belongs(datapath: &InterfaceDatapath, [sent, received]: [usize; 2], connection: impl Fn()) {
    let of = |owner: usize, service: usize| if service == owner { PAYLOAD..=PAYLOAD + OVERHEAD } else { 0..=NOISE };
    let mut wrong = Vec::new();
    connection();
    for _ in 0..20 {
        pause(Duration::from_millis(200));
        let before = totals(datapath);
        connection();
        pause(Duration::from_millis(50));
        wrong.clear();
        for (service, (now, before)) in totals(datapath).iter().zip(&before).enumerate() {
            for (direction, owner) in [sent, received].into_iter().enumerate() {
                let bytes = now[direction] - before[direction];
                if !of(owner, service).contains(&bytes) {
                    wrong.push(format!("{bytes} B of service {service}, direction {direction}: {now:?} {before:?}"));
                }
            }
        }
        if wrong.is_empty() {
            return;
        }
    }
    panic!("{}", wrong.join("; "));
}

/// A cable whose end `a` is a host with guests.
struct Host {
    cable: Cable,
    prefix: Prefix,
}

impl Host {
    fn new(test: &str) -> Self {
        Self { cable: Cable::new(test), prefix: Prefix::new(&format!("wt{test}")).expect("a prefix") }
    }

    fn ip(&self, arguments: &str) {
        self.cable.a.ip(arguments.split(' ')).unwrap_or_else(|error| panic!("{error}"));
    }

    /// A host whose uplink is a port of the bridge `br0`.
    fn bridged(test: &str) -> Self {
        let host = Self::new(test);
        // Forwarded at once, without a delay of the spanning tree.
        host.ip("link add br0 type bridge forward_delay 0");
        host.ip("link set br0 up");
        host.ip("addr del 10.77.0.1/24 dev eth");
        host.ip("link set eth master br0");
        host.ip("addr add 10.77.0.1/24 dev br0");
        host
    }

    /// A guest with this address and gateway, behind this interface of the host.
    fn guest(&self, name: &str, link: &str, at: &str, gateway: Option<&str>) -> Netns {
        let guest = self.prefix.create(name).expect("a namespace");
        let quiet = || std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        guest.run(quiet).expect("enter").expect("IPv6 off");
        connect((&self.cable.a, link, None), (&guest, "eth", Some(at))).expect("connected");
        if let Some(gateway) = gateway {
            guest.ip(["route", "add", "default", "via", gateway]).expect("a route");
        }
        guest
    }

    /// The same as a port of a bridge.
    fn bridged_guest(&self, name: &str, link: &str, at: &str) -> Netns {
        let guest = self.guest(name, link, at, None);
        self.ip(&format!("link set {link} master br0"));
        guest
    }

    /// Forwards packets of the host's interfaces and of `b`'s network.
    fn forward(&self) {
        let on = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
        self.cable.a.run(on).expect("enter").expect("forwarding");
        self.cable.b.ip(["route", "add", "10.78.0.0/16", "via", "10.77.0.1"]).expect("a route");
    }
}

/// Waits until the programs have so many guests.
#[track_caller]
fn until(datapath: &InterfaceDatapath, guests: usize) {
    let count = || datapath.guest_reading().expect("it runs").expect("filters by interface").guests;
    assert!((0..500).any(|_| later(count() == guests)), "{} guests of {guests}", count());
}

/// With both ways of attachment: guests of two services, one of none, and the host.
#[test]
fn bridged_guests_belong_to_the_service_of_their_interface() {
    if skipped() {
        return;
    }
    let host = Host::bridged("u1");
    let (a, b) = (&host.cable.a, &host.cable.b);
    let guests = [("g1", "tap1"), ("g2", "veth2"), ("g3", "other3")];
    let guests = guests.map(|(name, link)| host.bridged_guest(name, link, &format!("10.77.0.1{}/24", &name[1..])));
    for attachment in attachments(a) {
        let datapath = attach(a, Some(attachment), &["tap*", "veth*"]);
        until(&datapath, 2);
        for (index, guest) in guests.iter().enumerate() {
            belongs(&datapath, [index, index], || exchange(guest, b, "10.77.0.2"));
            belongs(&datapath, [index, index], || exchange(b, guest, &format!("10.77.0.1{}", index + 1)));
        }
        belongs(&datapath, [2, 2], || exchange(a, b, "10.77.0.2"));
        datapath.remove().expect("removed");
    }
}

/// What is attached to an interface of the host, and the pins of all its interfaces.
fn attached(host: &Netns, link: &str) -> String {
    let run = |arguments: &[&str]| {
        let output = host.command("tc").expect("tc").args(arguments).output().expect("tc");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let inode = host.run(|| std::fs::metadata("/proc/thread-self/ns/net").expect("a namespace")).expect("enter");
    let of_host = format!("-{}-", std::os::unix::fs::MetadataExt::ino(&inode));
    let pins = std::fs::read_dir("/sys/fs/bpf/weir").into_iter().flatten().flatten();
    let pins = pins.filter(|pins| pins.file_name().to_string_lossy().contains(&of_host));
    let pins = pins.flat_map(|pins| std::fs::read_dir(pins.path()).into_iter().flatten().flatten());
    let pins: Vec<_> =
        pins.map(|pin| pin.file_name()).filter(|pin| pin.to_string_lossy().starts_with("guest-")).collect();
    let filters = run(&["filter", "show", "dev", link, "ingress"]);
    // Without the ids of programs, of which each agent loads its own.
    let filters: Vec<&str> = filters.lines().map(|line| line.split(" id ").next().unwrap_or_default()).collect();
    format!("{} {filters:?} {pins:?}", run(&["qdisc", "show", "dev", link]))
}

/// Attaches a program that accepts all packets that enter by an interface, after all others.
fn accept(link: &str) -> Ebpf {
    let mut object = Ebpf::load(VERDICT_OBJECT).expect("loaded");
    let program: &mut SchedClassifier =
        object.program_mut("weir_verdict").expect("it").try_into().expect("a classifier");
    program.load().expect("verified");
    let last = TcAttachOptions::TcxOrder(LinkOrder::last());
    program.attach_with_options(link, TcAttachType::Ingress, last).expect("attached");
    object
}

/// Gives what a guest sends the number of another guest of the host.
fn forge_number(host: &Netns, of: &str, guest: &Netns) {
    let filter = format!("filter add dev eth egress u32 match u32 0 0 flowid 1:{:x}", index_of(host, of));
    for arguments in ["qdisc add dev eth clsact", &filter] {
        let ended = guest.command("tc").expect("tc").args(arguments.split_whitespace()).status().expect("run");
        assert!(ended.success(), "tc {arguments}");
    }
}

/// Guests of which the host is the gateway: each with an interface of its own, and behind a bridge of which the uplink
/// is no port. With both ways of attachment; interfaces of guests are as before afterwards, also after a kill.
#[test]
fn routed_guests_belong_to_the_service_of_their_interface() {
    if skipped() {
        return;
    }
    let host = Host::new("u2");
    host.forward();
    let (a, b) = (&host.cable.a, &host.cable.b);
    let own = host.guest("g1", "tap1", "10.78.1.2/24", Some("10.78.1.1"));
    host.ip("addr add 10.78.1.1/24 dev tap1");
    host.ip("link add br0 type bridge forward_delay 0");
    host.ip("link set br0 up");
    host.ip("addr add 10.78.2.1/24 dev br0");
    let behind = host.guest("g2", "veth2", "10.78.2.2/24", Some("10.78.2.1"));
    host.ip("link set veth2 master br0");
    let before = attached(a, "veth2");
    for attachment in attachments(a) {
        let datapath = attach(a, Some(attachment), &["tap*", "veth*"]);
        until(&datapath, 2);
        let during = attached(a, "veth2");
        assert_ne!(during, before, "{attachment:?}");
        let all = |datapath: &InterfaceDatapath| {
            belongs(datapath, [0, 0], || exchange(&own, b, "10.77.0.2"));
            belongs(datapath, [0, 0], || exchange(b, &own, "10.78.1.2"));
            belongs(datapath, [1, 1], || exchange(&behind, b, "10.77.0.2"));
            belongs(datapath, [2, 2], || exchange(a, b, "10.77.0.2"));
        };
        all(&datapath);
        if attachment == Attachment::Tcx {
            // A later program of another vendor that accepts packets for good.
            let _accepting = a.run(|| accept("veth2")).expect("enter");
            belongs(&datapath, [1, 1], || exchange(&behind, b, "10.77.0.2"));
        }
        // The next agent takes over, and a policy without these guests ends their programs.
        datapath.leave();
        assert_eq!(attached(a, "veth2"), during, "{attachment:?}");
        let mut datapath = attach(a, Some(attachment), &["tap*", "veth*"]);
        assert_eq!(attached(a, "veth2"), during, "{attachment:?}");
        all(&datapath);
        set(&mut datapath, &["tap*"]);
        assert_eq!(datapath.guest_reading().expect("it runs").expect("globs").missed, None);
        // A guest of no service has a number, too: its own namespace could give its packets that of another one.
        assert_eq!(attached(a, "veth2"), during, "{attachment:?}");
        forge_number(a, "tap1", &behind);
        belongs(&datapath, [2, 2], || exchange(&behind, b, "10.77.0.2"));
        behind.command("tc").expect("tc").args(["qdisc", "del", "dev", "eth", "clsact"]).status().expect("run");
        set(&mut datapath, &["none"]);
        assert_ne!(attached(a, "veth2"), during, "{attachment:?}");
        set(&mut datapath, &["tap*", "veth*"]);
        assert_eq!(attached(a, "veth2"), during, "{attachment:?}");
        datapath.remove().expect("removed");
        assert_eq!(attached(a, "veth2"), before, "{attachment:?}");
        // After a kill without a next agent.
        attach(a, Some(attachment), &["tap*", "veth*"]).leave();
        assert_eq!(attached(a, "veth2"), during, "{attachment:?}");
        let removed = a.run(|| InterfaceDatapath::remove_leftover(&interface())).expect("enter");
        assert!(removed.expect("removed"), "{attachment:?}");
        assert_eq!(attached(a, "veth2"), before, "{attachment:?}");
    }
}

/// Guests are matched while they exist and have a name that a glob matches, and by the policy in force.
#[test]
fn guests_come_and_go() {
    if skipped() {
        return;
    }
    let host = Host::bridged("u3");
    let (a, b) = (&host.cable.a, &host.cable.b);
    let mut datapath = attach(a, None, &["tap*", "veth*"]);
    until(&datapath, 0);
    let guest = host.bridged_guest("g1", "tap1", "10.77.0.11/24");
    until(&datapath, 1);
    belongs(&datapath, [0, 0], || exchange(&guest, b, "10.77.0.2"));
    for (commands, sent) in
        [(["down", "name veth1", "up"], 1), (["down", "name none", "up"], 2), (["down", "name tap1", "up"], 0)]
    {
        let mut name = if sent == 1 {
            "tap1"
        } else if sent == 2 {
            "veth1"
        } else {
            "none"
        };
        for command in commands {
            host.ip(&format!("link set {name} {command}"));
            name = command.strip_prefix("name ").unwrap_or(name);
        }
        until(&datapath, usize::from(sent != 2));
        // The bridge has lost the address.
        belongs(&datapath, [sent, sent], || exchange(&guest, b, "10.77.0.2"));
    }
    // Another policy: the same guest by another glob, then none, then the first one again.
    set(&mut datapath, &["none", "*1"]);
    belongs(&datapath, [1, 1], || exchange(&guest, b, "10.77.0.2"));
    set(&mut datapath, &["eth"]);
    assert_eq!(datapath.guest_reading().expect("none runs"), None);
    belongs(&datapath, [0, 0], || exchange(&guest, b, "10.77.0.2"));
    set(&mut datapath, &["none", "tap*"]);
    belongs(&datapath, [1, 1], || exchange(&guest, b, "10.77.0.2"));
    // Without an agent, and by the next one.
    datapath.leave();
    exchange(&guest, b, "10.77.0.2");
    let datapath = attach(a, None, &["tap*", "veth*"]);
    assert!(datapath.is_adopted());
    until(&datapath, 1);
    belongs(&datapath, [0, 0], || exchange(&guest, b, "10.77.0.2"));
    drop(guest);
    until(&datapath, 0);
}

/// The index of an interface of the host.
fn index_of(host: &Netns, link: &str) -> u32 {
    let shown = host.ip(["-o", "link", "show", link]).expect("ip");
    shown.split(':').next().expect("an index").trim().parse().expect("a number")
}

/// An interface that is created with the index of a deleted one is a guest by its own name, and its packets are
/// numbered; one of no service that has the index while no agent runs is left as it is.
#[test]
fn an_index_of_a_deleted_guest_is_anothers() {
    if skipped() {
        return;
    }
    let host = Host::new("u6");
    host.forward();
    let (a, b) = (&host.cable.a, &host.cable.b);
    host.ip("link add br0 type bridge forward_delay 0");
    host.ip("link set br0 up");
    host.ip("addr add 10.78.2.1/24 dev br0");
    // A guest behind the bridge of the host, with the index of another interface that is deleted just before, so that
    // one list has both.
    let replace = |name: &str, link: &str, before: Option<&str>| {
        let guest = host.prefix.create(name).expect("a namespace");
        let deleted = before.map(|before| (format!("link del {before}\n"), format!("index {}", index_of(a, before))));
        let (deleted, index) = deleted.unwrap_or_default();
        let peer = format!("type veth peer name eth netns {}", guest.name());
        let created = format!("link add {link} {index} {peer}\nlink set {link} master br0 up\n");
        a.ip_batch(&[deleted, created].concat()).expect("interfaces");
        guest
            .ip_batch("addr add 10.78.2.2/24 dev eth\nlink set eth up\nroute add default via 10.78.2.1\n")
            .expect("set");
        guest
    };
    for attachment in attachments(a) {
        let first = replace("g1", "veth1", None);
        let datapath = attach(a, Some(attachment), &["tap*", "veth*"]);
        until(&datapath, 1);
        belongs(&datapath, [1, 1], || exchange(&first, b, "10.77.0.2"));
        let index = index_of(a, "veth1");
        let second = replace("g2", "tap2", Some("veth1"));
        assert_eq!(index_of(a, "tap2"), index, "{attachment:?}");
        drop(first);
        until(&datapath, 1);
        belongs(&datapath, [0, 0], || exchange(&second, b, "10.77.0.2"));
        // Without an agent: the successor is of no service, and what others attached to it stays.
        datapath.leave();
        let third = replace("g3", "other3", Some("tap2"));
        assert_eq!(index_of(a, "other3"), index, "{attachment:?}");
        drop(second);
        let qdisc = a.command("tc").expect("tc").args(["qdisc", "add", "dev", "other3", "clsact"]).status();
        assert!(qdisc.expect("run").success());
        let before = attached(a, "other3");
        let datapath = attach(a, Some(attachment), &["tap*"]);
        until(&datapath, 0);
        belongs(&datapath, [2, 2], || exchange(&third, b, "10.77.0.2"));
        datapath.remove().expect("removed");
        let qdiscs = |shown: &str| shown.split(' ').take(3).collect::<Vec<_>>().join(" ");
        assert_eq!(qdiscs(&attached(a, "other3")), qdiscs(&before), "{attachment:?}");
        assert!(before.contains("clsact"), "{before}");
        host.ip("link del other3");
    }
}

/// Runs a program in a namespace; `None` if the host does not have it.
fn ran(netns: &Netns, program: &str, arguments: &str) -> Option<bool> {
    let mut command = netns.command(program).expect("a command");
    command.args(arguments.split_whitespace()).output().ok().map(|output| output.status.success())
}

/// True, with a line that names it, if this host lacks a program or a kind of interfaces; `found` is that of the trial.
fn lacks(what: &str, found: Option<bool>) -> bool {
    if found == Some(true) {
        return false;
    }
    // Not by println!, which a passing test swallows.
    let line = format!("skipped: this host has no {what}\n");
    std::io::stderr().write_all(line.as_bytes()).expect("standard error takes a line");
    true
}

/// Gives `b` a VLAN of its cable with this address.
fn vlan(b: &Netns, id: u32, at: &str) -> Option<bool> {
    let added = ran(b, "ip", &format!("link add link eth name eth.{id} type vlan id {id}"));
    if added == Some(true) {
        b.ip_batch(&format!("addr add {at} dev eth.{id}\nlink set eth.{id} up\n")).expect("a VLAN");
    }
    added
}

/// Gives two guests the same hardware address.
fn share_address(one: &Netns, other: &Netns) {
    for guest in [one, other] {
        guest.ip_batch("link set eth down\nlink set eth address 02:00:00:00:00:99\nlink set eth up\n").expect("set");
    }
}

/// Guests with one hardware address in two VLANs of a bridge that distinguishes them.
#[test]
fn guests_of_a_bridge_with_vlans_belong_to_the_service_of_their_interface() {
    if skipped() {
        return;
    }
    let host = Host::new("u7");
    let (a, b) = (&host.cable.a, &host.cable.b);
    if lacks("VLAN interface", vlan(b, 10, "10.79.0.2/24")) {
        return;
    }
    host.ip("link add br0 type bridge vlan_filtering 1 forward_delay 0");
    host.ip("link set br0 up");
    host.ip("addr del 10.77.0.1/24 dev eth");
    host.ip("link set eth master br0");
    let tagged = host.bridged_guest("g1", "tap1", "10.79.0.11/24");
    let untagged = host.bridged_guest("g2", "veth2", "10.77.0.12/24");
    for arguments in ["add dev eth vid 10", "add dev tap1 vid 10 pvid untagged", "del dev tap1 vid 1"] {
        assert_eq!(ran(a, "bridge", &format!("vlan {arguments}")), Some(true), "{arguments}");
    }
    share_address(&tagged, &untagged);
    for attachment in attachments(a) {
        let datapath = attach(a, Some(attachment), &["tap*", "veth*"]);
        until(&datapath, 2);
        belongs(&datapath, [0, 0], || exchange(&tagged, b, "10.79.0.2"));
        belongs(&datapath, [1, 1], || exchange(&untagged, b, "10.77.0.2"));
        belongs(&datapath, [0, 0], || exchange(b, &tagged, "10.79.0.11"));
        datapath.remove().expect("removed");
    }
}

/// Guests with one hardware address in bridges with two VLAN interfaces of the uplink.
#[test]
fn guests_of_vlans_of_the_uplink_belong_to_the_service_of_their_interface() {
    if skipped() {
        return;
    }
    let host = Host::new("u8");
    let (a, b) = (&host.cable.a, &host.cable.b);
    if lacks("VLAN interface", vlan(b, 10, "10.79.10.2/24")) {
        return;
    }
    assert_eq!(vlan(b, 20, "10.79.20.2/24"), Some(true));
    let guest = |name: &str, link: &str, id: u32| {
        let lines = [
            format!("link add link eth name eth.{id} type vlan id {id}"),
            format!("link add br{id} type bridge forward_delay 0"),
            format!("link set br{id} up"),
            format!("link set eth.{id} master br{id} up"),
        ];
        host.cable.a.ip_batch(&(lines.join("\n") + "\n")).expect("a VLAN");
        let guest = host.guest(name, link, &format!("10.79.{id}.11/24"), None);
        host.ip(&format!("link set {link} master br{id}"));
        guest
    };
    let (first, second) = (guest("g1", "tap1", 10), guest("g2", "veth2", 20));
    share_address(&first, &second);
    for attachment in attachments(a) {
        let datapath = attach(a, Some(attachment), &["tap*", "veth*"]);
        until(&datapath, 2);
        belongs(&datapath, [0, 0], || exchange(&first, b, "10.79.10.2"));
        belongs(&datapath, [1, 1], || exchange(&second, b, "10.79.20.2"));
        belongs(&datapath, [1, 1], || exchange(b, &second, "10.79.20.11"));
        belongs(&datapath, [2, 2], || exchange(a, b, "10.77.0.2"));
        datapath.remove().expect("removed");
    }
}

/// The host translates the addresses of guests: what they send is theirs, what they receive has the host's address.
#[test]
fn guests_behind_address_translation_are_found_when_they_send() {
    if skipped() {
        return;
    }
    let host = Host::new("u9");
    let (a, b) = (&host.cable.a, &host.cable.b);
    if lacks("nft", ran(a, "nft", "add table ip weir")) {
        return;
    }
    let on = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
    a.run(on).expect("enter").expect("forwarding");
    for rule in [
        "add chain ip weir post { type nat hook postrouting priority 100 ; }",
        "add rule ip weir post oifname eth masquerade",
    ] {
        assert_eq!(ran(a, "nft", rule), Some(true), "{rule}");
    }
    let own = host.guest("g1", "tap1", "10.78.1.2/24", Some("10.78.1.1"));
    host.ip("addr add 10.78.1.1/24 dev tap1");
    host.ip("link add br0 type bridge forward_delay 0");
    host.ip("link set br0 up");
    host.ip("addr add 10.78.2.1/24 dev br0");
    let behind = host.guest("g2", "veth2", "10.78.2.2/24", Some("10.78.2.1"));
    host.ip("link set veth2 master br0");
    for attachment in attachments(a) {
        let datapath = attach(a, Some(attachment), &["tap*", "veth*"]);
        until(&datapath, 2);
        belongs(&datapath, [0, 2], || exchange(&own, b, "10.77.0.2"));
        belongs(&datapath, [1, 2], || exchange(&behind, b, "10.77.0.2"));
        belongs(&datapath, [2, 2], || exchange(a, b, "10.77.0.2"));
        datapath.remove().expect("removed");
    }
}

/// A tunnel of the host carries the packets of a guest: those that it sends are its own, and the agent reports that no
/// received packet can be.
#[test]
fn guests_behind_a_tunnel_are_found_when_they_send() {
    if skipped() {
        return;
    }
    let host = Host::new("v1");
    let (a, b) = (&host.cable.a, &host.cable.b);
    let tunnel = |local: u8| {
        let ends = format!("local 10.77.0.{local} remote 10.77.0.{}", 3 - local);
        format!("link add vx type vxlan id 5 dstport 4789 {ends} dev eth")
    };
    if lacks("VXLAN", ran(b, "ip", &tunnel(2))) {
        return;
    }
    b.ip_batch("addr add 10.79.0.2/24 dev vx\nlink set vx up\n").expect("a tunnel");
    host.ip(&tunnel(1));
    host.cable.a.ip_batch("link add br0 type bridge forward_delay 0\nlink set br0 up\n").expect("a bridge");
    host.ip("link set vx master br0 up");
    let guest = host.bridged_guest("g1", "tap1", "10.79.0.11/24");
    // With room for the outer headers.
    guest.ip(["link", "set", "eth", "mtu", "1400"]).expect("set");
    for attachment in attachments(a) {
        let mut datapath = attach(a, Some(attachment), &["tap*", "veth*"]);
        until(&datapath, 1);
        belongs(&datapath, [0, 2], || exchange(&guest, b, "10.79.0.2"));
        belongs(&datapath, [0, 2], || exchange(b, &guest, "10.79.0.11"));
        let missed = |datapath: &InterfaceDatapath| datapath.guest_reading().expect("it runs").expect("globs").missed;
        let expected = "packets to tap1 arrive in the tunnel vx: match its `vni`";
        assert_eq!(missed(&datapath).as_deref(), Some(expected));
        set(&mut datapath, &["none*"]);
        assert_eq!(missed(&datapath), None);
        datapath.remove().expect("removed");
    }
}

/// A guest that sends with the hardware address of another one stays in its own service. The bridge then forwards
/// packets to that address to it, and these are in its service, too, until the other guest sends again.
#[test]
fn forged_addresses_move_no_packet_to_another_service() {
    if skipped() {
        return;
    }
    let host = Host::bridged("u4");
    let (a, b) = (&host.cable.a, &host.cable.b);
    let victim = host.bridged_guest("g1", "tap1", "10.77.0.11/24");
    let forger = host.bridged_guest("g2", "veth2", "10.77.0.12/24");
    let datapath = attach(a, None, &["tap*", "veth*"]);
    until(&datapath, 2);
    belongs(&datapath, [0, 0], || exchange(&victim, b, "10.77.0.2"));
    let hardware = |netns: &Netns| {
        let shown = netns.ip(["-br", "link", "show", "eth"]).expect("ip");
        shown.split_whitespace().nth(2).expect("an address").to_owned()
    };
    let address = hardware(&victim);
    victim.ip(["link", "set", "eth", "down"]).expect("down");
    for command in ["down", &format!("address {address}"), "up"] {
        let arguments = ["link", "set", "eth"].into_iter().chain(command.split(' '));
        forger.ip(arguments).expect("set");
    }
    assert_eq!(hardware(&forger), address);
    belongs(&datapath, [1, 1], || exchange(&forger, b, "10.77.0.2"));
    forger.ip(["link", "set", "eth", "down"]).expect("down");
    victim.ip(["link", "set", "eth", "up"]).expect("up");
    belongs(&datapath, [0, 0], || exchange(&victim, b, "10.77.0.2"));
}

/// The time of a start with 500 guests, and of following 100 more.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test on real interfaces measures real time")]
fn hundreds_of_guests_are_followed_at_once() {
    if skipped() {
        return;
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set, and there is no /dev/net/tun");
        eprintln!("skipped: hundreds of guests need /dev/net/tun");
        return;
    }
    let host = Host::bridged("u5");
    let add = |numbers: std::ops::Range<u32>| {
        let lines =
            numbers.map(|i| format!("tuntap add tap{i} mode tap\nlink set tap{i} master br0\nlink set tap{i} up\n"));
        host.cable.a.ip_batch(&lines.collect::<String>()).expect("interfaces");
    };
    add(0..500);
    let begin = Instant::now();
    let mut datapath = attach(&host.cable.a, None, &["tap*", "veth*"]);
    let started = begin.elapsed();
    until(&datapath, 500);
    let begin = Instant::now();
    set(&mut datapath, &["tap1*", "tap*"]);
    let reloaded = begin.elapsed();
    until(&datapath, 500);
    add(500..600);
    let begin = Instant::now();
    until(&datapath, 600);
    let last = begin.elapsed();
    let frame = common::frames::udp(
        common::frames::ethernet(false, false),
        common::frames::address(2, false),
        common::frames::address(1, false),
        (40_000, 7000),
    );
    let mut cost = |globs: &[&str]| {
        set(&mut datapath, globs);
        let runs = (0..5).map(|_| datapath.cost(Direction::Rx, &frame, 100_000).expect("run"));
        runs.min().expect("five")
    };
    println!("a received packet of no guest: {:?}, without filters by interface {:?}", cost(&["tap*"]), cost(&[]));
    println!("start {started:?}, reload {reloaded:?}, the last guest {last:?} after it was made");
    set(&mut datapath, &["tap1*", "tap*"]);
    assert!(started < Duration::from_secs(5) && reloaded < Duration::from_secs(2), "{started:?} {reloaded:?}");
    let lines: String = (0..600).map(|i| format!("link del tap{i}\n")).collect();
    host.cable.a.ip_batch(&lines).expect("deleted");
    until(&datapath, 0);
}
