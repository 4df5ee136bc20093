//! `weir agent`: the daemon of a host.

mod reload;
mod remove;

use super::dashboard;
use super::fabric::{identity_refused, period, timeout};
use super::limit_rule::RuleChoice;
use crate::error::{CommandError, Exit};
use crate::input;
use crate::output::Ui;
use std::io::{self, IsTerminal};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{debug, warn};
use tracing_subscriber::EnvFilter;
use weir_agent::{AgentConfig, AgentError, DEFAULT_PORT, RuntimeConfig, Source, host, key_file};
use weir_control::{RackBrokerConfig, Stale};
use weir_document::Diagnostic;
use weir_fabric::state::epoch;
use weir_fabric::{BrokerUrl, IdentityFiles, SessionConfig, SessionError};
use weir_linux::loader::LoaderError;
use weir_linux::requirements::{self, Purpose};
use weir_linux::shaper::{Backend, ShaperError};
use weir_policy::Policy;
use weir_units::{Duration, MachineId};

/// The options.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  weir agent policy.yaml --interface eth0 --key /etc/weir/key
  weir agent policy.yaml --machine m1 --interface eth0 --key key --listen 10.0.0.1:30565 \\
             --peer m2=10.0.0.2:30565 --peer m3=10.0.0.3:30565
  weir agent policy.yaml --interface eth0 --key key --fabric https://fabric.example.org:30567 \\
             --certificate machine-m1.pem --private-key machine-m1.key --ca ca.pem
  weir agent policy.yaml --interface eth0 --key key --metrics 10.0.0.1:30566
  weir agent --remove --interface eth0 --status /run/weir/agent.json
  weir agent --remove --all

The agent classifies and counts every packet of the interface, limits each service, and reports the
usage of its services to the other machines of its rack. Addresses come from the policy
(`network: machines: m1: { address: 10.0.0.1 }`) unless they are given here; it listens on one
address only. SIGTERM or Ctrl-C restores the host to its original state. After a crash all
stays in force for 5 s, then the static policy: start it again, or use --remove.

SIGHUP reads the policy and the keys again, whole or not at all: a refusal is logged, and the old
ones stay. Another address of this machine takes a restart. --reload checks them first, sends the
signal to the agent of --interface, and fails with the reason if the agent refuses.

The environment sets the level of the log: RUST_LOG=debug shows every limit.")]
pub(crate) struct Args {
    /// The policy file
    #[arg(required_unless_present = "remove")]
    policy: Option<PathBuf>,
    /// The machine of the policy that this host is; by default the one with this host's name
    #[arg(long)]
    machine: Option<String>,
    /// The network interface to shape
    #[arg(long, value_name = "NAME", required_unless_present = "all")]
    interface: Option<String>,
    /// The key file that all agents share (see `weir key`)
    #[arg(long, value_name = "FILE", required_unless_present = "remove")]
    key: Option<PathBuf>,
    /// Where to listen for the rack's reports; the policy's address of this machine, port 30565
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// The address of another machine of the rack, if not the policy's
    #[arg(long, value_name = "MACHINE=ADDRESS:PORT")]
    peer: Vec<String>,
    /// The directory of state that must survive a restart
    #[arg(long, value_name = "DIR", default_value = "/var/lib/weir")]
    state: PathBuf,
    /// Write the agent's status to this file once a second, as JSON
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
    /// Serve /status and Prometheus' /metrics there, read only, without access control; the default
    /// port of readers is 30566
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Serve the dashboard of all machines there, as `weir dashboard` does
    #[arg(long, value_name = "ADDRESS:PORT")]
    dashboard: Option<SocketAddr>,
    /// Forget a machine's last report once it has been silent for 5 s
    #[arg(long)]
    forget_silent: bool,
    /// The services that have limits here: those under a maximum (ceilings), or backlogged ones, computed
    /// once a second as in Parley's paper (published); all machines must be configured alike
    #[arg(long, value_enum, default_value_t = RuleChoice::Ceilings)]
    rule: RuleChoice,
    /// The addresses of all fabric brokers (see `weir fabric`)
    #[arg(long, value_name = "URL[,URL]", value_delimiter = ',')]
    #[arg(requires = "certificate", requires = "private_key", requires = "ca")]
    fabric: Vec<BrokerUrl>,
    /// This machine's certificate, in PEM, for the fabric broker (see `weir certificate`)
    #[arg(long, value_name = "FILE", requires = "fabric")]
    certificate: Option<PathBuf>,
    /// Its private key, readable by its owner only
    #[arg(long, value_name = "FILE", requires = "fabric")]
    private_key: Option<PathBuf>,
    /// The certificate of the CA that also signed the fabric broker's
    #[arg(long, value_name = "FILE", requires = "fabric")]
    ca: Option<PathBuf>,
    /// The fabric broker's period, as configured there (`weir fabric --period`)
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = period)]
    fabric_period: Duration,
    /// How long its last limits are valid; by default five periods
    #[arg(long, value_name = "TIME", value_parser = period)]
    fabric_timeout: Option<Duration>,
    /// The backend: departure times over fq (edt), HTB classes (htb), or the first of both that this host supports
    #[arg(long, value_enum, default_value_t = BackendChoice::Auto)]
    backend: BackendChoice,
    /// The shortest period of credits: at least a round trip, and the lateness of a thread of this host
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = super::forwarder::period)]
    credit_period: Duration,
    /// The directory of the records of pods
    #[arg(long, value_name = "DIR", default_value = weir_linux::guests::PODS)]
    pods: PathBuf,
    /// Replace a queueing discipline of another program on the interface
    #[arg(long)]
    force: bool,
    /// At the end leave all limits in force for the next agent; without one the static policy takes over after 5 s
    #[arg(long)]
    keep: bool,
    /// Delete the state of a killed agent on the interface, and do nothing else
    #[arg(long, conflicts_with_all = [
        "machine", "key", "listen", "peer", "metrics", "dashboard", "forget_silent", "rule", "force", "fabric",
        "reload",
    ])]
    remove: bool,
    /// With --remove: on all interfaces of this host, also on those that are gone
    #[arg(long, requires = "remove", conflicts_with = "interface")]
    all: bool,
    /// Have the agent of the interface read its files again, wait for the result in --status, and do nothing else; a
    /// process number that is not the agent's is refused
    #[arg(long, value_name = "PID", requires = "status")]
    reload: Option<Option<u32>>,
}

