//! Pods under an agent, by records of the container plugin, of `weir pods` and of another plugin:
//!
//! ```text
//! web, db in shop; web in bank: eth0 == veth1..3 ┤ cni0 │ m1: eth0 == eth0 :m2
//! ```
//!
//! The host routes the packets of its pods, as most container plugins have it. Each assertion counts bytes of services.

mod common;

use common::{WEIR, signal, skipped, wait_for, weir};
use serde_json::{Value, json};
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weir_linux::interface::Interface;
use weir_linux::netns::{Netns, Prefix, connect};
use weir_pods::{Attachment, Directory, FORMAT, HostInterface, Labels};

const POLICY: &str = "weir: 1
network: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m1] } }, machines: { m1: { address: 10.80.0.1 } } }
services:
  web: { match: [ { pod: { namespace: shop, labels: app=web } } ] }
  shop: { match: [ { pod: { namespace: shop } } ], order: 1 }
  bank: { match: [ { pod: { namespace: \"b*\", labels: \"app in (web,db)\" } } ] }
  none: { match: [ { pod: { namespace: elsewhere } } ] }
";
const SERVICES: [&str; 3] = ["web", "shop", "bank"];
/// Datagrams of one count, with their bytes and those of a frame.
const COUNT: u64 = 20;
const PAYLOAD: usize = 400;
const FRAME: u64 = PAYLOAD as u64 + 42;
const PORT: u16 = 5001;
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(10, 80, 0, 2);

/// A pod's namespace of network, and its number: that of its interface and its address.
struct Pod {
    netns: Netns,
    number: u8,
    namespace: &'static str,
    name: &'static str,
}

impl Pod {
    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 81, 0, 10 + self.number)
    }

    fn interface(&self) -> String {
        format!("veth{}", self.number)
    }

    fn uid(&self) -> String {
        format!("{}-{}", self.namespace, self.name)
    }
}

struct Host {
    m1: Netns,
    m2: Netns,
    pods: Vec<Pod>,
    directory: tempfile::TempDir,
    records: Directory,
    /// Takes the feedback of m1, which m2 would answer by ICMP to the pod.
    _feedback: UdpSocket,
}

impl Host {
    fn new() -> Self {
        let prefix = Prefix::new("wpods").expect("a prefix");
        prefix.cleanup().expect("leftovers of an earlier run go");
        let (m1, m2) = (prefix.create("m1").expect("made"), prefix.create("m2").expect("made"));
        connect((&m1, "eth0", Some("10.80.0.1/24")), (&m2, "eth0", Some("10.80.0.2/24"))).expect("connected");
        m1.ip_batch("link add cni0 type bridge forward_delay 0\nlink set cni0 up\n").expect("a bridge");
        m1.ip(["addr", "add", "10.81.0.1/24", "dev", "cni0"]).expect("an address");
        m2.ip(["route", "add", "10.81.0.0/24", "via", "10.80.0.1"]).expect("a route");
        let forward = || fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("a router");
        m1.run(forward).expect("inside");
        let bind = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, weir_agent::DEFAULT_PORT)).expect("bound");
        let feedback = m2.run(bind).expect("inside");
        let directory = tempfile::tempdir().expect("a directory");
        let records = Directory::new(directory.path().join("run/pods"));
        let mut host = Self { m1, m2, pods: Vec::new(), directory, records, _feedback: feedback };
        for (number, namespace, name) in [(1, "shop", "web-1"), (2, "shop", "db-1"), (3, "bank", "web-1")] {
            let netns = prefix.create(&format!("p{number}")).expect("made");
            host.pods.push(Pod { netns, number, namespace, name });
            host.link(&host.pods[host.pods.len() - 1]);
        }
        fs::write(host.at("policy.yaml"), POLICY).expect("written");
        assert!(weir(&["key"]).arg(host.at("key")).stderr(Stdio::null()).status().expect("runs").success());
        host
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Connects a pod to the host.
    fn link(&self, pod: &Pod) {
        let link = pod.interface();
        let address = format!("{}/24", pod.address());
        connect((&pod.netns, "eth0", Some(&address)), (&self.m1, &link, None)).expect("connected");
        self.m1.ip(["link", "set", &link, "master", "cni0"]).expect("a port");
        pod.netns.ip(["route", "add", "default", "via", "10.81.0.1"]).expect("a route");
    }

    /// Attaches a pod by `weir-cni`, as a container runtime does behind the plugin that has made the interface.
    fn attach_by_plugin(&self, pod: &Pod) {
        let arguments =
            format!("K8S_POD_NAMESPACE={};K8S_POD_NAME={};K8S_POD_UID={}", pod.namespace, pod.name, pod.uid());
        let variable = |name: &str| match name {
            "CNI_COMMAND" => Some("ADD".into()),
            "CNI_CONTAINERID" => Some(format!("c{}", pod.number).into()),
            "CNI_IFNAME" => Some("eth0".into()),
            "CNI_ARGS" => Some(arguments.clone().into()),
            "CNI_NETNS" => Some(format!("/run/netns/{}", pod.netns.name()).into()),
            _ => None,
        };
        let configuration = json!({ "cniVersion": "1.0.0", "name": "pods", "type": "weir-cni",
            "records": self.records.path(), "ingressRate": 100_000_000, "egressRate": 100_000_000,
            "prevResult": { "cniVersion": "1.0.0", "ips": [{ "address": format!("{}/24", pod.address()) }] } });
        let added = self.m1.run(|| weir_cni::run(variable, configuration.to_string().as_bytes())).expect("inside");
        assert_eq!(added, Ok(format!("{}\n", configuration["prevResult"])));
        // systemd-udevd assigns another address once the plugins have run. A bridge takes the lowest of its ports.
        self.m1.ip(["link", "set", "dev", &pod.interface(), "address", "fe:00:00:00:00:01"]).expect("an address");
    }

    /// Writes the record of a pod's interface, as another plugin may.
    fn attach(&self, pod: &Pod) {
        let link = pod.interface();
        let found = self.m1.run(|| Interface::named(&link).expect("the interface")).expect("inside");
        let hardware = found.hardware().map(|byte| format!("{byte:02x}")).join(":");
        let record = Attachment {
            network: None,
            pod: FORMAT,
            host_interface: HostInterface { name: link, index: found.index(), hardware },
            namespace: pod.namespace.into(),
            name: pod.name.into(),
            uid: Some(pod.uid()),
            container: format!("c{}", pod.number),
            netns: format!("/run/netns/{}", pod.netns.name()),
            interface: "eth0".into(),
            addresses: vec![pod.address().into()],
            ingress_bps: None,
            egress_bps: None,
        };
        self.records.write_attachment(&record).expect("written");
    }

    /// Writes the labels `app` of all pods by `weir pods`, from a list as kubectl prints it.
    fn label(&self, pods: [(&Pod, &str); 3], changed: usize) {
        let item = |(pod, app): (&Pod, &str)| {
            json!({ "kind": "Pod", "metadata": { "namespace": pod.namespace, "name": pod.name, "uid": pod.uid(),
                "labels": { "app": app } }, "spec": { "nodeName": "m1" } })
        };
        let list = json!({ "kind": "List", "items": pods.map(item) });
        fs::write(self.at("pods.json"), list.to_string()).expect("written");
        let mut command = weir(&["pods", "--node", "m1", "--file"]);
        let output = command.arg(self.at("pods.json")).arg("--pods").arg(self.records.path()).output().expect("runs");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && text.contains(&format!("{changed} records changed in ")), "{text}");
    }

    fn agent(&self) -> Child {
        let mut command: Command = self.m1.command(WEIR).expect("a command");
        command.arg("agent").arg(self.at("policy.yaml")).args(["--machine", "m1", "--interface", "eth0", "--keep"]);
        command.arg("--key").arg(self.at("key")).arg("--state").arg(self.directory.path());
        command.arg("--status").arg(self.at("status.json")).arg("--pods").arg(self.records.path());
        let log = fs::File::create(self.at("log")).expect("a log");
        let _ = fs::remove_file(self.at("status.json"));
        let agent = command.env("NO_COLOR", "1").stdout(Stdio::null()).stderr(log).spawn().expect("starts");
        wait_for("the agent's first status", 60, || self.status().is_some());
        agent
    }

    fn status(&self) -> Option<Value> {
        serde_json::from_str(&fs::read_to_string(self.at("status.json")).ok()?).ok()
    }

    /// Waits for a status of which this holds.
    fn wait(&self, what: &str, holds: impl Fn(&Value) -> bool) {
        wait_for(what, 60, || self.status().is_some_and(|status| holds(&status)));
    }

    /// Bytes sent and received, by service.
    fn bytes(&self) -> Option<[[u64; 2]; 3]> {
        let status = self.status()?;
        let services = status["services"].as_array()?.clone();
        let of = |name: &str| {
            let service = services.iter().find(|service| service["service"] == name)?;
            Some(["tx", "rx"].map(|direction| service[direction]["bytes"].as_u64()))
        };
        let mut all = [[0; 2]; 3];
        for (at, name) in all.iter_mut().zip(SERVICES) {
            let [sent, received] = of(name)?;
            *at = [sent?, received?];
        }
        Some(all)
    }

    /// Waits until all packets so far are in the status: for two new ones.
    fn wait_for_statuses(&self) {
        let stamp = || self.status().and_then(|status| status["written_ms"].as_u64());
        for _ in 0..2 {
            let last = stamp().expect("a status has its time");
            wait_for("the next status", 60, || stamp().is_some_and(|stamp| stamp > last));
        }
    }

    /// Counts datagrams of a pod in both directions: all arrive, and all are of this service, or of none.
    fn count(&self, pod: &Pod, service: Option<&str>) {
        let bind = |netns: &Netns, port| {
            let socket = netns.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).expect("bound")).expect("inside");
            socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
            socket
        };
        let (inside, outside) = (bind(&pod.netns, PORT), bind(&self.m2, PORT));
        // New interfaces and neighbours lose packets until they are resolved.
        wait_for("a path", 60, || {
            inside.send_to(&[7; PAYLOAD], (OUTSIDE, PORT)).is_ok()
                && outside.recv_from(&mut [0; PAYLOAD]).is_ok()
                && outside.send_to(&[7; PAYLOAD], (pod.address(), PORT)).is_ok()
                && inside.recv_from(&mut [0; PAYLOAD]).is_ok()
        });
        for socket in [&inside, &outside] {
            while socket.recv_from(&mut [0; PAYLOAD]).is_ok() {}
            socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        }
        self.wait_for_statuses();
        let before = self.bytes().expect("a status");
        for _ in 0..COUNT {
            inside.send_to(&[7; PAYLOAD], (OUTSIDE, PORT)).expect("sent");
            outside.recv_from(&mut [0; PAYLOAD]).expect("a datagram of the pod");
            outside.send_to(&[7; PAYLOAD], (pod.address(), PORT)).expect("sent");
            inside.recv_from(&mut [0; PAYLOAD]).expect("a datagram to the pod");
        }
        let mut expected = before;
        for (at, name) in expected.iter_mut().zip(SERVICES) {
            if service == Some(name) {
                at.iter_mut().for_each(|bytes| *bytes += COUNT * FRAME);
            }
        }
        // Sent bytes are the kernel's counts of classes, and a status has the last one where a list lacks the class.
        for _ in 0..5 {
            self.wait_for_statuses();
            if self.bytes() == Some(expected) {
                return;
            }
        }
        let status = self.status().unwrap_or_default();
        assert_eq!(self.bytes(), Some(expected), "{}/{} of {service:?}: {status:#}", pod.namespace, pod.name);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", fs::read_to_string(self.at("log")).unwrap_or_default());
        }
        let mut remove: Command = self.m1.command(WEIR).expect("a command");
        remove.args(["agent", "--remove", "--interface", "eth0"]).stdout(Stdio::null()).stderr(Stdio::null());
        let _ = remove.status();
    }
}

