//! Pseudonyms for addresses and names.
//!
//! Problem: a report must not disclose a network, and must still show which addresses are the same. Approach: each
//! address and each known name becomes the start of its SHA-256 behind a random key that is discarded, so that equal
//! texts have equal pseudonyms within a bundle, and they cannot be computed afterwards.
//!
//! A name is replaced where it is a word, and within a longer word between `-` and `_`. The host of a URL is replaced
//! in all texts of a bundle: as a whole if it has dots, and as a name otherwise. Numbers are no names, since a bundle
//! has JSON.
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
/// An escape of JSON or systemd. Its letters are no part of the word behind it.
const ESCAPE: &str = r"(?<escape>\\(?:[bfnrt]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}))?";

/// Names, and the length of the longest.
#[derive(Debug, Clone, Default)]
struct Names {
    names: BTreeSet<String>,
    longest: usize,
}

impl Names {
    fn insert(&mut self, name: &str) {
        self.longest = self.longest.max(name.len());
        self.names.insert(name.to_owned());
    }
}

/// The texts that pseudonyms replace in a bundle: names, and hosts with dots in small letters.
#[derive(Debug)]
struct Replaced {
    names: Names,
    hosts: BTreeSet<String>,
}

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
    names: Names,
    vocabulary: BTreeSet<String>,
}

impl Anonymiser {
    /// With a random key, and the names of machines, racks, services and the like. Each word of a name is one; of a
    /// glob such as `batch-*` it is `batch`. Numbers and words of the `vocabulary` are no names.
    pub fn new(
        key: [u8; 32],
        names: impl IntoIterator<Item = String>,
        vocabulary: impl IntoIterator<Item = String>,
    ) -> Self {
        // Constant patterns: the tests compile them.
        let pattern = |text: &str| Regex::new(text).expect("a pattern");
        let mut anonymiser = Self {
            key,
            hardware: pattern(r"\b[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}\b"),
            ipv4: pattern("[0-9]+(?:[.][0-9]+){3,}"),
            ipv6: pattern("[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:]*"),
            words: pattern(&format!("{ESCAPE}(?<word>[A-Za-z0-9_-]+)")),
            host: pattern("[A-Za-z][A-Za-z0-9+.-]*://(?:[^/@[:space:]]*@)?([A-Za-z0-9_-]+(?:[.][A-Za-z0-9_-]+)*)"),
            dotted: pattern(&format!("{ESCAPE}(?<word>[A-Za-z0-9_-]+(?:[.][A-Za-z0-9_-]+)*)")),
            names: Names::default(),
            vocabulary: vocabulary.into_iter().collect(),
        };
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        for name in names {
            for word in name.split(|letter| !is_word(letter)) {
                for name in [word, word.trim_matches(['-', '_'])] {
                    if anonymiser.is_name(name) {
                        anonymiser.names.insert(name);
                    }
                }
            }
        }
        anonymiser
    }

    fn is_name(&self, word: &str) -> bool {
        let is_of_format = OF_JSON.contains(&word) || is_number(word);
        word.len() >= SHORTEST_NAME && !is_of_format && !self.vocabulary.contains(word)
    }

    /// A bundle without addresses and names.
    pub fn anonymise(&self, bundle: &Bundle) -> Bundle {
        let texts = |file: &File| match &file.content {
            Ok(text) | Err(text) => [file.source.clone(), text.clone()],
        };
        let replaced = self.replaced(bundle.files.iter().flat_map(texts));
        let file = |file: &File| File {
            name: file.name.clone(),
            source: self.without(&replaced, &file.source),
            content: match &file.content {
                Ok(text) => Ok(self.without(&replaced, text)),
                Err(text) => Err(self.without(&replaced, text)),
            },
            redactions: file.redactions,
        };
        Bundle { files: bundle.files.iter().map(file).collect() }
    }

    /// A text without addresses, names and hosts of URLs.
    pub fn text(&self, text: &str) -> String {
        self.without(&self.replaced([text.to_owned()]), text)
    }

    /// The names, with the hosts in the URLs of some texts.
    fn replaced(&self, texts: impl IntoIterator<Item = String>) -> Replaced {
        let mut replaced = Replaced { names: self.names.clone(), hosts: BTreeSet::new() };
        for text in texts {
            for found in self.host.captures_iter(&text) {
                let (host, small) = (&found[1], found[1].to_ascii_lowercase());
                if host.parse::<Ipv4Addr>().is_ok() || is_number(host) || small == "localhost" {
                    continue;
                }
                if host.contains('.') {
                    replaced.hosts.insert(small);
                } else if self.is_name(host) {
                    replaced.names.insert(host);
                    replaced.names.insert(&small);
                }
            }
        }
        replaced
    }

