//! `weir switch bind --driver sonic`: a real redis server beside orchagent's stand-in, a real controller of tenants'
//! queues, and machines that apply everything at once. Tenants move between queues; rows are refused, have no effect or
//! are lost, and the server is gone for a while.

#![allow(clippy::disallowed_methods, reason = "tests of real processes wait in real time")]

#[path = "../../../serve/fabric/tests/support/broker_thread.rs"]
mod broker_thread;
mod common;
mod program;
#[path = "../../../host/sonic/tests/stand_in/mod.rs"]
mod stand_in;
#[path = "../../../serve/fabric/tests/support/two_tenants.rs"]
mod two_tenants;

use common::{one_at_a_time, skipped};
use program::{directory, file, json, run, text};
use stand_in::yang::{models, validate};
use stand_in::{CONFIG, COUNTERS, FIRST_ID, PORTS, Rows, Switch, is_missing, row};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_fabric::binding::{FromController, Subscriber, SubscriberConfig, SubscriberState, ToController};
use weir_fabric::binding_proto::{MachineSettings, TenantUsage, Usage};
use weir_fabric::ca::{Ca, Holder};
use weir_fabric::{BrokerUrl, FabricConfig};
use weir_policy::Policy;

/// One weighted queue beside the shared one, and strict ones of level 1 and network control.
const POLICY: &str = "weir: 1
network:
  nic: 100Gb/s
  slots: 4
  switches: { buffer: 200kB, queues: 4, scheduler: { strict: 2, weighted: 2 }, dscp-map: switch }
  racks: { r1: { uplink: 400Gb/s, machines: [m1, m2] } }
levels: { factors: [1] }
services:
  urgent: { match: [ { protocol: udp, port: 320 } ], level: 1 }
tenants:
  red: { vms: 2, bandwidth: 20Gb/s, match: [ { port: 1 } ] }
  blue: { vms: 2, bandwidth: 10Gb/s, match: [ { port: 2 } ] }
tenant-queues: { interval: 400ms }
";
/// Tenants are numbered by name.
const BLUE: usize = 0;
const RED: usize = 1;

/// A machine that applies everything at once.
struct Machine {
    subscriber: Subscriber,
    settings: MachineSettings,
}

struct Network {
    switch: Switch,
    directory: tempfile::TempDir,
    ca: Ca,
    machines: Vec<Machine>,
    broker: BrokerUrl,
    bind: Option<Child>,
    /// The messages of `weir switch bind`.
    messages: Arc<Mutex<String>>,
    runtime: tokio::runtime::Runtime,
    /// The tenant that uses its guarantee.
    active: usize,
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(mut bind) = self.bind.take() {
            let _ = bind.kill();
            let _ = bind.wait();
        }
    }
}

impl Network {
    /// `None` where this host has no redis-server.
    fn new() -> Option<Self> {
        let (switch, directory) = (Switch::start()?, directory());
        file(directory.path(), "policy.yaml", POLICY);
        file(directory.path(), "placement.json", &two_tenants::placement("r1"));
        let (ca, _) = Ca::open(&directory.path().join("pki")).expect("made");
        for name in ["m1", "m2", "r1"] {
            ca.issue(&Holder::Machine(name.to_owned()), 2).expect("made");
        }
        ca.issue(&Holder::Fabric(vec!["127.0.0.1".to_owned()]), 2).expect("made");
        let policy = Arc::new(Policy::parse("policy.yaml", POLICY).unwrap_or_else(|errors| panic!("{errors}")).0);
        let placement = Some(directory.path().join("placement.json"));
        let config = broker_thread::config(&policy, &ca, directory.path(), "state");
        let broker = broker_thread::start(FabricConfig { placement, ..config });
        let machine = |name: &str| {
            let state = SubscriberState { policy: policy.digest(), fresh: false };
            let config = SubscriberConfig {
                name: name.to_owned(),
                is_switch: false,
                brokers: vec![broker.clone()],
                identity: ca.files(&Holder::Machine(name.to_owned())),
                sockets: None,
            };
            let subscriber = Subscriber::start(config, state).expect("a subscriber");
            Machine { subscriber, settings: MachineSettings::default() }
        };
        let machines = ["m1", "m2"].map(machine).into();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let messages = Arc::default();
        Some(Self { switch, directory, ca, machines, broker, bind: None, messages, runtime, active: RED })
    }

