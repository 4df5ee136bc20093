//! A host with a bridge, its pods, and cnitool.

use serde_json::{Map, Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use weir_linux::netns::{Netns, Prefix};
use weir_linux::requirements::{Purpose, check};

/// Where Debian has the plugins.
const PLUGINS: &str = "/usr/lib/cni";
const PLUGIN: &str = env!("CARGO_BIN_EXE_weir-cni");

/// Where `tools/setup.sh test` installs cnitool: below the target directory, beside the profile's.
fn cnitool() -> PathBuf {
    Path::new(PLUGIN).ancestors().nth(2).expect("the target directory").join("tools").join("cnitool")
}

/// True, with a line of output with the reasons, if this host cannot run the tests.
pub(crate) fn skipped() -> bool {
    let mut missing: Vec<String> = check(Purpose::Lab).iter().map(ToString::to_string).collect();
    for (file, package) in [(Path::new(PLUGINS).join("bridge"), "containernetworking-plugins"), (cnitool(), "cnitool")]
    {
        if !file.exists() {
            missing.push(format!("{}: not there ({package}: ./tools/setup.sh test installs it)", file.display()));
        }
    }
    if missing.is_empty() {
        return false;
    }
    assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set; {}", missing.join(" | "));
    // Not by println!, which a passing test swallows.
    let line = format!("skipped: {}\n", missing.join(" | "));
    std::io::stderr().write_all(line.as_bytes()).expect("standard error takes a line");
    true
}

/// A namespace that stands for a host, with the configuration of one network.
pub(crate) struct Host {
    netns: Netns,
    prefix: Prefix,
    directory: tempfile::TempDir,
    configuration: Value,
    network: String,
}

/// A pod's namespace.
pub(crate) struct Pod {
    pub(crate) netns: Netns,
    name: String,
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn tc(netns: &Netns, arguments: &str) -> String {
    let output = netns.command("tc").expect("tc").args(arguments.split_whitespace()).output().expect("tc");
    assert!(output.status.success(), "tc {arguments}: {}", text(&output));
    String::from_utf8(output.stdout).expect("text")
}

impl Host {
    /// Namespaces have this prefix, which no other test has; `keys` are further keys of the plugin's configuration.
    pub(crate) fn new(prefix: &str, version: &str, keys: Value) -> Self {
        let network = format!("{prefix}-net");
        let prefix = Prefix::new(prefix).expect("a prefix");
        prefix.cleanup().expect("clean up after an earlier run");
        let netns = prefix.create("host").expect("a namespace");
        let directory = tempfile::tempdir().expect("a directory");
        let mut own = json!({"type": "weir-cni", "records": directory.path().join("records"),
            "capabilities": {"bandwidth": true, "io.kubernetes.cri.pod-annotations": true}});
        own.as_object_mut().expect("an object").extend(keys.as_object().cloned().unwrap_or_default());
        let bridge = json!({"type": "bridge", "bridge": "wbr0", "isGateway": true, "ipMasq": false,
            "ipam": {"type": "host-local", "dataDir": directory.path().join("ipam"),
                "ranges": [[{"subnet": "10.89.0.0/24"}]]}});
        let list = json!({"cniVersion": version, "name": network, "plugins": [bridge, own]});
        fs::write(directory.path().join("10-pods.conflist"), list.to_string()).expect("written");
        Self { netns, prefix, directory, configuration: own, network }
    }

    pub(crate) fn netns(&self) -> &Netns {
        &self.netns
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Makes a pod's namespace, without an interface.
    pub(crate) fn pod(&self, name: &str) -> Pod {
        Pod { netns: self.prefix.create(name).expect("a namespace"), name: name.into() }
    }

    /// Runs cnitool on the host.
    fn cnitool(&self, verb: &str, pod: &Pod, runtime: &Value) -> Output {
        let path = format!("{PLUGINS}:{}", Path::new(PLUGIN).parent().expect("a directory").display());
        let mut command = self.netns.command(cnitool()).expect("cnitool");
        command.args([verb, &self.network, &pod.path()]).env("NETCONFPATH", self.directory()).env("CNI_PATH", path);
        command.env("CNI_ARGS", format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME={}", pod.name));
        command.env("CNI_IFNAME", "eth0").env("CAP_ARGS", runtime.to_string());
        command.output().expect("cnitool")
    }

    fn run(&self, verb: &str, pod: &Pod, runtime: &Value) -> String {
        let output = self.cnitool(verb, pod, runtime);
        assert!(output.status.success(), "{verb} {}: {}", pod.name, text(&output));
        String::from_utf8(output.stdout).expect("text")
    }

    fn refused(&self, verb: &str, pod: &Pod, runtime: &Value) -> String {
        let output = self.cnitool(verb, pod, runtime);
        assert!(!output.status.success(), "{verb} {}: {}", pod.name, text(&output));
        text(&output)
    }

    pub(crate) fn add(&self, pod: &Pod, runtime: &Value) -> Value {
        serde_json::from_str(&self.run("add", pod, runtime)).expect("a result")
    }

    pub(crate) fn add_refused(&self, pod: &Pod, runtime: &Value) -> String {
        self.refused("add", pod, runtime)
    }

    pub(crate) fn check(&self, pod: &Pod, runtime: &Value) {
        self.run("check", pod, runtime);
    }

    pub(crate) fn check_refused(&self, pod: &Pod, runtime: &Value) -> String {
        self.refused("check", pod, runtime)
    }

    pub(crate) fn del(&self, pod: &Pod, runtime: &Value) {
        self.run("del", pod, runtime);
    }

    /// Executes the plugin alone on the host, with these keys beside its own: what it prints, or its error.
    pub(crate) fn plugin(&self, verb: &str, keys: Value) -> Result<String, String> {
        self.execute(&[("CNI_COMMAND", verb)], keys)
    }

    /// ADD of an interface that is there: the chain's first plugins would refuse it.
    pub(crate) fn add_again(&self, pod: &Pod, runtime: &Value) {
        self.plugin_of(pod, runtime).expect("ADD");
    }

    pub(crate) fn add_again_refused(&self, pod: &Pod, runtime: &Value) -> String {
        self.plugin_of(pod, runtime).expect_err("ADD refused")
    }

    fn plugin_of(&self, pod: &Pod, runtime: &Value) -> Result<String, String> {
        let arguments = format!("K8S_POD_NAMESPACE=shop;K8S_POD_NAME={}", pod.name);
        let (container, path) = (pod.container(), pod.path());
        let previous = self.previous(pod);
        let variables = [
            ("CNI_COMMAND", "ADD"),
            ("CNI_CONTAINERID", &container),
            ("CNI_NETNS", &path),
            ("CNI_IFNAME", "eth0"),
            ("CNI_ARGS", &arguments),
        ];
        let given = previous.to_string();
        let printed = self.execute(&variables, json!({"prevResult": previous, "runtimeConfig": runtime}))?;
        assert_eq!(printed.trim_end(), given, "the previous result, unchanged");
        Ok(printed)
    }

    /// A result as the plugins before print it: of ADD, in the version that has GC and STATUS.
    fn previous(&self, pod: &Pod) -> Value {
        let addresses = pod.netns.ip(["-j", "-4", "address", "show", "dev", "eth0"]).expect("ip");
        let links: Value = serde_json::from_str(&addresses).expect("JSON");
        let of = &links[0]["addr_info"][0];
        let address = format!("{}/{}", of["local"].as_str().expect("an address"), of["prefixlen"]);
        json!({"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": pod.path()}],
            "ips": [{"interface": 0, "address": address, "gateway": "10.89.0.1"}], "dns": {}})
    }

    fn execute(&self, variables: &[(&str, &str)], keys: Value) -> Result<String, String> {
        let mut input: Map<String, Value> = self.configuration.as_object().cloned().expect("an object");
        input.insert("cniVersion".into(), json!("1.1.0"));
        input.insert("name".into(), json!(self.network));
        input.extend(keys.as_object().cloned().expect("an object"));
        let mut command: Command = self.netns.command(PLUGIN).expect("the plugin");
        command.env_clear().envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the plugin");
        let input = Value::from(input).to_string();
        child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("read");
        let output = child.wait_with_output().expect("output");
        if output.status.success() { Ok(text(&output)) } else { Err(text(&output)) }
    }

    /// The names of all records.
    pub(crate) fn records(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory().join("records")).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
    }

    /// The file of a pod's record.
    pub(crate) fn record_path(&self, pod: &str) -> PathBuf {
        let is_it = |path: &PathBuf| {
            let record: Value = serde_json::from_str(&fs::read_to_string(path).expect("a record")).expect("JSON");
            record["name"] == pod
        };
        let paths = self.records().into_iter().map(|name| self.directory().join("records").join(name));
        paths.filter(|path| path.is_file()).find(is_it).unwrap_or_default()
    }

    /// A pod's record, null if there is none.
    pub(crate) fn record(&self, pod: &str) -> Value {
        fs::read_to_string(self.record_path(pod)).map_or(Value::Null, |text| serde_json::from_str(&text).expect("JSON"))
    }

    /// The qdiscs of the host's interfaces, one a line.
    pub(crate) fn qdiscs(&self) -> String {
        tc(&self.netns, "qdisc show")
    }
}

impl Pod {
    /// The path of its namespace.
    pub(crate) fn path(&self) -> String {
        format!("/run/netns/{}", self.netns.name())
    }

    /// The container's id, which cnitool derives from the path; found in the name of the pod's file.
    pub(crate) fn container(&self) -> String {
        let directory = Path::new("/var/lib/cni/results");
        let of = |entry: &fs::DirEntry| {
            fs::read_to_string(entry.path()).is_ok_and(|text| text.contains(&format!("\"netns\":\"{}\"", self.path())))
        };
        let entry = fs::read_dir(directory).expect("libcni's cache").filter_map(Result::ok).find(of);
        let cached: Value =
            serde_json::from_str(&fs::read_to_string(entry.expect("a cached result").path()).expect("text"))
                .expect("JSON");
        cached["containerId"].as_str().expect("an id").to_owned()
    }

    pub(crate) fn tc(&self, arguments: &str) -> String {
        tc(&self.netns, arguments)
    }

    /// The qdiscs of its interfaces, one a line.
    pub(crate) fn qdiscs(&self) -> String {
        self.tc("qdisc show")
    }

    /// The address of `eth0`.
    pub(crate) fn address(&self) -> std::net::Ipv4Addr {
        let listed = self.netns.ip(["-j", "-4", "address", "show", "dev", "eth0"]).expect("ip");
        let links: Value = serde_json::from_str(&listed).expect("JSON");
        links[0]["addr_info"][0]["local"].as_str().expect("an address").parse().expect("an address")
    }
}
