//! Rack datagrams: see [`weir_fuzz_targets::rack_datagram`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz_targets::rack_datagram(data);
});
