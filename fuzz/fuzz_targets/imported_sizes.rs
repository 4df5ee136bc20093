//! Tables of flow sizes of other programs: see [`weir_fuzz_targets::imported_sizes`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz_targets::imported_sizes(data);
});
