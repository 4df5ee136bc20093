//! The plugin in a real chain: bridge, host-local and weir-cni, executed by cnitool in namespaces of the test's own.

mod chain {
    pub(crate) mod host;
    pub(crate) mod transfer;
}

use chain::host::{Host, skipped};
use chain::transfer::{assert_rate, bytes_per_second, bytes_sent};
use serde_json::{Value, json};
use weir_units::Bandwidth;

const LIMIT: Bandwidth = Bandwidth::from_mbps(40);

#[test]
fn each_direction_is_limited_and_del_leaves_nothing() {
    if skipped() {
        return;
    }
    for version in ["0.4.0", "1.0.0"] {
        let host = Host::new("wcnia", version, json!({}));
        let [web, other] = [host.pod("web"), host.pod("other")];
        let limits = json!({"bandwidth": {"ingressRate": LIMIT.bps(), "egressRate": 2 * LIMIT.bps()}});
        let before = host.qdiscs();
        let result = host.add(&web, &limits);
        host.add(&other, &json!({}));
        assert_eq!(result["cniVersion"], version);
        host.check(&web, &limits);
        let record = host.record("web");
        assert_eq!((&record["namespace"], &record["name"]), (&json!("shop"), &json!("web")));
        assert_eq!((&record["ingress_bps"], &record["egress_bps"]), (&json!(40_000_000), &json!(80_000_000)));
        let address = result["ips"][0]["address"].as_str().expect("an address");
        assert_eq!(record["addresses"][0].as_str(), address.split('/').next());
        let interface = record["host_interface"]["name"].as_str().expect("a name");
        assert!(host.netns().ip(["link", "show", "dev", interface]).is_ok(), "{interface}");
        assert!(host.qdiscs().contains(&format!("qdisc tbf 7770: dev {interface} root")), "{}", host.qdiscs());
        assert!(web.qdiscs().contains("qdisc tbf 7770: dev eth0 root"), "{}", web.qdiscs());
        assert!(!other.qdiscs().contains("tbf"), "{}", other.qdiscs());

        assert_rate(bytes_per_second(&other, &web), LIMIT);
        assert_rate(bytes_per_second(&web, &other), Bandwidth::from_bps(2 * LIMIT.bps()));

        host.del(&web, &limits);
        host.del(&web, &limits);
        assert!(host.record("web").is_null());
        assert!(!web.qdiscs().contains("tbf") && !host.qdiscs().contains("tbf"), "{}", host.qdiscs());
        host.del(&other, &json!({}));
        assert_eq!(host.records(), Vec::<String>::new());
        assert_eq!(
            host.qdiscs().lines().filter(|line| !line.contains("wbr0")).collect::<String>().trim(),
            before.trim()
        );
    }
}

#[test]
fn changed_and_missing_limits_are_reported_by_check() {
    if skipped() {
        return;
    }
    let host = Host::new("wcnib", "1.0.0", json!({}));
    let web = host.pod("web");
    let annotations =
        json!({"io.kubernetes.cri.pod-annotations": {"kubernetes.io/egress-bandwidth": "40M", "other": "x"}});
    host.add(&web, &annotations);
    host.check(&web, &annotations);
    let refused = |what: &str, limits: &Value| {
        let text = host.check_refused(&web, limits);
        assert!(text.contains(what), "{text}");
    };
    let other = json!({"io.kubernetes.cri.pod-annotations": {"kubernetes.io/egress-bandwidth": "50M"}});
    refused("eth0 is limited to 40 Mb/s instead of 50 Mb/s", &other);
    refused("eth0 has a limit, and the pod has none in this direction", &json!({}));
    web.tc("qdisc del dev eth0 root");
    refused("eth0 has no limit", &annotations);
    host.add_again(&web, &annotations);
    host.check(&web, &annotations);
    std::fs::remove_file(host.record_path("web")).expect("removed");
    refused("does not exist", &annotations);
    host.del(&web, &annotations);
}

#[test]
fn refused_limits_leave_no_record_and_no_qdisc() {
    if skipped() {
        return;
    }
    let host = Host::new("wcnic", "1.0.0", json!({}));
    let web = host.pod("web");
    let annotations = json!({"io.kubernetes.cri.pod-annotations": {"kubernetes.io/egress-bandwidth": "40m"}});
    let text = host.add_refused(&web, &annotations);
    assert!(text.contains("m stands for thousandths; for megabits per second write 40M"), "{text}");
    host.del(&web, &annotations);
    assert_eq!(host.records(), Vec::<String>::new());
    // A qdisc of another program stays, and the plugin refuses to replace it.
    let limits = json!({"bandwidth": {"egressRate": LIMIT.bps()}});
    host.add(&web, &json!({}));
    web.tc("qdisc add dev eth0 root handle 1: pfifo");
    let text = host.add_again_refused(&web, &limits);
    assert!(text.contains("eth0 has the qdisc pfifo 1:, which weir-cni has not put there"), "{text}");
    assert!(web.qdiscs().contains("pfifo 1:"), "{}", web.qdiscs());
    host.del(&web, &limits);
    assert!(web.qdiscs().is_empty() || !web.qdiscs().contains("tbf"));
}

#[test]
fn status_and_collection_work_on_a_real_host() {
    if skipped() {
        return;
    }
    let host = Host::new("wcnid", "1.0.0", json!({}));
    let [kept, gone] = [host.pod("kept"), host.pod("gone")];
    let limits = json!({"bandwidth": {"ingressRate": LIMIT.bps()}});
    for pod in [&kept, &gone] {
        host.add(pod, &limits);
    }
    assert_eq!(host.plugin("STATUS", json!({})), Ok(String::new()));
    let valid = json!([{"containerID": kept.container(), "ifname": "eth0"}]);
    assert_eq!(host.plugin("GC", json!({"cni.dev/valid-attachments": valid})), Ok(String::new()));
    assert!(host.record("gone").is_null());
    let interface = &host.record("kept")["host_interface"]["name"];
    let qdiscs = host.qdiscs();
    let limited: Vec<&str> = qdiscs.lines().filter(|line| line.contains("tbf")).collect();
    assert_eq!(limited.len(), 1, "{qdiscs}");
    assert!(limited[0].contains(interface.as_str().expect("a name")), "{qdiscs}");
    let directory = host.directory().join("file");
    std::fs::write(&directory, "").expect("written");
    let error = host.plugin("STATUS", json!({"records": directory})).expect_err("not ready");
    assert!(error.contains("\"code\":50"), "{error}");
    for pod in [&kept, &gone] {
        host.del(pod, &limits);
    }
}

#[test]
fn small_messages_pass_bulk_traffic_of_their_own_pod() {
    if skipped() {
        return;
    }
    let host = Host::new("wcnie", "1.0.0", json!({}));
    let [web, other] = [host.pod("web"), host.pod("other")];
    let limits = json!({"bandwidth": {"egressRate": LIMIT.bps()}});
    host.add(&web, &limits);
    host.add(&other, &json!({}));
    // Bulk data fills the queue; the order of departures is what is asserted, and no time.
    let early = bytes_sent(&web, &other);
    assert!(early < 1_000_000, "{early} bytes of bulk data left before a message that was sent behind 4 MB");
    host.del(&web, &limits);
    host.del(&other, &json!({}));
}
