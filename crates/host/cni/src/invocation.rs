//! The environment of a plugin: the verb and the attachment that it is about.
//!
//! Worked example: `CNI_COMMAND=ADD CNI_CONTAINERID=4f1a CNI_NETNS=/run/netns/a CNI_IFNAME=eth0
//! CNI_ARGS=K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-1` is ADD of the interface `eth0` of the pod `shop/web-1`.
//!
//! Source: the CNI specification 1.1.0, "Parameters"; its conventions (`CNI_ARGS`); Kubernetes' `K8S_POD_*`, which
//! containerd and CRI-O set.

use crate::configuration::Version;
use crate::error::{CniError, Code};
use std::ffi::OsString;
use std::path::PathBuf;

/// The longest name of an interface: IFNAMSIZ with the zero at the end is 16.
const INTERFACE_NAME: usize = 15;

/// A container's interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttachmentId {
    /// `CNI_CONTAINERID`.
    pub container: String,
    /// `CNI_IFNAME`.
    pub interface: String,
}

/// A pod of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID, where the runtime gives it.
    pub uid: Option<String>,
}

/// The runtime's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    /// Set up an interface; the pod is none where the runtime names none.
    Add(AttachmentId, PathBuf, Option<Pod>),
    /// Compare an interface with its setup.
    Check(AttachmentId, PathBuf, Option<Pod>),
    /// Remove what ADD has made; the namespace may be gone.
    Del(AttachmentId, Option<PathBuf>),
    /// Remove the limits and records of attachments that do not exist.
    Gc,
    /// Report whether ADD would work.
    Status,
    /// List the versions.
    Version,
}

impl Invocation {
    /// Reads the variables `CNI_*`.
    ///
    /// # Errors
    /// A variable that is missing or invalid.
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, CniError> {
        let text = |name: &str| match variable(name).map(OsString::into_string) {
            None => Ok(None),
            Some(Ok(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
            Some(Err(_)) => Err(invalid(name, "it is not UTF-8")),
        };
        let need = |name: &str| text(name)?.ok_or_else(|| invalid(name, "it is missing"));
        let attachment = || {
            let (container, interface) = (need("CNI_CONTAINERID")?, need("CNI_IFNAME")?);
            check_container(&container).map_err(|why| invalid("CNI_CONTAINERID", &why))?;
            check_interface(&interface).map_err(|why| invalid("CNI_IFNAME", &why))?;
            Ok(AttachmentId { container, interface })
        };
        let netns = || text("CNI_NETNS").map(|path| path.map(PathBuf::from));
        let pod = || text("CNI_ARGS").and_then(|arguments| pod(&arguments.unwrap_or_default()));
        let namespace = || need("CNI_NETNS").map(PathBuf::from);
        Ok(match need("CNI_COMMAND")?.as_str() {
            "ADD" => Self::Add(attachment()?, namespace()?, pod()?),
            "CHECK" => Self::Check(attachment()?, namespace()?, pod()?),
            "DEL" => Self::Del(attachment()?, netns()?),
            "GC" => Self::Gc,
            "STATUS" => Self::Status,
            "VERSION" => Self::Version,
            other => {
                let why = format!("`{other}` is none of ADD, CHECK, DEL, GC, STATUS and VERSION");
                return Err(invalid("CNI_COMMAND", &why));
            }
        })
    }

    /// The verb.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Add(..) => "ADD",
            Self::Check(..) => "CHECK",
            Self::Del(..) => "DEL",
            Self::Gc => "GC",
            Self::Status => "STATUS",
            Self::Version => "VERSION",
        }
    }

    /// The first version of the specification that has the verb.
    pub fn since(&self) -> Version {
        match self {
            Self::Add(..) | Self::Del(..) | Self::Version => Version::V0_3_1,
            Self::Check(..) => Version::V0_4_0,
            Self::Gc | Self::Status => Version::V1_1_0,
        }
    }
}

fn invalid(name: &str, why: &str) -> CniError {
    CniError::new(Code::InvalidEnvironment, format!("{name}: {why}"), "the container runtime sets this variable")
}

/// Names of containers and networks: a letter or digit, then also `_`, `.` and `-`.
pub(crate) fn is_identifier(text: &str) -> bool {
    let later = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(later)
}

fn check_container(text: &str) -> Result<(), String> {
    if is_identifier(text) {
        return Ok(());
    }
    Err(format!("`{}` is not a letter or digit, followed by letters, digits, `_`, `.` and `-`", text.escape_debug()))
}

