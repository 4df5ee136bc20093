//! [`LevelCheck`]: whether an interface is as the bounds of latency levels need it.
//!
//! Problem: an operator can raise the MTU or `gso_max_segs` after the agent has started; a frame of a level, or a
//! super-packet in front of it, is then larger than the bounds assume. Approach: each check of the qdisc also reads
//! both, on the shaper's thread, since the kernel may need long for a reply.
//!
//! Worked example: `levels: { packet: 1538B }`, and `ip link set eth0 mtu 9000`: frames may have 9038 B with framing.

use std::sync::{Mutex, PoisonError};
use weir_linux::interface::Interface;
use weir_policy::Policy;
use weir_units::Bytes;

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
        if let (Some(most), Ok(now)) = (needs.segments, interface.gso_segments())
            && now > most
        {
            obstacles.push(format!("gso_max_segs of {} is {now}, and `levels.segments` is {most}", interface.name()));
        }
        obstacles
    }
}

fn needs(policy: &Policy) -> Option<Needs> {
    let settings = policy.levels()?.settings();
    Some(Needs { packet: settings.packet, framing: settings.framing, segments: settings.segments })
}
