//! Objects of the API, as far as they matter here. Other keys are ignored.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The metadata of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The UID.
    pub uid: Option<String>,
    /// The version from which a watch can go on.
    pub resource_version: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
}

/// The specification of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// The node that it runs on.
    pub node_name: String,
    /// Whether it has the host's namespace of network, so that no plugin attaches it.
    pub host_network: bool,
}

/// A pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// `Pod`; the API server leaves it out in lists.
    pub kind: Option<String>,
    /// The metadata.
    pub metadata: Metadata,
    /// The specification.
    pub spec: Spec,
}

/// A list of pods: `PodList`, or the `List` of `kubectl get pods -o json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PodList {
    /// `PodList` or `List`.
    #[serde(default)]
    pub kind: String,
    /// The version of the list.
    #[serde(default)]
    pub metadata: Metadata,
    /// The pods.
    pub items: Vec<Pod>,
}

/// Why a text is no list of pods.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// No JSON, or another structure.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// A list of another kind, or no list.
    #[error("its kind is `{}`, and not PodList or List", .0.escape_debug())]
    Kind(String),
    /// An object that is no pod.
    #[error("the kind of item {index}, `{}`, is `{}`, and not Pod", name.escape_debug(), kind.escape_debug())]
    Item {
        /// The position, from 0.
        index: usize,
        /// The object's name.
        name: String,
        /// The object's kind.
        kind: String,
    },
}

impl PodList {
    /// Reads `kubectl get pods --output json`, or the response to a list.
    ///
    /// # Errors
    /// Text that is no list of pods. A list of other objects would remove the records of all pods.
    pub fn read(text: &[u8]) -> Result<Self, ListError> {
        let list: Self = serde_json::from_slice(text)?;
        if !matches!(list.kind.as_str(), "PodList" | "List") {
            return Err(ListError::Kind(list.kind));
        }
        for (index, item) in list.items.iter().enumerate() {
            if let Some(kind) = item.kind.as_ref().filter(|kind| *kind != "Pod") {
                return Err(ListError::Item { index, name: item.metadata.name.clone(), kind: kind.clone() });
            }
        }
        Ok(list)
    }
}

/// An event of a watch.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", content = "object", rename_all = "UPPERCASE")]
pub enum Event {
    /// A pod that is new to the watch.
    Added(Pod),
    /// A pod that has changed.
    Modified(Pod),
    /// A pod that is gone.
    Deleted(Pod),
    /// A version alone.
    Bookmark(Pod),
    /// The end of the watch.
    Error(Status),
}

/// Why the API server refused a request, or ended a watch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The code of HTTP.
    pub code: u16,
    /// The reason.
    pub message: String,
    /// The causes of the reason.
    pub details: Option<Details>,
}

/// The details of a status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Details {
    /// The causes.
    pub causes: Vec<Cause>,
}

/// A cause of a status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// The kind of cause.
    pub reason: String,
}

impl Status {
    /// Whether the version of the request is too old (410), or newer than the server's. For the latter the server
    /// responds with a timeout (504) of this cause; servers before Kubernetes 1.19 have the message alone.
    pub fn is_expired(&self) -> bool {
        let causes = self.details.iter().flat_map(|details| &details.causes);
        let is_newer = causes.map(|cause| cause.reason.as_str()).any(|reason| reason == "ResourceVersionTooLarge")
            || self.message.contains("Too large resource version");
        self.code == 410 || self.code == 504 && is_newer
    }
}

impl Event {
    /// The version from which a watch goes on after the event.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Added(pod) | Self::Modified(pod) | Self::Deleted(pod) | Self::Bookmark(pod) => {
                Some(pod.metadata.resource_version.as_str()).filter(|version| !version.is_empty())
            }
            Self::Error(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_other_objects_are_refused() {
        let refused = |text: &str| PodList::read(text.as_bytes()).expect_err("refused").to_string();
        assert_eq!(refused(r#"{ "items": [] }"#), "its kind is ``, and not PodList or List");
        assert_eq!(
            refused(r#"{ "kind": "NodeList", "items": [] }"#),
            "its kind is `NodeList`, and not PodList or List"
        );
        let list = r#"{ "kind": "List", "items": [ { "kind": "Pod", "metadata": { "name": "a" } },
            { "kind": "Service", "metadata": { "name": "b" } } ] }"#;
        assert_eq!(refused(list), "the kind of item 1, `b`, is `Service`, and not Pod");
        assert!(refused(r#"{ "kind": "Pod", "metadata": { "name": "a" } }"#).starts_with("missing field `items`"));
        for kind in ["List", "PodList"] {
            let list = format!(r#"{{ "kind": "{kind}", "items": [ {{ "metadata": {{ "name": "a" }} }} ] }}"#);
            assert_eq!(PodList::read(list.as_bytes()).expect("a list").items.len(), 1);
        }
    }
}