impl Args {
    /// The interface; absent only with `--all`.
    fn interface(&self) -> Result<&str, CommandError> {
        self.interface.as_deref().ok_or_else(|| CommandError::refused("--interface is needed"))
    }
}

/// `--backend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum BackendChoice {
    Auto,
    Edt,
    Htb,
}

impl BackendChoice {
    fn backend(self) -> Option<Backend> {
        match self {
            Self::Auto => None,
            Self::Edt => Some(Backend::Edt),
            Self::Htb => Some(Backend::Htb),
        }
    }
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    if let Some(process) = args.reload {
        return reload::run(args, process, ui);
    }
    let missing = requirements::check(Purpose::Agent);
    if !missing.is_empty() {
        let error = CommandError::failed("the agent cannot run on this host");
        return Err(missing.iter().fold(error, |error, missing| error.hint(missing.to_string())));
    }
    if args.remove {
        return remove::run(args, ui);
    }
    let config = config(args, ui)?;
    log_to_stderr();
    // The dashboard ends with the agent.
    let _dashboard = args
        .dashboard
        .map(|listen| dashboard::start(&config.runtime_config.policy, listen, &[], &[], &[]))
        .transpose()?;
    weir_agent::run(config).map_err(|error| match &error {
        AgentError::Host(host::HostError::Shaper(ShaperError::Foreign(_))) => {
            CommandError::refused(error.to_string()).hint("--force replaces it; the replaced qdisc is not restored")
        }
        AgentError::Host(host::HostError::Interface(_)) => CommandError::failed(error.to_string())
            .hint("`ip link` lists this host's interfaces; name one with --interface"),
        AgentError::Host(host::HostError::Taken { .. }) => CommandError::failed(error.to_string())
            .hint("its process number is in that file; `systemctl status weir-agent` shows the unit"),
        AgentError::Fabric(SessionError::Identity(refused)) => identity_refused(refused),
        AgentError::Listen { address, error: cause } => listen_refused(&error, *address, cause),
        AgentError::Host(host::HostError::Loader(LoaderError::Program(_) | LoaderError::Load(_))) => {
            CommandError::failed(shortened(&error.to_string()))
                .hint("RUST_LOG=debug shows the kernel's whole output; Weir was tested on Linux 6.1 and 6.18")
        }
        _ => CommandError::failed(error.to_string()),
    })?;
    Ok(Exit::Done)
}

/// The kernel's reason for the refusal of a program: one of the hundreds of lines of the verifier's
/// log.
fn shortened(text: &str) -> String {
    debug!("{text}");
    let Some((head, log)) = text.split_once("Verifier output:") else { return text.to_owned() };
    let lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let why = lines.take_while(|line| !line.starts_with("verification time") && !line.starts_with("processed ")).last();
    format!("{}: {}", head.trim_end().trim_end_matches('.'), why.unwrap_or("no reason is given"))
}

