//! The traffic of rack brokers: their own datagrams, counted.
//!
//! Problem: Parley section 6.2 computes 8 bytes for each service and less than 3 Mb/s for each
//! machine, section 5.3 80 Mb/s for the fabric broker of 10,000 racks. Approach: one broker of a
//! rack with so many services receives meters that have counted something different for each; its
//! reports are encoded by the wire format, and counted once for each machine or rack, with the
//! headers that Ethernet carries.
//!
//! Worked example: 1000 services and 40 machines: 39 copies of one machine's report, each second.

use super::ComputeError;
use std::fmt::Write as _;
use std::sync::Arc;
use weir_control::wire::{Key, Message};
use weir_control::{Input, MeterReading, Output, RackBroker, RackBrokerConfig, RackReport, UsageReport};
use weir_policy::Policy;
use weir_units::{Bandwidth, Bytes, Duration, Instant, MachineId, PerDirection};

/// Ethernet header and frame check 18 B, preamble and gap 20 B, IPv4 20 B, UDP 8 B: the overhead of
/// a datagram on a link.
const HEADERS: usize = 18 + 20 + 20 + 8;
/// The highest rate of a service in these reports: one machine's interface.
const FASTEST: Bandwidth = Bandwidth::from_gbps(10);

/// Bits per second that one machine sends.
pub(super) fn rate(services: u32, machines: u32, period: Duration) -> Result<f64, ComputeError> {
    let bytes: usize =
        reports_of(services, machines)?.usage.into_iter().map(|report| on_the_wire(&report.into())).sum();
    Ok(bytes as f64 * 8.0 * f64::from(machines - 1) / period.as_secs_f64())
}

/// Bits per second that reach the fabric broker.
pub(super) fn fabric_rate(services: u32, racks: u32, period: Duration) -> Result<f64, ComputeError> {
    // A rack of one machine, which is its leader without messages of others: the size of a leader's
    // report does not depend on the number of its machines.
    let bytes: usize = reports_of(services, 1)?.rack.into_iter().map(|report| on_the_wire(&report.into())).sum();
    Ok(bytes as f64 * 8.0 * f64::from(racks) / period.as_secs_f64())
}

/// Bytes of the rows alone: the difference to datagrams without any row.
pub(super) fn size_of_rows(services: u32) -> Result<u64, ComputeError> {
    let rows = |report: UsageReport| {
        let empty = UsageReport { rows: Vec::new(), ..report.clone() };
        (on_the_wire(&report.into()) - on_the_wire(&empty.into())) as u64
    };
    Ok(reports_of(services, 2)?.usage.into_iter().map(rows).sum())
}

/// The bytes of a message on a link.
fn on_the_wire(message: &Message) -> usize {
    let key = Key::new([1; 32]).unwrap_or_else(|_| unreachable!("the key is not zero"));
    weir_control::wire::encode(message, &key).len() + HEADERS
}

/// The reports of a broker.
#[derive(Default)]
struct Reports {
    /// To the others of its rack, after one period.
    usage: Vec<UsageReport>,
    /// To the fabric broker, as the leader of its rack, after one of its periods.
    rack: Vec<RackReport>,
}

