//! A made-up network: statuses that move with time as those of agents do.
//!
//! Each machine has a web service with a guarantee, a file system and batch work that come and go,
//! and a backup at its maximum. When the demand exceeds the rack's cap, the rack limits batch work.

use std::sync::Arc;
use weir_observe::watcher::View;
use weir_observe::{Liveness, Lost, Source};
use weir_policy::Policy;
use weir_status::{
    AgentStatus, CreditFlow, DirectionStatus, HostCredits, Mode, PortCredits, Status, SwitchPortStatus, SwitchStatus,
};
use weir_units::{Bandwidth, Direction, Instant};

/// A policy of `racks` racks of `machines` machines, and services beyond the four so that there are `services`.
pub(crate) fn policy(racks: usize, machines: usize, services: usize) -> Arc<Policy> {
    let mut text = String::from("weir: 1\nnetwork:\n  nic: 10Gb/s\n  racks:\n");
    for rack in 1..=racks {
        let names: Vec<String> =
            (1..=machines).map(|machine| format!("m{}", (rack - 1) * machines + machine)).collect();
        let uplink = 10 * machines / 2;
        text += &format!("    r{rack}: {{ uplink: {uplink}Gb/s, machines: [{}] }}\n", names.join(", "));
    }
    text += "services:\n  web: { match: [ { port: 80 } ], machine: { min: 2Gb/s }, rack: { min: 6Gb/s }, \
             latency: { message: 200kB, p99: 20ms } }\n  \
             dfs: { match: [ { port: 7000-7099 } ], machine: { min: 1Gb/s } }\n  \
             batch: { match: [ { port: 9000 } ] }\n  \
             backup: { match: [ { port: 873 } ], machine: { max: 500Mb/s } }\n";
    for more in 4..services {
        text += &format!("  svc-{more}: {{ match: [ {{ port: {} }} ] }}\n", 10_000 + more);
    }
    text += &format!("caps: {{ rack: {}Gb/s }}\n", 10 * machines / 2 * 4 / 5);
    Arc::new(Policy::parse("policy.yaml", &text).expect("sound").0)
}

/// A wave between 0 and 1.
fn wave(second: u64, machine: usize, period: f64, phase: f64) -> f64 {
    let at = second as f64 / period + machine as f64 * 0.37 + phase;
    // Two waves together look like load; a little noise that is the same in every run.
    let noise = ((second.wrapping_mul(2_654_435_761) >> 7) % 1_000 + machine as u64 * 131) % 1_000;
    (0.5 + 0.32 * at.sin() + 0.13 * (at * 2.7).sin() + 0.05 * (noise as f64 / 1_000.0 - 0.5)).clamp(0.0, 1.0)
}

fn set(status: &mut DirectionStatus, usage: f64, demand: f64, by: &str) {
    let rate = |rate: f64| Bandwidth::from_bps(rate as u64);
    status.usage = Some(rate(usage));
    status.share = Some(rate(usage));
    let is_limited = by != "demand";
    status.demand = Some(if is_limited { Bandwidth::UNLIMITED } else { rate(demand) });
    status.limit = if by.starts_with("rack") { rate(usage * 1.03) } else { Bandwidth::UNLIMITED };
    status.decided_by = Some(by.to_owned());
}

/// The status of the `index`-th machine's agent in a second.
pub(crate) fn status(policy: &Policy, index: usize, second: u64) -> AgentStatus {
    let id = weir_units::MachineId(index as u32);
    let mut status = AgentStatus::outline(policy, id);
    (status.mode, status.peers_alive) = (Some(Mode::Runtime), status.peers);
    (status.interface, status.backend, status.attachment) = ("eth0".into(), "htb".into(), Some("tcx".into()));
    status.written_ms = 1_700_000_000_000 + second * 1_000;
    status.uptime_ms = (90_000 + second) * 1_000;
    status.epoch = 3;
    let rack = format!("rack {}", status.rack);
    for (position, service) in status.services.iter_mut().enumerate() {
        for direction in Direction::ALL {
            let shift = if direction == Direction::Tx { 0.0 } else { 1.9 };
            let part = |period, phase| wave(second, index, period, phase + shift);
            let of = service.service.clone();
            let one = service.direction_mut(direction);
            // Batch work comes in runs of two minutes, not everywhere at once.
            let runs = !(second / 120 + index as u64).is_multiple_of(3);
            match of.as_str() {
                "web" => set(one, 0.9e9 + 1.1e9 * part(41.0, 0.0), 2e9, "demand"),
                "dfs" => set(one, 0.5e9 + 1.2e9 * part(67.0, 2.0), 2e9, "demand"),
                "batch" if runs => set(one, 1.1e9 + 0.5e9 * part(90.0, 4.0), 9e9, &rack),
                "batch" => set(one, 0.02e9, 0.02e9, "demand"),
                "backup" if index.is_multiple_of(2) => {
                    set(one, 0.494e9 + 0.006e9 * part(13.0, 1.0), 1e9, "max of backup at machine");
                }
                "backup" => set(one, 0.0, 0.0, "demand"),
                _ => set(one, 1e7 * part(30.0 + position as f64, position as f64), 1e7, "demand"),
            }
            one.bytes = Some(one.usage.unwrap_or_default().bps() / 8 * second);
            if direction == Direction::Rx {
                (one.packets_markable, one.packets_marked) = (Some(8_000 * second), Some(61 * second));
                one.feedback_sent = Some(2_000 * second);
            } else {
                (one.backlog_bytes, one.drops, one.destinations_limited) = (Some(18_432), Some(0), Some(3));
            }
        }
    }
    status
}

