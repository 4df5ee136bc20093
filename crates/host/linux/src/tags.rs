//! DSCP values of tenants on an interface: the tag of each tenant's packets, by which switches choose its queue.
//!
//! A tag changes between two packets. Packets that wait in the interface's qdisc keep the value with which they were
//! offered.
//!
//! Worked example: tenant `red` has the value 12 of the values 1 to 45: its packets leave with DSCP 12 whatever its
//! application chose, and a packet of any other service with a value of 1 to 45 leaves with 0.
//!
//! Source: QShare §V-D; `bpf/levels.h`.

use crate::loader::{InterfaceDatapath, LoaderError};
use crate::maps::Maps;
use weir_datapath::abi::{CREDITS, REST, TAG_SHIFT, TAGGED};
use weir_units::ServiceId;

/// The tags of a host's tenants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostTags {
    /// The DSCP value of each tenant's packets, below 64; 0 for tenants that share a queue.
    pub tenants: Vec<(ServiceId, u8)>,
    /// The values that tenants can have, one bit for each: no other packet leaves with one of them.
    pub values: u64,
}

/// The contents of `weir_service_marks`, by slot.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Levels of services.
    pub(crate) levels: Vec<u32>,
    /// Tags of services.
    pub(crate) tags: Vec<u32>,
    /// Marks of services with credits.
    pub(crate) credits: Vec<u32>,
}

impl Marks {
    /// The tags in the kernel, and the marks of services with credits: without these, their data would leave without
    /// credits until the next thread serves them.
    pub(crate) fn of_kernel(maps: &Maps) -> Result<Self, LoaderError> {
        let marks: Vec<u32> =
            (0..REST).map(|slot| Ok(maps.service_marks.get(slot)?)).collect::<Result<_, LoaderError>>()?;
        let of = |kind| marks.iter().map(|mark| if mark & (TAGGED | CREDITS) == kind { *mark } else { 0 }).collect();
        Ok(Self { levels: Vec::new(), tags: of(TAGGED), credits: of(TAGGED | CREDITS) })
    }

    /// The service of a slot has no credits.
    pub(crate) fn remove_credits(&mut self, slot: u32) {
        if let Some(mark) = self.credits.get_mut(slot as usize) {
            *mark = 0;
        }
    }
}

impl InterfaceDatapath {
    /// Sets the tags of tenants. Call it after [`InterfaceDatapath::set_slots`].
    ///
    /// # Errors
    /// Services without slots, and failures of the kernel.
    pub fn set_tags(&mut self, tags: &HostTags) -> Result<(), LoaderError> {
        let mut of_slot = vec![0; REST as usize];
        for (service, dscp) in &tags.tenants {
            of_slot[self.slots.of(*service)? as usize] = TAGGED | u32::from(dscp & 0x3f) << TAG_SHIFT;
        }
        self.marks.tags = of_slot;
        self.write_marks()?;
        self.set_tag_values(tags.values)
    }

    /// Sets the values that tenants can have, one bit for each: no packet of others leaves with one of them.
    pub fn set_tag_values(&mut self, values: u64) -> Result<(), LoaderError> {
        if self.config.tenant_dscps != values {
            self.config.tenant_dscps = values;
            self.write_config()?;
        }
        Ok(())
    }

    /// Writes the marks that differ from the kernel's. A service on a level has no tag.
    pub(crate) fn write_marks(&mut self) -> Result<(), LoaderError> {
        for slot in 0..REST {
            let of = |marks: &[u32]| marks.get(slot as usize).copied().unwrap_or(0);
            let mark = match of(&self.marks.levels) {
                0 => of(&self.marks.tags) | of(&self.marks.credits),
                level => level,
            };
            if self.maps.service_marks.get(slot)? != mark {
                self.maps.service_marks.set(slot, mark)?;
            }
        }
        Ok(())
    }
}
