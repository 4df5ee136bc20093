//! [`PodLabels`]: lists and events to changes of records.

use crate::objects::{Event, Pod};
use std::collections::{BTreeMap, BTreeSet};
use weir_pods::{FORMAT, Labels};

/// A change of the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A record that is new or different.
    Write(Labels),
    /// The namespace and the name of a pod that is gone.
    Remove(String, String),
}

/// The records as they are. Order of calls: [`PodLabels::new`]; [`PodLabels::list`]; [`PodLabels::follow`] for each
/// event. Whenever events may be missing, begin again with the records that are there then.
#[derive(Debug)]
pub struct PodLabels {
    /// The node whose pods count; every pod without one.
    node: Option<String>,
    known: BTreeMap<(String, String), Labels>,
}

impl PodLabels {
    /// From the records that are there.
    pub fn new(node: Option<String>, there: Vec<Labels>) -> Self {
        let known = there.into_iter().map(|of| ((of.namespace.clone(), of.name.clone()), of)).collect();
        Self { node, known }
    }

    /// The changes for a list of all pods.
    pub fn list(&mut self, pods: &[Pod]) -> Vec<Change> {
        let mut there = BTreeSet::new();
        let mut changes = Vec::new();
        for pod in pods {
            if !self.is_meant(pod) {
                continue;
            }
            there.insert((pod.metadata.namespace.clone(), pod.metadata.name.clone()));
            changes.extend(self.write(pod));
        }
        let gone: Vec<(String, String)> = self.known.keys().filter(|key| !there.contains(key)).cloned().collect();
        changes.extend(gone.into_iter().filter_map(|(namespace, name)| self.remove(&namespace, &name, None)));
        changes
    }

    /// The change for an event, if there is one.
    pub fn follow(&mut self, event: &Event) -> Option<Change> {
        match event {
            Event::Added(pod) | Event::Modified(pod) if self.is_meant(pod) => self.write(pod),
            Event::Added(pod) | Event::Modified(pod) | Event::Deleted(pod) => {
                self.remove(&pod.metadata.namespace, &pod.metadata.name, pod.metadata.uid.as_deref())
            }
            Event::Bookmark(_) | Event::Error(_) => None,
        }
    }

    /// Whether a plugin attaches the pod on this node.
    fn is_meant(&self, pod: &Pod) -> bool {
        !pod.spec.host_network && self.node.as_ref().is_none_or(|node| *node == pod.spec.node_name)
    }

    fn write(&mut self, pod: &Pod) -> Option<Change> {
        let of = &pod.metadata;
        let record = Labels {
            pod: FORMAT,
            namespace: of.namespace.clone(),
            name: of.name.clone(),
            uid: of.uid.clone(),
            labels: of.labels.clone(),
        };
        let before = self.known.insert((of.namespace.clone(), of.name.clone()), record.clone());
        (before.as_ref() != Some(&record)).then_some(Change::Write(record))
    }

    /// Removes the record of a pod, unless it is of a newer pod with another UID.
    fn remove(&mut self, namespace: &str, name: &str, uid: Option<&str>) -> Option<Change> {
        let key = (namespace.to_owned(), name.to_owned());
        let known = self.known.get(&key)?;
        if uid.is_some() && known.uid.is_some() && known.uid.as_deref() != uid {
            return None;
        }
        self.known.remove(&key);
        Some(Change::Remove(key.0, key.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::PodList;

    fn pod(name: &str, uid: &str, more: &str) -> String {
        format!(
            r#"{{ "metadata": {{ "namespace": "shop", "name": "{name}", "uid": "{uid}", "resourceVersion": "7",
                 "labels": {{ "app": "web" }}, "annotations": {{ "kubernetes.io/egress-bandwidth": "10M", "a": "" }} }},
                 "spec": {{ "nodeName": "m1", "containers": [] {more} }}, "status": {{ "phase": "Running" }} }}"#
        )
    }

    fn event(kind: &str, object: &str) -> Event {
        serde_json::from_str(&format!(r#"{{ "type": "{kind}", "object": {object} }}"#)).expect("an event")
    }

    fn list(pods: &[String]) -> Vec<Pod> {
        let items = pods.join(",");
        let text = format!(r#"{{ "kind": "PodList", "metadata": {{ "resourceVersion": "9" }}, "items": [{items}] }}"#);
        let list: PodList = serde_json::from_str(&text).expect("a list");
        assert_eq!(list.metadata.resource_version, "9");
        list.items
    }

    fn record(name: &str, uid: &str) -> Labels {
        Labels {
            pod: FORMAT,
            namespace: "shop".into(),
            name: name.into(),
            uid: Some(uid.into()),
            labels: [("app".to_owned(), "web".to_owned())].into(),
        }
    }

    fn removed(name: &str) -> Change {
        Change::Remove("shop".into(), name.into())
    }

    #[test]
    fn a_list_replaces_the_records_of_an_earlier_process() {
        let mut pods = PodLabels::new(Some("m1".into()), vec![record("same", "1"), record("gone", "2")]);
        let all = [
            pod("same", "1", ""),
            pod("new", "3", ""),
            pod("host", "4", r#", "hostNetwork": true"#),
            pod("far", "5", "").replace("\"m1\"", "\"m2\""),
        ];
        assert_eq!(pods.list(&list(&all)), [Change::Write(record("new", "3")), removed("gone")]);
        assert_eq!(pods.list(&list(&all)), []);
        assert_eq!(pods.list(&[]), [removed("new"), removed("same")]);
    }

    #[test]
    fn events_change_records() {
        let mut pods = PodLabels::new(None, Vec::new());
        let mut follow = |kind: &str, object: &str| pods.follow(&event(kind, object));
        assert_eq!(follow("ADDED", &pod("a", "1", "")), Some(Change::Write(record("a", "1"))));
        assert_eq!(follow("MODIFIED", &pod("a", "1", "")), None, "the same labels");
        let changed = follow("MODIFIED", &pod("a", "1", "").replace("\"web\"", "\"db\""));
        assert!(matches!(changed, Some(Change::Write(labels)) if labels.labels["app"] == "db"));
        // A pod of this name has taken its place before the end of the first is reported.
        assert!(follow("ADDED", &pod("a", "2", "")).is_some());
        assert_eq!(follow("DELETED", &pod("a", "1", "")), None);
        assert_eq!(follow("DELETED", &pod("a", "2", "")), Some(removed("a")));
        assert_eq!(follow("DELETED", &pod("a", "2", "")), None);
        let bookmark = r#"{ "kind": "Pod", "metadata": { "resourceVersion": "12" } }"#;
        assert_eq!(follow("BOOKMARK", bookmark), None);
        assert_eq!(event("BOOKMARK", bookmark).version(), Some("12"));
        let error = event("ERROR", r#"{ "kind": "Status", "code": 410, "message": "too old", "reason": "Expired" }"#);
        assert!(matches!(error, Event::Error(status) if status.code == 410));
    }
}
