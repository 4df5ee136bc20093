//! The loop of the agent.
//!
//! One thread, four sources: the socket, the fabric broker's line, the broker's timer, and signals. Each input goes to the broker,
//! then all its outputs are carried out. What fails while running (a datagram that cannot be sent, a status that
//! cannot be written) is logged and counted; what makes enforcement impossible ends the agent with the host as it was found.

use crate::fabric_line::FabricLine;
use crate::host::{Host, HostError, Standing};
use crate::status::{self, Period, Teller};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::UdpSocket;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{debug, info, warn};
use weir_control::{Input, MeterReading, Mode, Output, RackBroker, RackBrokerConfig, RuntimeLimit};
use weir_fabric::{Line, LineConfig, LineError};
use weir_linux::settings::{self, ControlSettings};
use weir_observe::{Publisher, server};
use weir_policy::Policy;
use weir_units::{Bandwidth, Bytes, Duration, Instant, MachineId, PerDirection};
use weir_wire::{DecodeError, Key, Message};

/// Everything that an agent needs to know.
pub struct AgentConfig {
    /// The policy.
    pub policy: Arc<Policy>,
    /// The machine that this is.
    pub machine: MachineId,
    /// The interface to shape.
    pub interface: String,
    /// Where to listen for rack datagrams; nothing else listens.
    pub listen: SocketAddr,
    /// Where the other machines of the rack listen.
    pub peers: Vec<(MachineId, SocketAddr)>,
    /// The key that tags datagrams.
    pub key: Key,
    /// Higher than at any earlier start, see [`weir_state::epoch`].
    pub epoch: u64,
    /// How the broker is timed.
    pub broker: RackBrokerConfig,
    /// Replace a qdisc that somebody else put on the interface.
    pub force: bool,
    /// Where to write the status once a period, if anywhere.
    pub status: Option<PathBuf>,
    /// Where to serve `/status` and `/metrics`, if anywhere; nothing listens otherwise.
    pub metrics: Option<SocketAddr>,
    /// Leave everything in force at the end, for the next agent.
    pub keep: bool,
    /// How to reach the fabric broker, if there is one.
    pub fabric: Option<LineConfig>,
}

/// Why the agent ended or did not start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The interface cannot be brought or kept under the policy.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The line to the fabric broker.
    #[error(transparent)]
    Fabric(#[from] LineError),
    /// The socket or the signals.
    #[error("{what}: {error}")]
    Io {
        /// What was attempted.
        what: String,
        /// The system's answer.
        #[source]
        error: io::Error,
    },
}

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> AgentError {
    let what = what.into();
    move |error| AgentError::Io { what, error }
}

/// Datagrams that did not reach the broker, by reason.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct DatagramCounters {
    /// Cut off.
    pub truncated: u64,
    /// Not of this protocol.
    pub foreign: u64,
    /// Of another version.
    pub version: u64,
    /// With a tag that does not verify.
    pub forged: u64,
    /// With a good tag around nonsense.
    pub malformed: u64,
    /// Genuine, but for a fabric broker.
    pub misdirected: u64,
    /// That could not be sent.
    pub unsent: u64,
}

impl DatagramCounters {
    fn count(&mut self, error: DecodeError) {
        *match error {
            DecodeError::Truncated => &mut self.truncated,
            DecodeError::Foreign => &mut self.foreign,
            DecodeError::Version(_) => &mut self.version,
            DecodeError::Forged => &mut self.forged,
            DecodeError::Malformed(_) => &mut self.malformed,
        } += 1;
    }
}

