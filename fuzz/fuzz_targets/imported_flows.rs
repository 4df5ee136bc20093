//! Lists of flows of other programs: see [`weir_fuzz_targets::imported_flows`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz_targets::imported_flows(data);
});
