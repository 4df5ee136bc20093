//! Switches whose ports grant credits: a forwarder on every switch of the lab.
//!
//! Problem: a service with credits sends nothing that the ports of its path have not granted, so every port of the lab
//! has to grant. Approach: `weir forwarder`, the real program, in the namespace of each switch, for all of its ports,
//! with the key of the run's agents. Their rates are those of [`crate::ports`]. Traffic begins when every port grants,
//! which is a lifetime of a grant after its start.
//!
//! Worked example: rack `left` with machines `a` and `b`: `weir forwarder POLICY --switch left --period 20ms
//! --interface uplink --interface m0 --interface m1 --key KEY --status left.json`.
//!
//! The shortest period is [`LAB_CREDIT_PERIOD`].

use crate::agents::{AgentsError, io_error, log_end};
use crate::janitor::tie;
use crate::network::Network;
use crate::tenants::switches;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use weir_scenario::{Enforcement, LAB_CREDIT_PERIOD, LabScenario};
use weir_status::PortCredits;

/// The shortest period of credits, as an option of agents and forwarders.
pub(crate) fn shortest_period() -> String {
    format!("{}us", LAB_CREDIT_PERIOD.nanos() / 1_000)
}

/// Running forwarders; ended when dropped, which removes their programs and pins.
pub struct Forwarders {
    switches: Vec<Forwarder>,
}

struct Forwarder {
    switch: String,
    ports: usize,
    child: Child,
    log: PathBuf,
    status: PathBuf,
}

/// Whether hosts and switches of a scenario have credits.
pub(crate) fn have_credits(scenario: LabScenario<'_>) -> bool {
    scenario.enforcement() != Enforcement::None && scenario.policy().credits().is_some()
}

impl Forwarders {
    /// Starts a forwarder on every switch, if the scenario has credits; `key` is the file of the agents' key.
    pub fn start(
        weir: &Path,
        network: &Network,
        scenario: LabScenario<'_>,
        directory: &Path,
        key: &Path,
    ) -> Result<Option<Self>, AgentsError> {
        if !have_credits(scenario) {
            return Ok(None);
        }
        let mut forwarders = Self { switches: Vec::new() };
        for (netns, switch, ports) in switches(network, scenario.policy()) {
            let file = |ending: &str| directory.join(format!("forwarder-{switch}.{ending}"));
            let (log, status) = (file("log"), file("json"));
            let output = File::create(&log).map_err(io_error(format!("create {}", log.display())))?;
            let errors = output.try_clone().map_err(io_error("share a log file"))?;
            let mut command = netns.command(weir)?;
            command.arg("forwarder").arg(scenario.policy_path()).args(["--switch", &switch]);
            command.args(["--period", &shortest_period()]);
            ports.iter().for_each(|(interface, _)| {
                command.args(["--interface", interface]);
            });
            command.arg("--key").arg(key).arg("--status").arg(&status);
            tie(&mut command, -10);
            command.stdin(Stdio::null()).stdout(output).stderr(errors);
            let child = command.spawn().map_err(io_error(format!("start the forwarder of {switch}")))?;
            forwarders.switches.push(Forwarder { switch, ports: ports.len(), child, log, status });
        }
        Ok(Some(forwarders))
    }

    /// The number of ports.
    pub fn ports(&self) -> usize {
        self.switches.iter().map(|own| own.ports).sum()
    }

    /// The number of ports that grant credits; an error if a forwarder ended.
    pub fn ready(&mut self) -> Result<usize, AgentsError> {
        self.check()?;
        Ok(self.switches.iter().flat_map(Forwarder::credits).filter(|port| !port.closed).count())
    }

    /// Whether all still run.
    pub fn check(&mut self) -> Result<(), AgentsError> {
        for Forwarder { switch, child, log, .. } in &mut self.switches {
            if child.try_wait().map_err(io_error("wait for a forwarder"))?.is_some() {
                return Err(AgentsError::Forwarder { switch: switch.clone(), log: log_end(log) });
            }
        }
        Ok(())
    }

    /// The sums of all ports' counters, by name.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        counters(self.switches.iter().flat_map(Forwarder::credits))
    }
}

impl Forwarder {
    fn status(&self) -> Value {
        fs::read(&self.status).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// The credits of its ports, of those that could be read.
    fn credits(&self) -> Vec<PortCredits> {
        let status = self.status();
        let ports = status["ports"].as_array().map_or(&[][..], Vec::as_slice);
        ports.iter().filter_map(|port| serde_json::from_value(port.get("credits")?.clone()).ok()).collect()
    }
}

impl Drop for Forwarders {
    fn drop(&mut self) {
        for own in &self.switches {
            // SAFETY: plain system call on a child that has not been waited for.
            unsafe { libc::kill(own.child.id() as i32, libc::SIGTERM) };
        }
        for own in &mut self.switches {
            let _ = own.child.wait();
        }
    }
}

/// The sums over ports; late packets are those that a lossless port drops, and others pass.
fn counters(ports: impl IntoIterator<Item = PortCredits>) -> BTreeMap<String, u64> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for port in ports {
        for (name, count) in [
            ("credits_granted_bytes", port.granted_bytes),
            ("credits_arrived_bytes", port.arrived_bytes),
            ("credits_expired_bytes", port.expired_bytes),
            ("credits_late_packets", port.late_packets),
            ("credits_dropped_packets", port.dropped_packets),
            ("credits_unaccounted_bytes", port.unaccounted_bytes),
            ("credits_messages", port.messages),
            ("credits_messages_forged", port.messages_forged),
            ("credits_messages_replayed", port.messages_replayed),
            ("credits_allocations_astray", port.allocations_astray),
            ("credits_ports", 1),
            ("credits_ports_lossless", u64::from(port.lossless)),
        ] {
            *sums.entry(name).or_default() += count;
        }
    }
    sums.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_sums_over_ports() {
        let port = PortCredits { late_packets: 2, granted_bytes: 500, lossless: true, ..PortCredits::default() };
        let sums = counters([port, PortCredits { late_packets: 1, ..PortCredits::default() }]);
        assert_eq!((sums["credits_late_packets"], sums["credits_granted_bytes"]), (3, 500));
        assert_eq!((sums["credits_ports"], sums["credits_ports_lossless"]), (2, 1));
    }
}
