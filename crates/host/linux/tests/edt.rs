//! Services limited by departure times over fq, on kernels that have fq: those of `make test-edt`.
//! Rates are low, since the machine is emulated.

mod common;

use common::{Cable, interface, pause, skipped, within};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_datapath::{Classifier, SipKey};
use weir_linux::class::Sending;
use weir_linux::edt_shaper::{EdtShaper, Egress};
use weir_linux::htb::HtbTree;
use weir_linux::htb_shaper::HtbShaper;
use weir_linux::loader::InterfaceDatapath;
use weir_linux::netns::Netns;
use weir_linux::settings::{Classes, ControlSettings, FeedbackKey};
use weir_linux::shaper::{Backend, ServiceRate, Shaper, ShaperError, choose, probe};
use weir_linux::tc::Found;
use weir_policy::Policy;
use weir_shaping::ShaperConfig;
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, ServiceId};

const BULK: ServiceId = ServiceId(0);
const WEB: ServiceId = ServiceId(1);

/// Measurements share the processors: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True, with a line that names the reason, where departure times have no effect.
fn skipped_here() -> bool {
    if skipped() {
        return true;
    }
    match choose(&probe(), Some(Backend::Edt)) {
        Ok(_) => false,
        Err(error) => {
            let line = format!("skipped: {error}\n");
            std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("standard error takes a line");
            true
        }
    }
}

/// `a` sends, `b` receives; services are the ports 7000 (`bulk`) and 7001 (`web`).
fn policy(nic: &str, bulk: &str, web: &str) -> Policy {
    let text = format!(
        "weir: 1
network:
  nic: {nic}
  racks: {{ r: {{ uplink: {nic}, machines: [a, b] }} }}
services:
  bulk: {{ match: [ {{ port: 7000 }} ]{bulk} }}
  web: {{ match: [ {{ port: 7001 }} ]{web} }}
"
    );
    match Policy::parse("p.yaml", &text) {
        Ok((policy, _)) => policy,
        Err(errors) => panic!("{errors}"),
    }
}

/// The programs of a host, which measure and send feedback; `rules` sets their classes later.
fn programs(policy: &Policy, machine: MachineId, timeout: u64) -> InterfaceDatapath {
    let mut datapath = InterfaceDatapath::attach(&interface(), None).expect("attach");
    let services = policy.services();
    datapath.set_slots(services.leaves().map(|(id, service)| (id, service.path()))).expect("slots");
    let sending = Sending::over(&interface()).expect("offloads");
    datapath.set_shaper(policy, machine, &ShaperConfig::parley(policy, None, None), sending).expect("the shaper");
    datapath.set_keys(&[FeedbackKey { id: 7, key: SipKey::new(*b"sixteen bytes ok") }]).expect("keys");
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
    datapath
}

fn rules(policy: &Policy, datapath: &mut InterfaceDatapath, classes: Classes) {
    let classifier = Classifier::of(policy, Some("eth")).expect("supported");
    datapath.set_rules(&classifier, classes).expect("rules");
}

/// The services' sending rates by the static policy.
fn rates(policy: &Policy, machine: MachineId, datapath: &InterfaceDatapath) -> Vec<ServiceRate> {
    let nic = policy.machine_capacity(machine, Direction::Tx);
    let rate = |(id, _)| {
        let max = policy.machine_ceiling(id, Direction::Tx).min(nic);
        let share = policy.services().get(id).share(ContentionPoint::Machine, Direction::Tx);
        let slot = datapath.slot(id).expect("a slot");
        ServiceRate {
            service: id,
            slot,
            min: share.min,
            max,
            machine_max: max,
            static_limit: max,
            weight: share.weight,
        }
    };
    policy.services().leaves().map(rate).collect()
}

/// The sender, limited by departure times.
struct Host {
    datapath: InterfaceDatapath,
    shaper: EdtShaper,
    rates: Vec<ServiceRate>,
}

