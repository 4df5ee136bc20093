//! Configurations of the CNI plugin: see [`weir_fuzz_targets::cni_configuration`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz_targets::cni_configuration(data);
});
