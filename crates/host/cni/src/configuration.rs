//! The network configuration on standard input.
//!
//! Problem: a runtime merges its own keys into the administrator's configuration, and DEL has to succeed where ADD was
//! refused. Approach: keys are taken apart once and read where a verb needs them: DEL reads neither limits nor the
//! previous result. ADD and STATUS refuse keys that the plugin does not have, since a misspelt limit would be none.
//!
//! Worked example: `{"cniVersion": "1.0.0", "name": "pods", "type": "weir-cni", "capabilities": {"bandwidth": true},
//! "prevResult": {…}, "runtimeConfig": {"bandwidth": {"ingressRate": 10000000}}}`.
//!
//! Source: the CNI specification 1.1.0, section 1 and "Deriving plugin configuration".

use crate::error::{CniError, Code};
use crate::invocation::{AttachmentId, is_identifier};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// A version of the CNI specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(non_camel_case_types)]
pub enum Version {
    /// 0.3.1: chains, with `prevResult`.
    V0_3_1,
    /// 0.4.0: CHECK.
    V0_4_0,
    /// 1.0.0.
    V1_0_0,
    /// 1.1.0: GC and STATUS.
    V1_1_0,
}

impl Version {
    /// All versions, the oldest first.
    pub const ALL: [Self; 4] = [Self::V0_3_1, Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];
    /// The newest.
    pub const NEWEST: Self = Self::V1_1_0;

    /// As configurations name it.
    pub fn text(self) -> &'static str {
        match self {
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }
}

/// Keys of a plugin's configuration. Those with a slash are reserved to specifications of others.
const KEYS: [&str; 13] = [
    "args",
    "capabilities",
    "cniVersion",
    "dns",
    "egressBurst",
    "egressRate",
    "ingressBurst",
    "ingressRate",
    "ipam",
    "name",
    "prevResult",
    "records",
    "runtimeConfig",
];

/// The configuration of a network, taken apart.
#[derive(Debug)]
pub struct Configuration {
    /// The version of the specification.
    pub version: Version,
    /// The name of the network.
    pub network: String,
    /// The directory of records.
    pub records: PathBuf,
    keys: BTreeMap<String, Box<RawValue>>,
}

/// The part of a result that the plugin reads.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultKeys {
    /// Absent in results of runtimes that omit it; the version of the configuration applies.
    #[serde(default, deserialize_with = "present")]
    cni_version: Option<String>,
    #[serde(default)]
    interfaces: Vec<ResultInterface>,
    #[serde(default)]
    ips: Vec<ResultAddress>,
}

#[derive(Debug, Deserialize)]
struct ResultInterface {
    name: String,
    #[serde(default)]
    sandbox: String,
}

#[derive(Debug, Deserialize)]
struct ResultAddress {
    address: String,
    interface: Option<usize>,
}

/// Deserialises a key that is present; `null` is an error.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    String::deserialize(value).map(Some)
}

/// The result of the plugin before this one in the chain.
#[derive(Debug)]
pub struct PreviousResult {
    text: String,
    keys: ResultKeys,
}

impl PreviousResult {
    /// The result, byte for byte; a version is inserted where it has none, since the result of a plugin needs one.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The addresses of a container's interface. Those that name no interface are the container's.
    pub fn addresses(&self, interface: &str) -> Vec<IpAddr> {
        let is_own = |index: Option<usize>| match index.map(|index| self.keys.interfaces.get(index)) {
            None => true,
            Some(of) => of.is_some_and(|of| of.name == interface && !of.sandbox.is_empty()),
        };
        let own = self.keys.ips.iter().filter(|ip| is_own(ip.interface));
        let bare = |text: &str| text.split_once('/').map_or(text, |(address, _)| address).parse().ok();
        own.filter_map(|ip| bare(&ip.address)).collect()
    }
}

impl Configuration {
    /// Reads version, name and directory; other keys are read by the functions below.
    ///
    /// # Errors
    /// Text that is no configuration, or a version that the plugin does not support.
    pub fn read(input: &[u8]) -> Result<Self, CniError> {
        let undecodable =
            |error: serde_json::Error| CniError::new(Code::Decode, "the configuration is invalid", error.to_string());
        let keys: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(input).map_err(undecodable)?;
        let version: String = take(&keys, "cniVersion")?.unwrap_or_else(|| "0.1.0".into());
        let version = Version::ALL.into_iter().find(|own| own.text() == version).ok_or_else(|| {
            let text = format!("the configuration has cniVersion {version}");
            CniError::new(Code::IncompatibleVersion, text, format!("weir-cni supports {}", versions().join(", ")))
        })?;
        let network: String = take(&keys, "name")?.unwrap_or_default();
        if !is_identifier(&network) {
            let text = format!("`{}` is no name of a network", network.escape_debug());
            let hint = "set `name`: a letter or digit, then letters, digits, `_`, `.` and `-`";
            return Err(CniError::new(Code::InvalidConfiguration, text, hint));
        }
        let records = take::<PathBuf>(&keys, "records")?.unwrap_or_else(|| weir_pods::DIRECTORY.into());
        if !records.is_absolute() {
            let text = format!("records: `{}` is not an absolute path", records.display());
            let hint = format!("leave it out for {}", weir_pods::DIRECTORY);
            return Err(CniError::new(Code::InvalidConfiguration, text, hint));
        }
        Ok(Self { version, network, records, keys })
    }

