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
pub const WEIR_SHARE_FILL: u32 = 0;
pub const WEIR_SHARE_ADD: u32 = 1;
pub const WEIR_SHARE_FLOOR_PART: u32 = 100;
pub const WEIR_RULE_DSCP: u8 = 8;
pub const WEIR_HAS_PORTS: u8 = 2;
pub const WEIR_INDEX_VNIS: u32 = 2;
pub const WEIR_REPLY_CLONE: u32 = 1;
pub const WEIR_NO_DESTINATION: u32 = 4294967295;
pub const WEIR_SIDE_SENDING: u32 = 1;
pub const WEIR_ANY_VLAN: u32 = 65535;
pub const WEIR_GUEST_MARKED: u32 = 1;
pub const WEIR_GUEST_CLSACT: u32 = 2;
pub const WEIR_TX: u32 = 0;
pub const WEIR_RX: u32 = 1;
pub const WEIR_REST: u32 = 1024;
pub const WEIR_LAW_SHIFT: u32 = 20;
pub const WEIR_NANOBITS_PER_BYTE: u64 = 8000000000;
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
        ("FLOOR_PART: u32 = 100", "FLOOR_PART: u32 = 50"),
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
fn constants_that_maps_store_change_the_version() {
    let before = of(MAPS, TYPES);
    for (from, to) in [
        ("SHARE_FILL: u32 = 0", "SHARE_FILL: u32 = 2"),
        ("SHARE_ADD: u32 = 1", "SHARE_ADD: u32 = 2"),
        ("RULE_DSCP: u8 = 8", "RULE_DSCP: u8 = 16"),
        ("HAS_PORTS: u8 = 2", "HAS_PORTS: u8 = 4"),
        ("INDEX_VNIS: u32 = 2", "INDEX_VNIS: u32 = 4"),
        ("REPLY_CLONE: u32 = 1", "REPLY_CLONE: u32 = 2"),
        ("NO_DESTINATION: u32 = 4294967295", "NO_DESTINATION: u32 = 16384"),
        ("SIDE_SENDING: u32 = 1", "SIDE_SENDING: u32 = 2"),
        ("TX: u32 = 0", "TX: u32 = 1"),
        ("RX: u32 = 1", "RX: u32 = 0"),
        ("REST: u32 = 1024", "REST: u32 = 1025"),
        ("LAW_SHIFT: u32 = 20", "LAW_SHIFT: u32 = 19"),
        ("PER_BYTE: u64 = 8000000000", "PER_BYTE: u64 = 8000000"),
    ] {
        assert_ne!(after(from, to), before, "{from}");
    }
    let renamed = TYPES.replace("WEIR_LAW_SHIFT", "WEIR_LAW_BITS");
    let error = version::version(MAPS, &renamed).expect_err("a listed constant is missing");
    assert!(error.to_string().contains("WEIR_LAW_SHIFT"), "{error}");
}

#[test]
fn maps_are_listed_by_name() {
    assert_eq!(names(MAPS), ["weir_peers", "weir_events"]);
    let all = weir_datapath::abi::MAPS;
    assert!(all.contains(&"weir_config") && all.contains(&"weir_events") && all.contains(&"weir_rate_mailboxes"));
    assert_eq!(all.len(), 46);
}
