//! Texts of a bug report's archive: see [`weir_fuzz_targets::redaction`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz_targets::redaction(data);
});
