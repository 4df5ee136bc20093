//! State that an agent with `keep` leaves when it does not end by a signal, and its adoption by the
//! next agent.
#![expect(clippy::disallowed_methods, reason = "a test of a real daemon waits in real time")]

use std::cell::Cell;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use weir_agent::host::{Host, HostContext};
use weir_agent::{AgentConfig, AgentError, DEFAULT_PORT, RuntimeConfig, Source, host};
use weir_control::wire::{Key, Keys};
use weir_control::{LimitRule, RackBrokerConfig, RuntimeLimit};
use weir_linux::interface::Interface;
use weir_linux::loader::InterfaceDatapath;
use weir_linux::netns::{Prefix, connect};
use weir_linux::requirements::{Purpose, check};
use weir_linux::settings::{self, ControlSettings};
use weir_policy::Policy;
use weir_units::{Bandwidth, Direction, MachineId, PerDirection, ServiceId};

/// A fault in a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Panic,
    /// No file can be opened any more, as if the process had reached its limit.
    NoFiles,
}

struct Faulty {
    runtime_config: RuntimeConfig,
    fault: Fault,
    files: Rc<Cell<Option<libc::rlimit>>>,
}

impl Source for Faulty {
    fn runtime_config(&self) -> Result<RuntimeConfig, String> {
        assert!(self.fault != Fault::Panic, "the panic of a test");
        // SAFETY: plain system calls with a structure that lives meanwhile.
        unsafe {
            let mut limit = std::mem::zeroed();
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
            self.files.set(Some(limit));
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &libc::rlimit { rlim_cur: 3, ..limit }), 0);
        }
        Ok(self.runtime_config.clone())
    }

    fn next_epoch(&self) -> io::Result<u64> {
        Ok(2)
    }

    fn raise_epoch(&self, epoch: u64) -> io::Result<()> {
        panic!("no machine sends notices of epoch {epoch}")
    }
}

/// Runs an agent until its reload fails; returns its result, or nothing after a panic.
fn run(fault: Fault, keep: bool) -> Option<Result<(), AgentError>> {
    let text = "weir: 1\nnetwork: { nic: 100Mb/s, racks: { r: { uplink: 100Mb/s, machines: [m1] } } }\n\
                services: { a: { match: [ { protocol: udp, port: 5001 } ], machine: { max: 20Mb/s } } }\n";
    let keys = Keys::new(vec![Key::new([7; 32]).expect("a key")]).expect("keys");
    let runtime_config = RuntimeConfig {
        policy: Arc::new(Policy::parse("policy.yaml", text).expect("valid").0),
        machine: MachineId(0),
        listen: ([10, 78, 0, 1], DEFAULT_PORT).into(),
        peers: vec![],
        keys,
    };
    let files = Rc::new(Cell::new(None));
    let config = AgentConfig {
        source: Box::new(Faulty { runtime_config: runtime_config.clone(), fault, files: Rc::clone(&files) }),
        runtime_config,
        interface: "eth0".into(),
        epoch: 1,
        broker: RackBrokerConfig::default(),
        backend: None,
        credit_period: weir_agent::CREDIT_PERIOD,
        pods: weir_linux::guests::PODS.into(),
        force: false,
        status: None,
        metrics: None,
        keep,
        fabric: None,
        fabric_sockets: Arc::default(),
        tenants: None,
    };
    let done = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The signal is ignored until the agent listens for it.
            while !done.load(Ordering::Relaxed) {
                // SAFETY: plain system call.
                unsafe { libc::raise(libc::SIGHUP) };
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        });
        let ended = catch_unwind(AssertUnwindSafe(|| weir_agent::run(config)));
        done.store(true, Ordering::Relaxed);
        ended
    });
    if let Some(limit) = files.get() {
        // SAFETY: as above.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    }
    ended.ok()
}

/// Signals concern the whole process, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Ignores SIGHUP until an agent listens for it. Once: the agent installs its handler only the
/// first time.
fn ignore_hangups() {
    static IGNORED: Once = Once::new();
    // SAFETY: plain system call.
    IGNORED.call_once(|| unsafe {
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
    });
}

