//! The version of the pinned maps: a hash of what they hold.
//!
//! An agent adopts the maps of an earlier agent if both were built with the same definitions: the
//! declarations of the maps in `bpf/maps.h`, and the types and constants of `datapath/host/tables.h` that
//! they name, directly or through other types. No definition of a type names the constants that
//! its fields hold or are measured in, and the indexes of maps: [`STORED`] lists these. Comments,
//! other types and other constants do not change the version. `WEIR_STATE_REVISION` is part of it,
//! for a change that leaves all definitions as they are.
//!
//! Worked example: a new field of `struct weir_limiter` changes the version, since `weir_peers`
//! maps to `struct weir_peer`, which contains one. So does another value of `WEIR_RULE_DSCP`, which
//! the rules in `weir_tables` hold. Another value of `WEIR_REQUESTS_MAX` does not, since no map
//! depends on it.

use proc_macro2::Span;
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use syn::{Attribute, Item};

/// The constant that is part of every version.
const REVISION: &str = "WEIR_STATE_REVISION";
/// Constants on whose values the content of the maps depends, by name or, with `_` at the end, by prefix.
const STORED: &[&str] = &[
    // Values of fields: of `weir_config` and `weir_pacing`, of rules and their index, of replies, of CPUs' batches.
    "WEIR_SHARE_FILL",
    "WEIR_SHARE_ADD",
    "WEIR_RULE_",
    "WEIR_HAS_",
    "WEIR_INDEX_",
    "WEIR_REPLY_",
    "WEIR_NO_DESTINATION",
    // In keys and values: of `weir_guest_addresses`, of `weir_guest_marks`.
    "WEIR_ANY_VLAN",
    "WEIR_GUEST_MARKED",
    "WEIR_GUEST_CLSACT",
    // Indexes: of `weir_interfaces`, of `weir_meters`, of unclassified traffic.
    "WEIR_SIDE_",
    "WEIR_TX",
    "WEIR_RX",
    "WEIR_REST",
    // Units: of the law's fractions, of limiters.
    "WEIR_LAW_SHIFT",
    "WEIR_NANOBITS_PER_BYTE",
];

/// The version of the maps declared in `maps` (C), of which `bindings` (bindgen's Rust, with C's names) has the types.
pub(crate) fn version(maps: &str, bindings: &str) -> syn::Result<u64> {
    let definitions = definitions(bindings)?;
    let maps = without_comments(maps);
    let mut named = BTreeSet::new();
    let mut pending: Vec<&str> = words(&maps).chain([REVISION]).collect();
    for stored in STORED {
        let is_stored = |name: &&str| *name == *stored || (stored.ends_with('_') && name.starts_with(stored));
        let known = pending.len();
        pending.extend(definitions.keys().map(String::as_str).filter(is_stored));
        if pending.len() == known {
            return Err(syn::Error::new(Span::call_site(), format!("no constant {stored}, which maps store")));
        }
    }
    while let Some(name) = pending.pop() {
        if let Some((name, definition)) = definitions.get_key_value(name)
            && named.insert(name)
        {
            pending.extend(words(definition));
        }
    }
    let text = maps.split_whitespace().chain(named.iter().map(|name| definitions[*name].as_str()));
    Ok(text.fold(FNV_BASIS, |hash, part| fnv(fnv(hash, part.as_bytes()), b"\n")))
}

/// The names of the maps declared in `maps`, in their order.
pub(crate) fn names(maps: &str) -> Vec<String> {
    let declaration = |statement: &str| {
        let name = match statement.trim_start() {
            call if call.starts_with("WEIR_ARRAY(") || call.starts_with("WEIR_PERCPU(") => words(call).nth(1),
            plain if plain.starts_with("} ") && plain.contains("SEC(\".maps\")") => words(plain).next(),
            _ => None,
        };
        name.map(str::to_owned)
    };
    without_directives(&without_comments(maps)).split(';').filter_map(declaration).collect()
}

/// Types and constants by name, without comments and derives.
fn definitions(bindings: &str) -> syn::Result<BTreeMap<String, String>> {
    let plain = |attributes: &mut Vec<Attribute>| {
        attributes.retain(|attribute| !attribute.path().is_ident("doc") && !attribute.path().is_ident("derive"));
    };
    let mut definitions = BTreeMap::new();
    for mut item in syn::parse_file(bindings)?.items {
        let name = match &mut item {
            Item::Struct(item) => {
                plain(&mut item.attrs);
                item.fields.iter_mut().for_each(|field| plain(&mut field.attrs));
                &item.ident
            }
            Item::Const(item) => {
                plain(&mut item.attrs);
                &item.ident
            }
            Item::Type(item) => {
                plain(&mut item.attrs);
                &item.ident
            }
            Item::Union(item) => {
                plain(&mut item.attrs);
                item.fields.named.iter_mut().for_each(|field| plain(&mut field.attrs));
                &item.ident
            }
            _ => continue,
        };
        definitions.insert(name.to_string(), item.to_token_stream().to_string());
    }
    Ok(definitions)
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push(' ');
        plain.push_str(part.split_once("*/").map_or("", |(_, after)| after));
    }
    plain
}

/// Without the lines of the preprocessor and their continuations.
fn without_directives(text: &str) -> String {
    let mut continues = false;
    let mut plain = String::new();
    for line in text.lines() {
        if !continues && !line.trim_start().starts_with('#') {
            plain.push_str(line);
            plain.push('\n');
        } else {
            continues = line.ends_with('\\');
        }
    }
    plain
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a: accidental collisions of 64 bits are of no concern, and it needs no dependency.
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
