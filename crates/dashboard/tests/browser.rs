//! The page in a real browser, over made-up machines.

mod common;

use common::browser::Browser;
use common::made_up;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_dashboard::{Config, Shared};
use weir_observe::{Liveness, Publisher, Server, Source, server};
use weir_policy::Policy;
use weir_status::{FabricStatus, Status};
use weir_units::MachineId;

/// A machine's server with something that moves on every second.
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

/// Publishes what all machines say, second after second, until this is dropped.
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

/// What rows of the tree say, cell by cell, joined with `|`.
const ROWS: &str = "[...document.querySelectorAll('#tree tbody tr')].map((row) => [...row.children].map((cell) => \
                    cell.textContent).join('|'))";

fn rows(browser: &mut Browser) -> Vec<String> {
    serde_json::from_value(browser.value(ROWS)).expect("texts")
}

#[test]
fn machines_come_move_and_are_lost() {
    let Some(mut browser) = Browser::start("the dashboard in a browser", 1440, 900) else { return };
    let policy = made_up::policy(2, 2, 4);
    let mut agents: Vec<Agent> = ["m1", "m2", "m3", "m4"].map(agent).into();
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
    };
    let dashboard = weir_dashboard::start(listen(), config).expect("starts");
    browser.open(&format!("http://{}/", dashboard.address()));

    // Racks are open, machines closed; numbers come.
    // The third cell is the usage; a rack's is the sum of its machines that have answered.
    browser.wait(
        "usage of all machines",
        &format!("{ROWS}.filter((row) => row.split('|')[2].includes('b/s')).length === 6"),
    );
    browser.wait("answers of all machines", &format!("{ROWS}.every((row) => !row.includes('no answer'))"));
    browser.wait("the fabric broker", "document.getElementById('summary').textContent.includes('hears 2 of 2')");
    let shown = rows(&mut browser);
    assert!(shown[0].starts_with("▸r1|") && shown[1].starts_with("▸m1|") && shown[3].starts_with("▸r2|"), "{shown:?}");
    let summary = browser.value("document.getElementById('summary').textContent");
    let summary = summary.as_str().expect("a text");
    assert!(summary.starts_with("2 racks, 4 machines, 4 services · fabric broker f1 hears 2 of 2 racks"), "{summary}");
    // The first rack is chosen, and its chart has what its services use.
    assert_eq!(browser.value("document.getElementById('chart-title').textContent"), "r1 sends");
    browser.wait("a chart", "document.querySelectorAll('#chart svg path[class^=c]').length >= 3");
    // m2 backs nothing up, m1 does, at its maximum; batch work is held by the rack on the machines where it runs.
    let limited = browser.value("document.getElementById('limited').textContent");
    let limited = limited.as_str().expect("a text");
    assert!(limited.contains("max of backup at machine holds 2"), "{limited}");
    assert!(limited.contains("backup on m1 ") && !limited.contains("backup on m2 "), "{limited}");
    assert!(limited.contains("rack r1 holds") && limited.contains("batch on m1 "), "{limited}");

    // By keyboard: into the tree, down to m1, open it, down to `web`, its last service, choose it.
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
    let facts = browser.value("document.getElementById('facts').textContent");
    assert!(facts.as_str().is_some_and(|facts| facts.contains("latency bound")), "{facts}");
    assert_eq!(browser.value("decodeURIComponent(location.hash)"), "#m/m1/web");
    // The chart reads by keys.
    browser.value("document.querySelector('#chart svg').focus()");
    browser.key("ArrowLeft");
    browser.wait("a reading", "document.getElementById('reading').textContent.includes('decided by demand')");

    // Received: other numbers.
    let sent = rows(&mut browser)[1].clone();
    browser.value("document.querySelector('#direction [data-value=rx]').click()");
    browser.wait("what is received", "document.getElementById('chart-title').textContent === 'web on m1 receives'");
    assert_ne!(rows(&mut browser)[1], sent);
    // Numbers move.
    let before = rows(&mut browser);
    browser.wait(
        "movement",
        &format!("JSON.stringify({ROWS}) !== {}", Value::from(serde_json::to_string(&before).expect("JSON"))),
    );

    // Filtered by what decides.
    let filter = |words: &str| {
        format!(
            "(() => {{ const box = document.getElementById('filter'); box.value = '{words}'; box.dispatchEvent(new Event('input')); }})()"
        )
    };
    browser.value(&filter("backup max m3"));
    let shown: Vec<String> =
        rows(&mut browser).iter().map(|row| row.split('|').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(shown, ["▸r2", "▸m3", "backup"]);
    browser.value(&filter(""));

    // m4's agent goes.
    drop(agents.pop());
    browser.wait("a lost machine", &format!("{ROWS}.some((row) => row.startsWith('▸m4lost for'))"));
    browser.wait("the summary says so", "document.getElementById('summary').textContent.includes('1 lost')");
    assert_eq!(browser.problems, Vec::<String>::new());

    // Dark, as the system says, and then as somebody chooses.
    let dark = json!({ "features": [ { "name": "prefers-color-scheme", "value": "dark" } ] });
    let theme = "document.documentElement.dataset.theme";
    assert_eq!(browser.value(theme), "light");
    browser.call("Emulation.setEmulatedMedia", dark);
    browser.wait("dark", &format!("{theme} === 'dark'"));
    browser.value("document.getElementById('theme').click()");
    assert_eq!(browser.value(theme), "light");

    // The dashboard goes: what is shown is told to be old.
    drop(dashboard);
    browser.wait("trouble", "!document.getElementById('trouble').hidden");
    drop(moving);
}