    fn at(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// The arguments that name the switch's ports.
    fn ports(&self) -> [String; 9] {
        let socket = self.switch.redis.socket().display().to_string();
        ["--driver", "sonic", "--switch", "r1", "--port", "Ethernet0=m1", "--trust-dscp", "--redis", &socket]
            .map(str::to_owned)
    }

    fn arguments(&self, policy: &str) -> Vec<String> {
        let identity = self.ca.files(&Holder::Machine("r1".to_owned()));
        let mut all = vec!["switch".to_owned(), "bind".to_owned(), self.at(policy), "--fabric".to_owned()];
        all.push(self.broker.to_string());
        for (option, path) in
            [("--certificate", identity.certificate), ("--private-key", identity.private_key), ("--ca", identity.ca)]
        {
            all.extend([option.to_owned(), path.display().to_string()]);
        }
        all.extend(self.ports());
        all.extend(["--port", "Ethernet4=m2"].map(str::to_owned));
        all
    }

    fn bind(&mut self, more: &[&str]) {
        let arguments = self.arguments("policy.yaml");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut child = program::weir(&[&arguments[..], more].concat()).stderr(Stdio::piped()).spawn().expect("starts");
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let messages = Arc::clone(&self.messages);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut all = messages.lock().expect("no panic");
                all.push_str(&line);
                all.push('\n');
            }
        });
        self.bind = Some(child);
    }

    /// Has `weir switch bind` read the policy again.
    fn signal(&self) {
        let id = self.bind.as_ref().expect("it runs").id();
        // SAFETY: a signal to a child that is not waited for yet.
        assert_eq!(unsafe { libc::kill(id as i32, libc::SIGHUP) }, 0);
    }

    /// Machines apply settings and report usage for a while.
    fn go_on(&mut self) {
        for machine in &mut self.machines {
            let next = |subscriber: &mut Subscriber| {
                let message = subscriber.message();
                self.runtime.block_on(async { tokio::time::timeout(Duration::from_millis(5), message).await.ok() })
            };
            while let Some(message) = next(&mut machine.subscriber) {
                if let FromController::Machine(settings) = message {
                    let version = settings.version.expect("a version");
                    machine.subscriber.send(ToController::Applied(version));
                    machine.settings = settings;
                }
            }
            let guarantee = [10_000_000_000, 20_000_000_000][self.active];
            let used = TenantUsage { tenant: self.active as u32, tx_bps: guarantee, rx_bps: 0 };
            machine.subscriber.send(ToController::Usage(Usage { tenants: vec![used] }));
        }
    }

    /// Goes on until a condition holds.
    fn until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !condition(self) {
            assert!(Instant::now() < end, "{what}: {}\n{:?}", self.messages(), self.rows());
            self.go_on();
        }
    }

    fn messages(&self) -> String {
        self.messages.lock().expect("no panic").clone()
    }

    fn rows(&self) -> Rows {
        self.switch.rows(CONFIG)
    }

    /// Whether a tenant alone has the queue of both ports: its value at both machines, no limits, weights as
    /// reserved.
    fn has_queue(&self, tenant: usize) -> bool {
        let dscp = |tenant: usize, machine: &Machine| machine.settings.tenants.get(tenant).map(|own| own.dscp);
        let (one, other) = (dscp(tenant, &self.machines[0]), dscp(1 - tenant, &self.machines[0]));
        let Some(value) = one.filter(|value| *value > 0 && other == Some(0)) else { return false };
        let settled = self.machines.iter().all(|machine| {
            dscp(tenant, machine) == one && machine.settings.tenants.iter().all(|tenant| !tenant.limited)
        });
        let rows = self.rows();
        let weights = if tenant == RED { ["1", "2"] } else { ["2", "1"] };
        settled && PORTS.iter().all(|port| is_bound(&rows, port, &value.to_string(), weights))
    }

    /// The rows are as the models of SONiC have them, and levels have their strict queues.
    fn assert_valid(&self) {
        let rows = self.rows();
        for port in PORTS {
            for queue in [2, 3] {
                assert_eq!(rows[&format!("SCHEDULER|weir.{port}.q{queue}")], row(&[("type", "STRICT")]), "{port}");
            }
            let map = &rows[&format!("DSCP_TO_TC_MAP|WEIR_{port}")];
            assert_eq!((map.len(), map["46"].as_str(), map["48"].as_str()), (64, "3", "2"));
        }
        assert_eq!(rows["PORT_QOS_MAP|Ethernet0"]["pfc_enable"], "3,4");
        assert_eq!(rows["TC_TO_QUEUE_MAP|WEIR"]["1"], "1");
        if let Some(models) = models().filter(|_| !is_missing("yanglint")) {
            let output = validate(&models, &rows);
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
    }
}

