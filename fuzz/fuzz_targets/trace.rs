//! Traces of times and sizes: see [`weir_fuzz_targets::trace`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz_targets::trace(data);
});
