//! Epochs that go down, in the daemon's loop: notices from and to rack leaders. The rule is in `weir_control::epoch`.

use super::EPOCH_FILE;
use super::work::Daemon;
use crate::convert;
use crate::proto;
use crate::service::StreamId;
use crate::state::epoch;
use tracing::{debug, warn};
use weir_control::{EpochNotice, FabricInput};

impl Daemon {
    /// A rack leader has received a newer epoch of this broker, which continues above it while it has a lease. The
    /// newer epoch may be a successor's: a broker that was paused beyond its lease must not exceed it.
    pub(super) fn take_notice(&mut self, stream: StreamId, notice: &proto::Known) {
        let Some(machine) = self.streams.machine(stream) else { return };
        if self.cluster.as_ref().is_some_and(|cluster| !cluster.has_lease()) {
            debug!("a notice of epoch {} is not taken: the lease has ended", notice.epoch);
            return;
        }
        match convert::epoch_notice(Some(machine), notice) {
            Ok(notice) => self.handle(FabricInput::EpochNotice(&notice)),
            Err(malformed) => {
                self.counters.malformed.add();
                debug!("from `{}`: {malformed}", self.policy.network().machine(machine).name());
            }
        }
    }

    /// Sends a rack leader the newest epoch of it.
    pub(super) fn notify(&mut self, notice: &EpochNotice) {
        let Some(to) = notice.to else { return };
        let name = self.policy.network().machine(to).name();
        warn!("`{name}` reports in an older epoch than before, {}: it receives a notice", notice.epoch);
        self.reply(to, convert::from_notice_to_machine(notice));
    }

    /// The broker has continued in this epoch. It is in force whether it can be stored or not: after another loss the
    /// rack leaders send their notices again.
    pub(super) fn continue_in(&mut self, epoch: u64) {
        warn!("machines have a higher epoch of this fabric broker than {}: it continues in epoch {epoch}", self.epoch);
        self.epoch = epoch;
        self.status_due = Some(self.now());
        let stored = match &self.cluster {
            Some(cluster) => cluster.raise_epoch(epoch),
            None => epoch::raise(&self.config.state, EPOCH_FILE, epoch).map_err(|error| error.to_string()),
        };
        if let Err(error) = stored {
            warn!("keep the epoch in {}: {error}", self.config.state.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::work::tests::daemon;
    use super::*;
    use crate::cluster::Cluster;
    use crate::proto::from_broker::Message;
    use crate::service::Event;
    use tokio::sync::{mpsc, oneshot};
    use tokio::time::Instant;
    use weir_control::LARGEST_CLAIM;

    type Response = Result<proto::FromBroker, tonic::Status>;

    const POLICY: &str = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m1] } } }\n\
                          services: { a: { match: [ { protocol: tcp, port: 1 } ], fabric: { max: 1Gb/s } } }\n";

    /// A stream of the rack leader `m1`, and a notice on it.
    async fn with_stream(daemon: &mut Daemon) -> (StreamId, mpsc::Receiver<Response>, proto::Known) {
        let (responses, to_leader) = mpsc::channel(8);
        let (verdict, decided) = oneshot::channel();
        daemon.take(Event::Stream { machine: "m1".to_owned(), responses, verdict });
        let (stream, _over) = decided.await.expect("a verdict").unwrap_or_else(|_| panic!("a stream"));
        (stream, to_leader, proto::Known { policy: daemon.policy.digest(), epoch: 900, round: 4 })
    }

    #[tokio::test]
    async fn epochs_that_go_down_rise_on_both_sides() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut daemon = daemon(directory.path(), POLICY, None);
        let (stream, mut to_leader, notice) = with_stream(&mut daemon).await;
        let policy = daemon.policy.digest();
        let report = |epoch| proto::Report { policy, epoch, round: 4, first: 0, last: 9, demands: vec![] };
        daemon.take(Event::Report(stream, report(900)));
        daemon.take(Event::Report(stream, report(5)));
        let mut messages =
            std::iter::from_fn(|| to_leader.try_recv().ok()).map(|message| message.expect("one").message);
        assert!(matches!(messages.next(), Some(Some(Message::Welcome(_)))));
        assert_eq!(messages.next(), Some(Some(Message::Notice(notice))));
        assert_eq!(messages.next(), None);
        // The other direction: the broker, in epoch 1, continues above the machine's number and stores it.
        daemon.take(Event::Notice(stream, proto::Known { epoch: LARGEST_CLAIM + 1, ..notice }));
        assert_eq!((daemon.epoch, daemon.counters.malformed.get()), (1, 1));
        let future = u64::MAX / 4;
        daemon.take(Event::Notice(stream, proto::Known { epoch: future, ..notice }));
        let stored = std::fs::read_to_string(directory.path().join("state").join(EPOCH_FILE)).expect("stored");
        assert_eq!((daemon.epoch, stored), (future + 1, format!("{}\n", future + 1)));
    }

    #[tokio::test]
    async fn a_broker_whose_lease_has_ended_takes_no_notice() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut daemon = daemon(directory.path(), POLICY, None);
        let (stream, _to_leader, notice) = with_stream(&mut daemon).await;
        let lease = std::time::Duration::from_secs(3600);
        // Paused beyond its lease: the event that another broker leads has not arrived.
        for cluster in [Cluster::leased(Instant::now()), Cluster::lost()] {
            daemon.cluster = Some(cluster);
            daemon.take(Event::Notice(stream, notice));
            assert_eq!((daemon.broker.is_some(), daemon.epoch), (true, 1));
        }
        daemon.cluster = Some(Cluster::leased(Instant::now() + lease));
        daemon.take(Event::Notice(stream, notice));
        assert_eq!(daemon.epoch, notice.epoch + 1);
    }
}
