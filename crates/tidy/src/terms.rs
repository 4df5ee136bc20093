//! Terms that were replaced, each with the term to write instead.
//!
//! Problem: a concept with two names is two concepts to a reader, and programs that "tell" and
//! "hear" each other hide which message is meant. Approach: a list of phrases, each for the whole
//! tree or for the directories where the word has no other meaning. An identifier counts as its
//! parts: `tell_alive` has the word `tell`.
//!
//! Worked example: "what a sender was told last" in datapath/ is refused, with "reports" and
//! "advertises" to choose from.

use crate::tree::File;
use std::collections::BTreeMap;

/// Replaced terms.
#[derive(Debug)]
struct Rule {
    /// Phrases of words in lower case.
    phrases: &'static [&'static str],
    /// What to write.
    instead: &'static str,
    /// Path prefixes where the rule holds; empty: everywhere.
    within: &'static [&'static str],
    /// Path prefixes where the phrase has another meaning.
    except: &'static [&'static str],
}

/// Where per-packet code, the kernel interface and their wrappers are.
const DATAPATH: &[&str] = &["datapath/", "bpf/", "crates/datapath/", "crates/linux/"];

const RULES: &[Rule] = &[
    everywhere(&["told", "tell", "tells", "telling"], "reports, advertises, received; distinguishes for telling apart"),
    everywhere(&["hear", "hears", "heard", "hearing"], "receives, received"),
    everywhere(&["nobody", "somebody", "whoever", "whomever"], "the noun: no service, a machine, the sender that"),
    everywhere(&["last word", "newest word", "the word of", "the word from", "the word that"], "message"),
    everywhere(&["gives its word", "given its word", "gave its word", "sender s word", "broker s word"], "message"),
    everywhere(&["entitled"], "committed (RFC 2698)"),
    everywhere(&["lump", "lumps"], "burst (GSO)"),
    everywhere(&["overwind", "overwinds", "overwinding"], "windup, anti-windup"),
    everywhere(&["sighting", "sightings"], "liveness"),
    everywhere(&["stretch", "stretches"], "measurement window"),
    everywhere(&["held back", "holds back", "hold back", "holding back", "held down"], "rate-limited, throttled"),
    everywhere(&["tell alive"], "heartbeat"),
    everywhere(&["coded rate", "coded rates"], "quantised rate"),
    everywhere(&["coder", "coders"], "ECN encapsulation marker, ECN sender"),
    everywhere(&["outlet", "outlets"], "egress state"),
    everywhere(&["seat", "seats"], "leadership"),
    everywhere(&["both bodies", "either body", "two bodies", "linux body", "simulated body"], "backend"),
    Rule {
        phrases: &["authority", "authorities"],
        instead: "CA",
        within: &[],
        // The host and port of a URL (RFC 3986), and a field of X.509 extensions (RFC 5280, 4.2.1.1).
        except: &["crates/observe/", "crates/fabric/src/url.rs", "crates/fabric/src/ca.rs"],
    },
    in_datapath(&["ask", "asks", "asked", "asking"], "request (feedback request)"),
    in_datapath(&["answer", "answers", "answered", "answering"], "feedback, reply"),
    in_datapath(&["grant", "grants", "granted"], "credit lease"),
    in_datapath(&["spare"], "excess (RFC 2698)"),
    in_datapath(&["mail", "mails", "news"], "rate mailbox, ring-buffer event"),
];

const fn everywhere(phrases: &'static [&'static str], instead: &'static str) -> Rule {
    Rule { phrases, instead, within: &[], except: &[] }
}

const fn in_datapath(phrases: &'static [&'static str], instead: &'static str) -> Rule {
    Rule { phrases, instead, within: DATAPATH, except: &[] }
}

/// Files that are not ours to word: other people's formats, generated lists, and the rules themselves.
const NOT_OURS: [&str; 6] =
    ["Cargo.lock", "fuzz/Cargo.lock", "LICENSE", "fuzz/corpus/", "crates/fabric/proto/etcd/", "crates/tidy/"];

/// The rules, by the first word of each phrase.
#[derive(Debug)]
pub struct Terms(BTreeMap<&'static str, Vec<(&'static str, &'static Rule)>>);

impl Default for Terms {
    fn default() -> Self {
        let mut by_word: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for rule in RULES {
            for phrase in rule.phrases {
                let first = phrase.split(' ').next().unwrap_or(phrase);
                by_word.entry(first).or_default().push((*phrase, rule));
            }
        }
        Self(by_word)
    }
}

impl Terms {
    /// Each violation as `path:line: message`.
    pub fn check(&self, file: &File) -> Vec<String> {
        if NOT_OURS.iter().any(|path| file.path.starts_with(path)) || file.path.ends_with(".svg") {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (line, number) in file.text.lines().zip(1..) {
            let words = words(line);
            for (at, word) in words.iter().enumerate() {
                for (phrase, rule) in self.0.get(word.as_str()).into_iter().flatten() {
                    let is_there = begins(&words[at..], phrase);
                    if is_there && rule.holds(&file.path) {
                        found.push(format!("{}:{number}: \"{phrase}\": write {}", file.path, rule.instead));
                    }
                }
            }
        }
        found
    }
}

impl Rule {
    fn holds(&self, path: &str) -> bool {
        let is_in = |list: &[&str]| list.iter().any(|prefix| path.starts_with(prefix));
        (self.within.is_empty() || is_in(self.within)) && !is_in(self.except)
    }
}

/// Whether words begin with a phrase.
fn begins(words: &[String], phrase: &str) -> bool {
    let mut words = words.iter();
    phrase.split(' ').all(|part| words.next().is_some_and(|word| word == part))
}

/// The words of a line in lower case, with identifiers in parts: `tell_alive`, `TellAlive` and
/// `tell-alive` are "tell", "alive".
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut lower) = (Vec::new(), String::new(), false);
    for letter in line.chars() {
        let ends = !letter.is_alphanumeric() || (letter.is_uppercase() && lower);
        if ends && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        lower = letter.is_lowercase();
        if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str) -> Vec<String> {
        Terms::default().check(&File { path: path.to_owned(), text: text.to_owned() })
    }

    #[test]
    fn replaced_terms_are_refused_with_their_line() {
        let found = check("docs/policy.md", "a line\nthe first sighting of a host");
        assert_eq!(found, ["docs/policy.md:2: \"sighting\": write liveness"]);
    }

    #[test]
    fn identifiers_count_as_their_parts() {
        for text in ["tell_alive()", "TellAlive", "WEIR_TELL_ALIVE"] {
            assert!(check("crates/agent/src/lib.rs", text).iter().any(|line| line.contains("heartbeat")), "{text}");
        }
        assert!(check("crates/agent/src/lib.rs", "intelligent, shears, toldo").is_empty());
    }

    #[test]
    fn a_rule_for_directories_holds_there_alone() {
        assert_eq!(check("datapath/lease.h", "/* grants */").len(), 1);
        assert!(check("crates/transport/src/d3/mod.rs", "// grants").is_empty());
        assert!(check("crates/observe/src/names.rs", "uri.authority()").is_empty());
    }
}
