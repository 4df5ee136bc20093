//! No content of a file makes the reader panic.

mod texts;

use proptest::prelude::*;
use weir_policy::{Demands, Policy};

fn survive(text: &str) {
    match Policy::parse("policy.yaml", text) {
        Ok((policy, notes)) => {
            let _ = (policy.services().classification_order(), policy.digest(), notes.len());
        }
        Err(errors) => {
            assert!(errors.count() > 0);
            let _ = (errors.render(true), errors.to_json());
        }
    }
}

/// Words of the language and of YAML, for random insertion.
const WORDS: &[&str] = &[
    "weir",
    "network",
    "services",
    "min",
    "max",
    "weight",
    "tx",
    "rx",
    "rack",
    "match",
    "port",
    "caps",
    ": ",
    "\n",
    "  ",
    "{",
    "}",
    "[",
    "]",
    ", ",
    "- ",
    "1Gb/s",
    "0b/s",
    "-1",
    "1",
    "m[1-9]",
    "m[1-999999999]",
    "unlimited",
    "tap*",
    "*a",
    "&a ",
    "!x ",
    "'",
    "\"",
    "#",
    "é",
    "\u{0}",
    "\u{FEFF}",
    "99999999999999999999",
    "1000000Tb/s",
    "10.0.0.0/8",
    "::",
    "/",
    "guaranteed",
    "fill",
    "null",
    "~",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn arbitrary_text(text in "\\PC{0,300}") {
        survive(&text);
    }
    #[test]
    fn words_of_the_language(words in proptest::collection::vec(prop::sample::select(WORDS), 0..80)) {
        survive(&words.concat());
    }
    /// Good policies with words put in, bytes cut out and lines doubled.
    #[test]
    fn mutated_policies(
        base in prop::sample::select(vec![texts::EXAMPLE, texts::EVERYTHING, texts::FIG5, texts::FIG6]),
        changes in proptest::collection::vec(
            (any::<prop::sample::Index>(), 0usize..6, prop::sample::select(WORDS), 0u8..3),
            1..6,
        ),
    ) {
        let mut text = base.to_owned();
        for (at, cut, word, kind) in changes {
            let from = text.floor_char_boundary(at.index(text.len() + 1));
            let to = text.ceil_char_boundary((from + cut).min(text.len()));
            match kind {
                0 => text.replace_range(from..from, word),
                1 => text.replace_range(from..to, ""),
                _ => text.replace_range(from..to, word),
            }
        }
        survive(&text);
    }
    #[test]
    fn demands(rows in proptest::collection::vec(
        "(m1|m2|m3|x)?[, ](dfs|vm|y)?,(tx|rx|z)?,(1Gb/s|unlimited|-1|\\PC{0,5})[\n,]?",
        0..10,
    )) {
        let (policy, _) = Policy::parse("p", texts::EXAMPLE).expect("good");
        let _ = Demands::parse(&policy, "d", &rows.join("\n"));
    }
}
