//! The Debian package, installed, upgraded, removed and purged in a container with a real systemd: `make test-deb`.

mod agent_pair;
mod common;
mod container;

use agent_pair::{Flow, POLICY, Pair};
use common::{SHARED_LEAST, SHARED_MOST, WEIR, one_at_a_time, skipped, wait_for};
use container::Container;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const OLD: &str = "0.1.0~test";
const NEW: &str = "0.1.1~test";
const UNITS: [&str; 4] = ["weir-agent.service", "weir-fabric.service", "weir-forwarder.service", "weir-pods.service"];
/// The files of users and groups; backups of them are written by every program that adds or deletes a user.
const ACCOUNTS: &[&str] = &[
    "/etc/group",
    "/etc/group-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/passwd",
    "/etc/passwd-",
    "/etc/shadow",
    "/etc/shadow-",
];
/// What the test writes as an administrator.
const ADMINISTRATORS: &[&str] = &["/etc/weir", "/etc/weir/key", "/etc/weir/policy.yaml"];

/// The package of the program under test, with this version, in `directory`.
fn package(version: &str, directory: &Path) -> PathBuf {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let target = Path::new(WEIR).ancestors().nth(2).expect("the program is in the directory of its profile");
    let mut make = Command::new(tree.join("tools/deb.sh"));
    let output = make.args(["dev", version]).env("CARGO_TARGET_DIR", target).output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The next package replaces this one there.
    let package = directory.join(format!("weir-{version}.deb"));
    fs::copy(String::from_utf8_lossy(&output.stdout).trim(), &package).expect("copied");
    package
}

/// Copies a package into the container and installs it, or upgrades to it.
fn install(container: &Container, package: &Path) -> String {
    fs::copy(package, container.path("/tmp/weir.deb")).expect("copied");
    container.must(&["dpkg", "--force-unsafe-io", "--install", "/tmp/weir.deb"])
}

/// What differs in the container from this host's files, without the records of dpkg, the logs and the caches.
fn changes(container: &Container) -> BTreeSet<String> {
    const RECORDS: &[&str] = &["/var/lib/dpkg/", "/var/log/", "/var/cache/"];
    let mut changes = container.changes();
    changes.retain(|path| !RECORDS.iter().any(|records| path.starts_with(records)));
    changes
}

/// The state of the interface, of BPF's file system and of the sockets.
fn host_state(container: &Container) -> String {
    container.must(&[
        "sh",
        "-c",
        "for what in qdisc class filter; do tc $what show dev eth0; done; ip -d link show dev eth0; ss -lunH; \
         find /sys/fs/bpf /run/weir /run/weir-fabric 2>/dev/null || true",
    ])
}

#[test]
#[ignore = "needs the Debian package: make test-deb"]
fn package_is_installed_upgraded_removed_and_purged() {
    if skipped("a Debian package under systemd") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wpk");
    let directory = pair.directory.path();
    let (old, new) = (package(OLD, directory), package(NEW, directory));
    let container = Container::start(&pair.m1, directory);
    let (files_before, host_before) = (changes(&container), host_state(&container));
    install(&container, &old);
    installed_files_work(&container);
    start_the_agent(&container, &pair);
    let flow = Flow::start(&pair, 5001);
    wait_for("the limit", 20, || (flow.rate() / 20.0 - 1.0).abs() < 0.06);

    upgrade_under_traffic(&container, &new, &flow);
    drop(flow);

    let removed = container.must(&["dpkg", "--force-unsafe-io", "--remove", "weir"]);
    assert!(removed.contains("removed the state of an agent on eth0"), "{removed}");
    assert_eq!(host_state(&container), host_before);
    assert!(!container.path("/usr/bin/weir").exists());
    for kept in ["/etc/weir/agent.conf", "/etc/weir/policy.yaml", "/etc/weir/key", "/var/lib/weir"] {
        assert!(container.path(kept).exists(), "{kept}");
    }

    // Files of the administrator stay, and with them the user that they may belong to.
    container.must(&["dpkg", "--purge", "weir"]);
    let left: Vec<String> = changes(&container).difference(&files_before).cloned().collect();
    assert_eq!(left, [ACCOUNTS, ADMINISTRATORS].concat());
    fs::remove_dir_all(container.path("/etc/weir")).expect("removed");

    install(&container, &new);
    running_agent_prevents_the_removal(&container, &pair);
    plugin_in_use_prevents_the_removal(&container);
    records_of_pods_survive_the_removal(&container);
    container.must(&["dpkg", "--purge", "weir"]);
    assert!(!container.path("/run/weir").exists());
    assert_eq!(host_state(&container), host_before);
    let left: Vec<String> = changes(&container).difference(&files_before).cloned().collect();
    let backups: Vec<&str> = ACCOUNTS.iter().copied().filter(|path| path.ends_with('-')).collect();
    assert_eq!(left, backups);
    assert!(!container.run(&["dpkg-query", "--status", "weir"]).0);
}

