//! The commands, one file each: its options, its work, its output.

#[cfg(feature = "host")]
mod agent;
mod allocate;
#[cfg(feature = "host")]
mod capture;
#[cfg(feature = "host")]
mod certificate;
mod check;
mod completions;
#[cfg(feature = "host")]
mod dashboard;
#[cfg(feature = "host")]
mod doctor;
#[cfg(feature = "host")]
mod exec;
mod explain;
mod export;
#[cfg(feature = "host")]
mod fabric;
#[cfg(feature = "host")]
mod forwarder;
mod import;
#[cfg(feature = "host")]
mod key;
#[cfg(feature = "host")]
mod lab;
#[cfg(feature = "host")]
mod limit_rule;
mod manual;
mod place;
mod plan;
#[cfg(feature = "host")]
mod pods;
mod report;
mod reproduce;
mod schema;
mod sim;
#[cfg(feature = "host")]
mod switch;
#[cfg(feature = "host")]
mod top;

use crate::error::{CommandError, Exit};
use crate::output::Ui;

/// A command with its options.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Check a policy and whether its guarantees fit the network
    Check(check::Args),
    /// Share the network once: the share of every service on every machine
    Allocate(allocate::Args),
    /// Explain a service's share, or a tenant's reservations, step by step
    Explain(explain::Args),
    /// Find the capacity or cap that keeps a latency target
    Plan(plan::Args),
    /// Place tenants' virtual machines onto machines
    Place(place::Args),
    /// Print the JSON Schema of a file format, for editors
    Schema(schema::Args),
    /// Write a policy as JSON, for programs
    Export(export::Args),
    /// Use flow sizes and lists of flows in the formats of other simulators
    Import(import::Args),
    /// Run a scenario in the packet-level simulator
    Sim(sim::Args),
    /// Draw the report of a run or a sweep again, from its files alone
    Report(report::Args),
    /// Run a scenario on real Linux hosts in network namespaces
    #[cfg(feature = "host")]
    Lab(lab::Args),
    /// Run a published experiment: published beside measured
    Reproduce(reproduce::Args),
    #[cfg(feature = "host")]
    #[command(flatten)]
    Host(Box<HostCommand>),
    /// Print the script that completes command lines in a shell
    Completions(completions::Args),
    /// Write a manual page for each command, for packages
    #[command(hide = true)]
    Manual(manual::Args),
}

/// A command that uses the host's network, switches or keys.
#[cfg(feature = "host")]
#[derive(Debug, clap::Subcommand)]
pub(crate) enum HostCommand {
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
    pub(crate) fn replaces_the_process(&self) -> bool {
        #[cfg(feature = "host")]
        return matches!(self, Self::Host(command) if matches!(**command, HostCommand::Exec(_)));
        #[cfg(not(feature = "host"))]
        false
    }
}

/// Runs a command.
pub(crate) fn run(command: &Command, ui: &mut Ui) -> Result<Exit, CommandError> {
    match command {
        Command::Check(args) => check::run(args, ui),
        Command::Allocate(args) => allocate::run(args, ui),
        Command::Explain(args) => explain::run(args, ui),
        Command::Plan(args) => plan::run(args, ui),
        Command::Place(args) => place::run(args, ui),
        Command::Schema(args) => schema::run(args, ui),
        Command::Export(args) => export::run(args, ui),
        Command::Import(args) => import::run(args, ui),
        Command::Sim(args) => sim::run(args, ui),
        Command::Report(args) => report::run(args, ui),
        #[cfg(feature = "host")]
        Command::Lab(args) => lab::run(args, ui),
        Command::Reproduce(args) => reproduce::run(args, ui),
        #[cfg(feature = "host")]
        Command::Host(command) => run_on_host(command, ui),
        Command::Completions(args) => completions::run(args, ui),
        Command::Manual(args) => manual::run(args, ui),
    }
}

#[cfg(feature = "host")]
fn run_on_host(command: &HostCommand, ui: &mut Ui) -> Result<Exit, CommandError> {
    match command {
        HostCommand::Agent(args) => agent::run(args, ui),
        HostCommand::Exec(args) => exec::run(args, ui),
        HostCommand::Switch(args) => switch::run(args, ui),
        HostCommand::Forwarder(args) => forwarder::run(args, ui),
        HostCommand::Key(args) => key::run(args, ui),
        HostCommand::Fabric(args) => fabric::run(args, ui),
        HostCommand::Certificate(args) => certificate::run(args, ui),
        HostCommand::Doctor(args) => doctor::run(args, ui),
        HostCommand::Capture(args) => capture::run(args, ui),
        HostCommand::Pods(args) => pods::run(args, ui),
        HostCommand::Top(args) => top::run(args, ui),
        HostCommand::Dashboard(args) => dashboard::run(args, ui),
    }
}
