//! Flow lists: see [`weir_fuzz::flow_list`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz::flow_list(data);
});
