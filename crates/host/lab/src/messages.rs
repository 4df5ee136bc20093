//! Messages over real TCP: `kind: incast` and `barrier`, whose flows start together.
//!
//! Problem: measure messages of many hosts that all send at once; iperf3, with a process for each
//! flow, starts too slowly for that and does not report single messages. Approach: the flow group's
//! workload, which the simulator drives too ([`weir_workload`]), gives sender, receiver, size and
//! time of each message, and takes the completions. Each message has a connection of its own, as a
//! flow of the simulator has, and a thread at each end; both are in their machine's namespace. Its
//! time counts from its due time until its last byte was read, so it includes the handshake and
//! both hosts' turns on the processor.
//!
//! Identification: a receiver identifies a message by its sender's address and port, which the
//! sender reports before its first byte. Threads that a thread starts are in its namespace, so each
//! machine has a thread that was started there and starts those of its messages.
//!
//! Worked example: `{ kind: incast, from: senders, to: d1, size: 2411kB, every: 4s }` with three
//! senders: three connections to a port of the service on d1 at 0 s, 4 s and so on.

use crate::network::{NIC, Network, address};
use crate::real_time::{LOOK, PATIENCE, since, time};
use crate::traffic::{CONGESTION_CONTROL, TrafficError, free_port};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_datapath::{Classifier, ClassifierError};
use weir_linux::netns::NetnsError;
use weir_results::{FlowRecord, Group, Results};
use weir_scenario::{LabScenario, Traffic};
use weir_units::MachineId;
use weir_workload::Workload;

