//! [`Hosts`]: machines that take part in a workload, each once.

use crate::error::{SpecError, SpecResult};
use std::sync::Arc;
use weir_units::MachineId;

/// At least one machine, none of them twice, in the order given. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts(Arc<[MachineId]>);

impl Hosts {
    /// The machines in their order.
    ///
    /// # Errors
    /// No machine, or one twice (`what` names the list in the message: `senders`).
    pub fn new(hosts: Vec<MachineId>, what: &str) -> SpecResult<Self> {
        if hosts.is_empty() {
            return Err(SpecError::new(format!("the {what} are empty"), "name at least one host"));
        }
        let mut sorted = hosts.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(SpecError::new(format!("a host is twice among the {what}"), "name every host once"));
        }
        Ok(Self(hosts.into()))
    }

    /// The machines with the numbers `0..count`; `count` is above zero.
    ///
    /// # Errors
    /// No machine.
    pub fn first(count: u32) -> SpecResult<Self> {
        Self::new((0..count).map(MachineId).collect(), "hosts")
    }

    /// How many there are, at least one.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The machine at an index below [`Hosts::len`].
    pub fn at(&self, index: usize) -> MachineId {
        self.0[index]
    }

    /// The index of a machine.
    pub fn index_of(&self, host: MachineId) -> Option<usize> {
        self.0.iter().position(|&other| other == host)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = MachineId> + '_ {
        self.0.iter().copied()
    }

    /// Refuses fewer than `least` machines.
    pub(crate) fn at_least(self, least: usize, what: &str) -> SpecResult<Self> {
        if self.len() < least {
            return Err(SpecError::new(
                format!("{what} among {} host has no other host to send to", self.len()),
                format!("name at least {least} hosts"),
            ));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lists_and_doubles_are_refused() {
        let refused = |hosts: &[u32]| {
            Hosts::new(hosts.iter().copied().map(MachineId).collect(), "senders").expect_err("refused").to_string()
        };
        assert_eq!(refused(&[]), "the senders are empty");
        assert_eq!(refused(&[4, 2, 4]), "a host is twice among the senders");
        let hosts = Hosts::new(vec![MachineId(9), MachineId(3)], "senders").expect("two hosts");
        assert_eq!((hosts.len(), hosts.at(1), hosts.index_of(MachineId(9))), (2, MachineId(3), Some(0)));
    }
}
