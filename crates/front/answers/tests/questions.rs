//! Questions without a command line: the same answers, errors with their parts, and callers that end the work.

use serde_json::{Value, json};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_answers::check::{Check, CheckOptions};
use weir_answers::plan::{Method, Monitor, PlanOptions, PlannedNetwork, TraceInput, caps};
use weir_answers::tenants::Order;
use weir_answers::{AnswerError, Cause, Location, Places, ReadPolicy, place};
use weir_latency::trace::Watch;
use weir_placement::Strategy;
use weir_policy::{Demands, Policy};
use weir_scenario::{ReadOptions, Scenario};
use weir_units::ContentionPoint;

fn scenarios(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios").join(name)
}

fn read(name: &str) -> ReadPolicy {
    ReadPolicy::read(&scenarios(name)).unwrap_or_else(|errors| panic!("{errors}"))
}

fn parse(text: &str) -> Result<ReadPolicy, weir_document::Diagnostics> {
    let source = weir_document::Source::from_bytes("policy.yaml", text.as_bytes().to_vec(), 1 << 20)?;
    ReadPolicy::from_source(&source)
}

const TENANTS: &str = "weir: 1\n\
                       network: { nic: 1Gb/s, slots: 2, racks: { r: { uplink: 2Gb/s, machines: [m1, m2] } } }\n\
                       services: { a: { match: [ { port: 1 } ] } }\n\
                       tenants:\n  red: { vms: 3, bandwidth: 100Mb/s, match: [ { port: 2 } ] }\n  \
                       blue: { vms: 1, bandwidth: 100Mb/s, match: [ { port: 3 } ] }\n";

#[test]
fn a_refused_policy_is_an_answer() {
    let text = TENANTS.replace("nic: 1Gb/s", "nic: 1");
    let answer = weir_answers::check(parse(&text), &CheckOptions::default(), &mut |_| ControlFlow::Continue(()));
    let json = answer.expect("an answer").to_json();
    assert_eq!((&json["valid"], &json["errors"]), (&json!(false), &json!(1)));
    let mistake = &json["diagnostics"][0];
    assert_eq!((&mistake["file"], &mistake["line"]), (&json!("policy.yaml"), &json!(2)));
    assert!(mistake["hint"].as_str().is_some_and(|hint| hint.contains("10Gb/s")), "{mistake}");
}

#[test]
fn a_valid_policy_has_its_tenants() {
    let mut tried = Vec::new();
    let answer = weir_answers::check(parse(TENANTS), &CheckOptions::default(), &mut |arrivals| {
        tried.push((arrivals.tried, arrivals.all));
        ControlFlow::Continue(())
    });
    let answer = answer.expect("an answer");
    assert!(answer.is_valid());
    assert_eq!(answer.to_json()["tenants"]["placed"], 2);
    assert_eq!(tried, [(0, 2), (1, 2)]);
    let Check::Valid(valid) = answer else { panic!("valid") };
    assert_eq!((valid.services(), valid.tenants.map(|tenants| tenants.places.rejected.len())), (1, Some(0)));
}

#[test]
fn places_are_refused_without_tenants() {
    let options = CheckOptions { placed: Some("placement.json".into()), ..CheckOptions::default() };
    let read = Ok(read("parley-fig1.policy.yaml"));
    let error = weir_answers::check(read, &options, &mut |_| ControlFlow::Continue(())).err().expect("refused");
    assert_eq!(error.to_json()[0]["cause"], "the policy has no tenants that could be placed");
    assert!(!error.hints().is_empty());
}

