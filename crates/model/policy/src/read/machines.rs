//! `machines:` of a service.

use crate::language::MAX_SERVICE_MACHINES;
use crate::machine_set::MachineSet;
use weir_document::{Node, Problems, Suggester};
use weir_network::Network;
use weir_network::names::NameRange;
use weir_network::read::ReadNetwork;
use weir_units::MachineId;

/// Reads the machines of one service after the other.
pub(super) struct Machines<'a> {
    network: &'a Network,
    complete: bool,
    suggester: Suggester,
    /// The number of names that may still be written out, in all services together.
    left: u64,
}

impl<'a> Machines<'a> {
    pub(super) fn new(network: &'a ReadNetwork) -> Self {
        Self {
            network: &network.network,
            complete: network.complete,
            suggester: Suggester::default(),
            left: MAX_SERVICE_MACHINES as u64,
        }
    }

    /// The name of a machine.
    pub(super) fn name(&self, machine: MachineId) -> &'a str {
        self.network.machine(machine).name()
    }

    /// The machines of a list; `None` where one is not known, which has been reported.
    pub(super) fn read(&mut self, list: &Node, problems: &mut Problems) -> Option<MachineSet> {
        let mut ids = Vec::new();
        for item in list.items() {
            let range = NameRange::parse(item.scalar()?).ok()?;
            if range.count() > self.left {
                let cause = format!("the services of the policy name machines more than {MAX_SERVICE_MACHINES} times");
                problems.error(item.span, cause, "check the ends of this range, or leave `machines` out");
                return None;
            }
            self.left -= range.count();
            for name in range.names() {
                let Some(machine) = self.network.machine_named(&name) else {
                    if self.complete {
                        let known = self.network.machines().iter().map(|machine| machine.name());
                        let hint = self.suggester.hint_of_name(&name, known, "name machines of the network");
                        problems.error(item.span, format!("there is no machine `{name}` in any rack"), hint);
                    }
                    return None;
                };
                ids.push(machine);
            }
        }
        Some(MachineSet::new(ids))
    }
}
