//! The loop of the resolver: list, watch, write records, and back off after errors.

use crate::client::{Api, ApiError};
use crate::objects::{Event, Pod, PodList};
use crate::pods::{Change, PodLabels};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use tracing::{debug, info, warn};
use weir_pods::{Directory, RecordsError};

/// The time after which the API server ends a watch, and the longest time without its end.
const WATCH_SECONDS: u64 = 240;
const WATCH_MAX: Duration = Duration::from_secs(WATCH_SECONDS + 30);
/// The first and the longest pause after an error, without the random part.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The pauses between requests: doubled by each failure, from [`PAUSE`] to [`PAUSE_MAX`], and lengthened by a random
/// part of up to a half, so that the nodes of a cluster do not return to a restarted server at one moment.
struct Pauses {
    next: Duration,
}

impl Pauses {
    const fn new() -> Self {
        Self { next: PAUSE }
    }

    /// The server has served a watch.
    fn reset(&mut self) {
        self.next = PAUSE;
    }

    /// The pause after a failure.
    fn take(&mut self, random: u64) -> Duration {
        let pause = self.next + self.next.mul_f64(random as f64 / u64::MAX as f64 / 2.0);
        self.next = (self.next * 2).min(PAUSE_MAX);
        pause
    }
}

/// The version that the next list requires, and the pauses before it.
///
/// A list of any version (`0`) costs the API server least, since it responds from its memory. But that memory may be
/// behind the records of an earlier process, and such a list would remove the records of pods that have started since.
/// So a process that finds records requests its first list without a version, which is as of now; without records there
/// is nothing to undo. Later lists require the version that the records have.
struct Requests {
    /// None requires the present version.
    least: Option<String>,
    pauses: Pauses,
}

impl Requests {
    fn new(has_records: bool) -> Self {
        Self { least: (!has_records).then(|| "0".to_owned()), pauses: Pauses::new() }
    }

    /// The pause after a list that failed.
    fn list_failed(&mut self, error: &ApiError, random: u64) -> Duration {
        if error.is_expired() {
            self.least = None;
        }
        self.pauses.take(random)
    }

    /// The pause after a watch that failed, with records of this version. Refused watches lengthen the pause before the
    /// next list.
    fn watch_failed(&mut self, error: &ApiError, version: String, random: u64) -> Duration {
        self.least = (!error.is_expired()).then_some(version);
        self.pauses.take(random)
    }
}

/// A random number: the keys of the hasher are random.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// Makes the records those of a list, and returns the number that changed. Files of labels that are no records are
/// removed as well. The directory is read first, so that a record that is damaged or missing is written again.
///
/// # Errors
/// The file system. A pod that no file can be named after is left out, with a message.
pub fn replace(directory: &Directory, node: Option<&str>, list: &[Pod]) -> Result<(PodLabels, usize), RecordsError> {
    let there = directory.read_all()?;
    let removed = directory.remove_damaged_labels(&there)?;
    let mut pods = PodLabels::new(node.map(str::to_owned), there.labels);
    let changes = pods.list(list);
    let applied = apply(directory, changes)?;
    Ok((pods, removed + applied))
}

/// Puts changes into the directory of records, and returns the number of records that changed.
fn apply(directory: &Directory, changes: Vec<Change>) -> Result<usize, RecordsError> {
    let mut count = 0;
    for change in changes {
        let applied = match &change {
            Change::Write(labels) => directory.write_labels(labels).map(|()| true),
            Change::Remove(namespace, name) => directory.remove_labels(namespace, name),
        };
        match applied {
            // The removal of a record that was never written fails in the same way, which is reported once.
            Err(RecordsError::Name(error)) => {
                if let Change::Write(labels) = &change {
                    warn!("pod {}/{} has no record: {error}", labels.namespace, labels.name);
                }
            }
            applied => count += usize::from(applied?),
        }
    }
    Ok(count)
}

/// Follows the pods of a node until the future is dropped. Only the file system ends it.
///
/// # Errors
/// Records that cannot be written.
pub async fn follow(api: &Api, node: &str, directory: &Directory) -> Result<(), RecordsError> {
    let mut requests = Requests::new(!directory.read_all()?.labels.is_empty());
    loop {
        let (mut pods, mut version) = match list(api, node, requests.least.as_deref()).await {
            Ok(list) => {
                let (pods, changes) = replace(directory, Some(node), &list.items)?;
                info!("{} pods on {node}, {changes} records changed", list.items.len());
                (pods, list.metadata.resource_version)
            }
            Err(error) => {
                let pause = requests.list_failed(&error, random());
                warn!("list the pods of {node}: {error}; again in {:.1} s", pause.as_secs_f64());
                tokio::time::sleep(pause).await;
                continue;
            }
        };
        let ended = loop {
            match watch(api, node, (&mut version, &mut requests.pauses), &mut pods, directory).await? {
                // A server that ends watches at once gets a request a second.
                Ok(()) => tokio::time::sleep(PAUSE).await,
                Err(error) => break error,
            }
        };
        let pause = requests.watch_failed(&ended, version, random());
        if ended.is_expired() {
            // Usual after a time without changes on the node.
            debug!("watch the pods of {node}: {ended}; list in {:.1} s", pause.as_secs_f64());
        } else {
            warn!("watch the pods of {node}: {ended}; list in {:.1} s", pause.as_secs_f64());
        }
        tokio::time::sleep(pause).await;
    }
}