/// Runs until SIGTERM or SIGINT, and then leaves the interface as it was found.
pub fn run(config: AgentConfig) -> Result<(), AgentError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io_error("start the event loop"))?;
    runtime.block_on(async {
        // Whatever can be refused is tried before the host is touched.
        let mut terminate = signal(SignalKind::terminate()).map_err(io_error("listen for SIGTERM"))?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(io_error("listen for SIGINT"))?;
        let socket = UdpSocket::bind(config.listen).await.map_err(io_error(format!("listen on {}", config.listen)))?;
        let watched = config.metrics.map(listen).transpose()?;
        let line = config.fabric.clone().map(Line::start).transpose()?;
        let cookie = settings::cookie(&socket).map_err(io_error("ask for the socket's cookie"))?;
        let control = ControlSettings {
            listen: config.listen,
            cookie,
            epoch: config.epoch,
            peers: config.peers.iter().map(|(_, address)| address.ip()).collect(),
            timeout: config.broker.timeout,
        };
        let standing = Standing { key: &config.key, control };
        let host = Host::install(&config.policy, config.machine, &config.interface, &standing, config.force)?;
        let publisher = watched.is_some().then(Publisher::new);
        // On a thread of its own, which ends when this does.
        let _server = match (watched, &publisher) {
            (Some(listener), Some(publisher)) => {
                let reader = publisher.reader();
                let served = server::start("status", listener, server::Limits::default(), move || reader.router());
                Some(served.map_err(io_error("serve the status"))?)
            }
            _ => None,
        };
        let mut daemon = Daemon::new(config, host, socket, line, publisher);
        let result = tokio::select! {
            result = daemon.serve() => result,
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        };
        daemon.teller.end();
        if daemon.config.keep && result.is_ok() {
            info!("leaving what was put on {} in force", daemon.config.interface);
            daemon.host.leave();
        } else {
            info!("taking down what was put on {}", daemon.config.interface);
            daemon.host.remove()?;
        }
        result
    })
}

/// Listens for whoever watches, which is refused before the host is touched if it cannot be.
fn listen(address: SocketAddr) -> Result<TcpListener, AgentError> {
    server::listen(address).map_err(io_error(format!("listen on {address}")))
}

struct Daemon {
    config: AgentConfig,
    host: Host,
    socket: UdpSocket,
    broker: RackBroker,
    line: FabricLine,
    started: tokio::time::Instant,
    mode: Mode,
    datagrams: DatagramCounters,
    /// Last readings and when, to show usage.
    meters: (Instant, Vec<MeterReading>),
    usage: Vec<PerDirection<Bandwidth>>,
    teller: Teller,
}

