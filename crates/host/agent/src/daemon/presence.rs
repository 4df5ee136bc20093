//! The presence of the interface and of the agent's qdisc and programs on it.
//!
//! Problem: the interface of a container, or of a card that is taken out, disappears while the
//! agent runs, with its qdisc and programs. Another program with the permission can also replace
//! the root qdisc or detach the programs with one command and without a notification for the agent,
//! which then enforces no limit. Approach: once a period the agent checks that its interface still
//! has its name, its qdisc is at the root and its programs are attached.
//!
//! If the interface is gone, the agent takes its own state down as far as possible, logs that, and
//! checks again once a period; an interface that appears under the name is brought under the policy
//! like a new one, by a broker that begins anew. The other machines go on with this machine's last
//! report, as when its agent ends. If only the agent's qdisc or programs are gone, the agent
//! restores them. It does not replace another program's qdisc without `--force`: it reports that
//! limits are not enforced and why, goes on with its remaining parts, and tries again once a
//! period.
//!
//! Worked example: `tc qdisc replace dev eth0 root fq_codel`: within a period the status has
//! `not_enforced`; programs and receive meters go on. `tc qdisc del dev eth0 root`: within a period
//! all limits of that moment are enforced again.
//!
//! An interface that is down stays under the policy: it sends nothing, and keeps qdisc and programs
//! until it is up again. A renamed interface counts as gone, and an interface that gets the name as
//! a new one.

use super::{AgentError, Daemon, host_context};
use crate::host::{self, Host, HostError, Missing};
use crate::notify;
use crate::status;
use tracing::{debug, info, warn};
use weir_linux::loader::LoaderError;
use weir_units::Duration;

