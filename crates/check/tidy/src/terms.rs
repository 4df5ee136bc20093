//! Terms that were replaced, each with the term to write instead.
//!
//! Problem: a concept with two names is two concepts to a reader, and programs that "tell" and
//! "hear" each other hide which message is meant. Approach: a list of phrases, each for the whole
//! tree or for the directories where the word has no other meaning. An identifier counts as its
//! parts: `tell_alive` has the word `tell`. A phrase may continue on the next line of a paragraph or
//! of a comment. Names of files count as text, and so do labels in pictures.
//!
//! Worked example: "what a sender was told last" in datapath/ is refused, with "reports" and
//! "advertises" to choose from.

use crate::tree::File;
use std::collections::BTreeMap;

/// Replaced terms.
#[derive(Debug)]
struct Rule {
    /// Phrases of words in lower case, with `|` between alternatives of a word.
    phrases: &'static [&'static str],
    /// The words to write.
    instead: &'static str,
    /// Path prefixes where the rule holds; empty: everywhere.
    within: &'static [&'static str],
    /// Path prefixes where the phrase has another meaning.
    except: &'static [&'static str],
}

/// Where per-packet code, the kernel interface and their wrappers are.
const DATAPATH: &[&str] = &["datapath/", "bpf/", "crates/packet/datapath/", "crates/host/linux/"];
/// Where feedback and requests for it are described or used.
const FEEDBACK: &[&str] = &[
    "datapath/",
    "bpf/",
    "crates/packet/datapath/",
    "crates/host/linux/",
    "crates/host/agent/",
    "crates/simulate/sim/src/shaper/",
    "docs/",
];
/// The same, and where replies of servers are.
const REPLIES: &[&str] = &[
    "datapath/",
    "bpf/",
    "crates/packet/datapath/",
    "crates/host/linux/",
    "crates/host/agent/",
    "crates/simulate/sim/src/shaper/",
    "docs/",
    "crates/serve/fabric/",
    "crates/serve/observe/",
];

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
        except: &["crates/serve/observe/", "crates/serve/fabric/src/url.rs", "crates/serve/fabric/src/ca.rs"],
    },
    everywhere(&["anybody|everybody", "anybodys|everybodys"], "the noun: all services, any machine"),
    everywhere(&["is|are|was|were|be|been held to|by|under|below"], "limited to, kept below, meets"),
    everywhere(&["speak|speaks|spoke|spoken"], "reports, sends"),
    everywhere(&["knows|knew"], "has, stores, lists"),
    everywhere(&["learns", "remembers", "promises"], "receives, stores, guarantees"),
    everywhere(&["sees|saw"], "receives, measures, contains"),
    everywhere(&["says|said"], "shows, contains, gives"),
    everywhere(&["asks|ask for|whether|until"], "requests, needs, polls"),
    Rule {
        phrases: &["no|their|s word", "without a word"],
        instead: "message",
        within: &[],
        // A verdict, as a word in a table.
        except: &["crates/check/test-runner/"],
    },
    everywhere(&["as it was found", "as they were found"], "in its original state"),
    everywhere(&["stand|stands|stood twice|beside"], "is listed twice, is drawn beside"),
    everywhere(&["lines of both|all racks"], "uplinks"),
    Rule { phrases: &["ask|asks|asked|asking"], instead: "request (feedback request)", within: FEEDBACK, except: &[] },
    Rule {
        phrases: &["answer|answers|answered|answering"],
        instead: "feedback, reply, respond",
        within: REPLIES,
        // A field of the transports' code.
        except: &["docs/how-to/extending.md"],
    },
    in_datapath(
        &[
            "declares|declared|declaration|declarations ecn",
            "declares|declaration|declarations of|its ecn",
            "last|next declaration",
        ],
        "advertises, has sent",
    ),
    Rule {
        phrases: &["grant", "grants", "granted"],
        instead: "credit lease",
        within: DATAPATH,
        // PACE's term for the bytes that a port lets a sender send.
        except: &[
            "datapath/credit",
            "bpf/forwarder",
            "crates/packet/datapath/src/credit",
            "crates/packet/datapath/tests/credit",
            "crates/host/linux/src/forwarder",
            "crates/host/linux/tests/forwarder",
            "crates/host/linux/benches/forwarder",
        ],
    },
    in_datapath(&["spare"], "excess (RFC 2698)"),
    in_datapath(&["mail", "mails", "news"], "rate mailbox, ring-buffer event"),
];

const fn everywhere(phrases: &'static [&'static str], instead: &'static str) -> Rule {
    Rule { phrases, instead, within: &[], except: &[] }
}

const fn in_datapath(phrases: &'static [&'static str], instead: &'static str) -> Rule {
    Rule { phrases, instead, within: DATAPATH, except: &[] }
}

/// Files whose text is not ours to word: other people's formats, generated lists, inputs of parsers, and
/// the rules themselves.
const NOT_OURS: [&str; 7] = [
    "Cargo.lock",
    "fuzz/Cargo.lock",
    "LICENSE",
    "fuzz/corpus/",
    "crates/serve/fabric/proto/etcd/",
    "crates/check/tidy/src/terms.rs",
    "crates/check/tidy/src/wording.rs",
];

