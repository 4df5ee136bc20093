//! The records and their names.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The version of the format. A reader refuses any other.
pub const FORMAT: u32 = 1;

/// The longest name of a file of the kernel's file systems.
const FILE_NAME: usize = 255;

/// An interface in the host's namespace of network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInterface {
    /// The name, for example `veth3`.
    pub name: String,
    /// The index.
    pub index: u32,
    /// The hardware address when the record was written, for example `0a:58:0a:f4:00:05`. It may change later: the name
    /// and the index identify the interface.
    pub hardware: String,
}

/// An interface of a pod: one record for each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// [`FORMAT`].
    pub pod: u32,
    /// The network of the plugin's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The end of the pod's interface on the host.
    pub host_interface: HostInterface,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's UID, which some runtimes do not give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The container: `CNI_CONTAINERID`.
    pub container: String,
    /// The path of the pod's namespace of network: `CNI_NETNS`.
    pub netns: String,
    /// The interface in the pod: `CNI_IFNAME`.
    pub interface: String,
    /// The addresses of the pod's interface, without prefix lengths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    /// The limit of traffic to the pod in bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_bps: Option<u64>,
    /// The limit of traffic from the pod in bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_bps: Option<u64>,
}

/// The labels of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labels {
    /// [`FORMAT`].
    pub pod: u32,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// A name that a file cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Empty.
    #[error("the {0} is empty")]
    Empty(&'static str),
    /// A letter that is none of a name.
    #[error("the {what} `{}` has {letter:?} in it", text.escape_debug())]
    Letter {
        /// The part of the name.
        what: &'static str,
        /// Its name.
        text: String,
        /// The letter.
        letter: char,
    },
    /// Longer than the name of a file.
    #[error("the {0} is too long: the record's file would have a name of {1} bytes, and {FILE_NAME} are possible")]
    Long(&'static str, usize),
}

impl Attachment {
    /// The name of the record's file.
    ///
    /// # Errors
    /// A container or an interface that no file can be named after.
    pub fn file_name(&self) -> Result<String, NameError> {
        Self::file_name_of(&self.container, &self.interface)
    }

    /// The name of the file for a container and an interface in it.
    pub(crate) fn file_name_of(container: &str, interface: &str) -> Result<String, NameError> {
        file_name(ATTACHMENT, ("container", container), ("interface", interface))
    }
}

impl Labels {
    /// The name of the record's file.
    ///
    /// # Errors
    /// A namespace or a pod that no file can be named after.
    pub fn file_name(&self) -> Result<String, NameError> {
        Self::file_name_of(&self.namespace, &self.name)
    }

    /// The name of the file for a pod.
    pub(crate) fn file_name_of(namespace: &str, name: &str) -> Result<String, NameError> {
        file_name(LABELS, ("namespace", namespace), ("pod's name", name))
    }
}

/// The first part of the names of files of attachments.
pub const ATTACHMENT: &str = "attachment-";
/// The first part of the names of files of labels.
pub const LABELS: &str = "labels-";
/// The last part.
pub(crate) const JSON: &str = ".json";

fn file_name(kind: &str, first: (&'static str, &str), second: (&'static str, &str)) -> Result<String, NameError> {
    for (what, text) in [first, second] {
        if text.is_empty() {
            return Err(NameError::Empty(what));
        }
        // `:` ends the first name, and neither names of CNI and Kubernetes nor the kernel's interfaces have one.
        if let Some(letter) = text.chars().find(|c| c.is_control() || c.is_whitespace() || ['/', ':'].contains(c)) {
            return Err(NameError::Letter { what, text: text.to_owned(), letter });
        }
    }
    let name = format!("{kind}{}:{}{JSON}", first.1, second.1);
    // The temporary file has a longer name.
    match name.len() + crate::directory::TEMPORARY {
        0..=FILE_NAME => Ok(name),
        length => Err(NameError::Long(second.0, length)),
    }
}
