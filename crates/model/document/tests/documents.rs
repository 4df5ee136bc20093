//! Documents through all layers: refused content, positions, and the printed form.

#[path = "support/validator.rs"]
mod validator;

use proptest::prelude::*;
use weir_document::scalar::Scalar;
use weir_document::shape::{Alternatives, Choice, Key, List, Map, Record, Shape};
use weir_document::{Diagnostics, Kind, Node, Problems, Source, check, schema, tree};

static NAME: Scalar = Scalar::Text { what: "a name" };
static RATE: Scalar = Scalar::Rate { unlimited: false, zero: false };
static NAMES: List = List { what: "a list of machines", item: Shape::Scalar(&NAME), min: 1 };
static BOX: Record = Record {
    id: "box",
    what: "a box",
    doc: "A box of boxes.",
    keys: &[
        Key::required("speed", Shape::Scalar(&RATE), "How fast.", "speed: 10Gb/s"),
        Key::optional("names", Shape::OneOf(&[Shape::Scalar(&NAME), Shape::List(&NAMES)]), "Who.", "names: [a]"),
        Key::optional("boxes", Shape::Map(&BOXES), "Boxes inside.", "boxes: { b: { speed: 1Gb/s } }"),
    ],
};
static BOXES: Map = Map { what: "a mapping of boxes", name: &NAME, value: Shape::Record(&BOX), min: 1 };

/// A document of choices: one that has a default and one that has not.
static ROUND: Record = Record { id: "round", what: "a round lid", doc: "Round.", keys: &[] };
static SCREW: Record = Record {
    id: "screw",
    what: "a screw lid",
    doc: "Turned.",
    keys: &[Key::optional("turns", Shape::Scalar(&TURNS), "How often.", "turns: 2")],
};
static LOCK: Record = Record {
    id: "lock",
    what: "a locked lid",
    doc: "With a key.",
    keys: &[Key::required("key", Shape::Scalar(&NAME), "Which.", "key: k1")],
};
static TURNS: Scalar = Scalar::Integer { what: "a number of turns", min: 1, max: 9 };
static LID_KINDS: &[&Record] = &[&ROUND, &SCREW, &LOCK];
static LID: Choice = Choice {
    id: "lid",
    what: "a lid",
    doc: "What closes it.",
    tag: "kind",
    tag_what: "a kind of lid",
    tag_doc: "Which.",
    default: Some("round"),
    common: &[Key::optional("speed", Shape::Scalar(&RATE), "How fast.", "speed: 10Gb/s")],
    elsewhere: &[("colour", "lids have no colour; boxes have")],
    variants: || LID_KINDS,
};
static STRICT: Choice = Choice { id: "strict", default: None, ..LID };
static LIDS: List = List { what: "a list of lids", item: Shape::Choice(&STRICT), min: 1 };
static JAR: Record = Record {
    id: "jar",
    what: "a jar",
    doc: "Has a jar.",
    keys: &[
        Key::required("jar", Shape::Scalar(&NAME), "Its name.", "jar: j"),
        Key::optional("lid", Shape::Choice(&LID), "Its lid.", "lid: round"),
        Key::optional("lids", Shape::List(&LIDS), "More.", "lids: [ { kind: round } ]"),
    ],
};
static CAN: Record = Record {
    id: "can",
    what: "a can",
    doc: "Has a can.",
    keys: &[
        Key::required("can", Shape::Scalar(&NAME), "Its name.", "can: c"),
        Key::optional("lid", Shape::Choice(&LID), "Its lid.", "lid: round"),
        Key::optional("ring", Shape::Scalar(&NAME), "Its ring.", "ring: r"),
    ],
};
static VESSEL: Alternatives =
    Alternatives { id: "vessel", what: "a vessel", doc: "A jar or a can.", records: &[("jar", &JAR), ("can", &CAN)] };

