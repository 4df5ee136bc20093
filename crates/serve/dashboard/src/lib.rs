//! A page that shows racks, machines and services over time.
//!
//! Problem: the limits of services, with their causes and times, are spread over all agents of a
//! network, each of which has only its present status. Approach: the dashboard reads every agent's
//! status once a second, keeps an hour of it in memory, and serves one page without external
//! resources. It decides nothing and stores nothing; agents need no configuration for it.
//!
//! | module | does |
//! |---|---|
//! | [`history`] | an hour of usage, limits and deciding constraints, in bounded memory |
//! | [`network_status`] | the newest statuses and their history, by the policy's machines and services |
//! | [`api`] | both as JSON |
//! | `credits` | ports that grant credits, and what holds flows, as JSON |
//! | [`page`] | the page, and the permissions of its scripts |
//!
//! Worked example: 100 machines with 20 services: 4,000 series of 660 samples, 32 MB.
//!
//! ```no_run
//! # let policy = std::sync::Arc::new(weir_policy::Policy::read(std::path::Path::new("policy.yaml"))?.0);
//! use weir_observe::{Liveness, Source, server};
//!
//! let source = |address| Liveness::new(Source::at(std::net::SocketAddr::new(address, 30566)), None);
//! let machines = policy.network().machines().iter();
//! let machines = machines.map(|machine| source(machine.address().expect("has one"))).collect();
//! let config = weir_dashboard::Config { policy, machines, fabric: Vec::new(), switches: Vec::new() };
//! let server = weir_dashboard::start(server::listen("127.0.0.1:8080".parse()?)?, config)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod api;
mod credits;
pub mod history;
pub mod network_status;
pub mod page;

use network_status::NetworkStatus;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use weir_observe::server::{self, Limits, Server};
use weir_observe::{Liveness, Whose, watcher};
use weir_policy::Policy;

/// Configuration of a dashboard.
#[derive(Debug, Clone)]
pub struct Config {
    /// The policy, for racks, machines, services and capacities.
    pub policy: Arc<Policy>,
    /// The sources of the machines' statuses, in the policy's order.
    pub machines: Vec<Liveness>,
    /// The sources of fabric brokers' statuses.
    pub fabric: Vec<Liveness>,
    /// The sources of switches' statuses (`weir switch watch`, `weir switch bind`, `weir forwarder`).
    pub switches: Vec<Liveness>,
}

/// The watched statuses, shared by the page and the watcher.
#[derive(Debug, Clone)]
pub struct SharedStatus(Arc<Mutex<NetworkStatus>>);

impl SharedStatus {
    /// No statuses yet, under a policy.
    pub fn new(policy: &Arc<Policy>) -> Self {
        Self(Arc::new(Mutex::new(NetworkStatus::new(policy))))
    }
    /// Works on the statuses under a lock; `work` must not wait.
    pub fn with<T>(&self, work: impl FnOnce(&mut NetworkStatus) -> T) -> T {
        // A panic of another request leaves a consistent state, which can be shown.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Watches the machines and serves the page, on a thread of its own, until the returned value is
/// dropped.
pub fn start(listener: TcpListener, config: Config) -> io::Result<Server> {
    server::start("dashboard", listener, Limits::default(), move || {
        let Config { policy, machines, fabric, switches } = config;
        let shared = SharedStatus::new(&policy);
        let seen = shared.clone();
        let machines = machines.into_iter().map(|machine| machine.of(Whose::Agent));
        let fabric = fabric.into_iter().map(|broker| broker.of(Whose::FabricBroker));
        let switches = switches.into_iter().map(|switch| switch.of(Whose::Switch));
        let livenesses: Vec<Liveness> = machines.chain(fabric).chain(switches).collect();
        tokio::spawn(async move { watcher::watch(livenesses, |view| seen.with(|seen| seen.take(view))).await });
        api::router(shared)
    })
}

/// Serves the page of statuses that the caller fills in, on a thread of its own, until the returned
/// value is dropped.
pub fn serve(listener: TcpListener, shared: SharedStatus) -> io::Result<Server> {
    server::start("dashboard", listener, Limits::default(), move || api::router(shared))
}
