//! Pseudonyms for addresses and names.
//!
//! Problem: a report must not disclose a network, and must still show which addresses are the same. Approach: each
//! address and each known name becomes the start of its SHA-256 behind a random key that is discarded, so that equal
//! texts have equal pseudonyms within a bundle, and they cannot be computed afterwards.
//!
//! Worked example: `10.0.0.1` becomes `ipv4-5c0a31` in the policy and in the routes.

use crate::bundle::{Bundle, File};
use regex_lite::{Captures, Regex};
use sha2::{Digest as _, Sha256};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The shortest name that is replaced: single letters are words of prose and of formats.
const SHORTEST_NAME: usize = 2;

/// Replaces addresses and names.
#[derive(Debug)]
pub struct Anonymiser {
    key: [u8; 32],
    hardware: Regex,
    ipv4: Regex,
    ipv6: Regex,
    words: Regex,
    names: Vec<String>,
}

impl Anonymiser {
    /// With a random key, and the names of machines, racks, services and the like. Each word of a name is one.
    pub fn new(key: [u8; 32], names: impl IntoIterator<Item = String>) -> Self {
        // Constant patterns: the tests compile them.
        let pattern = |text: &str| Regex::new(text).expect("a pattern");
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        let words = |name: String| name.split(|letter| !is_word(letter)).map(str::to_owned).collect::<Vec<_>>();
        let mut names: Vec<String> = names.into_iter().flat_map(words).collect();
        names.retain(|name| name.len() >= SHORTEST_NAME);
        names.sort_unstable();
        names.dedup();
        Self {
            key,
            hardware: pattern(r"\b[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}\b"),
            ipv4: pattern(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"),
            ipv6: pattern("[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:]*"),
            words: pattern("[A-Za-z0-9_-]+"),
            names,
        }
    }

    /// A bundle without addresses and names.
    pub fn anonymise(&self, bundle: &Bundle) -> Bundle {
        let file = |file: &File| File {
            name: file.name.clone(),
            source: self.text(&file.source),
            content: file.content.as_ref().map(|text| self.text(text)).map_err(|text| self.text(text)),
            redactions: file.redactions,
        };
        Bundle { files: bundle.files.iter().map(file).collect() }
    }

    /// A text without addresses and names.
    pub fn text(&self, text: &str) -> String {
        let is_shared = |hardware: &str| ["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"].contains(&hardware);
        let text = self.hardware.replace_all(text, |found: &Captures<'_>| match is_shared(&found[0]) {
            true => found[0].to_owned(),
            false => self.pseudonym("mac", &found[0]),
        });
        let text = self.ipv4.replace_all(&text, |found: &Captures<'_>| match found[0].parse::<Ipv4Addr>() {
            Ok(address) if !is_known_ipv4(address) => self.pseudonym("ipv4", &address.to_string()),
            _ => found[0].to_owned(),
        });
        let text = self.ipv6.replace_all(&text, |found: &Captures<'_>| match found[0].parse::<Ipv6Addr>() {
            Ok(address) if !is_known_ipv6(address) => self.pseudonym("ipv6", &address.to_string()),
            _ => found[0].to_owned(),
        });
        let word = |found: &Captures<'_>| match self.names.binary_search_by(|name| name.as_str().cmp(&found[0])) {
            Ok(_) => self.pseudonym("name", &found[0]),
            Err(_) => found[0].to_owned(),
        };
        self.words.replace_all(&text, word).into_owned()
    }

    fn pseudonym(&self, kind: &str, text: &str) -> String {
        let digest = Sha256::new().chain_update(self.key).chain_update(text.to_ascii_lowercase()).finalize();
        let digits: String = digest.iter().take(3).map(|byte| format!("{byte:02x}")).collect();
        format!("{kind}-{digits}")
    }
}

/// Whether an address means the same on all hosts.
fn is_known_ipv4(address: Ipv4Addr) -> bool {
    address.is_loopback() || address.is_unspecified() || address.is_broadcast() || address.is_multicast()
}

fn is_known_ipv6(address: Ipv6Addr) -> bool {
    address.is_loopback() || address.is_unspecified() || address.is_multicast()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anonymiser() -> Anonymiser {
        Anonymiser::new([7; 32], ["m1", "db-1", "web.mail", "a"].map(str::to_owned))
    }

    #[test]
    fn equal_texts_have_equal_pseudonyms() {
        let own = anonymiser();
        let text = own.text("m1 at 10.0.0.1/24, web.m1 from 10.0.0.1:5001 and 10.0.0.2");
        let words: Vec<&str> = text.split([' ', '/', ':', '.', ',']).collect();
        assert!(words[0].starts_with("name-") && words[2].starts_with("ipv4-"), "{text}");
        assert_eq!((words[0], words[2]), (words[6], words[8]), "{text}");
        assert_ne!(words[2], words[11], "{text}");
        let other = Anonymiser::new([8; 32], ["m1".to_owned()]);
        assert_ne!(own.text("m1"), other.text("m1"), "another bundle");
    }

    #[test]
    fn addresses_and_names_are_replaced() {
        for (text, kind) in [
            ("52:54:00:12:34:56", "mac-"),
            ("192.168.7.9", "ipv4-"),
            ("2001:db8::7", "ipv6-"),
            ("fe80::5054:ff:fe12:3456", "ipv6-"),
            ("db-1", "name-"),
            ("mail", "name-"),
        ] {
            let out = anonymiser().text(&format!("\"{text}\","));
            assert!(out.starts_with(&format!("\"{kind}")) && out.ends_with("\",") && !out.contains(text), "{out}");
        }
    }

    #[test]
    fn other_texts_stay() {
        for text in [
            "a 127.0.0.1 ::1 0.0.0.0 224.0.0.1 ff02::1 ff:ff:ff:ff:ff:ff",
            "Nov 29 10:00:01 limits are in force",
            "qdisc htb 7765: root refcnt 2",
            "Linux 6.18.44, webs and m12",
        ] {
            assert_eq!(anonymiser().text(text), text);
        }
    }
}
