//! The allow-list of sources, and their texts.
//!
//! Only the files and commands below are read, beside the policy and the statuses that the operator names. Files of
//! keys and private keys are not among them. All commands read only; one that has not ended after
//! [`PATIENCE`] is killed.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use weir_pods::{ATTACHMENT, Directory, LABELS, Records};

/// The longest time of a command.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of a source; the rest is left out.
pub const MOST_BYTES: usize = 8 * 1024 * 1024;
/// Where programs of the administrator are, beside the user's PATH.
const DIRECTORIES: &str = "/usr/sbin:/sbin:/usr/bin:/bin";

/// The name of the policy in the bundle.
pub const POLICY: &str = "configuration/policy.yaml";

/// The name of the firewall's rules in the bundle.
pub const FIREWALL: &str = "network/nftables";

/// Files of the host.
const FILES: &[(&str, &str)] = &[
    ("host/release", "/etc/os-release"),
    ("host/clocksource", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("host/cgroups", "/proc/self/cgroup"),
    ("host/cpus", "/sys/devices/system/cpu/online"),
    ("host/memory", "/proc/meminfo"),
    ("network/softnet", "/proc/net/softnet_stat"),
    ("network/snmp", "/proc/net/snmp"),
    ("network/netstat", "/proc/net/netstat"),
];

/// Files with the options of services.
const OPTIONS: [&str; 4] = ["agent.conf", "fabric.conf", "forwarder.conf", "pods.conf"];

/// Commands of the host.
const COMMANDS: &[(&str, &[&str])] = &[
    ("host/kernel", &["uname", "-a"]),
    ("network/links.json", &["ip", "-d", "-s", "-j", "link"]),
    ("network/addresses.json", &["ip", "-j", "address"]),
    ("network/routes.json", &["ip", "-j", "route", "show", "table", "all"]),
    ("network/rules.json", &["ip", "-j", "rule"]),
    ("network/neighbours.json", &["ip", "-j", "neighbour"]),
    ("network/qdiscs.json", &["tc", "-s", "-j", "qdisc", "show"]),
    (FIREWALL, &["nft", "list", "ruleset"]),
    ("network/sockets", &["ss", "-lntu"]),
    (
        "services/units",
        &[
            "systemctl",
            "show",
            "weir-agent",
            "weir-fabric",
            "weir-forwarder",
            "weir-pods",
            "--property=Id,LoadState,ActiveState,SubState,Result,UnitFileState,ExecMainStatus,NRestarts,ExecStart",
        ],
    ),
    (
        "services/journal",
        &[
            "journalctl",
            "--no-pager",
            "-o",
            "short-iso",
            "-n",
            "2000",
            "-u",
            "weir-agent",
            "-u",
            "weir-fabric",
            "-u",
            "weir-forwarder",
            "-u",
            "weir-pods",
        ],
    ),
    ("host/dmesg", &["dmesg", "--ctime"]),
];

/// Commands about one interface, whose name follows or replaces `%`.
const INTERFACE_COMMANDS: &[(&str, &[&str])] = &[
    ("classes.json", &["tc", "-s", "-j", "class", "show", "dev", "%"]),
    ("ingress.json", &["tc", "-s", "-j", "filter", "show", "dev", "%", "ingress"]),
    ("egress.json", &["tc", "-s", "-j", "filter", "show", "dev", "%", "egress"]),
    ("offloads", &["ethtool", "-k", "%"]),
    ("statistics", &["ethtool", "-S", "%"]),
    ("driver", &["ethtool", "-i", "%"]),
];

/// Directories of sysctls, with the start of the names that are read.
const SYSCTLS: &[(&str, &str)] = &[("/proc/sys/net/core", ""), ("/proc/sys/net/ipv4", "tcp_")];
/// Parts of the names of sysctls that are secrets.
const SECRET_SYSCTLS: [&str; 2] = ["key", "secret"];
/// Directories of which the names of files are listed: pins and locks.
const LISTED: [&str; 2] = ["/sys/fs/bpf/weir", "/run/weir"];

/// A source and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The path in the bundle.
    pub name: String,
    /// The file or the command.
    pub source: String,
    /// The text, or why there is none.
    pub content: Result<String, String>,
}

