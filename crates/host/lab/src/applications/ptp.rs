//! Clocks that are compared by PTP: Debian's ptpd.
//!
//! Namespaces share the host's clock, so the offset that a slave reports is the error of its measurement: half of the
//! difference between the delays of the two directions, one of which meets a queue. Slaves do not adjust the clock
//! (`clock:no_adjust`). A report is recorded as a flow of a Sync message that begins at the time of the report and
//! takes the absolute offset.
//!
//! Worked example: Sync messages wait for 8 ms behind bulk, and delay requests do not: offsets are up to 4 ms.
//!
//! Source: IEEE 1588-2008; ptpd2(8), its statistics file.

use super::{ApplicationError, NICE, io_error};
use crate::janitor::tie;
use crate::network::{NIC, Network, address, machine_name};
use crate::real_time::PATIENCE;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use weir_results::FlowRecord;
use weir_scenario::{Application, LabScenario};
use weir_units::{Duration, MachineId, SimTime};

pub(super) const PROGRAM: &str = "ptpd";
/// The event port of PTP over UDP; general messages have the next one.
pub(super) const PORTS: [u16; 2] = [319, 320];
/// The base-2 logarithm of the seconds between two Sync messages, and between two delay requests: 32 a second.
const LOG_INTERVAL: &str = "-5";
/// The same of announcements: a slave finds its master within a second.
const LOG_ANNOUNCE: &str = "-4";
/// Announcements that a slave may miss, as behind a full queue: 16 s.
const ANNOUNCE_PATIENCE: &str = "255";
/// Bytes of a Sync message (IEEE 1588, table 26).
const SYNC: u64 = 44;

/// A master and its slaves.
pub(super) struct Clocks {
    children: Vec<Child>,
    application: Application,
    /// By slave: its statistics file.
    reports: Vec<(MachineId, PathBuf)>,
    /// The time of the traffic's origin by the system's clock, which reports have.
    origin: Option<f64>,
}

impl Clocks {
    /// Starts all processes and waits until each slave reports offsets.
    pub(super) fn start(
        network: &Network,
        scenario: LabScenario<'_>,
        own: &Application,
        directory: &Path,
    ) -> Result<Self, ApplicationError> {
        let name = |machine| machine_name(scenario.policy(), machine);
        let mut clocks = Self { children: Vec::new(), application: own.clone(), reports: Vec::new(), origin: None };
        let slaves: Vec<String> = own.from.iter().map(|slave| address(*slave).to_string()).collect();
        let log = |machine| directory.join(format!("ptp-{}-{}.log", own.name, name(machine)));
        clocks.spawn(network, own.to, &log(own.to), &["--masteronly".to_owned(), destinations(&slaves.join(","))])?;
        for slave in &own.from {
            let report = directory.join(format!("ptp-{}-{}.csv", own.name, name(*slave)));
            let arguments = [
                "--slaveonly".to_owned(),
                destinations(&address(own.to).to_string()),
                format!("--global:statistics_file={}", report.display()),
                "--global:statistics_timestamp_format=unix".to_owned(),
                format!("--ptpengine:announce_receipt_timeout={ANNOUNCE_PATIENCE}"),
            ];
            clocks.spawn(network, *slave, &log(*slave), &arguments)?;
            clocks.reports.push((*slave, report));
        }
        clocks.wait_for_reports(scenario)?;
        Ok(clocks)
    }

