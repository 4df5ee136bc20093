//! Tables of flow sizes: see [`weir_fuzz_targets::sizes`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz_targets::sizes(data);
});
