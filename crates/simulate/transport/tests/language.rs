//! Parameters in a scenario: accepted, omitted and refused values.

use weir_credits::{Coding, Period};
use weir_document::shape::Shape;
use weir_document::{Problems, Source, check, tree};
use weir_transport::{Parameters, cubic, d3, dctcp, expresspass, newreno, pace, pfabric, read, udp, variants};
use weir_units::{Bandwidth, SimTime, Weight};

/// Checks and reads a mapping as a protocol's parameters; the diagnostics as text if something is
/// wrong.
fn parse(protocol: &str, text: &str) -> Result<Parameters, String> {
    let source = Source::from_text("transport.yaml", text);
    let mut problems = Problems::new(&source);
    let record = variants().iter().find(|record| record.id == protocol).expect("a protocol");
    let root = tree::parse(&source, &mut problems).expect("YAML");
    check::check(&root, &Shape::Record(record), &mut problems);
    let parameters = read(protocol, Some(&root), &mut problems);
    match problems.finish(parameters) {
        Ok((parameters, _)) => Ok(parameters.expect("nothing was reported")),
        Err(diagnostics) => Err(diagnostics.render(false)),
    }
}

#[test]
fn missing_keys_are_the_defaults() {
    let mut problems = Problems::new(&Source::from_text("none.yaml", ""));
    let mut protocols = Vec::new();
    for record in variants() {
        let parameters = read(record.id, None, &mut problems).expect("a protocol");
        assert_eq!(parameters.protocol(), record.id);
        assert_eq!(parse(record.id, "{}"), Ok(parameters));
        protocols.push(record.id);
    }
    assert_eq!(protocols, ["newreno", "cubic", "dctcp", "d3", "expresspass", "pace", "pfabric", "udp"]);
    assert_eq!(read("newreno", None, &mut problems), Some(Parameters::default()));
    assert_eq!(read("vegas", None, &mut problems), None);
}

/// The example of each key is its default, so that the reference shows it; UDP's defaults are not
/// values.
#[test]
fn examples_are_the_defaults() {
    for record in variants().iter().filter(|record| record.id != "udp") {
        let text: String = record.keys.iter().map(|key| format!("{}\n", key.example)).collect();
        assert_eq!(parse(record.id, &text), parse(record.id, "{}"), "{text}");
        assert!(record.keys.iter().all(|key| !key.required));
    }
}

#[test]
fn every_key_is_read() {
    let ms = SimTime::from_millis;
    let tcp = "initial-window: 4\nmin-rto: 1ms\ninitial-rto: 2ms\nmax-rto: 3ms\nreceive-window: 1MB\ndup-thresh: 9\n\
               delayed-ack: 1\nack-delay: 5ms\nidle-restart: off\nhandshake: on\n";
    let common = weir_transport::tcp::Parameters {
        initial_window: 4,
        min_rto: ms(1),
        initial_rto: ms(2),
        max_rto: ms(3),
        receive_window: 1_000_000,
        dup_thresh: 9,
        delayed_ack: 1,
        ack_delay: ms(5),
        idle_restart: false,
        handshake: true,
    };
    let expected = Parameters::NewReno(newreno::Parameters { tcp: common.clone() });
    assert_eq!(parse("newreno", tcp), Ok(expected));
    let text = format!("{tcp}c: 0.5\nbeta: 0.8\nfast-convergence: off\nhystart: off");
    let expected =
        cubic::Parameters { tcp: common.clone(), c: 0.5, beta: 0.8, fast_convergence: false, hystart: false };
    assert_eq!(parse("cubic", &text), Ok(Parameters::Cubic(expected)));
    let text = format!("{tcp}gain: 0.5\ninitial-alpha: 0");
    let expected = dctcp::Parameters { tcp: common, gain: 0.5, initial_alpha: 0.0 };
    assert_eq!(parse("dctcp", &text), Ok(Parameters::Dctcp(expected)));
    let expected = d3::Parameters {
        base_rate: Bandwidth::from_mbps(1),
        min_rto: ms(1),
        dup_thresh: 9,
        alpha: 0.2,
        beta: 2.0,
        interval: ms(2),
        granularity: Bandwidth::from_mbps(8),
        capacity_max: 4.0,
    };
    let text = "{ base-rate: 1Mb/s, min-rto: 1ms, dup-thresh: 9, alpha: 0.2, beta: 2, interval: 2ms, \
                granularity: 8Mb/s, capacity-max: 4 }";
    assert_eq!(parse("d3", text), Ok(Parameters::D3(expected)));
    let expected = expresspass::Parameters {
        credit: 60,
        frame: 1514,
        queue: 4,
        alpha: 0.5,
        w_init: 0.25,
        w_min: 0.02,
        w_max: 0.4,
        target_loss: 0.2,
        simulator_law: false,
        jitter: 0.0,
        min_rto: ms(1),
        dup_thresh: 9,
    };
    let text = "{ credit: 60B, frame: 1514B, queue: 4, alpha: 0.5, w-init: 0.25, w-min: 0.02, w-max: 0.4, \
                target-loss: 0.2, simulator-law: off, jitter: 0, min-rto: 1ms, dup-thresh: 9 }";
    assert_eq!(parse("expresspass", text), Ok(Parameters::ExpressPass(expected)));
    let expected = pfabric::Parameters { initial_window: 3, max_window: 15, rto: ms(1), probe_after: 2 };
    let text = "{ initial-window: 3, max-window: 15, rto: 1ms, probe-after: 2 }";
    assert_eq!(parse("pfabric", text), Ok(Parameters::PFabric(expected)));
    let expected = udp::Parameters {
        rate: Some(Bandwidth::from_gbps(1)),
        packet: Some(1000),
        burst: 8,
        on_off: Some((ms(5000), ms(2000))),
    };
    let text = "{ rate: 1Gb/s, packet: 1000B, burst: 8, on: 5s, off: 2s }";
    assert_eq!(parse("udp", text), Ok(Parameters::Udp(expected)));
}

