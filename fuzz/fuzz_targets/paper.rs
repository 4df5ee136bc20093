//! Papers: published experiments as data: see [`weir_fuzz_targets::paper`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz_targets::paper(data);
});
