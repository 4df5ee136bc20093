//! Latency levels of an agent: premises of bounds that break, an agent that is killed, and an interface as found.

mod agent_pair;
mod common;

use agent_pair::{Pair, end};
use common::{WEIR, one_at_a_time, skipped, wait_for};
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Level 1 for UDP port 5002; super-packets of other traffic have at most eight segments.
const LEVELS: &str = "levels: { factors: [1], segments: 8 }\nservices:\n  clock:\n    match: [ { protocol: udp, port: \
                      5002 } ]\n    level: 1\n";

fn policy(pair: &Pair) {
    fs::write(&pair.policy, agent_pair::POLICY.replace("services:\n", LEVELS)).expect("written");
}

fn obstacles(pair: &Pair) -> Option<Vec<String>> {
    let list = pair.status("m1")?;
    let list = list.get("level_obstacles").and_then(Value::as_array).cloned().unwrap_or_default();
    Some(list.iter().map(|line| line.as_str().expect("a text").to_owned()).collect())
}

/// The type of service with which a datagram to the port of the level arrives.
fn arriving_tos(pair: &Pair) -> u8 {
    let open = || {
        let socket = UdpSocket::bind("10.78.0.2:5002").expect("bound");
        let on: libc::c_int = 1;
        // SAFETY: the option is an int, which outlives the call.
        let result = unsafe {
            let (value, size) = ((&raw const on).cast(), size_of_val(&on) as u32);
            libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_RECVTOS, value, size)
        };
        assert_eq!(result, 0);
        socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("a timeout");
        socket
    };
    let receives = pair.m2.run(open).expect("enter");
    let sends = pair.m1.run(|| UdpSocket::bind("0.0.0.0:0").expect("bound")).expect("enter");
    sends.send_to(b"x", "10.78.0.2:5002").expect("sent");
    let (mut buffer, mut control) = ([0u8; 16], [0u64; 8]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all zeros is a valid msghdr; the kernel writes to buffers that outlive the call.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control));
        assert_eq!(libc::recvmsg(receives.as_raw_fd(), &raw mut message, 0), 1);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        assert!(!header.is_null() && (*header).cmsg_type == libc::IP_TOS, "a type of service");
        *libc::CMSG_DATA(header)
    }
}

/// Each change breaks a premise of the bounds, and is reported in the next periods; taken back, it is no longer.
#[test]
fn changes_at_the_interface_that_break_bounds_are_reported() {
    if skipped("premises of latency bounds") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("walv");
    policy(&pair);
    let agent = pair.running(&pair.m1, "m1");
    wait_for("no premise is broken", 30, || obstacles(&pair).is_some_and(|list| list.is_empty()));
    for (change, back, expected) in [
        (["mtu", "3000"], ["mtu", "1500"], "frames of eth0 have up to"),
        (["gso_max_segs", "64"], ["gso_max_segs", "8"], "gso_max_segs of eth0 is 64, and `levels.segments` is 8"),
    ] {
        pair.m1.ip(["link", "set", "eth0", change[0], change[1]]).expect("set");
        let reported = |list: Vec<String>| matches!(&list[..], [line] if line.contains(expected));
        wait_for(expected, 30, || obstacles(&pair).is_some_and(reported));
        pair.m1.ip(["link", "set", "eth0", back[0], back[1]]).expect("set");
        wait_for("it is no longer reported", 30, || obstacles(&pair).is_some_and(|list| list.is_empty()));
    }
    common::signal(&agent, libc::SIGTERM);
    assert_eq!(end(agent).0, Some(0));
}