/// Lists the pods of a node, as of a version or a later one; without a version as of now.
async fn list(api: &Api, node: &str, least: Option<&str>) -> Result<PodList, ApiError> {
    let version = least.map(|version| format!("&resourceVersion={}", encoded(version))).unwrap_or_default();
    let text = api.get(&format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{}{version}", encoded(node))).await?;
    PodList::read(&text).map_err(|error| ApiError::Content(error.to_string()))
}

/// Watches from a version on until the server ends the watch. The outer error is of the file system.
async fn watch(
    api: &Api,
    node: &str,
    (version, pauses): (&mut String, &mut Pauses),
    pods: &mut PodLabels,
    directory: &Directory,
) -> Result<Result<(), ApiError>, RecordsError> {
    let path = format!(
        "/api/v1/pods?fieldSelector=spec.nodeName%3D{}&watch=true&allowWatchBookmarks=true&resourceVersion={}\
         &timeoutSeconds={WATCH_SECONDS}",
        encoded(node),
        encoded(version)
    );
    let work = async {
        let mut lines = match api.lines(&path).await {
            Ok(lines) => lines,
            Err(error) => return Ok(Err(error)),
        };
        loop {
            let line = match lines.next().await {
                Ok(None) => {
                    pauses.reset();
                    return Ok(Ok(()));
                }
                Ok(Some(line)) => line,
                Err(error) => return Ok(Err(error)),
            };
            let event: Event = match serde_json::from_slice(&line) {
                Ok(event) => event,
                Err(error) => return Ok(Err(ApiError::Content(error.to_string()))),
            };
            if let Event::Error(status) = &event {
                return Ok(Err(match status.is_expired() {
                    true => ApiError::Expired(status.code),
                    false => ApiError::Content(status.message.clone()),
                }));
            }
            pauses.reset();
            if let Some(newer) = event.version() {
                *version = newer.to_owned();
            }
            apply(directory, pods.follow(&event).into_iter().collect())?;
        }
    };
    match tokio::time::timeout(WATCH_MAX, work).await {
        Ok(ended) => ended,
        // The connection may be dead; a new watch goes on from the version.
        Err(_) => Ok(Ok(())),
    }
}

/// A value of a query, with all letters but those of names encoded (RFC 3986 §2.1).
fn encoded(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_nodes_are_one_value_of_a_query() {
        assert_eq!(encoded("m1.example-a"), "m1.example-a");
        assert_eq!(encoded("a&watch=true"), "a%26watch%3Dtrue");
    }

    #[test]
    fn pauses_double_up_to_a_bound_with_a_random_part_of_at_most_a_half() {
        let mut pauses = Pauses::new();
        let seconds: Vec<f64> = (0..7).map(|_| pauses.take(0).as_secs_f64()).collect();
        assert_eq!(seconds, [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
        assert_eq!(pauses.take(u64::MAX), Duration::from_secs(45));
        pauses.reset();
        assert_eq!(pauses.take(u64::MAX), Duration::from_millis(1_500));
        assert_ne!(random(), random());
    }

    #[test]
    fn lists_require_the_version_of_the_records_unless_the_server_cannot_serve_it() {
        let (expired, proxy) = (ApiError::Expired(504), ApiError::Refused(hyper::StatusCode::GATEWAY_TIMEOUT));
        assert_eq!(Requests::new(true).least, None);
        let mut requests = Requests::new(false);
        assert_eq!(requests.least.as_deref(), Some("0"));
        requests.list_failed(&proxy, 0);
        assert_eq!(requests.least.as_deref(), Some("0"));
        requests.list_failed(&expired, 0);
        assert_eq!(requests.least, None);
        // Successful lists do not shorten the pauses of refused watches.
        let watches = [requests.watch_failed(&proxy, "7".into(), 0), requests.watch_failed(&proxy, "8".into(), 0)];
        assert_eq!(watches, [4, 8].map(Duration::from_secs));
        assert_eq!(requests.least.as_deref(), Some("8"));
        requests.watch_failed(&expired, "9".into(), 0);
        assert_eq!(requests.least, None);
    }
}
