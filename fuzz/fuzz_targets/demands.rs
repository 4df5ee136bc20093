//! Demands files: see [`weir_fuzz::demands`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz::demands(data);
});
