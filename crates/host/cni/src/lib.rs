//! The chained CNI plugin `weir-cni`: limits of a pod at its interface, and a record of the pod for the agent.
//!
//! Problem: a policy names pods, and packets have interfaces; pods carry limits in annotations, which nothing enforces.
//! Approach: a container runtime executes the plugin behind the one that has made the pod's interface. ADD sets the
//! limits at both ends of the pod's veth pair, records which interface is whose, and returns the previous plugin's
//! result unchanged. No process stays; the kernel enforces the limits whether or not an agent runs.
//!
//! | module | does |
//! |---|---|
//! | [`invocation`] | the environment: verb, container, interface, pod |
//! | [`configuration`] | the network configuration on standard input |
//! | [`quantity`] | Kubernetes' quantities, such as `10M` |
//! | [`limits`] | limits of both directions, from the runtime, annotations or the configuration |
//! | [`link`] | both ends of a pod's veth pair |
//! | [`shaper`] | a limit at one end: TBF with fq_codel |
//! | [`verbs`] | ADD, CHECK, DEL, GC, STATUS, VERSION |
//! | [`error`] | errors as the specification prints them |
//!
//! Worked example: `bridge` has made `eth0` with the host end `veth3`; the pod has
//! `kubernetes.io/egress-bandwidth: 10M`. ADD attaches a TBF of 10 Mb/s to `eth0` in the pod's namespace, where TCP's
//! own queue limits throttle the sender, writes `/run/weir/pods/attachment-4f1a:eth0.json` and prints the result of
//! `bridge`.
//!
//! Source: the CNI specification, versions 0.3.1, 0.4.0, 1.0.0 and 1.1.0, and its conventions.

pub mod configuration;
pub mod error;
pub mod invocation;
pub mod limits;
pub mod link;
pub mod quantity;
pub mod shaper;
pub mod verbs;

use configuration::{Configuration, Version};
use error::{CniError, Code};
use invocation::Invocation;
use std::ffi::OsString;

/// Runs the plugin once: the variables of its environment and its standard input. Returns its standard output.
///
/// # Errors
/// The text of an error object for standard output.
pub fn run(variable: impl Fn(&str) -> Option<OsString>, input: &[u8]) -> Result<String, String> {
    let printed = |version: &str| {
        let version = version.to_owned();
        move |error: CniError| error.print(&version)
    };
    let invocation = Invocation::read(variable).map_err(printed(Version::NEWEST.text()))?;
    if matches!(invocation, Invocation::Version) {
        return verbs::version(input).map_err(printed(Version::NEWEST.text()));
    }
    let configuration = Configuration::read(input).map_err(printed(Version::NEWEST.text()))?;
    let version = configuration.version;
    if version < invocation.since() {
        let text = format!("{} exists since version {}", invocation.verb(), invocation.since().text());
        let hint = format!("set cniVersion to {} or later", invocation.since().text());
        return Err(CniError::new(Code::IncompatibleVersion, text, hint).print(version.text()));
    }
    verbs::run(&invocation, &configuration).map_err(printed(version.text()))
}