/// Whether a port's rows have these weights, and one DSCP value in the tenants' queue.
fn is_bound(rows: &Rows, port: &str, value: &str, weights: [&str; 2]) -> bool {
    let weight = |queue: usize| rows.get(&format!("SCHEDULER|weir.{port}.q{queue}")).and_then(|row| row.get("weight"));
    let Some(map) = rows.get(&format!("DSCP_TO_TC_MAP|WEIR_{port}")) else { return false };
    let bound: Vec<&str> = map.iter().filter(|(_, class)| *class == "1").map(|(dscp, _)| dscp.as_str()).collect();
    (0..2).all(|queue| weight(queue).map(String::as_str) == Some(weights[queue])) && bound == [value]
}

/// Both tenants have the queue in turn. Weights and values change in place: no row of a queue is written or deleted.
#[test]
fn tenants_have_a_queue_of_a_sonic_switch_in_turn() {
    if skipped("tenants' queues on a SONiC switch") {
        return;
    }
    let _turn = one_at_a_time();
    let Some(mut network) = Network::new() else { return };
    let status = network.at("switch.json");
    network.bind(&["--status", &status]);
    network.until("red has the queue", |network| network.has_queue(RED));
    network.assert_valid();
    network.switch.orchagent.settle();
    network.switch.orchagent.shared().events.clear();
    let rows = network.rows();
    let begun = Instant::now();
    network.active = BLUE;
    network.until("blue has the queue", |network| network.has_queue(BLUE));
    // Of control intervals of 400 ms, and two moves of seven steps in all at the switch.
    println!("blue has red's queue after {} ms", begun.elapsed().as_millis());
    network.assert_valid();
    network.switch.orchagent.settle();
    let events = network.switch.orchagent.shared().events.clone();
    let in_place = |(event, key): &(String, String)| {
        event == "hset" && (key.starts_with("SCHEDULER|") || key.starts_with("DSCP_TO_TC_MAP|"))
    };
    assert!(!events.is_empty() && events.iter().all(in_place), "{events:?}");
    assert_eq!(rows.keys().collect::<Vec<_>>(), network.rows().keys().collect::<Vec<_>>());
    let shared = network.switch.orchagent.shared();
    assert_eq!((&shared.log[..], &shared.crash), (&[][..], &None));
    drop(shared);
    let messages = network.messages();
    let note = "note: queues of this switch hold at most 200 kB by the policy, by which their drains are timed";
    assert!(messages.contains(note) && messages.contains("subscribed to the controller"), "{messages}");
    counters(&network);
    // The status has them, too, with the next check.
    let read = || -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(&status).unwrap_or_default()).unwrap_or_default()
    };
    let queue = || read()["ports"][0]["queues"][1].clone();
    network.until("the status has counters", |_| queue()["sent_bytes"] == 90_000);
    let expected = serde_json::json!({
        "queue": 1, "weight": 1, "sent_bytes": 90_000, "dropped_packets": 2, "marked_packets": 5
    });
    assert_eq!(queue(), expected);
    assert_eq!((&read()["name"], &read()["ports"][0]["interface"]), (&"r1".into(), &"Ethernet0".into()));
}

