//! A backend in the kernel: real datagrams from one namespace to another, with the times at which they arrive.

use crate::common::frames::{KEY, address, content, ethernet, words};
use crate::common::{Cable, interface, pause};
use crate::scenario::{Arrival, Change, FIRST_ADDRESS, FIRST_PORT, FRAME, Run, Scenario, Step};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_datapath::feedback::headers_ipv4;
use weir_datapath::{Classifier, SipKey};
use weir_linux::class::Sending;
use weir_linux::destinations::Destinations;
use weir_linux::edt_shaper::{EdtShaper, Egress};
use weir_linux::htb_shaper::HtbShaper;
use weir_linux::loader::InterfaceDatapath;
use weir_linux::settings::{Classes, ControlSettings, FeedbackKey};
use weir_linux::shaper::{Backend, ServiceRate, Shaper};
use weir_policy::Policy;
use weir_shaping::ShaperConfig;
use weir_units::{Direction, MachineId};

/// Ethernet, IPv4 and UDP.
const HEADERS: usize = 14 + 20 + 8;
/// More than the bytes that wait in any queue of these tests.
const SOCKET_BUFFER: i32 = 16_000_000;

/// The time whose packets are sent together.
const GROUP: Duration = Duration::from_millis(1);

/// The sender.
struct Sender {
    datapath: InterfaceDatapath,
    destinations: Destinations,
    shaper: Box<dyn Shaper>,
    rates: Vec<ServiceRate>,
    agent: bool,
    sequence: u64,
}

/// Runs a scenario between two namespaces of this name.
#[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
pub(crate) fn run(name: &str, scenario: &Scenario, backend: Backend) -> Run {
    let cable = Cable::new(name);
    let destinations = scenario.offers.iter().map(|offer| offer.destination).max().unwrap_or(0);
    prepare(&cable, destinations);
    let mut sender = cable.a.run(|| Sender::new(scenario, backend)).expect("enter");
    let receiver = Receiver::start(&cable, scenario.services.len() as u16);
    let socket = cable.a.run(|| UdpSocket::bind("10.77.0.1:0").expect("a socket")).expect("enter");
    set_option(&socket, libc::SO_SNDBUFFORCE, SOCKET_BUFFER);
    let (start, start_time) = (Instant::now(), SystemTime::now());
    let mut run = Run { offered: Vec::new(), changed: Vec::new(), arrivals: Vec::new() };
    let mut payload = vec![0; FRAME as usize - HEADERS];
    for (at, step) in scenario.steps() {
        let now = start.elapsed();
        match step {
            // In groups, since a pause is some 0.1 ms longer than it is to be.
            Step::Offer(_) if at > now => pause(at - now + GROUP),
            Step::Change(_) if at > now => pause(at - now),
            _ => {}
        }
        match step {
            Step::Change(change) => {
                cable.a.run(|| sender.apply(change)).expect("enter");
                run.changed.push(start.elapsed());
            }
            Step::Offer(index) => {
                let offer = &scenario.offers[index];
                payload[..4].copy_from_slice(&(index as u32).to_ne_bytes());
                run.offered.push(start.elapsed());
                let to = (address(FIRST_ADDRESS + offer.destination, false), FIRST_PORT + offer.service as u16);
                // A drop in the queue can be an error.
                let _ = socket.send_to(&payload, to);
            }
        }
    }
    pause(scenario.tail);
    let start = start_time.duration_since(UNIX_EPOCH).expect("after 1970");
    run.arrivals = receiver.end(start);
    cable.a.run(|| sender.remove()).expect("enter");
    run
}

/// Gives `b` the addresses of destinations, which `a` finds without resolution.
fn prepare(cable: &Cable, destinations: u8) {
    let links: serde_json::Value =
        serde_json::from_str(&cable.b.ip(["-j", "link", "show", "dev", "eth"]).expect("ip")).expect("JSON");
    let hardware = links[0]["address"].as_str().expect("an address");
    for destination in 0..=destinations {
        let address = address(FIRST_ADDRESS + destination, false).to_string();
        if destination > 0 {
            cable.b.ip(["address", "add", &format!("{address}/24"), "dev", "eth"]).expect("an address");
        }
        let neighbour = ["neighbour", "replace", &address, "lladdr", hardware, "dev", "eth"];
        cable.a.ip(neighbour).expect("a neighbour");
    }
}

