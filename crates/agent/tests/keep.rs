//! What an agent that keeps everything leaves behind when it does not end by a signal, and what the next one makes of it.
#![expect(clippy::disallowed_methods, reason = "a test of a real daemon waits in real time")]

use std::cell::Cell;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use weir_agent::{AgentConfig, AgentError, DEFAULT_PORT, Source, Terms, host};
use weir_control::RackBrokerConfig;
use weir_linux::interface::Interface;
use weir_linux::loader::InterfaceDatapath;
use weir_linux::netns::{Prefix, connect};
use weir_linux::requirements::{Purpose, check};
use weir_policy::Policy;
use weir_units::{Bandwidth, MachineId, PerDirection, ServiceId};
use weir_wire::{Key, Keys};

/// What goes wrong in a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Panic,
    /// Nothing can be opened any more, as if the process had as many files as it may have.
    NoFiles,
}

struct Faulty {
    terms: Terms,
    fault: Fault,
    files: Rc<Cell<Option<libc::rlimit>>>,
}

impl Source for Faulty {
    fn terms(&self) -> Result<Terms, String> {
        assert!(self.fault != Fault::Panic, "this panic is a test's");
        // SAFETY: plain system calls with a structure that lives meanwhile.
        unsafe {
            let mut limit = std::mem::zeroed();
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
            self.files.set(Some(limit));
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &libc::rlimit { rlim_cur: 3, ..limit }), 0);
        }
        Ok(self.terms.clone())
    }

    fn next_epoch(&self) -> io::Result<u64> {
        Ok(2)
    }
}

/// Runs an agent until its reload fails; what it said, or nothing after a panic.
fn run(fault: Fault, keep: bool) -> Option<Result<(), AgentError>> {
    let text = "weir: 1\nnetwork: { nic: 100Mb/s, racks: { r: { uplink: 100Mb/s, machines: [m1] } } }\n\
                services: { a: { match: [ { protocol: udp, port: 5001 } ], machine: { max: 20Mb/s } } }\n";
    let keys = Keys::new(vec![Key::new([7; 32]).expect("a key")]).expect("keys");
    let terms = Terms {
        policy: Arc::new(Policy::parse("policy.yaml", text).expect("valid").0),
        machine: MachineId(0),
        listen: ([10, 78, 0, 1], DEFAULT_PORT).into(),
        peers: vec![],
        keys,
    };
    let files = Rc::new(Cell::new(None));
    let config = AgentConfig {
        source: Box::new(Faulty { terms: terms.clone(), fault, files: Rc::clone(&files) }),
        terms,
        interface: "eth0".into(),
        epoch: 1,
        broker: RackBrokerConfig::default(),
        backend: None,
        force: false,
        status: None,
        metrics: None,
        keep,
        fabric: None,
    };
    let done = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Before the agent listens for it the signal is ignored.
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

/// Signals are the whole process's.
static TURN: Mutex<()> = Mutex::new(());

/// Until an agent listens for them. Once: it puts its handler there only the first time.
fn ignore_hangups() {
    static IGNORED: Once = Once::new();
    // SAFETY: plain system call.
    IGNORED.call_once(|| unsafe {
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
    });
}

#[test]
fn limits_end_with_the_time_that_they_hold_without_an_agent() {
    if !check(Purpose::Lab).is_empty() {
        assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set, and this cannot run");
        let line = "skipped: limits that an agent finds need root and Linux's network parts\n";
        std::io::stderr().write_all(line.as_bytes()).expect("standard error takes a line");
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    ignore_hangups();
    let prefix = Prefix::new("wkq").expect("a prefix");
    prefix.cleanup().expect("leftovers of an earlier run go");
    let (m1, m2) = (prefix.create("m1").expect("made"), prefix.create("m2").expect("made"));
    connect((&m1, "eth0", Some("10.78.0.1/24")), (&m2, "eth0", None)).expect("connected");
    let limit = PerDirection { tx: Bandwidth::from_mbps(5), rx: Bandwidth::from_mbps(7) };
    // An agent that dies leaves what its successor would find; what is written there is what brokers had said.
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
        inside(&|datapath| *found.lock().expect("nobody panicked") = datapath.limits().expect("read").first().copied());
        found.into_inner().expect("nobody panicked").expect("a service").1
    };
    let dies = || {
        let ended = m1.run(|| run(Fault::Panic, true)).expect("inside");
        assert!(ended.is_none(), "{ended:?}");
    };
    dies();
    limited();
    dies();
    assert_eq!(found(), limit, "within the time they hold on");
    limited();
    std::thread::sleep(std::time::Duration::from_millis(5500));
    dies();
    let unlimited = PerDirection { tx: Bandwidth::UNLIMITED, rx: Bandwidth::UNLIMITED };
    assert_eq!(found(), unlimited, "the kernel had gone back to the static policy");
    assert!(m1.run(|| host::remove("eth0")).expect("inside").expect("removed"));
}

#[test]
fn a_panic_and_an_error_leave_in_force_what_a_kill_would() {
    let missing = check(Purpose::Lab);
    if !missing.is_empty() {
        assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set, and this cannot run");
        let line = "skipped: an agent that panics needs root and Linux's network parts\n";
        std::io::stderr().write_all(line.as_bytes()).expect("standard error takes a line");
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
    // An agent that cannot begin, here since somebody took the root, leaves the kernel's part of the one before.
    assert!(m1.run(|| run(Fault::Panic, true)).expect("inside").is_none());
    let tc = |arguments: &str| {
        let mut command = m1.command("tc").expect("a command");
        assert!(command.args(arguments.split(' ')).status().expect("runs").success(), "tc {arguments}");
    };
    tc("qdisc replace dev eth0 root bfifo limit 100000");
    let refused = m1.run(|| run(Fault::Panic, true)).expect("inside").expect("no panic");
    let said = refused.expect_err("the root is somebody's").to_string();
    assert!(said.contains("bfifo"), "{said}");
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