/// Counters of the queues that `weir switch show` reads beside the binding.
fn counters(network: &Network) {
    let id: String = network.switch.query(COUNTERS, &["HGET", "COUNTERS_QUEUE_NAME_MAP", "Ethernet0:1"]);
    for (field, value) in [("BYTES", "90000"), ("DROPPED_PACKETS", "2"), ("WRED_ECN_MARKED_PACKETS", "5")] {
        let counters = format!("COUNTERS:{id}");
        network.switch.query::<()>(COUNTERS, &["HSET", &counters, &format!("SAI_QUEUE_STAT_{field}"), value]);
    }
    let (policy, ports) = (network.at("policy.yaml"), network.ports());
    let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
    let show = |more: &[&str]| run(&[&["switch", "show", &policy, "--counters"], &ports[..], more].concat());
    let shown = json(&show(&["--json"]));
    let queues = &shown["ports"][0]["queues"];
    assert_eq!((&queues[1]["sent_bytes"], &queues[1]["dropped_packets"]), (&90_000.into(), &2.into()), "{shown}");
    assert_eq!(queues[1]["marked_packets"], 5, "{shown}");
    assert!(queues[1]["backlog_bytes"].is_null() && queues[0]["sent_bytes"].is_null(), "{shown}");
    let table = text(&show(&[]).stdout);
    assert!(table.contains("sent") && table.contains("90 kB"), "{table}");
}

/// The shared queue keeps the weight of the tenant that has left it until it has sent all that it can hold.
#[test]
fn a_queue_keeps_its_weight_for_the_time_of_its_drain() {
    if skipped("the drain of a SONiC switch's queue") {
        return;
    }
    let _turn = one_at_a_time();
    let Some(mut network) = Network::new() else { return };
    // Levels leave 50 Gb/s, of which the shared queue has 3 of 5 meanwhile: 3.75 GB need a second.
    network.bind(&["--queue-buffer", "3.75GB"]);
    let weight = |network: &Network| network.rows()["SCHEDULER|weir.Ethernet0.q0"]["weight"].clone();
    let is_tagged = |network: &Network| {
        let is_tagged = |machine: &Machine| machine.settings.tenants.get(RED).is_some_and(|red| red.dscp > 0);
        network.machines.iter().all(is_tagged)
    };
    network.until("machines send red's value", is_tagged);
    let begun = Instant::now();
    assert_eq!(weight(&network), "3");
    network.until("the shared queue has blue's weight", |network| weight(network) == "1");
    let elapsed = begun.elapsed();
    // Both ports of the path are read in one round, and a round is read for each port.
    assert!(elapsed > Duration::from_millis(990), "{elapsed:?}");
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    network.until("red has the queue", |network| network.has_queue(RED));
}

/// What CONFIG_DB has of a queue's buffer counts more than the policy's, and the option more than both.
#[test]
fn the_buffer_of_a_queue_is_the_options_the_switches_or_the_policys() {
    if skipped("the buffer of a SONiC switch's queues") {
        return;
    }
    let _turn = one_at_a_time();
    let Some(mut network) = Network::new() else { return };
    for port in PORTS {
        network.switch.set(&format!("BUFFER_QUEUE|{port}|0-3"), "profile", "egress");
    }
    for (field, value) in [("pool", "all"), ("size", "784"), ("static_th", "3740000")] {
        network.switch.set("BUFFER_PROFILE|egress", field, value);
    }
    for (option, expected) in [
        (&[][..], "hold at most 3.75 MB by CONFIG_DB, by which their drains are timed"),
        (&["--queue-buffer", "1MB"], "hold at most 1 MB by --queue-buffer, by which their drains are timed"),
    ] {
        network.messages.lock().expect("no panic").clear();
        network.bind(option);
        network.until("a note", |network| network.messages().contains(expected));
        let mut bind = network.bind.take().expect("it runs");
        bind.kill().and_then(|()| bind.wait()).expect("ended");
    }
}

