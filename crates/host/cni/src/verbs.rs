//! The verbs.
//!
//! | verb | does | prints |
//! |---|---|---|
//! | ADD | limits both ends, then writes the record | `prevResult`, byte for byte, with a `cniVersion` |
//! | CHECK | compares both limits and the record | nothing |
//! | DEL | removes limits and record; what is gone is no error | nothing |
//! | GC | removes limits and records of the network's attachments that are not in the runtime's list | nothing |
//! | STATUS | checks the configured limits, tries a limit in a scratch namespace and a write to the records | nothing |
//! | VERSION | | the versions |
//!
//! ADD writes the record last, and DEL and GC remove it last: limits without a record are those of an ADD that failed,
//! which removes them itself.
//!
//! DEL and GC remove limits behind the path of a namespace only if they are the attachment's: another pod may use the
//! path (`/proc/PID/ns/net`) by now.
//!
//! Worked example: the runtime deletes the pod's namespace, then calls DEL without `CNI_NETNS`: both ends of the pair
//! are gone, and the record is removed.
//!
//! Source: the CNI specification 1.1.0, "CNI operations".

use crate::configuration::{Configuration, PreviousResult, versions};
use crate::error::{CniError, Code};
use crate::invocation::{AttachmentId, Invocation, Pod};
use crate::limits::Limits;
use crate::link::{self, Link, Namespace, Pair, socket};
use crate::shaper::{self, End, Queue, Shaper};
use serde::Deserialize;
use serde_json::json;
use std::path::Path;
use weir_linux::netlink::Socket;
use weir_pods::{ATTACHMENT, Attachment, Directory, FORMAT, HostInterface, RecordsError};
use weir_units::Bandwidth;

/// Executes a verb. Returns its standard output.
///
/// # Errors
/// As the verb's error object.
pub fn run(invocation: &Invocation, configuration: &Configuration) -> Result<String, CniError> {
    match invocation {
        Invocation::Add(of, netns, pod) => add(configuration, of, netns, pod.as_ref()),
        Invocation::Check(of, netns, pod) => check(configuration, of, netns, pod.as_ref()).map(|()| String::new()),
        Invocation::Del(of, netns) => del(configuration, of, netns.as_deref()).map(|()| String::new()),
        Invocation::Gc => gc(configuration).map(|()| String::new()),
        Invocation::Status => status(configuration).map(|()| String::new()),
        Invocation::Version => version(b""),
    }
}

/// VERSION: the versions, in the version of the input, which may be empty.
///
/// # Errors
/// Input that is no JSON object.
pub fn version(input: &[u8]) -> Result<String, CniError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Input {
        cni_version: Option<String>,
    }
    let undecodable =
        |error: serde_json::Error| CniError::new(Code::Decode, "the input of VERSION is invalid", error.to_string());
    let own = match input.trim_ascii() {
        b"" => None,
        input => serde_json::from_slice::<Input>(input).map_err(undecodable)?.cni_version,
    };
    let own = own.unwrap_or_else(|| crate::configuration::Version::NEWEST.text().into());
    Ok(format!("{}\n", json!({ "cniVersion": own, "supportedVersions": versions() })))
}

fn add(configuration: &Configuration, of: &AttachmentId, netns: &Path, pod: Option<&Pod>) -> Result<String, CniError> {
    configuration.check_keys()?;
    let previous = configuration.previous()?;
    let limits = Limits::read(configuration)?;
    let namespace = existing(netns)?;
    let pair = Pair::of(&namespace, &of.interface)?;
    let done = limit(&namespace, &pair, limits).and_then(|()| match pod {
        Some(pod) => {
            let record = record(configuration, of, netns, pod, (&pair.host, &previous, limits));
            Directory::new(configuration.directory()).write_attachment(&record).map_err(unwritable)
        }
        None => Ok(()),
    });
    if let Err(error) = done {
        // The first error is reported.
        let _ = unlimit(Some((&namespace, &pair)), None);
        return Err(error);
    }
    Ok(format!("{}\n", previous.text()))
}