/// What a screen reader is told.
#[test]
fn the_page_can_be_used_without_seeing_it() {
    let Some(mut browser) = Browser::start("the dashboard's accessibility", 1200, 800) else { return };
    let policy = made_up::policy(1, 2, 4);
    let shared = Shared::new(&policy);
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
    assert_eq!(named("searchbox"), ["Filter by machine, service or what decides"]);
    let charts: Vec<&str> = named("image").into_iter().chain(named("img")).collect();
    assert!(
        charts.iter().any(
            |name| name.starts_with("web on m1 over 300 s: now ") || name.starts_with("web on m1 over 5 min: now ")
        ),
        "{charts:?}"
    );
    assert!(named("button").iter().all(|name| !name.is_empty()), "{:?}", named("button"));
    // One row of the tree, one choice of each group: few stops for who walks by Tab.
    let stops = browser.value("[...document.querySelectorAll('button, input, tr, svg')].filter((one) => one.tabIndex === 0 && one.getClientRects().length && !one.closest('#limited')).length");
    assert_eq!(stops, 6);
    assert_eq!(browser.problems, Vec::<String>::new());
}

/// 100 machines with 20 services: a refresh takes a part of the second that there is for it.
#[test]
fn a_hundred_machines_are_no_trouble() {
    let Some(mut browser) = Browser::start("a dashboard of 100 machines", 1440, 900) else { return };
    let policy = made_up::policy(5, 20, 20);
    let shared = Shared::new(&policy);
    let server = weir_dashboard::serve(listen(), shared.clone()).expect("starts");
    let take =
        |shared: &Shared, policy: &Policy, second| shared.with(|seen| seen.take(&made_up::view(policy, second, 9)));
    take(&shared, &policy, 0);
    take(&shared, &policy, 1);
    browser.open(&format!("http://{}/", server.address()));
    browser.wait("all racks", &format!("{ROWS}.filter((row) => row.split('|')[2].includes('b/s')).length === 5"));
    // All open: 5 + 100 + 2,000 rows.
    browser.value("(() => { const box = document.getElementById('filter'); box.value = 'm'; box.dispatchEvent(new Event('input')); })()");
    assert_eq!(browser.value("document.querySelectorAll('#tree tbody tr').length"), 2_105);
    take(&shared, &policy, 2);
    let asked = browser.value(
        "(async () => { const start = performance.now(); const answer = await (await fetch('/api/now?direction=tx')).text(); \
         const fetched = performance.now(); const box = document.getElementById('filter'); box.dispatchEvent(new Event('input')); \
         document.body.offsetHeight; return [answer.length, fetched - start, performance.now() - fetched]; })()",
    );
    let [bytes, fetching, drawing] = [0, 1, 2].map(|at| asked[at].as_f64().expect("a number"));
    eprintln!("2,105 rows: {bytes} bytes in {fetching:.0} ms, drawn in {drawing:.0} ms");
    assert!(bytes < 300_000.0, "{bytes}");
    // Far below on an idle machine; this one may be building.
    assert!(drawing < 3_000.0, "{drawing} ms");
    assert_eq!(browser.problems, Vec::<String>::new());
}

/// Draws the picture of the documents where `WEIR_PICTURE` names a file (`make pictures`), and otherwise looks whether
/// one comes out.
#[test]
fn the_picture_of_the_documents() {
    let Some(mut browser) = Browser::start("the dashboard's picture", 1400, 780) else { return };
    let policy = made_up::policy(2, 6, 4);
    let shared = Shared::new(&policy);
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
