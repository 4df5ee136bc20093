//! [`apply`]: brings ports to their desired configuration, or leaves them as they were.
//!
//! Problem: a driver gives no acknowledgement, and a change may fail in the middle. Approach:
//!
//! 1. check the desired configuration against the driver's capabilities; nothing has changed if it is refused;
//! 2. read the ports, and compute the steps ([`diff`]);
//! 3. write a stage, read its ports back until they are as expected or the driver does not wait any longer;
//! 4. on an error or another configuration than expected: write the inverse of all steps written so far in reverse
//!    order, a port at a time, so that a port that fails again leaves no other port changed, and read these back.
//!
//! Steps that were written and had no visible effect are reverted too: their effect may only be late. A process that is
//! killed in between leaves a mixture, in which the map refers to existing queues only; the next `apply` completes it.
//!
//! Worked example: port 2 of 3 refuses a weight. Stage 1 was written for ports 1 to 3; the weights of ports 3, 2, 1 get
//! their old values, and the error names port 2, the queue's scheduler, the cause and the remedy.

use crate::capabilities::{Map, Refusal};
use crate::change::{Change, Field, Position, Step, diff, first_difference};
use crate::driver::{Driver, WriteError};
use crate::port::{DscpMap, FieldError, PortConfig, PortState, SwitchState};
use std::collections::BTreeMap;
use std::fmt;

/// Why ports do not have the desired configuration.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The ports cannot do it. Nothing has changed.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Refused(Vec<Refusal>),
    /// The configuration of a port could not be read, or is not Weir's. Nothing has changed.
    #[error("{position}: {cause}")]
    Unreadable {
        /// The port.
        position: Box<Position>,
        /// The cause.
        cause: String,
        /// The remedy.
        hint: Option<String>,
    },
    /// A step failed.
    #[error("{position}: {cause}; {rollback}")]
    Failed {
        /// The field.
        position: Box<Position>,
        /// The cause.
        cause: String,
        /// The remedy.
        hint: Option<String>,
        /// The state of the ports now.
        rollback: Rollback,
    },
}

impl ApplyError {
    /// The remedies.
    pub fn hints(&self) -> Vec<&str> {
        match self {
            Self::Refused(refusals) => refusals.iter().map(|refusal| refusal.hint.as_str()).collect(),
            Self::Unreadable { hint, .. } | Self::Failed { hint, .. } => hint.as_deref().into_iter().collect(),
        }
    }
}

/// The state of the ports after a failed change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rollback {
    /// All ports are as they were.
    Complete,
    /// These ports are not as they were; each with the cause.
    Incomplete(Vec<(Position, String)>),
}

impl fmt::Display for Rollback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => f.write_str("all ports are as they were"),
            Self::Incomplete(ports) => {
                let ports: Vec<String> = ports.iter().map(|(position, cause)| format!("{position}: {cause}")).collect();
                write!(f, "not as before: {}", ports.join("; "))
            }
        }
    }
}

/// Brings ports to a desired configuration. Returns the steps that were done, none where nothing differed. On an error
/// the ports are as they were, or [`Rollback::Incomplete`] lists those that are not. Ports that `desired` does not list
/// stay.
pub fn apply<D: Driver>(driver: &mut D, desired: &BTreeMap<String, PortConfig>) -> Result<Vec<Step>, ApplyError> {
    check(driver, desired)?;
    let before = read(driver, desired.keys())?;
    check_others(driver, desired)?;
    let after = desired.iter().map(|(port, config)| (port.clone(), config.state().clone())).collect();
    transition(driver, &before, &after)
}

/// Removes Weir's configuration from ports: they are then as the switch makes them by itself.
pub fn remove<D: Driver>(driver: &mut D, ports: &[String]) -> Result<Vec<Step>, ApplyError> {
    let before = read(driver, ports.iter())?;
    let after = ports.iter().map(|port| (port.clone(), PortState::default())).collect();
    transition(driver, &before, &after)
}

/// Refuses what the driver's ports cannot do; changes nothing.
pub fn check<D: Driver>(driver: &D, desired: &BTreeMap<String, PortConfig>) -> Result<(), ApplyError> {
    let (capabilities, switch) = (driver.capabilities(), driver.switch());
    let errors = |(port, config): (&String, &PortConfig)| {
        let errors = capabilities.check(config).into_iter();
        errors.map(|error| Refusal::at(switch, port, error)).collect::<Vec<_>>()
    };
    let mut refusals: Vec<Refusal> = desired.iter().flat_map(errors).collect();
    if capabilities.maps == Map::PerSwitch {
        let maps = desired.iter().filter_map(|(port, config)| Some((port.as_str(), config.state().map?)));
        refusals.extend(other_map(maps).map(|error| Refusal::at(switch, &error.0, error.1)));
    }
    if refusals.is_empty() { Ok(()) } else { Err(ApplyError::Refused(refusals)) }
}

/// The first port whose map is not that of the first one.
fn other_map<'a>(mut maps: impl Iterator<Item = (&'a str, DscpMap)>) -> Option<(String, FieldError)> {
    let (first, one) = maps.next()?;
    let (port, other) = maps.find(|(_, map)| *map != one)?;
    let cause = format!("{other}; port {first} has {one}, and this switch has one map for all ports");
    let hint = "give all ports of the switch the same map, and name all of them in one call";
    Some((port.to_owned(), FieldError::new(Field::Map, cause, hint)))
}

