//! Pins of agents in the BPF file system, without a change of them ([`weir_linux::pins`]).
//!
//! Links to an interface are there where programs are attached by tcx; with clsact there is none, and the agent's
//! status has its own check.

use std::io;
use weir_linux::pins::{AGENT_LINKS, interface_of, is_gone, of_interfaces};

/// The indexes of interfaces that are gone and have pins.
pub(super) fn of_gone() -> Result<Vec<u32>, String> {
    let all = of_interfaces().map_err(|error| error.to_string())?;
    let mut gone: Vec<u32> = all.into_iter().map(|(_, index)| index).filter(|index| is_gone(*index)).collect();
    gone.sort_unstable();
    gone.dedup();
    Ok(gone)
}

/// The pinned links of an interface's agents that do not lead to it; none if programs are not attached by links.
pub(super) fn detached(interface: u32) -> Result<Vec<String>, String> {
    let mut detached = Vec::new();
    let all = of_interfaces().map_err(|error| error.to_string())?;
    for (directory, _) in all.into_iter().filter(|(_, index)| *index == interface) {
        if !AGENT_LINKS.iter().any(|name| directory.join(name).exists()) {
            continue;
        }
        for name in AGENT_LINKS {
            let link = directory.join(name);
            let leads_to = match interface_of(&link) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                leads_to => Some(leads_to.map_err(|error| format!("{}: {error}", link.display()))?),
            };
            if leads_to != Some(interface) {
                detached.push(name.to_owned());
            }
        }
    }
    Ok(detached)
}
