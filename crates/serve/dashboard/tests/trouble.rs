//! The page in a real browser where other programs fail, forge statuses, or are of another kind.

mod common;

use common::browser::Browser;
use common::made_up;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use weir_dashboard::{Config, SharedStatus};
use weir_observe::watcher::View;
use weir_observe::{Liveness, Lost, Source, server};
use weir_policy::Policy;
use weir_status::{FabricLimit, FabricStatus, Status, TenantPort, TenantQueuesStatus, TenantStatus};
use weir_units::{Bandwidth, Instant};

fn listen() -> std::net::TcpListener {
    server::listen("127.0.0.1:0".parse().expect("an address")).expect("listens")
}

fn broker(policy: &Policy, name: &str, limit: Bandwidth) -> FabricStatus {
    let mut status = FabricStatus::outline(policy, name, 1);
    (status.leads, status.racks_reporting) = (true, status.racks);
    let (rack, service, direction) = ("r1".into(), "dfs".into(), "tx".into());
    status.limits = vec![FabricLimit { rack, service, direction, demand: Bandwidth::from_gbps(9), limit }];
    status
}

fn seen(status: FabricStatus, lost: Option<&str>) -> Liveness {
    let mut liveness = Liveness::new("http://10.0.1.1:30566".parse().expect("a source"), None);
    liveness.status = Some(Arc::new(Status::Fabric(status)));
    liveness.lost = lost.map(|why| Lost { since: Instant::ZERO, why: why.to_owned() });
    liveness
}

/// A watcher's view of the machines and of these brokers in the tenth second.
fn view(policy: &Policy, brokers: &[Liveness]) -> View {
    let mut view = made_up::view(policy, 10, 1_000);
    view.livenesses.extend_from_slice(brokers);
    view
}

// Empty before the page is loaded.
const SUMMARY: &str = "(document.getElementById('summary')?.textContent ?? '')";
const LIMITED: &str = "(document.getElementById('limited')?.textContent ?? '')";

fn text(browser: &mut Browser, expression: &str) -> String {
    browser.value(expression).as_str().expect("a text").to_owned()
}

/// f1 led and is gone; its last status still has its leadership, with 1 Gb/s for r1.
#[test]
fn page_shows_the_new_leader_after_a_failover() {
    let Some(mut browser) = Browser::start("a failover on the dashboard", 1200, 800) else { return };
    let policy = made_up::policy(1, 2, 4);
    let shared = SharedStatus::new(&policy);
    let server = weir_dashboard::serve(listen(), shared.clone()).expect("starts");
    let gone = || seen(broker(&policy, "f1", Bandwidth::from_gbps(1)), Some("Connection refused (os error 111)"));
    let stands_by = FabricStatus { leads: false, limits: Vec::new(), ..broker(&policy, "f2", Bandwidth::UNLIMITED) };
    shared.with(|seen_| seen_.take(&view(&policy, &[gone(), seen(stands_by, None)])));
    browser.open(&format!("http://{}/", server.address()));
    // No broker leads yet.
    browser.wait("the remaining broker", &format!("{SUMMARY}.includes('fabric broker f2 standby')"));
    let summary = text(&mut browser, SUMMARY);
    assert!(summary.contains("fabric broker f1 is lost") && !summary.contains("leads"), "{summary}");
    assert!(!text(&mut browser, LIMITED).contains("fabric broker"), "limits of the lost broker are shown");
    // Now f2 leads, and there are more limits than a status holds.
    let leads = FabricStatus { limits_left_out: 3, ..broker(&policy, "f2", Bandwidth::from_gbps(4)) };
    shared.with(|seen_| seen_.take(&view(&policy, &[gone(), seen(leads, None)])));
    browser.wait("the leader", &format!("{SUMMARY}.includes('fabric broker f2 leads with reports from 1 of 1 rack')"));
    let limited = text(&mut browser, LIMITED);
    assert!(limited.contains("fabric broker f2 limits 1dfs in r1 4 Gb/s") && !limited.contains("f1"), "{limited}");
    assert!(limited.contains("f2 has 3 more limits, sent or received, which its status leaves out"), "{limited}");
    let now = browser.value("fetch('/api/now').then((response) => response.json()).then((now) => now.fabric[0])");
    for key in ["leads", "racks", "racks_reporting", "same_policy", "limits", "limits_left_out"] {
        assert_eq!(now.get(key), Some(&Value::Null), "{key} of the lost broker");
    }
    assert_eq!(browser.problems, Vec::<String>::new());
}

