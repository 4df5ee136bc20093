//! Checks of the network: other machines of the rack, and the ports of a switch.

use super::{Verdict, doubtful, fine, skipped, wrong};
use crate::facts::{Facts, PeerFacts, Reply};

/// The other machines, or why there is nothing to judge.
fn peers(facts: &Facts) -> Result<&[PeerFacts], Verdict> {
    match &facts.peers {
        Err(error) => Err(skipped(error)),
        Ok(peers) if peers.is_empty() => Err(skipped("the policy has no addresses of other machines of the rack")),
        Ok(peers) => Ok(peers),
    }
}

pub(super) fn route(facts: &Facts) -> Verdict {
    let peers = match peers(facts) {
        Ok(peers) => peers,
        Err(verdict) => return verdict,
    };
    match peers.iter().find_map(|peer| Some((peer, peer.route.as_ref().err()?))) {
        Some((PeerFacts { machine, address, .. }, error)) => {
            wrong(format!("{machine} at {address}: {error}"), "reports do not reach it")
                .mend(format!("ip route get {address}"))
        }
        None => fine(format!("to {} machines", peers.len())),
    }
}

pub(super) fn reply(facts: &Facts) -> Verdict {
    let peers = match peers(facts) {
        Ok(peers) => peers,
        Err(verdict) => return verdict,
    };
    // A machine without a route has its own check.
    let silent: Vec<(&PeerFacts, &String)> = peers
        .iter()
        .filter(|peer| peer.route.is_ok())
        .filter_map(|peer| match &peer.reply {
            Reply::None(reason) => Some((peer, reason)),
            Reply::Open | Reply::Refused => None,
        })
        .collect();
    let [(PeerFacts { machine, address, .. }, reason), others @ ..] = &silent[..] else {
        let open = peers.iter().filter(|peer| peer.reply == Reply::Open).count();
        return fine(format!("{} reply, {open} of them with a status", peers.len()));
    };
    let others = if others.is_empty() { String::new() } else { format!(", and {} others", others.len()) };
    doubtful(
        format!("{machine} at {address}: {reason}{others}"),
        "the machine is off, or a firewall drops packets, perhaps also reports on UDP port 30565",
    )
    .mend(format!("ping -c 3 {address}; nft list ruleset"))
}

pub(super) fn switch_ports(facts: &Facts) -> Verdict {
    let Some(switch) = &facts.switch else { return skipped("no --port and no --bridge") };
    match &switch.steps {
        Err(error) => wrong(error, "the ports cannot be compared with the policy").mend(&switch.apply),
        Ok(steps) if steps.is_empty() => fine("as the policy needs them"),
        Ok(steps) => {
            let others = if steps.len() > 1 { format!(", and {} others", steps.len() - 1) } else { String::new() };
            wrong(
                format!("{}{others}", steps[0]),
                "queues of this switch do not share, mark or drop as guarantees and bounds assume",
            )
            .mend(&switch.apply)
        }
    }
}
