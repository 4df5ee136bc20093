//! The labels of a node's pods, from the API server of Kubernetes to records ([`weir_pods::Labels`]) for the agent.
//!
//! Problem: a container plugin gets the name of a pod and not its labels, which also change while the pod runs.
//! Approach: LIST the pods of the node, then WATCH from that version on, and write a record for each pod. A watch that
//! ends is continued; after an error, or when the version is too old (410), the pods are listed again, and records of
//! pods that are gone are removed then, as are files of labels that are no records. Without the API server the records
//! stay as they are. No list is older than the records. Lists are served from the API server's memory, except the first
//! one of a process that finds records, and those after the server has refused a version. Failures lengthen the pauses
//! between requests.
//!
//! | module | does |
//! |---|---|
//! | [`objects`] | the parts of the API's objects that matter |
//! | [`pods`](PodLabels) | lists and events to changes of records, pure |
//! | [`client`] | requests with TLS and a token |
//! | [`follow`] | list, watch, back-off |
//!
//! Worked example: the label `app` of `shop/web-1` becomes `db`. The watch yields `MODIFIED` with the pod, and
//! `labels-shop:web-1.json` is replaced; the agent gets an event of the directory and moves the pod's packets.
//!
//! Source: Kubernetes, "API Concepts" (efficient detection of changes); API reference of `Pod` v1.

pub mod client;
pub mod follow;
pub mod objects;
mod pods;

pub use pods::{Change, PodLabels};
