//! The start of all ports of a forwarder.
//!
//! Problem: the kernel verifies the programs of a port for seconds. Ports that start one after the other have no rounds
//! until the last one is loaded, and an error there leaves the first ones with a new policy and without a daemon.
//! Approach: [`open`] loads the programs of all ports, as many at a time as there are processors, and changes nothing
//! that is in force. Then [`start`] puts one port after the other in force, with the rounds of those before. That takes
//! 25 to 36 ms for each of four ports on a busy machine of two processors, where a load takes 4 s.
//!
//! Worked example: the interface of the third port does not exist. The first two have the policy of an earlier daemon
//! as before, and its grants.

use super::{Served, Setup, failed};
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tracing::{debug, info, warn};
use weir_forwarder::port::PortError;
use weir_forwarder::{Opened, Port};

/// Loads the programs of all ports; `None` after a signal. Loads under way are finished, and no other one begins, after
/// a signal or an error.
pub(super) fn open(setup: &Setup, interrupt: &Interrupt) -> Result<Option<Vec<Opened>>, CommandError> {
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let results: Vec<OnceLock<Result<Opened, PortError>>> = setup.links.iter().map(|_| OnceLock::new()).collect();
    let work = || {
        while !interrupt.is_requested() && !has_failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((name, rate)) = setup.links.get(index) else { break };
            let rules = setup.plan.port(name, *rate).map_err(PortError::Plan);
            let opened = rules.and_then(|rules| Port::open(name, rules));
            match &opened {
                Ok(_) => debug!("{name}: its programs are verified"),
                Err(_) => has_failed.store(true, Ordering::Relaxed),
            }
            results[index].set(opened).expect("an index is taken once");
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get).min(setup.links.len());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    // Indexes are taken in order, so the ports before one that failed have a result.
    let results = results.into_iter().map_while(OnceLock::into_inner).zip(&setup.links);
    if interrupt.is_requested() {
        // The end that was requested follows.
        results.for_each(|(opened, (name, _))| drop(opened.inspect_err(|error| warn!("{name}: {error}"))));
        return Ok(None);
    }
    let opened = results.map(|(opened, (name, _))| opened.map_err(|error| failed(name, &error)));
    opened.collect::<Result<_, _>>().map(Some)
}

/// Puts all ports in force. After an error those that an earlier daemon left stay.
pub(super) fn start(setup: &Setup, opened: Vec<Opened>) -> Result<Vec<Served>, CommandError> {
    let mut ports: Vec<Served> = Vec::new();
    for (opened, (name, rate)) in opened.into_iter().zip(&setup.links) {
        match opened.start(&setup.keys) {
            Ok(port) => {
                let how = if port.is_adopted() { "continues with its grants" } else { "starts without a state" };
                info!("{name}: {} of {rate}, {how}", setup.plan.rate(*rate));
                ports.push(Served::new(port));
            }
            Err(error) => {
                for Served { port, .. } in ports.into_iter().filter(|served| !served.port.is_adopted()) {
                    if let Err(error) = port.remove() {
                        warn!("{error}");
                    }
                }
                return Err(failed(name, &error));
            }
        }
        for served in &mut ports {
            served.serve();
        }
    }
    Ok(ports)
}
