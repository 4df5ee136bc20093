//! Records of pods: files by which a container plugin and a resolver describe the pods of a host to its agent.
//!
//! Problem: a filter such as `pod: { labels: app=web }` is about packets of an interface on the host, whose name is
//! not the pod's. The plugin has the interface and the pod's name, the API server has the labels, and
//! the agent needs both. Approach: one file per fact in a directory, [`DIRECTORY`], each of one writer:
//!
//! | file | written by | has |
//! |---|---|---|
//! | `attachment-CONTAINER:INTERFACE.json` | the plugin `weir-cni` | host interface, pod, limits: [`Attachment`] |
//! | `labels-NAMESPACE:NAME.json` | `weir pods` | labels of a pod: [`Labels`] |
//!
//! A file is written beside its path and renamed, so that a reader gets a whole record or none. `:` occurs in none of
//! the names, so that two records never share a file. Other files are ignored.
//!
//! Worked example: the plugin attaches the pod `shop/web-1` and writes `attachment-4f1a:eth0.json` with the host
//! interface `veth3`; the resolver lists the pod and writes `labels-shop:web-1.json`. The agent joins them by the
//! pod's UID, and packets of `veth3` are of a service with `pod: { labels: app=web }`.
//!
//! Source: the CNI specification 1.1.0 (container and interface names); Kubernetes, "Object Names and IDs".

mod directory;
mod record;

pub use directory::{Directory, Records, RecordsError};
pub use record::{ATTACHMENT, Attachment, FORMAT, HostInterface, LABELS, Labels, NameError};

/// The directory of records.
pub const DIRECTORY: &str = "/run/weir/pods";

#[cfg(test)]
mod tests;
