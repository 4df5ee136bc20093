//! Compiles `datapath/native.c`, the per-packet code as a native library.

use std::path::Path;

fn main() {
    let headers = Path::new("../../datapath");
    println!("cargo::rerun-if-changed={}", headers.display());
    cc::Build::new()
        .file(headers.join("native.c"))
        .include(headers)
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        // A simulation spends its time here, also when the rest is built for debugging.
        .opt_level(2)
        .compile("weir_datapath");
}