/// The shortest time between two checks, since a check reads the interface's qdiscs. It is less
/// than the shortest usual period, a second, so that each period has a check.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Daemon {
    /// Whether the interface is there and under the policy, as far as possible.
    pub(super) fn is_present(&mut self) -> bool {
        let now = self.now();
        match &mut self.host {
            Some(_) if now < self.look => true,
            Some(host) if host.is_there() => {
                self.look = now + LOOK_EVERY;
                host.check_with_reading();
                true
            }
            Some(_) => {
                self.lose();
                false
            }
            None => {
                self.look = now + self.config.broker.period;
                let found = self.find();
                if !found {
                    self.report_status();
                }
                found
            }
        }
    }

    /// Acts on the result of a check, if there is one.
    pub(super) fn take_check(&mut self) {
        match self.host.as_mut().and_then(Host::take_check) {
            None => {}
            Some(None) => self.enforces(),
            Some(Some(_)) => self.restore_missing(),
        }
    }

    /// Accepts a failure whose cause is that the interface, its qdisc or its programs are gone;
    /// returns others.
    pub(super) fn outlive(&mut self, error: AgentError) -> Result<(), AgentError> {
        let (AgentError::Host(failed), Some(host)) = (&error, &self.host) else { return Err(error) };
        if !host.is_there() {
            debug!("{failed}");
            self.lose();
            return Ok(());
        }
        match host.missing() {
            // Credits that could not start are the cause of no other error.
            Ok(Some(Missing::Qdisc | Missing::Programs)) => {
                debug!("{failed}");
                self.restore_missing();
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Restores a qdisc or programs that another program removed, or credits that could not start, as far as possible.
    fn restore_missing(&mut self) {
        let Some(host) = &mut self.host else { return };
        let name = &self.config.interface;
        match host.missing() {
            Ok(None) => self.enforces(),
            Ok(Some(missing @ (Missing::Qdisc | Missing::Credits))) => {
                match missing {
                    _ if self.not_enforced.is_some() => {}
                    Missing::Credits => warn!("no thread sets the gates of services with credits on {name}"),
                    _ => warn!("another program removed Weir's qdisc from {name}, or changed the classes of levels"),
                }
                let broker = &self.config.broker;
                let host_context = host_context(
                    &self.config.runtime_config,
                    self.config.means(),
                    self.cookie,
                    self.epoch,
                    broker,
                    &self.tenants,
                );
                let (restored, back) = match missing {
                    Missing::Credits => (host.start_credits(&host_context), "credits of services are in force"),
                    _ => (host.restore(&host_context, self.config.force), "Weir's qdisc is"),
                };
                match restored {
                    Ok(()) => {
                        info!("{back} on {name} again");
                        self.enforces();
                    }
                    Err(error) => self.does_not_enforce(error.to_string()),
                }
            }
            Ok(Some(Missing::Programs)) => {
                warn!("another program detached Weir's programs from {name}");
                // The next host takes over the rest and the limits, as after a restart of the
                // agent.
                if let Some(mut host) = self.host.take() {
                    host.keep();
                }
                self.forget();
                self.look = self.now() + self.config.broker.period;
                self.releases = true;
                if !self.find() {
                    self.report_status();
                }
                self.releases = false;
            }
            // Only a reply of the kernel proves that a part is missing.
            Err(error) => debug!("{error}"),
        }
    }

    /// Notes that all parts are there.
    fn enforces(&mut self) {
        if self.not_enforced.take().is_some() {
            info!("the policy is enforced on {} again", self.config.interface);
            if let Some(host) = &self.host {
                notify::status(&format!("{} by {}", self.config.interface, host.backend()));
            }
        }
    }

    /// Notes that limits are not enforced although the interface is there; a new reason is logged.
    fn does_not_enforce(&mut self, reason: String) {
        if self.not_enforced.as_ref() != Some(&reason) {
            warn!("the policy is not enforced on {}: {reason}", self.config.interface);
            notify::status(&format!("not enforced: {reason}"));
            self.not_enforced = Some(reason);
        }
    }

    pub(super) fn lose(&mut self) {
        let name = &self.config.interface;
        warn!("{name} is gone: nothing is limited here until it is back");
        notify::status(&format!("{name} is gone"));
        // Most state went with the interface; the state of a renamed one is taken down.
        if let Some(Err(error)) = self.host.take().map(Host::remove) {
            debug!("{error}");
        }
        self.look = self.now() + self.config.broker.period;
        self.not_enforced = None;
        self.forget();
        self.report_status();
    }

    /// Forgets the readings of a lost interface.
    fn forget(&mut self) {
        (self.meters, self.usage) = ((self.now(), Vec::new()), Vec::new());
        self.reporter.renew(status::outline(&self.config, None, self.epoch));
    }

    /// Brings an interface under the policy; returns whether that succeeded.
    fn find(&mut self) -> bool {
        // Checked before an epoch is taken, which is written to disk: this may be tried once a
        // second for days.
        if let Err(error) = host::check_interface(&self.config.interface, self.config.force) {
            return self.has_not_found(error);
        }
        let epoch = match self.config.source.next_epoch() {
            Ok(epoch) => epoch,
            Err(error) => {
                self.does_not_enforce(format!("keep the epoch: {error}"));
                return false;
            }
        };
        let host_context = host_context(
            &self.config.runtime_config,
            self.config.means(),
            self.cookie,
            epoch,
            &self.config.broker,
            &self.tenants,
        );
        match Host::install(&self.config.interface, &host_context, self.config.force) {
            Ok(mut host) => {
                if self.config.keep {
                    host.keep();
                }
                info!("{} is there and under the policy again", self.config.interface);
                notify::status(&format!("{} by {}", self.config.interface, host.backend()));
                self.reporter.renew(status::outline(&self.config, Some(&host), epoch));
                self.not_enforced = None;
                self.look = self.now() + LOOK_EVERY;
                // Limits in force stay until the new broker has decided.
                let in_force = host.resumes().then(|| host.limits());
                self.host = Some(host);
                self.begin_anew(epoch, in_force.as_deref());
                true
            }
            Err(error) => self.has_not_found(error),
        }
    }

    /// Logs why an interface could not be brought under the policy, unless it is absent. Returns
    /// `false`.
    fn has_not_found(&mut self, error: HostError) -> bool {
        match error {
            HostError::Interface(error) if error.is_absent() => {
                debug!("{error}");
                self.not_enforced = None;
            }
            // The programs found are this agent's own: the kernel releases them some time after they
            // were dropped. The next check attaches anew, or finds another agent.
            HostError::Loader(LoaderError::AlreadyAttached(_)) if self.releases => debug!("{error}"),
            error => self.does_not_enforce(error.to_string()),
        }
        false
    }
}
