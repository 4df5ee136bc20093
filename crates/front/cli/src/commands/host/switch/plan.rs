//! The desired configurations of a watched switch's ports, by the policy's file and the interfaces of this period.
//!
//! Each period lists the bridge again, and reads the file again; it is parsed only if its text has changed. A port of
//! the policy without an interface, and a port of the bridge that the policy does not have, differ from the policy.

use super::select::{Needed, Selected};
use super::{Mapping, desired, driver, refusal};
use crate::error::CommandError;
use crate::input;
use crate::output::Ui;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use weir_answers::ReadPolicy;
use weir_document::Source;
use weir_linux::port::{BridgePort, PortError, TcSwitch};
use weir_policy::language;
use weir_status::{SwitchPortStatus, fill};
use weir_switch::PortConfig;

/// The policy's file as it was last parsed.
#[derive(Clone)]
pub(super) struct PolicyFile {
    source: Arc<Source>,
    pub(super) needed: Rc<Needed>,
    pub(super) fingerprint: String,
}

impl PolicyFile {
    /// Reads and parses a file, and prints its notes.
    pub(super) fn read(path: &Path, without_agent: &[String], ui: &mut Ui) -> Result<Self, CommandError> {
        Self::parse(input::source(path, language::MAX_FILE)?, without_agent, ui)
    }

    fn parse(source: Arc<Source>, without_agent: &[String], ui: &mut Ui) -> Result<Self, CommandError> {
        let (policy, notes) = ReadPolicy::from_source(&source).map(ReadPolicy::into_numbered)?;
        input::print_notes(&notes, ui)?;
        let needed = Rc::new(Needed::of(&policy, without_agent)?);
        Ok(Self { source, needed, fingerprint: fill::fingerprint(&policy) })
    }

    /// Whether both have the same text.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.source.text() == other.source.text()
    }

    /// The file as it is now.
    pub(super) fn renewed(&self, path: &Path, without_agent: &[String], ui: &mut Ui) -> Result<Self, CommandError> {
        let source = input::source(path, language::MAX_FILE)?;
        if source.text() == self.source.text() {
            return Ok(self.clone());
        }
        Self::parse(source, without_agent, ui)
    }
}

/// The ports of a switch and their configurations.
pub(super) struct Plan {
    pub(super) selected: Selected,
    /// By interface.
    pub(super) desired: BTreeMap<String, PortConfig>,
}

impl Plan {
    /// The ports that a policy needs, with the interfaces that `list` finds in the bridge.
    pub(super) fn new(
        file: &PolicyFile,
        mapping: &Mapping,
        list: fn(&str) -> Result<Vec<BridgePort>, CommandError>,
    ) -> Result<Self, CommandError> {
        let bridge = mapping.bridge.as_deref().map(list).transpose()?;
        let mut selected = file.needed.select_of(mapping, bridge.unwrap_or_default())?;
        driver::trust(mapping, &mut selected.ports);
        let desired = desired(&selected);
        weir_switch::apply::check(&TcSwitch::new(selected.switch.clone()), &desired).map_err(refusal)?;
        Ok(Self { selected, desired })
    }

    /// Whether a port that both have has another configuration: another policy, not another interface.
    pub(super) fn changes(&self, before: &Self) -> bool {
        let other = |(interface, config): (&String, &PortConfig)| {
            before.desired.get(interface).is_some_and(|before| before != config)
        };
        self.desired.iter().any(other)
    }

    /// The name of the port that an interface is.
    pub(super) fn name(&self, interface: &str) -> String {
        let own = self.selected.ports.iter().find(|port| port.interface.as_deref() == Some(interface));
        own.map_or_else(String::new, |port| port.name.clone())
    }

    /// Ports without an interface, and interfaces of the bridge without a port.
    pub(super) fn without_interface(&self) -> impl Iterator<Item = SwitchPortStatus> {
        let absent = self.selected.absent.iter().map(|port| SwitchPortStatus {
            port: port.clone(),
            interface: String::new(),
            differs: vec!["no interface is this port".to_owned()],
            ..SwitchPortStatus::default()
        });
        let strays = self.selected.strays.iter().map(|stray| SwitchPortStatus {
            port: stray.neighbour().to_owned(),
            interface: stray.interface().to_owned(),
            differs: vec![stray.to_string()],
            ..SwitchPortStatus::default()
        });
        absent.chain(strays)
    }
}

/// The ports of a bridge; none while the bridge is gone, as after a reset of the switch.
pub(super) fn bridge_now(bridge: &str) -> Result<Vec<BridgePort>, CommandError> {
    match weir_linux::port::bridge_ports(bridge) {
        Err(PortError::Interface(error)) if error.is_absent() => Ok(Vec::new()),
        ports => ports.map_err(|error| CommandError::failed(error.to_string())),
    }
}
