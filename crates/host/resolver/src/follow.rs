//! The loop of the resolver: list, watch, write records, and back off after errors.

use crate::client::{Api, ApiError};
use crate::objects::{Event, PodList};
use crate::pods::{Change, PodLabels};
use std::time::Duration;
use tracing::{debug, info, warn};
use weir_pods::{Directory, RecordsError};

/// The time after which the API server ends a watch, and the longest time without its end.
const WATCH_SECONDS: u64 = 240;
const WATCH_MAX: Duration = Duration::from_secs(WATCH_SECONDS + 30);
/// The first and the longest pause after an error.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Reads `kubectl get pods --output json`, or the response to a list.
///
/// # Errors
/// Text that is no list of pods.
pub fn read_list(text: &[u8]) -> Result<PodList, serde_json::Error> {
    serde_json::from_slice(text)
}

/// Puts changes into the directory of records, and returns the number of them.
///
/// # Errors
/// The file system. A pod that no file can be named after is left out, with a message.
pub fn apply(directory: &Directory, changes: Vec<Change>) -> Result<usize, RecordsError> {
    let count = changes.len();
    for change in changes {
        let applied = match &change {
            Change::Write(labels) => directory.write_labels(labels),
            Change::Remove(namespace, name) => directory.remove_labels(namespace, name).map(drop),
        };
        match applied {
            Err(RecordsError::Name(error)) => warn!("a pod has no record: {error}"),
            applied => applied?,
        }
    }
    Ok(count)
}

/// Follows the pods of a node until the future is dropped. Only the file system ends it.
///
/// # Errors
/// Records that cannot be written.
pub async fn follow(api: &Api, node: &str, directory: &Directory) -> Result<(), RecordsError> {
    let there = directory.read_all()?.labels;
    let mut pods = PodLabels::new(Some(node.to_owned()), there);
    let mut pause = PAUSE;
    loop {
        let mut version = match list(api, node).await {
            Ok(list) => {
                let changes = apply(directory, pods.list(&list.items))?;
                info!("{} pods on {node}, {changes} records changed", list.items.len());
                pause = PAUSE;
                list.metadata.resource_version
            }
            Err(error) => {
                warn!("list the pods of {node}: {error}; again in {} s", pause.as_secs());
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
                continue;
            }
        };
        let ended = loop {
            match watch(api, node, &mut version, &mut pods, directory).await? {
                // A server that ends watches at once gets a request a second.
                Ok(()) => tokio::time::sleep(PAUSE).await,
                Err(error) => break error,
            }
        };
        match ended.is_expired() {
            true => debug!("the version of the watch is too old"),
            false => warn!("watch the pods of {node}: {ended}"),
        }
        // A server that refuses every watch is listed once a second at most.
        tokio::time::sleep(PAUSE).await;
    }
}

async fn list(api: &Api, node: &str) -> Result<PodList, ApiError> {
    let text = api.get(&format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{}", encoded(node))).await?;
    read_list(&text).map_err(|error| ApiError::Content(error.to_string()))
}

/// Watches from a version on until the server ends the watch. The outer error is of the file system.
async fn watch(
    api: &Api,
    node: &str,
    version: &mut String,
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
                Ok(None) => return Ok(Ok(())),
                Ok(Some(line)) => line,
                Err(error) => return Ok(Err(error)),
            };
            let event: Event = match serde_json::from_slice(&line) {
                Ok(event) => event,
                Err(error) => return Ok(Err(ApiError::Content(error.to_string()))),
            };
            if let Event::Error(status) = &event {
                let error = match status.code {
                    410 => ApiError::Refused(hyper::StatusCode::GONE),
                    _ => ApiError::Content(status.message.clone()),
                };
                return Ok(Err(error));
            }
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
}
