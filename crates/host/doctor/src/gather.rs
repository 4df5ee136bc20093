//! Reads the facts of this host. Nothing of the host changes: kernel features are tried in a scratch namespace.

use crate::facts::{Facts, InterfaceFacts, PolicyFacts, StatusFacts};
use std::fs;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_linux::htb::MAJOR;
use weir_linux::interface::Interface;
use weir_linux::netlink::Socket;
use weir_linux::requirements::{self, Purpose};
use weir_linux::tc::{self, Found};
use weir_observe::{Source, client};
use weir_policy::Policy;
use weir_status::fill;

const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The sources beside the host itself.
#[derive(Debug)]
pub struct Request<'a> {
    /// The policy with its path.
    pub policy: Option<(&'a str, &'a Policy)>,
    /// The interface of the policy.
    pub interface: Option<&'a str>,
    /// Statuses; the first is this host's.
    pub statuses: &'a [Source],
}

/// Reads all facts, in the network namespace of the calling thread.
pub fn gather(request: &Request<'_>) -> Facts {
    let policy =
        |(file, policy): (&str, &Policy)| PolicyFacts { file: file.to_owned(), fingerprint: fill::fingerprint(policy) };
    let source = fs::read_to_string(CLOCK_SOURCE).map_err(|error| format!("{CLOCK_SOURCE}: {error}"));
    Facts {
        missing: requirements::check(Purpose::Agent),
        clock_source: source.map(|name| name.trim().to_owned()),
        clock_synchronised: clock_synchronised().map_err(|error| error.to_string()),
        interface: request.interface.map(|name| (name.to_owned(), interface(name))),
        policy: request.policy.map(policy),
        statuses: statuses(request.statuses),
        now_ms: now_ms(),
    }
}

/// Reads files and fetches URLs, all at once.
fn statuses(sources: &[Source]) -> Vec<StatusFacts> {
    let of = |source: &Source, status| StatusFacts { source: source.to_string(), status };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return sources.iter().map(|source| of(source, Err(error.to_string()))).collect(),
    };
    runtime.block_on(async {
        let fetches: Vec<_> =
            sources.iter().cloned().map(|source| async move { client::fetch(&source).await }).collect();
        let fetches: Vec<_> = fetches.into_iter().map(tokio::spawn).collect();
        let mut all = Vec::new();
        for (source, fetch) in sources.iter().zip(fetches) {
            let status = fetch.await.map_err(|error| error.to_string());
            all.push(of(source, status.and_then(|status| status.map_err(|error| error.to_string()))));
        }
        all
    })
}

fn interface(name: &str) -> Result<InterfaceFacts, String> {
    let interface = Interface::named(name).map_err(|error| error.to_string())?;
    let segments = interface.gso_segments().map_err(|error| error.to_string());
    let (ethernet, loopback) = (interface.is_ethernet(), interface.is_loopback());
    Ok(InterfaceFacts { ethernet, loopback, segments, qdisc: qdisc(&interface) })
}

fn qdisc(interface: &Interface) -> Result<Found, String> {
    let mut socket = Socket::open().map_err(|error| error.to_string())?;
    let all = tc::qdiscs(&mut socket, interface.index()).map_err(|error| error.to_string())?;
    Ok(tc::found(&all, u32::from(MAJOR) << 16, "htb"))
}

fn clock_synchronised() -> io::Result<bool> {
    // SAFETY: timex consists of integers, for which zeros are valid.
    let mut clock: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call, and modes 0 reads only.
    let state = unsafe { libc::adjtimex(&raw mut clock) };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(clock.status & libc::STA_UNSYNC == 0)
}

#[expect(clippy::disallowed_methods, reason = "the age of a status is measured by the system clock")]
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
