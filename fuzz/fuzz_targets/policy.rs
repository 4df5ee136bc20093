//! Policy files: see [`weir_fuzz_targets::policy`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz_targets::policy(data);
});
