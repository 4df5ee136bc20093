//! Reads the facts of this host. Nothing of the host changes: kernel features are tried in a scratch namespace.

mod files;
mod interface;
mod peers;
mod pins;
mod units;

use crate::facts::{Facts, PolicyFacts, StatusFacts, SwitchFacts};
use std::fs;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::runtime::{Builder, Runtime};
use weir_fabric::IdentityFiles;
use weir_linux::requirements::{self, Purpose};
use weir_observe::{Source, client};
use weir_policy::Policy;
use weir_status::{Status, fill};

const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The sources beside the host itself.
#[derive(Debug, Default)]
pub struct Request<'a> {
    /// The policy with its path.
    pub policy: Option<(&'a str, &'a Policy)>,
    /// The interface of the policy.
    pub interface: Option<&'a str>,
    /// Statuses; the first is this host's.
    pub statuses: &'a [Source],
    /// The key file of the agent.
    pub key: Option<&'a Path>,
    /// The files of this machine for the fabric broker.
    pub identity: Option<&'a IdentityFiles>,
    /// The ports of the switch that this host is.
    pub switch: Option<SwitchFacts>,
}

/// Reads all facts, in the network namespace of the calling thread.
///
/// # Errors
/// The process lacks descriptors for timers and sockets.
pub fn gather(request: &Request<'_>) -> io::Result<Facts> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let source = fs::read_to_string(CLOCK_SOURCE).map_err(|error| format!("{CLOCK_SOURCE}: {error}"));
    let statuses = statuses(&runtime, request.statuses);
    let machine = statuses.first().and_then(|status| match &status.status {
        Ok(Status::Agent(agent)) => Some(agent.machine.clone()),
        _ => None,
    });
    let now_ms = now_ms();
    Ok(Facts {
        missing: requirements::check(Purpose::Agent),
        clock_source: source.map(|name| name.trim().to_owned()),
        clock_synchronised: clock_synchronised().map_err(|error| error.to_string()),
        interface: request.interface.map(|name| (name.to_owned(), interface::read(name))),
        gone: pins::of_gone(),
        policy: request.policy.map(policy),
        peers: runtime.block_on(peers::read(request.policy.map(|(_, policy)| policy), machine)),
        key: request.key.map(|path| (path.to_owned(), files::key(path))),
        certificate: request.identity.map(|files| (files.certificate.clone(), files::certificate(files, now_ms))),
        switch: request.switch.clone(),
        units: runtime.block_on(units::read()),
        statuses,
        now_ms,
    })
}

fn policy((file, policy): (&str, &Policy)) -> PolicyFacts {
    let segments = policy.levels().and_then(|levels| levels.settings().segments);
    PolicyFacts { file: file.to_owned(), fingerprint: fill::fingerprint(policy), segments }
}

/// Reads files and fetches URLs, all at once.
fn statuses(runtime: &Runtime, sources: &[Source]) -> Vec<StatusFacts> {
    let fetch = |source: &Source| {
        let source = source.clone();
        runtime.spawn(async move { client::fetch(&source).await })
    };
    let fetches: Vec<_> = sources.iter().map(fetch).collect();
    let status = |(source, fetch): (&Source, tokio::task::JoinHandle<_>)| {
        let status: Result<Result<Status, client::FetchError>, _> = runtime.block_on(fetch);
        let status = status.map_err(|error| error.to_string());
        let status = status.and_then(|status| status.map_err(|error| error.to_string()));
        StatusFacts { source: source.to_string(), status }
    };
    sources.iter().zip(fetches).map(status).collect()
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
