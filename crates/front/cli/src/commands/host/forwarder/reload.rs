//! SIGHUP: the replacement of the policy and the keys in force.
//!
//! Problem: a new policy must not cost the grants of a restart, and a mistake in it must not end the one in force.
//! Approach: the files are read and checked as at the start, for all ports; an error refuses them as a whole, appears
//! in the log and in the status, and the old ones stay. Then each port changes over without a gap
//! ([`weir_forwarder::Port::renew`]). An error of the kernel at one port brings all back to the old ones.
//!
//! Worked example: a service gets credits. Its data is counted once its port is renewed; those of other services keep
//! their grants, their flows and their shares.

use super::{Args, Context, NO_PANIC, Served, Setup, failed, fingerprint};
use crate::error::CommandError;
use std::sync::Mutex;
use tracing::{info, warn};
use weir_control::wire::Keys;
use weir_forwarder::PortRules;
use weir_forwarder::port::PortError;

impl Context {
    /// Puts the configuration in the files in force, whole or not at all.
    pub(super) fn reload(&mut self, ports: &[Mutex<Served>], args: &Args) {
        let taken = Setup::read(args).and_then(|(setup, notes)| {
            for note in notes {
                let position = note.position();
                warn!("{}:{}:{}: {}", note.file(), position.line, position.column, note.cause());
            }
            take(ports, &self.setup, &setup)?;
            Ok(setup)
        });
        match taken {
            Ok(setup) => {
                setup.log();
                self.status.policy = fingerprint(setup.plan.policy());
                self.status.policy_refused = None;
                info!("policy {} is in force, with {} keys", self.status.policy, setup.keys.all().len());
                self.setup = setup;
            }
            Err(error) => {
                let reason = error.text();
                warn!("the policy and the keys are not taken, the old ones stay: {reason}");
                self.status.policy_refused = Some(reason);
            }
        }
    }
}

/// Renews all ports. After an error all have the setup from before.
fn take(ports: &[Mutex<Served>], old: &Setup, new: &Setup) -> Result<(), CommandError> {
    let (before, after) = (rules(old)?, rules(new)?);
    for (served, rules) in ports.iter().zip(&after) {
        let served = served.lock().expect(NO_PANIC);
        served.port.check(rules).map_err(|error| impossible(served.port.name(), &error))?;
    }
    let renewed = (ports.iter().zip(&after)).try_for_each(|(served, rules)| renew(served, rules, &new.keys));
    if renewed.is_err() {
        for (served, rules) in ports.iter().zip(&before) {
            if let Err(error) = renew(served, rules, &old.keys) {
                warn!("the old policy cannot be put in force again: {}", error.text());
            }
        }
    }
    renewed
}

/// The rules of all ports by a setup, in the order of the options.
fn rules(setup: &Setup) -> Result<Vec<PortRules>, CommandError> {
    let of = |(name, rate): &(String, _)| {
        setup.plan.port(name, *rate).map_err(|error| failed(name, &PortError::Plan(error)))
    };
    setup.links.iter().map(of).collect()
}

fn renew(served: &Mutex<Served>, rules: &PortRules, keys: &Keys) -> Result<(), CommandError> {
    let mut served = served.lock().expect(NO_PANIC);
    served.due = served.port.renew(rules, keys).map_err(|error| failed(served.port.name(), &error))?;
    Ok(())
}

/// An error of [`weir_forwarder::Port::check`].
fn impossible(name: &str, error: &PortError) -> CommandError {
    CommandError::refused(format!("{name}: {error}")).hint(
        "that takes a restart, after which the port grants nothing for a lifetime: systemctl restart weir-forwarder",
    )
}