/// Why an address cannot be listened on, with hints.
fn listen_refused(error: &AgentError, address: SocketAddr, cause: &io::Error) -> CommandError {
    let failed = CommandError::failed(error.to_string());
    match cause.kind() {
        io::ErrorKind::AddrInUse => failed.hint(format!(
            "`ss -nlup 'sport = :{0}'` (`ss -nltp` of --metrics and --dashboard) shows the program that uses it; one \
             agent uses port {0} of an address",
            address.port()
        )),
        io::ErrorKind::AddrNotAvailable => failed.hint(format!(
            "{} is no address of this host (`ip address`): is it the right machine (--machine), or is the address not \
             up yet?",
            address.ip()
        )),
        _ => failed,
    }
}

/// The log of a daemon on standard error; in colours on a terminal only.
pub(super) fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_target(false)
        // A failed write is not reported: the report on the same closed standard error would panic.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal())
        .init();
}

fn config(args: &Args, ui: &mut Ui) -> Result<AgentConfig, CommandError> {
    if args.policy.as_deref() == Some(Path::new("-")) {
        return Err(CommandError::refused("the policy must be a file: SIGHUP reads it again"));
    }
    let name = match &args.machine {
        Some(name) => name.clone(),
        None => host_name()?,
    };
    let (runtime_config, notes) = runtime_config(args, &name)?;
    input::print_notes(&notes, ui)?;
    let fabric_timeout = timeout(args.fabric_period, args.fabric_timeout, "--fabric-timeout", "--fabric-period")?;
    let broker = RackBrokerConfig {
        stale: if args.forget_silent { Stale::Forget } else { Stale::Keep },
        fabric_period: args.fabric_period,
        fabric_timeout,
        ..args.rule.rack()
    };
    let fabric = fabric(args, &name, &broker);
    let tenants = args.state.join(format!("tenants-{name}.json"));
    let files = Files { args: args.clone(), name };
    let epoch = files.next_epoch().map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => CommandError::refused(error.to_string()),
        _ => CommandError::cannot_write(&args.state, error),
    })?;
    Ok(AgentConfig {
        runtime_config,
        source: Box::new(files),
        interface: args.interface()?.to_owned(),
        epoch,
        broker,
        backend: args.backend.backend(),
        credit_period: args.credit_period,
        pods: args.pods.clone(),
        force: args.force,
        keep: args.keep,
        status: args.status.clone(),
        metrics: args.metrics,
        fabric,
        fabric_sockets: Default::default(),
        tenants: Some(tenants),
    })
}

/// The configuration of the machine of this name from the policy and the key file, and the policy's
/// notes.
fn runtime_config(args: &Args, name: &str) -> Result<(RuntimeConfig, Vec<Diagnostic>), CommandError> {
    let (Some(policy_path), Some(key)) = (&args.policy, &args.key) else {
        return Err(CommandError::refused("a policy and --key are needed"));
    };
    let (policy, notes) = input::policy(policy_path)??;
    let machine = machine(&policy, name)?;
    let keys = key_file::read(key).map_err(|error| {
        let missing = matches!(&error, key_file::KeyFileError::File(error) if error.is_missing());
        let refused = CommandError::refused(error.to_string());
        if missing { refused.hint(format!("make one with `weir key {}`", key.display())) } else { refused }
    })?;
    let listen = match args.listen {
        Some(listen) => one_machine(listen).map_err(|reason| {
            CommandError::refused(format!("--listen {listen}: {reason}")).hint(format!(
                "write the address that the rack's other machines send to, for example --listen 10.0.0.1:{DEFAULT_PORT}"
            ))
        })?,
        None => from_policy(&policy, machine)?,
    };
    let peers = peers(&policy, machine, &args.peer)?;
    Ok((RuntimeConfig { policy: Arc::new(policy), machine, listen, peers, keys }, notes))
}

/// The files that a reload reads.
struct Files {
    args: Args,
    name: String,
}

impl Source for Files {
    fn runtime_config(&self) -> Result<RuntimeConfig, String> {
        let (runtime_config, notes) = runtime_config(&self.args, &self.name).map_err(|error| error.text())?;
        for note in notes {
            let position = note.position();
            warn!("{}:{}:{}: {}", note.file(), position.line, position.column, note.cause());
        }
        Ok(runtime_config)
    }

    fn next_epoch(&self) -> io::Result<u64> {
        epoch::next(&self.args.state, &format!("epoch-{}", self.name), 0)
    }