/// A watcher's view of the whole network in a second. The last machine is lost a while before
/// `until`.
pub(crate) fn view(policy: &Policy, second: u64, until: u64) -> View {
    let at = |second: u64| Instant::from_nanos(second * 1_000_000_000);
    let machines = policy.network().machines();
    let gone = until.saturating_sub(45);
    let one = |(index, machine): (usize, &weir_network::Machine)| {
        let source: Source = format!("http://10.0.0.{}:30566/status", index % 250 + 1).parse().expect("a source");
        let mut seen = Liveness::new(source, Some(machine.name().to_owned()));
        let is_last = index + 1 == machines.len();
        let last = if is_last { second.min(gone) } else { second };
        seen.status = Some(Arc::new(Status::Agent(status(policy, index, last))));
        if last < second {
            seen.lost = Some(Lost { since: at(gone), why: "Connection refused (os error 111)".into() });
        }
        seen
    };
    View { at: at(second), livenesses: machines.iter().enumerate().map(one).collect() }
}

/// A flow from m1, 10.0.0.1, with credits for 300 Mb/s of the 900 Mb/s that it could use.
pub(crate) fn credit_flow(service: &str, destination: &str, held_by: &str) -> CreditFlow {
    CreditFlow {
        service: service.to_owned(),
        source: "10.0.0.1".to_owned(),
        destination: destination.to_owned(),
        weight_thousandths: 1_500,
        share_bps: 300_000_000,
        demand_bps: 900_000_000,
        held_by: held_by.to_owned(),
    }
}

/// The credits of a host that sends these flows.
pub(crate) fn host_credits(flows: Vec<CreditFlow>) -> HostCredits {
    HostCredits {
        rate_bps: 6_000_000_000,
        period_us: 1_000,
        longest_us: 2_000,
        level_billionths: 250_000_000,
        budget_bytes: 3_000_000,
        outstanding_bytes: 37_500,
        flows_sent: flows.len() as u64,
        flows_received: 1,
        messages_forged: 7,
        flows,
        ..HostCredits::default()
    }
}

/// The source of a forwarder's status, with a port to m2 that has these flows and one without credits.
pub(crate) fn forwarder(policy: &Policy, name: &str, flows: Vec<CreditFlow>) -> Liveness {
    let credits = PortCredits {
        rate_bps: 6_000_000_000,
        lossless: true,
        flows: flows.len() as u64,
        period_us: 2_000,
        level_billionths: 50_000_000,
        budget_bytes: 3_000_000,
        outstanding_bytes: 75_000,
        queued_bytes: 1_500,
        granted_bytes: 900_000,
        expired_bytes: 3_000,
        late_bytes: 64,
        dropped_packets: 7,
        ..PortCredits::default()
    };
    let port = SwitchPortStatus {
        port: "m2".to_owned(),
        interface: "swp2".to_owned(),
        credits: Some(credits),
        credit_flows: flows,
        ..SwitchPortStatus::default()
    };
    let plain = SwitchPortStatus { port: "m3".to_owned(), ..SwitchPortStatus::default() };
    let ports = vec![port, plain];
    let outline = SwitchStatus::outline(name.to_owned(), weir_status::fill::fingerprint(policy), 1_000);
    let mut seen = Liveness::new("http://10.0.1.7:30566".parse().expect("a source"), None);
    seen.status = Some(Arc::new(Status::Switch(SwitchStatus { ports, ..outline })));
    seen
}
