//! Rack datagrams: see [`weir_fuzz::rack_datagram`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz::rack_datagram(data);
});