fn shaper(policy: &Policy, datapath: &InterfaceDatapath, force: bool) -> Result<EdtShaper, ShaperError> {
    let nic = policy.machine_capacity(MachineId(0), Direction::Tx);
    let (rates, sending) = (rates(policy, MachineId(0), datapath), Sending::over(&interface()).expect("offloads"));
    let egress =
        Egress { nic, shared: Backend::Edt.shared(nic), sharing: policy.sharing(), levels: &[], levelled: &[] };
    EdtShaper::install(&interface(), datapath, &egress, &rates, sending, force)
}

impl Host {
    fn new(policy: &Policy, timeout: u64) -> Self {
        let mut datapath = programs(policy, MachineId(0), timeout);
        let shaper = shaper(policy, &datapath, false).expect("fq");
        rules(policy, &mut datapath, Classes::Edt);
        let rates = rates(policy, MachineId(0), &datapath);
        Self { datapath, shaper, rates }
    }

    fn limit(&mut self, service: ServiceId, mbps: u64) {
        let rate = self.rates.iter_mut().find(|rate| rate.service == service).expect("a service");
        rate.max = Bandwidth::from_mbps(mbps).min(rate.machine_max);
        self.shaper.set(&self.rates).expect("rates");
    }

    fn remove(self) {
        self.datapath.remove().expect("programs");
        Box::new(self.shaper).remove().expect("fq");
    }

    /// Dies.
    fn leave(self) {
        self.datapath.leave();
        Box::new(self.shaper).leave();
    }
}

/// The receiver: counts only.
fn counter(policy: &Policy) -> InterfaceDatapath {
    let mut datapath = InterfaceDatapath::attach(&interface(), None).expect("attach");
    let services = policy.services();
    datapath.set_slots(services.leaves().map(|(id, service)| (id, service.path()))).expect("slots");
    rules(policy, &mut datapath, Classes::None);
    datapath
}

fn cable(name: &str) -> Cable {
    let cable = Cable::new(name);
    // Emulation reaches the rates with few large buffers.
    cable.set_offloads(true);
    cable
}

/// The rates at which these services arrive, in Mb/s of frames, over `seconds`.
#[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
fn arriving(at: &InterfaceDatapath, services: &[ServiceId], seconds: f64) -> Vec<f64> {
    let read = |service: &ServiceId| at.totals(Some(*service)).expect("meters").rx.bytes().get();
    let (start, before): (_, Vec<u64>) = (std::time::Instant::now(), services.iter().map(read).collect());
    pause(Duration::from_secs_f64(seconds));
    let after: Vec<u64> = services.iter().map(read).collect();
    let seconds = start.elapsed().as_secs_f64();
    after.iter().zip(before).map(|(after, before)| (after - before) as f64 * 8.0 / 1e6 / seconds).collect()
}

/// The rate at which frames leave `a` by the qdisc at its root, in Mb/s of frames, over `seconds`:
/// by fq's own counters, not by the programs'.
fn leaving(cable: &Cable, seconds: f64) -> f64 {
    leaving_while(cable, seconds, || ())
}

/// The same, with something to do four times a second.
#[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
fn leaving_while(cable: &Cable, seconds: f64, mut work: impl FnMut()) -> f64 {
    let read = || -> u64 {
        let text = tc(&cable.a, "-s qdisc show dev eth root");
        let sent = text.split_once("Sent ").and_then(|(_, rest)| rest.split(' ').next());
        sent.and_then(|bytes| bytes.parse().ok()).unwrap_or_else(|| panic!("no bytes in {text}"))
    };
    // Both times are taken after the reading, which takes a tenth of a second under emulation.
    let before = read();
    let start = std::time::Instant::now();
    while start.elapsed().as_secs_f64() < seconds {
        work();
        pause(Duration::from_millis(250));
    }
    let after = read();
    (after - before) as f64 * 8.0 / 1e6 / start.elapsed().as_secs_f64()
}

#[track_caller]
/// Ends a client.
fn end(mut client: Child) {
    client.kill().expect("kill");
    client.wait().expect("the client");
}

