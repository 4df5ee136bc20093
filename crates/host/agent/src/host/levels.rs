//! [`LevelCheck`]: whether an interface is as the bounds of latency levels need it.
//!
//! Problem: an operator can raise the MTU, `gso_max_segs` or `gso_max_size` after the agent has started; a frame of a
//! level, or a super-packet in front of it, is then larger than the bounds assume. Approach: each check of the qdisc
//! also reads these, on the shaper's thread, since the kernel may need long for a reply.
//!
//! Worked example: `levels: { packet: 1538B }`, and `ip link set eth0 mtu 9000`: frames may have 9038 B with framing.

use std::sync::{Mutex, PoisonError};
use weir_linux::interface::Interface;
use weir_policy::Policy;
use weir_units::Bytes;

/// Linux's default of `gso_max_size`, from which bounds are computed where the policy limits no segments.
const GSO_SIZE: Bytes = Bytes::new(65_536);

/// The premises of the bounds at an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Needs {
    /// The largest frame of levels on the wire.
    packet: Bytes,
    framing: Bytes,
    /// The most segments of a super-packet, if fewer than the interface's own limit.
    segments: Option<u32>,
}

/// The check of an interface; the policy can change meanwhile.
#[derive(Debug)]
pub(crate) struct LevelCheck {
    interface: String,
    needs: Mutex<Option<Needs>>,
}

impl LevelCheck {
    pub(crate) fn new(interface: String, policy: &Policy) -> Self {
        Self { interface, needs: Mutex::new(needs(policy)) }
    }

    /// A check that finds nothing.
    #[cfg(test)]
    pub(crate) fn without_levels() -> Self {
        Self { interface: String::new(), needs: Mutex::new(None) }
    }

    /// Checks by another policy from now on.
    pub(crate) fn renew(&self, policy: &Policy) {
        *self.needs.lock().unwrap_or_else(PoisonError::into_inner) = needs(policy);
    }

    /// The premises that do not hold, one line for each; none for an interface that is gone.
    pub(crate) fn obstacles(&self) -> Vec<String> {
        let needs = *self.needs.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(needs), Ok(interface)) = (needs, Interface::named(&self.interface)) else { return Vec::new() };
        let mut obstacles = Vec::new();
        let frame = interface.frame_max() + needs.framing;
        if frame > needs.packet {
            let name = interface.name();
            obstacles.push(format!("frames of {name} have up to {frame}, and `levels.packet` is {}", needs.packet));
        }
        obstacles.extend(segment_obstacle(needs.segments, &interface));
        obstacles
    }
}

/// Why super-packets of other traffic may be longer than the bounds assume: `levels.segments`, or 64 KiB without it.
fn segment_obstacle(segments: Option<u32>, interface: &Interface) -> Option<String> {
    let name = interface.name();
    if let Some(most) = segments {
        let now = interface.gso_segments().ok().filter(|now| *now > most)?;
        return Some(format!("gso_max_segs of {name} is {now}, and `levels.segments` is {most}"));
    }
    let now = interface.gso_size().ok().filter(|now| *now > GSO_SIZE)?;
    Some(format!(
        "gso_max_size of {name} is {} B, and without `levels.segments` it is at most {} B",
        now.get(),
        GSO_SIZE.get()
    ))
}

fn needs(policy: &Policy) -> Option<Needs> {
    let settings = policy.levels()?.settings();
    Some(Needs { packet: settings.packet, framing: settings.framing, segments: settings.segments })
}
