//! What the tests on real interfaces share: when to skip, two hosts on a cable, real TCP.

#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod frames;
pub(crate) mod groups;

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use weir_linux::netns::{Netns, Prefix, connect};
use weir_linux::requirements::{Purpose, check};

/// True, with a line of output with the reasons, if this host cannot run the tests.
pub(crate) fn skipped() -> bool {
    let missing: Vec<String> = check(Purpose::Lab).iter().map(ToString::to_string).collect();
    if missing.is_empty() {
        return false;
    }
    assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set, and there is no {}", missing.join(" | "));
    // SAFETY: plain system call without arguments.
    let who = if unsafe { libc::geteuid() } == 0 { "what is missing here" } else { "root" };
    // Not by println!, which a passing test swallows.
    let line = format!("skipped: needs {who} ({})\n", missing.join(" | "));
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("standard error takes a line");
    true
}

/// Whether the test shares its processors with others, as in `make test`: shorter, and without
/// assertions that need a quiet machine. Otherwise (`make soak`, or `cargo test`) it runs in full.
pub(crate) fn quick() -> bool {
    std::env::var_os("WEIR_QUICK").is_some()
}

/// Asserts that a measured rate in Mb/s is the expected one within `percent`. On shared processors
/// four tenths may be missing, which `SHARED_LEAST` in crates/front/cli/tests/common derives, and packets
/// that waited up to 100 ms for a processor may add a fifth to a window of half a second.
pub(crate) fn within(measured: f64, expected: f64, percent: f64) {
    println!("{measured:.2} Mb/s of {expected:.2}");
    let (less, more) = if quick() { (40.0, percent.max(20.0)) } else { (percent, percent) };
    let off = (measured / expected - 1.0) * 100.0;
    assert!((-less..=more).contains(&off), "{measured} is not {expected} Mb/s - {less} % + {more} %");
}

/// Two namespaces, `a` at 10.77.0.1 and `b` at 10.77.0.2, joined by a veth pair `eth` - `eth` without offloads.
pub(crate) struct Cable {
    pub(crate) a: Netns,
    pub(crate) b: Netns,
    _name: Name,
}

/// A prefix of one running test: two tests with one prefix would delete each other's namespaces.
struct Name(String);

static IN_USE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

impl Name {
    fn take(name: &str) -> Self {
        let new = IN_USE.lock().unwrap_or_else(PoisonError::into_inner).insert(name.into());
        assert!(new, "the prefix {name} is another test's, which runs now");
        Self(name.into())
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        IN_USE.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

impl Cable {
    /// `test` makes the prefix unique among tests that run at the same time.
    pub(crate) fn new(test: &str) -> Self {
        let name = Name::take(test);
        let prefix = Prefix::new(&format!("wt{test}")).expect("a prefix");
        prefix.cleanup().expect("clean up after an earlier run");
        let a = prefix.create("a").expect("namespace a");
        let b = prefix.create("b").expect("namespace b");
        // No neighbour discovery or router solicitation between the packets that are counted.
        for netns in [&a, &b] {
            let quiet = || std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            netns.run(quiet).expect("enter").expect("IPv6 off");
        }
        connect((&a, "eth", Some("10.77.0.1/24")), (&b, "eth", Some("10.77.0.2/24"))).expect("a cable");
        let cable = Self { a, b, _name: name };
        cable.set_offloads(false);
        // The kernel announces a carrier up to a second late (link watch); until then the interface counts as down.
        let up = |netns: &Netns| netns.ip(["link", "show", "eth"]).expect("ip").contains("state UP");
        assert!((0..1000).any(|_| later(up(&cable.a) && up(&cable.b))), "both ends of the cable are up");
        cable
    }

    pub(crate) fn set_offloads(&self, on: bool) {
        for netns in [&self.a, &self.b] {
            netns.run(|| interface().set_offloads(on)).expect("enter").expect("offloads");
        }
    }

    /// Listens in `b` on `port` until dropped.
    pub(crate) fn server(&self, port: u16) -> Server {
        self.server_at("10.77.0.2", port)
    }

    /// The same at one of `b`'s addresses.
    pub(crate) fn server_at(&self, address: &str, port: u16) -> Server {
        let port = port.to_string();
        let mut command = self.b.command("iperf3").expect("iperf3");
        let child =
            command.args(["-s", "-B", address, "-p", &port]).stdout(Stdio::null()).spawn().expect("an iperf3 server");
        let server = Server(child);
        let listens = || self.sockets("-Hltn", address, &port);
        assert!((0..200).any(|_| later(listens())), "the iperf3 server on port {port} does not listen");
        server
    }

    /// Whether `b` has sockets at an address and port that `ss` lists with these options.
    fn sockets(&self, options: &str, address: &str, port: &str) -> bool {
        let mut ss = self.b.command("ss").expect("ss");
        !ss.args([options, "src", &format!("{address}:{port}")]).output().expect("ss").stdout.is_empty()
    }

    /// Starts TCP from `a` to `b`, with Reno: every kernel has it.
    pub(crate) fn client(&self, port: u16, seconds: &str) -> Child {
        self.client_with(port, seconds, "reno")
    }

    /// Starts TCP with this congestion control.
    pub(crate) fn client_with(&self, port: u16, seconds: &str, control: &str) -> Child {
        self.client_to("10.77.0.2", port, seconds, control)
    }

    /// The same to one of `b`'s addresses.
    pub(crate) fn client_to(&self, address: &str, port: u16, seconds: &str, control: &str) -> Child {
        let mut command = self.a.command("iperf3").expect("iperf3");
        let port = port.to_string();
        // A server refuses a client until it has received the end of the previous connection.
        let free = || !self.sockets("-Htn", address, &port);
        assert!((0..1000).any(|_| later(free())), "the iperf3 server on port {port} is free at last");
        command
            .args(["-c", address, "-p", &port, "-t", seconds, "-O", "0.5", "-C", control, "-J"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("an iperf3 client")
    }

    /// Runs TCP from `a` to `b` for two seconds and returns what arrived, in Mb/s of payload.
    pub(crate) fn goodput(&self, port: u16) -> f64 {
        received(self.client(port, "2"))
    }
}

/// Waits for a client and returns what arrived, in Mb/s of payload.
pub(crate) fn received(client: Child) -> f64 {
    let output = client.wait_with_output().expect("iperf3");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON from iperf3");
    let rate = result["end"]["sum_received"]["bits_per_second"].as_f64();
    rate.unwrap_or_else(|| panic!("no result from iperf3: {result}")) / 1e6
}

/// Services 0, 1, ... as a policy would name them.
pub(crate) fn services(count: u32) -> impl Iterator<Item = (weir_units::ServiceId, &'static str)> {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    (0..count).map(|i| (weir_units::ServiceId(i), NAMES[i as usize]))
}

/// The interface `eth` of the namespace that the thread is in.
pub(crate) fn interface() -> weir_linux::interface::Interface {
    weir_linux::interface::Interface::named("eth").expect("eth")
}

pub(crate) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the argument, after a pause if it is false.
pub(crate) fn later(is_so: bool) -> bool {
    if !is_so {
        pause(Duration::from_millis(10));
    }
    is_so
}

#[expect(clippy::disallowed_methods, reason = "tests on real interfaces wait for real things")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}