/// Without `segments` bounds assume Linux's 64 KiB.
#[test]
fn longer_super_packets_without_a_limit_of_segments_are_reported() {
    if skipped("super-packets without a limit") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("wals");
    let levels = LEVELS.replace(", segments: 8", "");
    fs::write(&pair.policy, agent_pair::POLICY.replace("services:\n", &levels)).expect("written");
    let agent = pair.agent(&pair.m1, "m1").arg("--keep").spawn().expect("starts");
    wait_for("no premise is broken", 60, || obstacles(&pair).is_some_and(|list| list.is_empty()));
    assert_eq!(pair.status("m1").expect("a status")["keeps"], true, "its levels outlive it");
    pair.m1.ip(["link", "set", "eth0", "gso_max_size", "131072"]).expect("set");
    let expected = "gso_max_size of eth0 is 131072 B, and without `levels.segments`";
    let reported = |list: Vec<String>| matches!(&list[..], [line] if line.contains(expected));
    wait_for(expected, 30, || obstacles(&pair).is_some_and(reported));
    pair.m1.ip(["link", "set", "eth0", "gso_max_size", "65536"]).expect("set");
    wait_for("it is no longer reported", 30, || obstacles(&pair).is_some_and(|list| list.is_empty()));
    common::signal(&agent, libc::SIGTERM);
    assert_eq!(end(agent).0, Some(0));
    let mut remove = pair.m1.command(WEIR).expect("a command");
    let removed = remove.args(["agent", "--remove", "--interface", "eth0"]).output().expect("runs");
    assert!(removed.status.success(), "{removed:?}");
}

/// Another program's change of a level's class is taken back within a period.
#[test]
fn changed_class_of_a_level_is_restored() {
    if skipped("a changed class of a level") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("walc");
    policy(&pair);
    let mut command = pair.agent(&pair.m1, "m1");
    let agent = command.args(["--backend", "htb"]).spawn().expect("starts");
    let status = |key: &str| pair.status("m1").is_some_and(|status| status[key].as_bool() == Some(true));
    wait_for("the agent's status", 60, || pair.status("m1").is_some());
    assert!(!status("keeps"), "it takes its levels with it");
    let class = || {
        let mut tc = pair.m1.command("tc").expect("a command");
        let output = tc.args(["class", "show", "dev", "eth0"]).output().expect("runs");
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().find(|line| line.starts_with("class htb 7765:4 ")).map(str::to_owned)
    };
    let made = class().expect("the level's class");
    let change = "class change dev eth0 parent 7765:1 classid 7765:4 htb rate 90mbit ceil 90mbit";
    let changed = pair.m1.command("tc").expect("a command").args(change.split(' ')).status();
    assert!(changed.expect("runs").success());
    assert_ne!(class().as_ref(), Some(&made));
    wait_for("the class is as it was", 30, || class().as_ref() == Some(&made));
    common::signal(&agent, libc::SIGTERM);
    let (code, output) = end(agent);
    assert_eq!(code, Some(0));
    assert!(output.contains("Weir's qdisc is on eth0 again"), "{output}");
}

#[test]
fn levels_outlive_a_killed_agent_and_go_with_the_next() {
    if skipped("levels of a killed agent") {
        return;
    }
    let _turn = one_at_a_time();
    let pair = Pair::new("walk");
    policy(&pair);
    let found = pair.picture();
    let agent = pair.running(&pair.m1, "m1");
    assert_eq!(arriving_tos(&pair), 46 << 2);
    let in_force = |picture: &str| picture.contains("class htb 776") && picture.contains("gso_max_segs 8 ");
    assert!(in_force(&pair.picture()), "{}", pair.picture());
    common::signal(&agent, libc::SIGKILL);
    let (_, _) = end(agent);
    assert!(in_force(&pair.picture()), "{}", pair.picture());
    assert_eq!(arriving_tos(&pair), 46 << 2);
    fs::remove_file(pair.status_path("m1")).expect("the killed agent's");
    let next = pair.running(&pair.m1, "m1");
    assert_eq!(arriving_tos(&pair), 46 << 2);
    common::signal(&next, libc::SIGKILL);
    let (_, output) = end(next);
    assert!(output.contains("adopted the state of an earlier agent"), "{output}");
    let mut remove = pair.m1.command(WEIR).expect("a command");
    let removed = remove.args(["agent", "--remove", "--interface", "eth0"]).output().expect("runs");
    assert!(removed.status.success(), "{removed:?}");
    assert_eq!(pair.picture(), found);
    assert_eq!(arriving_tos(&pair), 0);
}
