//! The fabric broker over the network.
//!
//! Problem: rack leaders and the fabric broker are far apart, and a machine that reports for a
//! foreign rack could starve others. Approach: gRPC with mutual TLS. A rack leader opens a stream
//! and names its machine, and its certificate proves the name; from then on reports go one way and
//! limits the other. The broker itself is [`weir_control::FabricBroker`], which is independent of
//! the network.
//!
//! | module | does |
//! |---|---|
//! | [`proto`] | the messages of a stream, generated from `proto/fabric.proto` |
//! | [`convert`] | conversion to and from the brokers' own messages |
//! | [`identity`] | certificates, keys, names |
//! | [`ca`] | makes certificates, for operators who have no CA |
//! | [`daemon`] | `weir fabric`: the loop around the broker |
//! | [`cluster`], [`etcd`] | several brokers: their leader, and the policy for all |
//! | `accept`, `connections`, `service`, `streams` | the broker's side of the network |
//! | `connector` | connections to brokers, which the host lets through |
//! | [`mod@session`] | the rack leader's side, for an agent |
//! | [`binding`] | the controller of tenants' queues, and its subscribers |
//! | [`url`] | addresses of fabric brokers |
//! | `status` | the broker's status |

mod accept;
pub mod binding;
pub mod ca;
mod clock;
pub mod cluster;
mod connections;
mod connector;
pub mod convert;
mod counters;
pub mod daemon;
pub mod etcd;
mod failure;
pub mod identity;
mod service;
pub mod session;
pub mod state;
mod status;
mod streams;
pub mod url;

pub use cluster::{ClusterConfig, TooLarge};
pub use connector::HostSockets;
pub use daemon::{FabricConfig, FabricError, run};
pub use etcd::EtcdConfig;
pub use identity::{Identity, IdentityError, IdentityFiles};
pub use session::{FromFabric, Session, SessionConfig, SessionError, SessionState, SessionStatus};
pub use url::BrokerUrl;

/// The default port of fabric brokers: after the agents' ports for rack datagrams and for their
/// status.
pub const DEFAULT_PORT: u16 = 0x7767;

/// The messages of tenants' queues, as `proto/binding.proto` has them.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::too_many_lines, clippy::unwrap_used)]
pub mod binding_proto {
    tonic::include_proto!("weir.binding.v1");
}

/// The messages of a stream, as `proto/fabric.proto` has them.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::too_many_lines, clippy::unwrap_used)]
pub mod proto {
    tonic::include_proto!("weir.fabric.v1");
}