/// Whether this host lacks what the lab needs, which is reported; with WEIR_NO_SKIP that is a failure.
fn is_skipped(what: &str) -> bool {
    let skipped = !check(Purpose::Lab).is_empty();
    if skipped {
        assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set, and this cannot run");
        let line = format!("skipped: {what}: root and Linux's network parts are required\n");
        std::io::stderr().write_all(line.as_bytes()).expect("standard error takes a line");
    }
    skipped
}

#[test]
fn limits_end_after_the_timeout_without_an_agent() {
    if is_skipped("limits that an agent finds") {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    ignore_hangups();
    let prefix = Prefix::new("wkq").expect("a prefix");
    prefix.cleanup().expect("leftovers of an earlier run go");
    let (m1, m2) = (prefix.create("m1").expect("made"), prefix.create("m2").expect("made"));
    connect((&m1, "eth0", Some("10.78.0.1/24")), (&m2, "eth0", None)).expect("connected");
    let limit = PerDirection { tx: Bandwidth::from_mbps(5), rx: Bandwidth::from_mbps(7) };
    // A dead agent leaves the state that its successor finds; the test writes limits of brokers
    // into it.
    let inside = |work: &(dyn Fn(&mut InterfaceDatapath) + Sync)| {
        m1.run(|| {
            let interface = Interface::named("eth0").expect("there");
            let mut datapath = InterfaceDatapath::attach(&interface, None).expect("free");
            assert!(datapath.is_adopted());
            datapath.set_slots([(ServiceId(0), "a")].into_iter()).expect("a slot");
            work(&mut datapath);
            datapath.leave();
        })
        .expect("inside");
    };
    let limited = || {
        inside(&|datapath| {
            datapath.set_limits(&[(ServiceId(0), limit)]).expect("set");
            datapath.heartbeat().expect("a heartbeat");
        });
    };
    let found = || {
        let found = Mutex::new(None);
        inside(&|datapath| *found.lock().expect("no panic") = datapath.limits().expect("read").first().copied());
        found.into_inner().expect("no panic").expect("a service").1
    };
    let dies = || {
        let ended = m1.run(|| run(Fault::Panic, true)).expect("inside");
        assert!(ended.is_none(), "{ended:?}");
    };
    dies();
    limited();
    dies();
    assert_eq!(found(), limit, "within the timeout they stay");
    limited();
    std::thread::sleep(std::time::Duration::from_millis(5500));
    dies();
    let unlimited = PerDirection { tx: Bandwidth::UNLIMITED, rx: Bandwidth::UNLIMITED };
    assert_eq!(found(), unlimited, "the kernel had put the static policy in force");
    assert!(m1.run(|| host::remove("eth0")).expect("inside").expect("removed"));
}

/// A limit of brokers that equals the static policy's is in force all the same: the next agent goes on with it, and an
/// unlimited service has its part of the rack's maximum.
#[test]
fn limit_equal_to_the_static_policys_stays_for_the_next_agent() {
    if is_skipped("limits that an agent finds") {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let prefix = Prefix::new("wkr").expect("a prefix");
    prefix.cleanup().expect("leftovers of an earlier run go");
    let (m1, m2) = (prefix.create("m1").expect("made"), prefix.create("m2").expect("made"));
    connect((&m1, "eth0", Some("10.78.0.1/24")), (&m2, "eth0", None)).expect("connected");
    let text = "weir: 1\nnetwork: { nic: 100Mb/s, racks: { r: { uplink: 100Mb/s, machines: [m1, m2] } } }\n\
                services: { a: { match: [ { protocol: udp, port: 5001 } ], rack: { max: 10Mb/s } } }\n";
    let policy = Arc::new(Policy::parse("policy.yaml", text).expect("valid").0);
    let keys = Keys::new(vec![Key::new([7; 32]).expect("a key")]).expect("keys");
    let half = Bandwidth::from_mbps(5);
    let limit = |limit| RuntimeLimit { service: ServiceId(0), direction: Direction::Tx, limit };
    let hosted = |work: &(dyn Fn(&mut Host) + Sync)| {
        m1.run(|| {
            let socket = std::net::UdpSocket::bind("10.78.0.1:0").expect("bound");
            let control = ControlSettings {
                listen: socket.local_addr().expect("bound"),
                cookie: settings::cookie(&socket).expect("a cookie"),
                epoch: 1,
                peers: Vec::new(),
                timeout: RackBrokerConfig::default().timeout,
            };
            let (rule, machine, backend) = (LimitRule::Ceilings, MachineId(0), None);
            let (tags, reserved) = (None, &[][..]);
            let credit_period = weir_agent::CREDIT_PERIOD;
            let context = HostContext {
                policy: &policy,
                machine,
                keys: &keys,
                rule,
                control,
                fabric: &Arc::default(),
                pods: weir_linux::guests::PODS.as_ref(),
                backend,
                credit_period,
                tags,
                reserved,
            };
            let mut host = Host::install("eth0", &context, false).expect("installed");
            host.keep();
            work(&mut host);
        })
        .expect("inside");
    };
    hosted(&|host| {
        assert_eq!(host.set_limits(&[limit(half)]).expect("set"), [limit(half)]);
    });
    hosted(&|host| {
        assert_eq!(host.limits()[0].tx, half);
        host.set_limits(&[limit(Bandwidth::UNLIMITED)]).expect("set");
        assert_eq!((host.limits()[0].tx, host.send_limits()), (Bandwidth::UNLIMITED, vec![half]));
    });
    assert!(m1.run(|| host::remove("eth0")).expect("inside").expect("removed"));
}

#[test]
fn panic_and_error_leave_the_same_state_as_a_kill() {
    if is_skipped("an agent that panics") {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    ignore_hangups();
    let prefix = Prefix::new("wkp").expect("a prefix");
    prefix.cleanup().expect("leftovers of an earlier run go");
    let (m1, m2) = (prefix.create("m1").expect("made"), prefix.create("m2").expect("made"));
    connect((&m1, "eth0", Some("10.78.0.1/24")), (&m2, "eth0", None)).expect("connected");
    let qdiscs = || {
        let output =
            m1.command("tc").expect("a command").args(["qdisc", "show", "dev", "eth0"]).output().expect("runs");
        String::from_utf8(output.stdout).expect("text")
    };
    for (fault, keep) in [(Fault::Panic, true), (Fault::NoFiles, true), (Fault::Panic, false)] {
        let case = format!("{fault:?}, keep: {keep}");
        let ended = m1.run(|| run(fault, keep)).expect("inside");
        match fault {
            Fault::Panic => assert!(ended.is_none(), "{case}: {ended:?}"),
            Fault::NoFiles => {
                let error = ended.expect("no panic").expect_err("it cannot go on").to_string();
                assert!(error.contains("Too many open files"), "{case}: {error}");
            }
        }
        assert_eq!(qdiscs().contains(" 7765: root"), keep, "{case}: {}", qdiscs());
        let adopted = m1.run(|| {
            let interface = Interface::named("eth0").expect("there");
            let datapath = InterfaceDatapath::attach(&interface, None).expect("free");
            let adopted = datapath.is_adopted();
            datapath.leave();
            adopted
        });
        assert_eq!(adopted.expect("inside"), keep, "{case}");
        assert!(m1.run(|| host::remove("eth0")).expect("inside").expect("removed"), "{case}");
        assert!(!qdiscs().contains("7765:"), "{case}: {}", qdiscs());
    }
    // An agent that cannot start, here since another program has the root, leaves the kernel's part
    // of the earlier one.
    assert!(m1.run(|| run(Fault::Panic, true)).expect("inside").is_none());
    let tc = |arguments: &str| {
        let mut command = m1.command("tc").expect("a command");
        assert!(command.args(arguments.split(' ')).status().expect("runs").success(), "tc {arguments}");
    };
    tc("qdisc replace dev eth0 root bfifo limit 100000");
    let refused = m1.run(|| run(Fault::Panic, true)).expect("inside").expect("no panic");
    let error = refused.expect_err("another program has the root").to_string();
    assert!(error.contains("bfifo"), "{error}");
    let adopted = m1.run(|| {
        let datapath = InterfaceDatapath::attach(&Interface::named("eth0").expect("there"), None).expect("free");
        let adopted = datapath.is_adopted();
        datapath.leave();
        adopted
    });
    assert!(adopted.expect("inside"), "meters and programs go on");
    tc("qdisc del dev eth0 root");
    assert!(m1.run(|| host::remove("eth0")).expect("inside").expect("removed"));
}