/// Whatever fails, it is reported, no tenant moves on before it is repaired, and every tenant that waits moves then.
#[test]
fn failures_of_a_sonic_switch_are_reported_and_repaired() {
    if skipped("failures of a SONiC switch with tenants' queues") {
        return;
    }
    let _turn = one_at_a_time();
    let Some(mut network) = Network::new() else { return };
    let status = network.at("switch.json");
    network.bind(&["--status", &status]);
    network.until("red has the queue", |network| network.has_queue(RED));

    // The hardware refuses the weights of a port.
    network.switch.orchagent.shared().refused = vec!["SCHEDULER|weir.Ethernet4".to_owned()];
    network.active = BLUE;
    let refusal = "port Ethernet4, queue 0, scheduler: written, and not in force";
    network.until("weights are refused", |network| network.messages().contains(refusal));
    assert!(network.messages().contains("all ports are as they were"), "{}", network.messages());
    let limited = |network: &Network| {
        network.machines.iter().all(|machine| machine.settings.tenants.iter().all(|tenant| tenant.limited))
    };
    assert!(limited(&network), "both are limited until the switch has its weights");
    network.switch.orchagent.shared().refused.clear();
    network.until("blue has the queue", |network| network.has_queue(BLUE));

    // The server is gone for a while.
    network.switch.redis.kill();
    network.active = RED;
    network.until("the server is gone", |network| network.messages().contains("redis server"));
    network.switch.redis.run();
    network.until("red has the queue again", |network| network.has_queue(RED));

    // The switch restarts, and has lost all rows; its objects have other ids.
    let rows = network.rows();
    network.switch.restart(9 * FIRST_ID);
    network.until("all rows are there again", |network| network.rows() == rows);
    network.until("and red is not limited", |network| network.has_queue(RED));
    network.assert_valid();
    let counted = |field: &str| -> u64 {
        let text = std::fs::read(&status).unwrap_or_default();
        serde_json::from_slice::<serde_json::Value>(&text).unwrap_or_default()[field].as_u64().unwrap_or(0)
    };
    network.until("the status has counted it", |_| counted("changes_found") >= 2 && counted("repaired") >= 2);

    // Orchagent applies nothing for a while.
    network.messages.lock().expect("no panic").clear();
    network.switch.orchagent.shared().is_stalled = true;
    network.active = BLUE;
    network.until("nothing has an effect", |network| network.messages().contains("written, and not in force"));
    assert!(limited(&network));
    network.switch.orchagent.shared().is_stalled = false;
    network.until("blue has the queue again", |network| network.has_queue(BLUE));
    network.assert_valid();
    assert_eq!(network.switch.orchagent.shared().crash, None);
}

