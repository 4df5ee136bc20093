//! The maps that user space shares with the BPF programs: the Rust mirror of `bpf/tables.h`.
//!
//! Both sides must agree on every offset. The loader refuses maps whose value has another size (aya compares
//! it with what the kernel was told), and the tests compare verdicts rule by rule.

use weir_datapath::{RULES_MAX, RawMeter, Rule};

/// Services that can be told apart on one host.
pub const SERVICES_MAX: u32 = 1024;

/// `struct weir_config`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Config {
    pub(crate) table: u32,
    pub(crate) class_major: u32,
    pub(crate) class_first: u32,
    pub(crate) class_default: u32,
}

/// `struct weir_table`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    pub(crate) count: u32,
    pub(crate) reserved: u32,
    pub(crate) rules: [Rule; RULES_MAX],
}

impl Table {
    /// The table of these rules, of which there are at most [`RULES_MAX`] in a classifier.
    pub(crate) fn new(rules: &[Rule]) -> Self {
        let mut table = Self { count: rules.len() as u32, reserved: 0, rules: [Rule::default(); RULES_MAX] };
        table.rules[..rules.len()].copy_from_slice(rules);
        table
    }
}

/// `struct weir_meter` as a map's value.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeterValue(pub(crate) RawMeter);

// SAFETY: four u32, no padding, every bit pattern is valid.
unsafe impl aya::Pod for Config {}
// SAFETY: integers and rules of integers with no padding (the layout test of weir-datapath checks the rules).
unsafe impl aya::Pod for Table {}
// SAFETY: two u64, no padding, every bit pattern is valid.
unsafe impl aya::Pod for MeterValue {}