/// The sources that the operator names beside the list.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The policy.
    pub policy: Option<PathBuf>,
    /// The directory of the services' options.
    pub configuration: PathBuf,
    /// Interfaces whose classes, filters, offloads and statistics are read.
    pub interfaces: Vec<String>,
}

/// Reads all sources, in the network namespace of the calling thread.
///
/// # Errors
/// No command can be started, since the process lacks descriptors.
pub fn read(request: &Request) -> io::Result<Vec<Item>> {
    let file = |name: &str, path: &Path| Item {
        name: name.to_owned(),
        source: path.display().to_string(),
        content: file(path),
    };
    let mut items: Vec<Item> = request.policy.iter().map(|path| file(POLICY, path)).collect();
    let options = |name: &&str| file(&format!("configuration/{name}"), &request.configuration.join(name));
    items.extend(OPTIONS.iter().map(options));
    items.extend(FILES.iter().map(|(name, path)| file(name, Path::new(path))));
    items.push(Item {
        name: "network/sysctl".into(),
        source: "/proc/sys/net/core, /proc/sys/net/ipv4/tcp_*".into(),
        content: Ok(sysctls()),
    });
    let listed = LISTED.map(|directory| listing(Path::new(directory))).concat();
    items.push(Item { name: "host/pins".into(), source: LISTED.join(", "), content: Ok(listed) });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for (name, words) in COMMANDS {
        commands.push(((*name).to_owned(), words.iter().map(|word| (*word).to_owned()).collect()));
    }
    for interface in &request.interfaces {
        for (name, words) in INTERFACE_COMMANDS {
            let words = words.iter().map(|word| if *word == "%" { interface.clone() } else { (*word).to_owned() });
            commands.push((format!("interfaces/{interface}/{name}"), words.collect()));
        }
    }
    for (name, words) in commands {
        let content = runtime.block_on(run(&words));
        items.push(Item { name, source: words.join(" "), content });
    }
    Ok(items)
}

/// A file's text, of at most [`MOST_BYTES`].
fn file(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST_BYTES as u64).read_to_end(&mut bytes));
    read.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A command's output, and its errors if it fails.
async fn run(words: &[String]) -> Result<String, String> {
    let [program, arguments @ ..] = words else { return Err("no command".to_owned()) };
    let path = std::env::var("PATH").map_or_else(|_| DIRECTORIES.to_owned(), |path| format!("{path}:{DIRECTORIES}"));
    let mut command = Command::new(program);
    command.args(arguments).env("PATH", path).env("LC_ALL", "C").stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = output.map_err(|_| format!("not ended after {} s", PATIENCE.as_secs()))?;
    let output = output.map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_BYTES)]).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!("{}: {}", output.status, text(&output.stderr).trim()))
}

/// The values of the sysctls that are no secrets.
fn sysctls() -> String {
    let mut lines = Vec::new();
    for (directory, start) in SYSCTLS {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with(start) || SECRET_SYSCTLS.iter().any(|part| name.contains(part)) {
                continue;
            }
            if let Ok(value) = fs::read_to_string(entry.path()) {
                lines.push(format!("{directory}/{name} = {}\n", value.trim().replace('\n', " | ")));
            }
        }
    }
    lines.sort_unstable();
    lines.concat()
}

/// The rules of tables called `weir`, `weir-…` or `weir_…`. Those of other programs have the names of their objects,
/// such as a chain of kube-proxy for each service of a cluster.
pub fn own_tables(rules: &str) -> String {
    let (mut kept, mut others, mut is_own) = (String::new(), 0u32, false);
    for line in rules.split_inclusive('\n') {
        if let Some(table) = line.strip_prefix("table ") {
            let name = table.split_whitespace().nth(1).unwrap_or_default();
            is_own = name == "weir" || name.starts_with("weir-") || name.starts_with("weir_");
            others += u32::from(!is_own);
        }
        if is_own {
            kept.push_str(line);
        }
        // Lines between tables are comments of nft.
        is_own &= !line.starts_with('}');
    }
    format!("{kept}# left out: {others} tables of other programs\n")
}

