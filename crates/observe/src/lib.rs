//! Serves a status over HTTP, and watches those of others.
//!
//! Problem: whoever watches a network must not slow it down or open a door into it. Approach: a server on a thread of its
//! own, only where an address is configured, which reads only (GET and HEAD), from a snapshot that is handed over without
//! waiting; and a watcher that gives up on whoever is slow and says since when.
//!
//! | module | does |
//! |---|---|
//! | [`server`] | HTTP/1.1 with limits on headers, time and connections, on a thread of its own |
//! | `names` | under which names it answers: pages of others in a browser read nothing |
//! | [`publish`] | `/status` and `/metrics` of whoever publishes |
//! | [`source`] | where a status comes from: a URL or a file |
//! | [`client`] | one status from there |
//! | [`liveness`] | what is known of a source, and since when it is lost |
//! | [`watcher`] | all sources, once a second |
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
//! let server = server::start("example", listener, server::Limits::default(), { let reader = publisher.reader(); move || reader.router() })?;
//! publisher.publish(Status::Agent(status));
//!
//! let source: Source = format!("http://{}/status", server.address()).parse()?;
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! assert_eq!(runtime.block_on(client::fetch(&source))?.name(), "m1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
