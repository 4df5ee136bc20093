//! A way to etcd on which requests wait until they are released, and replies arrive late.

#![expect(clippy::disallowed_methods, reason = "delays between real processes are real time")]

use crate::etcd::EtcdConfig;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// The bytes before the first frame of a client (RFC 9113, section 3.4).
const PREFACE: usize = 24;
/// Types of frames (RFC 9113, section 6).
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;

/// Ends with the process.
pub(super) struct Proxy {
    url: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    requests: Mutex<Requests>,
    /// Frames with headers that etcd has sent: replies.
    replies: Mutex<usize>,
    latency: Mutex<Duration>,
}

#[derive(Default)]
struct Requests {
    are_held: bool,
    /// Since the first hold: a client that has given up a request may cancel it at any later time.
    are_final: bool,
    held: Vec<(TcpStream, Vec<u8>)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    /// One before the etcd at this address.
    pub(super) fn new(etcd: &str) -> Self {
        let etcd = etcd.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(State::default());
        let own = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let upstream = TcpStream::connect(&etcd).expect("etcd listens");
                carry(&own, client, upstream);
            }
        });
        Self { url, state }
    }

    /// The address of etcd for clients on this way.
    pub(super) fn way(&self) -> EtcdConfig {
        EtcdConfig { members: vec![self.url.clone()], ca: None, certificate: None }
    }

    /// Replies arrive so much later from now on.
    pub(super) fn set_latency(&self, latency: Duration) {
        *lock(&self.state.latency) = latency;
    }

    /// Requests wait from now on.
    pub(super) fn hold(&self) {
        let mut requests = lock(&self.state.requests);
        (requests.are_held, requests.are_final) = (true, true);
    }

    /// Requests that wait arrive, although their client has given them up; returns when etcd has replied to one.
    pub(super) fn release(&self) {
        let before = *lock(&self.state.replies);
        let mut requests = lock(&self.state.requests);
        requests.are_held = false;
        for (mut upstream, frame) in requests.held.drain(..) {
            upstream.write_all(&frame).expect("etcd takes it");
        }
        drop(requests);
        let begun = Instant::now();
        while *lock(&self.state.replies) == before {
            assert!(begun.elapsed() < Duration::from_secs(10), "no reply to a request that was released");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Carries the frames of a connection both ways.
fn carry(state: &Arc<State>, mut client: TcpStream, mut upstream: TcpStream) {
    let (mut to_client, from_etcd) = (client.try_clone().expect("a handle"), upstream.try_clone().expect("a handle"));
    let own = Arc::clone(state);
    std::thread::spawn(move || {
        let mut preface = [0; PREFACE];
        client.read_exact(&mut preface).and_then(|()| upstream.write_all(&preface)).expect("a client of HTTP/2");
        each_frame(client, |frame| {
            let mut requests = lock(&own.requests);
            let cancels = [RST_STREAM, GOAWAY].contains(&frame[3]);
            match requests.are_held {
                _ if cancels && requests.are_final => {}
                true => requests.held.push((upstream.try_clone().expect("a handle"), frame)),
                false => drop(upstream.write_all(&frame)),
            }
        });
    });
    let (own, (frames, due)) = (Arc::clone(state), mpsc::channel::<(Instant, Vec<u8>)>());
    std::thread::spawn(move || {
        each_frame(from_etcd, |frame| {
            *lock(&own.replies) += usize::from(frame[3] == HEADERS);
            let _ = frames.send((Instant::now() + *lock(&own.latency), frame));
        });
    });
    std::thread::spawn(move || {
        for (at, frame) in due {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            // The client may be gone.
            let _ = to_client.write_all(&frame);
        }
    });
}

/// Frames until the connection ends: 9 bytes, of which the first three are the length of what follows, and the fourth
/// is the type (RFC 9113, section 4.1).
fn each_frame(mut from: TcpStream, mut take: impl FnMut(Vec<u8>)) {
    let mut head = [0; 9];
    while from.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut frame = head.to_vec();
        frame.resize(head.len() + length, 0);
        if from.read_exact(&mut frame[head.len()..]).is_err() {
            return;
        }
        take(frame);
    }
}
