//! [`Ledger`]: the free bandwidth of a network's cables and the free slots of its machines.

use crate::fabric::{CableId, Fabric};
use crate::fill::Fit;
use crate::placer::Shortage;
use weir_units::{Bandwidth, MachineId};

/// Capacities and reservations.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// By cable, bit/s: what tenants can reserve, and what they have.
    capacity: Vec<u64>,
    reserved: Vec<u64>,
    /// By cable: tenants with a reservation.
    tenants: Vec<u32>,
    /// By machine.
    free: Vec<u32>,
    /// By set of machines of the fabric, slots that are free.
    free_of_set: Vec<u64>,
    slots: u64,
    total_free: u64,
    total_capacity: u128,
    total_reserved: u128,
}

impl Ledger {
    /// A network without tenants: the bandwidth of every cable that tenants can reserve, and the slots of every
    /// machine.
    ///
    /// # Panics
    /// If the lists do not have the fabric's lengths.
    pub fn new(fabric: &Fabric, capacity: &[Bandwidth], slots: Vec<u32>) -> Self {
        assert_eq!((capacity.len(), slots.len()), (fabric.cables(), fabric.machines()), "lists of another network");
        let capacity: Vec<u64> = capacity.iter().map(|bandwidth| bandwidth.bps()).collect();
        let total_capacity = capacity.iter().map(|bps| u128::from(*bps)).sum();
        let all = slots.iter().map(|slots| u64::from(*slots)).sum();
        let mut free_of_set = vec![0; fabric.sets()];
        for (machine, slots) in slots.iter().enumerate() {
            for set in fabric.sets_of(MachineId(machine as u32)) {
                free_of_set[*set as usize] += u64::from(*slots);
            }
        }
        Self {
            reserved: vec![0; capacity.len()],
            tenants: vec![0; capacity.len()],
            capacity,
            free: slots,
            free_of_set,
            slots: all,
            total_free: all,
            total_capacity,
            total_reserved: 0,
        }
    }

    /// The bandwidth of a cable that tenants can reserve in each direction.
    pub fn capacity(&self, cable: CableId) -> Bandwidth {
        Bandwidth::from_bps(self.capacity[cable.index()])
    }
    /// The bandwidth of a cable that tenants have reserved in each direction.
    pub fn reserved(&self, cable: CableId) -> Bandwidth {
        Bandwidth::from_bps(self.reserved[cable.index()])
    }
    /// Tenants with a reservation on a cable.
    pub fn tenants(&self, cable: CableId) -> u32 {
        self.tenants[cable.index()]
    }
    /// The slots of a machine that are free.
    pub fn free(&self, machine: MachineId) -> u32 {
        self.free[machine.index()]
    }
    /// All free slots, and all slots.
    pub fn slots(&self) -> (u64, u64) {
        (self.total_free, self.slots)
    }
    /// The sums of the reservations and of the capacities of all cables, bit/s.
    pub fn reserved_of_all(&self) -> (u128, u128) {
        (self.total_reserved, self.total_capacity)
    }
    /// The free slots of a set of machines; of all for `None`.
    pub(crate) fn free_in(&self, set: Option<usize>) -> u64 {
        set.map_or(self.total_free, |set| self.free_of_set[set])
    }
    /// The free bandwidth of a cable, bit/s.
    #[inline]
    pub(crate) fn available(&self, cable: CableId) -> u64 {
        self.capacity[cable.index()] - self.reserved[cable.index()]
    }

    /// Whether a place is free.
    ///
    /// # Errors
    /// The slots that a machine lacks, or the bandwidth that a cable lacks.
    pub(crate) fn fits(&self, fit: &Fit) -> Result<(), Shortage> {
        for part in &fit.parts {
            let missing = part.vms.iter().sum::<u32>().saturating_sub(self.free(part.machine));
            if missing > 0 {
                return Err(Shortage::Slots { missing: missing.into() });
            }
        }
        for (cable, bandwidth) in &fit.reservations {
            let missing = bandwidth.saturating_sub(Bandwidth::from_bps(self.available(*cable)));
            if missing > Bandwidth::ZERO {
                return Err(Shortage::Bandwidth { cable: *cable, missing, left: 0 });
            }
        }
        Ok(())
    }
    /// Takes the slots and the bandwidth of a place that is free.
    pub(crate) fn settle(&mut self, fabric: &Fabric, fit: &Fit) {
        fit.parts.iter().for_each(|part| self.take_slots(fabric, part.machine, part.vms.iter().sum()));
        fit.reservations.iter().for_each(|(cable, bandwidth)| self.reserve(*cable, *bandwidth));
    }
    /// Takes slots of a machine.
    pub(crate) fn take_slots(&mut self, fabric: &Fabric, machine: MachineId, vms: u32) {
        self.free[machine.index()] = self.free(machine).checked_sub(vms).expect("a machine has the slots it gives");
        self.total_free -= u64::from(vms);
        for set in fabric.sets_of(machine) {
            self.free_of_set[*set as usize] -= u64::from(vms);
        }
    }
    /// Gives slots of a machine back.
    pub(crate) fn return_slots(&mut self, fabric: &Fabric, machine: MachineId, vms: u32) {
        self.free[machine.index()] += vms;
        self.total_free += u64::from(vms);
        for set in fabric.sets_of(machine) {
            self.free_of_set[*set as usize] += u64::from(vms);
        }
    }
    /// Reserves bandwidth of a cable for a tenant.
    pub(crate) fn reserve(&mut self, cable: CableId, bandwidth: Bandwidth) {
        let (at, bps) = (cable.index(), bandwidth.bps());
        assert!(bps <= self.available(cable), "a reservation beyond a cable's capacity");
        self.reserved[at] += bps;
        self.tenants[at] += 1;
        self.total_reserved += u128::from(bps);
    }
    /// Ends a tenant's reservation.
    pub(crate) fn release(&mut self, cable: CableId, bandwidth: Bandwidth) {
        let (at, bps) = (cable.index(), bandwidth.bps());
        self.reserved[at] = self.reserved[at].checked_sub(bps).expect("what is released was reserved");
        self.tenants[at] -= 1;
        self.total_reserved -= u128::from(bps);
    }
}