/// The reports of the first broker of a rack when all its services send and receive.
fn reports_of(services: u32, machines: u32) -> Result<Reports, ComputeError> {
    let policy = policy(services, machines)?;
    let config = RackBrokerConfig::published();
    let mut broker = RackBroker::new(&policy, MachineId(0), 1, config, Instant::ZERO);
    let mut reports = Reports::default();
    let mut bytes = vec![PerDirection::both(Bytes::ZERO); services as usize];
    let periods = config.fabric_period.nanos() / config.period.nanos();
    // The first period has no length. A whole fabric period later the leader has reported.
    for period in 0..=periods + 1 {
        let now = Instant::from_nanos(period * config.period.nanos());
        reports.usage.clear();
        broker.handle_input(now, Input::Timeout);
        while let Some(output) = broker.poll_output() {
            match output {
                Output::ReadMeters => {
                    let leaves = policy.services().leaves().zip(&bytes);
                    let reading = |((service, _), bytes): ((_, _), &PerDirection<Bytes>)| MeterReading {
                        service,
                        bytes: *bytes,
                        waits: false,
                        network: Default::default(),
                    };
                    let readings: Vec<MeterReading> = leaves.map(reading).collect();
                    broker.handle_input(now, Input::Meters(&readings));
                }
                Output::Broadcast(report) => reports.usage.push(report),
                Output::ReportRack(report) if reports.rack.first().is_none_or(|first| first.round == report.round) => {
                    reports.rack.push(report);
                }
                Output::ReportRack(report) => reports.rack = vec![report],
                Output::Relay(_) | Output::SetLimits(_) | Output::ReplyRack(_) | Output::ShutOut(_) => {}
                Output::NotifyEpoch(_) | Output::FabricEpoch(_) | Output::StoreEpoch(_) => {}
            }
        }
        let most = FASTEST.bytes_in(config.period).get();
        for (index, bytes) in bytes.iter_mut().enumerate() {
            // Spread over all magnitudes in steps of the golden ratio: no two alike, and no order
            // in them.
            let part = |turn: usize| 10f64.powf(-4.0 * ((turn as f64) * 0.618_033_988_749).fract());
            let used = |turn: usize| Bytes::new((most as f64 * part(turn)) as u64);
            *bytes = PerDirection { tx: bytes.tx + used(2 * index + 1), rx: bytes.rx + used(2 * index + 2) };
        }
    }
    Ok(reports)
}

/// A rack of `machines` with `services`, each on a port of its own.
fn policy(services: u32, machines: u32) -> Result<Arc<Policy>, ComputeError> {
    if services > u32::from(u16::MAX) {
        return Err(ComputeError::TooManyServices(services));
    }
    let mut text = format!(
        "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r: {{ uplink: 80Gb/s, machines: [\"m[1-{machines}]\"] }} }} \
         }}\ncaps: {{ fabric: 70Gb/s }}\nservices:\n"
    );
    for service in 1..=services {
        let _ = writeln!(text, "  s{service}: {{ match: [ {{ protocol: udp, port: {service} }} ] }}");
    }
    let policy = Policy::parse("reports.policy.yaml", &text);
    Ok(Arc::new(policy.unwrap_or_else(|refused| unreachable!("the policy is sound: {refused}")).0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_is_reported_once() {
        let reports = reports_of(1_000, 40).expect("a policy");
        assert_eq!(reports.usage.iter().map(|report| report.rows.len()).sum::<usize>(), 1_000);
        assert!(reports.usage.iter().flat_map(|report| &report.rows).all(|row| row.tx.usage > Bandwidth::ZERO));
        let reports = super::reports_of(1_000, 1).expect("a policy");
        assert_eq!(reports.rack.iter().map(|report| report.rows.len()).sum::<usize>(), 1_000);
    }

    #[test]
    fn ten_times_as_often_is_ten_times_as_much() {
        let slow = rate(100, 40, Duration::from_secs(1)).expect("a rate");
        let fast = rate(100, 40, Duration::from_millis(100)).expect("a rate");
        assert!((fast / slow - 10.0).abs() < 1e-9);
        // Not less than the rows themselves, to 39 others.
        assert!(slow > size_of_rows(100).expect("a size") as f64 * 8.0 * 39.0);
        let (racks, tenth) =
            (fabric_rate(100, 100, Duration::from_secs(10)), fabric_rate(100, 10, Duration::from_secs(10)));
        assert!((racks.expect("a rate") / tenth.expect("a rate") - 10.0).abs() < 1e-9);
        assert_eq!(rate(70_000, 40, Duration::from_secs(1)), Err(ComputeError::TooManyServices(70_000)));
    }
}
