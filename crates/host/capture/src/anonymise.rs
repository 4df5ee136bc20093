//! Pseudonyms for addresses and names.
//!
//! Problem: a report must not disclose a network, and must still show which addresses are the same. Approach: each
//! address and each known name becomes the start of its SHA-256 behind a random key that is discarded, so that equal
//! texts have equal pseudonyms within a bundle, and they cannot be computed afterwards.
//!
//! A name is replaced where it is a word, and within a longer word between `-` and `_`. The host of a URL is replaced
//! as a whole, in all texts of a bundle.
//!
//! Worked example: `10.0.0.1` becomes `ipv4-5c0a31` in the policy and in the routes, and with a machine `milton`
//! `machine-milton.pem` becomes `machine-name-77c1f0.pem`.

use crate::bundle::{Bundle, File};
use regex_lite::{Captures, Regex};
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The shortest name that is replaced: single letters are words of prose and of formats.
const SHORTEST_NAME: usize = 2;
/// The shortest name that is replaced within a longer word: shorter ones occur by chance, as in `x86-64`.
const SHORTEST_PART: usize = 3;
/// Words of JSON, which no name may change.
const OF_JSON: [&str; 3] = ["true", "false", "null"];
/// The longest IPv6 address as text.
const IPV6_TEXT: usize = 39;

/// Replaces addresses and names.
#[derive(Debug)]
pub struct Anonymiser {
    key: [u8; 32],
    hardware: Regex,
    ipv4: Regex,
    ipv6: Regex,
    words: Regex,
    host: Regex,
    dotted: Regex,
    names: BTreeSet<String>,
    /// The length of the longest name.
    longest: usize,
}