/// The tenants of the leading broker, by score; a filter finds them by their ports too.
#[test]
fn page_shows_tenants_and_their_queues() {
    let Some(mut browser) = Browser::start("tenants on the dashboard", 1200, 800) else { return };
    let policy = made_up::policy(1, 2, 4);
    let shared = SharedStatus::new(&policy);
    let server = weir_dashboard::serve(listen(), shared.clone()).expect("starts");
    let mut status = broker(&policy, "f1", Bandwidth::from_gbps(1));
    status.written_ms = 1_700_000_000_000;
    let m = Bandwidth::from_mbps;
    let port = TenantPort { port: "r1 spine0".to_owned(), tenants: 9, queues: 7 };
    let red = TenantStatus {
        tenant: "red".to_owned(),
        has_queues: true,
        since_ms: Some(status.written_ms - 62_000),
        guarantee: m(300),
        used_tx: m(410),
        score_bps: 300_000_000,
        competes: vec![port],
        competes_left_out: 2,
        ..TenantStatus::default()
    };
    let moves = Some("tag".to_owned());
    let blue = TenantStatus { tenant: "blue".to_owned(), moves, guarantee: m(100), ..TenantStatus::default() };
    let tenants = vec![blue, red];
    status.tenant_queues = Some(TenantQueuesStatus { tenants, tenants_left_out: 5, ..TenantQueuesStatus::default() });
    shared.with(|seen_| seen_.take(&view(&policy, &[seen(status, None)])));
    browser.open(&format!("http://{}/", server.address()));
    const ROWS: &str = "[...document.querySelectorAll('#tenants tbody tr')].map((row) => \
                        [...row.children].map((cell) => cell.textContent).join('|'))";
    browser.wait("tenants", "document.querySelectorAll('#tenants tbody tr').length === 2");
    let rows = browser.value(ROWS);
    assert_eq!(rows[1], "blue|shared, moves: tag|100 Mb/s|0 b/s|0 b/s|–");
    assert_eq!(rows[0], "red|own for 62 s|300 Mb/s|410 Mb/s|300 Mb/s|r1 spine0 (9 for 7), 2 more");
    assert_eq!(browser.value("document.getElementById('tenants-note').textContent"), "2 of 7 tenants");
    let filter = "document.getElementById('filter')";
    browser.value(&format!("{filter}.value = 'SPINE0'; {filter}.dispatchEvent(new Event('input'))"));
    browser.wait("the filter", "document.querySelectorAll('#tenants tbody tr').length === 1");
    assert_eq!(browser.problems, Vec::<String>::new());
}

