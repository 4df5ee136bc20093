//! An epoch of this machine that goes down: notices from and to its rack and the fabric broker. The rule is in
//! `weir_control::epoch`.

use super::{AgentError, Daemon, host_context};
use crate::host::HostError;
use crate::status;
use tracing::{debug, warn};
use weir_control::{EpochNotice, Input};

impl Daemon {
    /// The fabric broker has a newer epoch of this machine.
    pub(super) fn take_notice(&mut self, notice: EpochNotice) {
        let to = Some(self.config.runtime_config.machine);
        let now = self.now();
        self.broker.handle_input(now, Input::EpochNotice(&EpochNotice { to, ..notice }));
    }

    /// Sends a machine of the rack, or the fabric broker, its newest epoch.
    pub(super) async fn notify(&mut self, notice: &EpochNotice) {
        match notice.to {
            Some(machine) => {
                let name = self.config.runtime_config.policy.network().machine(machine).name();
                debug!("{name} receives a notice of its epoch {}, round {}", notice.epoch, notice.round);
                self.send(&(*notice).into(), Some(machine)).await;
            }
            None => self.session.notify(notice),
        }
    }

    /// The broker has continued in this epoch. It is in force whether it can be stored or not: after another loss the
    /// other machines send their notices again. Feedback and credits have it from now on, too.
    pub(super) fn continue_in(&mut self, epoch: u64) -> Result<(), AgentError> {
        warn!(
            "others have a higher epoch of this machine than {}: it continues in epoch {epoch}; if this repeats, two \
             agents run as one machine",
            self.epoch
        );
        if let Err(error) = self.config.source.raise_epoch(epoch) {
            warn!("keep the epoch: {error}");
        }
        self.epoch = epoch;
        self.reporter.renew(status::outline(&self.config, self.host.as_ref(), epoch));
        let (runtime, means, broker) = (&self.config.runtime_config, self.config.means(), &self.config.broker);
        let context = host_context(runtime, means, self.cookie, epoch, broker, &self.tenants);
        let Some(host) = &mut self.host else { return Ok(()) };
        match HostError::unless_of_credits(host.renew(&context, false)) {
            // For example control groups of a tenant that are too many now. The host stays as it is, and feedback has
            // the earlier epoch until the next change of the host.
            Err(error) if error.is_refusal() => {
                warn!("feedback and credits keep their epoch: {error}");
                Ok(())
            }
            renewed => Ok(renewed?),
        }
    }
}