/// Ends the agent when the test ends.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn missed(status: &Value) -> &str {
    status["guests_missed"].as_str().unwrap_or_default()
}

#[test]
fn packets_of_pods_are_of_the_services_of_their_labels() {
    if skipped("pods under an agent") {
        return;
    }
    let host = Host::new();
    let [web, db, bank] = &host.pods[..] else { panic!("three pods") };
    let mut agent = Agent(host.agent());
    host.wait("pods without records", |status| missed(status).contains("no record of a pod at veth1 (and 2 more)"));
    host.count(web, None);

    // The directory appears while the agent runs. Without labels a pod is of its namespace.
    host.attach_by_plugin(web);
    host.attach(db);
    host.attach(bank);
    host.wait("pods without labels", |status| missed(status).contains("no labels are known of pod shop/web-1"));
    host.count(web, Some("shop"));
    host.count(bank, None);
    host.label([(web, "web"), (db, "db"), (bank, "web")], 3);
    host.wait("three pods", |status| status["guests"] == 3 && missed(status).is_empty());
    let unmatched = host.status().map(|status| status["filters_unmatched"].clone());
    assert_eq!(unmatched, Some(serde_json::json!(["none: no pod here has namespace=elsewhere"])));
    host.count(web, Some("web"));
    host.count(db, Some("shop"));
    host.count(bank, Some("bank"));

    // A label that changes moves a pod; an agent that starts again has the records.
    host.label([(web, "db"), (db, "db"), (bank, "web")], 1);
    host.wait("the other service", |status| status["filters_unmatched"].to_string().contains("web: no pod here"));
    host.count(web, Some("shop"));
    signal(&agent.0, libc::SIGKILL);
    drop(agent);
    agent = Agent(host.agent());
    host.wait("three pods again", |status| status["guests"] == 3);
    host.count(web, Some("shop"));
    host.count(bank, Some("bank"));

    // An interface with the name of a pod's that has ended, whose record was left, is not its.
    host.m1.ip(["link", "del", &bank.interface()]).expect("deleted");
    host.link(bank);
    host.wait("the pod's end", |status| missed(status).contains("no record of a pod at veth3"));
    host.count(bank, None);
    host.attach(bank);
    host.wait("the pod", |status| status["guests"] == 3 && missed(status).is_empty());
    host.count(bank, Some("bank"));
    assert!(host.records.remove_attachment("c2", "eth0").expect("removed"));
    host.wait("two pods", |status| status["guests"] == 2 && missed(status).contains("veth2"));
    host.count(db, None);
    host.count(web, Some("shop"));
    drop(agent);
}

