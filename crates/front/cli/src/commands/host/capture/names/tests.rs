use super::*;
use std::path::Path;
use weir_pods::Directory;

const POLICY: &str = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { basement: { uplink: 1Gb/s, machines: [m1] } } }\n\
                      services: { pay: { match: [ { pod: { namespace: initech-*, labels: \"app in (tps,red),!urgent\" \
                      } }, { pod: { namespace: default } } ] } }\n";

fn policy() -> Policy {
    Policy::parse("policy.yaml", POLICY).expect("sound").0
}

fn of_status(status: &Status) -> BTreeSet<String> {
    let mut names = Names::default();
    names.add_status(status);
    names.names.into_iter().filter(|name| !name.is_empty()).collect()
}

fn require(names: &BTreeSet<String>, required: &[&str]) {
    for name in required {
        assert!(names.contains(*name), "{name} is missing in {names:?}");
    }
}

/// A directory with a record of labels, and a damaged one.
fn records(directory: &Path) -> Records {
    let labels = [("app", "tps"), ("component", "agent"), ("chart", "web-4.10.1")];
    let record = weir_pods::Labels {
        pod: weir_pods::FORMAT,
        namespace: "initech".to_owned(),
        name: "milton-0".to_owned(),
        uid: None,
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
    };
    let own = Directory::new(directory);
    own.write_labels(&record).expect("written");
    std::fs::write(directory.join("labels-basement:lumbergh.json"), "{").expect("written");
    own.read_all().expect("listed")
}

#[test]
fn names_of_a_policy_have_those_of_selectors() {
    let mut names = Names::default();
    names.add_policy(&policy());
    let all: BTreeSet<String> = names.names.into_iter().collect();
    require(&all, &["basement", "m1", "pay", "initech-*", "tps", "red"]);
    for name in ["app", "urgent", "default"] {
        assert!(!all.contains(name), "{name}");
    }
    assert_eq!(names.label_keys, BTreeSet::from(["app".to_owned(), "urgent".to_owned()]));
}

#[test]
fn values_of_labels_are_names_if_a_selector_has_their_key() {
    let run = tempfile::tempdir().expect("a directory");
    let records = records(run.path());
    for (with_policy, values) in [(false, &[][..]), (true, &["tps"][..])] {
        let mut names = Names::default();
        if with_policy {
            names.add_selector(&"labels=app,!urgent".parse().expect("a selector"));
        }
        names.add_records(&records);
        names.names.sort_unstable();
        assert_eq!(names.names, [&["basement", "initech", "lumbergh", "milton-0"][..], values].concat());
    }
}

#[test]
fn names_of_an_agent_are_those_of_all_its_fields() {
    let policy = policy();
    let mut agent = AgentStatus::outline(&policy, policy.network().machine_named("m1").expect("there"));
    agent.unheard = vec!["lumbergh".to_owned()];
    agent.policy_refused = Some("policy.yaml:3: `swingline` is no machine".to_owned());
    agent.guests_missed = Some(
        "record labels-smykowski:tom-0.json: EOF; no labels are known of pod payroll/milton-0 \
                                (and 1 more)"
            .to_owned(),
    );
    agent.filters_unmatched = vec![
        "chotchkies/flair: no pod here has namespace=bobs-* labels=app in (tps,red) (and 1 more)".to_owned(),
        "pay: no control group here is called /system.slice/web-*".to_owned(),
    ];
    agent.fabric = Some(FabricLink { leader: Some("nagheenanajar".to_owned()), ..FabricLink::default() });
    agent.services[0].tx.decided_by = Some("max of initrode/gibbons at rack".to_owned());
    agent.services[0].rx.decided_by = Some("machine peterman".to_owned());
    let flows = vec![CreditFlow { service: "stapler".to_owned(), ..CreditFlow::default() }];
    agent.credits = Some(HostCredits { flows, ..HostCredits::default() });
    let names = of_status(&Status::Agent(agent));
    require(&names, &["m1", "basement", "pay", "lumbergh", "swingline", "smykowski", "tom-0", "payroll", "milton-0"]);
    require(&names, &["chotchkies", "flair", "bobs-*", "tps", "red", "nagheenanajar", "initrode", "gibbons"]);
    require(&names, &["peterman", "stapler"]);
    for name in ["app", "system.slice", "web-*", "record", "known"] {
        assert!(!names.contains(name), "{name}");
    }
}

#[test]
fn selectors_of_a_status_name_keys_of_labels() {
    let mut names = Names::default();
    names.add_unmatched("pay: no pod here has labels=app in (tps,red)");
    assert_eq!(names.label_keys, BTreeSet::from(["app".to_owned()]));
}

#[test]
fn names_of_a_broker_have_tenants_and_ports() {
    let mut broker = FabricStatus::outline(&policy(), "10.0.0.1:30567", 1);
    broker.policy_refused = Some("`swingline` is no machine".to_owned());
    let competes = vec![TenantPort { port: "spine0 milton".to_owned(), ..TenantPort::default() }];
    let tenants = vec![TenantStatus { tenant: "red".to_owned(), competes, ..TenantStatus::default() }];
    broker.tenant_queues = Some(TenantQueuesStatus { tenants, ..TenantQueuesStatus::default() });
    require(&of_status(&Status::Fabric(broker)), &["red", "spine0", "milton", "swingline"]);
}

#[test]
fn names_of_a_switch_have_ports_and_services() {
    let mut switch = SwitchStatus::outline("tor-basement".to_owned(), String::new(), 1_000);
    switch.without_agent = vec!["milton".to_owned()];
    let credit_flows = vec![CreditFlow { service: "pay/roll".to_owned(), ..CreditFlow::default() }];
    switch.ports = vec![SwitchPortStatus { port: "lumbergh".to_owned(), credit_flows, ..SwitchPortStatus::default() }];
    require(&of_status(&Status::Switch(switch)), &["tor-basement", "milton", "lumbergh", "pay", "roll"]);
}

#[test]
fn options_have_names_and_directories() {
    let text = "# --node is the name\nWEIR_PODS=\"--node \\\n  worker-3.initech --pods /run/other\"\n\
                WEIR_AGENT='--machine=milton --peer lumbergh=10.0.0.1:30565 --pods \"here\"'\n\
                argv[]=weir --switch tor ;";
    let mut names = Names::default();
    let text = options(text);
    names.add_options(&text);
    names.names.sort_unstable();
    assert_eq!(names.names, ["lumbergh", "milton", "tor", "worker-3.initech"]);
    assert_eq!(directories(&text).collect::<Vec<_>>(), ["/run/other", "here"]);
}

#[test]
fn vocabulary_is_of_commands_policies_and_json() {
    let item = |name: &str, text: &str| Item { name: name.into(), source: String::new(), content: Ok(text.into()) };
    let items = [item("a.json", r#"[{"swingline": {"stapler": "red"}}]"#), item("b", r#"{"milton": 1}"#)];
    let words = vocabulary(&items);
    require(&words, &["weir", "agent", "fabric", "node", "interface", "services", "uplink", "swingline", "stapler"]);
    for word in ["red", "milton", "description"] {
        assert!(!words.contains(word), "{word}");
    }
}
