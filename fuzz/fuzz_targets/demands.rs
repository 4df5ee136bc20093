//! Demands files: see [`weir_fuzz_targets::demands`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz_targets::demands(data);
});
