//! [`Start`]: the pins of a port, locked, and the end of a start that fails.
//!
//! Problem: the start of a port pins maps, then attaches two programs. If it fails in between, one program would drop
//! data for which the other one grants nothing; and until then an earlier daemon's programs must go on with their maps,
//! also if these cannot be adopted. Approach: maps that replace others are pinned in a directory of their own, and take
//! the places of the others just before the programs are attached. From then on until both are attached, a drop removes
//! all pins and programs at the interface. Adopted maps stay with the programs of the daemon that left them.
//!
//! Worked example: the maps of an earlier daemon have another period. A drop before the programs are attached leaves
//! that daemon's programs with their maps. Then the program of leaving packets is attached, and another program has the
//! name of the one of arriving packets: the start returns that error, and data leaves without programs of Weir.

use crate::interface::Interface;
use crate::pins::{PinError, Pins};
use std::fs::File;

/// The directory of maps that are to replace others.
const NEW: &str = "new";

/// See the module's documentation. Dropped in the interface's namespace.
pub(super) struct Start {
    pins: Pins,
    /// The pins of maps that are to replace an earlier daemon's.
    new: Option<Pins>,
    interface: Interface,
    /// Whether a drop leaves everything as it is.
    complete: bool,
    /// Whether Weir added clsact to the interface.
    clsact: bool,
    /// The directory of pins, locked.
    _directory: File,
}

impl Start {
    /// The start at an interface whose directory of pins is locked. An earlier daemon's maps are adopted, or not, and
    /// it has added clsact, or not.
    pub(super) fn new(
        pins: Pins,
        interface: Interface,
        directory: File,
        (adopted, clsact): (bool, bool),
    ) -> Result<Self, PinError> {
        let is_replaced = !adopted && pins.exist();
        let new = is_replaced.then(|| pins.inside(NEW)).transpose()?;
        Ok(Self { pins, new, interface, complete: adopted || is_replaced, clsact, _directory: directory })
    }

    pub(super) fn pins(&self) -> &Pins {
        &self.pins
    }

    /// The pins of the maps of this start.
    pub(super) fn maps(&self) -> &Pins {
        self.new.as_ref().unwrap_or(&self.pins)
    }

    /// Puts new maps in the places of an earlier daemon's, in the order of the names.
    pub(super) fn replace<'a>(&mut self, mut names: impl Iterator<Item = &'a str>) -> Result<(), PinError> {
        let Some(new) = self.new.take() else { return Ok(()) };
        self.complete = false;
        names.try_for_each(|name| new.put_in(&self.pins, name))?;
        new.discard()
    }

    /// clsact is to be removed with the programs.
    pub(super) fn adds_clsact(&mut self) {
        self.clsact = true;
    }

    /// Both programs are attached.
    pub(super) fn complete(&mut self) {
        self.complete = true;
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        if let Some(new) = &self.new {
            // The next start empties it if this fails.
            let _ = new.discard();
        }
        if !self.complete {
            // The error of the start is returned; what stays is found by `ForwarderPort::remove_leftover`.
            let _ = super::detach(&self.pins, &self.interface, self.clsact);
        }
    }
}