#[test]
fn every_key_of_pace_is_read() {
    let expected = pace::Parameters {
        weight: Weight::from_thousandths(2_500).expect("in range"),
        period: Period::from_micros(400),
        max_period: Period::from_micros(4_000),
        share: 0.5,
        coding: Coding::Paper,
        lossless: false,
        control_loss: 0.01,
        control_priority: Some(0),
        min_rto: SimTime::from_millis(1),
        dup_thresh: 9,
    };
    let text = "{ weight: 2.5, period: 400us, max-period: 4ms, share: 0.5, coding: paper, lossless: off, \
                control-loss: 0.01, control-priority: 0, min-rto: 1ms, dup-thresh: 9 }";
    assert_eq!(parse("pace", text), Ok(Parameters::Pace(expected)));
}

/// A data center's short timeout with Linux's long delay is allowed, with a remark.
#[test]
fn a_delay_above_the_timeout_gets_a_remark() {
    let notes = |text: &str| {
        let source = Source::from_text("transport.yaml", text);
        let mut problems = Problems::new(&source);
        let root = tree::parse(&source, &mut problems).expect("YAML");
        assert!(read("dctcp", Some(&root), &mut problems).is_some());
        problems.finish(()).expect("no error").1
    };
    let remarks = notes("min-rto: 200us");
    assert_eq!(
        remarks[0].cause(),
        "the ack-delay 40 ms is not shorter than the min-rto 200 µs: a packet that waits for its acknowledgement may \
         be sent again"
    );
    assert!(notes("{ min-rto: 200us, delayed-ack: 1 }").is_empty());
    assert!(notes("{ min-rto: 200us, ack-delay: 100us }").is_empty());
    assert!(notes("{}").is_empty());
}

#[test]
fn refused_parameters() {
    let cases = [
        ("newreno", "initial-windw: 4"),
        ("newreno", "initial-window: 0"),
        ("newreno", "min-rto: 61min"),
        ("newreno", "min-rto: 0s"),
        ("newreno", "max-rto: 100ms"),
        ("newreno", "{ min-rto: 5s, initial-rto: 3s, max-rto: 2s }"),
        ("newreno", "receive-window: 2GB"),
        ("newreno", "delayed-ack: 65"),
        ("dctcp", "{ gain: 0, initial-alpha: 1.5 }"),
        ("dctcp", "gain: 1/16"),
        ("cubic", "{ beta: 1, c: 0, hystart: maybe }"),
        ("pfabric", "initial-window: 24"),
        ("pfabric", "{ max-window: 5, rto: 45 }"),
        ("d3", "base-rate: unlimited"),
        ("d3", "capacity-max: 0.5"),
        ("expresspass", "{ credit: 100kB, queue: 0, target-loss: 1 }"),
        ("expresspass", "w-init: 0.6"),
        ("expresspass", "w-min: 0.1"),
        ("udp", "{ rate: 0b/s, packet: 100kB }"),
        ("udp", "on: 5s"),
        ("udp", "off: 5s"),
    ];
    let refused: Vec<_> = cases
        .iter()
        .map(|(protocol, text)| match parse(protocol, text) {
            Ok(parameters) => panic!("{protocol} {text}: {parameters:?}"),
            Err(errors) => format!("## {protocol}\n{errors}"),
        })
        .collect();
    insta::assert_snapshot!(refused.join("\n"));
}