impl Anonymiser {
    /// With a random key, and the names of machines, racks, services and the like. Each word of a name is one; of a
    /// glob such as `batch-*` it is `batch`.
    pub fn new(key: [u8; 32], names: impl IntoIterator<Item = String>) -> Self {
        // Constant patterns: the tests compile them.
        let pattern = |text: &str| Regex::new(text).expect("a pattern");
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        let words = |name: String| name.split(|letter| !is_word(letter)).map(str::to_owned).collect::<Vec<_>>();
        let mut names: BTreeSet<String> = names.into_iter().flat_map(words).collect();
        names.extend(names.clone().iter().map(|name| name.trim_matches(['-', '_']).to_owned()));
        names.retain(|name| name.len() >= SHORTEST_NAME && !OF_JSON.contains(&name.as_str()));
        let longest = names.iter().map(String::len).max().unwrap_or_default();
        Self {
            key,
            hardware: pattern(r"\b[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}\b"),
            ipv4: pattern(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"),
            ipv6: pattern("[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:]*"),
            words: pattern("[A-Za-z0-9_-]+"),
            host: pattern("[A-Za-z][A-Za-z0-9+.-]*://(?:[^/@[:space:]]*@)?([A-Za-z0-9_-]+(?:[.][A-Za-z0-9_-]+)*)"),
            dotted: pattern("[A-Za-z0-9_-]+(?:[.][A-Za-z0-9_-]+)*"),
            names,
            longest,
        }
    }

    /// A bundle without addresses and names.
    pub fn anonymise(&self, bundle: &Bundle) -> Bundle {
        let texts = |file: &File| match &file.content {
            Ok(text) | Err(text) => [file.source.clone(), text.clone()],
        };
        let hosts = bundle.files.iter().flat_map(texts).flat_map(|text| self.hosts(&text)).collect();
        let file = |file: &File| File {
            name: file.name.clone(),
            source: self.without(&hosts, &file.source),
            content: match &file.content {
                Ok(text) => Ok(self.without(&hosts, text)),
                Err(text) => Err(self.without(&hosts, text)),
            },
            redactions: file.redactions,
        };
        Bundle { files: bundle.files.iter().map(file).collect() }
    }

    /// A text without addresses, names and hosts of URLs.
    pub fn text(&self, text: &str) -> String {
        self.without(&self.hosts(text), text)
    }

    /// The names of hosts in the URLs of a text, in small letters.
    fn hosts(&self, text: &str) -> BTreeSet<String> {
        let hosts = self.host.captures_iter(text).map(|found| found[1].to_ascii_lowercase());
        hosts.filter(|host| host.parse::<Ipv4Addr>().is_err() && host != "localhost").collect()
    }

    /// A text without addresses, names and these hosts.
    fn without(&self, hosts: &BTreeSet<String>, text: &str) -> String {
        let is_shared = |hardware: &str| ["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"].contains(&hardware);
        let text = self.hardware.replace_all(text, |found: &Captures<'_>| match is_shared(&found[0]) {
            true => found[0].to_owned(),
            false => self.pseudonym("mac", &found[0]),
        });
        let text = self.ipv4.replace_all(&text, |found: &Captures<'_>| match found[0].parse::<Ipv4Addr>() {
            Ok(address) if !is_known_ipv4(address) => self.pseudonym("ipv4", &address.to_string()),
            _ => found[0].to_owned(),
        });
        let ipv6 = |found: &Captures<'_>| {
            let matched = found.get(0).map_or(0..0, |all| all.range());
            let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let in_word = text[..matched.start].ends_with(is_letter) || text[matched.end..].starts_with(is_letter);
            self.without_ipv6(&found[0], in_word)
        };
        let text = self.ipv6.replace_all(&text, ipv6);
        let text = self.dotted.replace_all(&text, |found: &Captures<'_>| {
            match hosts.contains(&found[0].to_ascii_lowercase()) {
                true => self.pseudonym("host", &found[0]),
                false => found[0].to_owned(),
            }
        });
        self.words.replace_all(&text, |found: &Captures<'_>| self.without_names(&found[0]).into_owned()).into_owned()
    }

    /// Digits and colons without IPv6 addresses, which are between any colons: behind `src:`, before a port. Letters
    /// that a longer word continues are the path of a module, such as `::fade`.
    fn without_ipv6(&self, digits: &str, in_word: bool) -> String {
        if in_word && !digits.contains(|letter: char| letter.is_ascii_digit()) {
            return digits.to_owned();
        }
        let is_end =
            |at: &usize| digits[*at..].starts_with(':') || *at == digits.len() || digits[..*at].ends_with("::");
        let (mut at, mut kept) = (0, String::with_capacity(digits.len()));
        while at < digits.len() {
            let is_start = at == 0 || digits[..at].ends_with(':') || digits[at..].starts_with("::");
            let most = digits.len().min(at + IPV6_TEXT);
            let mut ends = (at + 2..=most).rev().filter(|end| is_start && is_end(end));
            match ends.find_map(|end| Some((end, digits[at..end].parse::<Ipv6Addr>().ok()?))) {
                Some((end, address)) => {
                    match is_known_ipv6(address) {
                        true => kept.push_str(&digits[at..end]),
                        false => kept.push_str(&self.pseudonym("ipv6", &address.to_string())),
                    }
                    at = end;
                }
                None => {
                    kept.push_str(&digits[at..=at]);
                    at += 1;
                }
            }
        }
        kept
    }

    /// A word without names: it is one itself, or has some between `-` and `_`.
    fn without_names<'a>(&self, word: &'a str) -> Cow<'a, str> {
        if self.names.contains(word) {
            return self.pseudonym("name", word).into();
        }
        let is_border = |letter: u8| letter == b'-' || letter == b'_';
        let bytes = word.as_bytes();
        let (mut at, mut kept) = (0, String::new());
        while at < word.len() {
            let is_start = !is_border(bytes[at]) && (at == 0 || is_border(bytes[at - 1]));
            let most = word.len().min(at + self.longest);
            let is_end = |end: &usize| *end == word.len() || is_border(bytes[*end]);
            let mut ends = (at + SHORTEST_PART..=most).rev().filter(|end| is_start && is_end(end));
            match ends.find(|end| self.names.contains(&word[at..*end])) {
                Some(end) => {
                    kept.push_str(&self.pseudonym("name", &word[at..end]));
                    at = end;
                }
                None => {
                    kept.push_str(&word[at..=at]);
                    at += 1;
                }
            }
        }
        kept.into()
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
    // The beginning of `::ffff:10.0.0.1`, whose end is an IPv4 address.
    const MAPPED: Ipv6Addr = Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 0xffff);
    address.is_loopback() || address.is_unspecified() || address.is_multicast() || address == MAPPED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anonymiser() -> Anonymiser {
        Anonymiser::new([7; 32], ["m1", "db-1", "web.mail", "a", "true"].map(str::to_owned))
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
    fn addresses_beside_colons_are_replaced() {
        for (text, rest) in [
            ("connect 2001:db8::7: no route", "connect ipv6: no route"),
            ("src fe80::1:", "src ipv6:"),
            ("peer:2001:db8::7", "peer:ipv6"),
            ("at 2001:db8::7:30565, at [2001:db8::7]:30565", "at ipv6:30565, at [ipv6]:30565"),
            ("2001:db8:1:2:3:4:5:6:", "ipv6:"),
            ("::ffff:10.0.0.1", "::ffff:ipv4"),
            ("via=fe80::1%eth0", "via=ipv6%eth0"),
        ] {
            let out = anonymiser().text(text);
            let kinds = Regex::new("(ipv[46])-[0-9a-f]{6}").expect("a pattern");
            assert_eq!(kinds.replace_all(&out, "$1"), rest, "{text}: {out}");
        }
    }

    #[test]
    fn names_within_words_and_hosts_of_urls_are_replaced() {
        let own = Anonymiser::new([7; 32], ["milton", "db-1", "batch-*", "m1"].map(str::to_owned));
        let kinds = Regex::new("(name|host)-[0-9a-f]{6}").expect("a pattern");
        for (text, rest) in [
            ("--certificate /etc/weir/machine-milton.pem", "--certificate /etc/weir/machine-name.pem"),
            ("labels_db-1_of milton-db-1", "labels_name_of name-name"),
            ("batch-* batch-17", "name* name-17"),
            ("pool-m1 hamilton miltons db-12", "pool-m1 hamilton miltons db-12"),
            (
                "--fabric https://fabric.initech.example:30567, no such host Fabric.initech.example",
                "--fabric https://host:30567, no such host host",
            ),
            ("https://[redacted]@lumbergh:30567, lumbergh", "https://[redacted]@host:30567, host"),
            ("http://localhost:1/a.b-c localhost a.b-c", "http://localhost:1/a.b-c localhost a.b-c"),
            ("weir-fabric http://127.0.0.1:30566", "weir-fabric http://127.0.0.1:30566"),
        ] {
            let out = own.text(text);
            assert_eq!(kinds.replace_all(&out, "$1"), rest, "{text}: {out}");
        }
    }

    #[test]
    fn host_that_one_text_has_in_a_url_is_replaced_in_all() {
        let file = |content: Result<&str, &str>| File {
            name: "a".into(),
            source: "b".into(),
            content: content.map(str::to_owned).map_err(str::to_owned),
            redactions: 0,
        };
        let files = vec![file(Ok("https://fabric.initech.example:30567")), file(Err("fabric.initech.example"))];
        let bundle = anonymiser().anonymise(&Bundle { files });
        assert!(!format!("{bundle:?}").contains("initech"), "{bundle:?}");
    }

    #[test]
    fn other_texts_stay() {
        for text in [
            "true false null",
            "weir_agent::daemon std::fmt",
            "00:1a.0 10:00:01:",
            "a 127.0.0.1 ::1 0.0.0.0 224.0.0.1 ff02::1 ff:ff:ff:ff:ff:ff",
            "Nov 29 10:00:01 limits are in force",
            "qdisc htb 7765: root refcnt 2",
            "Linux 6.18.44, webs and m12",
        ] {
            assert_eq!(anonymiser().text(text), text);
        }
    }
}
