//! The page in a real browser, over made-up machines.

mod common;

use common::browser::Browser;
use common::made_up;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_dashboard::{Config, SharedStatus};
use weir_observe::{Liveness, Publisher, Server, Source, server};
use weir_policy::Policy;
use weir_status::{FabricStatus, Status};
use weir_units::MachineId;

/// The server of a machine, with a publisher for its statuses.
struct Agent {
    server: Server,
    publisher: Arc<Publisher>,
}

fn listen() -> std::net::TcpListener {
    server::listen("127.0.0.1:0".parse().expect("an address")).expect("listens")
}

fn agent(name: &str) -> Agent {
    let publisher = Arc::new(Publisher::new());
    let reader = publisher.reader();
    let server = server::start(name, listen(), server::Limits::default(), move || reader.router()).expect("starts");
    Agent { server, publisher }
}

/// Publishes the statuses of all machines, second after second, until this is dropped.
struct Moving {
    stop: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Moving {
    #[expect(clippy::disallowed_methods, reason = "made-up machines live in real time")]
    fn start(work: impl Fn(u64) + Send + 'static) -> Self {
        let stop = Arc::new(AtomicU64::new(0));
        let stopped = Arc::clone(&stop);
        let run = move || {
            let mut tick = 0_u64;
            while stopped.load(Ordering::Relaxed) == 0 {
                if tick.is_multiple_of(20) {
                    work(tick / 20);
                }
                tick += 1;
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        };
        let thread = std::thread::Builder::new().spawn(run).expect("a thread");
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.stop.store(1, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("ends");
        }
    }
}

/// The texts of the tree's rows, cell by cell, joined with `|`.
const ROWS: &str = "[...document.querySelectorAll('#tree tbody tr')].map((row) => [...row.children].map((cell) => \
                    cell.textContent).join('|'))";

fn rows(browser: &mut Browser) -> Vec<String> {
    serde_json::from_value(browser.value(ROWS)).expect("texts")
}

/// A dashboard over four machines and a fabric broker whose statuses move.
struct Moved {
    browser: Browser,
    agents: Vec<Agent>,
    dashboard: Server,
    _fabric: Agent,
    _moving: Moving,
}

fn moved(mut browser: Browser) -> Moved {
    let policy = made_up::policy(2, 2, 4);
    let agents: Vec<Agent> = ["m1", "m2", "m3", "m4"].map(agent).into();
    let fabric = agent("f1");
    let publishers: Vec<Arc<Publisher>> = agents.iter().map(|agent| Arc::clone(&agent.publisher)).collect();
    let fabric_publisher = Arc::clone(&fabric.publisher);
    let moving_policy = Arc::clone(&policy);
    let moving = Moving::start(move |second| {
        for (index, publisher) in publishers.iter().enumerate() {
            publisher.publish(Status::Agent(made_up::status(&moving_policy, index, 120 + second)));
        }
        let mut status = FabricStatus::outline(&moving_policy, "f1", 1);
        (status.leads, status.racks_reporting, status.written_ms) = (true, 2, second + 1);
        fabric_publisher.publish(Status::Fabric(status));
    });
    let source = |agent: &Agent| Source::at(agent.server.address());
    let named = |(index, agent): (usize, &Agent)| {
        let name = policy.network().machine(MachineId(index as u32)).name();
        Liveness::new(source(agent), Some(name.to_owned()))
    };
    let config = Config {
        policy: Arc::clone(&policy),
        machines: agents.iter().enumerate().map(named).collect(),
        fabric: vec![Liveness::new(source(&fabric), None)],
        switches: Vec::new(),
    };
    let dashboard = weir_dashboard::start(listen(), config).expect("starts");
    browser.open(&format!("http://{}/", dashboard.address()));
    // Racks are open, machines closed.
    // The third cell is the usage; a rack's is the sum of its machines with a status.
    browser.wait(
        "usage of all machines",
        &format!("{ROWS}.filter((row) => row.split('|')[2].includes('b/s')).length === 6"),
    );
    browser.wait("statuses of all machines", &format!("{ROWS}.every((row) => !row.includes('no status'))"));
    let leads = "document.getElementById('summary').textContent.includes('from 2 of 2')";
    browser.wait("the fabric broker", leads);
    Moved { browser, agents, dashboard, _fabric: fabric, _moving: moving }
}

fn text(browser: &mut Browser, id: &str) -> String {
    let text = browser.value(&format!("document.getElementById('{id}').textContent"));
    text.as_str().expect("a text").to_owned()
}

#[test]
fn machines_are_shown_with_their_limits() {
    let Some(browser) = Browser::start("the dashboard in a browser", 1440, 900) else { return };
    let mut moved = moved(browser);
    let browser = &mut moved.browser;
    let shown = rows(browser);
    assert!(shown[0].starts_with("▸r1|") && shown[1].starts_with("▸m1|") && shown[3].starts_with("▸r2|"), "{shown:?}");
    let summary = text(browser, "summary");
    let expected = "2 racks, 4 machines, 4 services · fabric broker f1 leads with reports from 2 of 2 racks";
    assert!(summary.starts_with(expected), "{summary}");
    // The first rack is chosen, and its chart has the usage of its services.
    assert_eq!(text(browser, "chart-title"), "r1 sends");
    browser.wait("a chart", "document.querySelectorAll('#chart svg path[class^=c]').length >= 3");
    // m2 has no backup; m1 has one at its maximum; the rack limits batch work on the machines where it runs.
    let limited = text(browser, "limited");
    assert!(limited.contains("max of backup at machine limits 2"), "{limited}");
    assert!(limited.contains("backup on m1 ") && !limited.contains("backup on m2 "), "{limited}");
    assert!(limited.contains("rack r1 limits") && limited.contains("batch on m1 "), "{limited}");
    assert_eq!(browser.problems, Vec::<String>::new());
}

#[test]
fn keys_choose_a_service_and_read_its_chart() {
    let Some(browser) = Browser::start("the dashboard's keys", 1440, 900) else { return };
    let mut moved = moved(browser);
    let browser = &mut moved.browser;
    // Into the tree, down to m1, open it, down to `web`, its last service, choose it.
    browser.value("document.querySelector('#tree tbody tr').focus()");
    for key in ["ArrowDown", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "Enter"] {
        browser.key(key);
    }
    browser.wait("the service's chart", "document.getElementById('chart-title').textContent === 'web on m1 sends'");
    let chosen = browser.value("document.activeElement.textContent");
    let chosen = chosen.as_str().expect("a text");
    assert!(chosen.starts_with("web") && chosen.contains("2 Gb/s") && chosen.ends_with("demand"), "{chosen}");
    browser.wait("its usage", "document.querySelector('#chart svg path.usage')?.getAttribute('d').length > 10");
    assert!(browser.value("document.querySelector('#chart svg path.guarantee') !== null") == json!(true));
    let facts = text(browser, "facts");
    assert!(facts.contains("latency bound"), "{facts}");
    assert_eq!(browser.value("decodeURIComponent(location.hash)"), "#m/m1/web");
    // Arrow keys read the chart.
    browser.value("document.querySelector('#chart svg').focus()");
    browser.key("ArrowLeft");
    browser.wait("a reading", "document.getElementById('reading').textContent.includes('decided by demand')");
    assert_eq!(browser.problems, Vec::<String>::new());
}

#[test]
fn values_move_and_are_filtered() {
    let Some(browser) = Browser::start("moving values of the dashboard", 1440, 900) else { return };
    let mut moved = moved(browser);
    let browser = &mut moved.browser;
    // Received: other values.
    let sent = rows(browser)[1].clone();
    browser.value("document.querySelector('#direction [data-value=rx]').click()");
    browser.wait("the other direction", "document.getElementById('chart-title').textContent === 'r1 receives'");
    assert_ne!(rows(browser)[1], sent);
    // Values move.
    let before = Value::from(serde_json::to_string(&rows(browser)).expect("JSON"));
    browser.wait("movement", &format!("JSON.stringify({ROWS}) !== {before}"));
    // Filtered by the deciding constraint.
    let filter = |words: &str| {
        format!(
            "(() => {{ const box = document.getElementById('filter'); box.value = '{words}'; \
             box.dispatchEvent(new Event('input')); }})()"
        )
    };
    browser.value(&filter("backup max m3"));
    let shown: Vec<String> =
        rows(browser).iter().map(|row| row.split('|').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(shown, ["▸r2", "▸m3", "backup"]);
    assert_eq!(browser.problems, Vec::<String>::new());
}

#[test]
fn lost_machine_and_lost_dashboard_are_reported() {
    let Some(browser) = Browser::start("losses on the dashboard", 1440, 900) else { return };
    let mut moved = moved(browser);
    let browser = &mut moved.browser;
    drop(moved.agents.pop());
    browser.wait("a lost machine", &format!("{ROWS}.some((row) => row.startsWith('▸m4lost for'))"));
    browser.wait("it in the summary", "document.getElementById('summary').textContent.includes('1 lost')");
    assert_eq!(browser.problems, Vec::<String>::new());
    drop(moved.dashboard);
    browser.wait("trouble", "!document.getElementById('trouble').hidden");
}

#[test]
fn theme_follows_the_system_until_it_is_chosen() {
    let Some(mut browser) = Browser::start("the dashboard's theme", 1440, 900) else { return };
    let policy = made_up::policy(1, 2, 4);
    let server = weir_dashboard::serve(listen(), SharedStatus::new(&policy)).expect("starts");
    browser.open(&format!("http://{}/", server.address()));
    let dark = json!({ "features": [ { "name": "prefers-color-scheme", "value": "dark" } ] });
    // Right after the navigation there is no root element yet.
    let theme = "document.documentElement?.dataset.theme";
    browser.wait("a theme", &format!("{theme} === 'light'"));
    browser.call("Emulation.setEmulatedMedia", dark);
    browser.wait("dark", &format!("{theme} === 'dark'"));
    browser.value("document.getElementById('theme').click()");
    assert_eq!(browser.value(theme), "light");
    assert_eq!(browser.problems, Vec::<String>::new());
}

/// The roles and names for a screen reader.
#[test]
fn page_has_roles_and_names_for_screen_readers() {
    let Some(mut browser) = Browser::start("the dashboard's accessibility", 1200, 800) else { return };
    let policy = made_up::policy(1, 2, 4);
    let shared = SharedStatus::new(&policy);
    let server = weir_dashboard::serve(listen(), shared.clone()).expect("starts");
    for second in 0..20 {
        shared.with(|seen| seen.take(&made_up::view(&policy, second, 1_000)));
    }
    browser.open(&format!("http://{}/#m/m1/web", server.address()));
    browser.wait("a chart", "document.querySelector('#chart svg path.usage')");
    let tree = browser.call("Accessibility.getFullAXTree", json!({}));
    let nodes: Vec<(String, String)> = tree["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .filter(|node| node["ignored"] == false)
        .map(|node| {
            (
                node["role"]["value"].as_str().unwrap_or_default().to_owned(),
                node["name"]["value"].as_str().unwrap_or_default().to_owned(),
            )
        })
        .collect();
    let named =
        |role: &str| nodes.iter().filter(|(of, _)| of == role).map(|(_, name)| name.as_str()).collect::<Vec<_>>();
    assert_eq!(named("treegrid"), ["Racks, machines and services"]);
    assert_eq!(named("heading"), ["Weir", "Racks, machines, services", "web on m1 sends", "Limited now"]);
    assert_eq!(named("radiogroup"), ["Direction", "Time shown"]);
    assert_eq!(named("searchbox"), ["Filter by machine, service or constraint"]);
    let charts: Vec<&str> = named("image").into_iter().chain(named("img")).collect();
    assert!(
        charts.iter().any(
            |name| name.starts_with("web on m1 over 300 s: now ") || name.starts_with("web on m1 over 5 min: now ")
        ),
        "{charts:?}"
    );
    assert!(named("button").iter().all(|name| !name.is_empty()), "{:?}", named("button"));
    // One row of the tree and one choice of each group: few stops of the Tab key.
    let stops = browser.value(
        "[...document.querySelectorAll('button, input, tr, svg')].filter((one) => one.tabIndex === 0 \
         && one.getClientRects().length && !one.closest('#limited')).length",
    );
    assert_eq!(stops, 6);
    assert_eq!(browser.problems, Vec::<String>::new());
}

/// 100 machines with 20 services: a refresh takes a part of its second.
#[test]
fn hundred_machines_are_refreshed_in_time() {
    let Some(mut browser) = Browser::start("a dashboard of 100 machines", 1440, 900) else { return };
    let policy = made_up::policy(5, 20, 20);
    let shared = SharedStatus::new(&policy);
    let server = weir_dashboard::serve(listen(), shared.clone()).expect("starts");
    let take = |shared: &SharedStatus, policy: &Policy, second| {
        shared.with(|seen| seen.take(&made_up::view(policy, second, 9)))
    };
    take(&shared, &policy, 0);
    take(&shared, &policy, 1);
    browser.open(&format!("http://{}/", server.address()));
    browser.wait("all racks", &format!("{ROWS}.filter((row) => row.split('|')[2].includes('b/s')).length === 5"));
    // All open: 5 + 100 + 2,000 rows.
    browser.value(
        "(() => { const box = document.getElementById('filter'); box.value = 'm'; \
         box.dispatchEvent(new Event('input')); })()",
    );
    assert_eq!(browser.value("document.querySelectorAll('#tree tbody tr').length"), 2_105);
    take(&shared, &policy, 2);
    let times = browser.value(
        "(async () => { const start = performance.now(); \
         const text = await (await fetch('/api/now?direction=tx')).text(); const fetched = performance.now(); \
         const box = document.getElementById('filter'); box.dispatchEvent(new Event('input')); \
         document.body.offsetHeight; return [text.length, fetched - start, performance.now() - fetched]; })()",
    );
    let [bytes, fetching, drawing] = [0, 1, 2].map(|at| times[at].as_f64().expect("a number"));
    eprintln!("2,105 rows: {bytes} bytes in {fetching:.0} ms, drawn in {drawing:.0} ms");
    assert!(bytes < 300_000.0, "{bytes}");
    // The value is far below on an idle machine; this one may be building.
    assert!(drawing < 3_000.0, "{drawing} ms");
    assert_eq!(browser.problems, Vec::<String>::new());
}

/// Draws the picture of the documents into the file of `WEIR_PICTURE` (`make pictures`), or else checks that a
/// picture can be drawn.
#[test]
fn picture_of_the_documents_is_drawn() {
    let Some(mut browser) = Browser::start("the dashboard's picture", 1400, 780) else { return };
    let policy = made_up::policy(2, 6, 4);
    let shared = SharedStatus::new(&policy);
    let server = weir_dashboard::serve(listen(), shared.clone()).expect("starts");
    const UNTIL: u64 = 580;
    for second in 0..UNTIL {
        shared.with(|seen| seen.take(&made_up::view(&policy, second, UNTIL)));
    }
    let (moving, moving_policy) = (shared.clone(), Arc::clone(&policy));
    let _moving = Moving::start(move |second| {
        moving.with(|seen| seen.take(&made_up::view(&moving_policy, UNTIL + second, UNTIL)))
    });
    browser.open(&format!("http://{}/#m/m1/batch", server.address()));
    browser.wait("a chart", "document.querySelector('#chart svg path.limit')?.getAttribute('d').length > 100");
    let directory = tempfile::tempdir().expect("a directory");
    let named = std::env::var_os("WEIR_PICTURE");
    let path = named.as_ref().map_or_else(|| directory.path().join("dashboard.png"), |path| Path::new(path).to_owned());
    browser.picture(&path);
    let size = std::fs::metadata(&path).expect("written").len();
    assert!((20_000..400_000).contains(&size), "{size} bytes");
    assert_eq!(browser.problems, Vec::<String>::new());
}
