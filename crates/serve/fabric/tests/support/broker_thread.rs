//! A fabric broker in a thread of a test, for tests of several crates.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_control::{FabricBrokerConfig, Stale};
use weir_fabric::ca::{Ca, Holder};
use weir_fabric::{BrokerUrl, FabricConfig};
use weir_policy::Policy;

/// T_fabric in tests.
pub(crate) const PERIOD: weir_units::Duration = weir_units::Duration::from_millis(400);

/// A broker on loopback, with the files of a directory: `policy.yaml`, NAME for its state, `NAME.json` for its status.
pub(crate) fn config(policy: &Arc<Policy>, ca: &Ca, directory: &Path, name: &str) -> FabricConfig {
    FabricConfig {
        policy: Arc::clone(policy),
        policy_file: directory.join("policy.yaml"),
        listen: "127.0.0.1:0".parse().expect("an address"),
        identity: ca.files(&Holder::Fabric(vec!["127.0.0.1".to_owned()])),
        state: directory.join(name),
        broker: FabricBrokerConfig::new(PERIOD, PERIOD * 5, Stale::Keep),
        publisher: None,
        status: Some(directory.join(format!("{name}.json"))),
        cluster: None,
        placement: None,
    }
}

/// Runs a broker until the process ends; returns its address once it listens.
pub(crate) fn start(config: FabricConfig) -> BrokerUrl {
    let status = config.status.clone().expect("a file of the status");
    std::thread::spawn(move || weir_fabric::run(config));
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let text = std::fs::read(&status).unwrap_or_default();
        let read: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        if let Some(url) = read["name"].as_str() {
            return url.parse().expect("an address");
        }
        assert!(Instant::now() < end, "waited 20 s for the broker to listen");
        std::thread::sleep(Duration::from_millis(20));
    }
}
