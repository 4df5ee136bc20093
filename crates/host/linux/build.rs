//! Compiles `bpf/*.bpf.c` with clang into objects that the crate embeds.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The byte order of `clang -target bpf`.
const HOST_ENDIAN: &str = if cfg!(target_endian = "big") { "big" } else { "little" };
const PACKAGES: &str = "on Debian: apt-get install clang libbpf-dev linux-libc-dev";

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    for watched in ["../../../bpf", "../../../datapath"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    let endian =
        std::env::var("CARGO_CFG_TARGET_ENDIAN").map_err(|error| format!("CARGO_CFG_TARGET_ENDIAN: {error}"))?;
    if endian != HOST_ENDIAN {
        return Err(format!(
            "the target is {endian}-endian and this host is {HOST_ENDIAN}-endian: clang compiles the BPF programs for \
             the host's byte order; build on a host of the target's"
        ));
    }
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    if !Path::new("/usr/include/bpf/bpf_helpers.h").exists() {
        return Err(format!("/usr/include/bpf/bpf_helpers.h is missing: the BPF programs include it; {PACKAGES}"));
    }
    // Tests alone load `replay`.
    for name in ["weir", "guest", "verdict", "probe", "port", "release", "forwarder", "replay"] {
        let source = format!("../../../bpf/{name}.bpf.c");
        let mut command = Command::new(&clang);
        // -g keeps the types of the maps (BTF), which the loader reads.
        // The third instruction set (kernel 5.12) has atomic exchange.
        command.args(["-O2", "-g", "-mcpu=v3", "-Wall", "-Wextra", "-Werror", "-target", "bpf", "-I../../../datapath"]);
        if let Some(include) = multiarch_include() {
            command.arg(format!("-I{}", include.display()));
        }
        command.args(["-c", &source, "-o"]).arg(out.join(format!("{name}.bpf.o")));
        let output = command
            .output()
            .map_err(|error| format!("{clang} does not start ({error}): the BPF programs need it; {PACKAGES}"))?;
        if !output.status.success() {
            return Err(format!("{command:?} failed; {PACKAGES}\n{}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    Ok(())
}

/// Debian keeps `asm/types.h` under the triplet, which a compiler for BPF does not search. The host's
/// serves for every target of the same byte order: BPF programs use nothing of it that differs.
fn multiarch_include() -> Option<PathBuf> {
    let arch = match std::env::consts::ARCH {
        "x86" => "i386",
        arch => arch,
    };
    let path = PathBuf::from(format!("/usr/include/{arch}-linux-gnu"));
    path.join("asm/types.h").exists().then_some(path)
}