impl Sender {
    fn new(scenario: &Scenario, backend: Backend) -> Self {
        let policy = scenario.policy();
        let mut datapath = InterfaceDatapath::attach(&interface(), None).expect("attach");
        let services = policy.services();
        datapath.set_slots(services.leaves().map(|(id, service)| (id, service.path()))).expect("slots");
        let sending = Sending::over(&interface()).expect("offloads");
        let shaper = ShaperConfig::parley(&policy, None, None);
        datapath.set_shaper(&policy, MachineId(0), &shaper, sending).expect("the shaper");
        datapath.set_keys(&[FeedbackKey { id: 7, key: SipKey::new(KEY) }]).expect("keys");
        let timeout = if scenario.agent { 3_600_000 } else { 1 };
        let control = ControlSettings {
            listen: "0.0.0.0:30565".parse().expect("an address"),
            cookie: 0,
            epoch: 1,
            peers: Vec::new(),
            timeout: weir_units::Duration::from_millis(timeout),
        };
        datapath.set_control(&control).expect("control");
        datapath.heartbeat().expect("alive");
        datapath.start_timer().expect("the timer");
        let rates = rates(&policy, &shaper, &datapath, backend);
        let (nic, eth) = (scenario.nic, interface());
        let (classes, shaper): (_, Box<dyn Shaper>) = match backend {
            Backend::Htb => {
                let shaper = HtbShaper::install(&eth, nic, &rates, &[], &[], sending, false).expect("htb");
                (Classes::Htb, Box::new(shaper))
            }
            Backend::Edt => {
                let shared = Backend::Edt.shared(nic);
                let egress = Egress { nic, shared, sharing: policy.sharing(), levels: &[], levelled: &[] };
                let shaper = EdtShaper::install(&eth, &datapath, &egress, &rates, sending, false).expect("fq");
                (Classes::Edt, Box::new(shaper))
            }
        };
        let classifier = Classifier::of(&policy, Some("eth")).expect("supported");
        datapath.set_rules(&classifier, classes).expect("rules");
        let destinations = Destinations::open(&datapath).expect("destinations");
        Self { datapath, destinations, shaper, rates, agent: scenario.agent, sequence: 0 }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Limit(service, rate) => {
                let limited = &mut self.rates[service as usize];
                limited.max = rate.min(limited.machine_max);
                self.shaper.set(&[*limited]).expect("rates");
            }
            Change::Feedback(destination, service, rate) => {
                self.sequence += 1;
                let port = FIRST_PORT + service as u16;
                let [from, to] = [FIRST_ADDRESS + destination, 1].map(|last| words(address(last, false)));
                let body = content(rate.bps(), port, self.sequence, 0).body(&from, &to, &SipKey::new(KEY));
                let frame = [ethernet(false, false), headers_ipv4(&from, &to).to_vec(), body.to_vec()].concat();
                assert_eq!(self.datapath.passed(Direction::Rx, &frame).expect("a test run"), None);
                if self.agent {
                    self.set_classes();
                }
            }
        }
    }

    /// The work of an agent after feedback.
    fn set_classes(&mut self) {
        let events = self.destinations.events().expect("events");
        for (destination, class) in self.shaper.limit_destinations(&events).expect("classes") {
            self.destinations.set_class(destination, class);
        }
    }

    fn remove(self) {
        self.datapath.remove().expect("programs");
        self.shaper.remove().expect("the qdisc");
    }
}

/// The services' sending rates by the static policy.
fn rates(policy: &Policy, shaper: &ShaperConfig, datapath: &InterfaceDatapath, backend: Backend) -> Vec<ServiceRate> {
    let nic = policy.machine_capacity(MachineId(0), Direction::Tx);
    let each = policy.services().leaves().zip(shaper.shares(MachineId(0), Direction::Tx));
    let one = |((id, _), leaf): ((_, _), &weir_shaping::LeafShare)| {
        let max = policy.machine_ceiling(id, Direction::Tx).min(nic);
        ServiceRate {
            service: id,
            slot: datapath.slot(id).expect("a slot"),
            min: backend.guarantee(leaf),
            max,
            machine_max: max,
            static_limit: max,
            weight: leaf.share.weight,
        }
    };
    each.map(one).collect()
}

fn set_option(socket: &UdpSocket, option: i32, value: i32) {
    let (at, size) = ((&raw const value).cast(), size_of::<i32>() as libc::socklen_t);
    // SAFETY: the option is an int and its size is given.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, at, size) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Threads that receive datagrams, with the kernel's times.
struct Receiver {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<(Duration, usize)>>>,
}

impl Receiver {
    #[expect(clippy::disallowed_methods, reason = "traffic that goes on while it is measured")]
    fn start(cable: &Cable, services: u16) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let of = |service: u16| {
            let bind = || UdpSocket::bind(("0.0.0.0", FIRST_PORT + service)).expect("a socket");
            let socket = cable.b.run(bind).expect("enter");
            set_option(&socket, libc::SO_RCVBUFFORCE, SOCKET_BUFFER);
            set_option(&socket, libc::SO_TIMESTAMPNS, 1);
            socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
            let ends = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut all = Vec::new();
                while !ends.load(Ordering::Relaxed) {
                    all.extend(receive(&socket));
                }
                all
            })
        };
        let threads = (0..services).map(of).collect();
        Self { stop, threads }
    }

    /// All packets since `start`, in order of time.
    fn end(self, start: Duration) -> Vec<Arrival> {
        self.stop.store(true, Ordering::Relaxed);
        let all = self.threads.into_iter().flat_map(|thread| thread.join().expect("a receiver"));
        let mut arrivals: Vec<Arrival> =
            all.map(|(at, offer)| Arrival { at: at.saturating_sub(start), offer }).collect();
        arrivals.sort_by_key(|arrival| arrival.at);
        arrivals
    }
}

/// A datagram's time and number, if one arrives in time.
fn receive(socket: &UdpSocket) -> Option<(Duration, usize)> {
    let mut number = [0u8; 4];
    // Of 64 bits, as control messages are aligned.
    let mut control = [0u64; 8];
    let mut part = libc::iovec { iov_base: number.as_mut_ptr().cast(), iov_len: number.len() };
    // SAFETY: zeros are a valid msghdr, and all pointers in it outlive the call.
    let (length, header) = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        (libc::recvmsg(socket.as_raw_fd(), &raw mut header, 0), header)
    };
    if length < 0 {
        return None;
    }
    // SAFETY: the kernel wrote a message of this level and type, whose content is a timespec.
    let time = unsafe {
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        assert!(!message.is_null() && (*message).cmsg_type == libc::SCM_TIMESTAMPNS, "a datagram without a time");
        std::ptr::read_unaligned(libc::CMSG_DATA(message).cast::<libc::timespec>())
    };
    let time = Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
    Some((time, u32::from_ne_bytes(number) as usize))
}