#[test]
fn callers_end_placements() {
    let end = &mut |_| ControlFlow::Break(());
    let checked = weir_answers::check(parse(TENANTS), &CheckOptions::default(), end);
    assert!(checked.err().is_some_and(|error| error.is_stopped()));

    let (policy, _) = parse(TENANTS).expect("sound").into_numbered();
    let places = || Places::new(&policy, Strategy::default());
    let red = weir_answers::explain::tenant::named(&policy, "red").expect("a tenant");
    let explained = weir_answers::explain_tenant(&policy, red, places(), &mut |_| ControlFlow::Break(()));
    assert!(explained.err().is_some_and(|error| error.is_stopped()));
    // A placement keeps those that were placed before.
    let after_one = &mut |arrivals: weir_answers::tenants::Arrivals| match arrivals.tried {
        0 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    let placement = place(&policy, places(), Order::Payment, after_one);
    assert_eq!((placement.whole(), placement.places.untried), (1, 1));
    let mut tried = 0;
    let compared = weir_answers::place::compare(&policy, &mut |_| {
        tried += 1;
        if tried < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert!(compared.err().is_some_and(|error| error.is_stopped()));
}

#[test]
fn an_earlier_placement_is_continued() {
    let (policy, _) = parse(TENANTS).expect("sound").into_numbered();
    let all = &mut |_: weir_answers::tenants::Arrivals| ControlFlow::Continue(());
    let first = place(&policy, Places::new(&policy, Strategy::default()), Order::Payment, all);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("placement.json");
    fs::write(&file, first.to_json().to_string()).expect("written");
    let mut places = Places::new(&policy, Strategy::default());
    assert_eq!(places.adopt(&file, &policy).expect("the file of this policy"), []);
    let second = place(&policy, places, Order::Payment, &mut |_| panic!("no tenant is new"));
    assert_eq!(second.to_json(), first.to_json());
    let without = TENANTS.replace("slots: 2, ", "");
    let (without, _) = parse(&without).expect("sound").into_numbered();
    let refused = weir_answers::place::can_place(&without).expect_err("no slots");
    assert_eq!(refused.to_json()[0]["line"], 5);
}

#[test]
fn unknown_names_have_hints() {
    let policy = Arc::new(read("parley-fig1.policy.yaml").policy);
    let path = scenarios("parley-fig1.demands.csv");
    let text = fs::read_to_string(&path).expect("the demands");
    let demands = Demands::parse(&policy, "demands.csv", &text).expect("sound");
    let error = weir_answers::explain(&policy, &demands, "m1", None).err().expect("no service");
    assert!(matches!(error.cause(), Cause::Refused { at: None, .. }) && !error.hints().is_empty(), "{error}");
    let allocated = weir_answers::allocate(&policy, &demands).to_json();
    let first = &allocated["allocations"][0];
    let instance =
        format!("{}/{}", first["machine"].as_str().expect("a name"), first["service"].as_str().expect("one"));
    let explained = weir_answers::explain(&policy, &demands, &instance, None).expect("a service");
    let explained = weir_answers::explain::to_json(&explained);
    assert_eq!(explained["explanations"][0]["allocation_bps"], first["allocation_bps"]);
}

/// Ends the work at the first look.
struct Impatient;

impl Watch for Impatient {
    fn rows(&mut self, _: u64, _: u64) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

impl Monitor for Impatient {
    fn begin(&mut self, _: String) {}
    fn finish(&mut self) {}
}

fn trace<'a>(policy: &Policy, text: &str, monitor: &'a mut dyn Monitor) -> Result<TraceInput<'a>, AnswerError> {
    TraceInput::read("messages.csv".to_owned(), text.as_bytes(), policy, monitor)
}

#[test]
fn a_wrong_row_of_a_trace_has_its_line() {
    let policy = read("plan.policy.yaml").policy;
    let error = trace(&policy, "time,size\n0,1000\n1,many\n", &mut ()).err().expect("no size");
    let Cause::Refused { at: Some(Location { file, line }), .. } = error.cause() else { panic!("{error}") };
    assert_eq!((file.as_str(), *line), ("messages.csv", Some(3)));
    assert!(!error.hints().is_empty());
    let text: String = (0..40_000).map(|at| format!("{at},1000\n")).collect();
    let ended = trace(&policy, &format!("time,size\n{text}"), &mut Impatient).err().expect("ended");
    assert!(ended.is_stopped(), "{ended}");
}

#[test]
fn a_plan_has_the_cap_that_keeps_its_targets() {
    let policy = read("plan.policy.yaml").policy;
    let network = PlannedNetwork::of_policy(&policy, None);
    let options = PlanOptions { by: Method::Mm1, ..PlanOptions::default() };
    let text: String = (0..200).map(|at| format!("{},1000000\n", f64::from(at) * 0.01)).collect();
    let mut unobserved = ();
    let mut trace = trace(&policy, &format!("time,size\n{text}"), &mut unobserved).expect("sound");
    let plan = weir_answers::plan(&policy, &options, &network, Some(&mut trace)).expect("a plan");
    let json = weir_answers::plan::to_json(&plan, None, None);
    assert_eq!(json["trace"]["file"], "messages.csv");
    assert_eq!(json["services"][0]["estimates"].as_array().map(Vec::len), Some(3));
    let capped = caps::written(&policy, &plan, &options, ContentionPoint::Rack).expect("a cap");
    let (changed, _) = Policy::parse("policy.yaml", &capped.text).expect("sound");
    let again =
        weir_answers::plan(&changed, &options, &PlannedNetwork::of_policy(&changed, None), None).expect("a plan");
    assert_eq!(capped.is_kept(), again.is_kept());
}

#[test]
fn the_scenario_of_another_policy_is_refused() {
    let policy = read("plan.policy.yaml").policy;
    let options = ReadOptions { set: Vec::new(), memory: None };
    let read = Scenario::read_with(scenarios("parley-fig14.scenario.yaml"), &options);
    let (scenario, _) = read.unwrap_or_else(|errors| panic!("{errors}"));
    let error = PlannedNetwork::of_scenario(&policy, None, ("s.yaml", scenario)).err().expect("another policy");
    let json = error.to_json();
    assert_eq!((&json[0]["file"], &json[0]["column"]), (&json!("s.yaml"), &Value::Null));
    let (without, _) = parse(TENANTS).expect("sound").into_numbered();
    let error = weir_answers::plan::targets(&without, None).expect_err("no target");
    assert!(!error.hints().is_empty(), "{error}");
}