    /// Refuses keys that the plugin does not have.
    ///
    /// # Errors
    /// The first such key, with its value.
    pub fn check_keys(&self) -> Result<(), CniError> {
        let known = |key: &str| key == "type" || key.contains('/') || KEYS.contains(&key);
        let Some((key, value)) = self.keys.iter().find(|(key, _)| !known(key)) else { return Ok(()) };
        let text = format!("`{}` is no key of weir-cni (its value: {})", key.escape_debug(), value.get());
        Err(CniError::new(Code::UnsupportedField, text, format!("its keys: {}", KEYS.join(", "))))
    }

    /// The value of a key, if it has one.
    ///
    /// # Errors
    /// A value of another type.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, CniError> {
        take(&self.keys, key)
    }

    /// The result of the previous plugin.
    ///
    /// # Errors
    /// There is none, it is no result, or it is of another version.
    pub fn previous(&self) -> Result<PreviousResult, CniError> {
        let Some(value) = self.keys.get("prevResult").filter(|value| value.get() != "null") else {
            let hint = "weir-cni is chained: put it behind the plugin that makes the interface, such as bridge";
            return Err(CniError::new(Code::InvalidConfiguration, "there is no prevResult", hint));
        };
        let undecodable = |cause: String| CniError::new(Code::Decode, "prevResult is no result", cause);
        if !value.get().starts_with('{') {
            return Err(undecodable("it is no object".into()));
        }
        let keys: ResultKeys = serde_json::from_str(value.get()).map_err(|error| undecodable(error.to_string()))?;
        let own = self.version.text();
        let text = match &keys.cni_version {
            Some(version) if version == own => value.get().to_owned(),
            Some(version) => {
                let text = format!("prevResult has cniVersion {version}, and the configuration {own}");
                let hint = "a plugin prints its result in the version of its configuration";
                return Err(CniError::new(Code::InvalidConfiguration, text, hint));
            }
            None => with_version(value.get(), own),
        };
        Ok(PreviousResult { text, keys })
    }

    /// The attachments that exist, of GC.
    ///
    /// # Errors
    /// The runtime gives no list.
    pub fn valid_attachments(&self) -> Result<Vec<AttachmentId>, CniError> {
        #[derive(Deserialize)]
        struct Valid {
            #[serde(rename = "containerID")]
            container: String,
            ifname: String,
        }
        const KEY: &str = "cni.dev/valid-attachments";
        if !self.keys.contains_key(KEY) {
            let hint = "GC without this list would remove every attachment";
            return Err(CniError::new(Code::InvalidConfiguration, format!("there is no {KEY}"), hint));
        }
        // Runtimes in Go print an empty list as null.
        let list: Vec<Valid> = self.get(KEY)?.unwrap_or_default();
        Ok(list.into_iter().map(|of| AttachmentId { container: of.container, interface: of.ifname }).collect())
    }

    /// The directory of records.
    pub fn directory(&self) -> &Path {
        &self.records
    }
}

/// The versions that the plugin supports.
pub fn versions() -> [&'static str; 4] {
    Version::ALL.map(Version::text)
}

