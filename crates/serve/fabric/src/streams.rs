//! The streams of connected rack leaders.
//!
//! Problem: the broker sends limits to machines, and a machine may reconnect before its old stream
//! is known to be dead. Approach: a machine has one stream, its newest; an older one ends. Streams
//! are kept by the machine's name, which outlives a policy; the id is the present policy's.

use crate::service::{Responses, StreamId};
use std::collections::BTreeMap;
use tokio::sync::oneshot;
use weir_policy::Policy;
use weir_units::MachineId;

/// The stream of a machine.
pub(crate) struct Stream {
    id: StreamId,
    machine: String,
    pub(crate) responses: Responses,
    /// Dropping it ends the task that receives.
    _over: oneshot::Sender<()>,
}

/// All streams, in the order of the machines.
#[derive(Default)]
pub(crate) struct Streams {
    by_machine: BTreeMap<MachineId, Stream>,
    machines: BTreeMap<StreamId, MachineId>,
    next: StreamId,
}

impl Streams {
    /// Registers a stream; an earlier one of the machine ends. Returns its id, and a receiver that
    /// completes when the stream must end.
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

    /// The machine of a stream, unless it has ended.
    pub(crate) fn machine(&self, id: StreamId) -> Option<MachineId> {
        self.machines.get(&id).copied()
    }

    /// The stream of a machine.
    pub(crate) fn of(&self, machine: MachineId) -> Option<&Stream> {
        self.by_machine.get(&machine)
    }

    /// Removes a stream.
    pub(crate) fn end(&mut self, id: StreamId) {
        if let Some(machine) = self.machines.remove(&id) {
            self.by_machine.remove(&machine);
        }
    }

    /// Changes to the ids of another policy; streams of machines that it does not have end.
    pub(crate) fn renumber(&mut self, policy: &Policy) {
        self.machines.clear();
        for stream in std::mem::take(&mut self.by_machine).into_values() {
            if let Some(machine) = policy.network().machine_named(&stream.machine) {
                self.machines.insert(stream.id, machine);
                self.by_machine.insert(machine, stream);
            }
        }
    }

    /// Removes and returns all streams.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Stream> {
        self.machines.clear();
        std::mem::take(&mut self.by_machine).into_values()
    }

    /// The number of streams.
    pub(crate) fn len(&self) -> usize {
        self.by_machine.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    #[test]
    fn newest_stream_of_a_machine_counts() {
        let mut streams = Streams::default();
        let (responses, _keep) = mpsc::channel(1);
        let (first, mut over) = streams.begin(MachineId(3), "m3".into(), responses.clone());
        let (second, _over) = streams.begin(MachineId(3), "m3".into(), responses);
        assert!(
            over.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed),
            "the older stream has ended"
        );
        assert_eq!((streams.machine(first), streams.machine(second)), (None, Some(MachineId(3))));
        streams.end(first);
        assert_eq!(streams.len(), 1, "the end of an old stream changes nothing");
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
