//! The fabric broker over the network.
//!
//! Problem: the racks' leaders and the fabric broker are far apart, and whoever could speak for a rack could starve
//! others. Approach: gRPC with mutual TLS. A leader calls, says which machine it is, and its certificate proves it; from
//! then on reports go one way and limits the other. The broker itself is [`weir_control::FabricBroker`], which knows
//! nothing of all this.
//!
//! | module | does |
//! |---|---|
//! | [`proto`] | the call, generated from `proto/fabric.proto` |
//! | [`convert`] | its messages ↔ the brokers' own |
//! | [`identity`] | certificates, keys, names |
//! | [`ca`] | makes them, for operators who have no CA |
//! | [`daemon`] | `weir fabric`: the loop around the broker |
//! | [`cluster`], [`etcd`] | several brokers: who answers, and the policy for all |
//! | `accept`, `connections`, `service`, `calls` | its side of the network |
//! | [`mod@line`] | the leader's side, for an agent |
//! | [`url`] | where fabric brokers are |
//! | `status` | what the broker is doing |

mod accept;
pub mod ca;
mod clock;
pub mod cluster;
mod connections;
pub mod convert;
mod counters;
pub mod daemon;
pub mod etcd;
mod failure;
pub mod identity;
mod service;
pub mod session;
mod status;
mod streams;
pub mod url;

pub use cluster::{ClusterConfig, TooLarge};
pub use daemon::{FabricConfig, FabricError, run};
pub use etcd::EtcdConfig;
pub use identity::{Identity, IdentityError, IdentityFiles};
pub use session::{Session, SessionConfig, SessionError, SessionState, SessionStatus};
pub use url::BrokerUrl;

/// The port on which fabric brokers listen unless told otherwise: after the agents' for rack datagrams and for their
/// status.
pub const DEFAULT_PORT: u16 = 0x7767;

/// The call and its messages, as `proto/fabric.proto` has them.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used)]
pub mod proto {
    tonic::include_proto!("weir.fabric.v1");
}
