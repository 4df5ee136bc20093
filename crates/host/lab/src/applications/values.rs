//! Servers of values, and clients that measure each request.
//!
//! The clients are threads of the lab, each with one connection from its machine's namespace. A client reads one value
//! at exponential intervals, independent of earlier requests: a request that is due while another one is under way
//! waits, and its time counts from its due time.
//!
//! Worked example: `GET k` of 10 kB at 100 Mb/s: seven frames, 0.85 ms on the slowest link, and the time of the hosts.
//!
//! Source: redis's protocol (RESP2); memcached's text protocol (doc/protocol.txt).

use super::{ApplicationError, NICE, Records, io_error};
use crate::janitor::tie;
use crate::network::{Network, address};
use crate::real_time::{LOOK, PATIENCE, since, time};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use weir_results::FlowRecord;
use weir_scenario::{Application, ValueServer, Values};
use weir_units::MachineId;

/// A server's program and protocol.
struct Protocol {
    program: &'static str,
    /// The request of the value.
    get: &'static [u8],
    /// The reply to the request that sets it.
    stored: &'static [u8],
    /// The first byte of a reply with a value.
    first: u8,
}

fn protocol(server: ValueServer) -> Protocol {
    match server {
        ValueServer::Redis => {
            let get = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
            Protocol { program: "redis-server", get, stored: b"+OK\r\n", first: b'$' }
        }
        ValueServer::Memcached => {
            Protocol { program: "memcached", get: b"get k\r\n", stored: b"STORED\r\n", first: b'V' }
        }
    }
}

/// The bytes of a reply with a value: `$10\r\n`, ten bytes, `\r\n`.
fn reply_length(server: ValueServer, value: u64) -> usize {
    let around = match server {
        ValueServer::Redis => format!("${value}\r\n\r\n"),
        ValueServer::Memcached => format!("VALUE k 0 {value}\r\n\r\nEND\r\n"),
    };
    around.len() + value as usize
}

/// The request that sets a value of so many bytes.
fn set_request(server: ValueServer, value: u64) -> Vec<u8> {
    let begin = match server {
        ValueServer::Redis => format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${value}\r\n"),
        ValueServer::Memcached => format!("set k 0 0 {value}\r\n"),
    };
    [begin.into_bytes(), vec![b'v'; value as usize], b"\r\n".to_vec()].concat()
}

/// The server's program.
pub(super) fn program(server: ValueServer) -> &'static str {
    protocol(server).program
}

/// A connection and the requests to be sent by it.
pub(super) struct Client {
    stream: TcpStream,
    values: Values,
    application: Application,
    from: MachineId,
    seed: u64,
}

impl Client {
    /// Connects from a machine.
    pub(super) fn connect(
        network: &Network,
        (application, values): (&Application, Values),
        from: MachineId,
        at: SocketAddr,
        seed: u64,
    ) -> Result<Self, ApplicationError> {
        let stream = network.machine(from).run(|| TcpStream::connect_timeout(&at, PATIENCE))?;
        let stream = stream.map_err(io_error(format!("connect to {} at {at}", program(values.server))))?;
        Ok(Self { stream, values, application: application.clone(), from, seed })
    }

    /// Sends requests at exponential intervals until `stop` or the end of its time.
    pub(super) fn send_requests(mut self, origin: Instant, records: &Records, stop: &AtomicBool) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        self.stream.set_read_timeout(Some(LOOK))?;
        let mut rng = StdRng::seed_from_u64(self.seed);
        let mean = self.values.gap.as_secs_f64();
        let mut gap = || -mean * (1.0 - rng.random::<f64>()).ln();
        let mut arrival = self.application.start.as_secs_f64() + gap();
        let end = self.application.stop.as_secs_f64();
        let Values { server, value, .. } = self.values;
        let (protocol, expected) = (protocol(server), reply_length(server, value.get()));
        while arrival < end {
            if !wait(origin, arrival, stop) {
                break;
            }
            self.stream.write_all(protocol.get)?;
            let finished = read(&mut self.stream, expected, protocol.first, stop)?.then(|| since(origin));
            let record = FlowRecord {
                bytes: value.get(),
                start: time(arrival),
                finished: finished.map(time),
                delivered: if finished.is_some() { value.get() } else { 0 },
                ..FlowRecord::new(0, self.application.to, self.from)
            };
            records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
            if finished.is_none() {
                break;
            }
            arrival += gap();
        }
        Ok(())
    }
}

