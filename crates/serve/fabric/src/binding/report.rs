//! The tenants and their queues, for watchers.

use super::Controller;
use weir_binding::Site;
use weir_binding::binder::{Place, Step};
use weir_status::{TenantPort, TenantQueuesStatus, TenantStatus};

impl Controller {
    /// The tenants and their queues.
    pub(crate) fn status(&self) -> TenantQueuesStatus {
        let (counters, tenants) = (self.counters(), self.policy.tenants());
        let shown = tenants.len().min(TenantQueuesStatus::MOST_TENANTS);
        TenantQueuesStatus {
            subscribers: self.stream_count() as u64,
            subscriptions: self.begun,
            switch_resets: self.resets,
            intervals: counters.intervals,
            moves_begun: counters.moves,
            moves_ended: counters.moved,
            moves_turned_back: counters.turned_back,
            machines_gone: self.binder.gone().len() as u64,
            without_dscp: counters.without_value,
            unconfirmed: self.binder.unconfirmed() as u64,
            move_times: self.timing.moves,
            switch_times: self.timing.switches,
            tenants: (0..shown).map(|at| self.tenant_status(at)).collect(),
            tenants_left_out: (tenants.len() - shown) as u64,
        }
    }

    fn tenant_status(&self, at: usize) -> TenantStatus {
        let (tenant, state) = (&self.policy.tenants()[at], &self.binder.state()[at]);
        let used = self.binder.used()[at];
        let (competes, competes_left_out) = self.competes(&self.places.sites.tenants[at]);
        TenantStatus {
            tenant: tenant.name.clone(),
            has_queues: state.place != Place::Shared,
            since_ms: self.since[at],
            dscp: state.place.dscp(),
            moves: state.motion.as_ref().map(|motion| step_word(motion.step).to_owned()),
            guarantee: tenant.bandwidth(),
            used_tx: used.tx,
            used_rx: used.rx,
            score_bps: self.binder.scores()[at].0,
            competes,
            competes_left_out,
        }
    }

    /// The ports that more tenants pass than they have queues: those with most tenants, and the number of the others.
    fn competes(&self, site: &Site) -> (Vec<TenantPort>, u64) {
        let contended = site.ports.iter().filter_map(|(port, _)| {
            let (tenants, queues) = (self.places.tenants[port.index()], self.places.sites.ports[port.index()].queues);
            (tenants > u32::from(queues)).then_some((tenants, *port, queues))
        });
        let mut contended: Vec<_> = contended.collect();
        contended.sort_by_key(|(tenants, port, _)| (std::cmp::Reverse(*tenants), *port));
        let left_out = contended.len().saturating_sub(TenantQueuesStatus::MOST_PORTS) as u64;
        contended.truncate(TenantQueuesStatus::MOST_PORTS);
        let port = |(tenants, port, queues)| TenantPort {
            port: self.places.port_name(port),
            tenants: u64::from(tenants),
            queues: u64::from(queues),
        };
        (contended.into_iter().map(port).collect(), left_out)
    }
}

fn step_word(step: Step) -> &'static str {
    match step {
        Step::Cap => "cap",
        Step::Raise => "raise",
        Step::Tag => "tag",
        Step::Drain => "drain",
        Step::Unmap => "unmap",
        Step::Lower => "lower",
    }
}
