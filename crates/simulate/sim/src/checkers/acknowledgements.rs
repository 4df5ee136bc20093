//! Acknowledgements: a receiver acknowledges only bytes that were sent, and withdraws no
//! acknowledgement.

use super::entry;
use crate::ids::FlowId;

/// The acknowledged sequence number of each flow's receiver.
#[derive(Debug, Default)]
pub struct Acknowledgements {
    acknowledged: Vec<u64>,
}

impl Acknowledgements {
    /// A flow takes this slot.
    pub fn began(&mut self, flow: FlowId) {
        *entry(&mut self.acknowledged, flow.index()) = 0;
    }

    /// A receiver acknowledges everything before `next`; its sender has sent everything before
    /// `highest`.
    pub fn acknowledged(&mut self, flow: FlowId, next: u64, highest: u64) {
        assert!(next <= highest, "flow {}: byte {next} is acknowledged, but {highest} were sent", flow.0);
        let before = entry(&mut self.acknowledged, flow.index());
        assert!(next >= *before, "flow {}: the acknowledgement of {before} is taken back to {next}", flow.0);
        *before = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "byte 2 is acknowledged, but 1 were sent")]
    fn catches_an_acknowledgement_of_unsent_bytes() {
        Acknowledgements::default().acknowledged(FlowId(0), 2, 1);
    }
}
