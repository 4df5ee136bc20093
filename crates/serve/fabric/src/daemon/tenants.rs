//! The controller of tenants' queues in the daemon's loop.

use super::work::Daemon;
use crate::binding::{Controller, SubscriberEvent, Unbound, Verdict};
use crate::state::epoch;
use tracing::{debug, info, warn};
use weir_units::Instant;

/// The file of the last epoch of controllers, under the state directory.
const EPOCH_OF_TENANTS: &str = "epoch-of-tenant-queues";

impl Daemon {
    /// Starts a controller for the tenants of the policy in force, if this broker has their places.
    pub(super) fn bind_tenants(&mut self) -> Result<(), Unbound> {
        let Some(placement) = &self.config.placement else {
            if !self.policy.tenants().is_empty() {
                warn!("the policy's tenants have no queues of their own: no places are configured (--placement)");
            }
            return Ok(());
        };
        let (policy, state, now) = (&self.policy, &self.config.state, self.now());
        // Each controller has an epoch of its own: its versions begin anew.
        let epoch = epoch::next(state, EPOCH_OF_TENANTS, 0).map_err(Unbound::State)?;
        let controller = Controller::new(policy, placement, state, epoch, now)?;
        if let Some(earlier) = &mut self.controller {
            // Subscribers connect again, to the new controller.
            earlier.redirect(None);
        }
        info!("queues are bound to {} tenants", policy.tenants().len());
        self.controller = Some(controller);
        Ok(())
    }

    /// The time of the controller's next timeout.
    pub(super) fn next_binding(&self) -> Option<Instant> {
        self.controller.as_ref().map(Controller::poll_timeout)
    }

    pub(super) fn take_subscriber(&mut self, event: SubscriberEvent) {
        let now = self.now();
        let Some(controller) = &mut self.controller else {
            if let SubscriberEvent::Stream { verdict, .. } = event {
                let other = self.leader.clone().map_or(Verdict::NoTenants, |leader| Verdict::Elsewhere(Some(leader)));
                let _ = verdict.send(other);
            }
            return;
        };
        match event {
            SubscriberEvent::Stream { hello, messages, verdict } => {
                let Some(who) = controller.who(&hello) else {
                    let _ = verdict.send(Verdict::Unknown);
                    return;
                };
                debug!("`{}` subscribes", hello.name);
                let id = self.subscribers;
                self.subscribers += 1;
                let over = controller.begin(now, (who, &hello), id, messages);
                let _ = verdict.send(Verdict::Stays(id, over));
            }
            SubscriberEvent::Message(id, message) => {
                if !controller.take(now, id, message) {
                    self.counters.malformed.add();
                }
            }
            SubscriberEvent::End(id) => controller.end(id),
        }
    }
}
