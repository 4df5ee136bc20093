//! Credits on the page in a real browser: ports of switches, flows of a machine, and what holds them.

mod common;

use common::browser::Browser;
use common::made_up::{self, credit_flow, forwarder, host_credits};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use weir_dashboard::SharedStatus;
use weir_observe::watcher::View;
use weir_observe::{Liveness, Lost, Server, server};
use weir_policy::Policy;
use weir_status::{CreditFlow, Status, SwitchStatus};
use weir_units::Instant;

fn serve(shared: &SharedStatus) -> Server {
    let listener = server::listen("127.0.0.1:0".parse().expect("an address")).expect("listens");
    weir_dashboard::serve(listener, shared.clone()).expect("starts")
}

/// Two machines with addresses.
fn policy() -> Arc<Policy> {
    let text = "weir: 1\nnetwork:\n  nic: 10Gb/s\n  racks: { r1: { uplink: 10Gb/s, machines: [m1, m2] } }\n  \
                machines: { m1: { address: 10.0.0.1 }, m2: { address: 10.0.0.2 } }\nservices:\n  \
                web: { match: [ { port: 80 } ] }\n  batch: { match: [ { port: 9000 } ] }\n";
    Arc::new(Policy::parse("policy.yaml", text).expect("sound").0)
}

/// A view in which m1 sends these flows with credits, and of these switches.
fn view(policy: &Policy, flows: Vec<CreditFlow>, switches: Vec<Liveness>) -> View {
    let mut view = made_up::view(policy, 10, 1_000);
    let mut status = made_up::status(policy, 0, 10);
    status.credits = Some(host_credits(flows));
    view.livenesses[0].status = Some(Arc::new(Status::Agent(status)));
    view.livenesses.extend(switches);
    view
}

/// The texts of a table's rows, cell by cell, joined with `|`.
fn rows(browser: &mut Browser, table: &str) -> Vec<String> {
    let rows = format!(
        "[...document.querySelectorAll('{table} tr')].map((row) => [...row.children].map((cell) => \
         cell.textContent).join('|'))"
    );
    serde_json::from_value(browser.value(&rows)).expect("texts")
}

fn text(browser: &mut Browser, expression: &str) -> String {
    browser.value(expression).as_str().expect("a text").to_owned()
}

fn hidden(browser: &mut Browser, id: &str) -> Value {
    browser.value(&format!("document.getElementById('{id}').hidden"))
}

/// Two ports have reduced the flow of web; the one with the smaller share holds it. The file of `WEIR_CREDITS_PICTURE`
/// gets a picture of the page.
#[test]
fn machine_has_its_flows_with_the_port_that_holds_each() {
    let Some(mut browser) = Browser::start("flows with credits on the dashboard", 1400, 1400) else { return };
    let policy = policy();
    let shared = SharedStatus::new(&policy);
    let server = serve(&shared);
    let of_web = |share_bps| CreditFlow { share_bps, ..credit_flow("web", "10.0.0.2", "this port") };
    let flows = vec![credit_flow("web", "10.0.0.2", "network"), credit_flow("batch", "10.9.9.9", "demand")];
    let elsewhere = credit_flow("batch", "10.9.9.9", "elsewhere");
    let spine = forwarder(&policy, "spine0", vec![of_web(400_000_000)]);
    let switches = vec![spine, forwarder(&policy, "r1", vec![of_web(300_000_000), elsewhere])];
    shared.with(|seen| seen.take(&view(&policy, flows, switches)));
    browser.open(&format!("http://{}/#m/m1", server.address()));
    browser.wait("the flows", "document.querySelectorAll('#flows tbody tr').length === 2");
    let expected = ["web|m2|1.5|300 Mb/s|900 Mb/s|network: r1 m2", "batch|10.9.9.9|1.5|300 Mb/s|900 Mb/s|demand"];
    assert_eq!(rows(&mut browser, "#flows tbody"), expected);
    assert_eq!(browser.value("document.querySelectorAll('#flows .limited').length"), 1);
    let facts = text(&mut browser, "document.getElementById('facts').textContent");
    for fact in [
        "credits of6 Gb/s",
        "flows with credits2 sent, 1 received",
        "period1 ms, longest 2 ms",
        "credits for a weight of 11.5 Gb/s",
        "credits outstanding37.5 kB of at most 3 MB",
        "not accepted7 messages forged",
        "not a real-time one",
    ] {
        assert!(facts.contains(fact), "{fact}: {facts}");
    }
    // Of a service only its own, and none of what a machine receives or of a machine without credits.
    browser.value("location.hash = '#m/m1/batch'");
    browser.wait("the service's flow", "document.querySelectorAll('#flows tbody tr').length === 1");
    assert_eq!(rows(&mut browser, "#flows tbody"), [expected[1]]);
    browser.value("document.querySelector('#direction [data-value=rx]').click()");
    browser.wait("no flows of the other direction", "document.getElementById('flows').hidden");
    browser.value("document.querySelector('#direction [data-value=tx]').click()");
    browser.wait("the flows again", "!document.getElementById('flows').hidden");
    if let Some(path) = std::env::var_os("WEIR_CREDITS_PICTURE") {
        browser.value("location.hash = '#m/m1'");
        browser.wait("both flows", "document.querySelectorAll('#flows tbody tr').length === 2");
        browser.picture(Path::new(&path));
    }
    browser.value("location.hash = '#m/m2'");
    browser.wait("no flows of the other machine", "document.getElementById('flows').hidden");
    assert_eq!(browser.problems, Vec::<String>::new());
}