/// Starts a server that keeps nothing on disk.
pub(super) fn serve(
    network: &Network,
    own: &Application,
    server: ValueServer,
    at: SocketAddr,
    directory: &Path,
) -> Result<Child, ApplicationError> {
    let program = program(server);
    let mut command = network.machine(own.to).command(program)?;
    let (address, port) = (at.ip().to_string(), at.port().to_string());
    match server {
        ValueServer::Redis => {
            command.args(["--bind", &address, "--port", &port, "--save", "", "--appendonly", "no"]);
            command.args(["--protected-mode", "no", "--daemonize", "no"]).arg("--dir").arg(directory);
        }
        // As root it takes another user's rights. Datagrams are not served.
        ValueServer::Memcached => {
            command.args(["-l", &address, "-p", &port, "-U", "0", "-u", "memcache", "-t", "1"]);
        }
    }
    tie(&mut command, NICE);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(io_error(format!("start {program}")))
}

/// Waits until the server replies and sets its value, on its own machine.
#[expect(clippy::disallowed_methods, reason = "the lab runs in real time")]
pub(super) fn set_value(
    network: &Network,
    own: &Application,
    values: Values,
    at: SocketAddr,
) -> Result<(), ApplicationError> {
    let program = program(values.server);
    let give = || -> io::Result<()> {
        let begun = Instant::now();
        let mut stream = loop {
            match TcpStream::connect_timeout(&at, PATIENCE) {
                Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(20)),
                Ok(stream) => break stream,
            }
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&set_request(values.server, values.value.get()))?;
        let expected = protocol(values.server).stored;
        let mut reply = vec![0; expected.len()];
        stream.read_exact(&mut reply)?;
        if reply == expected { Ok(()) } else { Err(io::Error::other(format!("{program} refused the value"))) }
    };
    debug_assert_eq!(at.ip(), address(own.to));
    network.machine(own.to).run(give)?.map_err(io_error(format!("set the value of {program} at {at}")))
}

/// Reads a whole reply; `false` if `stop` came first.
fn read(stream: &mut TcpStream, expected: usize, first: u8, stop: &AtomicBool) -> io::Result<bool> {
    let mut buffer = [0; 65_536];
    let mut left = expected;
    while left > 0 {
        let most = left.min(buffer.len());
        match stream.read(&mut buffer[..most]) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
            Ok(_) if left == expected && buffer[0] != first => {
                return Err(io::Error::other("the server replies with an error"));
            }
            Ok(read) => left -= read,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                if stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Waits until `at` seconds after the origin; `false` if `stop` came first.
#[expect(clippy::disallowed_methods, reason = "the lab runs in real time")]
fn wait(origin: Instant, at: f64, stop: &AtomicBool) -> bool {
    loop {
        let left = at - since(origin);
        if left <= 0.0 {
            return true;
        }
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_secs_f64(left).min(LOOK));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_have_the_length_of_their_protocol() {
        let [redis, memcached] = [ValueServer::Redis, ValueServer::Memcached].map(|server| reply_length(server, 10));
        assert_eq!(
            [redis, memcached],
            ["$10\r\n0123456789\r\n", "VALUE k 0 10\r\n0123456789\r\nEND\r\n"].map(str::len)
        );
        assert_eq!(set_request(ValueServer::Memcached, 2), b"set k 0 0 2\r\nvv\r\n");
    }
}
