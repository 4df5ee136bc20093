//! `weir dashboard`: a page that shows racks, machines and services over time.

use super::watched;
use crate::error::{CommandError, Exit};
use crate::input;
use crate::interrupt::Interrupt;
use crate::output::Ui;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use weir_dashboard::Config;
use weir_observe::{Liveness, Server, server};
use weir_policy::Policy;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir dashboard policy.yaml --listen 127.0.0.1:8080
  weir dashboard policy.yaml --listen 127.0.0.1:8080 --agent m1=http://10.0.0.1:9000/status \\
                 --fabric http://10.0.0.9:30566/status

Reads every machine's status once a second (`weir agent --metrics ADDRESS:PORT`, or a status file),
keeps an hour of it in memory, and serves one page: racks, machines and services over time against
guarantee and limit, and the limited services by constraint. It changes nothing anywhere.

Addresses come from the policy, with port 30566, unless they are given. The page has no login: the
address that it listens on must be private. Ctrl-C ends it.")]
pub(crate) struct Args {
    /// The policy file
    policy: PathBuf,
    /// Where to serve the page
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// The status of a machine, if not at the policy's address: a URL or a file
    #[arg(long, value_name = "MACHINE=URL")]
    agent: Vec<String>,
    /// The status of a fabric broker: a URL or a file; may be given again
    #[arg(long, value_name = "URL")]
    fabric: Vec<String>,
    /// The status of a switch (`weir switch watch`, `weir forwarder`): a URL or a file; may be given again
    #[arg(long, value_name = "URL")]
    switch: Vec<String>,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let (policy, notes) = input::policy(&args.policy)??;
    input::print_notes(&notes, ui)?;
    let interrupt = Interrupt::listen()?;
    let server = start(&Arc::new(policy), args.listen, &args.agent, &args.fabric, &args.switch)?;
    ui.notice(&format!("http://{}/\n", server.address()))?;
    wait(&interrupt);
    Ok(Exit::Done)
}

/// Starts a dashboard of a policy's machines, at the given or the policy's addresses, and of fabric
/// brokers and switches.
pub(super) fn start(
    policy: &Arc<Policy>,
    listen: SocketAddr,
    agents: &[String],
    fabric: &[String],
    switches: &[String],
) -> Result<Server, CommandError> {
    let machines = watched::machines(policy, agents)?;
    let source = |text: &String| Ok(Liveness::new(watched::source(text)?, None));
    let fabric = fabric.iter().map(source).collect::<Result<Vec<_>, CommandError>>()?;
    let switches = switches.iter().map(source).collect::<Result<Vec<_>, CommandError>>()?;
    let failed = |error: std::io::Error| CommandError::failed(format!("listen on {listen}: {error}"));
    let listener = server::listen(listen).map_err(failed)?;
    weir_dashboard::start(listener, Config { policy: Arc::clone(policy), machines, fabric, switches }).map_err(failed)
}

#[expect(clippy::disallowed_methods, reason = "a person ends it; no run depends on it")]
fn wait(interrupt: &Interrupt) {
    while !interrupt.is_requested() {
        std::thread::sleep(Duration::from_millis(100));
    }
}
