//! How much memory there is.

use weir_units::Bytes;

/// What programs may still take without others being swapped out or killed; None where the system does not say.
pub(crate) fn available() -> Option<Bytes> {
    read(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// `MemAvailable` of `/proc/meminfo` (proc(5)), which counts in kibibytes.
fn read(meminfo: &str) -> Option<Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024).map(Bytes::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_linux_writes_it() {
        let text = "MemTotal:       24637316 kB\nMemFree:        15728640 kB\nMemAvailable:   23068672 kB\n";
        assert_eq!(read(text), Some(Bytes::new(23_068_672 * 1024)));
        assert_eq!(read("MemTotal: 1 kB\n"), None);
    }
}
