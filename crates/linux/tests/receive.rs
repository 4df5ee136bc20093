//! The receive loop in the kernel: packets are counted by every CPU, the timer runs the law, answers go back, senders are held.

mod common;

use common::{Cable, interface, pause, received, skipped};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_datapath::{Classifier, ShaperConfig, SipKey};
use weir_linux::class::Sending;
use weir_linux::destinations::Destinations;
use weir_linux::htb_shaper::HtbShaper;
use weir_linux::loader::InterfaceDatapath;
use weir_linux::settings::{Classes, ControlSettings, FeedbackKey};
use weir_linux::shaper::{ServiceRate, Shaper};
use weir_policy::Policy;
use weir_units::{Bandwidth, Direction, MachineId, ServiceId};

fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `a` sends, `b` receives; services are TCP ports 7000 (`bulk`) and 7001 (`web`).
fn policy(receiver: &str) -> Policy {
    let text = format!(
        "weir: 1
network:
  nic: 1Gb/s
  racks: {{ r: {{ uplink: 1Gb/s, machines: [a, b] }} }}
services:
  bulk: {{ match: [ {{ port: 7000 }} ], {receiver} }}
  web: {{ match: [ {{ port: 7001 }} ] }}
"
    );
    match Policy::parse("p.yaml", &text) {
        Ok((policy, _)) => policy,
        Err(errors) => panic!("{errors}"),
    }
}

const KEY: [u8; 16] = *b"sixteen bytes ok";

/// One host under the policy.
struct Host {
    datapath: InterfaceDatapath,
    shaper: Box<HtbShaper>,
    destinations: Destinations,
    _socket: UdpSocket,
}

impl Host {
    fn new(policy: &Policy, machine: u32, key: [u8; 16]) -> Self {
        let machine = MachineId(machine);
        let mut datapath = InterfaceDatapath::attach(&interface(), None).expect("attach");
        let services = policy.services();
        let classifier = Classifier::new(services.classification_order(), Some("eth")).expect("supported");
        let leaves = services.leaves().map(|(id, service)| (id, service.path()));
        datapath.set_rules(&classifier, leaves, Classes::Htb).expect("rules");
        let shaper = ShaperConfig::parley(policy, None, None);
        datapath.set_shaper(policy, machine, &shaper).expect("the shaper");
        let keys = [FeedbackKey { id: 7, key: SipKey::new(key) }];
        datapath.set_keys(&keys).expect("keys");
        let own: IpAddr = if machine.0 == 0 { "10.77.0.1" } else { "10.77.0.2" }.parse().expect("an address");
        let socket = UdpSocket::bind(SocketAddr::new(own, 30_565)).expect("a socket");
        let control = ControlSettings {
            listen: SocketAddr::new(own, 30_565),
            cookie: weir_linux::settings::cookie(&socket).expect("a cookie"),
            epoch: 1,
            peers: Vec::new(),
            timeout: weir_units::Duration::from_secs(5),
        };
        datapath.set_control(&control).expect("control");
        datapath.tell_alive().expect("alive");
        datapath.start_timer().expect("the timer");
        let nic = policy.machine_capacity(machine, Direction::Tx);
        let rate = |(id, _)| ServiceRate {
            service: id,
            slot: datapath.slot(id).expect("a slot"),
            min: Bandwidth::ZERO,
            max: nic,
            ceiling: nic,
            weight: weir_units::Weight::ONE,
        };
        let rates: Vec<ServiceRate> = services.leaves().map(rate).collect();
        let sending = Sending::over(&interface()).expect("offloads");
        let shaper = HtbShaper::install(&interface(), nic, &rates, &[], sending, false).expect("install");
        let destinations = Destinations::open(&datapath).expect("destinations");
        Self { datapath, shaper: Box::new(shaper), destinations, _socket: socket }
    }

    /// What the agent's thread does.
    fn serve(&mut self) {
        let news = self.destinations.news().expect("news");
        for (destination, class) in self.shaper.hold(&news).expect("classes") {
            self.destinations.set_class(destination, class);
        }
        self.datapath.tell_alive().expect("alive");
    }
}

/// Both hosts, served until `work` is done.
fn with_hosts<T>(cable: &Cable, policy: &Policy, keys: [[u8; 16]; 2], work: impl FnOnce(&Mutex<[Host; 2]>) -> T) -> T {
    let a = cable.a.run(|| Host::new(policy, 0, keys[0])).expect("enter");
    let b = cable.b.run(|| Host::new(policy, 1, keys[1])).expect("enter");
    let hosts = Mutex::new([a, b]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                hosts.lock().expect("not poisoned").iter_mut().for_each(Host::serve);
                pause(Duration::from_millis(1));
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&hosts)));
        done.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn within(measured: f64, expected: f64, percent: f64) {
    println!("{measured:.1} Mb/s of {expected:.1}");
    assert!((measured / expected - 1.0).abs() * 100.0 <= percent, "{measured} is not {expected} ± {percent} %");
}

#[test]
fn a_receiver_holds_its_senders_to_its_limit() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let cable = Cable::new("r1");
    // 100 Mb/s to receive, at a link of 1 Gb/s and T = 2 ms.
    let policy = policy("machine: { rx: { max: 100Mb/s } }");
    with_hosts(&cable, &policy, [KEY; 2], |hosts| {
        let _server = cable.server(7000);
        let goodput = received(cable.client(7000, "3"));
        let hosts = hosts.lock().expect("not poisoned");
        let [a, b] = &*hosts;
        let meter = b.datapath.receive_reading(ServiceId(0)).expect("a meter");
        println!("{meter:?}\n{:?}", b.datapath.timer().expect("the timer"));
        println!("{:?}\n{:?}", a.datapath.control_counters(), b.datapath.control_counters());
        println!("{:?}", a.destinations.readings(weir_units::Duration::from_secs(10)));
        within(goodput, 100.0 * 1448.0 / 1514.0, 5.0);
        let counters = a.datapath.control_counters().expect("counters");
        assert!(counters.feedback > 100 && counters.forged == 0, "{counters:?}");
        assert!(meter.packets > 1000, "packets could be marked");
    });
}
