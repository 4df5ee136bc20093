//! `weir agent --remove`: deletes what killed or stopped agents left.

use super::Args;
use crate::error::{CommandError, Exit};
use crate::output::Ui;
use std::io;
use weir_agent::host;
use weir_linux::pins::{self, Daemon};

pub(super) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let removed = if args.all {
        remove_all(ui)
    } else {
        let interface = args.interface()?;
        let removed = host::remove(interface).map_err(|error| CommandError::failed(error.to_string()));
        removed.and_then(|found| report(interface, found, ui))
    };
    removed?;
    if let Some(status) = &args.status {
        // A killed agent leaves its last status.
        match std::fs::remove_file(status) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(CommandError::cannot_write(status, error));
            }
            _ => {}
        }
    }
    Ok(Exit::Done)
}

/// Deletes the state on every interface of this network namespace, and of interfaces that are gone. An interface whose
/// agent runs is an error, after all others are done.
fn remove_all(ui: &mut Ui) -> Result<(), CommandError> {
    let mut first = None;
    let gone = host::remove_gone();
    if gone > 0 {
        ui.notice(&format!("removed the state of agents on {gone} interfaces that are gone\n"))?;
    }
    let names = pins::interfaces(Daemon::Agent).map_err(|error| CommandError::failed(error.to_string()))?;
    if names.is_empty() && gone == 0 {
        ui.notice("there is no state of an agent\n")?;
    }
    for name in names {
        match host::remove(&name) {
            Ok(found) => report(&name, found, ui)?,
            Err(error) => {
                first.get_or_insert(CommandError::failed(error.to_string()));
            }
        }
    }
    first.map_or(Ok(()), Err)
}

fn report(interface: &str, found: bool, ui: &mut Ui) -> Result<(), CommandError> {
    let what = if found { "removed the state of an agent on" } else { "there is no state of an agent on" };
    Ok(ui.notice(&format!("{what} {interface}\n"))?)
}
