//! The limits of a pod: from the runtime, from annotations, or from the configuration.
//!
//! Three sources are read; the first that has a limit decides both directions:
//!
//! 1. `runtimeConfig.bandwidth`, which a runtime derives from the pod's annotations for plugins with the capability
//!    `bandwidth`: rates in bit/s, 0 for none;
//! 2. the annotations `kubernetes.io/ingress-bandwidth` and `kubernetes.io/egress-bandwidth` in
//!    `runtimeConfig["io.kubernetes.cri.pod-annotations"]`: quantities;
//! 3. `ingressRate` and `egressRate` of the configuration, for every pod of the network.
//!
//! Bursts are not read: runtimes pass the largest integer, with which a token bucket limits nothing for seconds. See
//! [`shaper`](crate::shaper) for the burst in force.
//!
//! Worked example: `{"bandwidth": {"ingressRate": 10000000, "egressRate": 0}}` limits traffic to the pod to 10 Mb/s.
//!
//! Source: CNI conventions, "Dynamic plugin specific fields"; containerd internal/cri/annotations; the configuration
//! of the plugin `bandwidth`, which uses the same keys.

use crate::configuration::Configuration;
use crate::error::{CniError, Code};
use crate::quantity;
use serde::Deserialize;
use std::collections::BTreeMap;
use weir_units::Bandwidth;

/// The annotation of traffic to the pod.
pub const INGRESS: &str = "kubernetes.io/ingress-bandwidth";
/// The annotation of traffic from the pod.
pub const EGRESS: &str = "kubernetes.io/egress-bandwidth";

/// The limits of a pod; none is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Traffic to the pod.
    pub ingress: Option<Bandwidth>,
    /// Traffic from the pod.
    pub egress: Option<Bandwidth>,
}

#[derive(Debug, Default, Deserialize)]
struct RuntimeConfig {
    bandwidth: Option<Rates>,
    #[serde(rename = "io.kubernetes.cri.pod-annotations")]
    annotations: Option<BTreeMap<String, String>>,
}

/// Rates as JSON numbers, which may be of any size.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rates {
    ingress_rate: Option<serde_json::Number>,
    egress_rate: Option<serde_json::Number>,
}

impl Limits {
    /// Reads the limits of a configuration.
    ///
    /// # Errors
    /// A value that is no rate, or one out of bounds.
    pub fn read(configuration: &Configuration) -> Result<Self, CniError> {
        let runtime: RuntimeConfig = configuration.get("runtimeConfig")?.unwrap_or_default();
        let dynamic = runtime.bandwidth.unwrap_or_default();
        let annotations = runtime.annotations.unwrap_or_default();
        let fixed =
            Rates { ingress_rate: configuration.get("ingressRate")?, egress_rate: configuration.get("egressRate")? };
        let annotation = |key: &str| {
            let text = annotations.get(key);
            let refused = |(text, why): (&String, String)| invalid(&format!("{key}: `{}`", text.escape_debug()), why);
            text.map(|text| quantity::rate(text).map_err(|why| refused((text, why)))).transpose()
        };
        let at = "runtimeConfig.bandwidth.";
        let mut limits = dynamic.limits(at)?;
        if limits == Self::default() {
            limits = Self { ingress: annotation(INGRESS)?, egress: annotation(EGRESS)? };
        }
        if limits == Self::default() { fixed.limits("") } else { Ok(limits) }
    }
}

impl Rates {
    fn limits(&self, at: &str) -> Result<Limits, CniError> {
        let read = |key: &str, number: &Option<serde_json::Number>| {
            let Some(number) = number else { return Ok(None) };
            let refused = |why: String| invalid(&format!("{at}{key}: {number}"), why);
            let bps = number.as_u64().ok_or_else(|| refused("write a whole number of bit/s, 0 for no limit".into()))?;
            if bps == 0 { Ok(None) } else { quantity::within_bounds(bps.into()).map(Some).map_err(refused) }
        };
        Ok(Limits { ingress: read("ingressRate", &self.ingress_rate)?, egress: read("egressRate", &self.egress_rate)? })
    }
}

fn invalid(what: &str, why: String) -> CniError {
    CniError::new(Code::InvalidConfiguration, format!("{what} is no limit"), why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(keys: &str) -> Result<Limits, CniError> {
        let text = format!(r#"{{"cniVersion": "1.0.0", "name": "pods", "type": "weir-cni"{keys}}}"#);
        Limits::read(&Configuration::read(text.as_bytes()).expect("a configuration"))
    }

    fn of(ingress: u64, egress: u64) -> Limits {
        let rate = |bps| (bps > 0).then_some(Bandwidth::from_bps(bps));
        Limits { ingress: rate(ingress), egress: rate(egress) }
    }

    #[test]
    fn first_source_with_a_limit_decides() {
        let bandwidth = r#""bandwidth": {"ingressRate": 20000000, "ingressBurst": 2147483647, "egressRate": 0}"#;
        let annotations =
            r#""io.kubernetes.cri.pod-annotations": {"kubernetes.io/egress-bandwidth": "10M", "other": "x"}"#;
        let fixed = r#", "ingressRate": 5000, "egressRate": 6000"#;
        for (keys, expected) in [
            (String::new(), of(0, 0)),
            (r#", "runtimeConfig": {}"#.into(), of(0, 0)),
            (format!(r#", "runtimeConfig": {{{bandwidth}, {annotations}}}{fixed}"#), of(20_000_000, 0)),
            (format!(r#", "runtimeConfig": {{{annotations}}}{fixed}"#), of(0, 10_000_000)),
            (format!(r#", "runtimeConfig": {{"bandwidth": {{"ingressRate": 0}}, {annotations}}}"#), of(0, 10_000_000)),
            (fixed.into(), of(5_000, 6_000)),
        ] {
            assert_eq!(limits(&keys).expect("limits"), expected, "{keys}");
        }
    }

    #[test]
    fn values_that_are_no_limits_are_refused_with_position_and_remedy() {
        let refused = |keys: &str| {
            let error = limits(keys).expect_err("refused");
            assert_eq!(error.code, Code::InvalidConfiguration);
            (error.message, error.details)
        };
        let annotation = |value: &str| {
            let key = "io.kubernetes.cri.pod-annotations";
            refused(&format!(r#", "runtimeConfig": {{"{key}": {{"kubernetes.io/ingress-bandwidth": "{value}"}}}}"#))
        };
        let expected = (
            "kubernetes.io/ingress-bandwidth: `10m` is no limit".into(),
            "m stands for thousandths; for megabits per second write 10M".into(),
        );
        assert_eq!(annotation("10m"), expected);
        let rate = |value: &str| refused(&format!(r#", "runtimeConfig": {{"bandwidth": {{"egressRate": {value}}}}}"#));
        assert_eq!(rate("7").0, "runtimeConfig.bandwidth.egressRate: 7 is no limit");
        assert_eq!(rate("7").1, "7 bit/s is less than 1k (1 kb/s), the least limit");
        assert_eq!(rate("-1000000").1, "write a whole number of bit/s, 0 for no limit");
        assert_eq!(rate("1e6").1, "write a whole number of bit/s, 0 for no limit");
        assert_eq!(refused(r#", "ingressRate": 1.5"#).0, "ingressRate: 1.5 is no limit");
        assert_eq!(limits(r#", "ingressRate": "10M""#).expect_err("refused").code, Code::Decode);
    }
}
