//! The version of the pinned maps changes with what they hold, and with nothing else.

#[path = "../build/version.rs"]
mod version;

use version::{names, version};

const MAPS: &str = r#"
/* two maps */
#define WEIR_ARRAY(name, of, entries) struct { __type(value, of); } name SEC(".maps")
WEIR_ARRAY(weir_peers, struct weir_peer, WEIR_PEERS_MAX); /* by index */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} weir_events SEC(".maps");
"#;
const TYPES: &str = r#"
pub const WEIR_STATE_REVISION: u32 = 1;
pub const WEIR_PEERS_MAX: u32 = 8;
pub const WEIR_PEER_RATE: u32 = 2000000;
#[doc = " bit/s"]
pub struct weir_limiter { #[doc = " 0 is unlimited"] pub rate: u64_ }
#[derive(Clone, Copy)]
pub struct weir_peer { pub limiter: weir_limiter, pub passed: u64_ }
pub struct weir_unused { pub of: u32_ }
"#;

fn of(maps: &str, types: &str) -> u64 {
    version(maps, types).expect("bindings")
}

/// The version after a replacement in the declarations and types.
fn after(from: &str, to: &str) -> u64 {
    assert!(MAPS.contains(from) || TYPES.contains(from), "{from}");
    of(&MAPS.replace(from, to), &TYPES.replace(from, to))
}

#[test]
fn comments_and_unused_definitions_do_not_change_the_version() {
    let version = of(MAPS, TYPES);
    for (from, to) in [
        ("/* two maps */", "/* a pair\n * of maps */"),
        (" /* by index */", ""),
        (" bit/s", " bits per second"),
        (" 0 is unlimited", " none"),
        ("derive(Clone, Copy)", "derive(Clone, Copy, Default)"),
        ("2000000", "3000000"),
        ("of: u32_", "of: u64_"),
    ] {
        assert_eq!(after(from, to), version, "{from}");
    }
}

#[test]
fn layout_size_and_revision_change_the_version() {
    let version = of(MAPS, TYPES);
    for (from, to) in [
        ("pub passed: u64_", "pub passed: u32_"),
        ("passed", "forwarded"),
        ("pub rate: u64_", "pub burst: u64_, pub rate: u64_"),
        ("PEERS_MAX: u32 = 8", "PEERS_MAX: u32 = 16"),
        ("REVISION: u32 = 1", "REVISION: u32 = 2"),
        ("max_entries, 4096", "max_entries, 8192"),
        ("weir_events", "weir_ring"),
    ] {
        assert_ne!(after(from, to), version, "{from}");
    }
}

#[test]
fn maps_are_listed_by_name() {
    assert_eq!(names(MAPS), ["weir_peers", "weir_events"]);
    let all = weir_datapath::abi::MAPS;
    assert!(all.contains(&"weir_config") && all.contains(&"weir_events") && all.contains(&"weir_rate_mailboxes"));
    assert_eq!(all.len(), 31);
}
