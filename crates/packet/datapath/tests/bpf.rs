//! The machine shaper's headers compile for the kernel's BPF machine, without a warning: no call that BPF has
//! not, no signed division, nothing of 128 bits.

use std::path::Path;
use std::process::Command;

#[test]
fn shaper_compiles_for_bpf() {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    if Command::new(&clang).arg("--version").output().is_err() {
        println!("skipped: {clang} does not start");
        return;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(&clang);
    command
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-target", "bpf", "-mcpu=v3"])
        .arg("-I")
        .arg(here.join("../../../datapath"))
        // Debian keeps asm/types.h there, where a compiler for BPF does not look.
        .arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH))
        .arg("-S")
        .arg(here.join("tests/bpf/shaper.bpf.c"))
        .args(["-o", "-"]);
    let output = command.output().expect("clang starts");
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    let assembly = String::from_utf8_lossy(&output.stdout);
    assert!(assembly.contains("exit"), "two programs");
    // What is not inlined is a function of ours (WEIR_ONCE, datapath/types.h): BPF has no library
    // that a compiler could call.
    let calls: Vec<&str> = assembly.lines().filter_map(|line| line.trim().strip_prefix("call ")).collect();
    assert!(!calls.is_empty(), "the law is one of them");
    for target in calls {
        assert!(assembly.contains(&format!("\n{target}:")), "call {target}");
    }
}
