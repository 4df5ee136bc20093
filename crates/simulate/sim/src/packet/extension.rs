//! The rare fields of packets, in a table beside the packets.
//!
//! Example: an acknowledgement with selective blocks holds the number 7; slot 7 of the table has
//! the blocks until it arrives.

use std::sync::Arc;
use weir_transport::SackBlocks;
use weir_transport::agents::ControlField;

/// The rare fields of a packet.
#[derive(Debug, Clone)]
pub(crate) enum Extension {
    /// The blocks received out of order.
    Sack(SackBlocks),
    /// The field that port agents read and rewrite.
    Control(ControlField),
    /// The bytes of a control datagram.
    Datagram(Arc<[u8]>),
}

/// The extensions of the packets that exist.
#[derive(Debug, Default)]
pub(crate) struct Extensions {
    slots: Vec<Option<Extension>>,
    free: Vec<u32>,
}

impl Extensions {
    /// The index of a packet without one.
    pub(crate) const NONE: u32 = u32::MAX;

    pub(crate) fn insert(&mut self, extension: Extension) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[index as usize] = Some(extension);
        index
    }
    /// A packet's control field, if that is its extension.
    pub(crate) fn control_mut(&mut self, index: u32) -> Option<&mut ControlField> {
        match self.slots.get_mut(index as usize)? {
            Some(Extension::Control(field)) => Some(field),
            _ => None,
        }
    }
    /// How many there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }
    /// Takes an extension out; `None` for a packet without one.
    pub(crate) fn remove(&mut self, index: u32) -> Option<Extension> {
        let extension = self.slots.get_mut(index as usize)?.take();
        if extension.is_some() {
            self.free.push(index);
        }
        extension
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_come_and_go() {
        let mut extensions = Extensions::default();
        let index = extensions.insert(Extension::Datagram(vec![1, 2].into()));
        assert!(extensions.control_mut(index).is_none());
        assert!(matches!(extensions.remove(index), Some(Extension::Datagram(bytes)) if bytes[..] == [1, 2]));
        assert_eq!(extensions.insert(Extension::Sack(SackBlocks::default())), index);
        assert!(extensions.remove(Extensions::NONE).is_none());
    }
}
