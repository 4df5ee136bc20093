//! `weir fabric`: the daemon that shares services among racks.

use super::agent::log_to_stderr;
use super::dashboard;
use super::limit_rule::RuleChoice;
use super::times;
use crate::error::{CommandError, Exit};
use crate::input;
use crate::output::Ui;
use crate::values;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_control::{FabricBrokerConfig, Stale};
use weir_fabric::daemon::read_policy;
use weir_fabric::{BrokerUrl, ClusterConfig, EtcdConfig, FabricConfig, FabricError, IdentityError, IdentityFiles};
use weir_observe::{Publisher, server};
use weir_units::Duration;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir certificate pki --policy policy.yaml --fabric fabric.example.org
  weir fabric policy.yaml --listen 10.0.0.1:30567 --certificate pki/fabric-fabric.example.org.pem \\
              --private-key pki/fabric-fabric.example.org.key --ca pki/ca.pem

  weir fabric policy.yaml --listen 10.0.0.1:30567 --advertise https://fabric1.example.org:30567 \\
              --etcd http://etcd1:2379,http://etcd2:2379 …

The leader of each rack reports the fabric demand of its services; every period the broker shares
each service among the racks by the policy's `fabric:` and sends the limits. Agents find it by
`weir agent --fabric https://fabric.example.org:30567`.

Both sides have certificates of one CA. A machine can report for itself only: its certificate must
name it. Without the broker racks keep their last limits for 50 s, then their own policy alone.

With --etcd several fabric brokers elect a leader; the others redirect agents to it, and one of
them succeeds it when it is gone. The policy in etcd is in force for all, not the files'; SIGHUP to
any of them puts its file in force for all.

SIGHUP reads the policy and the certificates again, each whole or not at all. SIGTERM or Ctrl-C
ends it. The environment sets the level of the log: RUST_LOG=debug shows every stream and refusal.")]
pub(crate) struct Args {
    /// The policy file
    policy: PathBuf,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    #[command(flatten)]
    identity: Identity,
    /// The directory of state that must survive a restart
    #[arg(long, value_name = "DIR", default_value = "/var/lib/weir")]
    state: PathBuf,
    /// Bind queues of the switches to the policy's tenants, which have their places in this file (`weir place
    /// --placed`); several fabric brokers need the same file
    #[arg(long, value_name = "FILE")]
    placement: Option<PathBuf>,
    /// Write the broker's status to this file once a period and when rack leaders connect or leave, as JSON
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
    /// Serve /status and Prometheus' /metrics there, read only, without access control
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Serve the dashboard of all machines there, as `weir dashboard` does; with --metrics or
    /// --status of this broker too
    #[arg(long, value_name = "ADDRESS:PORT")]
    dashboard: Option<SocketAddr>,
    /// How often limits are computed; agents must be configured alike (`--fabric-period`)
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = period)]
    period: Duration,
    /// How long a silent rack gets limits; by default five periods
    #[arg(long, value_name = "TIME", value_parser = period)]
    timeout: Option<Duration>,
    #[command(flatten)]
    others: Others,
    /// Forget a rack's last report once it has been silent for the timeout
    #[arg(long)]
    forget_silent: bool,
    /// The racks that have limits: those under a maximum (ceilings), or backlogged ones, computed once a
    /// period as in Parley's paper (published); agents must be configured alike
    #[arg(long, value_enum, default_value_t = RuleChoice::Ceilings)]
    rule: RuleChoice,
}

/// The other fabric brokers.
#[derive(Debug, clap::Args)]
struct Others {
    /// Run with others: the etcd in which they elect a leader and keep the policy
    #[arg(long, value_name = "URL[,URL]", value_delimiter = ',', requires = "advertise", value_parser = etcd_url)]
    etcd: Vec<String>,
    /// The address at which agents reach this fabric broker
    #[arg(long, value_name = "URL", requires = "etcd")]
    advertise: Option<BrokerUrl>,
    /// How long the leadership of a failed broker lasts, in whole seconds
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = lease)]
    lease: Duration,
    /// The prefix of these fabric brokers' keys in etcd
    #[arg(long, value_name = "KEY", default_value = "/weir/fabric", value_parser = prefix)]
    etcd_prefix: String,
    /// The certificate of the CA of etcd's certificates
    #[arg(long, value_name = "FILE", requires = "etcd")]
    etcd_ca: Option<PathBuf>,
    /// The certificate for etcd, if it requires one
    #[arg(long, value_name = "FILE", requires = "etcd_private_key")]
    etcd_certificate: Option<PathBuf>,
    /// Its private key, readable by its owner only
    #[arg(long, value_name = "FILE", requires = "etcd_certificate")]
    etcd_private_key: Option<PathBuf>,
}

impl Others {
    /// The configuration of the cluster, if there are other brokers.
    fn config(&self) -> Option<ClusterConfig> {
        let certificate = self.etcd_certificate.clone().zip(self.etcd_private_key.clone());
        Some(ClusterConfig {
            etcd: EtcdConfig { members: self.etcd.clone(), ca: self.etcd_ca.clone(), certificate },
            prefix: self.etcd_prefix.clone(),
            // Given with --etcd, and only then.
            url: self.advertise.clone()?,
            lease: self.lease,
        })
    }
}

