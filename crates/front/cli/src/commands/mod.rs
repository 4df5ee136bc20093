//! The commands, one file each: its options, its work, its output.

mod allocate;
mod check;
mod completions;
mod explain;
mod export;
#[cfg(feature = "host")]
mod host;
mod import;
mod manual;
mod place;
mod plan;
mod report;
mod reproduce;
mod schema;
mod sim;

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
    Lab(host::lab::Args),
    /// Run a published experiment: published beside measured
    Reproduce(reproduce::Args),
    #[cfg(feature = "host")]
    #[command(flatten)]
    Host(Box<host::Command>),
    /// Print the script that completes command lines in a shell
    Completions(completions::Args),
    /// Write a manual page for each command, for packages
    #[command(hide = true)]
    Manual(manual::Args),
}

impl Command {
    /// Whether another program takes the place of this process.
    pub(crate) fn replaces_the_process(&self) -> bool {
        #[cfg(feature = "host")]
        return matches!(self, Self::Host(command) if command.replaces_the_process());
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
        Command::Lab(args) => host::lab::run(args, ui),
        Command::Reproduce(args) => reproduce::run(args, ui),
        #[cfg(feature = "host")]
        Command::Host(command) => host::run(command, ui),
        Command::Completions(args) => completions::run(args, ui),
        Command::Manual(args) => manual::run(args, ui),
    }
}
