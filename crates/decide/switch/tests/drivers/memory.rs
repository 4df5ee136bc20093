//! A switch that does at once what is written, or fails where a test wants it.

use weir_switch::{Capabilities, Driver, Map, PortState, RateSetting, Setting, Step, SwitchState, WriteError};
use weir_units::Bytes;

/// The failure of a step, counted over all writes.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// It is not done, and reported.
    Refuse(usize),
    /// It is done, and reported as failed.
    Break(usize),
    /// It is not done, and reported as done.
    Ignore(usize),
}

/// The switch.
pub(crate) struct Memory {
    pub(crate) ports: SwitchState,
    /// Whether every map referred to existing queues after each step.
    pub(crate) was_sound: bool,
    pub(crate) maps: Map,
    fault: Option<Fault>,
    steps: usize,
    /// A port whose steps fail from this number of its steps on.
    lost: Option<(String, usize)>,
}

impl Memory {
    pub(crate) fn new(ports: SwitchState) -> Self {
        Self { ports, was_sound: true, maps: Map::PerPort, fault: None, steps: 0, lost: None }
    }
    pub(crate) fn refuse_at(&mut self, step: usize) {
        self.fault = Some(Fault::Refuse(step));
    }
    pub(crate) fn break_after(&mut self, step: usize) {
        self.fault = Some(Fault::Break(step));
    }
    pub(crate) fn ignore_at(&mut self, step: usize) {
        self.fault = Some(Fault::Ignore(step));
    }
    pub(crate) fn lose(&mut self, port: &str, after: usize) {
        self.lost = Some((port.to_owned(), after));
    }
}

#[derive(Debug, thiserror::Error)]
#[error("refused")]
pub(crate) struct Refused;

impl Driver for Memory {
    type Error = Refused;

    fn switch(&self) -> &str {
        "leaf1"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            queues: 8,
            strict: true,
            weighted: true,
            mixed: true,
            weights: 1..=100,
            marks: Setting::PerQueue,
            buffers: Setting::PerQueue,
            buffer_max: Bytes::new(1_000_000),
            rate: RateSetting::Optional,
            remarks: true,
            maps: self.maps,
        }
    }

    fn read(&mut self, port: &str) -> Result<PortState, Refused> {
        Ok(self.ports.get(port).cloned().unwrap_or_default())
    }

    fn mapped(&mut self) -> Result<Vec<String>, Refused> {
        Ok(self.ports.iter().filter(|(_, state)| state.map.is_some()).map(|(port, _)| port.clone()).collect())
    }

    fn write(&mut self, steps: &[Step]) -> Result<(), WriteError<Refused>> {
        for (index, step) in steps.iter().enumerate() {
            let failed = Err(WriteError { step: index, error: Refused });
            if let Some((port, left)) = &mut self.lost
                && *port == step.port
            {
                if *left == 0 {
                    return failed;
                }
                *left -= 1;
            }
            let number = self.steps;
            self.steps += 1;
            let is = |at: usize| at == number;
            match self.fault {
                Some(Fault::Refuse(at)) if is(at) => return failed,
                Some(Fault::Ignore(at)) if is(at) => continue,
                _ => step.apply(&mut self.ports),
            }
            self.was_sound &= self.ports.values().all(PortState::is_sound);
            if matches!(self.fault, Some(Fault::Break(at)) if is(at)) {
                return failed;
            }
        }
        Ok(())
    }
}
