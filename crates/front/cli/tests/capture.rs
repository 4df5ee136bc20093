//! `weir capture` on a host with planted secrets.

mod program;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use program::{directory, file, text};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use weir_pods::{Directory, Labels};
use weir_policy::Policy;
use weir_status::{
    AgentStatus, FabricLink, FabricSession, FabricStatus, Status, TenantPort, TenantQueuesStatus, TenantStatus,
};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// A key of Weir, a password, and the user of a URL.
const KEY: &str = "3f9a1c77d0e24b5a8891aa0bcc12de34f56789ab01cd23ef4567890abcdef012";
const PASSWORD: &str = "Mellon77-friend";
const TOKEN: &str = "tk_live_4eC39HqLyjWDarjtT1zdp7dc";
const PRIVATE: &str = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgVcB";

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A secret in the forms in which programs print it.
fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned(), STANDARD.encode(secret), hexadecimal(secret.as_bytes())];
    if secret == KEY {
        let bytes: Vec<u8> =
            (0..KEY.len()).step_by(2).map(|at| u8::from_str_radix(&KEY[at..at + 2], 16).expect("digits")).collect();
        forms.extend([KEY.to_ascii_uppercase(), STANDARD.encode(&bytes)]);
    }
    forms
}

/// A program in the directory of PATH that prints a text.
fn program(directory: &Path, name: &str, prints: &str) {
    let path = file(directory, name, &format!("#!/bin/sh\ncat <<'END'\n{prints}\nEND\n"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("changed");
}

fn policy_text() -> String {
    format!(
        "# {KEY}\n# password: {PASSWORD}\nweir: 1\nnetwork: {{ nic: 1Gb/s, racks: {{ r: {{ uplink: 1Gb/s, \
         machines: [m1, m2] }} }} }}\nservices: {{ a: {{ match: [ {{ port: 1 }} ] }} }}\n"
    )
}

fn status(policy: &str) -> String {
    let (policy, _) = Policy::parse("policy.yaml", policy).expect("sound");
    let mut agent = AgentStatus::outline(&policy, policy.network().machine_named("m1").expect("there"));
    agent.interface = "lo".to_owned();
    let failure = format!("https://weir:{PASSWORD}@broker:30567?token={TOKEN}: refused");
    let session = FabricSession { last_failure: Some(failure), ..FabricSession::default() };
    agent.fabric = Some(FabricLink { session: Some(session), ..FabricLink::default() });
    Status::Agent(agent).to_json()
}

/// A capture with planted secrets in policy, options, status, journal, unit, firewall and key file.
fn capture(directory: &Path, more: &[&str]) -> Output {
    let programs = directory.join("bin");
    fs::create_dir_all(&programs).expect("made");
    let private = "PRIVATE KEY";
    let encoded: Vec<String> = [KEY, PASSWORD, TOKEN].into_iter().flat_map(forms).collect();
    let journal = format!(
        "Nov 29 m1 weir[1]: -----BEGIN {private}-----\nNov 29 m1 weir[1]: {PRIVATE}\nNov 29 m1 weir[1]: -----END \
         {private}-----\nNov 29 m1 weir[1]: limits are in force\n{}",
        encoded.join("\n")
    );
    program(&programs, "journalctl", &journal);
    program(&programs, "systemctl", &format!("ExecStart={{ argv[]=weir agent --token {TOKEN} --interface lo }}"));
    program(&programs, "nft", &format!("comment \"secret={PASSWORD}\""));
    file(directory, "policy.yaml", &policy_text());
    file(directory, "agent.conf", &format!("WEIR_AGENT=\"--interface lo --metrics 10.0.0.1:30566\"\nWEIR_KEY={KEY}\n"));
    file(directory, "pods.conf", "WEIR_PODS=\"--node m1 --token /etc/weir/pods-token\"\n");
    let status = file(directory, "agent.json", &status(&policy_text()));
    file(directory, "key", &format!("{KEY}\n"));
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(WEIR);
    command
        .args(["capture", "--configuration", &directory.display().to_string(), "--status", &status])
        .args(more)
        .env("PATH", path)
        .env("NO_COLOR", "1");
    command.output().expect("runs")
}

#[test]
fn no_planted_secret_is_in_the_archive() {
    let directory = directory();
    let archive = directory.path().join("report.tar");
    let output = capture(directory.path(), &["--output", &archive.display().to_string()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(fs::metadata(&archive).expect("written").mode() & 0o777, 0o600);
    let bytes = fs::read(&archive).expect("readable");
    let all = [&bytes[..], &output.stdout, &output.stderr].concat();
    let all = String::from_utf8_lossy(&all).to_string();
    for secret in [KEY, PASSWORD, TOKEN, PRIVATE] {
        for form in forms(secret) {
            let form = form.trim_end_matches('=');
            assert!(!all.contains(form), "{form} is in the archive");
        }
    }
    // The rest of the same texts is there.
    for fact in [
        "limits are in force",
        "--metrics 10.0.0.1:30566",
        "--token /etc/weir/pods-token",
        "broker:30567",
        "--interface lo",
        "machines: [m1, m2]",
        "\"peers\": 1",
    ] {
        assert!(all.contains(fact), "{fact} is missing");
    }
}

#[test]
fn manifest_has_the_digest_of_each_file() {
    let directory = directory();
    let archive = directory.path().join("report.tar");
    capture(directory.path(), &["--output", &archive.display().to_string()]);
    let check =
        "tar xf report.tar && grep -v '^[#-]' MANIFEST | awk -F'\\t' '{ print $1 \"  \" $4 }' | sha256sum -c --quiet";
    let output = Command::new("sh").args(["-c", check]).current_dir(directory.path()).output().expect("runs");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let listed = fs::read_to_string(directory.path().join("MANIFEST")).expect("there");
    for name in
        ["weir/doctor.json", "configuration/policy.yaml", "statuses/1.json", "services/journal", "network/sysctl"]
    {
        assert!(listed.contains(&format!("\t{name}\t")), "{name} is missing in {listed}");
    }
    assert!(!listed.contains("/key"), "{listed}");
}

const INITECH: &str = "# of Initech\nweir: 1\nnetwork:\n  nic: 1Gb/s\n  racks:\n    basement: { uplink: 1Gb/s, \
                       machines: [milton, lumbergh] }\n  machines: { milton: { address: 10.7.7.1 } }\nservices:\n  \
                       payroll: { match: [ { pod: { labels: \"app=stapler,chart\" } } ] }\n";

/// The statuses of an agent and a broker, whose names are partly of no policy.
fn write_statuses(directory: &Path) {
    let (policy, _) = Policy::parse("policy.yaml", &INITECH.replace("milton", "m1")).expect("sound");
    let mut agent = AgentStatus::outline(&policy, policy.network().machine_named("m1").expect("there"));
    agent.machine = "milton".to_owned();
    // A part of the label `chart`.
    agent.epoch = 10;
    agent.unheard = vec!["swingline".to_owned()];
    agent.fabric = Some(FabricLink { leader: Some("nagheenanajar".to_owned()), ..FabricLink::default() });
    agent.guests_missed = Some("no labels are known of pod chotchkies/flair-0".to_owned());
    agent.filters_unmatched = vec!["bobs: no pod here has namespace=slydell labels=tier=gibbons".to_owned()];
    file(directory, "agent.json", &Status::Agent(agent).to_json());
    let mut fabric = FabricStatus::outline(&policy, "10.7.7.9:30567", 1);
    let competes = vec![TenantPort { port: "spinesmykowski peterman".to_owned(), tenants: 9, queues: 7 }];
    let tenants = vec![TenantStatus { tenant: "initrode".to_owned(), competes, ..TenantStatus::default() }];
    fabric.tenant_queues = Some(TenantQueuesStatus { tenants, ..TenantQueuesStatus::default() });
    file(directory, "fabric.json", &Status::Fabric(fabric).to_json());
}

/// Records of a pod in another directory than the usual one.
fn write_records(directory: &Path) {
    let labels = [("app", "stapler"), ("chart", "web-4.10.1"), ("component", "agent"), ("version", "v1.27.10")];
    let record = Labels {
        pod: weir_pods::FORMAT,
        namespace: "initech".to_owned(),
        name: "tps-0".to_owned(),
        uid: None,
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
    };
    Directory::new(directory).write_labels(&record).expect("written");
}

/// The text of an archive with pseudonyms, of a node that is not called as its machine. Each JSON file is one.
fn anonymised(policy: &[&str]) -> String {
    let directory = directory();
    let at = |name: &str| directory.path().join(name);
    let programs = at("bin");
    fs::create_dir(&programs).expect("made");
    let journal = "09:10:27 weir-agent: pod initech/tps-0 of stapler\n09:10:27 list the pods of worker-3: 127.0.0.10";
    program(&programs, "journalctl", journal);
    let chain = "service-ULMVA6XW-veridian/payments/tcp/p80__10.180.0.1";
    let rules = format!("table ip kube-proxy {{\n\tchain {chain} {{\n\t}}\n}}\ntable ip weir {{\n\tcounter\n}}");
    program(&programs, "nft", &rules);
    file(directory.path(), "initech.yaml", INITECH);
    write_statuses(directory.path());
    write_records(&at("records"));
    let fabric = "--certificate /etc/weir/machine-milton.pem --fabric https://fabric.initech.example:30567";
    let options = format!("--interface lo --machine milton --listen 10.7.7.1:30565 --peer m2:2001:db8::7 {fabric}");
    let pods = at("records").display().to_string();
    file(directory.path(), "agent.conf", &format!("WEIR_AGENT=\"{options} --pods {pods}\"\n"));
    file(directory.path(), "pods.conf", "WEIR_PODS=\"--node worker-3 --api https://10.7.7.1:6443\"\n");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new(WEIR)
        .arg("capture")
        .args(policy)
        .args(["--configuration", ".", "--status", "agent.json", "--status", "fabric.json", "--anonymise"])
        .args(["--output", "report.tar"])
        .current_dir(directory.path())
        .env("PATH", path)
        .output()
        .expect("runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let unpack = ["xf", "report.tar", "--one-top-level=unpacked"];
    assert!(Command::new("tar").args(unpack).current_dir(directory.path()).status().expect("runs").success());
    let files = json_files(&at("unpacked"));
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).expect("there");
        if let Err(error) = serde_json::from_str::<serde_json::Value>(&text) {
            panic!("{}: {error}: {text}", file.display());
        }
    }
    for number in [1, 2] {
        let text = fs::read(at(&format!("unpacked/statuses/{number}.json"))).expect("there");
        Status::read(&text).unwrap_or_else(|error| panic!("status {number}: {error}"));
    }
    String::from_utf8_lossy(&fs::read(at("report.tar")).expect("written")).to_string()
}

/// The JSON files below a directory.
fn json_files(directory: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(directory).expect("there").map(|entry| entry.expect("an entry").path());
    let files = paths.flat_map(|path| if path.is_dir() { json_files(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect()
}

#[test]
fn names_and_addresses_have_pseudonyms() {
    let all = anonymised(&["initech.yaml"]);
    for name in ["milton", "lumbergh", "basement", "payroll", "10.7.7.1", "of Initech", "initech.example", "2001:db8"] {
        assert!(!all.contains(name), "{name} is in the archive");
    }
    for name in ["worker-3", "initech", "tps-0", "stapler", "veridian", "payments", "10.180.0.1"] {
        assert!(!all.contains(name), "{name} is in the archive");
    }
    let behind = |option: &str| {
        let value = all.split(option).nth(1).and_then(|behind| behind.split(' ').next());
        value.unwrap_or_else(|| panic!("no {option}")).to_owned()
    };
    let pseudonym = behind("--machine ");
    assert!(all.contains(&format!("/etc/weir/machine-{pseudonym}.pem")), "{pseudonym}");
    assert!(pseudonym.starts_with("name-") && all.contains(&format!("\"machine\": \"{pseudonym}\"")), "{pseudonym}");
    assert!(all.contains(&format!("list the pods of {}: 127.0.0.10", behind("--node "))), "the node in the journal");
    for fact in [
        "09:10:27 weir-agent: pod name-",
        "\"epoch\": 10,",
        "table ip weir {",
        "# left out: 1 tables of other programs",
    ] {
        assert!(all.contains(fact), "{fact} is missing");
    }
}

#[test]
fn names_of_statuses_have_pseudonyms_without_a_policy() {
    let all = anonymised(&[]);
    let of_agent = ["milton", "swingline", "nagheenanajar", "chotchkies", "flair-0", "bobs", "slydell", "gibbons"];
    for name in of_agent.into_iter().chain(["smykowski", "peterman", "initrode", "10.7.7.9", "initech", "tps-0"]) {
        assert!(!all.contains(name), "{name} is in the archive");
    }
    assert!(all.contains("\"unheard\": ["), "the key of the status");
}

#[test]
fn list_writes_nothing_and_an_archive_is_not_replaced() {
    let directory = directory();
    let output = capture(directory.path(), &["--list"]);
    assert!(text(&output.stdout).contains("configuration/policy.yaml"), "{}", text(&output.stdout));
    assert!(!fs::read_dir(directory.path()).expect("there").flatten().any(|one| one.path().ends_with(".tar")));
    let archive = file(directory.path(), "report.tar", "mine");
    assert_eq!(capture(directory.path(), &["--list", "--interface", ".."]).status.code(), Some(2));
    let output = capture(directory.path(), &["--output", &archive]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(archive).expect("there"), "mine");
}
