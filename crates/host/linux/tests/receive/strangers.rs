//! Senders without an agent at a receiver with one: TCP has the limit, and UDP is cut to it.

use super::common::{Cable, pause, quick, skipped};
use super::{Host, KEY, alone, policy};
use std::net::UdpSocket;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_linux::readings::PolicedReading;
use weir_units::ServiceId;

/// The rate at which service 0 arrives at a receiver whose sender has no agent, as a part of the limit, and what was
/// policed. `send` runs meanwhile.
fn stranger_at(name: &str, limit: u32, offloads: bool, send: impl FnOnce(&Cable, &dyn Fn())) -> (f64, PolicedReading) {
    let cable = Cable::new(name);
    cable.set_offloads(offloads);
    let policy = policy(&format!("machine: {{ rx: {{ max: {limit}Mb/s }} }}"));
    let host = Mutex::new(cable.b.run(|| Host::new(&policy, 1, KEY)).expect("enter"));
    let read = || {
        let mut host = host.lock().expect("not poisoned");
        host.serve();
        let bytes = host.datapath.totals(Some(ServiceId(0))).expect("meters").rx.bytes().get();
        (bytes, host.datapath.receive_reading(ServiceId(0)).expect("a meter").policed)
    };
    let part = Mutex::new(0.0);
    send(&cable, &|| {
        // F passes at once, and TCP takes a timeout to come back from it.
        pause(Duration::from_secs(2));
        #[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
        let (start, before) = (std::time::Instant::now(), read().0);
        pause(Duration::from_secs(4));
        let received = (read().0 - before) as f64 * 8.0 / start.elapsed().as_secs_f64();
        *part.lock().expect("not poisoned") = received / f64::from(limit) / 1e6;
    });
    (part.into_inner().expect("not poisoned"), read().1)
}

/// An agent on the receiver alone: TCP has the limit, with and without segmentation offload.
#[test]
fn tcp_of_strangers_has_the_limit() {
    if skipped() {
        return;
    }
    let _alone = alone();
    for (limit, offloads, control) in [(20, true, "reno"), (20, false, "cubic"), (200, true, "cubic")] {
        let (part, policed) = stranger_at("r9", limit, offloads, |cable, measure| {
            let _server = cable.server(7000);
            let mut client = cable.client_with(7000, "20", control);
            measure();
            client.kill().expect("kill");
            client.wait().expect("the client");
        });
        println!("{control}, {limit} Mb/s, offloads {offloads}: {part:.3} of the limit, {policed:?}");
        // On shared processors TCP may wait for one, and its credit lasts for 250 ms.
        let least = if quick() { 0.6 } else { 0.9 };
        assert!((least..=1.1).contains(&part), "{part} of {limit} Mb/s");
        assert!(policed.packets > 1000 && policed.dropped_packets > 0 && policed.marked_packets == 0, "{policed:?}");
    }
}

/// The same, for a flood of some times the limit.
#[test]
fn udp_of_strangers_is_cut_to_the_limit() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let (part, policed) = stranger_at("r10", 10, false, |cable, measure| {
        let bind = |address: &str| UdpSocket::bind(address).expect("bound");
        let _sink = cable.b.run(|| bind("10.77.0.2:7000")).expect("inside");
        let source = cable.a.run(|| bind("10.77.0.1:0")).expect("inside");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // 100 Mb/s.
                    for _ in 0..18 {
                        let _ = source.send_to(&[0; 1400], "10.77.0.2:7000");
                    }
                    pause(Duration::from_millis(2));
                }
            });
            measure();
            done.store(true, Ordering::Relaxed);
        });
    });
    println!("{part:.3} of the limit, {policed:?}");
    assert!((0.9..=1.05).contains(&part), "{part}");
    assert!(policed.dropped_bytes > 2 * policed.bytes, "a flood of some times the limit: {policed:?}");
}
