//! Admission of connections before their clients are known.
//!
//! Problem: any client that reaches a port can open connections and send nothing. A server that makes new connections
//! wait, or refuses them, is then closed to all others; with a fixed number for each address it is still closed to the
//! other processes of that address.
//!
//! Rule: a new connection is always admitted. At the bound, the source that has most connections, the new one included,
//! loses the one that is inactive for longest, but not the new one. A source is an IPv4 address or an IPv6 network of
//! 64 bits, since a host there owns all addresses of its network (RFC 4291, 2.5.4).
//!
//! Consequence: a source with few connections loses none to a source with many. Beside other processes of its own
//! address a client that needs the time T to be served is served if fewer than the bound of connections are opened
//! during T; idle connections, however many, do not matter.
//!
//! Worked example: with a bound of 4, source a has connections 1, 2 and 3, and b has 4. A second connection of b ends
//! connection 1, and one of a ends connection 1 as well.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The source that an address counts for.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

/// A connection of a source.
#[derive(Debug)]
struct Entry<T> {
    id: u64,
    /// When it was active: a number that grows with each activity of any connection.
    active: u64,
    end: T,
}

/// The decision: which connection makes room. Pure code.
#[derive(Debug)]
struct Table<T> {
    most: usize,
    count: usize,
    next: u64,
    /// By source, the connection that is inactive for longest first.
    sources: BTreeMap<IpAddr, VecDeque<Entry<T>>>,
}

impl<T> Table<T> {
    fn new(most: usize) -> Self {
        assert!(most > 0, "a server without connections");
        Self { most, count: 0, next: 0, sources: BTreeMap::new() }
    }

    /// Admits a connection. Returns its id, and the `end` of the one that makes room for it.
    fn admit(&mut self, from: IpAddr, end: T) -> (u64, Option<T>) {
        let id = self.tick();
        self.sources.entry(from).or_default().push_back(Entry { id, active: id, end });
        self.count += 1;
        if self.count <= self.most {
            return (id, None);
        }
        // The new connection is the last of its source and the newest of all, so it is chosen only if there is no
        // other.
        let largest = self
            .sources
            .iter()
            .max_by_key(|(_, of_one)| (of_one.len(), of_one.front().map(|oldest| std::cmp::Reverse(oldest.active))));
        let victim = largest.and_then(|(&source, of_one)| of_one.front().map(|oldest| (source, oldest.id)));
        (id, victim.and_then(|(source, id)| self.remove(source, id)))
    }

    /// A connection was active.
    fn renew(&mut self, from: IpAddr, id: u64) {
        if let Some(end) = self.remove(from, id) {
            let active = self.tick();
            self.sources.entry(from).or_default().push_back(Entry { id, active, end });
            self.count += 1;
        }
    }

    /// Removes a connection; `None` if it has made room for another.
    fn remove(&mut self, from: IpAddr, id: u64) -> Option<T> {
        let of_one = self.sources.get_mut(&from)?;
        let index = of_one.iter().position(|entry| entry.id == id)?;
        let entry = of_one.remove(index)?;
        if of_one.is_empty() {
            self.sources.remove(&from);
        }
        self.count -= 1;
        Some(entry.end)
    }

    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// The connections of a server.
#[derive(Debug, Clone)]
pub struct Admissions(Arc<Mutex<Table<oneshot::Sender<()>>>>);

impl Admissions {
    /// At most `most` connections, which must be positive.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Mutex::new(Table::new(most))))
    }

    /// Admits a connection from an address. The receiver returns, with an error, when the connection must end because
    /// others took its room.
    pub fn admit(&self, from: IpAddr) -> (Admission, oneshot::Receiver<()>) {
        let from = source(from);
        let (end, ended) = oneshot::channel();
        let (id, replaced) = self.table().admit(from, end);
        drop(replaced);
        (Admission { of: self.clone(), from, id }, ended)
    }