    fn spawn(
        &mut self,
        network: &Network,
        machine: MachineId,
        log: &Path,
        arguments: &[String],
    ) -> Result<(), ApplicationError> {
        let output = File::create(log).map_err(io_error(format!("create {}", log.display())))?;
        let errors = output.try_clone().map_err(io_error("share a log file"))?;
        let mut command = network.machine(machine).command(PROGRAM)?;
        command.args(["--foreground", "--interface", NIC, "--global:ignore_lock=Y", "--clock:no_adjust=Y"]);
        command.arg("--ptpengine:ip_mode=unicast");
        for (key, log) in [("sync", LOG_INTERVAL), ("delayreq", LOG_INTERVAL), ("announce", LOG_ANNOUNCE)] {
            command.arg(format!("--ptpengine:log_{key}_interval={log}"));
        }
        command.args(arguments);
        tie(&mut command, NICE);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        self.children.push(command.spawn().map_err(io_error(format!("start {PROGRAM}")))?);
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "the lab runs in real time")]
    fn wait_for_reports(&self, scenario: LabScenario<'_>) -> Result<(), ApplicationError> {
        let begun = Instant::now();
        for (slave, report) in &self.reports {
            while offsets(&fs::read_to_string(report).unwrap_or_default()).next().is_none() {
                if begun.elapsed() > PATIENCE {
                    let machine = machine_name(scenario.policy(), *slave).to_owned();
                    return Err(ApplicationError::NoOffset { name: self.application.name.clone(), machine });
                }
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// The traffic began at `origin`.
    #[expect(clippy::disallowed_methods, reason = "the reports of ptpd have the system's time")]
    pub(super) fn begin(&mut self, origin: Instant) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.origin = Some((now.saturating_sub(origin.elapsed())).as_secs_f64());
    }

    /// The reports from the application's start to its end, or to `now`.
    pub(super) fn records(&self, now: Duration) -> Result<Vec<FlowRecord>, ApplicationError> {
        let Some(origin) = self.origin else { return Ok(Vec::new()) };
        let own = &self.application;
        let (start, stop) = (own.start.as_secs_f64(), own.stop.min(now).as_secs_f64());
        let mut records = Vec::new();
        for (slave, report) in &self.reports {
            let text = fs::read_to_string(report).map_err(io_error(format!("read {}", report.display())))?;
            let all = offsets(&text).map(|(at, offset)| (at - origin, offset));
            let time = |seconds: f64| SimTime::from(Duration::from_nanos((seconds * 1e9) as u64));
            records.extend(all.filter(|(at, _)| (start..stop).contains(at)).map(|(at, offset)| FlowRecord {
                bytes: SYNC,
                delivered: SYNC,
                start: time(at),
                finished: Some(time(at + offset.abs())),
                ..FlowRecord::new(0, own.to, *slave)
            }));
        }
        Ok(records)
    }
}

impl Drop for Clocks {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn destinations(of: &str) -> String {
    format!("--ptpengine:unicast_destinations={of}")
}

/// The time and offset of each Sync message in a statistics file, in seconds: `1795778268.27, slv, clock, one-way
/// delay, offset, .., .., .., S, ..`. Other states and messages repeat an earlier offset, and the last line may be cut.
fn offsets(text: &str) -> impl Iterator<Item = (f64, f64)> {
    text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let (Some(&"slv"), Some(&"S")) = (fields.get(1), fields.get(8)) else { return None };
        Some((fields[0].parse().ok()?, fields[4].parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_those_of_sync_messages() {
        let text = "# Timestamp, State, Clock ID, One Way Delay, Offset From Master, ...\n\
            1795778266.646841, lstn_init,  1 \n\
            1795778267.5, slv,aef5c8fffe6309d5(unknown)/1,  0.0,  0.0,  0.0,  0.0, 0.0, I, 0.0, 0\n\
            1795778268.25, slv,aef5c8fffe6309d5(unknown)/1,  0.000000666,  0.000000701,  0.1,  0.2, 0.0, S, 0.0, 0\n\
            1795778268.50, slv,aef5c8fffe6309d5(unknown)/1,  0.000000666,  0.000000701,  0.1,  0.2, 0.0, D, 0.0, 0\n\
            1795778268.75, slv,aef5c8fffe6309d5(unknown)/1,  0.000000666, -0.000000034,  0.1,  0.2, 0.0, S, 0.0, 0\n\
            1795778269.00, slv,aef5c8f";
        assert_eq!(offsets(text).collect::<Vec<_>>(), [(1_795_778_268.25, 7.01e-7), (1_795_778_268.75, -3.4e-8)]);
    }
}
