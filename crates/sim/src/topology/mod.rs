//! Topologies: networks that are built from a policy.

mod leaf_spine;

pub use leaf_spine::{LeafSpine, Rack};