/// Sets the limits of both ends, and removes those that an earlier ADD has set beyond.
fn limit(namespace: &Namespace, pair: &Pair, limits: Limits) -> Result<(), CniError> {
    let set = |socket: &mut Socket, link: &Link, limit: Option<Bandwidth>, end: End| match limit {
        Some(limit) => Shaper::new(limit, link.mtu, end).install(socket, link).map(|queue| report(link, queue)),
        None => shaper::remove(socket, link, end),
    };
    namespace.inside(|socket| set(socket, &pair.pod, limits.egress, End::Pod))?;
    set(&mut socket()?, &pair.host, limits.ingress, End::Host)
}

/// Reports a queue that is not fair on standard error, which runtimes write to their logs.
fn report(link: &Link, queue: Queue) {
    if queue == Queue::Bfifo {
        eprintln!(
            "weir-cni: {}: the kernel has no fq_codel (CONFIG_NET_SCH_FQ_CODEL): small messages wait behind bulk data",
            link.name
        );
    }
}

fn record(
    configuration: &Configuration,
    of: &AttachmentId,
    netns: &Path,
    pod: &Pod,
    (host, previous, limits): (&Link, &PreviousResult, Limits),
) -> Attachment {
    let host = host.clone();
    Attachment {
        pod: FORMAT,
        network: Some(configuration.network.clone()),
        host_interface: HostInterface { name: host.name, index: host.index, hardware: host.hardware },
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        container: of.container.clone(),
        netns: netns.display().to_string(),
        interface: of.interface.clone(),
        addresses: previous.addresses(&of.interface),
        ingress_bps: limits.ingress.map(Bandwidth::bps),
        egress_bps: limits.egress.map(Bandwidth::bps),
    }
}

fn check(configuration: &Configuration, of: &AttachmentId, netns: &Path, pod: Option<&Pod>) -> Result<(), CniError> {
    let previous = configuration.previous()?;
    let limits = Limits::read(configuration)?;
    let namespace = existing(netns)?;
    let pair = Pair::of(&namespace, &of.interface)?;
    let compare = |socket: &mut Socket, link: &Link, limit: Option<Bandwidth>, end: End| match limit {
        Some(limit) => Shaper::new(limit, link.mtu, end).check(socket, link),
        None => shaper::check_absent(socket, link),
    };
    namespace.inside(|socket| compare(socket, &pair.pod, limits.egress, End::Pod))?;
    compare(&mut socket()?, &pair.host, limits.ingress, End::Host)?;
    let Some(pod) = pod else { return Ok(()) };
    let directory = Directory::new(configuration.directory());
    let found = directory.read_attachment(&of.container, &of.interface).map_err(unreadable)?;
    let mut expected = record(configuration, of, netns, pod, (&pair.host, &previous, limits));
    if let Some(found) = &found {
        // systemd-udevd assigns another address after ADD (MACAddressPolicy=persistent).
        expected.host_interface.hardware.clone_from(&found.host_interface.hardware);
    }
    if found.as_ref() == Some(&expected) {
        return Ok(());
    }
    let what = if found.is_some() { "is another than ADD writes" } else { "does not exist" };
    let text = format!("the record of {} of container {} {what}", of.interface, of.container);
    let details = format!("in {}; DEL and ADD write it again", directory.path().display());
    Err(CniError::new(Code::NotAsAdded, text, details))
}

fn del(configuration: &Configuration, of: &AttachmentId, netns: Option<&Path>) -> Result<(), CniError> {
    let directory = Directory::new(configuration.directory());
    // A damaged record is removed as well; the limits are then found by the namespace alone.
    let record = directory.read_attachment(&of.container, &of.interface).ok().flatten();
    let others = match &record {
        Some(_) => Vec::new(),
        None => directory.read_all().map_err(unreadable)?.attachments,
    };
    let namespace = netns.map(Namespace::open).transpose()?.flatten();
    release(&directory, of, namespace.as_ref(), (record.as_ref(), &others))
}

