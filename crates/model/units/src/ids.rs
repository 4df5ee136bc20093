//! Ids as small integers, and the two dimensions of every share: direction and contention point.

use std::fmt;
use std::ops::{Index, IndexMut};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into its table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A service: its index in the policy's canonical order (parents before children, siblings by
    /// name).
    ServiceId
);
id!(
    /// A machine: its index in canonical order (by rack, then by name; numbers in names by value).
    MachineId
);
id!(
    /// A tenant: its index in the policy's order of tenants (by name; numbers in names by value).
    TenantId
);
id!(
    /// A rack: its index in canonical order (by name; numbers in names by value).
    RackId
);

/// The direction of traffic, from the viewpoint of the machine (of the rack, for a rack's uplink).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Transmit: leaving the machine or the rack.
    Tx,
    /// Receive: entering the machine or the rack.
    Rx,
}

impl Direction {
    /// Both directions, transmit first.
    pub const ALL: [Self; 2] = [Self::Tx, Self::Rx];
    /// `tx` or `rx`, the spelling in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tx => "tx",
            Self::Rx => "rx",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A level of the sharing hierarchy at which services contend for bandwidth (Parley §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContentionPoint {
    /// A machine's network interface.
    Machine,
    /// A rack's uplink to the fabric.
    Rack,
    /// All racks' uplinks together.
    Fabric,
}

impl ContentionPoint {
    /// All points, beginning with the machine.
    pub const ALL: [Self; 3] = [Self::Machine, Self::Rack, Self::Fabric];
    /// `machine`, `rack` or `fabric`, the spelling in the policy file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Rack => "rack",
            Self::Fabric => "fabric",
        }
    }
}

impl fmt::Display for ContentionPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A pair of values, one for each [`Direction`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct PerDirection<T> {
    /// The value for transmit.
    pub tx: T,
    /// The value for receive.
    pub rx: T,
}

impl<T> PerDirection<T> {
    /// The same value for both directions.
    pub fn both(value: T) -> Self
    where
        T: Clone,
    {
        Self { tx: value.clone(), rx: value }
    }
}

impl<T> Index<Direction> for PerDirection<T> {
    type Output = T;
    fn index(&self, direction: Direction) -> &T {
        match direction {
            Direction::Tx => &self.tx,
            Direction::Rx => &self.rx,
        }
    }
}
impl<T> IndexMut<Direction> for PerDirection<T> {
    fn index_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Tx => &mut self.tx,
            Direction::Rx => &mut self.rx,
        }
    }
}

/// Three values, one for each [`ContentionPoint`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct PerPoint<T> {
    /// The value at a machine.
    pub machine: T,
    /// The value at a rack.
    pub rack: T,
    /// The value at the fabric.
    pub fabric: T,
}

impl<T> Index<ContentionPoint> for PerPoint<T> {
    type Output = T;
    fn index(&self, point: ContentionPoint) -> &T {
        match point {
            ContentionPoint::Machine => &self.machine,
            ContentionPoint::Rack => &self.rack,
            ContentionPoint::Fabric => &self.fabric,
        }
    }
}
impl<T> IndexMut<ContentionPoint> for PerPoint<T> {
    fn index_mut(&mut self, point: ContentionPoint) -> &mut T {
        match point {
            ContentionPoint::Machine => &mut self.machine,
            ContentionPoint::Rack => &mut self.rack,
            ContentionPoint::Fabric => &mut self.fabric,
        }
    }
}