#[test]
fn choices_and_alternatives() {
    let mut all = String::new();
    for text in [
        "jar: j\nlid: { kind: lock }\n",
        "jar: j\nlid: lock\n",
        "jar: j\nlid: scrw\n",
        "jar: j\nlid: { kind: scrw, turns: 1, speed: 1 }\n",
        "jar: j\nlid: { kid: screw }\n",
        "jar: j\nlid: { turns: 3 }\n",
        "jar: j\nlid: { kind: screw, key: k, turns: 99, colour: red }\n",
        "jar: j\nlid: { kind: [screw] }\n",
        "jar: j\nlid: { kind: }\n",
        "jar: j\nlid: []\n",
        "jar: j\nlids: [ { }, { kid: screw, turns: 2 }, { key: k }, screw, nail ]\n",
        "jar: j\nring: r\n",
        "jar: j\ncan: c\n",
        "lid: { speed: 1 }\nring: 3\n",
        "jr: j\n",
        "[jar]\n",
    ] {
        let Err(errors) = read_as(text, &Shape::Alternatives(&VESSEL)) else { panic!("accepted: {text}") };
        all.push_str(&format!("{text:?}\n{}\n", errors.render(false)));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn choices_are_read_as_in_their_schema() {
    let schema = schema::schema("Vessels", &VESSEL);
    for (text, word) in [
        ("jar: j\n", None),
        ("jar: j\nlid: screw\n", Some("screw")),
        ("can: c\nlid: { kind: lock, key: k, speed: 1Gb/s }\n", Some("lock")),
        ("jar: j\nlid: { speed: 1Gb/s }\nlids: [ { kind: lock, key: k }, screw ]\n", Some("round")),
    ] {
        let root = read_as(text, &Shape::Alternatives(&VESSEL)).expect(text);
        assert_eq!(validator::validate(&schema, &validator::to_json(&root)), Ok(()), "{text}");
        assert_eq!(root.get("lid").and_then(|lid| LID.chosen(lid)).map(|variant| variant.id), word);
    }
    for text in ["jar: j\ncan: c\n", "lid: round\n", "jar: j\nlid: lock\n", "jar: j\nlid: { kind: screw, key: k }\n"] {
        let source = Source::from_text("doc.yaml", text);
        let root = tree::parse(&source, &mut Problems::new(&source)).expect("a tree");
        assert!(validator::validate(&schema, &validator::to_json(&root)).is_err(), "{text}");
    }
    insta::assert_snapshot!(schema::to_file(&schema));
}

fn read(text: &str) -> Result<Node, Diagnostics> {
    read_as(text, &Shape::Record(&BOX))
}

fn read_as(text: &str, shape: &Shape) -> Result<Node, Diagnostics> {
    let source = Source::from_text("doc.yaml", text);
    let mut problems = Problems::new(&source);
    let root = tree::parse(&source, &mut problems);
    if let Some(root) = &root {
        check::check(root, shape, &mut problems);
    }
    problems.finish(root).map(|(root, _)| root.expect("no error, so a tree"))
}

fn refused(text: &str) -> String {
    match read(text) {
        // Not `expect_err`: some texts here are megabytes, and so are their trees.
        Ok(_) => panic!("accepted: {:.80}", text),
        Err(errors) => errors.render(false),
    }
}

#[test]
fn accepts_and_keeps_positions() {
    let text = "# ü comment\nspeed: 10 Gb/s\r\nnames: [é, b] # ç\nboxes:\n  x: { speed: '1Gb/s' }\n";
    let root = read(text).expect("a good document");
    let x = root.get("boxes").and_then(|boxes| boxes.get("x")).expect("there");
    let speed = x.get("speed").expect("there");
    assert_eq!(&text[speed.span.start as usize..speed.span.end as usize], "'1Gb/s'");
    assert_eq!(speed.kind, Kind::Scalar { text: "1Gb/s".to_owned(), quoted: true });
    let names = root.get("names").expect("there");
    assert_eq!(&text[names.span.start as usize..names.span.end as usize], "[é, b]");
    let boxes = root.get("boxes").expect("there");
    assert_eq!(&text[boxes.span.start as usize..boxes.span.end as usize], "x: { speed: '1Gb/s' }");
}

#[test]
fn all_mistakes_at_once() {
    insta::assert_snapshot!(refused(
        "sped: 10Gb/s\nnames: []\nboxes:\n  x: { speed: 10 }\n  y:\n  z: [1]\n  w: { speed: }\n"
    ));
}

#[test]
fn refused_yaml() {
    let mut all = String::new();
    for text in [
        "",
        "# only a comment\n",
        "---\n...\n",
        "speed: 1Gb/s\n---\nspeed: 1Gb/s\n",
        "speed: 1Gb/s\nspeed: 2Gb/s\n",
        "speed: !!str 1Gb/s\n",
        "speed: &s 1Gb/s\n",
        "speed: &s 1Gb/s\nnames: *s\n",
        "speed: 1Gb/s\nboxes: &b { x: *b }\n",
        "speed: 1Gb/s\nnames: *absent\n",
        "? [a, b]\n: 1\nspeed: 1Gb/s\n",
        "speed: 1Gb/s: 2\n",
        "speed: [1Gb/s\n",
        "speed: 1Gb/s\n\tnames: x\n",
        "speed:\t1Gb/s\n",
        "# c\nspeed: \t 1Gb/s\nboxes:\n\tx: { speed: 1Gb/s }\n",
        "speed: 1Gb/s\nnames:\n-\t- x\n",
        "speed: a\tb\n\tnames: x\n",
        "boxes:\n  x:\n  \t speed: 1Gb/s\n",
        "speed: \"1\tGb/s\"]\n",
        "speed: 1Gb/s\0\n",
        "speed: 1Gb/s\rnames: x\n",
        "speed: \"1\\e[31mGb/s\"\n",
        "just a text\n",
    ] {
        all.push_str(&format!("{text:?}\n{}\n", refused(text)));
    }
    insta::assert_snapshot!(all);
}

/// Tabs part the tokens of JSON (RFC 8259 section 2), and are no part of its strings.
#[test]
fn tabs_of_json_are_read() {
    let parse = |text: &str| {
        let source = Source::from_text("doc.json", text);
        let mut problems = Problems::new(&source);
        let root = tree::parse(&source, &mut problems);
        problems.finish(root).map(|(root, _)| validator::to_json(&root.expect("no error, so a tree")))
    };
    let spaces = parse("{\n \"speed\": \"a \\\" b\",\n \"names\": [ \"x\" ]\n}\n").expect("JSON");
    let tabs = parse("{\n\t\"speed\":\t\"a \\\" b\",\n\t\"names\":\t[\t\"x\"\t]\n}\n").expect("JSON with tabs");
    assert_eq!(spaces, tabs);
}

/// Each correction, put into the text, is accepted.
#[test]
fn corrections_are_accepted() {
    let mut all = String::new();
    for text in [
        "speed: 10KB/s\n",
        "speed: 07Gb/s\n",
        "speed: '10 Gbit/s'\n",
        "{ speed: 1,5Gb/s, names: [a] }\n",
        "{ speed: 1,5 Gb/s }\n",
        "{ speed: 1,000,000kb/s }\n",
        "{ speed: 1Gb/s, names: 80,443, boxes: { b: { speed: 10Mbps } } }\n",
        "{ names: 80, 443,7000-7099, speed: 1Gb/s }\n",
    ] {
        let Err(errors) = read(text) else { panic!("accepted: {text}") };
        let mut fixed = text.to_owned();
        for error in errors.all().iter().rev() {
            let (span, correction) = error.fix().expect(text);
            fixed.replace_range(span.start as usize..span.end as usize, correction);
        }
        assert!(read(&fixed).is_ok(), "{fixed}");
        all.push_str(&format!("{text:?} -> {fixed:?}\n{}\n{}\n", errors.render(false), errors.to_json()));
    }
    // None is known, or one would not be accepted.
    for text in [
        "speed: 10mbps\n",
        "{ speed: 1,5, names: a }\n",
        "{ speed: 1,2,5Gb/s }\n",
        "{ speed: 1,500Mb/s }\n",
        "speed: 1,500Mb/s\n",
        "speed: 1Gb/s\nboxes:\n  443:\n",
        "speed: 00Gb/s\n",
        "speed: 1Gb/s\nspeeed: 1Gb/s\n",
    ] {
        let Err(errors) = read(text) else { panic!("accepted: {text}") };
        assert!(errors.all().iter().all(|error| error.fix().is_none()), "{text}");
        all.push_str(&format!("{text:?}\n{}\n", errors.render(false)));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn long_lines_and_labels() {
    let mut text = "names: [".to_owned();
    text.push_str(&"machine, ".repeat(100_000));
    text.push_str("{}, x], sped: 1, speed: 1Gb/s\n");
    let text = format!("{{{text}}}");
    let out = refused(&text);
    assert!(out.len() < 2_000, "{out}");
    insta::assert_snapshot!(out);
}

#[test]
fn depth_is_bounded() {
    for text in [
        "[".repeat(1_000_000),
        "{a: ".repeat(1_000_000),
        "- ".repeat(1_000_000),
        "? ".repeat(100_000),
        "a:\n".to_owned(),
    ] {
        assert!(read(&text).is_err());
    }
    let block: String = (0..200).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    assert!(refused(&block).contains("more than 64 levels deep"));
    let deep = format!("{}{}", "[".repeat(64), "]".repeat(64));
    assert!(!refused(&deep).contains("levels deep"));
}

#[test]
fn nodes_are_bounded() {
    let text = format!("names:\n{}", "- a\n".repeat(tree::MAX_NODES));
    assert!(refused(&text).contains("more than 4000000 values"));
}

#[test]
fn lookahead_is_bounded() {
    let many = tree::MAX_AHEAD;
    // The 100 more: the parser's input for the event before does not count again.
    for text in [
        // On a line of its own the list might be a key: the parser reads all of it to decide.
        format!("speed: 1Gb/s\nnames:\n  [{}]", "a,".repeat(many)),
        format!("[{}", "a,".repeat(many)),
        format!("{{a: [{}]}}", "a,".repeat(many / 2)),
        format!("speed: \"{}\"", "x".repeat(many + 100)),
        format!("speed: \"{}", "x".repeat(many + 100)),
        format!("#{}\nspeed: 1Gb/s", "x".repeat(many + 100)),
    ] {
        let out = refused(&text);
        assert!(out.contains("goes on for more than"), "{text:.20}: {out}");
    }
    let good = format!("speed: 1Gb/s\nnames:\n  [{}]", "a,".repeat(many / 2 - 100));
    assert!(read(&good).is_ok(), "a collection just below the limit");
}

#[test]
fn colour_adds_nothing_but_colour() {
    let errors = read("sped: 1\n").unwrap_err();
    let plain = errors.render(false);
    assert!(!plain.contains('\u{1b}'));
    let mut stripped = String::new();
    let mut rest = errors.render(true);
    assert!(rest.contains('\u{1b}'));
    while let Some(at) = rest.find('\u{1b}') {
        stripped.push_str(&rest[..at]);
        let end = rest[at..].find('m').expect("a colour ends with m") + at + 1;
        rest.drain(..end);
    }
    stripped.push_str(&rest);
    assert_eq!(stripped, plain);
}

#[test]
fn schema_of_a_recursive_shape() {
    insta::assert_snapshot!(schema::to_file(&schema::schema("Boxes", &BOX)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        if let Err(errors) = read(&text) {
            let _ = (errors.render(true), errors.to_json());
        }
    }
    #[test]
    fn yaml_like_text_is_read_or_refused(parts in proptest::collection::vec(
        prop::sample::select(vec![
            "a", "speed", ": ", ":", "- ", "\n", "  ", " ", "[", "]", "{", "}", ",", "'", "\"", "&x ", "*x", "!t ",
            "# c", "|", ">", "é", "\u{FEFF}", "%YAML 1.2\n", "---\n", "...\n", "? ", "\t", "\r\n", "\\",
            "1Gb/s", "<<", "\u{85}",
            "\u{2028}", "\0",
        ]), 0..60)) {
        let text: String = parts.concat();
        if let Err(errors) = read(&text) {
            let _ = (errors.render(true), errors.to_json());
        }
    }
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        match Source::from_bytes("x", bytes, 150) {
            Ok(source) => { let _ = read(source.text()); }
            Err(errors) => { let _ = errors.render(false); }
        }
    }
}