impl Daemon {
    fn new(
        config: AgentConfig,
        host: Host,
        socket: UdpSocket,
        line: Option<Line>,
        publisher: Option<Publisher>,
    ) -> Self {
        let broker = RackBroker::new(&config.policy, config.machine, config.epoch, config.broker, Instant::ZERO);
        info!(
            "agent ready: {} on {} by {}, listening on {}",
            config.policy.network().machine(config.machine).name(),
            config.interface,
            host.backend(),
            config.listen
        );
        if host.is_adopted() {
            info!("went on where an earlier agent ended");
        }
        for absent in host.absent() {
            let service = config.policy.services().get(*absent).path();
            warn!("packets of `{service}` are not on {}: not limited here", config.interface);
        }
        let line = FabricLine::new(line, &config.policy);
        let (epoch, period) = (config.epoch, config.broker.period);
        let outline = status::outline(&config.policy, config.machine, &config.interface, &host, epoch, period);
        let teller = Teller::new(outline, config.status.clone(), publisher);
        let (mode, meters) = (broker.mode(), (Instant::ZERO, Vec::new()));
        let started = tokio::time::Instant::now();
        let datagrams = DatagramCounters::default();
        Self { config, host, socket, broker, line, started, mode, datagrams, meters, usage: Vec::new(), teller }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    async fn serve(&mut self) -> Result<(), AgentError> {
        // One byte more than a datagram can have shows nothing new; UDP cuts what is longer.
        let mut buffer = vec![0; 65_536];
        loop {
            let due = self.broker.poll_timeout().unwrap_or(Instant::from_nanos(u64::MAX));
            let wait = due.saturating_since(self.now());
            tokio::select! {
                received = self.socket.recv_from(&mut buffer) => match received {
                    Ok((length, from)) => self.receive(&buffer[..length], from),
                    // An ICMP error of an earlier datagram: that peer does not listen yet.
                    Err(error) => debug!("receive: {error}"),
                },
                limits = self.line.limits() => {
                    let now = self.now();
                    self.broker.handle_input(now, Input::Fabric(&limits));
                }
                () = tokio::time::sleep(std(wait)) => {
                    let now = self.now();
                    self.broker.handle_input(now, Input::Timeout);
                }
            }
            self.carry_out().await?;
        }
    }

    fn receive(&mut self, datagram: &[u8], from: SocketAddr) {
        match weir_wire::decode(datagram, &self.config.key) {
            Ok(message) => match message.rack_input() {
                Some(input) => {
                    let now = self.now();
                    self.broker.handle_input(now, input);
                }
                None => {
                    self.datagrams.misdirected += 1;
                    debug!("datagram from {from} ignored: it is for a fabric broker");
                }
            },
            Err(error) => {
                self.datagrams.count(error);
                debug!("datagram from {from} ignored: {error}");
            }
        }
    }

    async fn carry_out(&mut self) -> Result<(), AgentError> {
        while let Some(output) = self.broker.poll_output() {
            match output {
                Output::ReadMeters => {
                    let now = self.now();
                    let readings = self.host.read_meters()?;
                    self.measure(now, &readings);
                    self.broker.handle_input(now, Input::Meters(&readings));
                }
                Output::Broadcast(report) => self.broadcast(&report.into()).await,
                Output::Relay(relay) => self.broadcast(&relay.into()).await,
                Output::ReportRack(report) => self.line.report(report),
                // What an earlier agent left holds until this one has heard somebody, or nobody for the timeout.
                Output::SetLimits(_) if self.resumes() => self.tell_status(),
                Output::SetLimits(limits) => {
                    let changed = self.host.set_limits(&limits)?;
                    self.tell(&changed);
                    self.tell_status();
                }
            }
        }
        Ok(())
    }

    /// Whether this agent has adopted limits and knows no better yet.
    fn resumes(&self) -> bool {
        let young = self.now() < Instant::ZERO + self.config.broker.timeout;
        self.host.is_adopted() && young && self.broker.mode() == Mode::Static
    }

    fn measure(&mut self, now: Instant, readings: &[MeterReading]) {
        let (before, old) = &self.meters;
        let time = now.saturating_since(*before);
        let rate = |now: Bytes, before: Bytes| Bandwidth::from_transfer(now.saturating_sub(before), time);
        if old.len() == readings.len() {
            let pairs = readings.iter().zip(old);
            let usage = |(n, o): (&MeterReading, &MeterReading)| PerDirection {
                tx: rate(n.bytes.tx, o.bytes.tx),
                rx: rate(n.bytes.rx, o.bytes.rx),
            };
            self.usage = pairs.map(usage).collect();
        }
        self.meters = (now, readings.to_vec());
    }

    async fn broadcast(&mut self, message: &Message) {
        let datagram = weir_wire::encode(message, &self.config.key);
        for (machine, address) in &self.config.peers {
            if let Err(error) = self.socket.send_to(&datagram, address).await {
                self.datagrams.unsent += 1;
                let name = self.config.policy.network().machine(*machine).name();
                debug!("datagram to {name} at {address}: {error}");
            }
        }
    }

    /// Says what changed in the words of the policy.
    fn tell(&mut self, changed: &[RuntimeLimit]) {
        if self.mode != self.broker.mode() {
            self.mode = self.broker.mode();
            match self.mode {
                Mode::Static => warn!(
                    "no word from any machine of the rack for {}: back to the static policy",
                    self.config.broker.timeout
                ),
                Mode::Runtime => info!("the rack's policy is in force"),
            }
        }
        for limit in changed {
            let service = self.config.policy.services().get(limit.service).path();
            debug!("{service} {}: limit {}", limit.direction, limit.limit);
        }
    }

    fn tell_status(&mut self) {
        let uptime = self.now().saturating_since(Instant::ZERO);
        let kernel = self.host.kernel_readings();
        if let Err(error) = &kernel {
            debug!("the kernel's readings: {error}");
        }
        self.teller.tell(&Period {
            kernel: kernel.ok().as_ref(),
            uptime,
            broker: &self.broker,
            readings: &self.meters.1,
            usage: &self.usage,
            datagrams: &self.datagrams,
            line: &self.line,
        });
    }
}

fn std(duration: Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(duration.nanos())
}