    fn table(&self) -> MutexGuard<'_, Table<oneshot::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An admitted connection; it leaves its room when this is dropped.
#[derive(Debug)]
pub struct Admission {
    of: Admissions,
    from: IpAddr,
    id: u64,
}

impl Admission {
    /// The connection is in use: all others that are not are inactive for longer.
    pub fn renew(&self) {
        self.of.table().renew(self.from, self.id);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.of.table().remove(self.from, self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// A table whose ends are names of the connections.
    fn table(most: usize, connections: &[(&str, &'static str)]) -> Table<&'static str> {
        let mut table = Table::new(most);
        for &(from, name) in connections {
            assert_eq!(table.admit(address(from), name).1, None);
        }
        table
    }

    #[test]
    fn the_oldest_of_the_largest_source_makes_room() {
        let of = [("10.0.0.1", "a1"), ("10.0.0.1", "a2"), ("10.0.0.2", "b1"), ("10.0.0.1", "a3")];
        assert_eq!(table(4, &of).admit(address("10.0.0.2"), "b2").1, Some("a1"));
        assert_eq!(table(4, &of).admit(address("10.0.0.1"), "a4").1, Some("a1"));
        assert_eq!(table(4, &of).admit(address("10.0.0.3"), "c1").1, Some("a1"));
        // Equal sources: the oldest of all. The new connection counts, so its source can be the largest.
        let equal = [("10.0.0.2", "b1"), ("10.0.0.1", "a1"), ("10.0.0.2", "b2"), ("10.0.0.1", "a2")];
        assert_eq!(table(4, &equal).admit(address("10.0.0.3"), "c1").1, Some("b1"));
        assert_eq!(table(4, &equal).admit(address("10.0.0.1"), "a3").1, Some("a1"));
    }

    #[test]
    fn a_source_of_few_connections_loses_none_to_a_flood() {
        let mut table = table(64, &[("10.0.0.2", "scraper")]);
        for _ in 0..10_000 {
            assert_ne!(table.admit(address("10.0.0.1"), "flood").1, Some("scraper"));
        }
    }

    #[test]
    fn a_client_beside_a_flood_of_its_own_address_has_the_time_of_all_connections() {
        let mut table = Table::new(64);
        for _ in 0..300 {
            table.admit(address("10.0.0.1"), "flood");
        }
        table.admit(address("10.0.0.1"), "agent");
        for _ in 0..63 {
            assert_eq!(table.admit(address("10.0.0.1"), "flood").1, Some("flood"));
        }
        assert_eq!(table.admit(address("10.0.0.1"), "flood").1, Some("agent"));
    }

    #[test]
    fn connections_in_use_stay_before_idle_ones() {
        let mut table = Table::new(2);
        let (used, _) = table.admit(address("10.0.0.1"), "used");
        table.admit(address("10.0.0.1"), "idle");
        table.renew(address("10.0.0.1"), used);
        assert_eq!(table.admit(address("10.0.0.1"), "new").1, Some("idle"));
        assert_eq!(table.remove(address("10.0.0.1"), used), Some("used"));
        assert_eq!(table.remove(address("10.0.0.1"), used), None);
        table.renew(address("10.0.0.1"), used);
        assert_eq!(table.count, 1, "a connection that has ended is not renewed");
    }

    #[test]
    fn a_host_is_one_source_with_all_its_addresses() {
        let same = |one, other| source(address(one)) == source(address(other));
        assert!(same("2001:db8::1:1", "2001:db8::ffff:0:0:1"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"), "another network");
        assert!(same("10.0.0.1", "::ffff:10.0.0.1"), "the same address, as a dual-stack socket reports it");
        assert!(!same("10.0.0.1", "10.0.0.2"));
    }

    #[tokio::test]
    async fn the_replaced_connection_ends_and_a_dropped_one_leaves_its_room() {
        let admissions = Admissions::new(2);
        let (first, first_ended) = admissions.admit(address("10.0.0.1"));
        let (_second, mut second_ended) = admissions.admit(address("10.0.0.1"));
        drop(first);
        let _third = admissions.admit(address("10.0.0.1"));
        assert!(second_ended.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        first_ended.await.expect_err("its room is free");
        let _fourth = admissions.admit(address("10.0.0.1"));
        second_ended.await.expect_err("the oldest has made room");
        assert_eq!(admissions.table().count, 2);
    }

    proptest! {
        /// Whatever happens: a new connection is in, the bound holds, and only a largest source loses one.
        #[test]
        fn new_connections_are_always_admitted(
            most in 1_usize..6,
            steps in prop::collection::vec((0_u8..4, 0_u8..4, 0_usize..8), 1..60),
        ) {
            let mut table = Table::new(most);
            let mut open: BTreeSet<(u8, u64)> = BTreeSet::new();
            for (number, &(action, host, which)) in steps.iter().enumerate() {
                let from = |host: u8| IpAddr::from([10, 0, 0, host]);
                let chosen = open.iter().copied().nth(which);
                match (action, chosen) {
                    (0, Some((host, id))) => {
                        prop_assert!(table.remove(from(host), id).is_some());
                        open.remove(&(host, id));
                    }
                    (1, Some((host, id))) => table.renew(from(host), id),
                    _ => {
                        let (id, replaced) = table.admit(from(host), (host, number));
                        open.insert((host, id));
                        let of = |host: u8| open.iter().filter(|(of, _)| *of == host).count();
                        if let Some((loser, admitted)) = replaced {
                            prop_assert!(admitted != number, "the new one");
                            prop_assert!((0..4).all(|host| of(host) <= of(loser)));
                        }
                        open.retain(|&(host, id)| {
                            table.sources.get(&from(host)).is_some_and(|of| of.iter().any(|entry| entry.id == id))
                        });
                        prop_assert!(open.contains(&(host, id)), "a new connection is in");
                    }
                }
                prop_assert_eq!(table.count, open.len());
                prop_assert!(open.len() <= most);
            }
        }
    }
}
