//! The controller of tenants' queues in the daemon's loop.

use super::work::Daemon;
use crate::binding::{Continuation, Controller, Places, Refusal, Store, SubscriberEvent, Unbound};
use crate::binding_proto::from_subscriber;
use crate::cluster::KeptTenants;
use crate::state::epoch;
use tracing::{debug, info, warn};
use weir_units::Instant;

/// The file of the last epoch of controllers, under the state directory.
///
/// An epoch that goes down, since the file is lost or restored, needs no notice: machines and switches apply the
/// settings of their present stream whatever the version is, and no message of theirs is refused for its epoch.
/// Versions only relate a confirmation to its settings. One of an earlier controller ends with its stream, and counts
/// as outdated should it arrive.
const EPOCH_OF_TENANTS: &str = "epoch-of-tenant-queues";

impl Daemon {
    /// At the start: binds tenants if this broker is alone; otherwise checks the places that it would have to use.
    pub(super) fn begin_tenants(&mut self) -> Result<(), Unbound> {
        let Some(placement) = &self.config.placement else {
            if !self.policy.tenants().is_empty() {
                warn!("the policy's tenants have no queues of their own: no places are configured (--placement)");
            }
            return Ok(());
        };
        if self.cluster.is_some() {
            return Places::read(placement, &self.policy).map(drop);
        }
        let state = &self.config.state;
        let epoch = epoch::next(state, EPOCH_OF_TENANTS, 0).map_err(Unbound::State)?;
        self.continuation = Some(Continuation::first(Store::in_file(state).map_err(Unbound::State)?, epoch));
        self.bind_tenants()
    }

    /// This broker leads from now on: etcd has the state.
    pub(super) fn lead_tenants(&mut self, epoch: u64, kept: KeptTenants) {
        self.controller = None;
        self.continuation = None;
        if self.config.placement.is_none() {
            return;
        }
        match Store::in_etcd(epoch, kept) {
            Ok(store) => self.continuation = Some(Continuation::first(store, epoch)),
            Err(error) => return warn!("no queues are bound to tenants: {error}"),
        }
        if let Err(unbound) = self.bind_tenants() {
            warn!("no queues are bound to tenants: {unbound}");
        }
    }

    /// Another broker leads, or none.
    pub(super) fn stop_tenants(&mut self) {
        self.continuation = None;
        if let Some(controller) = self.controller.take() {
            controller.end_for(self.leader.as_deref());
        }
    }

    /// Starts a controller for the tenants of the policy in force, if this broker leads and has their places.
    pub(super) fn bind_tenants(&mut self) -> Result<(), Unbound> {
        let Some(placement) = &self.config.placement else { return Ok(()) };
        if self.continuation.is_none() && self.controller.is_none() {
            return Ok(());
        }
        let places = Places::read(placement, &self.policy)?;
        // Subscribers of an earlier controller connect again, to the new one.
        let earlier = self.controller.take().map(|controller| controller.end_for(None));
        let Some(continuation) = earlier.or_else(|| self.continuation.take()) else { return Ok(()) };
        self.controller = Some(Controller::new(&self.policy, places, continuation, self.now()));
        match self.policy.tenants().len() {
            1 => info!("queues are bound to 1 tenant"),
            count => info!("queues are bound to {count} tenants"),
        }
        Ok(())
    }

    /// Hands states over to etcd.
    pub(super) fn keep_tenants(&mut self) {
        let now = self.now();
        let (Some(controller), Some(cluster)) = (&mut self.controller, &self.cluster) else { return };
        if let Some(batch) = controller.poll_batch(now) {
            let epoch = batch.epoch;
            if !cluster.keep(batch) {
                controller.kept(now, epoch, Err("etcd has not taken the states before them yet".to_owned()));
            }
        }
    }

    /// etcd has taken states of tenants, or not.
    pub(super) fn tenants_kept(&mut self, epoch: u64, result: Result<(), String>) {
        let now = self.now();
        if let Some(controller) = &mut self.controller {
            controller.kept(now, epoch, result);
        }
    }

    /// The time of the controller's next timeout.
    pub(super) fn next_binding(&self) -> Option<Instant> {
        self.controller.as_ref().map(Controller::poll_timeout)
    }

    pub(super) fn take_subscriber(&mut self, event: SubscriberEvent) {
        let now = self.now();
        let Some(controller) = &mut self.controller else {
            if let SubscriberEvent::Stream { verdict, .. } = event {
                // Among several, the leader has a controller, and may be another one soon.
                let leads = self.cluster.is_none() || self.broker.is_some();
                let refusal = if leads { Refusal::NoTenants } else { Refusal::Elsewhere(self.leader.clone()) };
                let _ = verdict.send(Err(refusal));
            }
            return;
        };
        let changes = match &event {
            SubscriberEvent::Message(_, message) => matches!(message, from_subscriber::Message::Applied(_)),
            SubscriberEvent::Stream { .. } | SubscriberEvent::End(_) => true,
        };
        match event {
            SubscriberEvent::Stream { hello, messages, verdict } => {
                let Some(subscriber) = controller.subscriber(&hello) else {
                    let _ = verdict.send(Err(Refusal::Unknown));
                    return;
                };
                debug!("`{}` subscribes", hello.name);
                let id = self.subscribers;
                self.subscribers += 1;
                let over = controller.begin(now, (subscriber, &hello), id, messages);
                // Without a request no task would report the end of the stream, and its machine would count as
                // connected for ever.
                if verdict.send(Ok((id, over))).is_err() {
                    controller.end(now, id);
                }
            }
            SubscriberEvent::Message(id, message) => {
                if !controller.take(now, id, message) {
                    self.counters.malformed.add();
                }
            }
            SubscriberEvent::End(id) => controller.end(now, id),
        }
        if changes {
            self.changed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::work::tests::daemon;
    use super::*;
    use crate::binding::two_tenants::{placement, policy};
    use crate::binding_proto::{Hello, Kind};
    use tokio::sync::{mpsc, oneshot};
    use weir_binding::binder::BinderConfig;

    #[tokio::test]
    async fn lease_of_a_machine_whose_request_was_dropped_ends() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("placement.json");
        std::fs::write(&file, placement("spine0")).expect("written");
        let mut daemon = daemon(directory.path(), &policy(3, ""), Some(file));
        daemon.begin_tenants().expect("tenants with places");
        let (policy, kind) = (daemon.policy.digest(), Kind::Machine.into());
        let subscribe = |name: &str| {
            let (verdict, decided) = oneshot::channel();
            let hello = Hello { name: name.to_owned(), kind, policy, fresh: false };
            (SubscriberEvent::Stream { hello, messages: mpsc::channel(8).0, verdict }, decided)
        };
        let ((stays, _decided), (gone, decided)) = (subscribe("m1"), subscribe("m2"));
        drop(decided);
        daemon.take_subscriber(stays);
        daemon.take_subscriber(gone);
        let over = daemon.now() + BinderConfig::LEASE + BinderConfig::RETRY;
        let controller = daemon.controller.as_mut().expect("a controller");
        controller.on_time(over);
        let status = controller.status();
        assert_eq!((status.subscribers, status.machines_gone), (1, 1));
    }
}