/// Why messages cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum MessagesError {
    /// A socket or a thread.
    #[error("{what}: {error}")]
    Io {
        /// The attempted operation.
        what: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// Entering a namespace.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// The policy's filters.
    #[error(transparent)]
    Classifier(#[from] ClassifierError),
    /// A port.
    #[error(transparent)]
    Ports(#[from] TrafficError),
    /// A message failed.
    #[error("a message of {name}: {error}")]
    Message {
        /// The flow group.
        name: String,
        /// Why.
        error: io::Error,
    },
}

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> MessagesError {
    let what = what.into();
    move |error| MessagesError::Io { what, error }
}

/// Events of message threads, for the thread of their flow group.
enum MessageEvent {
    /// A message is sent from this address.
    Begun(SocketAddr, u64),
    /// A number of bytes arrived from this address, the last one at this time.
    Ended(SocketAddr, u64, f64),
    Failed(io::Error),
}

/// A message to be sent.
struct Job {
    to: SocketAddr,
    bytes: u64,
    tag: u64,
}

/// A group of messages under way; returns all messages that were begun.
type Running = JoinHandle<Result<Vec<FlowRecord>, MessagesError>>;

fn joined(thread: Running) -> Result<Vec<FlowRecord>, MessagesError> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// All groups of messages of a scenario; ended when dropped.
pub struct Messages {
    /// Ready until the traffic begins.
    idle: Vec<MessageGroup>,
    running: Vec<Running>,
    groups: Vec<Group>,
    stop: Arc<AtomicBool>,
}

/// One flow group of messages and its machines.
struct MessageGroup {
    name: String,
    workload: Workload,
    receivers: BTreeMap<MachineId, SocketAddr>,
    /// By sending machine.
    jobs: HashMap<MachineId, Sender<Job>>,
    events: Receiver<MessageEvent>,
    /// The machines' own threads.
    threads: Vec<JoinHandle<()>>,
    /// Senders of the traffic's start time, to the receivers.
    origin: Vec<Sender<Instant>>,
}

impl Messages {
    /// Makes all receivers listen and starts the machines' threads; `taken` returns the ports of a
    /// machine that are in use.
    pub fn prepare(
        network: &Network,
        scenario: LabScenario<'_>,
        taken: &dyn Fn(MachineId) -> Vec<u16>,
    ) -> Result<Self, MessagesError> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut all = Self { idle: Vec::new(), running: Vec::new(), groups: Vec::new(), stop };
        let mut own: Vec<(MachineId, u16)> = Vec::new();
        for (index, group) in (0u64..).zip(scenario.messages()) {
            let ready = all.prepare_group(network, scenario, (index, group), taken, &mut own)?;
            all.idle.push(ready);
            let transport = group.transport.protocol().to_owned();
            all.groups.push(Group { name: group.name.clone(), transport });
        }
        Ok(all)
    }

    fn prepare_group(
        &self,
        network: &Network,
        scenario: LabScenario<'_>,
        (index, group): (u64, &Traffic),
        taken: &dyn Fn(MachineId) -> Vec<u16>,
        own: &mut Vec<(MachineId, u16)>,
    ) -> Result<MessageGroup, MessagesError> {
        let weir_workload::Spec::Rounds(rounds) = &group.spec else { unreachable!("messages are rounds") };
        let service = group.service.expect("a flow group under a policy has a service");
        let policy = scenario.policy();
        let classifier = Classifier::of(policy, Some(NIC))?;
        let (sender, events) = mpsc::channel();
        let mut ready = MessageGroup {
            name: group.name.clone(),
            workload: Workload::new(&group.spec, scenario.seed() ^ index << 32),
            receivers: BTreeMap::new(),
            jobs: HashMap::new(),
            events,
            threads: Vec::new(),
            origin: Vec::new(),
        };
        let senders = rounds.senders();
        for to in rounds.receivers() {
            let mut used = taken(to);
            used.extend(own.iter().filter(|(machine, _)| *machine == to).map(|(_, port)| *port));
            // A filter may select the packets' source: the port must fit all senders.
            let mut port = None;
            for from in senders.iter().filter(|from| **from != to) {
                let fits = free_port(policy, &classifier, service, false, (*from, to), &used)?;
                if *port.get_or_insert(fits) != fits {
                    return Err(TrafficError::Ports {
                        service: policy.services().get(service).path().to_owned(),
                        machine: crate::network::machine_name(policy, to).to_owned(),
                        protocols: "tcp, the same from all senders",
                    }
                    .into());
                }
            }
            let port = port.expect("a receiver has a sender");
            own.push((to, port));
            let at = SocketAddr::from((address(to), port));
            let (origin, begins) = mpsc::channel();
            let (sender, stop) = (sender.clone(), Arc::clone(&self.stop));
            let listen = move || -> io::Result<JoinHandle<()>> {
                let listener = TcpListener::bind(at)?;
                let work = move || receive(&listener, &begins, &sender, &stop);
                std::thread::Builder::new().name("messages come".to_owned()).spawn(work)
            };
            let thread = network.machine(to).run(listen)?;
            ready.threads.push(thread.map_err(io_error(format!("listen for messages at {at}")))?);
            ready.origin.push(origin);
            ready.receivers.insert(to, at);
        }
        for from in senders {
            let (jobs, todo) = mpsc::channel();
            let (sender, stop) = (sender.clone(), Arc::clone(&self.stop));
            let work = move || send_all(from, &todo, &sender, &stop);
            let start = move || std::thread::Builder::new().name("messages go".to_owned()).spawn(work);
            let thread = network.machine(from).run(start)?.map_err(io_error("start a sender of messages"))?;
            ready.threads.push(thread);
            ready.jobs.insert(from, jobs);
        }
        Ok(ready)
    }

    /// The traffic began at `origin`.
    pub fn begin(&mut self, origin: Instant) -> Result<(), MessagesError> {
        for group in self.idle.drain(..) {
            for receiver in &group.origin {
                // The receiver is gone only if it failed, which it has reported.
                let _ = receiver.send(origin);
            }
            let stop = Arc::clone(&self.stop);
            let thread = std::thread::Builder::new().name("messages".to_owned());
            let thread = thread.spawn(move || group.run(origin, &stop)).map_err(io_error("start messages"))?;
            self.running.push(thread);
        }
        Ok(())
    }

    /// An error if a flow group ended by itself.
    pub fn check(&mut self) -> Result<(), MessagesError> {
        let ended = self.running.iter().position(JoinHandle::is_finished);
        ended.map_or(Ok(()), |index| joined(self.running.swap_remove(index)).map(|_| ()))
    }

    /// Ends all and adds the messages to `results`; messages under way count as not finished.
    pub fn end(&mut self, results: &mut Results) -> Result<(), MessagesError> {
        self.stop.store(true, Ordering::Relaxed);
        for group in self.groups.drain(..) {
            results.groups.push(group);
        }
        let first = results.groups.len() - self.running.len();
        for (index, thread) in self.running.drain(..).enumerate() {
            let flows = joined(thread)?;
            let group = (first + index) as u32;
            results.flows.extend(flows.into_iter().map(|flow| FlowRecord { group, ..flow }));
        }
        results.flows.sort_by_key(|flow| flow.start);
        for (id, flow) in (0..).zip(&mut results.flows) {
            flow.id = id;
        }
        Ok(())
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.running.drain(..) {
            let _ = thread.join();
        }
        self.idle.drain(..).for_each(MessageGroup::close);
    }
}

impl MessageGroup {
    /// Drives the workload until `stop`; returns every message that was begun.
    fn run(mut self, origin: Instant, stop: &AtomicBool) -> Result<Vec<FlowRecord>, MessagesError> {
        let driven = self.drive(origin, stop);
        // Otherwise the group's threads would continue.
        if driven.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        let name = self.name.clone();
        self.close();
        driven.map_err(|error| MessagesError::Message { name, error })
    }

    fn drive(&mut self, origin: Instant, stop: &AtomicBool) -> io::Result<Vec<FlowRecord>> {
        let mut flows: BTreeMap<u64, FlowRecord> = BTreeMap::new();
        let mut under_way: HashMap<SocketAddr, u64> = HashMap::new();
        while !stop.load(Ordering::Relaxed) {
            let now = time(since(origin));
            while let Some(flow) = self.workload.poll(now) {
                let record = FlowRecord { bytes: flow.bytes, start: flow.at, ..FlowRecord::new(0, flow.from, flow.to) };
                flows.insert(flow.tag, record);
                let job = Job { to: self.receivers[&flow.to], bytes: flow.bytes, tag: flow.tag };
                self.jobs[&flow.from].send(job).map_err(|_| io::Error::other("its sender has ended"))?;
            }
            let wait = self.workload.next().map_or(LOOK, |next| {
                let left = next.saturating_sub(time(since(origin))).picos() as f64 / 1e12;
                Duration::from_secs_f64(left).min(LOOK)
            });
            match next_event(&self.events, wait, stop)? {
                Some(MessageEvent::Begun(from, tag)) => {
                    under_way.insert(from, tag);
                }
                Some(MessageEvent::Ended(from, bytes, at)) => {
                    let tag =
                        under_way.remove(&from).ok_or_else(|| io::Error::other("it came from an unknown sender"))?;
                    let flow = flows.get_mut(&tag).expect("a message under way was begun");
                    flow.delivered = bytes;
                    if bytes < flow.bytes {
                        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "its connection ended early"));
                    }
                    flow.finished = Some(time(at));
                    self.workload.on_finished(time(since(origin)), tag);
                }
                Some(MessageEvent::Failed(error)) => return Err(error),
                None => {}
            }
        }
        Ok(flows.into_values().collect())
    }

    /// Ends the machines' threads, which check `stop`.
    fn close(self) {
        drop((self.jobs, self.origin));
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// The next event within `wait`. After `stop` there is none: receivers end before senders, so connections are then
/// refused and messages incomplete without a fault.
fn next_event(events: &Receiver<MessageEvent>, wait: Duration, stop: &AtomicBool) -> io::Result<Option<MessageEvent>> {
    let event = match events.recv_timeout(wait) {
        Ok(event) => Some(event),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("all its threads have ended")),
    };
    Ok(event.filter(|_| !stop.load(Ordering::Relaxed)))
}