/// The policy is read again at a signal: a valid one, or none.
#[test]
fn a_policy_that_is_read_again_keeps_the_queues() {
    if skipped("another policy for tenants' queues on a SONiC switch") {
        return;
    }
    let _turn = one_at_a_time();
    let Some(mut network) = Network::new() else { return };
    let status = network.at("switch.json");
    network.bind(&["--status", &status]);
    network.until("red has the queue", |network| network.has_queue(RED));
    let rows = network.rows();
    let read = || -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(&status).unwrap_or_default()).unwrap_or_default()
    };
    let fingerprint = || read()["policy"].as_str().map(str::to_owned);
    network.until("a status", |_| fingerprint().is_some());
    let before = fingerprint();

    // One without a tenant's bandwidth, and one that the switch cannot have.
    let path = network.at("policy.yaml");
    for (wrong, cause) in [
        (POLICY.replace("bandwidth: 20Gb/s, ", ""), format!("{path}:11:8")),
        (POLICY.replace(", dscp-map: switch", ""), "it has one map of DSCP values for all ports".to_owned()),
    ] {
        network.messages.lock().expect("no panic").clear();
        file(network.directory.path(), "policy.yaml", &wrong);
        network.signal();
        network.until("it is refused", |network| network.messages().contains("the last policy stays"));
        assert!(network.messages().contains(&cause), "{cause}: {}", network.messages());
        network
            .until("the status has it", |_| read()["policy_refused"].as_str().is_some_and(|why| why.contains(&cause)));
        assert_eq!((network.rows() == rows, fingerprint()), (true, before.clone()));
    }

    // Red pays for more, and has another filter. The queues stay until the controller has the policy, too.
    let red = "bandwidth: 30Gb/s, match: [ { port: 3 } ]";
    let text = POLICY.replace("bandwidth: 20Gb/s, match: [ { port: 1 } ]", red);
    let policy = Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}")).0;
    file(network.directory.path(), "policy.yaml", &text);
    network.signal();
    network.until("it is read", |network| network.messages().contains("the policy is read again"));
    network.until("another stream", |network| network.messages().contains("the controller has another policy"));
    assert_eq!(network.rows(), rows);
    for machine in &network.machines {
        machine.subscriber.set_state(SubscriberState { policy: policy.digest(), fresh: false });
    }
    // SAFETY: the broker is in this process, and has a handler since it listens.
    assert_eq!(unsafe { libc::raise(libc::SIGHUP) }, 0);
    let value = rows["DSCP_TO_TC_MAP|WEIR_Ethernet0"].iter().find(|(_, class)| *class == "1").expect("red's").0.clone();
    let has_more = |network: &Network| PORTS.iter().all(|port| is_bound(&network.rows(), port, &value, ["1", "3"]));
    network.until("red's queue has more weight", has_more);
    network.until("the status has the policy", |_| fingerprint() != before && read()["policy_refused"].is_null());
}

#[test]
fn policies_that_map_at_ports_and_unknown_buffers_are_refused() {
    if skipped("refusals of tenants' queues on a SONiC switch") {
        return;
    }
    let _turn = one_at_a_time();
    let Some(network) = Network::new() else { return };
    let before = network.rows();
    let refused = |policy: &str, more: &[&str]| {
        file(network.directory.path(), "other.yaml", policy);
        let arguments = network.arguments("other.yaml");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = run(&[&arguments[..], more].concat());
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let errors = refused(&POLICY.replace(", dscp-map: switch", ""), &[]);
    assert!(errors.contains("switch r1: it has one map of DSCP values for all ports"), "{errors}");
    assert!(errors.contains("write `dscp-map: switch` beside `scheduler` under `network.switches`"), "{errors}");
    let errors = refused(&POLICY.replace("buffer: 200kB, ", ""), &[]);
    assert!(errors.contains("port m1: it is not known how much a queue holds"), "{errors}");
    assert!(errors.contains("--queue-buffer"), "{errors}");
    let windows = POLICY.replace("levels: { factors: [1] }", "levels: { factors: [1, 100], epoch: windowed }");
    let windows = windows.replace("tenants:\n", "  bulk: { match: [ { port: 3 } ], level: 2 }\ntenants:\n");
    let windows = windows.replace("queues: 4, scheduler: { strict: 2,", "queues: 5, scheduler: { strict: 3,");
    let errors = refused(&windows, &[]);
    assert!(errors.contains("port m1: the policy's levels may keep the queues of tenants from sending"), "{errors}");
    assert_eq!(network.rows(), before, "nothing has changed");
}
