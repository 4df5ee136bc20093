//! Workloads: which flows start when, between whom, of what size.
