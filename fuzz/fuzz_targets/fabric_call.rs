//! Messages of a leader's call: see [`weir_fuzz_targets::fabric_call`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz_targets::fabric_call(data);
});
