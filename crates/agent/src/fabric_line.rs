//! The fabric broker, as the agent sees it: there or not.
//!
//! All that takes time is in [`weir_fabric::line`], on a thread of its own. Here is what the loop asks: reports go out,
//! limits come in, neither waits, and the status says how the line stands.

use tracing::warn;
use weir_control::{RackBroker, RackLimits, RackReport};
use weir_fabric::{Line, LineState};
use weir_policy::Policy;
use weir_status::{FabricLine as StatusLine, FabricLink, LineCounters, LineState as Shown};

/// The line, if one is configured.
pub(crate) struct FabricLine {
    line: Option<Line>,
    /// Reports that had nowhere to go, in parts.
    unsent: u64,
}

impl FabricLine {
    /// The line, if one is configured.
    pub(crate) fn new(line: Option<Line>) -> Self {
        Self { line, unsent: 0 }
    }

    /// Says what will not work between this line and a policy that comes into force.
    pub(crate) fn concern(&mut self, policy: &Policy) {
        match (&self.line, weir_alloc::speaks_of_fabric(policy)) {
            (None, true) => {
                warn!("what the policy says of the fabric is not enforced: no fabric broker is given (--fabric)");
            }
            (Some(_), false) => warn!("the policy says nothing of the fabric: its broker is not called"),
            _ => {}
        }
    }

    /// The next limits of the rack; never without a line. Nothing is lost when the future is dropped.
    pub(crate) async fn limits(&mut self) -> RackLimits {
        match &mut self.line {
            Some(line) => line.limits().await,
            None => std::future::pending().await,
        }
    }

    /// What this machine says for its rack.
    pub(crate) fn report(&mut self, report: RackReport) {
        match &self.line {
            Some(line) => line.report(report),
            None => self.unsent += 1,
        }
    }

    /// Reports that had nowhere to go, in parts.
    pub(crate) fn unsent(&self) -> u64 {
        self.unsent
    }

    /// For whoever watches; nothing where nobody speaks of the fabric.
    pub(crate) fn status(&self, broker: &RackBroker) -> Option<FabricLink> {
        let line = self.line.as_ref().map(|line| {
            let line = line.status();
            let (state, broker) = match line.state {
                LineState::Idle => (Shown::Idle, None),
                LineState::Calling(broker) => (Shown::Calling, Some(broker)),
                LineState::Waiting => (Shown::Waiting, None),
                LineState::Up(broker) => (Shown::Up, Some(broker)),
            };
            let counters = LineCounters {
                calls: line.calls,
                failures: line.failures,
                sent_elsewhere: line.sent_elsewhere,
                reports_sent: line.reports_sent,
                reports_lost: line.reports_lost,
                limits_malformed: line.limits_malformed,
                limits_lost: line.limits_lost,
            };
            let silent_ms = line.silent.map(|silent| u64::try_from(silent.as_millis()).unwrap_or(u64::MAX));
            let (last_failure, certificate_ends) = (line.last_failure, line.certificate_ends);
            StatusLine { state, broker, silent_ms, last_failure, certificate_ends, counters }
        });
        let concerned = line.is_some() || weir_alloc::speaks_of_fabric(broker.allocator().policy());
        concerned.then(|| FabricLink { leads: broker.leads(), hears: broker.hears_fabric(), line })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use weir_control::RackBrokerConfig;
    use weir_units::{Instant, MachineId, ServiceId};

    #[test]
    fn without_a_line_reports_are_counted() {
        let text = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m1, m2] } } }\n\
                    services: { a: { match: [ { protocol: tcp, port: 1 } ], fabric: { max: 1Gb/s } } }\n";
        let policy = Arc::new(Policy::parse("policy.yaml", text).expect("valid").0);
        let broker = RackBroker::new(&policy, MachineId(0), 1, RackBrokerConfig::default(), Instant::ZERO);
        let mut line = FabricLine::new(None);
        line.concern(&policy);
        let (first, last) = (ServiceId(0), ServiceId(9));
        let policy = policy.digest();
        line.report(RackReport { machine: MachineId(0), policy, epoch: 1, round: 1, first, last, rows: vec![] });
        assert_eq!(line.unsent(), 1);
        assert_eq!(line.status(&broker), Some(FabricLink { leads: false, hears: false, line: None }));
    }
}