/// Texts of a status are shown as they are, and run nothing.
#[test]
fn texts_of_statuses_stay_texts() {
    let Some(mut browser) = Browser::start("hostile statuses on the dashboard", 1200, 800) else { return };
    let hostile = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>";
    let policy = made_up::policy(1, 2, 4);
    let shared = SharedStatus::new(&policy);
    let server = weir_dashboard::serve(listen(), shared.clone()).expect("starts");
    let mut view = view(&policy, &[seen(broker(&policy, hostile, Bandwidth::from_gbps(1)), None)]);
    let mut status = made_up::status(&policy, 0, 10);
    status.interface = hostile.to_owned();
    status.services[0].tx.decided_by = Some(hostile.to_owned());
    let mut made_up_service = status.services[1].clone();
    made_up_service.service = hostile.to_owned();
    status.services.push(made_up_service);
    view.livenesses[0].status = Some(Arc::new(Status::Agent(status)));
    view.livenesses[1].lost = Some(Lost { since: Instant::ZERO, why: hostile.to_owned() });
    let Some(Status::Fabric(of)) = view.livenesses[2].status.as_deref() else { unreachable!("the broker") };
    let mut of = of.clone();
    let (rack, service) = (hostile.to_owned(), hostile.to_owned());
    of.limits.push(FabricLimit { rack, service, ..of.limits[0].clone() });
    view.livenesses[2].status = Some(Arc::new(Status::Fabric(of)));
    shared.with(|seen| seen.take(&view));
    browser.open(&format!("http://{}/#m/m1", server.address()));
    let includes = |expression: &str| format!("{expression}.includes({})", Value::from(hostile));
    browser.wait("the interface's name", &includes("(document.getElementById('facts')?.textContent ?? '')"));
    browser.wait("the broker's name", &includes(SUMMARY));
    browser.wait("the reason", &includes("(document.querySelector('#tree .badge.bad')?.title ?? '')"));
    // Constraints and services are the policy's, or counted as foreign.
    let limited = text(&mut browser, LIMITED);
    assert!(limited.contains("a constraint of another policy limits 1backup on m1"), "{limited}");
    let shown = text(&mut browser, "document.getElementById('tree').textContent");
    assert!(!shown.contains("onerror") && limited.contains("limits 1dfs in r1 1 Gb/s"), "{shown} {limited}");
    let now = text(&mut browser, "fetch('/api/now').then((response) => response.text())");
    assert_eq!(now.matches("onerror").count(), 2, "the broker's name and why the machine is lost: {now}");
    // The page's own markup has no picture and one script.
    let made = "[document.images.length, document.scripts.length, document.title]";
    assert_eq!(browser.value(made), json!([0, 1, "Weir"]));
    assert_eq!(browser.problems, Vec::<String>::new());
}

fn write(path: &Path, status: &Status) -> Source {
    std::fs::write(path, status.to_json()).expect("written");
    Source::File(path.to_owned())
}

#[test]
fn source_of_another_kind_is_lost_and_an_address_without_a_place_opens_the_page() {
    let Some(mut browser) = Browser::start("wrong sources on the dashboard", 1200, 800) else { return };
    let policy = made_up::policy(1, 2, 4);
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let agent = write(&at("m1.json"), &Status::Agent(made_up::status(&policy, 0, 10)));
    let fabric = write(&at("f1.json"), &Status::Fabric(broker(&policy, "m2", Bandwidth::from_gbps(1))));
    let config = Config {
        policy: Arc::clone(&policy),
        machines: vec![Liveness::new(agent.clone(), Some("m1".into())), Liveness::new(fabric, Some("m2".into()))],
        // `--fabric` with an agent's status.
        fabric: vec![Liveness::new(agent, None)],
        switches: Vec::new(),
    };
    let dashboard = weir_dashboard::start(listen(), config).expect("starts");
    for hash in ["", "#%", "#%E0%A4%A", "#m/none"] {
        browser.open("about:blank");
        browser.open(&format!("http://{}/{hash}", dashboard.address()));
        browser.wait("usage", "document.querySelector('#tree tbody td.number')?.textContent.includes('b/s')");
        browser.wait("the choice", "document.getElementById('chart-title').textContent === 'r1 sends'");
        let summary = text(&mut browser, SUMMARY);
        assert!(
            summary.contains("1 lost")
                && summary.contains(&format!("fabric broker {} is lost", at("m1.json").display())),
            "{summary}"
        );
        assert_eq!(browser.value("document.getElementById('trouble').hidden"), true, "{hash}");
    }
    let why = "[document.querySelector('#tree .badge.bad').title, \
               [...document.querySelectorAll('#summary .lost')].at(-1).title]";
    let expected =
        ["its status is a fabric broker's, not an agent's", "its status is an agent's, not a fabric broker's"];
    assert_eq!(browser.value(why), json!(expected));
    assert_eq!(browser.problems, Vec::<String>::new());
}