/// Checks what a new installation contains, and that it starts nothing.
fn installed_files_work(container: &Container) {
    assert!(container.must(&["weir", "--version"]).starts_with("weir "));
    let versions = container.must(&["env", "CNI_COMMAND=VERSION", "/usr/lib/cni/weir-cni"]);
    assert!(versions.contains("\"supportedVersions\""), "{versions}");
    for unit in UNITS {
        let state =
            container.must(&["systemctl", "show", "--value", "-p", "ActiveState,UnitFileState,LoadState", unit]);
        assert_eq!(
            state.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>(),
            ["loaded", "inactive", "disabled"]
        );
    }
    container.must(&["bash", "-n", "/usr/share/bash-completion/completions/weir"]);
    let page = container.must(&["man", "-w", "weir-switch-apply"]);
    assert_eq!(page.trim(), "/usr/share/man/man1/weir-switch-apply.1.gz");
    container.must(&["getent", "passwd", "weir"]);
    let documents = "/usr/share/doc/weir";
    container.must(&["grep", "-q", "weir check policy.yaml", &format!("{documents}/html/tutorials/share-a-link.html")]);
    container.must(&["weir", "sim", "--check", &format!("{documents}/examples/scenarios/incast.scenario.yaml")]);
    for name in ["rbac", "token", "daemonset"] {
        assert!(container.path(&format!("/usr/share/doc/weir/kubernetes/{name}.yaml")).exists(), "{name}");
    }
}

/// Writes the policy and the key.
fn write_policy(container: &Container, pair: &Pair) {
    let policy = POLICY.replace("protocol: tcp", "protocol: udp").replace("rack: {", "machine: {");
    fs::write(container.path("/etc/weir/policy.yaml"), policy).expect("written");
    fs::copy(&pair.key, container.path("/etc/weir/key")).expect("copied");
}

/// Configures and starts the agent, as an administrator does.
fn start_the_agent(container: &Container, pair: &Pair) {
    write_policy(container, pair);
    let options = "WEIR_AGENT=\"--interface eth0 --machine m1\"\n";
    fs::write(container.path("/etc/weir/agent.conf"), options).expect("written");
    container.must(&["systemctl", "enable", "--now", "weir-agent"]);
}

/// Upgrades while the flow sends, and checks that its limit stays in force.
fn upgrade_under_traffic(container: &Container, package: &Path, flow: &Flow) {
    let process = |container: &Container| {
        container.must(&["systemctl", "show", "--value", "-p", "MainPID", "weir-agent"]).trim().to_owned()
    };
    let before = process(container);
    let rates = std::thread::scope(|scope| {
        let upgrade = scope.spawn(|| install(container, package));
        let mut rates = Vec::new();
        while !upgrade.is_finished() {
            rates.extend(flow.rates(1, 500));
        }
        upgrade.join().expect("upgrades");
        // The static policy would replace the limits after 5 s.
        rates.extend(flow.rates(12, 500));
        rates
    });
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    assert!(mean > 20.0 * SHARED_LEAST && rates.iter().all(|rate| *rate < 20.0 * SHARED_MOST), "{rates:.1?}");
    assert_ne!(process(container), before);
    let log = container.must(&["journalctl", "--no-pager", "--output=cat", "--unit=weir-agent"]);
    assert!(log.contains("adopted the state of an earlier agent"), "{log}");
    let version = container.must(&["dpkg-query", "--show", "--showformat=${Version} ${Status}", "weir"]);
    assert_eq!(version, format!("{NEW} install ok installed"));
    let options = fs::read_to_string(container.path("/etc/weir/agent.conf")).expect("read");
    assert!(options.contains("--machine m1"), "an upgrade replaces no changed file of the administrator: {options}");
}

