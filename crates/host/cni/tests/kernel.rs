//! Limits in the kernel, and the plugin on real interfaces without other plugins: the queue inside is fq_codel where
//! the kernel has it, what is installed passes CHECK, and a result passes unchanged.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use weir_cni::link::{at, named, socket};
use weir_cni::shaper::{End, Queue, Shaper, check_absent, probe, remove};
use weir_linux::netns::{Netns, Prefix, connect, scratch};
use weir_units::Bandwidth;

/// True, with a line of output, if this process may not make namespaces.
fn skipped() -> bool {
    // SAFETY: plain system call without arguments.
    if unsafe { libc::geteuid() } == 0 {
        return false;
    }
    assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set, and namespaces need root");
    std::io::stderr().write_all(b"skipped: namespaces need root\n").expect("standard error takes a line");
    true
}

/// Whether tc can attach the qdisc.
fn has(kind: &str) -> bool {
    let attached = || Command::new("tc").args(["qdisc", "add", "dev", "lo", "root", kind]).output().expect("tc");
    scratch(|| attached().status.success()).expect("a namespace")
}

#[test]
fn queue_inside_a_limit_is_fair_where_the_kernel_has_it() {
    if skipped() {
        return;
    }
    let expected = if has("fq_codel") { Queue::FqCodel } else { Queue::Bfifo };
    println!("{expected}");
    assert_eq!(probe().expect("a limit"), expected);
}

#[test]
fn installed_limits_pass_check_and_others_do_not() {
    if skipped() {
        return;
    }
    for mbps in [1, 10, 400, 40_000, 1_000_000] {
        for end in [End::Pod, End::Host] {
            scratch(|| {
                let mut socket = socket().expect("a socket");
                let lo = named(&mut socket, "lo").expect("netlink").expect("lo");
                assert_eq!(at(&mut socket, lo.index).expect("netlink").as_ref(), Some(&lo));
                assert_eq!(named(&mut socket, "none0").expect("netlink"), None);
                let shaper = Shaper::new(Bandwidth::from_mbps(mbps), lo.mtu, end);
                check_absent(&mut socket, &lo).expect("nothing before");
                shaper.check(&mut socket, &lo).expect_err("nothing before");
                // The second replaces the first.
                Shaper::new(Bandwidth::from_mbps(7), lo.mtu, end).install(&mut socket, &lo).expect("installed");
                shaper.check(&mut socket, &lo).expect_err("another rate");
                shaper.install(&mut socket, &lo).expect("installed");
                let found = named(&mut socket, "lo").expect("netlink").expect("lo");
                shaper.check(&mut socket, &found).expect("as installed");
                // The segments of the link before: the kernel's default, which is a valid number at 1 Tb/s.
                assert_eq!(shaper.check(&mut socket, &lo).is_err(), end == End::Pod && mbps < 1_000_000);
                // After a change of the MTU the numbers of ADD would be others.
                let changed = Command::new("ip").args(["link", "set", "lo", "mtu", "1400"]).status().expect("ip");
                assert!(changed.success());
                let smaller = named(&mut socket, "lo").expect("netlink").expect("lo");
                let shaper_now = Shaper::new(Bandwidth::from_mbps(mbps), smaller.mtu, end);
                shaper_now.check(&mut socket, &smaller).expect("as installed");
                assert_eq!(found.segments, if end == End::Pod { Some(shaper.segments) } else { lo.segments });
                check_absent(&mut socket, &lo).expect_err("a limit");
                remove(&mut socket, &lo, end).expect("removed");
                remove(&mut socket, &lo, end).expect("nothing left");
                check_absent(&mut socket, &lo).expect("nothing left");
            })
            .expect("a namespace");
        }
    }
}

/// Runs the plugin's function in a namespace; its output, or its error.
fn plugin(host: &Netns, verb: &str, pod: &Netns, interface: &str, input: &str) -> Result<String, String> {
    plugin_of("4f1a", host, verb, pod, interface, input)
}

