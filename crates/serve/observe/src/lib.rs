//! Serves a status over HTTP, and watches the status of other daemons.
//!
//! Problem: observation must neither slow a daemon down nor give access to it. Approach: the server
//! has its own thread, runs only if an address is configured, and is read-only (GET and HEAD). It
//! reads a snapshot that the daemon publishes without waiting. The watcher has a timeout for each
//! source and records since when a source is lost.
//!
//! | module | does |
//! |---|---|
//! | [`server`] | HTTP/1.1 on its own thread, with limits on headers, time and connections |
//! | [`admission`] | which connection makes room for a new one |
//! | `names` | the host names that are served: protection from DNS rebinding |
//! | [`publish`] | `/status` and `/metrics` of a publisher |
//! | [`source`] | the source of a status: a URL or a file |
//! | [`client`] | fetches one status from a source |
//! | [`liveness`] | liveness of a source: its last status, and since when it is lost |
//! | [`bounds`] | the causes for which the bounds of latency levels are not in force |
//! | [`watcher`] | fetches all sources once a second |
//!
//! Worked example:
//!
//! ```
//! use weir_observe::{Publisher, Source, client, server};
//! # use weir_status::{AgentStatus, Status};
//! # let text = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r1: { uplink: 1Gb/s, machines: [m1] } } }\n\
//! #             services: { a: { match: [ { port: 1 } ] } }\n";
//! # let (policy, _) = weir_policy::Policy::parse("policy.yaml", text).expect("sound");
//! # let status = AgentStatus::outline(&policy, policy.network().machine_named("m1").expect("there"));
//! let publisher = Publisher::new();
//! let listener = server::listen("127.0.0.1:0".parse()?)?;
//! let reader = publisher.reader();
//! let server = server::start("example", listener, server::Limits::default(), move || reader.router())?;
//! publisher.publish(Status::Agent(status));
//!
//! let source: Source = format!("http://{}/status", server.address()).parse()?;
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! assert_eq!(runtime.block_on(client::fetch(&source))?.name(), "m1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod admission;
pub mod bounds;
pub mod client;
pub mod liveness;
mod names;
pub mod publish;
pub mod server;
pub mod source;
pub mod watcher;

pub use client::FetchError;
pub use liveness::{Liveness, Lost, Whose};
pub use publish::{Publisher, Reader};
pub use server::Server;
pub use source::Source;
pub use watcher::Watcher;
