//! Machines without a connection.
//!
//! Problem: a machine that is off confirms nothing, and a step that waits for it keeps all tenants of its ports where
//! they are. A machine that is cut off looks the same and sends. Approach: an agent without a connection limits its
//! tenants after a lease, and so does one that starts, with the tags that it had. After a longer lease the machine is
//! gone: it sends nothing, or its tenants are limited and tagged as it last confirmed or was last sent. That is safe
//! as long as each of its tags leads to a queue whose weight contains the tenant there or to the shared queue while the
//! tenant is in it:
//!
//! - A tenant with such a machine does not begin to move out of the shared queue, and turns back where machines may
//!   not have the new tag yet. Moves to the shared queue go on.
//! - Its DSCP value stays its own ([`super::TenantState::retained`]) until the machine has confirmed for an interval
//!   that it does not send it: until then ports have it in no queue, which is the shared one.
//!
//! Worked example: red moves from queue 2 with value 12 to the shared queue while one of its machines is off. The
//! machine starts, and sends 12, limited; the ports do not map 12, so its packets are in the shared queue with red's
//! others. It confirms 0, and 12 is free an interval later.
//!
//! `docs/design/binding.md`, *Machines that are off*.

use super::Binder;
use super::motion::{Motion, Place, Step};
use crate::queues::Map;
use crate::score::Score;
use weir_units::{MachineId, TenantId};

impl Binder {
    /// A machine has connected: it must confirm its settings, under a new version.
    pub(super) fn connect(&mut self, machine: MachineId) {
        self.disconnected.remove(&machine);
        self.gone.remove(&machine);
        self.outputs.extend(self.settings.machine_again(machine));
        self.machine_changed(machine);
        self.movable.extend(self.settings.tenants_on(machine));
    }

    /// Machines whose lease is over are gone.
    pub(super) fn end_leases(&mut self) {
        let now = self.now;
        let over: Vec<MachineId> =
            self.disconnected.iter().filter(|(_, until)| **until <= now).map(|(machine, _)| *machine).collect();
        for machine in over {
            self.disconnected.remove(&machine);
            self.gone.insert(machine);
            for tenant in self.settings.tenants_on(machine).to_vec() {
                self.turn_back(tenant);
            }
            self.machine_changed(machine);
        }
    }

    /// Whether one of a tenant's machines is gone.
    pub(super) fn has_gone(&self, tenant: TenantId) -> bool {
        !self.gone.is_empty() && self.sites.site(tenant).machines.iter().any(|(id, _)| self.gone.contains(id))
    }

    /// Tenants that may not leave the shared queue take no queue from others.
    pub(super) fn without_gone(&mut self) {
        for machine in &self.gone {
            for tenant in self.settings.tenants_on(*machine) {
                if self.states[tenant.index()].place == Place::Shared {
                    self.scores[tenant.index()] = Score(0);
                }
            }
        }
        if self.config.map == Map::PerSwitch {
            let retained = self.states.iter().zip(&mut self.scores).filter(|(state, _)| state.retained.is_some());
            retained.for_each(|(_, score)| *score = Score(0));
        }
    }

    /// Turns a move out of the shared queue back, unless all machines have confirmed the new tag.
    fn turn_back(&mut self, tenant: TenantId) {
        let state = &mut self.states[tenant.index()];
        let Some(motion) = state.motion.take_if(|motion| motion.to != Place::Shared && motion.step <= Step::Tag) else {
            return;
        };
        match motion.step {
            // No machine has the new value; one that is gone may have had it before.
            Step::Cap => {
                state.retained = Some(motion.to.dscp());
                self.missed.remove(&tenant);
            }
            // As in a move from the new queue after its step `tag`: weights contain the tenant in both, and machines
            // return to the old value.
            _ => {
                state.place = motion.to;
                state.motion = Some(Motion { to: Place::Shared, step: Step::Tag });
            }
        }
        self.chosen.release(&self.sites, tenant);
        self.counters.turned_back += 1;
        self.renew(tenant);
    }

    /// At the end of an interval: frees the values that no machine of a tenant has sent for an interval, so that no
    /// packet with them is left in the network.
    pub(super) fn release_values(&mut self) {
        for tenant in std::mem::take(&mut self.unsent) {
            // It may have begun to move meanwhile, with this value.
            if self.states[tenant.index()].retained.take().is_some() {
                self.values.give_back(&self.sites, tenant);
                self.keep(tenant);
            }
        }
        let all = (0..).map(TenantId).zip(&self.states).filter(|(_, state)| state.retained.is_some());
        self.unsent = all.map(|(tenant, _)| tenant).filter(|tenant| self.has_confirmed(*tenant)).collect();
    }

    /// Whether all machines of a tenant have applied their settings.
    fn has_confirmed(&self, tenant: TenantId) -> bool {
        self.sites.site(tenant).machines.iter().all(|(id, _)| {
            !self.gone.contains(id) && self.settings.has_machine(*id, self.settings.machine_version(*id))
        })
    }
}
