//! The checks of the fuzz targets.
//!
//! Problem: code that reads foreign bytes (files, datagrams) must refuse mistakes with a position
//! and a cause, and must never crash; "it did not crash" alone would miss a parser that reads the
//! wrong content. Approach: each function here takes any bytes, passes them to one parser, and
//! checks the result: of a value its invariants and that it is the same when read again, of a
//! refusal that its positions lie within the text. A finding is a panic.
//!
//! | target | bytes are | module |
//! |---|---|---|
//! | [`policy()`] | a policy file | `policy` |
//! | [`demands()`] | a demands file, read against a fixed policy | `demands` |
//! | [`scenario()`] | a scenario file, read against a fixed policy | `scenario` |
//! | [`flow_list()`] | a list of flows, as CSV | `table` |
//! | [`sizes()`] | a distribution of flow sizes, as CSV | `table` |
//! | [`imported_sizes()`] | a table of flow sizes of another program | `import` |
//! | [`imported_flows()`] | a list of flows of another program | `import` |
//! | [`trace()`] | a trace of times and sizes, as CSV | `trace` |
//! | [`paper()`] | a published experiment, beside fixed scenarios, policy and demands | `paper` |
//! | [`cni_configuration()`] | a network configuration of the CNI plugin | `cni_configuration` |
//! | [`rack_datagram()`] | a rack datagram, with or without its tag | `rack_datagram` |
//! | [`fabric_datagram()`] | one between racks and the fabric broker | `fabric_datagram` |
//! | [`credit_datagram()`] | a datagram of credits, with or without its tag | `credit_datagram` |
//! | [`fabric_stream()`] | a message between a leader and the fabric broker on a stream | `fabric_stream` |
//! | [`redaction()`] | a text of the archive of `weir capture` | `redaction` |
//!
//! The functions do not depend on the fuzzing engine, so `tests/corpora.rs` replays the committed
//! seeds with stable Rust: a crash that was found and fixed is committed to `fuzz/corpus/<target>/`
//! under a descriptive name and stays a test.
//!
//! Worked example, from the root of the tree:
//!
//! ```text
//! cargo +nightly fuzz run policy -- -max_total_time=120       # look for new findings
//! cargo test -p weir-fuzz-targets                             # replay the seeds
//! ```

mod cni_configuration;
mod credit_datagram;
mod demands;
mod fabric_datagram;
mod fabric_stream;
mod import;
mod paper;
mod policy;
mod rack_datagram;
mod redaction;
mod refusal;
mod scenario;
mod shares;
mod table;
mod trace;

pub use cni_configuration::cni_configuration;
pub use credit_datagram::{credit_datagram, seeds as credit_datagram_seeds};
pub use demands::demands;
pub use fabric_datagram::{fabric_datagram, seeds as fabric_datagram_seeds};
pub use fabric_stream::{fabric_stream, seeds as fabric_stream_seeds};
pub use import::{imported_flows, imported_sizes};
pub use paper::paper;
pub use policy::policy;
pub use rack_datagram::{rack_datagram, seeds as rack_datagram_seeds};
pub use redaction::redaction;
pub use scenario::scenario;
pub use table::{flow_list, sizes};
pub use trace::trace;

/// The policy of demands, datagrams and scenarios: two racks, a nested service, every limit.
const FIXED_POLICY: &str = include_str!("../../../../fuzz/corpus/policy/nested-two-racks.yaml");

fn fixed_policy() -> weir_policy::Policy {
    match weir_policy::Policy::parse("policy.yaml", FIXED_POLICY) {
        Ok((policy, _)) => policy,
        Err(errors) => panic!("the fixed policy is refused:\n{errors}"),
    }
}