/// An object with `cniVersion` before its other keys, which are kept byte for byte.
fn with_version(object: &str, version: &str) -> String {
    let rest = &object[1..];
    let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
    format!(r#"{{"cniVersion":"{version}"{comma}{rest}"#)
}

fn take<T: DeserializeOwned>(keys: &BTreeMap<String, Box<RawValue>>, key: &str) -> Result<Option<T>, CniError> {
    let Some(value) = keys.get(key) else { return Ok(None) };
    serde_json::from_str(value.get()).map_err(|error| {
        let text = format!("{key}: {error}");
        CniError::new(Code::Decode, text, format!("its value: {}", value.get()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Configuration, CniError> {
        Configuration::read(text.as_bytes())
    }

    fn refused(text: &str) -> (Code, String) {
        let error = read(text).expect_err("refused");
        (error.code, error.message)
    }

    #[test]
    fn version_and_name_are_required() {
        for version in versions() {
            let read = read(&format!(r#"{{"cniVersion": "{version}", "name": "pods"}}"#)).expect("valid");
            assert_eq!((read.version.text(), read.network.as_str()), (version, "pods"));
            assert_eq!(read.directory(), Path::new("/run/weir/pods"));
        }
        assert_eq!(
            refused(r#"{"name": "pods"}"#),
            (Code::IncompatibleVersion, "the configuration has cniVersion 0.1.0".into())
        );
        assert_eq!(refused(r#"{"cniVersion": "2.0.0", "name": "a"}"#).0, Code::IncompatibleVersion);
        assert_eq!(
            refused(r#"{"cniVersion": "1.0.0"}"#),
            (Code::InvalidConfiguration, "`` is no name of a network".into())
        );
        assert_eq!(refused("{").0, Code::Decode);
        assert_eq!(refused("[]").0, Code::Decode);
        assert_eq!(refused("").0, Code::Decode);
        assert_eq!(refused(r#"{"cniVersion": 1, "name": "a"}"#).0, Code::Decode);
        let relative = r#"{"cniVersion": "1.0.0", "name": "a", "records": "run"}"#;
        assert_eq!(refused(relative).1, "records: `run` is not an absolute path");
    }

    #[test]
    fn previous_result_is_required_in_the_same_version() {
        let of = |previous: &str| {
            read(&format!(r#"{{"cniVersion": "1.0.0", "name": "a"{previous}}}"#)).expect("valid").previous()
        };
        let kept = r#"{ "cniVersion":"1.0.0" ,"ips": [],  "dns": {"x": 18446744073709551616.0} }"#;
        assert_eq!(of(&format!(r#", "prevResult": {kept}"#)).expect("a result").text(), kept);
        // Without a version, as the specification's example of a runtime has it.
        let kept = r#"{ "ips": [],  "dns": {"x": 18446744073709551616.0} }"#;
        let expected = format!(r#"{{"cniVersion":"1.0.0",{}"#, &kept[1..]);
        assert_eq!(of(&format!(r#", "prevResult": {kept}"#)).expect("a result").text(), expected);
        assert_eq!(of(r#", "prevResult": { }"#).expect("a result").text(), r#"{"cniVersion":"1.0.0" }"#);
        for (previous, code, message) in [
            ("", Code::InvalidConfiguration, "there is no prevResult"),
            (r#", "prevResult": null"#, Code::InvalidConfiguration, "there is no prevResult"),
            (r#", "prevResult": 7"#, Code::Decode, "prevResult is no result"),
            (r#", "prevResult": []"#, Code::Decode, "prevResult is no result"),
            (r#", "prevResult": {"cniVersion": null}"#, Code::Decode, "prevResult is no result"),
            (
                r#", "prevResult": {"cniVersion": "0.4.0"}"#,
                Code::InvalidConfiguration,
                "prevResult has cniVersion 0.4.0, and the configuration 1.0.0",
            ),
        ] {
            let error = of(previous).expect_err("refused");
            assert_eq!((error.code, error.message.as_str()), (code, message));
        }
    }

    #[test]
    fn addresses_are_those_of_the_containers_interface() {
        let text = r#"{"cniVersion": "1.0.0", "name": "a", "prevResult": {"cniVersion": "1.0.0",
            "interfaces": [{"name": "br0"}, {"name": "eth0", "sandbox": "/n"}, {"name": "net1", "sandbox": "/n"}],
            "ips": [{"address": "10.1.0.5/16", "interface": 1}, {"address": "10.2.0.5/16", "interface": 2},
                {"address": "fd00::5/64"}, {"address": "10.1.0.1/16", "interface": 0}, {"address": "10.9.0.1/16",
                "interface": 9}]}}"#;
        let previous = read(text).expect("valid").previous().expect("a result");
        let expected: [IpAddr; 2] = [[10, 1, 0, 5].into(), "fd00::5".parse().expect("an address")];
        assert_eq!(previous.addresses("eth0"), expected);
    }

    #[test]
    fn unknown_keys_are_refused_with_their_values() {
        let of = |key: &str| read(&format!(r#"{{"cniVersion": "1.0.0", "name": "a", {key}}}"#)).expect("valid");
        let error = of(r#""ingress": 7"#).check_keys().expect_err("refused");
        assert_eq!(error.code, Code::UnsupportedField);
        assert_eq!(error.message, "`ingress` is no key of weir-cni (its value: 7)");
        for key in [r#""type": "weir-cni""#, r#""cni.dev/attachments": []"#, r#""args": {}"#, r#""dns": {}"#] {
            of(key).check_keys().expect("known");
        }
    }

    #[test]
    fn collection_needs_the_list_of_attachments() {
        let of = |keys: &str| read(&format!(r#"{{"cniVersion": "1.1.0", "name": "a"{keys}}}"#)).expect("valid");
        let error = of("").valid_attachments().expect_err("refused");
        assert_eq!(error.message, "there is no cni.dev/valid-attachments");
        let list = of(r#", "cni.dev/valid-attachments": [{"containerID": "4f1a", "ifname": "eth0"}]"#);
        assert_eq!(of(r#", "cni.dev/valid-attachments": null"#).valid_attachments().expect("a list"), []);
        let expected = AttachmentId { container: "4f1a".into(), interface: "eth0".into() };
        assert_eq!(list.valid_attachments().expect("a list"), [expected]);
    }
}