/// Removes an attachment's limits, then its record. Without a record of its own, the limits are those that no record of
/// `others` has.
fn release(
    directory: &Directory,
    of: &AttachmentId,
    namespace: Option<&Namespace>,
    (record, others): (Option<&Attachment>, &[Attachment]),
) -> Result<(), CniError> {
    let pair = match namespace.map(|namespace| Pair::of(namespace, &of.interface)).transpose() {
        // No pair: the interface is gone, or ADD has refused it.
        Err(error) if error.code == Code::InvalidConfiguration => None,
        pair => pair?,
    };
    let is_of = |record: &Attachment, host: &Link| {
        record.host_interface.index == host.index && record.host_interface.name == host.name
    };
    let is_own = |pair: &Pair| match record {
        Some(record) => is_of(record, &pair.host),
        None => !others.iter().any(|other| is_of(other, &pair.host)),
    };
    let own = namespace.zip(pair.as_ref().filter(|pair| is_own(pair)));
    unlimit(own, record)?;
    directory.remove_attachment(&of.container, &of.interface).map(|_| ()).map_err(unwritable)
}

/// Removes the limits of both ends as far as they exist: without the pair, that of the host's end in the record.
fn unlimit(pair: Option<(&Namespace, &Pair)>, record: Option<&Attachment>) -> Result<(), CniError> {
    if let Some((namespace, pair)) = pair {
        namespace.inside(|socket| shaper::remove(socket, &pair.pod, End::Pod))?;
        return shaper::remove(&mut socket()?, &pair.host, End::Host);
    }
    let Some(Attachment { host_interface: host, .. }) = record else { return Ok(()) };
    let mut socket = socket()?;
    // Indexes are used again. The hardware address may have changed since ADD.
    match link::at(&mut socket, host.index)?.filter(|link| link.name == host.name) {
        Some(link) => shaper::remove(&mut socket, &link, End::Host),
        None => Ok(()),
    }
}

fn gc(configuration: &Configuration) -> Result<(), CniError> {
    let valid = configuration.valid_attachments()?;
    let directory = Directory::new(configuration.directory());
    let records = directory.read_all().map_err(unreadable)?;
    let mut failure = None;
    for record in &records.attachments {
        let of = AttachmentId { container: record.container.clone(), interface: record.interface.clone() };
        if record.network.as_ref() != Some(&configuration.network) || valid.contains(&of) {
            continue;
        }
        let namespace = Namespace::open(Path::new(&record.netns)).ok().flatten();
        if let Err(error) = release(&directory, &of, namespace.as_ref(), (Some(record), &[])) {
            failure.get_or_insert(error);
        }
    }
    // Files that cannot be read stay, since their attachment is unknown.
    for (name, cause) in records.refused.iter().filter(|(name, _)| name.starts_with(ATTACHMENT)) {
        let path = directory.path().join(name).display().to_string();
        let hint = format!("the file is removed by DEL of its attachment; if no such container runs: rm '{path}'");
        failure.get_or_insert(CniError::new(Code::Io, format!("{path}: {cause}"), hint));
    }
    failure.map_or(Ok(()), Err)
}

fn status(configuration: &Configuration) -> Result<(), CniError> {
    configuration.check_keys()?;
    // An invalid limit in the configuration would fail every ADD.
    Limits::read(configuration)?;
    let unavailable = |error: CniError| CniError::new(Code::NotAvailable, error.message, error.details);
    shaper::probe().map_err(unavailable)?;
    let directory = Directory::new(configuration.directory());
    directory.try_write().map_err(unwritable).map_err(unavailable)
}

/// The namespace of ADD and CHECK.
fn existing(path: &Path) -> Result<Namespace, CniError> {
    Namespace::open(path)?.ok_or_else(|| {
        let text = format!("CNI_NETNS: there is no network namespace {}", path.display());
        CniError::new(Code::InvalidEnvironment, text, "the runtime has to make the namespace before")
    })
}

fn unwritable(error: RecordsError) -> CniError {
    CniError::new(Code::Io, error.to_string(), "the plugin needs write access to the directory of records")
}

fn unreadable(error: RecordsError) -> CniError {
    CniError::new(Code::Io, error.to_string(), "the plugin needs read access to the directory of records")
}
