//! Flow lists: see [`weir_fuzz_targets::flow_list`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz_targets::flow_list(data);
});