/// The rules, by the first word of each phrase.
#[derive(Debug)]
pub struct Terms(BTreeMap<&'static str, Vec<(&'static str, &'static Rule)>>);

impl Default for Terms {
    fn default() -> Self {
        let mut by_word: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for rule in RULES {
            for phrase in rule.phrases {
                let first = phrase.split(' ').next().unwrap_or(phrase);
                for word in first.split('|') {
                    by_word.entry(word).or_default().push((*phrase, rule));
                }
            }
        }
        Self(by_word)
    }
}

impl Terms {
    /// Each violation as `path:line: message`.
    pub fn check(&self, file: &File) -> Vec<String> {
        let mut found = Vec::new();
        let name: Vec<_> = words(&file.path).into_iter().map(|word| (word, 1)).collect();
        for (number, message) in self.passage(&file.path, &name) {
            found.push(format!("{}:{number}: the file's name: {message}", file.path));
        }
        if NOT_OURS.iter().any(|path| file.path.starts_with(path)) {
            return found;
        }
        let passages = if file.path.ends_with(".svg") { labels(&file.text) } else { passages(&file.text) };
        for passage in passages {
            for (number, message) in self.passage(&file.path, &passage) {
                found.push(format!("{}:{number}: {message}", file.path));
            }
        }
        found
    }

    /// Violations in words with their lines.
    fn passage(&self, path: &str, words: &[(String, usize)]) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (at, (word, number)) in words.iter().enumerate() {
            for (phrase, rule) in self.0.get(word.as_str()).into_iter().flatten() {
                if let Some(there) = begins(&words[at..], phrase)
                    && rule.holds(path)
                {
                    found.push((*number, format!("\"{there}\": write {}", rule.instead)));
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

/// The words that match a phrase, if words begin with it.
fn begins(words: &[(String, usize)], phrase: &str) -> Option<String> {
    let parts: Vec<_> = phrase.split(' ').collect();
    let words = words.get(..parts.len())?;
    let is_there = words.iter().zip(parts).all(|((word, _), part)| part.split('|').any(|one| one == word));
    is_there.then(|| words.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>().join(" "))
}

/// The words of each paragraph, of each comment and of the code between comments, with their lines.
fn passages(text: &str) -> Vec<Vec<(String, usize)>> {
    let (mut passages, mut before) = (vec![Vec::new()], None);
    for (line, number) in text.lines().zip(1..) {
        let (mark, line) = without_mark(line);
        if before != Some(mark) || line.is_empty() {
            passages.push(Vec::new());
        }
        before = Some(mark);
        passages.last_mut().expect("one at least").extend(words(line).into_iter().map(|word| (word, number)));
    }
    passages
}

/// A line without the mark of a comment, a quotation or an item at its beginning, and that mark.
fn without_mark(line: &str) -> (&'static str, &str) {
    let line = line.trim();
    for mark in ["//!", "///", "//", "/*", "*/", "*", "#", ">"] {
        if let Some(line) = line.strip_prefix(mark) {
            // A comment continues with another mark.
            return (if mark == "/*" { "*" } else { mark }, line.trim());
        }
    }
    ("", line)
}

/// The words of each label of an SVG picture: its text and `aria-label`.
fn labels(text: &str) -> Vec<Vec<(String, usize)>> {
    let (mut labels, mut number) = (Vec::new(), 1);
    for element in text.split('<') {
        let (tag, shown) = element.split_once('>').unwrap_or(("", element));
        let aria = tag.split_once("aria-label=\"").and_then(|(_, label)| label.split('"').next());
        let in_tag = aria.into_iter().flat_map(words).map(|word| (word, number)).collect();
        number += tag.matches('\n').count();
        let behind = words(shown).into_iter().map(|word| (word, number)).collect();
        number += shown.matches('\n').count();
        labels.extend([in_tag, behind]);
    }
    labels
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
        let found = check("docs/reference/policy.md", "a line\nthe first sighting of a host");
        assert_eq!(found, ["docs/reference/policy.md:2: \"sighting\": write liveness"]);
    }

    #[test]
    fn identifiers_count_as_their_parts() {
        for text in ["tell_alive()", "TellAlive", "WEIR_TELL_ALIVE"] {
            assert!(
                check("crates/host/agent/src/lib.rs", text).iter().any(|line| line.contains("heartbeat")),
                "{text}"
            );
        }
        assert!(check("crates/host/agent/src/lib.rs", "intelligent, shears, toldo").is_empty());
    }

    #[test]
    fn a_rule_for_directories_holds_there_alone() {
        assert_eq!(check("datapath/lease.h", "/* grants */").len(), 1);
        assert!(check("crates/simulate/transport/src/d3/mod.rs", "// grants").is_empty());
        assert!(check("crates/serve/observe/src/names.rs", "uri.authority()").is_empty());
    }

    #[test]
    fn phrases_continue_on_the_next_line() {
        for (path, text) in [
            ("docs/a.md", "a sender is held\nto its rate"),
            ("crates/x/src/lib.rs", "x\n    /// A sender is held\n    /// to its rate."),
            ("datapath/a.h", "/*\n * A sender is held\n * to its rate.\n */"),
        ] {
            let found = check(path, text);
            assert!(found.len() == 1 && found[0].contains("\"is held to\""), "{path}: {found:?}");
        }
        assert!(check("docs/a.md", "what it held\n\nto be").is_empty());
        assert!(check("crates/x/src/lib.rs", "// what it is held\nto(1)").is_empty());
    }

    #[test]
    fn names_of_files_and_labels_of_pictures_count() {
        let found = check("fuzz/corpus/x/a-sighting", "");
        assert_eq!(found, ["fuzz/corpus/x/a-sighting:1: the file's name: \"sighting\": write liveness"]);
        let picture = "<svg aria-label=\"a lump\">\n<g class=\"lump\">\n<text>two\nlumps</text></g></svg>";
        let found = check("docs/pictures/a.svg", picture);
        assert!(found.len() == 2 && found[0].contains("svg:1:") && found[1].contains("svg:3:"), "{found:?}");
    }
}
