//! Demands: accepted and refused files.

mod texts;

use weir_policy::{Demands, Policy};
use weir_units::{Bandwidth, Direction, MachineId, ServiceId};

fn policy(text: &str) -> Policy {
    Policy::parse("policy.yaml", text).expect("good").0
}

#[test]
fn reads_rows_with_and_without_a_header() {
    let policy = policy(texts::EXAMPLE);
    for header in ["", "machine,service,direction,demand\n", "# a comment\n\n machine , service,direction,demand\r\n"] {
        let text = format!("{header}m1,dfs,tx,10Gb/s\r\n m2 , vm , rx , unlimited \n\n# note\nm1,vm,tx,0b/s");
        let demands = Demands::parse(&policy, "d.csv", &text).expect("good");
        let all: Vec<_> = demands.iter().collect();
        assert_eq!(
            all,
            [
                (MachineId(0), ServiceId(0), Direction::Tx, Bandwidth::from_gbps(10)),
                (MachineId(0), ServiceId(1), Direction::Tx, Bandwidth::ZERO),
                (MachineId(1), ServiceId(1), Direction::Rx, Bandwidth::UNLIMITED),
            ]
        );
        assert_eq!(demands[(MachineId(1), ServiceId(1), Direction::Rx)], Bandwidth::UNLIMITED);
        assert_eq!(demands.get(MachineId(1), ServiceId(0), Direction::Rx), Bandwidth::ZERO);
    }
    assert!(Demands::parse(&policy, "d.csv", "").expect("empty is all zero").is_empty());
}

/// Spreadsheets and CSV writers put fields in quotes.
#[test]
fn quotes_around_fields_do_not_count() {
    let policy = policy(texts::EXAMPLE);
    let read = |text: &str| Demands::parse(&policy, "d.csv", text).unwrap_or_else(|errors| panic!("{errors}"));
    let quoted = "\"machine\",\"service\",\"direction\",\"demand\"\r\n\"m1\", \"dfs\" ,tx,\"10Gb/s\"\r\n";
    assert_eq!(read(quoted), read("machine,service,direction,demand\nm1,dfs,tx,10Gb/s\n"));
    let refused = |text: &str| {
        let errors = Demands::parse(&policy, "d.csv", text).expect_err(text);
        let error = &errors.all()[0];
        format!("{}: {}", error.position().column, error.cause())
    };
    assert_eq!(refused(" \"m3\",dfs,tx,1Gb/s\n"), "3: there is no machine `m3` in the policy");
    assert_eq!(refused("\"m1,dfs,tx,1Gb/s\n"), "1: `\"m1` has a quote in it");
    assert_eq!(refused("m1,\"\"dfs\"\",tx,1Gb/s\n"), "5: `\"dfs\"` has a quote in it");
}

#[test]
fn the_demands_in_the_tree_are_good() {
    for (policy_text, demands) in [
        (include_str!("../../../../scenarios/parley-fig1.policy.yaml"), "../../../scenarios/parley-fig1.demands.csv"),
        (texts::FIG6, "../../../scenarios/parley-fig6.demands.csv"),
    ] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(demands);
        assert!(!Demands::read(&policy(policy_text), path).expect("good").is_empty());
    }
}

#[test]
fn refuses_with_a_position() {
    let text = "machine,service,direction,demand\nm1,dfs,tx,10Gb/s\nm1,dsf,tx,1Gb/s\nm3,dfs,up,10\nm1,dfs,tx,1Gb/s\nm1,dfs\n\"m1,dfs,tx,1Gb/s\nm1,dfs,tx,1Gb/s,\nmachine,service,direction,demand\nm2,dfs,tx,-1Gb/s\n";
    let errors = Demands::parse(&policy(texts::EXAMPLE), "d.csv", text).expect_err("bad");
    insta::assert_snapshot!(errors.render(false));
    let inner = Demands::parse(&policy(texts::FIG6), "d.csv", "m1,rest,tx,1Gb/s\nm1,vm,tx,1Gb/s\n").expect_err("bad");
    insta::assert_snapshot!("inner", inner.render(false));
}

#[test]
fn refuses_binary_content() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("d.csv");
    std::fs::write(&path, b"m1,dfs,tx,1Gb/s\nm1,vm,\xff\n").expect("written");
    let errors = Demands::read(&policy(texts::EXAMPLE), &path).expect_err("bad");
    assert_eq!(errors.all()[0].cause(), "the file is not UTF-8: byte 0xff at offset 22");
    assert_eq!(errors.all()[0].position().line, 2);
}
