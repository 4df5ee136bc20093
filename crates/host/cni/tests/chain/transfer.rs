//! TCP from one pod to another.

use super::host::Pod;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_units::Bandwidth;

/// Data before the measurement, in which the token bucket's burst passes.
const BEFORE: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_millis(1500);

/// TCP's headers of each frame of 1,514 B with 1,448 B of data.
const OVERHEAD: f64 = 1514.0 / 1448.0;

fn connected(from: &Pod, to: &Pod) -> (TcpStream, TcpStream) {
    let listener = to.netns.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))).expect("inside").expect("a port");
    let address = (to.address(), listener.local_addr().expect("an address").port());
    let sender = from.netns.run(|| TcpStream::connect(address)).expect("inside").expect("connected");
    let (receiver, _) = listener.accept().expect("accepted");
    (sender, receiver)
}

/// The rate of bulk data on the wire, in bytes per second.
#[expect(clippy::disallowed_methods, reason = "a measurement in real time")]
pub(crate) fn bytes_per_second(from: &Pod, to: &Pod) -> f64 {
    let (mut sender, mut receiver) = connected(from, to);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let block = [0; 1 << 16];
            while !done.load(Ordering::Relaxed) {
                if sender.write_all(&block).is_err() {
                    break;
                }
            }
        });
        let mut block = vec![0; 1 << 16];
        let mut receive = |time: Duration| {
            let start = Instant::now();
            let mut bytes = 0;
            while start.elapsed() < time {
                bytes += receiver.read(&mut block).expect("data");
            }
            bytes as f64 / start.elapsed().as_secs_f64()
        };
        receive(BEFORE);
        let rate = receive(MEASURED);
        done.store(true, Ordering::Relaxed);
        // A sender that waits for room ends with the connection.
        receiver.shutdown(std::net::Shutdown::Both).expect("closed");
        drop(receiver);
        rate * OVERHEAD
    })
}

/// Asserts a rate in bytes per second. In `make test` processors are shared, and four tenths may be missing, as in
/// crates/host/linux/tests/common.
pub(crate) fn assert_rate(measured: f64, limit: Bandwidth) {
    let ratio = measured * 8.0 / limit.bps() as f64;
    println!("{ratio:.3} of {limit}");
    let (less, more) = if std::env::var_os("WEIR_QUICK").is_some() { (0.6, 1.2) } else { (0.94, 1.06) };
    assert!((less..=more).contains(&ratio), "{ratio} of {limit}");
}

/// Fills the queue of a pod with bulk data of one connection, then sends a byte on another. Returns the bytes of bulk
/// data that the receiver has read by the time of the byte, less those that had arrived before it was sent.
pub(crate) fn bytes_sent(from: &Pod, to: &Pod) -> usize {
    let (mut bulk, mut received) = connected(from, to);
    let (mut message, mut arrived) = connected(from, to);
    received.set_nonblocking(true).expect("set");
    let mut block = vec![0; 1 << 16];
    let mut read = || {
        let mut bytes = 0;
        loop {
            match received.read(&mut block) {
                Ok(more) if more > 0 => bytes += more,
                _ => return bytes,
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(move || bulk.write_all(&vec![0; 4_000_000]).expect("sent"));
        // The burst has passed and the queue is full.
        let mut before = 0;
        while before < 500_000 {
            before += read();
        }
        message.write_all(&[1]).expect("sent");
        arrived.read_exact(&mut [0]).expect("a byte");
        let early = read();
        while before + early < 4_000_000 {
            let more = read();
            if more == 0 {
                std::thread::yield_now();
            }
            before += more;
        }
        early
    })
}