/// The identity of the broker.
#[derive(Debug, clap::Args)]
pub(crate) struct Identity {
    /// The certificate, in PEM (see `weir certificate`)
    #[arg(long, value_name = "FILE")]
    certificate: PathBuf,
    /// Its private key, readable by its owner only
    #[arg(long, value_name = "FILE")]
    private_key: PathBuf,
    /// The certificate of the CA that all trust
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    if args.policy == Path::new("-") {
        return Err(CommandError::refused("the policy must be a file: SIGHUP reads it again"));
    }
    let (mut policy, notes) = input::policy(&args.policy)??;
    input::print_notes(&notes, ui)?;
    let timeout = timeout(args.period, args.timeout, "--timeout", "--period")?;
    let Identity { certificate, private_key, ca } = &args.identity;
    let identity = IdentityFiles { certificate: certificate.clone(), private_key: private_key.clone(), ca: ca.clone() };
    let stale = if args.forget_silent { Stale::Forget } else { Stale::Keep };
    // The text that was read and checked is the text of the cluster.
    let cluster = match args.others.config() {
        Some(cluster) => {
            let (again, text) = read_policy(&args.policy).map_err(CommandError::refused)?;
            policy = again;
            Some((cluster, text))
        }
        None => None,
    };
    let publisher = args.metrics.map(|_| Publisher::new());
    let _server = match (args.metrics, &publisher) {
        (Some(address), Some(publisher)) => {
            let failed = |error| CommandError::failed(format!("listen on {address}: {error}"));
            let (listener, reader) = (server::listen(address).map_err(failed)?, publisher.reader());
            let limits = server::Limits::default();
            Some(server::start("status", listener, limits, move || reader.router()).map_err(failed)?)
        }
        _ => None,
    };
    let config = FabricConfig {
        policy: Arc::new(policy),
        policy_file: args.policy.clone(),
        listen: args.listen,
        identity,
        state: args.state.clone(),
        broker: args.rule.fabric(FabricBrokerConfig::new(args.period, timeout, stale)),
        status: args.status.clone(),
        publisher,
        cluster,
        placement: args.placement.clone(),
    };
    log_to_stderr();
    raise_descriptors();
    let of_broker = args.metrics.map(|address| format!("http://{address}/status"));
    let of_broker = of_broker.or_else(|| args.status.as_ref().map(|path| path.display().to_string()));
    let of_broker: Vec<String> = of_broker.into_iter().collect();
    // Both end with the broker.
    let _dashboard =
        args.dashboard.map(|listen| dashboard::start(&config.policy, listen, &[], &of_broker, &[])).transpose()?;
    weir_fabric::run(config).map_err(|error| match &error {
        FabricError::Identity(refused) => identity_refused(refused),
        FabricError::MemberEnded => CommandError::failed(error.to_string())
            .hint("start it again; and please report the messages above, since this is a fault in Weir"),
        FabricError::TooLarge(refused) => CommandError::refused(refused.to_string()).hint(refused.hint()),
        _ => CommandError::failed(error.to_string()),
    })?;
    Ok(Exit::Done)
}

fn etcd_url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.contains(['/', '@', '?', '#', ' ']) => Ok(text.to_owned()),
        _ => Err("write http://HOST:PORT or https://HOST:PORT".to_owned()),
    }
}

/// Keys are the prefix, `/` and a name.
fn prefix(text: &str) -> Result<String, String> {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.'));
    if text.is_empty() || !plain || text.ends_with('/') {
        return Err("letters, digits, `-`, `_`, `.` and `/`, which is not the last".to_owned());
    }
    Ok(text.to_owned())
}

/// A lease that etcd can grant; it makes short ones longer.
fn lease(text: &str) -> Result<Duration, String> {
    let lease = values::time(text)?;
    let whole = lease.nanos().is_multiple_of(1_000_000_000);
    if !whole || lease < Duration::from_secs(2) || lease > Duration::from_secs(60) {
        return Err("write whole seconds, 2 to 60".to_owned());
    }
    Ok(lease)
}

/// An error of a certificate, its key or the CA, with hints.
pub(crate) fn identity_refused(error: &IdentityError) -> CommandError {
    let reported = match error {
        // A host may start before its clock is set: a restart later succeeds without a change.
        IdentityError::NotYet { .. } => CommandError::failed(error.to_string()),
        _ => CommandError::refused(error.to_string()),
    };
    reported.hint(error.hint())
}

/// Raises the limit on descriptors as far as permitted: a connection has one, and the first limit
/// of processes, 1,024, is for select(2), which nothing here calls (systemd.exec(5), LimitNOFILE=).
/// A failure is logged.
fn raise_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes the one structure that it is given.
    let mut done = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if done == 0 && limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: the kernel reads the one structure that it is given.
        done = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
    if done != 0 {
        let error = std::io::Error::last_os_error();
        tracing::warn!("raise the limit on descriptors: {error}; connections may find none");
    }
}

/// A period or timeout of the fabric.
pub(crate) fn period(text: &str) -> Result<Duration, String> {
    times::time_in(text, Duration::from_millis(100)..=Duration::from_secs(3_600))
}

/// The timeout for a period: by default five of them (Parley, table 1), and more than one.
pub(crate) fn timeout(
    period: Duration,
    given: Option<Duration>,
    option: &str,
    of: &str,
) -> Result<Duration, CommandError> {
    let timeout = given.unwrap_or(period * 5);
    if timeout <= period {
        return Err(CommandError::refused(format!("{option} {timeout} is not longer than {of} {period}"))
            .hint("a rack that is late once would count as gone; the paper has five periods"));
    }
    Ok(timeout)
}