/// A list of other objects, or none, would remove the records of all pods.
#[test]
fn lists_that_are_not_of_pods_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("list.json");
    let records = Directory::new(directory.path().join("pods"));
    let app = [("app".to_owned(), "web".to_owned())].into();
    let labels = Labels { pod: FORMAT, namespace: "shop".into(), name: "web-1".into(), uid: None, labels: app };
    records.write_labels(&labels).expect("written");
    for (text, cause) in [
        (r#"{ "kind": "NodeList", "items": [] }"#, "its kind is `NodeList`, and not PodList or List"),
        (r#"{ "kind": "List", "items": [ { "kind": "Node" } ] }"#, "the kind of item 0, ``, is `Node`, and not Pod"),
    ] {
        fs::write(&file, text).expect("written");
        let mut command = weir(&["pods", "--file"]);
        let output = command.arg(&file).arg("--pods").arg(records.path()).output().expect("runs");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && message.contains(cause), "{message}");
        assert!(message.contains("kubectl get pods --all-namespaces"), "{message}");
        assert_eq!(records.read_all().expect("records").labels, std::slice::from_ref(&labels));
    }
}

/// Only records that could be written count, and the others are reported.
#[test]
fn pods_without_a_possible_record_are_reported_and_not_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let pod = |name: &str| json!({ "metadata": { "namespace": "shop", "name": name } });
    let list = json!({ "kind": "PodList", "items": [pod("web"), pod(&"n".repeat(253))] });
    fs::write(directory.path().join("list"), list.to_string()).expect("written");
    let mut command = weir(&["pods", "--file"]);
    let output = command.arg(directory.path().join("list")).arg("--pods").arg(directory.path()).output().expect("runs");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && text.contains("1 records changed in "), "{text}");
    assert!(text.contains("nnn has no record: the pod's name is too long"), "{text}");
}