/// The paths below a directory, two levels deep, without the content of any file. Records of pods, whose files have the
/// names of users' programs, are counted.
fn listing(directory: &Path) -> String {
    let mut paths = Vec::new();
    let below = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_record = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(ATTACHMENT) || name.starts_with(LABELS)
    };
    for directory in std::iter::once(directory.to_owned()).chain(below(directory)) {
        let (of_pods, others): (Vec<PathBuf>, Vec<PathBuf>) = below(&directory).partition(is_record);
        if !of_pods.is_empty() {
            paths.push(format!("{}: {}\n", directory.display(), records(&directory)));
        }
        paths.extend(others.iter().map(|path| format!("{}\n", path.display())));
    }
    paths.sort_unstable();
    paths.concat()
}

/// The number of records of pods by kind.
fn records(directory: &Path) -> String {
    match Directory::new(directory).read_all() {
        Ok(Records { attachments, labels, refused }) => {
            let [attachments, labels, refused] = [attachments.len(), labels.len(), refused.len()];
            format!("{attachments} attachments, {labels} records of labels, {refused} files that are no records")
        }
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_pods::{FORMAT, Labels};

    #[test]
    fn records_of_pods_are_counted() {
        let run = tempfile::tempdir().expect("a directory");
        let pods = run.path().join("pods");
        let record = Labels {
            pod: FORMAT,
            namespace: "shop".into(),
            name: "milton-1".into(),
            uid: None,
            labels: Default::default(),
        };
        Directory::new(&pods).write_labels(&record).expect("written");
        fs::write(run.path().join("agent.json"), "{}").expect("written");
        fs::write(pods.join("attachment-7:eth0.json"), "{").expect("written");
        let text = listing(run.path());
        let counts = "/pods: 0 attachments, 1 records of labels, 1 files that are no records\n";
        assert!(text.contains("/agent.json\n") && text.ends_with(counts), "{text}");
        let text = listing(&pods);
        assert_eq!(text, format!("{}{}", run.path().display(), counts));
        assert!(!text.contains("milton"), "{text}");
    }

    #[test]
    fn rules_of_other_programs_are_left_out() {
        let own = "table inet weir-limits {\n\tchain a {\n\t\tcounter\n\t}\n}\n";
        let other = "# Warning: of milton\ntable ip kube-proxy {\n\tchain service-PAYROLL-payroll/milton {\n\t}\n}\n";
        let weird = "table ip weirs {\n}\ntable ip milton {\n\t# table ip weir\n}\n";
        assert_eq!(own_tables(&[other, own, weird].concat()), format!("{own}# left out: 3 tables of other programs\n"));
        assert_eq!(own_tables(""), "# left out: 0 tables of other programs\n");
    }

    #[test]
    fn no_source_is_a_key() {
        let files = FILES.iter().map(|(_, path)| *path).chain(OPTIONS);
        let words = COMMANDS.iter().chain(INTERFACE_COMMANDS).flat_map(|(_, words)| words.iter().copied());
        for text in files.chain(words) {
            assert!(!text.contains("key") && !text.contains("/var/lib"), "{text}");
        }
        assert!(!sysctls().contains("tcp_fastopen_key"));
    }

    #[test]
    fn failing_command_has_a_reason() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let run = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            runtime.block_on(run(&words))
        };
        assert_eq!(run(&["echo", "all is well"]), Ok("all is well\n".to_owned()));
        assert_eq!(run(&["sh", "-c", "echo why >&2; exit 3"]), Err("exit status: 3: why".to_owned()));
        assert_eq!(run(&["no-such-program-of-weir"]), Err("No such file or directory (os error 2)".to_owned()));
    }

    #[test]
    fn all_sources_have_names_of_their_own() {
        let request = Request {
            policy: Some("/no/such/policy.yaml".into()),
            configuration: "/no/such".into(),
            interfaces: vec!["lo".into()],
        };
        let items = read(&request).expect("read");
        let mut names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        let policy = items.iter().find(|item| item.name == "configuration/policy.yaml").expect("named");
        assert_eq!(policy.content, Err("No such file or directory (os error 2)".to_owned()));
    }
}