    /// A text without addresses, and without these names and hosts.
    fn without(&self, replaced: &Replaced, text: &str) -> String {
        let is_shared = |hardware: &str| ["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"].contains(&hardware);
        let text = self.hardware.replace_all(text, |found: &Captures<'_>| match is_shared(&found[0]) {
            true => found[0].to_owned(),
            false => self.pseudonym("mac", &found[0]),
        });
        let text = self.ipv4.replace_all(&text, |found: &Captures<'_>| self.without_ipv4(&found[0]));
        let ipv6 = |found: &Captures<'_>| {
            let matched = found.get(0).map_or(0..0, |all| all.range());
            self.without_ipv6(&text[..matched.start], &found[0], &text[matched.end..])
        };
        let text = self.ipv6.replace_all(&text, ipv6);
        let escape = |found: &Captures<'_>| found.name("escape").map_or("", |escape| escape.as_str()).to_owned();
        let text = self.dotted.replace_all(&text, |found: &Captures<'_>| {
            match replaced.hosts.contains(&found["word"].to_ascii_lowercase()) {
                true => escape(found) + &self.pseudonym("host", &found["word"]),
                false => found[0].to_owned(),
            }
        });
        let word = |found: &Captures<'_>| escape(found) + &self.without_names(&replaced.names, &found["word"]);
        self.words.replace_all(&text, word).into_owned()
    }

    /// Replaces the IPv4 addresses in numbers between dots. Letters may be beside them, as in `p80__10.0.0.1`.
    fn without_ipv4(&self, numbers: &str) -> String {
        let mut parts = numbers.split('.').collect::<Vec<_>>();
        let mut kept = Vec::new();
        while !parts.is_empty() {
            let most = parts.len().min(4);
            let (length, text) = match parts[..most].join(".").parse::<Ipv4Addr>() {
                Ok(address) if is_known_ipv4(address) => (most, address.to_string()),
                Ok(address) => (most, self.pseudonym("ipv4", &address.to_string())),
                Err(_) => (1, parts[0].to_owned()),
            };
            kept.push(text);
            parts.drain(..length);
        }
        kept.join(".")
    }

    /// Replaces the IPv6 addresses in a run of hexadecimal digits and colons. Digits that continue a word are no part
    /// of an address, and `::` beside a word separates the modules of a path, as in `h2::client`.
    fn without_ipv6(&self, before: &str, run: &str, after: &str) -> String {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let is_escape = ["\\n", "\\r", "\\t"].iter().any(|escape| before.ends_with(escape));
        let (mut start, mut end) = (0, run.len());
        if before.ends_with(is_letter) && !is_escape {
            let Some(colon) = run.find(':') else { return run.to_owned() };
            if run[colon..].starts_with("::") && !run[colon..].starts_with(":::") {
                return run.to_owned();
            }
            start = colon + 1;
        }
        // An IPv4 address at the end of an IPv6 address has been replaced.
        if after.starts_with(is_letter) && !after.starts_with("ipv4-") {
            let Some(colon) = run.rfind(':') else { return run.to_owned() };
            if run[..=colon].ends_with("::") && !run[..=colon].ends_with(":::") {
                return run.to_owned();
            }
            end = colon;
        }
        if start >= end {
            return run.to_owned();
        }
        format!("{}{}{}", &run[..start], self.between_colons(&run[start..end]), &run[end..])
    }

    /// Replaces IPv6 addresses, which are between any colons: behind `src:`, before a port.
    fn between_colons(&self, digits: &str) -> String {
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

    /// Replaces a word that is a name, and names between `-` and `_` in it.
    fn without_names<'a>(&self, Names { names, longest }: &Names, word: &'a str) -> Cow<'a, str> {
        if names.contains(word) {
            return self.pseudonym("name", word).into();
        }
        // Parts of a number such as `15e-3`.
        if is_number(word) {
            return word.into();
        }
        let is_border = |letter: u8| letter == b'-' || letter == b'_';
        let bytes = word.as_bytes();
        let (mut at, mut kept) = (0, String::new());
        while at < word.len() {
            let is_start = !is_border(bytes[at]) && (at == 0 || is_border(bytes[at - 1]));
            let most = word.len().min(at + longest);
            let is_end = |end: &usize| *end == word.len() || is_border(bytes[*end]);
            let mut ends = (at + SHORTEST_PART..=most).rev().filter(|end| is_start && is_end(end));
            match ends.find(|end| names.contains(&word[at..*end])) {
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

/// Whether a word is a number, which JSON may have without quotes.
fn is_number(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_digit() || letter == '-') && word.parse::<f64>().is_ok()
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
        Anonymiser::new([7; 32], ["m1", "db-1", "web.mail", "a", "true"].map(str::to_owned), [])
    }

    #[test]
    fn equal_texts_have_equal_pseudonyms() {
        let own = anonymiser();
        let text = own.text("m1 at 10.0.0.1/24, web.m1 from 10.0.0.1:5001 and 10.0.0.2");
        let words: Vec<&str> = text.split([' ', '/', ':', '.', ',']).collect();
        assert!(words[0].starts_with("name-") && words[2].starts_with("ipv4-"), "{text}");
        assert_eq!((words[0], words[2]), (words[6], words[8]), "{text}");
        assert_ne!(words[2], words[11], "{text}");
        let other = Anonymiser::new([8; 32], ["m1".to_owned()], []);
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
            ("::ffff:10.0.0.1, 2001:db8::10.0.0.1", "::ffff:ipv4, ipv6ipv4"),
            ("src:2001:db8::7:port, peer:::2:3", "src:ipv6:port, peer:ipv6"),
            (r#""refused:\n2001:db8::7\t10.0.0.1""#, r#""refused:\nipv6\tipv4""#),
            ("h2::client h2::f1::a5 b_2::c", "h2::client h2::f1::a5 b_2::c"),
            ("via=fe80::1%eth0", "via=ipv6%eth0"),
        ] {
            let out = anonymiser().text(text);
            let kinds = Regex::new("(ipv[46])-[0-9a-f]{6}").expect("a pattern");
            assert_eq!(kinds.replace_all(&out, "$1"), rest, "{text}: {out}");
        }
    }

    #[test]
    fn names_within_words_and_hosts_of_urls_are_replaced() {
        let own = Anonymiser::new([7; 32], ["milton", "db-1", "batch-*", "m1"].map(str::to_owned), []);
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
            ("https://[redacted]@lumbergh:30567, ca-lumbergh.pem", "https://[redacted]@name:30567, ca-name.pem"),
            ("http://localhost:1/a.b-c localhost a.b-c", "http://localhost:1/a.b-c localhost a.b-c"),
            ("weir-fabric http://127.0.0.1:30566", "weir-fabric http://127.0.0.1:30566"),
        ] {
            let out = own.text(text);
            assert_eq!(kinds.replace_all(&out, "$1"), rest, "{text}: {out}");
        }
    }

    #[test]
    fn ipv4_addresses_beside_letters_are_replaced() {
        let kinds = Regex::new("ipv4-[0-9a-f]{6}").expect("a pattern");
        for (text, rest) in [
            ("p80__10.180.0.1/80", "p80__ipv4/80"),
            ("via10.0.0.1_tcp, 10.0.0.1.", "viaipv4_tcp, ipv4."),
            ("10.0.0.1.443 2026.10.0.0.1", "ipv4.443 2026.ipv4"),
            ("1234.5.6.7 0.10 127.0.0.1.53", "1234.5.6.7 0.10 127.0.0.1.53"),
        ] {
            let out = anonymiser().text(text);
            assert_eq!(kinds.replace_all(&out, "ipv4"), rest, "{text}: {out}");
        }
    }

    #[test]
    fn numbers_are_no_names() {
        let names = ["web-4.10.1", "v1.27.10", "101", "1e5", "15e", "-7"].map(str::to_owned);
        let own = Anonymiser::new([7; 32], names, []);
        for text in [
            r#"{"index":10,"share":0.10,"rate":1e5,"low":1.15e-3,"least":-7,"rack":101}"#,
            "Nov 29 09:10:27 127.0.0.10 http://127.1/ 127.1",
        ] {
            assert_eq!(own.text(text), text);
        }
        let out = own.text("web-4 v1");
        assert!(!out.contains("web-4") && !out.contains("v1"), "{out}");
    }

    #[test]
    fn words_of_the_vocabulary_stay() {
        let own = Anonymiser::new([7; 32], ["agent", "agent-1"].map(str::to_owned), ["agent".to_owned()]);
        let out = own.text("weir-agent agent agent-1 http://agent:30566/ {\"agent\":1}");
        let kinds = Regex::new("name-[0-9a-f]{6}").expect("a pattern");
        assert_eq!(kinds.replace_all(&out, "name"), "weir-agent agent name http://agent:30566/ {\"agent\":1}");
    }

    #[test]
    fn names_behind_escapes_are_replaced() {
        let own = Anonymiser::new([7; 32], ["milton".to_owned()], []);
        let kinds = Regex::new("(name|host)-[0-9a-f]{6}").expect("a pattern");
        for (text, rest) in [
            (r#""line\nmilton\tmilton \u001bmilton""#, r#""line\nname\tname \u001bname""#),
            (r"weir\x2dmilton.service", r"weir\x2dname.service"),
            (r#""http://a.example/\na.example""#, r#""http://host/\nhost""#),
        ] {
            let out = own.text(text);
            assert_eq!(kinds.replace_all(&out, "$1"), rest, "{text}: {out}");
        }
    }

    #[test]
    fn host_and_name_have_one_pseudonym() {
        let own = Anonymiser::new([7; 32], ["m01".to_owned()], []);
        let out = own.text("http://m01:30566 machine-m01.pem");
        let (host, file) = out.split_once(' ').expect("two words");
        let pseudonym = host.strip_prefix("http://").and_then(|host| host.strip_suffix(":30566")).expect("a host");
        assert_eq!(file, format!("machine-{pseudonym}.pem"));
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
