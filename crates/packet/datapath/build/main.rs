//! Compiles the per-packet code of `datapath/host/host.h`, and generates its Rust interface and the types of
//! `bpf/auxiliary.h`.
//!
//! bindgen reads the headers with libclang and writes two files: `abi.rs`, which [`interface::rewrite`] turns into Rust
//! names and safe signatures, and `abi.c`, one exported function for each `static inline` function that Rust calls.

mod interface;
mod version;

use bindgen::callbacks::{DeriveInfo, IntKind, ParseCallbacks};
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

/// Functions whose pointer arguments each name one valid object, distinct from what the others name. Rust calls them
/// without `unsafe`, by reference. Some divide by an argument or by a field (weights, the number of slots, an elapsed
/// time): as their headers say, that is not 0, which the callers in this crate ensure.
const SAFE: &[&str] = &[
    "weir_advertised_slot",
    "weir_classify",
    "weir_control_kind",
    "weir_cpu_batch_end",
    "weir_cpu_batch_pass",
    "weir_credit_advance",
    "weir_credit_allocate",
    "weir_credit_astray",
    "weir_credit_data",
    "weir_credit_gate_allocate",
    "weir_credit_gate_departure",
    "weir_credit_gate_init",
    "weir_credit_gate_left",
    "weir_credit_gate_offer",
    "weir_credit_gate_take_return",
    "weir_credit_is_new",
    "weir_credit_kind",
    "weir_credit_message_read",
    "weir_credit_message_rewrite",
    "weir_credit_message_tag",
    "weir_credit_message_valid",
    "weir_credit_message_write",
    "weir_credit_request",
    "weir_credit_return",
    "weir_credit_terminate",
    "weir_credit_unknown",
    "weir_destination_feedback",
    "weir_destination_init",
    "weir_destination_requests",
    "weir_destination_silent",
    "weir_ecn_arrive_ipv4",
    "weir_ecn_arrive_ipv6",
    "weir_ecn_leave_ipv4",
    "weir_ecn_leave_ipv6",
    "weir_feedback_due",
    "weir_feedback_ipv4",
    "weir_feedback_ipv6",
    "weir_feedback_newer",
    "weir_feedback_not_due",
    "weir_feedback_read",
    "weir_feedback_repeats",
    "weir_feedback_sampler_init",
    "weir_feedback_subject",
    "weir_feedback_tag",
    "weir_feedback_write_as",
    "weir_index_bucket",
    "weir_index_hash",
    "weir_index_slot_of",
    "weir_interface_meter_init",
    "weir_interface_meter_packet",
    "weir_interface_meter_reach",
    "weir_interface_meter_set_capacity",
    "weir_interface_meter_share",
    "weir_law_floor",
    "weir_law_marked_usage",
    "weir_lease_take",
    "weir_level_backlog",
    "weir_level_departure",
    "weir_limiter_departure",
    "weir_limiter_earliest",
    "weir_limiter_set_burst",
    "weir_limiter_set_rate",
    "weir_machine_egress_departure",
    "weir_machine_egress_levels",
    "weir_meter_add",
    "weir_pacing_pass",
    "weir_police",
    "weir_port_arrive",
    "weir_rate_law",
    "weir_receive_meter_init",
    "weir_receive_meter_set_capacity",
    "weir_receive_meter_set_interval",
    "weir_segments",
    "weir_sender_departure",
    "weir_sending_tick",
    "weir_tick_interface",
    "weir_tick_set_interval",
    "weir_tick_marks",
    "weir_tick_meter",
    "weir_tick_policer",
    "weir_tick_take",
    "weir_tick_take_policed",
    "weir_wire_bytes",
];
/// Functions with pointers that may be null, alias, or name several objects.
const UNSAFE: &[&str] = &[
    "weir_depart",
    "weir_departure_tick_time",
    "weir_header_bytes",
    "weir_host_feedback",
    "weir_host_receive",
    "weir_host_send",
    "weir_host_tick",
    "weir_host_timer",
    "weir_index_find_vni",
    "weir_parse",
    "weir_siphash",
];

