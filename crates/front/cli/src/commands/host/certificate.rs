//! `weir certificate`: a small private CA, and certificates for machines and fabric brokers.

use crate::error::{CommandError, Exit};
use crate::input;
use crate::output::Ui;
use crate::values;
use std::path::PathBuf;
use weir_fabric::ca::{Ca, CaError, Holder, Made};
use weir_network::names::check_name;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir certificate /etc/weir/ca --policy policy.yaml --fabric fabric.example.org
  weir certificate /etc/weir/ca --machine m7 --machine m8
  weir certificate /etc/weir/ca --fabric fabric1.example.org,10.0.0.1

The first use makes the CA: ca.pem goes to every host, ca.key stays where it
is. machine-NAME.pem and .key go to that machine, fabric-NAME.pem and .key to the fabric broker
that agents reach by this name or address. Private keys are readable by their owner only.

Nothing is overwritten: what is there stays, and only what is missing is made. To renew a
certificate move its two files away first. A CA of your own does as well: a machine's
certificate needs the machine's name among its DNS names, a fabric broker's the names and
addresses that agents reach it by.")]
pub(crate) struct Args {
    /// The directory of the CA
    directory: PathBuf,
    /// Make certificates for all machines of this policy
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Make a certificate for a machine of this name
    #[arg(long, value_name = "NAME")]
    machine: Vec<String>,
    /// Make a certificate for a fabric broker with these names and addresses; the first one names its files
    #[arg(long, value_name = "HOST[,HOST]")]
    fabric: Vec<String>,
    /// How long certificates last
    #[arg(long, default_value_t = 730, value_parser = |text: &str| values::count::<u64>(text, 3_650))]
    days: u64,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    // Everything is checked before the first file is written.
    let mut holders: Vec<Holder> = Vec::new();
    if let Some(path) = &args.policy {
        let (policy, notes) = input::policy(path)??;
        input::print_notes(&notes, ui)?;
        let machines = policy.network().machines().iter();
        holders.extend(machines.map(|machine| Holder::Machine(machine.name().to_owned())));
    }
    for name in &args.machine {
        check_name(name).map_err(|refused| {
            CommandError::refused(format!("--machine: {}", refused.cause)).hint(refused.hint.clone())
        })?;
        holders.push(Holder::Machine(name.clone()));
    }
    for hosts in &args.fabric {
        holders.push(Holder::Fabric(hosts_of(hosts)?));
    }
    let (ca, made) = Ca::open(&args.directory).map_err(reported)?;
    let mut text = match made {
        Made::New => format!("a new CA: {}\n", ca.certificate().display()),
        Made::Kept => String::new(),
    };
    let mut kept = 0;
    for holder in &holders {
        match ca.issue(holder, args.days).map_err(reported)? {
            Made::New => text += &format!("a new certificate: {}\n", ca.files(holder).certificate.display()),
            Made::Kept => kept += 1,
        }
    }
    if kept > 0 {
        text += &format!("{} there already, left as they are\n", crate::text::count(kept, "certificate"));
    }
    if text.is_empty() {
        text = "nothing to make: name machines (--machine, --policy) or a fabric broker (--fabric)\n".to_owned();
    }
    ui.notice(&text)?;
    Ok(Exit::Done)
}

/// Host names and addresses that can stand in a certificate and in a file's name.
fn hosts_of(text: &str) -> Result<Vec<String>, CommandError> {
    let refuse = |host: &str, reason: &str| {
        CommandError::refused(format!("--fabric {text}: `{host}` {reason}"))
            .hint("write names and addresses with commas between, for example --fabric fabric.example.org,10.0.0.1")
    };
    let host = |host: &str| {
        if host.parse::<std::net::IpAddr>().is_ok() {
            return Ok(host.to_owned());
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        if host.is_empty() || host.len() > 253 || !host.chars().all(allowed) || host.starts_with(['-', '.']) {
            return Err(refuse(host, "is neither a host's name nor an address"));
        }
        Ok(host.to_owned())
    };
    text.split(',').map(host).collect()
}

fn reported(error: CaError) -> CommandError {
    CommandError::failed(error.to_string())
}