/// Sends the messages of a machine, each by a thread of its own, until the channel closes.
fn send_all(from: MachineId, jobs: &Receiver<Job>, events: &Sender<MessageEvent>, stop: &Arc<AtomicBool>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    for job in jobs {
        threads.retain(|thread| !thread.is_finished());
        let (own, stop) = (events.clone(), Arc::clone(stop));
        let work = move || {
            if let Err(error) = send(from, &job, &own, &stop) {
                let _ = own.send(MessageEvent::Failed(error));
            }
        };
        match std::thread::Builder::new().name("message".to_owned()).spawn(work) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                let _ = events.send(MessageEvent::Failed(error));
            }
        }
    }
    for thread in threads {
        let _ = thread.join();
    }
}

/// Sends one message; the rest is not sent after `stop`.
fn send(from: MachineId, job: &Job, events: &Sender<MessageEvent>, stop: &AtomicBool) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    // Set before the connect, since another algorithm would have begun to pace.
    socket.set_tcp_congestion(CONGESTION_CONTROL.as_bytes())?;
    socket.bind(&SocketAddr::new(IpAddr::V4(address(from)), 0).into())?;
    socket.connect_timeout(&job.to.into(), PATIENCE)?;
    let mut stream = TcpStream::from(socket);
    stream.set_write_timeout(Some(LOOK))?;
    let _ = events.send(MessageEvent::Begun(stream.local_addr()?, job.tag));
    let data = [b'm'; 65_536];
    let mut left = job.bytes;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(data.len());
        match stream.write(&data[..most]) {
            Ok(sent) => left -= sent as u64,
            Err(error) if is_early(&error) => {}
            Err(error) => return Err(error),
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
    Ok(())
}