/// A thread that sends datagrams from `a` as fast as its socket takes them, until it is stopped.
struct Datagrams {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Datagrams {
    /// `buffer` is what the socket lets wait, beyond what it may be otherwise.
    #[expect(clippy::disallowed_methods, reason = "traffic that goes on while it is measured")]
    fn start(cable: &Cable, port: u16, buffer: Option<i32>) -> Self {
        let socket = cable.a.run(|| UdpSocket::bind("10.77.0.1:0").expect("a socket")).expect("enter");
        if let Some(bytes) = buffer {
            let (at, size) = ((&raw const bytes).cast(), size_of::<i32>() as libc::socklen_t);
            // SAFETY: the option is an int and its size is given.
            let set = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, at, size) };
            assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        }
        socket.connect(("10.77.0.2", port)).expect("connect");
        socket.set_write_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&stop);
        let run = move || {
            while !ends.load(Ordering::Relaxed) {
                // `send` fails without a listening socket, and with ENOBUFS after a drop.
                let _ = socket.send(&[0; 1400]);
            }
        };
        Self { stop, thread: Some(std::thread::spawn(run)) }
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the sender");
        }
    }
}

fn tc(netns: &Netns, arguments: &str) -> String {
    let output = netns.command("tc").expect("tc").args(arguments.split_whitespace()).output().expect("tc");
    String::from_utf8(output.stdout).expect("text")
}

/// All that is on the interface; not the link's state, which follows the carrier.
fn state(netns: &Netns) -> String {
    let filters = tc(netns, "filter show dev eth egress") + &tc(netns, "filter show dev eth ingress");
    tc(netns, "qdisc show dev eth") + &filters
}

#[test]
fn service_is_rate_limited() {
    if skipped_here() {
        return;
    }
    let _alone = alone();
    let cable = cable("e1");
    let policy = policy("1Gb/s", "", "");
    let mut a = cable.a.run(|| Host::new(&policy, 3_600_000)).expect("enter");
    a.limit(BULK, 20);
    let _server = cable.server(7000);
    let client = cable.client(7000, "30");
    pause(Duration::from_secs(2));
    within(leaving(&cable, 3.0), 20.0, 5.0);
    a.limit(BULK, 10);
    pause(Duration::from_secs(1));
    within(leaving(&cable, 2.0), 10.0, 5.0);
    end(client);
    let refused = |a: &Host| a.datapath.counts().expect("counters").beyond_horizon;
    println!("TCP had to wait {} times", refused(&a));
    a.limit(BULK, 20);
    {
        let _datagrams = Datagrams::start(&cable, 7000, None);
        pause(Duration::from_millis(500));
        within(leaving(&cable, 2.0), 20.0, 5.0);
        assert!(a.datapath.has_departures(BULK).expect("the service's state"), "datagrams wait for 20 Mb/s");
    }
    pause(Duration::from_millis(500));
    assert!(!a.datapath.has_departures(BULK).expect("the service's state"), "the last datagram has left");
    println!("and datagrams: {}", refused(&a));
    assert_eq!(a.shaper.fq_drops().expect("fq"), 0);
    let queues = a.shaper.queues().expect("queues");
    assert!(queues[0].sent.get() > 10_000_000, "{queues:?}");
}

#[test]
fn packets_beyond_the_horizon_are_dropped() {
    if skipped_here() {
        return;
    }
    let _alone = alone();
    let cable = cable("e2");
    let policy = policy("1Gb/s", "", "");
    let mut a = cable.a.run(|| Host::new(&policy, 3_600_000)).expect("enter");
    a.limit(BULK, 5);
    // Six seconds' worth may wait in the socket; behind a service's limiter a fourth of a second's,
    // two buffers of 71 kB.
    let datagrams = Datagrams::start(&cable, 7000, Some(4_000_000));
    pause(Duration::from_secs(1));
    within(leaving(&cable, 2.0), 5.0, 5.0);
    let waiting = a.shaper.queues().expect("queues")[0].backlog;
    drop(datagrams);
    let dropped = a.datapath.counts().expect("counters").beyond_horizon;
    let queue = a.shaper.queues().expect("queues")[0];
    println!("{dropped} beyond the horizon, {waiting} waiting");
    assert!(dropped > 100 && queue.drops == dropped, "{queue:?}");
    assert!((100_000..200_000).contains(&waiting.get()), "{waiting}");
    assert_eq!(a.shaper.fq_drops().expect("fq"), 0);
}

