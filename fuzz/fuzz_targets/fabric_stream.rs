//! Messages of a leader's stream: see [`weir_fuzz_targets::fabric_stream`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz_targets::fabric_stream(data);
});
