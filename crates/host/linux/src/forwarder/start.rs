//! [`Start`]: the pins of a port, locked, and the end of a start that fails.
//!
//! Problem: the start of a port pins maps, then attaches two programs. If it fails in between, one program would drop
//! data for which the other one grants nothing. Approach: until both programs are attached, a drop removes what is
//! pinned and attached at the interface, programs of an earlier daemon included whose maps could not be adopted.
//! Adopted maps stay with the programs of the daemon that left them.
//!
//! Worked example: the program of leaving packets is attached, and another program has the name of the one of arriving
//! packets. The start returns that error, and data leaves as before.

use crate::interface::Interface;
use crate::pins::Pins;
use std::fs::File;

/// See the module's documentation. Dropped in the interface's namespace.
pub(super) struct Start {
    pins: Pins,
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
    pub(super) fn new(pins: Pins, interface: Interface, directory: File, (adopted, clsact): (bool, bool)) -> Self {
        Self { pins, interface, complete: adopted, clsact, _directory: directory }
    }

    pub(super) fn pins(&self) -> &Pins {
        &self.pins
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
        if !self.complete {
            // The error of the start is returned; what stays is found by `ForwarderPort::remove_leftover`.
            let _ = super::detach(&self.pins, &self.interface, self.clsact);
        }
    }
}
