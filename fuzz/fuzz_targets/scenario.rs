//! Scenario files: see [`weir_fuzz_targets::scenario`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz_targets::scenario(data);
});