/// The kernel's rule for names of interfaces (dev_valid_name).
fn check_interface(text: &str) -> Result<(), String> {
    let shown = text.escape_debug();
    if text.len() > INTERFACE_NAME {
        return Err(format!("`{shown}` is longer than {INTERFACE_NAME} bytes"));
    }
    if matches!(text, "." | "..") || text.contains(|c: char| c == '/' || c == ':' || c.is_whitespace()) {
        return Err(format!("`{shown}` is no name of an interface"));
    }
    Ok(())
}

/// The pod among pairs `KEY=VALUE`, separated by `;`. Others are for other plugins.
fn pod(arguments: &str) -> Result<Option<Pod>, CniError> {
    let (mut namespace, mut name, mut uid) = (None, None, None);
    for pair in arguments.split(';').filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(invalid("CNI_ARGS", &format!("`{}` is not KEY=VALUE", pair.escape_debug())));
        };
        let value = Some(value.to_owned()).filter(|value| !value.is_empty());
        match key {
            "K8S_POD_NAMESPACE" => namespace = value,
            "K8S_POD_NAME" => name = value,
            "K8S_POD_UID" => uid = value,
            _ => {}
        }
    }
    match (namespace, name) {
        (Some(namespace), Some(name)) => Ok(Some(Pod { namespace, name, uid })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(invalid("CNI_ARGS", "it has K8S_POD_NAMESPACE without K8S_POD_NAME")),
        (None, Some(_)) => Err(invalid("CNI_ARGS", "it has K8S_POD_NAME without K8S_POD_NAMESPACE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Invocation, CniError> {
        let of = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        Invocation::read(of)
    }

    const PLAIN: [(&str, &str); 3] = [("CNI_CONTAINERID", "4f1a"), ("CNI_IFNAME", "eth0"), ("CNI_NETNS", "/n")];

    fn with(verb: &'static str, arguments: &'static str) -> Vec<(&'static str, &'static str)> {
        [("CNI_COMMAND", verb), ("CNI_ARGS", arguments)].into_iter().chain(PLAIN).collect()
    }

    #[test]
    fn pod_is_read_from_the_arguments() {
        let arguments = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-1;K8S_POD_INFRA_CONTAINER_ID=4f1a";
        let Ok(Invocation::Add(of, netns, Some(pod))) = read(&with("ADD", arguments)) else { panic!("ADD of a pod") };
        assert_eq!((of.container.as_str(), of.interface.as_str()), ("4f1a", "eth0"));
        assert_eq!(netns, PathBuf::from("/n"));
        assert_eq!(pod, Pod { namespace: "shop".into(), name: "web-1".into(), uid: None });
        assert!(matches!(read(&with("ADD", "K8S_POD_UID=7;")), Ok(Invocation::Add(_, _, None))));
    }

    #[test]
    fn namespace_is_optional_for_del_only() {
        for (verb, is_optional) in [("ADD", false), ("CHECK", false), ("DEL", true)] {
            let mut variables = with(verb, "");
            variables.retain(|(name, _)| *name != "CNI_NETNS");
            assert_eq!(read(&variables).is_ok(), is_optional, "{verb}");
            variables.push(("CNI_NETNS", ""));
            assert_eq!(read(&variables).is_ok(), is_optional, "{verb} with an empty one");
        }
        for verb in ["GC", "STATUS", "VERSION"] {
            assert_eq!(read(&[("CNI_COMMAND", verb)]).expect("no other variable").verb(), verb);
        }
    }

    #[test]
    fn invalid_variables_are_refused_by_name() {
        let message = |variables: &[(&str, &str)]| read(variables).expect_err("refused").message;
        assert_eq!(message(&[]), "CNI_COMMAND: it is missing");
        assert_eq!(message(&with("add", "")), "CNI_COMMAND: `add` is none of ADD, CHECK, DEL, GC, STATUS and VERSION");
        assert_eq!(message(&with("ADD", "a=1;b")), "CNI_ARGS: `b` is not KEY=VALUE");
        assert_eq!(message(&with("ADD", "K8S_POD_NAME=a")), "CNI_ARGS: it has K8S_POD_NAME without K8S_POD_NAMESPACE");
        for (name, value) in
            [("CNI_CONTAINERID", "../x"), ("CNI_CONTAINERID", ""), ("CNI_IFNAME", "a/b"), ("CNI_IFNAME", "a:b")]
        {
            let mut variables = with("DEL", "");
            variables.retain(|(other, _)| *other != name);
            variables.push((name, value));
            let error = read(&variables).expect_err("refused");
            assert!(error.code == Code::InvalidEnvironment && error.message.starts_with(name), "{error}");
        }
    }
}
