//! Datagrams of credits: see [`weir_fuzz_targets::credit_datagram`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz_targets::credit_datagram(data);
});
