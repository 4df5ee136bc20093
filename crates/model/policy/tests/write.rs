//! Caps written back: every layout of a file keeps all its other bytes, or nothing is written.

mod texts;

use proptest::prelude::*;
use weir_policy::Policy;
use weir_units::{Bandwidth, ContentionPoint, Direction, PerDirection};

fn read(text: &str) -> Policy {
    match Policy::parse("policy.yaml", text) {
        Ok((policy, _)) => policy,
        Err(errors) => panic!("{errors}"),
    }
}

fn both(text: &str) -> PerDirection<Option<Bandwidth>> {
    PerDirection::both(Some(text.parse().expect("a rate")))
}

/// The result for the last lines of the example if they are `from`.
fn written(from: &str, point: ContentionPoint, cap: PerDirection<Option<Bandwidth>>) -> String {
    let head = texts::EXAMPLE.split("caps:").next().expect("a head");
    let text = format!("{head}{from}");
    let (written, policy) = read(&text).write_cap(point, cap).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(read(&written), policy);
    assert_eq!(policy.digest(), read(&written).digest());
    written.strip_prefix(head).expect("the head is as it was").to_owned()
}

#[test]
fn every_layout() {
    use ContentionPoint::{Fabric, Machine, Rack};
    let one = |direction: Direction, rate: &str| {
        let mut cap = PerDirection::both(None);
        cap[direction] = rate.parse().ok();
        cap
    };
    let cases = [
        ("caps:   # star\n  rack: 9Gb/s # why\n\n# end\n", Rack, both("7.5Gb/s")),
        ("caps: { rack: \"9Gb/s\" }\n", Rack, both("7.5Gb/s")),
        ("caps: { rack: { tx: 9Gb/s, rx: 8Gb/s } }\n", Rack, both("7Gb/s")),
        ("caps: { rack: { tx: 9Gb/s } } # tx\n", Rack, both("7Gb/s")),
        ("caps:\n  rack:\n    # only one way\n    tx: 9Gb/s\n", Rack, both("7Gb/s")),
        ("caps: { rack: 9Gb/s }\n", Rack, one(Direction::Rx, "7Gb/s")),
        ("caps: { rack: {} }\n", Rack, both("7Gb/s")),
        ("caps: {}\n", Rack, both("7Gb/s")),
        ("caps: { rack: 9Gb/s }\n", Machine, both("8Gb/s")),
        ("caps:\n    rack: 9Gb/s\n", Fabric, both("8Gb/s")),
        ("caps:\r\n    rack: 9Gb/s\r\n", Fabric, both("8Gb/s")),
        ("", Rack, both("8.0625Gb/s")),
        ("# the end", Rack, one(Direction::Tx, "8Gb/s")),
    ];
    let mut out = String::new();
    for (from, point, cap) in cases {
        out.push_str(&format!("{from:?}\n{:?}\n\n", written(from, point, cap)));
    }
    insta::assert_snapshot!(out);
}

#[test]
fn a_file_in_braces() {
    let text = "{ weir: 1, network: { nic: 1Gb/s, racks: { r1: { uplink: 1Gb/s, machines: [m1] } } },\n  services: \
                { s: { match: [ { port: 1 } ] } } }";
    let (written, _) = read(text).write_cap(ContentionPoint::Rack, both("500Mb/s")).unwrap();
    assert_eq!(written, text.replace("{ weir", "{ caps: { rack: 500Mb/s }, weir"));
}

#[test]
fn refusals() {
    let refused = |text: &str, cap| match read(text).write_cap(ContentionPoint::Rack, cap) {
        Ok((text, _)) => panic!("written:\n{text}"),
        Err(errors) => errors.render(false),
    };
    let ends = texts::EXAMPLE.split("caps:").next().expect("a head").to_owned() + "...\n";
    let mut out = refused(texts::EXAMPLE, both("5Gb/s"));
    out.push_str(&refused(&ends, both("8Gb/s")));
    let changed = read(texts::EXAMPLE).with("caps.rack=8Gb/s").unwrap();
    out.push_str(&changed.write_cap(ContentionPoint::Rack, both("7Gb/s")).unwrap_err().render(false));
    insta::assert_snapshot!(out);
}

proptest! {
    /// Writing and restoring a cap gives the file's every byte.
    #[test]
    fn round_trip(bps in 7_000_000_000u64..9_000_000_000) {
        let policy = read(texts::EXAMPLE);
        let cap = PerDirection::both(Some(Bandwidth::from_bps(bps)));
        let (text, changed) = policy.write_cap(ContentionPoint::Rack, cap).unwrap();
        prop_assert_eq!(changed.caps()[ContentionPoint::Rack].tx.bps(), bps);
        prop_assert_eq!(text.lines().zip(texts::EXAMPLE.lines()).filter(|(a, b)| a != b).count(), 1);
        let (again, back) = changed.write_cap(ContentionPoint::Rack, both("9Gb/s")).unwrap();
        prop_assert_eq!(again, texts::EXAMPLE);
        prop_assert_eq!(back, policy);
    }
}

#[test]
fn levels_are_written_into_every_layout() {
    let latency = "latency: { message: 1kB, worst: 1ms, rate: 1Mb/s }";
    let network = "network: { nic: 1Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1] } } }";
    let values = [("levels.factors", "[1]"), ("levels.segments", "8"), ("services.a.level", "1")];
    let values = values.map(|(path, value)| (path.to_owned(), value.to_owned()));
    let written = |text: &str| {
        let (policy, _) = Policy::parse("policy.yaml", text).unwrap_or_else(|errors| panic!("{errors}"));
        policy.write_values(&values).unwrap_or_else(|errors| panic!("{errors}")).0
    };
    let text = format!(
        "weir: 1\n{network}\nservices:\n  a:\n    match: [ {{ port: 1 }} ]\n    level: auto # chosen\n    {latency}\n"
    );
    let expected = text.replace("auto", "1") + "levels: { factors: [1], segments: 8 }\n";
    assert_eq!(written(&text), expected);
    let text = text + "levels:\n  load: 40% # ours\n";
    let expected = text.replace("auto", "1").replace("  load", "  factors: [1]\n  segments: 8\n  load");
    assert_eq!(written(&text), expected);
}
