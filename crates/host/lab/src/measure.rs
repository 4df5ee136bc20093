//! Per-service bandwidth at a rack's uplink.
//!
//! The agents' own meters would show the agents' view. Here the same BPF program counts at another
//! point: on the far end of the uplink's cable, where a frame arrives only after the port's rate
//! and buffer let it pass.

use crate::network::{Network, UPLINK};
use weir_datapath::{Classifier, ClassifierError};
use weir_linux::interface::{Interface, InterfaceError};
use weir_linux::loader::{InterfaceDatapath, LoaderError};
use weir_linux::netns::NetnsError;
use weir_linux::settings::Classes;
use weir_scenario::{LabScenario, Measure, Sample};
use weir_units::{Bandwidth, Bytes, Direction, Duration, ServiceId};

/// Why nothing can be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// Entering the switch.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// The port.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The policy's filters.
    #[error(transparent)]
    Classifier(#[from] ClassifierError),
    /// The program.
    #[error(transparent)]
    Loader(#[from] LoaderError),
}

/// A meter on an uplink; detached when dropped.
pub struct UplinkMeter {
    datapath: InterfaceDatapath,
    services: Vec<ServiceId>,
    last: (Duration, Vec<Bytes>),
}

impl UplinkMeter {
    /// Attaches to the end of the uplink at which the measured traffic arrives.
    pub fn attach(network: &Network, scenario: LabScenario<'_>, measure: Measure) -> Result<Self, MeasureError> {
        let (netns, port) = match measure.direction {
            Direction::Tx => network.far_end(measure.rack),
            Direction::Rx => (network.rack(measure.rack), UPLINK.to_owned()),
        };
        // No port of a switch is a guest's interface.
        let is_of_machine = |glob: &String| weir_policy::glob::matches(glob, crate::network::NIC);
        let order = scenario.policy().services().classification_order();
        let order = order
            .into_iter()
            .filter(|(_, filter)| filter.pod.is_none() && filter.interface.as_ref().is_none_or(is_of_machine));
        let datapath = netns.run(|| -> Result<_, MeasureError> {
            let interface = Interface::named(&port)?;
            // By the name of a machine's interface, so that filters on it find their packets here too.
            let tunnels = scenario.policy().tunnels();
            let classifier = Classifier::new(order, Some(crate::network::NIC))?.with_tunnels(tunnels);
            let mut datapath = InterfaceDatapath::attach(&interface, None)?;
            let services = scenario.policy().services();
            datapath.set_slots(services.leaves().map(|(id, service)| (id, service.path())))?;
            datapath.set_rules(&classifier, Classes::None)?;
            Ok(datapath)
        })??;
        let services = scenario.sending();
        let mut meter = Self { datapath, services, last: (Duration::ZERO, Vec::new()) };
        meter.last.1 = meter.read()?;
        Ok(meter)
    }

    fn read(&self) -> Result<Vec<Bytes>, MeasureError> {
        let bytes = |service: &ServiceId| Ok(self.datapath.totals(Some(*service))?.rx.bytes());
        self.services.iter().map(bytes).collect()
    }

    /// The bandwidth since the last sample, `at` after the start of the traffic.
    pub fn sample(&mut self, at: Duration) -> Result<Sample, MeasureError> {
        let now = self.read()?;
        let time = at.saturating_sub(self.last.0);
        let rates = self.services.iter().zip(&now).zip(&self.last.1);
        let bandwidth = rates
            .map(|((service, now), before)| (*service, Bandwidth::from_transfer(now.saturating_sub(*before), time)))
            .collect();
        self.last = (at, now);
        Ok(Sample { at, bandwidth })
    }
}
