//! Datagrams of the fabric: see [`weir_fuzz::fabric_datagram`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz::fabric_datagram(data);
});
