//! `weir fabric`: the daemon that shares services among racks.

use super::agent::log_to_stderr;
use crate::error::{CommandError, Exit};
use crate::input;
use crate::output::Ui;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_control::{FabricBrokerConfig, Stale};
use weir_fabric::{FabricConfig, FabricError, IdentityError, IdentityFiles};
use weir_units::Duration;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir certificate pki --policy policy.yaml --fabric fabric.example.org
  weir fabric policy.yaml --listen 10.0.0.1:30567 --certificate pki/fabric-fabric.example.org.pem \\
              --private-key pki/fabric-fabric.example.org.key --authority pki/authority.pem

The leader of each rack reports what its services would take of the fabric; every period the broker
shares each service among the racks by the policy's `fabric:` and answers with the limits. Agents find
it by `weir agent --fabric https://fabric.example.org:30567`.

Both sides show certificates of one authority. A machine can speak for itself only: its certificate
must name it. Without the broker racks keep their last limits for 50 s, then their own policy alone.

SIGHUP reads the policy and the certificates again, each whole or not at all. SIGTERM or Ctrl-C ends
it. What it says is set by the environment: RUST_LOG=debug shows every call and refusal.")]
pub(crate) struct Args {
    /// The policy file
    policy: PathBuf,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    #[command(flatten)]
    identity: Identity,
    /// Where to keep what must survive a restart
    #[arg(long, value_name = "DIR", default_value = "/var/lib/weir")]
    state: PathBuf,
    /// Write what the broker is doing to this file once a period and when leaders come or go, as JSON
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
    /// How often limits are computed; agents must be told the same (`--fabric-period`)
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = period)]
    period: Duration,
    /// How long a rack may be silent before nobody answers it; five periods unless told otherwise
    #[arg(long, value_name = "TIME", value_parser = period)]
    timeout: Option<Duration>,
    /// Forget what a rack last said once it has been silent for the timeout
    #[arg(long)]
    forget_silent: bool,
}

/// Who this is.
#[derive(Debug, clap::Args)]
pub(crate) struct Identity {
    /// The certificate, in PEM (see `weir certificate`)
    #[arg(long, value_name = "FILE")]
    certificate: PathBuf,
    /// Its private key, readable by its owner only
    #[arg(long, value_name = "FILE")]
    private_key: PathBuf,
    /// The certificate of the authority that all trust
    #[arg(long, value_name = "FILE")]
    authority: PathBuf,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    if args.policy == Path::new("-") {
        return Err(CommandError::refused("the policy must be a file: SIGHUP reads it again"));
    }
    let (policy, notes) = input::policy(&args.policy)??;
    input::tell_notes(&notes, ui)?;
    let timeout = timeout(args.period, args.timeout, "--timeout", "--period")?;
    let Identity { certificate, private_key, authority } = &args.identity;
    let identity = IdentityFiles {
        certificate: certificate.clone(),
        private_key: private_key.clone(),
        authority: authority.clone(),
    };
    let stale = if args.forget_silent { Stale::Forget } else { Stale::Keep };
    let config = FabricConfig {
        policy: Arc::new(policy),
        policy_file: args.policy.clone(),
        listen: args.listen,
        identity,
        state: args.state.clone(),
        broker: FabricBrokerConfig { period: args.period, timeout, stale },
        status: args.status.clone(),
    };
    log_to_stderr();
    weir_fabric::run(config).map_err(|error| match &error {
        FabricError::Identity(refused) => identity_refused(refused),
        _ => CommandError::failed(error.to_string()),
    })?;
    Ok(Exit::Done)
}

/// What is wrong with a certificate, its key or the authority.
pub(crate) fn identity_refused(error: &IdentityError) -> CommandError {
    CommandError::refused(error.to_string())
        .hint("`weir certificate DIR --policy POLICY --fabric HOST` makes an authority and all certificates")
}

/// A period or timeout of the fabric.
pub(crate) fn period(text: &str) -> Result<Duration, String> {
    let period: Duration = text.parse().map_err(|error: weir_units::QuantityError| error.to_string())?;
    let (least, most) = (Duration::from_millis(100), Duration::from_secs(3_600));
    if period < least || period > most {
        return Err(format!("between {least} and {most}, please"));
    }
    Ok(period)
}

/// The timeout that goes with a period: five of them (Parley, table 1) unless given, and more than one.
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