    fn raise_epoch(&self, to: u64) -> io::Result<()> {
        epoch::raise(&self.args.state, &format!("epoch-{}", self.name), to)
    }
}

/// The session with the fabric broker, if there is one.
fn fabric(args: &Args, machine: &str, broker: &RackBrokerConfig) -> Option<SessionConfig> {
    // All three are given with --fabric, and only then.
    let identity = IdentityFiles {
        certificate: args.certificate.clone()?,
        private_key: args.private_key.clone()?,
        ca: args.ca.clone()?,
    };
    Some(SessionConfig {
        machine: machine.to_owned(),
        brokers: args.fabric.clone(),
        identity,
        period: broker.fabric_period,
        timeout: broker.fabric_timeout,
        // The agent sets them.
        sockets: None,
    })
}

fn host_name() -> Result<String, CommandError> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_err(|error| CommandError::failed(format!("cannot read this host's name: {error}")))?;
    Ok(name.trim().to_owned())
}

fn machine(policy: &Policy, name: &str) -> Result<MachineId, CommandError> {
    policy.network().machine_named(name).ok_or_else(|| {
        let known: Vec<&str> = policy.network().machines().iter().map(|machine| machine.name()).collect();
        CommandError::refused(format!("the policy has no machine `{name}`"))
            .hint(format!("its machines are {}; choose one with --machine", crate::text::list(&known, 8)))
    })
}

/// A machine's address in the policy.
fn from_policy(policy: &Policy, id: MachineId) -> Result<SocketAddr, CommandError> {
    let machine = policy.network().machine(id);
    let address: Option<IpAddr> = machine.address();
    address.map(|address| SocketAddr::new(address, DEFAULT_PORT)).ok_or_else(|| {
        let name = machine.name();
        CommandError::refused(format!("the agent of `{name}` has no address")).hint(format!(
            "write `network: {{ machines: {{ {name}: {{ address: 10.0.0.1 }} }} }}` in the policy, or use --listen \
             for this machine and --peer for the others"
        ))
    })
}

/// Refuses an address that is not that of one machine, as a policy's `address:` does: address and
/// port identify datagrams to the agent.
fn one_machine(address: SocketAddr) -> Result<SocketAddr, &'static str> {
    // An IPv4-mapped address is the IPv4 one, as in a policy.
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    match address {
        _ if !weir_network::language::is_of_one_machine(address.ip()) => Err("is not the address of one machine"),
        _ if address.port() == 0 => Err("has no port"),
        _ => Ok(address),
    }
}

/// The addresses of the rack's other machines: as given, else from the policy.
fn peers(policy: &Policy, me: MachineId, given: &[String]) -> Result<Vec<(MachineId, SocketAddr)>, CommandError> {
    let rack = policy.network().rack(policy.network().machine(me).rack());
    let mut addresses: Vec<(MachineId, SocketAddr)> = Vec::new();
    for text in given {
        let hint = "write --peer MACHINE=ADDRESS:PORT, for example --peer m2=10.0.0.2:30565";
        let refuse = |reason: String| CommandError::refused(format!("--peer {text}: {reason}")).hint(hint);
        let (name, address) = text.split_once('=').ok_or_else(|| refuse("there is no `=`".to_owned()))?;
        let id = machine(policy, name)?;
        if id == me || !rack.machines().contains(&id) {
            return Err(refuse(format!("`{name}` is not another machine of rack `{}`", rack.name())));
        }
        if addresses.iter().any(|(known, _)| *known == id) {
            return Err(refuse(format!("`{name}` has an address already")));
        }
        let address = address.parse().map_err(|_| refuse(format!("`{address}` is not an address and a port")))?;
        let address = one_machine(address).map_err(|reason| refuse(reason.to_owned()))?;
        addresses.push((id, address));
    }
    for id in rack.machines().iter().filter(|id| **id != me) {
        if !addresses.iter().any(|(known, _)| known == id) {
            addresses.push((*id, from_policy(policy, *id)?));
        }
    }
    addresses.sort_unstable_by_key(|(id, _)| *id);
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_found_in_the_verifiers_log() {
        let text = "BPF program: the BPF_PROG_LOAD syscall returned Permission denied (os error 13). Verifier output: \
                    0: R1=ctx()\n1: (b4) w6 = 0\nR3 pointer arithmetic prohibited for !root\n\
                    verification time 16 usec\nstack depth 224\n";
        assert_eq!(
            shortened(text),
            "BPF program: the BPF_PROG_LOAD syscall returned Permission denied (os error 13): R3 pointer arithmetic \
             prohibited for !root"
        );
        assert_eq!(shortened("BPF program: no such file"), "BPF program: no such file");
    }
}