#[test]
fn ports_that_grant_credits_are_shown_with_the_flows_that_they_hold() {
    let Some(mut browser) = Browser::start("ports with credits on the dashboard", 1400, 1000) else { return };
    let policy = policy();
    let shared = SharedStatus::new(&policy);
    let server = serve(&shared);
    let held = || vec![credit_flow("web", "10.0.0.2", "this port"), credit_flow("batch", "10.0.0.2", "elsewhere")];
    let mut other = forwarder(&policy, "r2", held());
    let Some(Status::Switch(status)) = other.status.as_deref() else { unreachable!("a switch") };
    other.status = Some(Arc::new(Status::Switch(SwitchStatus { policy: "0".repeat(16), ..status.clone() })));
    let mut lost = forwarder(&policy, "r3", held());
    lost.lost = Some(Lost { since: Instant::ZERO, why: "Connection refused (os error 111)".to_owned() });
    let mut silent =
        Liveness::new("http://10.0.1.8:30566".parse().expect("a source"), None).of(weir_observe::Whose::Switch);
    silent.lost = lost.lost.clone();
    // A switch without ports that grant credits needs no place.
    shared.with(|seen| seen.take(&view(&policy, Vec::new(), Vec::new())));
    browser.open(&format!("http://{}/", server.address()));
    browser.wait("the page", "document.getElementById('chart-title')?.textContent === 'r1 sends'");
    assert_eq!(hidden(&mut browser, "credits"), json!(true));
    let switches = vec![forwarder(&policy, "r1", held()), other, lost, silent];
    shared.with(|seen| seen.take(&view(&policy, Vec::new(), switches)));
    browser.wait("the ports", "document.querySelectorAll('#credit-ports tr').length === 3");
    let values = "6 Gb/s|2|2 ms|300 Mb/s|75 kB of 3 MB|1.5 kB|900 kB|3 kB|64 B|7";
    let names = ["r1 m2", "r2 m2another policy", "r3 m2lost for 10 s"];
    assert_eq!(rows(&mut browser, "#credit-ports"), names.map(|name| format!("{name}|{values}")));
    // The lost switch holds none.
    let flow = |at: &str| format!("{at} m2|web|m1|m2|1.5|300 Mb/s|900 Mb/s");
    assert_eq!(rows(&mut browser, "#held tbody"), ["r1", "r2"].map(flow));
    let note = text(&mut browser, "document.getElementById('credits-note').textContent");
    assert_eq!(note, "switch http://10.0.1.8:30566/status has no status: Connection refused (os error 111)");
    let filter = "document.getElementById('filter')";
    browser.value(&format!("{filter}.value = 'R2 M2'; {filter}.dispatchEvent(new Event('input'))"));
    browser.wait("the filter", "document.querySelectorAll('#credit-ports tr').length === 1");
    assert_eq!(rows(&mut browser, "#held tbody"), [flow("r2")]);
    let note = text(&mut browser, "document.getElementById('credits-note').textContent");
    assert!(note.starts_with("1 of 3 ports · 1 of 2 limited flows · "), "{note}");
    assert_eq!(browser.problems, Vec::<String>::new());
}

/// Names of a forged status are shown as they are, and run nothing.
#[test]
fn names_of_credits_stay_texts() {
    let Some(mut browser) = Browser::start("hostile credits on the dashboard", 1400, 1000) else { return };
    let hostile = "<img src=x onerror=\"document.title='owned'\">";
    let policy = policy();
    let shared = SharedStatus::new(&policy);
    let server = serve(&shared);
    let flow = |held_by| CreditFlow { source: hostile.to_owned(), ..credit_flow(hostile, hostile, held_by) };
    let mut switch = forwarder(&policy, hostile, vec![flow("this port")]);
    let Some(Status::Switch(status)) = switch.status.as_deref() else { unreachable!("a switch") };
    let mut status = status.clone();
    status.ports[0].differs = vec![hostile.repeat(1_000)];
    switch.status = Some(Arc::new(Status::Switch(status)));
    shared.with(|seen| seen.take(&view(&policy, vec![flow(hostile)], vec![switch])));
    browser.open(&format!("http://{}/#m/m1", server.address()));
    browser.wait("the flow", "document.querySelectorAll('#flows tbody tr').length === 1");
    browser.wait("the port", "document.querySelectorAll('#credit-ports tr').length === 1");
    assert_eq!(rows(&mut browser, "#flows tbody"), [format!("{hostile}|{hostile}|1.5|300 Mb/s|900 Mb/s|{hostile}")]);
    assert_eq!(
        rows(&mut browser, "#held tbody"),
        [format!("{hostile} m2|{hostile}|{hostile}|{hostile}|1.5|300 Mb/s|900 Mb/s")]
    );
    let why = text(&mut browser, "document.querySelector('#credit-ports .badge').title");
    assert!(why.starts_with(hostile) && why.len() == 200, "{why}");
    let made = "[document.images.length, document.scripts.length, document.title]";
    assert_eq!(browser.value(made), json!([0, 1, "Weir"]));
    assert_eq!(browser.problems, Vec::<String>::new());
}