#[test]
fn services_share_the_interface_by_the_policy() {
    if skipped_here() {
        return;
    }
    let _alone = alone();
    let cable = cable("e3");
    // `bulk` hands over as much as it can, in datagrams and by four connections.
    let policy = policy("20Mb/s", "", ", machine: { weight: 3 }");
    let a = cable.a.run(|| Host::new(&policy, 3_600_000)).expect("enter");
    let b = cable.b.run(|| counter(&policy)).expect("enter");
    let _servers = [cable.server(7000), cable.server(7001)];
    let bulk = cable
        .a
        .command("iperf3")
        .expect("iperf3")
        .args(["-c", "10.77.0.2", "-p", "7000"])
        .args(["-P", "4", "-t", "60", "-J"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("iperf3");
    pause(Duration::from_secs(2));
    // Alone it has it all.
    within(arriving(&b, &[BULK], 2.0)[0], 20.0, 5.0);
    let web = cable.client(7001, "60");
    pause(Duration::from_secs(2));
    let both = arriving(&b, &[BULK, WEB], 5.0);
    println!("{both:?}, {:?}", a.shaper.egress().expect("a level"));
    end(web);
    end(bulk);
    within(both[0] + both[1], 20.0, 5.0);
    within(both[1], 15.0, 5.0);
}

#[test]
fn feedback_limits_senders_without_user_space() {
    if skipped_here() {
        return;
    }
    let _alone = alone();
    let cable = Cable::new("e4");
    let before = (state(&cable.a), state(&cable.b));
    let policy = policy("100Mb/s", ", machine: { rx: { max: 5Mb/s } }", "");
    cable.a.run(|| Host::new(&policy, 3_600_000).leave()).expect("enter");
    let receiver = || {
        let mut datapath = programs(&policy, MachineId(1), 3_600_000);
        rules(&policy, &mut datapath, Classes::None);
        datapath.leave();
    };
    cable.b.run(receiver).expect("enter");
    // No process holds anything of it now.
    let _server = cable.server(7000);
    let client = cable.client(7000, "60");
    // Windows are of 97 ms at 5 Mb/s; thirty of them.
    pause(Duration::from_secs(6));
    let mut b = cable.b.run(|| InterfaceDatapath::attach(&interface(), None).expect("adopt")).expect("enter");
    b.set_slots(policy.services().leaves().map(|(id, service)| (id, service.path()))).expect("slots");
    let came = arriving(&b, &[BULK], 4.0)[0];
    end(client);
    within(came, 5.0, 5.0);
    b.remove().expect("programs");
    let removed = || {
        let a = InterfaceDatapath::attach(&interface(), None).expect("adopt");
        let counts = a.counts().expect("counters");
        println!("{counts:?}");
        assert!(counts.feedback_accepted > 10 && counts.feedback_forged == 0, "{counts:?}");
        a.remove().expect("programs");
        assert!(HtbTree::remove_leftover(&interface()).expect("fq"), "fq was there");
    };
    cable.a.run(removed).expect("enter");
    assert_eq!((state(&cable.a), state(&cable.b)), before);
}

#[test]
fn kernel_applies_the_static_policy_without_an_agent() {
    if skipped_here() {
        return;
    }
    let _alone = alone();
    let cable = cable("e5");
    let policy = policy("1Gb/s", ", machine: { max: 20Mb/s }", "");
    let mut a = cable.a.run(|| Host::new(&policy, 1_500)).expect("enter");
    a.limit(BULK, 5);
    let _server = cable.server(7000);
    let client = cable.client(7000, "60");
    let alive = |seconds: f64, a: &mut Host| leaving_while(&cable, seconds, || a.datapath.heartbeat().expect("alive"));
    alive(1.0, &mut a);
    within(alive(3.0, &mut a), 5.0, 5.0);
    // An emulated machine may have taken longer than the timeout to get here.
    let before = a.datapath.timer().expect("the timer");
    assert!(!before.fallback);
    // No heartbeat arrives any more.
    pause(Duration::from_secs(3));
    let silent = a.datapath.timer().expect("the timer");
    assert_eq!((silent.fallback, silent.fallbacks), (true, before.fallbacks + 1));
    within(leaving(&cable, 3.0), 20.0, 5.0);
    alive(1.0, &mut a);
    within(alive(3.0, &mut a), 5.0, 5.0);
    assert!(!a.datapath.timer().expect("the timer").fallback);
    end(client);
}

#[test]
fn removal_leaves_nothing_and_a_killed_agent_is_succeeded() {
    if skipped_here() {
        return;
    }
    let _alone = alone();
    let cable = cable("e6");
    let before = state(&cable.a);
    let policy = policy("100Mb/s", "", "");
    let new = || Host::new(&policy, 3_600_000);
    let first = cable.a.run(new).expect("enter");
    assert_eq!(first.shaper.found(), Some(&Found::Default("noqueue".into())));
    let during = tc(&cable.a, "qdisc show dev eth");
    assert!(during.contains("qdisc fq 7765: root") && during.contains("flow_limit 1000000p"), "{during}");
    cable.a.run(|| first.remove()).expect("enter");
    assert_eq!(state(&cable.a), before);
    cable.a.run(|| drop(new())).expect("enter");
    assert_eq!(state(&cable.a), before, "dropping removes as well");
    // Killed, with a limit in force.
    let killed = || {
        let mut host = new();
        host.limit(BULK, 5);
        host.leave();
    };
    cable.a.run(killed).expect("enter");
    {
        let _datagrams = Datagrams::start(&cable, 7000, None);
        pause(Duration::from_millis(500));
        within(leaving(&cable, 2.0), 5.0, 5.0);
        let second = cable.a.run(new).expect("enter");
        assert!(second.datapath.is_adopted());
        assert_eq!(second.shaper.found(), Some(&Found::Leftover));
        pause(Duration::from_millis(500));
        // This one has no limit; 20 Mb/s are within emulation's reach, and far from 5.
        assert!(leaving(&cable, 1.0) > 8.0, "the new agent's rates are in force");
        cable.a.run(|| second.remove()).expect("enter");
    }
    assert_eq!(state(&cable.a), before);
}

#[test]
fn backends_replace_each_other_and_no_foreign_qdisc() {
    if skipped_here() {
        return;
    }
    let _alone = alone();
    let cable = cable("e7");
    let before = state(&cable.a);
    let policy = policy("100Mb/s", "", "");
    let work = || {
        let mut datapath = programs(&policy, MachineId(0), 3_600_000);
        let (nic, sending) = (Bandwidth::from_mbps(100), Sending::over(&interface()).expect("offloads"));
        let rates = rates(&policy, MachineId(0), &datapath);
        let htb = || HtbShaper::install(&interface(), nic, &rates, &[], &[], sending, false).expect("htb");
        Box::new(htb()).leave();
        let edt = shaper(&policy, &datapath, false).expect("fq");
        assert_eq!(edt.found(), Some(&Found::OtherBackend));
        rules(&policy, &mut datapath, Classes::Edt);
        Box::new(edt).leave();
        rules(&policy, &mut datapath, Classes::Htb);
        let htb = htb();
        assert!(tc(&cable.a, "qdisc show dev eth").contains("htb 7765: root"));
        datapath.remove().expect("programs");
        Box::new(htb).remove().expect("htb");
    };
    cable.a.run(work).expect("enter");
    assert_eq!(state(&cable.a), before);
    // A foreign fq is not changed.
    tc(&cable.a, "qdisc add dev eth root handle 1: fq");
    let refused = || {
        let datapath = programs(&policy, MachineId(0), 3_600_000);
        let refused = shaper(&policy, &datapath, false).expect_err("a foreign qdisc");
        assert!(matches!(&refused, ShaperError::Foreign(foreign) if foreign.found.to_string() == "fq 1:"), "{refused}");
        assert!(tc(&cable.a, "qdisc show dev eth").contains("fq 1: root"));
        let forced = shaper(&policy, &datapath, true).expect("forced");
        datapath.remove().expect("programs");
        Box::new(forced).remove().expect("fq");
    };
    cable.a.run(refused).expect("enter");
    assert_eq!(state(&cable.a), before);
}