/// The structures of event counters, which status and metrics read by name.
const COUNTERS: &[&str] = &["weir_counts", "weir_credit_counters", "weir_forwarder_counts"];

const PACKAGES: &str = "on Debian: apt-get install libclang-dev";

#[derive(Debug)]
struct Callbacks;

impl ParseCallbacks for Callbacks {
    fn int_macro(&self, name: &str, _: i64) -> Option<IntKind> {
        match name {
            // Bits of fields of one byte.
            "WEIR_FEEDBACK_ECN_ACK" => Some(IntKind::U8),
            name if name.starts_with("WEIR_HAS_") || name.starts_with("WEIR_RULE_") => Some(IntKind::U8),
            name if name.ends_with("_PORT") => Some(IntKind::U16),
            _ => None,
        }
    }

    fn add_derives(&self, of: &DeriveInfo<'_>) -> Vec<String> {
        let derives: &[&str] = match of.name {
            // Hold pointers.
            "weir_bytes" | "weir_host" => &[],
            _ => &["bytemuck::Pod", "bytemuck::Zeroable"],
        };
        derives.iter().map(|derive| (*derive).to_owned()).collect()
    }

    /// BINDGEN_EXTRA_CLANG_ARGS and the like.
    fn read_env_var(&self, name: &str) {
        println!("cargo::rerun-if-env-changed={name}");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let (datapath, bpf) = (Path::new("../../../datapath"), Path::new("../../../bpf"));
    let headers = [datapath.join("host/host.h"), bpf.join("auxiliary.h"), bpf.join("forwarder.h")];
    // The programs in bpf/ are not part of this crate.
    for watched in
        [datapath, &bpf.join("maps.h"), Path::new("build")].into_iter().chain(headers.iter().map(PathBuf::as_path))
    {
        println!("cargo::rerun-if-changed={}", watched.display());
    }
    // The first version with edition 2024; the output needs nothing newer.
    let target = bindgen::RustTarget::stable(85, 0).map_err(|error| error.to_string())?;
    let builder = bindgen::Builder::default()
        .headers(headers.map(|header| header.to_string_lossy().into_owned()))
        .clang_args(["-I", &datapath.to_string_lossy(), "-fparse-all-comments"])
        .allowlist_type("weir_.*")
        .allowlist_var("WEIR_.*")
        // Rust has these; bindgen takes the second for -1.
        .blocklist_item("WEIR_U(32|64)_MAX")
        .allowlist_function([SAFE, UNSAFE].concat().join("|"))
        .wrap_static_fns(true)
        .wrap_static_fns_path(out.join("abi.c"))
        .array_pointers_in_arguments(true)
        .derive_default(true)
        .derive_eq(true)
        .blocklist_type("weir_tick_context")
        // A secret is not printed.
        .no_debug("weir_sip_key")
        .rust_target(target)
        .formatter(bindgen::Formatter::None)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .parse_callbacks(Box::new(Callbacks));
    // bindgen panics if it finds no libclang.
    let Ok(bindings) = panic::catch_unwind(AssertUnwindSafe(|| builder.generate())) else {
        return Err(format!("bindgen failed; it needs libclang; {PACKAGES}").into());
    };
    let bindings = bindings?;
    let (bindings, maps) = (bindings.to_string(), fs::read_to_string(bpf.join("maps.h"))?);
    let mut abi = interface::rewrite(&bindings, UNSAFE, COUNTERS)?;
    let (version, names) = (version::version(&maps, &bindings)?, version::names(&maps));
    writeln!(abi, "/// The version of the pinned maps.\npub const VERSION: u64 = {version:#x};")?;
    writeln!(abi, "/// The names of the pinned maps.\npub const MAPS: [&str; {}] = {names:?};", names.len())?;
    fs::write(out.join("abi.rs"), abi)?;
    cc::Build::new()
        .file(out.join("abi.c"))
        .include(datapath)
        .include(".")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        // A simulation spends its time here, also when the rest is built for debugging.
        .opt_level(2)
        .compile("weir_datapath");
    Ok(())
}
