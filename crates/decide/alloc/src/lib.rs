//! The allocation of bandwidth.
//!
//! Problem: services demand bandwidth at three contention points at once (their machine's
//! interface, their rack's uplink, the fabric), each point with guarantees, limits and weights over
//! a tree of services; compute the share of each (machine, service) so that no bit is wasted and
//! none is assigned twice.
//!
//! Approach, from the small to the large:
//!
//! 1. [`water`] finds the exact level at which vessels of different widths hold a given amount.
//! 2. [`fill`] shares one node's bandwidth among its children: the rule of Parley §3.1, or its
//!    clipped form.
//! 3. [`tree`] does so over a tree in two passes: demands up, shares down (Parley §3.2.2).
//! 4. [`rack`] puts the machines' trees under their rack's tree: the most constrained point wins.
//! 5. [`fabric`] puts the racks under the fabric: the whole of `weir allocate`.
//! 6. [`fabric_allocator`] shares the fabric alone, among very many racks: the computation of the
//!    fabric broker.
//! 7. [`explain`] describes which constraint decided a share.
//!
//! Everything is in whole bit/s and conserves exactly: children's shares add up to their parent's
//! bandwidth or to their demands, whichever is less.

pub mod explain;
pub mod fabric;
pub mod fabric_allocator;
pub mod fill;
pub mod rack;
pub mod tree;
pub mod water;

pub use explain::{Explanation, Step, StepRow, explain};
pub use fabric::{Allocation, NetworkShares, allocate, has_fabric_limits};
pub use fabric_allocator::{FabricAllocator, RackRows};
pub use fill::{Child, Decision};
pub use rack::{Constraint, FabricLimit, InstanceShare, RackAllocator, RackShares};
pub use tree::{ShareTree, TreeShares};
