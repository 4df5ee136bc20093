//! Datagrams of the fabric: see [`weir_fuzz_targets::fabric_datagram`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz_targets::fabric_datagram(data);
});