/// Accepts connections and reads each to its end, by a thread of its own, until `stop`.
fn receive(listener: &TcpListener, begins: &Receiver<Instant>, events: &Sender<MessageEvent>, stop: &Arc<AtomicBool>) {
    let Ok(origin) = begins.recv() else { return };
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let accepted = match is_pending(listener) {
            Ok(true) => listener.accept().and_then(|(stream, from)| {
                let (own, stop) = (events.clone(), Arc::clone(stop));
                let work = move || {
                    let event = match read(stream, origin, &stop) {
                        Ok((bytes, at)) => MessageEvent::Ended(from, bytes, at),
                        Err(error) => MessageEvent::Failed(error),
                    };
                    let _ = own.send(event);
                };
                std::thread::Builder::new().name("message".to_owned()).spawn(work).map(|thread| threads.push(thread))
            }),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = accepted {
            let _ = events.send(MessageEvent::Failed(error));
            break;
        }
        threads.retain(|thread| !thread.is_finished());
    }
    for thread in threads {
        let _ = thread.join();
    }
}

/// Waits for a connection to accept; `false` after a while without one.
fn is_pending(listener: &TcpListener) -> io::Result<bool> {
    let mut wanted = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor, alive during the call.
    match unsafe { libc::poll(&raw mut wanted, 1, LOOK.as_millis() as i32) } {
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
        ready => Ok(ready > 0),
    }
}

/// The bytes that arrived until the connection ended or `stop`, and the time of the last one.
fn read(mut stream: TcpStream, origin: Instant, stop: &AtomicBool) -> io::Result<(u64, f64)> {
    stream.set_read_timeout(Some(LOOK))?;
    let mut buffer = [0; 65_536];
    let (mut bytes, mut at) = (0, since(origin));
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(more) => {
                bytes += more as u64;
                at = since(origin);
            }
            Err(error) if is_early(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok((bytes, at))
}

/// Whether the call only has to be repeated.
fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At the end of a run a receiver closes its port while senders still connect.
    #[test]
    fn failures_count_until_the_end() {
        let (sender, events) = mpsc::channel();
        let stop = AtomicBool::new(false);
        let next = || {
            let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
            sender.send(MessageEvent::Failed(refused)).expect("a receiver");
            next_event(&events, Duration::ZERO, &stop).expect("a sender")
        };
        assert!(matches!(next(), Some(MessageEvent::Failed(_))));
        stop.store(true, Ordering::Relaxed);
        assert!(next().is_none());
    }
}
