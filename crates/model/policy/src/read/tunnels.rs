//! The key `tunnels:` of a policy file: the UDP ports of VXLAN and Geneve.
//!
//! A kind that is written replaces its default ports, the other kind keeps them. A port has one meaning, so a written
//! one that is also of the other kind is refused.
//!
//! Worked example: `tunnels: { vxlan: 4790 }` gives 4790 for VXLAN and 6081, the default, for Geneve;
//! `{ vxlan: 6081 }` alone is refused.

use crate::tunnels::{TUNNEL_PORTS_MAX, Tunnels};
use weir_document::{Field, Node, Problems, Span, scalar};

/// Reads `tunnels:`. The default after an error.
pub(super) fn read(node: Option<&Node>, problems: &mut Problems) -> Tunnels {
    let default = Tunnels::default();
    let Some(node) = node else { return default };
    let mut ports = [default.vxlan().to_vec(), default.geneve().to_vec()];
    let kinds = ["vxlan", "geneve"];
    let written = kinds.map(|kind| node.get(kind));
    for (ports, of) in ports.iter_mut().zip(written) {
        if of.is_some() {
            ports.clear();
        }
    }
    for (i, of) in written.into_iter().enumerate() {
        let Some(of) = of else { continue };
        let items = if of.scalar().is_some() { std::slice::from_ref(of) } else { of.items() };
        if items.len() > TUNNEL_PORTS_MAX {
            let cause = format!("`{}` has {} ports, of at most {TUNNEL_PORTS_MAX}", kinds[i], items.len());
            problems.error(of.span, cause, "leave out ports that no tunnel of this network uses");
            continue;
        }
        for (port, span) in items.iter().filter_map(port) {
            if ports[i].contains(&port) {
                problems.error(span, format!("port {port} is written twice"), "write each port once");
            } else if ports[1 - i].contains(&port) {
                let cause = format!("port {port} is of two kinds of tunnels");
                let hint = format!("write other ports for `{}`, or another one here", kinds[1 - i]);
                problems.error(span, cause, hint);
            } else {
                ports[i].push(port);
            }
        }
    }
    let [vxlan, geneve] = ports;
    // Ports that are not valid have been reported.
    Tunnels::new(vxlan, geneve).unwrap_or(default)
}

fn port(item: &Node) -> Option<(u16, Span)> {
    match item.read(|text| scalar::integer(text, "", 1, u16::MAX.into())) {
        Field::Value(port, span) => u16::try_from(port).ok().map(|port| (port, span)),
        _ => None,
    }
}