/// Starts an agent without a unit: a removal fails, and the agent and its program stay.
fn running_agent_prevents_the_removal(container: &Container, pair: &Pair) {
    write_policy(container, pair);
    let mut command = container.command("weir");
    command.args([
        "agent",
        "/etc/weir/policy.yaml",
        "--key",
        "/etc/weir/key",
        "--interface",
        "eth0",
        "--machine",
        "m1",
    ]);
    command.args(["--status", "/run/weir/by-hand.json"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut agent = command.spawn().expect("starts");
    wait_for("the agent's first status", 20, || container.path("/run/weir/by-hand.json").exists());
    let (removed, output) = container.run(&["dpkg", "--remove", "weir"]);
    assert!(!removed && output.contains("eth0"), "{output}");
    let state = container.must(&["dpkg-query", "--show", "--showformat=${Status}", "weir"]);
    assert_eq!(state, "deinstall ok installed");
    assert!(container.path("/usr/bin/weir").exists());
    assert!(agent.try_wait().expect("a child").is_none());
    // `agent` is nsenter, which passes no signals on.
    container.must(&["pkill", "-TERM", "--full", "by-hand.json"]);
    assert!(agent.wait().expect("ends").success());
    fs::remove_dir_all(container.path("/etc/weir")).expect("removed");
}

/// Configures the CNI plugin: a removal fails, and the plugin stays. Files that runtimes do not read are no reason.
fn plugin_in_use_prevents_the_removal(container: &Container) {
    let directory = container.path("/etc/cni/net.d");
    let existed = ["/etc/cni", "/etc/cni/net.d"].map(|path| container.path(path).exists());
    fs::create_dir_all(&directory).expect("made");
    let [list, copy] = ["10-wpk.conflist", "10-wpk.conflist.old"].map(|name| directory.join(name));
    for file in [&list, &copy] {
        fs::write(file, r#"{"plugins": [{"type": "bridge"}, {"type":"weir-cni"}]}"#).expect("written");
    }
    let (removed, output) = container.run(&["dpkg", "--remove", "weir"]);
    assert!(!removed && output.contains("weir-cni: /etc/cni/net.d/10-wpk.conflist\n"), "{output}");
    assert!(container.path("/usr/lib/cni/weir-cni").exists());
    fs::remove_file(&list).expect("removed");
    container.must(&["dpkg", "--remove", "weir"]);
    assert!(!container.path("/usr/lib/cni/weir-cni").exists());
    container.must(&["dpkg", "--force-unsafe-io", "--install", "/tmp/weir.deb"]);
    fs::remove_file(&copy).expect("removed");
    for (path, existed) in ["/etc/cni/net.d", "/etc/cni"].into_iter().zip(existed.into_iter().rev()) {
        if !existed {
            fs::remove_dir(container.path(path)).expect("removed");
        }
    }
}

/// Removes the package while a pod runs: its record stays, which an agent needs once Weir is installed again.
fn records_of_pods_survive_the_removal(container: &Container) {
    let record = "/run/weir/pods/attachment-4f1a:eth0.json";
    fs::create_dir_all(container.path("/run/weir/pods")).expect("made");
    for file in [record, "/run/weir/agent.json"] {
        fs::write(container.path(file), "{}").expect("written");
    }
    container.must(&["dpkg", "--remove", "weir"]);
    assert!(container.path(record).exists() && !container.path("/run/weir/agent.json").exists());
}
