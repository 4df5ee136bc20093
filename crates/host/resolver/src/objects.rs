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
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
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
    /// The metadata.
    pub metadata: Metadata,
    /// The specification.
    pub spec: Spec,
}

/// A list of pods: `PodList`, or the `List` of `kubectl get pods -o json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PodList {
    /// The version of the list.
    #[serde(default)]
    pub metadata: Metadata,
    /// The pods.
    pub items: Vec<Pod>,
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

/// Why the API server ended a watch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The code of HTTP; 410 if the version is too old.
    pub code: u16,
    /// The reason.
    pub message: String,
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
