//! Machines that fail: off, without an agent, cut off from the controller.
//!
//! A machine has one connection at a time, and messages of an earlier one do not reach it. An agent without a
//! connection for its lease limits its tenants; one that starts does so at once, with the tags that it had.

use crate::world::{AGENT_LEASE, Event, Failure, LEASE, MS, World};
use rand::Rng;
use weir_binding::binder::BinderInput;
use weir_units::MachineId;

impl World {
    /// The connection of a machine ends; it connects again within `most`.
    pub(crate) fn lose(&mut self, machine: MachineId, most: u64) {
        let own = self.machines.entry(machine).or_default();
        own.is_up = false;
        let ended = own.connection;
        own.connection += 1;
        // The controller notices it, and so does the agent, some time later.
        let (noticed, missed) = (self.random.random_range(0..100 * MS), self.random.random_range(0..100 * MS));
        self.at(self.now + noticed, Event::Ended(machine, ended));
        self.at(self.now + missed + AGENT_LEASE, Event::Limit(machine, ended + 1));
        let back = self.now + self.random.random_range(0..most);
        self.at(back, Event::Connect(machine, ended + 1));
    }

    pub(crate) fn connection(&mut self, event: Event) {
        match event {
            Event::Ended(machine, connection) if self.machines[&machine].known == connection => {
                self.input(BinderInput::MachineDisconnected { machine });
            }
            Event::Connect(machine, connection) => {
                let own = self.machines.entry(machine).or_default();
                if own.connection == connection && !own.is_off {
                    (own.is_up, own.known) = (true, connection);
                    self.input(BinderInput::MachineConnected { machine });
                }
            }
            Event::Limit(machine, connection) => {
                let own = self.machines.entry(machine).or_default();
                if own.connection == connection && !own.is_up {
                    own.tenants.values_mut().for_each(|settings| settings.limited = true);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn failure(&mut self, event: Event) {
        match event {
            Event::Fail(machine, _) if self.machines[&machine].is_off || !self.machines[&machine].is_up => {}
            Event::Fail(machine, Failure::Cut) => {
                self.failures += 1;
                self.lose(machine, 3 * LEASE);
            }
            Event::Fail(machine, Failure::Agent) => {
                self.failures += 1;
                // Its supervisor starts it again, and it limits its tenants before it connects.
                let down = self.random.random_range(0..AGENT_LEASE);
                self.lose(machine, 1);
                let own = self.machines.entry(machine).or_default();
                own.connection += 1;
                let connection = own.connection;
                self.at(self.now + down, Event::Limit(machine, connection));
                self.at(self.now + down, Event::Connect(machine, connection));
            }
            Event::Fail(machine, Failure::Off) => {
                self.failures += 1;
                self.lose(machine, 1);
                let own = self.machines.entry(machine).or_default();
                own.is_off = true;
                own.connection += 1;
                let connection = own.connection;
                // The packets that it sent last pass three ports with the longest queues.
                let longest = self.residence.iter().copied().max().unwrap_or(0);
                self.at(self.now + 3 * longest, Event::Vanished(machine, connection));
                let off = 100 * MS + self.random.random_range(0..3 * LEASE);
                self.at(self.now + off, Event::Start(machine));
            }
            Event::Vanished(machine, connection)
                if self.machines[&machine].is_off && self.machines[&machine].connection == connection =>
            {
                self.values.iter_mut().filter(|((_, at), _)| *at == machine).for_each(|(_, all)| all.clear());
            }
            Event::Start(machine) => {
                let own = self.machines.entry(machine).or_default();
                own.is_off = false;
                let connection = own.connection;
                for (tenant, settings) in &mut own.tenants {
                    settings.limited = true;
                    *self.values.entry((*tenant, machine)).or_default().entry(settings.dscp).or_default() += 1;
                }
                let connected = self.now + self.random.random_range(0..2 * LEASE);
                self.at(connected, Event::Connect(machine, connection));
            }
            _ => {}
        }
    }
}