/// The same for another container.
fn plugin_of(
    container: &str,
    host: &Netns,
    verb: &str,
    pod: &Netns,
    interface: &str,
    input: &str,
) -> Result<String, String> {
    let variable = |name: &str| match name {
        "CNI_COMMAND" => Some(verb.into()),
        "CNI_CONTAINERID" => Some(container.into()),
        "CNI_IFNAME" => Some(interface.into()),
        "CNI_ARGS" => Some("K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-1;K8S_POD_UID=11e7".into()),
        "CNI_NETNS" => Some(format!("/run/netns/{}", pod.name()).into()),
        _ => None,
    };
    host.run(|| weir_cni::run(variable, input.as_bytes())).expect("inside")
}

fn configuration(version: &str, records: &Path, previous: &str) -> String {
    let records = records.display();
    format!(
        r#"{{"cniVersion": "{version}", "name": "pods", "type": "weir-cni", "records": "{records}",
        "ingressRate": 20000000, "egressRate": 10000000, "prevResult": {previous}}}"#
    )
}

#[test]
fn previous_result_is_passed_on_byte_for_byte_in_each_version() {
    if skipped() {
        return;
    }
    let prefix = Prefix::new("wcnif").expect("a prefix");
    prefix.cleanup().expect("clean up after an earlier run");
    let [host, pod] = ["host", "pod"].map(|name| prefix.create(name).expect("a namespace"));
    connect((&host, "veth3", None), (&pod, "eth0", None)).expect("a cable");
    let records = tempfile::tempdir().expect("a directory");
    for version in ["0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        // Keys that no version has, numbers beyond 64 bits, and blanks.
        let previous = format!(
            r#"{{ "cniVersion":"{version}","x": 123456789012345678901234567890.5e+3 ,"ips":[{{"version":"4",
            "address":"10.1.0.5/16"}}], "dns":{{}},"interfaces":[ {{"name":"veth3"}}]	}}"#
        );
        let input = configuration(version, records.path(), &previous);
        let run = |verb| plugin(&host, verb, &pod, "eth0", &input);
        assert_eq!(run("ADD"), Ok(format!("{previous}\n")));
        let record = std::fs::read_to_string(records.path().join("attachment-4f1a:eth0.json")).expect("a record");
        for part in ["\"name\": \"veth3\"", "\"uid\": \"11e7\"", "\"10.1.0.5\"", "\"egress_bps\": 10000000"] {
            assert!(record.contains(part), "{record}");
        }
        if version != "0.3.1" {
            assert_eq!(run("CHECK"), Ok(String::new()));
            // systemd-udevd assigns another address once the plugins have run.
            host.ip(["link", "set", "dev", "veth3", "address", "0a:00:00:00:00:07"]).expect("an address");
            assert_eq!(run("CHECK"), Ok(String::new()));
        }
        assert_eq!(run("DEL"), Ok(String::new()));
        assert_eq!(std::fs::read_dir(records.path()).expect("listed").count(), 0);
    }
}

/// The number of limits in a namespace.
fn limits(netns: &Netns) -> usize {
    let output = netns.command("tc").expect("tc").args(["qdisc", "show"]).output().expect("tc");
    String::from_utf8_lossy(&output.stdout).matches("qdisc tbf").count()
}

