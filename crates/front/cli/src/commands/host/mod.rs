//! The commands that use the host's network, switches or keys, and the lab: those of the feature `host`.

mod agent;
mod capture;
mod certificate;
mod dashboard;
mod doctor;
mod exec;
mod fabric;
mod forwarder;
mod hangup;
mod inherited;
mod key;
pub(super) mod lab;
mod limit_rule;
mod pods;
mod switch;
mod times;
mod top;
mod watched;

use crate::error::{CommandError, Exit};
use crate::output::Ui;

/// A command that uses the host's network, switches or keys.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Enforce the policy on this host
    Agent(agent::Args),
    /// Run a program in the control group of a service
    Exec(exec::Args),
    /// Configure switches' ports as the policy needs them
    Switch(switch::Args),
    /// Grant credits at the ports of this switch
    Forwarder(forwarder::Args),
    /// Make the key that agents share
    Key(key::Args),
    /// Share services among racks: the broker that rack leaders report to
    Fabric(fabric::Args),
    /// Make a CA and certificates for machines and fabric brokers
    Certificate(certificate::Args),
    /// Check this host: what prevents the policy from being enforced
    Doctor(doctor::Args),
    /// Collect this host's state for a bug report, without secrets
    Capture(capture::Args),
    /// Write the labels of this node's pods for the agent
    Pods(pods::Args),
    /// Show machines and services as they are now
    Top(top::Args),
    /// Serve a page that shows racks, machines and services over time
    Dashboard(dashboard::Args),
}

impl Command {
    /// Whether another program takes the place of this process.
    pub(super) fn replaces_the_process(&self) -> bool {
        matches!(self, Self::Exec(_))
    }
}

/// Runs a command.
pub(super) fn run(command: &Command, ui: &mut Ui) -> Result<Exit, CommandError> {
    match command {
        Command::Agent(args) => agent::run(args, ui),
        Command::Exec(args) => exec::run(args, ui),
        Command::Switch(args) => switch::run(args, ui),
        Command::Forwarder(args) => forwarder::run(args, ui),
        Command::Key(args) => key::run(args, ui),
        Command::Fabric(args) => fabric::run(args, ui),
        Command::Certificate(args) => certificate::run(args, ui),
        Command::Doctor(args) => doctor::run(args, ui),
        Command::Capture(args) => capture::run(args, ui),
        Command::Pods(args) => pods::run(args, ui),
        Command::Top(args) => top::run(args, ui),
        Command::Dashboard(args) => dashboard::run(args, ui),
    }
}
