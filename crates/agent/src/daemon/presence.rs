//! Interfaces that come and go.
//!
//! Problem: the interface of a container, or of a card that is taken out, goes while the agent runs, and with it all that was put
//! on it. Approach: once a period the agent looks whether its interface still has its name. If not, it takes down what can
//! be taken down, says so, and looks again once a period; what comes back under the name is brought under the policy like a new one, by a
//! broker that begins anew. The other machines go on with this one's last word, as when its agent ends.
//!
//! An interface that is down stays under the policy: nothing is sent, and everything is still on it when it is up again. One that is
//! renamed has gone, and one that gets the name has come.

use super::{AgentError, Daemon, standing};
use crate::host::{Host, HostError};
use crate::notify;
use crate::status;
use tracing::{debug, info, warn};
use weir_linux::interface::Interface;

impl Daemon {
    /// Whether the interface is there and under the policy, as far as can be had.
    pub(super) fn is_present(&mut self) -> bool {
        match &self.host {
            Some(host) if host.is_there() => true,
            Some(_) => {
                self.lose();
                false
            }
            None => {
                self.look = self.now() + self.config.broker.period;
                let came = Interface::named(&self.config.interface).is_ok() && self.find();
                if !came {
                    self.tell_status();
                }
                came
            }
        }
    }

    /// What failed at an interface that is gone meanwhile is no error.
    pub(super) fn outlive(&mut self, error: AgentError) -> Result<(), AgentError> {
        match (&error, &self.host) {
            (AgentError::Host(failed), Some(host)) if !host.is_there() => {
                debug!("{failed}");
                self.lose();
                Ok(())
            }
            _ => Err(error),
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
        // What it delivered is not known any more.
        (self.meters, self.usage) = ((self.now(), Vec::new()), Vec::new());
        self.teller.renew(status::outline(&self.config, None, self.epoch));
        self.tell_status();
    }

    /// Brings the interface that has come under the policy; whether that worked.
    fn find(&mut self) -> bool {
        let epoch = match self.config.source.next_epoch() {
            Ok(epoch) => epoch,
            Err(error) => {
                warn!("keep the epoch: {error}");
                return false;
            }
        };
        let standing =
            standing(&self.config.terms, self.config.backend, self.cookie, epoch, self.config.broker.timeout);
        match Host::install(&self.config.interface, &standing, self.config.force) {
            Ok(mut host) => {
                if self.config.keep {
                    host.keep();
                }
                info!("{} is there and under the policy again", self.config.interface);
                notify::status(&format!("{} by {}", self.config.interface, host.backend()));
                self.teller.renew(status::outline(&self.config, Some(&host), epoch));
                self.host = Some(host);
                self.begin_anew(epoch);
                self.tell_absent();
                true
            }
            // It went again.
            Err(HostError::Interface(error)) => {
                debug!("{error}");
                false
            }
            Err(error) => {
                warn!("{} is there, but not under the policy: {error}", self.config.interface);
                notify::status(&error.to_string());
                false
            }
        }
    }
}