#[test]
fn limits_of_another_pod_at_the_path_stay() {
    if skipped() {
        return;
    }
    let prefix = Prefix::new("wcnii").expect("a prefix");
    prefix.cleanup().expect("clean up after an earlier run");
    let [host, gone, next] = ["host", "gone", "next"].map(|name| prefix.create(name).expect("a namespace"));
    connect((&host, "veth3", None), (&gone, "eth0", None)).expect("a cable");
    connect((&host, "veth4", None), (&next, "eth0", None)).expect("a cable");
    let records = tempfile::tempdir().expect("a directory");
    let input = configuration("1.1.0", records.path(), r#"{"ips": []}"#);
    for (container, pod) in [("gone", &gone), ("next", &next)] {
        plugin_of(container, &host, "ADD", pod, "eth0", &input).expect("added");
    }
    assert_eq!((limits(&host), limits(&next)), (2, 1));
    // The path of the first pod's namespace is that of the second one by now. The first DEL has the record, the second
    // one has none.
    for _ in 0..2 {
        assert_eq!(plugin_of("gone", &host, "DEL", &next, "eth0", &input), Ok(String::new()));
        assert_eq!((limits(&host), limits(&next)), (1, 1));
    }
    assert_eq!(plugin_of("next", &host, "CHECK", &next, "eth0", &input), Ok(String::new()));
    // Without any record the namespace alone decides.
    std::fs::remove_file(records.path().join("attachment-next:eth0.json")).expect("removed");
    assert_eq!(plugin_of("next", &host, "DEL", &next, "eth0", &input), Ok(String::new()));
    assert_eq!((limits(&host), limits(&next)), (0, 0));
}

#[test]
fn limits_are_removed_after_the_hardware_address_has_changed() {
    if skipped() {
        return;
    }
    let prefix = Prefix::new("wcnih").expect("a prefix");
    prefix.cleanup().expect("clean up after an earlier run");
    let [host, pod] = ["host", "pod"].map(|name| prefix.create(name).expect("a namespace"));
    connect((&host, "veth3", None), (&pod, "eth0", None)).expect("a cable");
    let records = tempfile::tempdir().expect("a directory");
    let input = configuration("1.1.0", records.path(), r#"{"ips": []}"#);
    let object = input.strip_suffix('}').expect("an object");
    let gc = format!(r#"{object}, "cni.dev/valid-attachments": null}}"#);
    for (verb, input) in [("DEL", &input), ("GC", &gc)] {
        let added = plugin(&host, "ADD", &pod, "eth0", input);
        assert_eq!(added, Ok("{\"cniVersion\":\"1.1.0\",\"ips\": []}\n".to_owned()));
        host.ip(["link", "set", "dev", "veth3", "address", "0a:00:00:00:00:07"]).expect("an address");
        assert_eq!((limits(&host), limits(&pod)), (1, 1));
        // DEL without a namespace finds the host's end by the record alone.
        let variable = |name: &str| match name {
            "CNI_COMMAND" => Some(verb.into()),
            "CNI_CONTAINERID" => Some("4f1a".into()),
            "CNI_IFNAME" => Some("eth0".into()),
            _ => None,
        };
        assert_eq!(host.run(|| weir_cni::run(variable, input.as_bytes())).expect("inside"), Ok(String::new()));
        assert_eq!((limits(&host), limits(&pod)), (0, usize::from(verb == "DEL")), "{verb}");
        assert_eq!(std::fs::read_dir(records.path()).expect("listed").count(), 0);
    }
}

#[test]
fn interfaces_without_a_peer_on_the_host_are_refused() {
    if skipped() {
        return;
    }
    let prefix = Prefix::new("wcnig").expect("a prefix");
    prefix.cleanup().expect("clean up after an earlier run");
    let [host, third, fourth, pod] =
        ["host", "third", "fourth", "pod"].map(|name| prefix.create(name).expect("a namespace"));
    // On the host, the index of eth0's peer is that of a veth whose peer has the index of eth0.
    connect((&third, "veth3", None), (&pod, "eth0", None)).expect("a cable");
    connect((&host, "veth3", None), (&fourth, "eth0", None)).expect("a cable");
    pod.ip(["link", "add", "br0", "type", "bridge"]).expect("a bridge");
    let records = tempfile::tempdir().expect("a directory");
    let input = configuration("1.0.0", records.path(), r#"{"cniVersion": "1.0.0"}"#);
    let of_host = |interface| plugin(&host, "ADD", &pod, interface, &input).expect_err("refused");
    let path = format!("/run/netns/{}", pod.name());
    for (interface, what) in [
        ("eth0", format!("the peer of eth0 in {path} is not in the plugin's namespace")),
        ("br0", format!("br0 in {path} is bridge")),
        ("lo", format!("lo in {path} is no veth")),
        ("eth1", format!("there is no interface eth1 in {path}")),
    ] {
        let text = of_host(interface);
        assert!(text.contains(&what) && text.contains("\"code\":7"), "{text}");
        assert_eq!(plugin(&host, "DEL", &pod, interface, &input), Ok(String::new()));
    }
    assert_eq!(std::fs::read_dir(records.path()).expect("listed").count(), 0);
}
