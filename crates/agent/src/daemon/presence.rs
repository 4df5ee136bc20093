//! What the agent put on its interface, and the interface itself, come and go.
//!
//! Problem: the interface of a container, or of a card that is taken out, goes while the agent runs, and with it all that was put
//! on it; and whoever may can put another qdisc at its root or take the programs away, with one command and without a word to the agent, which
//! then holds nobody. Approach: once a period the agent looks whether its interface still has its name, its qdisc is at the root and its programs
//! hang there.
//!
//! Where the interface has gone it takes down what can be taken down, says so, and looks again once a period; what comes back under the name is
//! brought under the policy like a new one, by a broker that begins anew. The other machines go on with this one's last word, as when
//! its agent ends. Where only something of its own has gone it puts that back. Somebody else's qdisc it does not replace without
//! `--force`: it says that nothing is enforced and why, goes on with what it has, and tries again once a period.
//!
//! Worked example: `tc qdisc replace dev eth0 root fq_codel`: within a period the status has `not_enforced`; programs and receive meters go
//! on; `tc qdisc del dev eth0 root`: within a period all is held again, to the limits of that moment.
//!
//! An interface that is down stays under the policy: nothing is sent, and everything is still on it when it is up again. One that is
//! renamed has gone, and one that gets the name has come.

use super::{AgentError, Daemon, host_context};
use crate::host::{self, Host, HostError, Missing};
use crate::notify;
use crate::status;
use tracing::{debug, info, warn};
use weir_units::Duration;

/// It is looked no more often than this: it means reading the interface's qdiscs. Less than the shortest usual period, a second, so that each has
/// a look.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Daemon {
    /// Whether the interface is there and under the policy, as far as can be had.
    pub(super) fn is_present(&mut self) -> bool {
        let now = self.now();
        match &self.host {
            Some(_) if now < self.look => true,
            Some(host) if host.is_there() => {
                self.look = now + LOOK_EVERY;
                self.look_after();
                self.host.is_some()
            }
            Some(_) => {
                self.lose();
                false
            }
            None => {
                self.look = now + self.config.broker.period;
                let came = self.find();
                if !came {
                    self.report_status();
                }
                came
            }
        }
    }

    /// What failed at an interface that is gone meanwhile, or since somebody took away what was there, is no error.
    pub(super) fn outlive(&mut self, error: AgentError) -> Result<(), AgentError> {
        let (AgentError::Host(failed), Some(host)) = (&error, &mut self.host) else { return Err(error) };
        if !host.is_there() {
            debug!("{failed}");
            self.lose();
            return Ok(());
        }
        match host.missing() {
            Ok(Some(_)) => {
                debug!("{failed}");
                self.look_after();
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Puts back what somebody took away, as far as can be had.
    fn look_after(&mut self) {
        let Some(host) = &mut self.host else { return };
        let name = &self.config.interface;
        match host.missing() {
            Ok(None) => self.enforces(),
            Ok(Some(Missing::Qdisc)) => {
                if self.not_enforced.is_none() {
                    warn!("somebody took our qdisc away from {name}");
                }
                let timeout = self.config.broker.timeout;
                let host_context =
                    host_context(&self.config.runtime_config, self.config.backend, self.cookie, self.epoch, timeout);
                match host.restore(&host_context, self.config.force) {
                    Ok(()) => {
                        info!("our qdisc is on {name} again");
                        self.enforces();
                    }
                    Err(error) => self.does_not_enforce(error.to_string()),
                }
            }
            Ok(Some(Missing::Programs)) => {
                warn!("somebody took our programs away from {name}");
                // What is left of it, and limits, the next one finds, as after a restart of the agent.
                if let Some(mut host) = self.host.take() {
                    host.keep();
                }
                self.forget();
                self.look = self.now() + self.config.broker.period;
                if !self.find() {
                    self.report_status();
                }
            }
            // Anything but the kernel's word is no proof.
            Err(error) => debug!("{error}"),
        }
    }

    /// All is there.
    fn enforces(&mut self) {
        if self.not_enforced.take().is_some() {
            info!("the policy is enforced on {} again", self.config.interface);
            if let Some(host) = &self.host {
                notify::status(&format!("{} by {}", self.config.interface, host.backend()));
            }
        }
    }

    /// The interface is there, and services are not held, for a reason, which is said when it is new.
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
        // Most of it went with the interface; of a renamed one it is taken down.
        if let Some(Err(error)) = self.host.take().map(Host::remove) {
            debug!("{error}");
        }
        self.look = self.now() + self.config.broker.period;
        self.not_enforced = None;
        self.forget();
        self.report_status();
    }

    /// What an interface that was lost delivered is not known any more.
    fn forget(&mut self) {
        (self.meters, self.usage) = ((self.now(), Vec::new()), Vec::new());
        self.reporter.renew(status::outline(&self.config, None, self.epoch));
    }

    /// Brings an interface that is not under the policy under it; whether that worked.
    fn find(&mut self) -> bool {
        // Before an epoch is taken, which is written to disk: this may be tried once a second for days.
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
            self.config.backend,
            self.cookie,
            epoch,
            self.config.broker.timeout,
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
                // Limits that are still in force stay until the new broker knows better.
                let in_force = host.resumes().then(|| host.limits());
                self.host = Some(host);
                self.begin_anew(epoch, in_force.as_deref());
                self.report_absent();
                true
            }
            Err(error) => self.has_not_found(error),
        }
    }

    /// Says why an interface could not be brought under the policy, unless it is not there; which did not work.
    fn has_not_found(&mut self, error: HostError) -> bool {
        match error {
            HostError::Interface(error) if error.is_absent() => {
                debug!("{error}");
                self.not_enforced = None;
            }
            error => self.does_not_enforce(error.to_string()),
        }
        false
    }
}
