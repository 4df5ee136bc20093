//! The leaders that are on the line.
//!
//! Problem: the broker answers machines, and machines come, go, and come again before they are known to be gone.
//! Approach: a machine has one call, its newest; an older one ends. Calls are kept by the machine's name, which outlives
//! a policy; the id is the present policy's.

use crate::service::{Responses, StreamId};
use std::collections::BTreeMap;
use tokio::sync::oneshot;
use weir_policy::Policy;
use weir_units::MachineId;

/// A machine on the line.
pub(crate) struct Stream {
    id: StreamId,
    machine: String,
    pub(crate) responses: Responses,
    /// Dropped, it ends the task that listens.
    _over: oneshot::Sender<()>,
}

/// All calls. The order is the machines'.
#[derive(Default)]
pub(crate) struct Streams {
    by_machine: BTreeMap<MachineId, Stream>,
    machines: BTreeMap<StreamId, MachineId>,
    next: StreamId,
}

impl Streams {
    /// Takes a call; an earlier one of the machine ends. What ends the listening task when the call is over.
    pub(crate) fn begin(
        &mut self,
        machine: MachineId,
        name: String,
        responses: Responses,
    ) -> (StreamId, oneshot::Receiver<()>) {
        let (id, (over, listening)) = (self.next, oneshot::channel());
        self.next += 1;
        self.machines.insert(id, machine);
        if let Some(old) = self.by_machine.insert(machine, Stream { id, machine: name, responses, _over: over }) {
            self.machines.remove(&old.id);
        }
        (id, listening)
    }

    /// The machine of a call, unless it is over.
    pub(crate) fn machine(&self, id: StreamId) -> Option<MachineId> {
        self.machines.get(&id).copied()
    }

    /// The call of a machine.
    pub(crate) fn of(&self, machine: MachineId) -> Option<&Stream> {
        self.by_machine.get(&machine)
    }

    /// A call ends.
    pub(crate) fn end(&mut self, id: StreamId) {
        if let Some(machine) = self.machines.remove(&id) {
            self.by_machine.remove(&machine);
        }
    }

    /// Takes the ids of another policy; calls of machines that it does not have end.
    pub(crate) fn renumber(&mut self, policy: &Policy) {
        self.machines.clear();
        for stream in std::mem::take(&mut self.by_machine).into_values() {
            if let Some(machine) = policy.network().machine_named(&stream.machine) {
                self.machines.insert(stream.id, machine);
                self.by_machine.insert(machine, stream);
            }
        }
    }

    /// Takes all calls out.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Stream> {
        self.machines.clear();
        std::mem::take(&mut self.by_machine).into_values()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_machine.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    #[test]
    fn the_newest_call_of_a_machine_counts() {
        let mut streams = Streams::default();
        let (responses, _keep) = mpsc::channel(1);
        let (first, mut over) = streams.begin(MachineId(3), "m3".into(), responses.clone());
        let (second, _over) = streams.begin(MachineId(3), "m3".into(), responses);
        assert!(over.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed), "it was ended");
        assert_eq!((streams.machine(first), streams.machine(second)), (None, Some(MachineId(3))));
        streams.end(first);
        assert_eq!(streams.len(), 1, "the end of an old call ends nothing");
        streams.end(second);
        assert!(streams.of(MachineId(3)).is_none());
    }

    #[test]
    fn another_policy_gives_machines_other_ids() {
        let policy = |machines: &str| {
            let text = format!(
                "weir: 1\nnetwork: {{ nic: 1Gb/s, racks: {{ r: {{ uplink: 1Gb/s, machines: [{machines}] }} }} }}\n\
                 services: {{ a: {{ match: [ {{ protocol: tcp, port: 1 }} ] }} }}\n"
            );
            Policy::parse("policy.yaml", &text).expect("valid").0
        };
        let mut streams = Streams::default();
        let (responses, _keep) = mpsc::channel(1);
        let old = policy("m1, m3");
        let [one, three] = ["m1", "m3"].map(|name| old.network().machine_named(name).expect("there"));
        let (first, _over) = streams.begin(one, "m1".into(), responses.clone());
        let (second, _over) = streams.begin(three, "m3".into(), responses);
        streams.renumber(&policy("m2, m3, m4"));
        assert_eq!((streams.machine(first), streams.machine(second)), (None, Some(MachineId(1))));
        assert_eq!(streams.len(), 1);
    }
}
