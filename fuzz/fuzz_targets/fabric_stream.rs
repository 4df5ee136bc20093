//! Messages of a leader's stream: see [`weir_fuzz::fabric_stream`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz::fabric_stream(data);
});