/// Refuses a map that differs from the maps of ports that are not in `desired`, where a switch has one for all ports:
/// packets that arrive by these ports would be in other queues.
fn check_others<D: Driver>(driver: &mut D, desired: &BTreeMap<String, PortConfig>) -> Result<(), ApplyError> {
    let Some((own, map)) = desired.iter().find_map(|(port, config)| Some((port, config.state().map?))) else {
        return Ok(());
    };
    if driver.capabilities().maps == Map::PerPort {
        return Ok(());
    }
    let others = driver.mapped().map_err(|error| ApplyError::Unreadable {
        position: Box::new(position(driver, own, None)),
        cause: error.to_string(),
        hint: driver.hint(&error),
    })?;
    let others: Vec<String> = others.into_iter().filter(|port| !desired.contains_key(port)).collect();
    let states = read(driver, others.iter())?;
    let theirs = states.iter().filter_map(|(port, state)| Some((port.as_str(), state.map?)));
    match other_map(std::iter::once((own.as_str(), map)).chain(theirs)) {
        Some((port, error)) => Err(ApplyError::Refused(vec![Refusal::at(driver.switch(), &port, error)])),
        None => Ok(()),
    }
}

/// The configurations of ports that are in force.
pub fn read<'a, D: Driver>(driver: &mut D, ports: impl Iterator<Item = &'a String>) -> Result<SwitchState, ApplyError> {
    let mut states = SwitchState::new();
    for port in ports {
        let state = driver.read(port).map_err(|error| ApplyError::Unreadable {
            position: Box::new(position(driver, port, None)),
            cause: error.to_string(),
            hint: driver.hint(&error),
        })?;
        states.insert(port.clone(), state);
    }
    Ok(states)
}

fn position<D: Driver>(driver: &D, port: &str, change: Option<&Change>) -> Position {
    Position { switch: driver.switch().to_owned(), port: port.to_owned(), field: change.map(Change::field) }
}

/// Why a stage is not in force.
struct Failure {
    position: Position,
    cause: String,
    hint: Option<String>,
}

fn transition<D: Driver>(driver: &mut D, before: &SwitchState, after: &SwitchState) -> Result<Vec<Step>, ApplyError> {
    let steps = diff(before, after);
    let mut expected = before.clone();
    let mut written = 0;
    for stage in steps.chunk_by(|a, b| a.change.stage() == b.change.stage()) {
        written += stage.len();
        if let Err(Failure { position, cause, hint }) = write_and_verify(driver, stage, &mut expected) {
            let rollback = roll_back(driver, before, &steps[..written]);
            return Err(ApplyError::Failed { position: Box::new(position), cause, hint, rollback });
        }
    }
    Ok(steps)
}

/// Writes steps and reads their ports back until they are as expected. `expected` becomes the state behind them.
fn write_and_verify<D: Driver>(driver: &mut D, steps: &[Step], expected: &mut SwitchState) -> Result<(), Failure> {
    steps.iter().for_each(|step| step.apply(expected));
    if let Err(WriteError { step, error }) = driver.write(steps) {
        // A driver that reports no valid index refers to the whole call.
        let step = &steps[step.min(steps.len() - 1)];
        let position = position(driver, &step.port, Some(&step.change));
        return Err(Failure { position, cause: error.to_string(), hint: driver.hint(&error) });
    }
    let mut ports: Vec<&String> = steps.iter().map(|step| &step.port).collect();
    ports.sort_unstable();
    ports.dedup();
    for port in ports {
        verify(driver, port, &expected[port])?;
    }
    Ok(())
}

/// Reads a port until it is as expected, as long as the driver waits.
fn verify<D: Driver>(driver: &mut D, port: &str, expected: &PortState) -> Result<(), Failure> {
    let mut reads = 0;
    loop {
        let found = driver.read(port).map_err(|error| Failure {
            position: position(driver, port, None),
            cause: format!("cannot be read back: {error}"),
            hint: driver.hint(&error),
        })?;
        let Some(missing) = first_difference(expected, &found) else { return Ok(()) };
        reads += 1;
        if !driver.wait(reads) {
            return Err(Failure {
                position: position(driver, port, Some(&missing)),
                cause: format!("written, and not in force ({missing})"),
                hint: Some("the switch's log may have the reason; another program may configure this port too".into()),
            });
        }
    }
}

/// Writes the inverse of steps in reverse order, a port at a time. The ports that are changed last are restored first.
fn roll_back<D: Driver>(driver: &mut D, before: &SwitchState, steps: &[Step]) -> Rollback {
    let inverse: Vec<Step> = steps.iter().rev().map(Step::inverse).collect();
    let mut ports: Vec<&String> = Vec::new();
    for step in &inverse {
        if !ports.contains(&&step.port) {
            ports.push(&step.port);
        }
    }
    let mut changed = Vec::new();
    for port in ports {
        let own: Vec<Step> = inverse.iter().filter(|step| step.port == *port).cloned().collect();
        let mut expected = before.clone();
        // The state before the first inverse step; it is known to differ from `before` by these steps only.
        own.iter().rev().for_each(|step| step.inverse().apply(&mut expected));
        let stages = own.chunk_by(|a, b| a.change.inverse().stage() == b.change.inverse().stage());
        let restored = stages.into_iter().try_for_each(|stage| write_and_verify(driver, stage, &mut expected));
        if let Err(failure) = restored {
            changed.push((failure.position, failure.cause));
        }
    }
    if changed.is_empty() { Rollback::Complete } else { Rollback::Incomplete(changed) }
}
