//! Connections to the redis server of a switch: one for each database, opened when it is needed.
//!
//! The first connection is tried once. A server that was reachable before may be restarting: a later connection is
//! tried until the driver's patience ends. A request that fails is not repeated, since its effect is unknown; the
//! caller reads what is there.

use redis::{Client, Connection, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, RedisResult};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The longest time for a reply. A redis server replies within milliseconds, or not at all.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(100);
/// The port of redis, where an address has none.
const REDIS_PORT: u16 = 6379;

/// The place of a redis server: `/var/run/redis/redis.sock`, `10.0.0.31:6379`, `leaf1`, `[2001:db8::1]:6379`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// The path of a unix socket: a text with a `/`.
    Socket(PathBuf),
    /// A host and a TCP port, 6379 if a text has none.
    Tcp(String, u16),
}

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no redis server: write the path of its socket, or HOST:PORT")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = || AddressError(text.to_owned());
        if text.contains('/') {
            return Ok(Self::Socket(text.into()));
        }
        let (host, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((host, ""))) => (host, None),
            Some(Some((host, rest))) => (host, Some(rest.strip_prefix(':').ok_or_else(error)?)),
            Some(None) => return Err(error()),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(REDIS_PORT), |port| port.parse().map_err(|_| error()))?;
        if host.is_empty() || host.contains(char::is_whitespace) || port == 0 {
            return Err(error());
        }
        Ok(Self::Tcp(host.to_owned(), port))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// The address of a switch's redis server, with the password if it has one.
#[derive(Clone)]
pub struct Access {
    /// The address.
    pub address: Address,
    /// The password of the default user.
    pub password: Option<String>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The databases, by their numbers in SONiC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Database {
    Asic = 1,
    Counters = 2,
    Config = 4,
}

/// The server, with its open connections.
pub(crate) struct RedisServer {
    access: Access,
    open: BTreeMap<Database, Connection>,
    /// The longest time for a server that restarts.
    patience: Duration,
    was_reached: bool,
}

impl RedisServer {
    pub(crate) fn new(access: Access, patience: Duration) -> Self {
        Self { access, open: BTreeMap::new(), patience, was_reached: false }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.access.address
    }

    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Sends a request to a database. After an error its connection is closed, and so are all others if the server has
    /// closed it.
    pub(crate) fn query<T>(
        &mut self,
        database: Database,
        request: impl FnOnce(&mut Connection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let mut connection = match self.open.remove(&database) {
            Some(connection) => connection,
            None => self.connect(database)?,
        };
        let reply = request(&mut connection);
        match &reply {
            Ok(_) => drop(self.open.insert(database, connection)),
            Err(error) if error.is_io_error() => self.open.clear(),
            Err(_) => {}
        }
        reply
    }

    #[expect(clippy::disallowed_methods, reason = "a server restarts in real time")]
    fn connect(&mut self, database: Database) -> RedisResult<Connection> {
        let mut left = if self.was_reached { self.patience } else { Duration::ZERO };
        loop {
            match self.try_connect(database) {
                Ok(connection) => {
                    self.was_reached = true;
                    return Ok(connection);
                }
                Err(error) if left.is_zero() => return Err(error),
                Err(_) => {
                    std::thread::sleep(PAUSE.min(left));
                    left = left.saturating_sub(PAUSE);
                }
            }
        }
    }

    fn try_connect(&self, database: Database) -> RedisResult<Connection> {
        let address = match &self.access.address {
            Address::Socket(path) => ConnectionAddr::Unix(path.clone()),
            Address::Tcp(host, port) => ConnectionAddr::Tcp(host.clone(), *port),
        };
        let mut settings = RedisConnectionInfo::default().set_db(database as i64).set_skip_set_lib_name();
        if let Some(password) = &self.access.password {
            settings = settings.set_password(password);
        }
        let client = Client::open(address.into_connection_info()?.set_redis_settings(settings))?;
        let mut connection = client.get_connection_with_timeout(TIMEOUT)?;
        connection.set_read_timeout(Some(TIMEOUT))?;
        connection.set_write_timeout(Some(TIMEOUT))?;
        // A server that loads its data refuses this, too.
        redis::cmd("PING").exec(&mut connection)?;
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_sockets_or_hosts_with_ports() {
        let tcp = |host: &str, port| Ok(Address::Tcp(host.to_owned(), port));
        assert_eq!("/run/redis.sock".parse(), Ok(Address::Socket("/run/redis.sock".into())));
        assert_eq!("10.0.0.31:6380".parse(), tcp("10.0.0.31", 6380));
        assert_eq!("leaf1".parse(), tcp("leaf1", 6379));
        assert_eq!("[2001:db8::1]:7000".parse(), tcp("2001:db8::1", 7000));
        assert_eq!("[::1]".parse(), tcp("::1", 6379));
        for text in ["", ":6379", "leaf1:", "leaf1:0", "leaf1:x", "leaf1:70000", "[::1", "[::1]7000", "a b"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
        assert_eq!(Address::Tcp("::1".to_owned(), 6379).to_string(), "[::1]:6379");
    }

    #[test]
    fn a_password_is_not_printed() {
        let access = Access { address: Address::Tcp("leaf1".to_owned(), 1), password: Some("secret".to_owned()) };
        assert!(!format!("{access:?}").contains("secret"));
    }
}
