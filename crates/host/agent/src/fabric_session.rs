//! The fabric broker, as the agent's loop uses it.
//!
//! [`weir_fabric::session`] does the slow work on a thread of its own. This module is the loop's
//! side: reports go out and limits come in without waiting, and the status shows the state of the
//! session.

use tracing::warn;
use weir_control::{EpochNotice, RackBroker, RackReport, Reach};
use weir_fabric::{FromFabric, Session, SessionState};
use weir_policy::Policy;
use weir_status::{FabricLink, FabricSession as SessionStatus, SessionCounters, SessionState as Shown};

/// The session, if one is configured.
pub(crate) struct FabricSession {
    session: Option<Session>,
    /// Parts of reports that were lost because no session is configured.
    unsent: u64,
}

impl FabricSession {
    /// A handle of the session, if one is configured.
    pub(crate) fn new(session: Option<Session>) -> Self {
        Self { session, unsent: 0 }
    }

    /// Warns if the session and a policy that comes into force do not fit.
    pub(crate) fn concern(&mut self, policy: &Policy) {
        match (&self.session, weir_alloc::has_fabric_limits(policy)) {
            (None, true) => {
                warn!("the policy's fabric limits are not enforced: no fabric broker is configured (--fabric)");
            }
            // The controller of tenants' queues has a session of its own.
            (Some(_), false) if policy.tenants().is_empty() => {
                warn!("the policy has no fabric limits: no stream to a fabric broker is opened")
            }
            _ => {}
        }
    }

    /// The fabric broker's next message; pending for ever without a session. Cancelling the future
    /// loses none.
    pub(crate) async fn message(&mut self) -> FromFabric {
        match &mut self.session {
            Some(session) => session.message().await,
            None => std::future::pending().await,
        }
    }

    /// Whether a fabric broker can be reached.
    pub(crate) fn reach(&self) -> Reach {
        self.session.as_ref().map_or(Reach::Never, Session::reach)
    }

    /// Hands over a report of the rack. `after` is the number of machines with lower ids that report it as well.
    pub(crate) fn report(&mut self, report: RackReport, after: usize) {
        match &self.session {
            Some(session) => {
                session.set_after(after);
                session.report(report);
            }
            None => self.unsent += 1,
        }
    }

    /// Hands over a notice of the fabric broker's epoch, whose limits came by a session.
    pub(crate) fn notify(&mut self, notice: &EpochNotice) {
        if let Some(session) = &self.session {
            session.notify(notice);
        }
    }

    /// Hands over a reply to a proposal, which came by a session.
    pub(crate) fn reply(&mut self, reply: RackReport) {
        match &self.session {
            Some(session) => session.reply(reply),
            None => self.unsent += 1,
        }
    }

    /// Parts of reports that were lost because no session is configured.
    pub(crate) fn unsent(&self) -> u64 {
        self.unsent
    }

    /// The status for watchers; `None` if neither a session nor the policy concerns the fabric.
    pub(crate) fn status(&self, broker: &RackBroker) -> Option<FabricLink> {
        let session = self.session.as_ref().map(|session| {
            let session = session.status();
            let (state, broker) = match session.state {
                SessionState::Idle => (Shown::Idle, None),
                SessionState::Connecting(broker) => (Shown::Connecting, Some(broker)),
                SessionState::Waiting => (Shown::Waiting, None),
                SessionState::Up(broker) => (Shown::Up, Some(broker)),
            };
            let counters = SessionCounters {
                streams: session.streams,
                failures: session.failures,
                redirected: session.redirected,
                reports_sent: session.reports_sent,
                reports_lost: session.reports_lost,
                limits_malformed: session.limits_malformed,
                limits_lost: session.limits_lost,
            };
            let silent_ms = session.silent.map(|silent| u64::try_from(silent.as_millis()).unwrap_or(u64::MAX));
            let (last_failure, certificate_ends) = (session.last_failure, session.certificate_ends);
            SessionStatus { state, broker, silent_ms, last_failure, certificate_ends, counters }
        });
        let concerned = session.is_some() || weir_alloc::has_fabric_limits(broker.allocator().policy());
        let leader = broker.leader().map(|id| broker.allocator().policy().network().machine(id).name().to_owned());
        concerned.then(|| FabricLink {
            leads: broker.leads(),
            leader,
            shut_out: broker.is_shut_out(),
            receives: broker.has_fabric_limits(),
            session,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use weir_control::{Input, RackBrokerConfig};
    use weir_units::{Instant, MachineId, ServiceId};

    #[test]
    fn reports_without_a_session_are_counted() {
        let text = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m1, m2] } } }\n\
                    services: { a: { match: [ { protocol: tcp, port: 1 } ], fabric: { max: 1Gb/s } } }\n";
        let policy = Arc::new(Policy::parse("policy.yaml", text).expect("valid").0);
        let mut broker = RackBroker::new(&policy, MachineId(0), 1, RackBrokerConfig::default(), Instant::ZERO);
        let mut session = FabricSession::new(None);
        session.concern(&policy);
        let (first, last) = (ServiceId(0), ServiceId(9));
        let policy = policy.digest();
        session.report(RackReport { machine: MachineId(0), policy, epoch: 1, round: 1, first, last, rows: vec![] }, 0);
        assert_eq!(session.unsent(), 1);
        assert_eq!(session.status(&broker), Some(FabricLink::default()));
        broker.handle_input(Instant::ZERO, Input::Reach(session.reach()));
        let shut_out = FabricLink { shut_out: true, ..FabricLink::default() };
        assert_eq!(session.status(&broker), Some(shut_out), "it has no session");
    }
}
