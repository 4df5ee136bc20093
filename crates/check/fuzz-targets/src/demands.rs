//! Demands files.

use crate::{fixed_policy, refusal, shares};
use std::fmt::Write;
use std::sync::{Arc, LazyLock};
use weir_document::Source;
use weir_policy::{Demands, Policy};

static POLICY: LazyLock<Arc<Policy>> = LazyLock::new(|| Arc::new(fixed_policy()));

/// Reads `data` as a demands file. A refusal has its positions in the text. Demands are of machines
/// and leaf services of the policy, are the same when written and read again, and can be allocated.
/// Returns whether they are accepted.
///
/// # Panics
/// If any of that does not hold: a finding.
pub fn demands(data: &[u8]) -> bool {
    let policy: &Arc<Policy> = &POLICY;
    let source = match Source::from_bytes("demands.csv", data.to_vec(), Demands::MAX_FILE) {
        Ok(source) => source,
        Err(errors) => return refusal::check(&errors),
    };
    let demands = match Demands::from_source(policy, &source) {
        Ok(demands) => demands,
        Err(errors) => return refusal::check(&errors),
    };
    let mut text = "machine,service,direction,demand\n".to_owned();
    for (machine, service, direction, demand) in demands.iter() {
        assert!(policy.services().get(service).is_leaf(), "a demand of an inner service");
        assert_eq!(demands.get(machine, service, direction), demand);
        let names = (policy.network().machine(machine).name(), policy.services().get(service).path());
        writeln!(text, "{},{},{direction},{demand}", names.0, names.1).expect("a text takes every text");
    }
    match Demands::parse(policy, "again.csv", &text) {
        Ok(again) => assert!(again == demands, "other demands when read again:\n{text}"),
        Err(errors) => panic!("refused when read again:\n{errors}"),
    }
    shares::check(policy, |machine, service, direction| demands.get(machine, service, direction));
    true
}
