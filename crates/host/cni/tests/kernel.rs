//! Limits in the kernel: the queue inside is fq_codel where the kernel has it, and what is installed passes CHECK.

use std::io::Write;
use std::process::Command;
use weir_cni::link::{at, named, socket};
use weir_cni::shaper::{End, Queue, Shaper, check_absent, probe, remove};
use weir_linux::netns::scratch;
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
                shaper.check(&mut socket, &lo).expect("as installed");
                check_absent(&mut socket, &lo).expect_err("a limit");
                remove(&mut socket, &lo, end).expect("removed");
                remove(&mut socket, &lo, end).expect("nothing left");
                check_absent(&mut socket, &lo).expect("nothing left");
            })
            .expect("a namespace");
        }
    }
}
