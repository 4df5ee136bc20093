//! [`Flows`]: the flows of a port, by their slots, and the times at which their states are forgotten.
//!
//! A flow has a number from its first message on. Its state stays for a lifetime of grants after its allocations
//! have stopped or it has terminated, since its data, or an allocation that crossed its termination, may still arrive.
//!
//! An entry of [`Flows::forget_at`] is void if the flow has another time by then: a renewed flow is not forgotten by
//! the entry of an earlier end.
//!
//! Every packet of data needs the state of its flow at every port, and the states of all flows are larger than the near
//! cache. So a flow begins with a cache line of its key and of all of its state but the grants, and its number is in a
//! small table. [`Flows::fetch_number`], [`Flows::fetch_state`] and [`Flows::fetch_grants`] are called before a packet
//! arrives, in this order.

use crate::fetch::fetch_line;
use crate::slot_table::SlotTable;
use std::collections::VecDeque;
use weir_datapath::CreditFlow;
use weir_transport::agents::FlowKey;
use weir_units::Instant;

/// A flow at a port. The grants of its state begin with the second cache line, two in a line.
#[derive(Debug)]
#[repr(C, align(64))]
struct Flow {
    key: FlowKey,
    /// When its state is forgotten.
    until: Option<Instant>,
    /// Fills the line.
    reserved: u64,
    state: CreditFlow,
}

const _: () = assert!(size_of::<Flow>() == 9 * 64);

/// The flows of a port.
#[derive(Debug, Default)]
pub(super) struct Flows {
    flows: Vec<Flow>,
    /// By a flow's slot in the world, its number. A slot has one flow at a time, and another one only when no packet
    /// of the flow before is left.
    numbers: SlotTable,
    free: Vec<u32>,
    /// Times, ascending, with numbers.
    forget_at: VecDeque<(Instant, u32)>,
}

impl Flows {
    /// The number of a flow that the port has state of.
    pub(super) fn number(&self, key: FlowKey) -> Option<u32> {
        let number = self.numbers.get(key.slot)?;
        self.flows.get(number as usize).filter(|flow| flow.key == key).map(|_| number)
    }

    /// The number of a flow, which gets one if it has none.
    pub(super) fn number_or_new(&mut self, key: FlowKey) -> u32 {
        if let Some(number) = self.number(key) {
            return number;
        }
        let flow = Flow { key, until: None, reserved: 0, state: CreditFlow::default() };
        let number = match self.free.pop() {
            Some(number) => {
                self.flows[number as usize] = flow;
                number
            }
            None => {
                self.flows.push(flow);
                (self.flows.len() - 1) as u32
            }
        };
        self.numbers.insert(key.slot, number);
        number
    }

    /// Prefetches the entry of the flow of a slot.
    #[inline]
    pub(super) fn fetch_number(&self, slot: u32) {
        self.numbers.fetch(slot);
    }

    /// Prefetches the state of the flow of a slot, without grants; returns its number.
    #[inline]
    pub(super) fn fetch_state(&self, slot: u32) -> Option<u32> {
        let number = self.numbers.get(slot)?;
        fetch_line(std::ptr::from_ref(self.flows.get(number as usize)?).cast());
        Some(number)
    }

    /// Prefetches the grants that data of a flow uses first.
    #[inline]
    pub(super) fn fetch_grants(&self, number: u32) {
        let Some(flow) = self.flows.get(number as usize) else { return };
        let raw = flow.state.raw();
        for clock in [raw.current, raw.current.wrapping_sub(1)] {
            fetch_line(std::ptr::from_ref(&raw.grants[clock as usize % raw.grants.len()]).cast());
        }
    }

    /// The flow of a number.
    pub(super) fn key(&self, number: u32) -> FlowKey {
        self.flows[number as usize].key
    }

    /// The per-packet state of a flow.
    pub(super) fn state(&mut self, number: u32) -> &mut CreditFlow {
        &mut self.flows[number as usize].state
    }

    /// The state of a flow stays until `until` unless it is renewed; times never fall from call to call.
    pub(super) fn forget_at(&mut self, number: u32, until: Instant) {
        self.flows[number as usize].until = Some(until);
        self.forget_at.push_back((until, number));
    }

    /// A flow gets another allocation.
    pub(super) fn renew(&mut self, number: u32) {
        self.flows[number as usize].until = None;
    }

    /// Forgets the flows whose time has come.
    pub(super) fn forget(&mut self, now: Instant) {
        while let Some(&(until, number)) = self.forget_at.front()
            && until <= now
        {
            self.forget_at.pop_front();
            let Flow { key, until: due, .. } = &mut self.flows[number as usize];
            if *due != Some(until) {
                continue;
            }
            *due = None;
            // Another flow may have the slot by now.
            if self.numbers.get(key.slot) == Some(number) {
                self.numbers.remove(key.slot);
            }
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(slot: u32, hash: u32) -> FlowKey {
        FlowKey { slot, from: 0, to: 1, hash }
    }

    fn micros(at: u64) -> Instant {
        Instant::from_nanos(at * 1_000)
    }

    #[test]
    fn a_renewed_flow_outlives_the_entries_of_earlier_ends() {
        let mut flows = Flows::default();
        let number = flows.number_or_new(key(3, 7));
        flows.forget_at(number, micros(100));
        flows.renew(number);
        flows.forget(micros(100));
        assert_eq!(flows.number(key(3, 7)), Some(number));
        flows.forget_at(number, micros(200));
        flows.renew(number);
        flows.forget_at(number, micros(300));
        flows.forget(micros(299));
        assert_eq!(flows.number(key(3, 7)), Some(number));
        flows.forget(micros(300));
        assert_eq!(flows.number(key(3, 7)), None);
    }

    #[test]
    fn numbers_are_used_again_once() {
        let mut flows = Flows::default();
        let first = flows.number_or_new(key(0, 1));
        flows.forget_at(first, micros(10));
        flows.forget_at(first, micros(10));
        // Another flow has the slot before the first one is forgotten.
        let second = flows.number_or_new(key(0, 2));
        flows.forget(micros(10));
        let third = flows.number_or_new(key(1, 3));
        let fourth = flows.number_or_new(key(2, 4));
        assert_eq!((second, third, fourth), (1, 0, 2));
        assert_eq!((flows.number(key(0, 1)), flows.number(key(0, 2))), (None, Some(1)));
    }
}
