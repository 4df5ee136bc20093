//! Admission of connections before their clients are known.
//!
//! Problem: any client that reaches a port can open connections and send nothing. A server that makes new connections
//! wait, or refuses them, is then closed to all others; with a fixed number for each address it is still closed to the
//! other processes of that address.
//!
//! Rule: a new connection is always admitted. At the bound, the source that has most connections, the new one included,
//! loses the one that is inactive for longest, but not the new one, and one whose request is being served only if all
//! of its source are. A source is an IPv4 address or an IPv6 network of 64 bits, since a host there owns all addresses
//! of its network (RFC 4291, 2.5.4).
//!
//! Where connections are short and each source needs one, a server may make new ones wait instead: a source that has
//! one connection loses it only when that is older than a given time ([`Admissions::admit_after`]).
//!
//! Consequence: a source with few connections loses none to a source with many. Beside other processes of its own
//! address a client that needs the time T until its request has arrived is served if during T fewer connections than
//! the bound are opened or begin a request. Idle connections, however many, do not matter.
//!
//! Worked example: with a bound of 4, source a has connections 1, 2 and 3, and b has 4. A second connection of b ends
//! connection 1, and one of a ends connection 1 as well.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

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
    /// Whether a request is being served.
    in_service: bool,
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
        let victim = self.victim(from).map(|(source, entry)| (source, entry.id));
        let replaced = victim.and_then(|(source, id)| self.remove(source, id));
        let id = self.tick();
        self.sources.entry(from).or_default().push_back(Entry { id, active: id, in_service: false, end });
        self.count += 1;
        (id, replaced)
    }

    /// The connection that makes room for a new one; `None` below the bound.
    fn victim(&self, from: IpAddr) -> Option<(IpAddr, &Entry<T>)> {
        if self.count < self.most {
            return None;
        }
        let order = |(source, of_one): &(&IpAddr, &VecDeque<Entry<T>>)| {
            let with_the_new = of_one.len() + usize::from(**source == from);
            (with_the_new, of_one.front().map(|oldest| std::cmp::Reverse(oldest.active)))
        };
        let (source, of_one) = self.sources.iter().max_by_key(order)?;
        let chosen = of_one.iter().find(|entry| !entry.in_service).or_else(|| of_one.front())?;
        Some((*source, chosen))
    }

    /// The connection that makes room for a new one, if its source has no other.
    fn only_one(&self, from: IpAddr) -> Option<&Entry<T>> {
        let (source, entry) = self.victim(from)?;
        (source != from && self.sources[&source].len() == 1).then_some(entry)
    }

    /// A connection is active: its request begins or ends.
    fn renew(&mut self, from: IpAddr, id: u64, in_service: bool) {
        if let Some(end) = self.remove(from, id) {
            let active = self.tick();
            self.sources.entry(from).or_default().push_back(Entry { id, active, in_service, end });
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

/// An admitted connection, as the table has it.
#[derive(Debug)]
struct End {
    since: Instant,
    /// Dropped to end the connection.
    _ends: oneshot::Sender<()>,
}

/// The connections of a server.
#[derive(Debug, Clone)]
pub struct Admissions {
    table: Arc<Mutex<Table<End>>>,
    /// A connection has ended.
    room: Arc<Notify>,
}

impl Admissions {
    /// At most `most` connections, which must be positive.
    pub fn new(most: usize) -> Self {
        Self { table: Arc::new(Mutex::new(Table::new(most))), room: Arc::default() }
    }

    /// Admits a connection from an address. The receiver returns, with an error, when the connection must end because
    /// others took its room.
    pub fn admit(&self, from: IpAddr) -> (Admission, oneshot::Receiver<()>) {
        let from = source(from);
        let (ends, ended) = oneshot::channel();
        let (id, replaced) = self.table().admit(from, End { since: Instant::now(), _ends: ends });
        drop(replaced);
        (Admission { of: self.clone(), from, id }, ended)
    }

    /// The same, but a source that has one connection loses it at the age of `least` at the earliest. Until then, or
    /// until another connection ends, the new one waits. One task at a time may wait.
    pub async fn admit_after(&self, from: IpAddr, least: Duration) -> (Admission, oneshot::Receiver<()>) {
        loop {
            let until = self.table().only_one(source(from)).map(|entry| entry.end.since + least);
            match until.filter(|until| *until > Instant::now()) {
                None => return self.admit(from),
                Some(until) => tokio::select! {
                    () = tokio::time::sleep_until(until) => {}
                    () = self.room.notified() => {}
                },
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table<End>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// A request of the connection is being served until the returned value is dropped. All other connections of its
    /// source that are not being served make room before it.
    pub fn serve(self: &Arc<Self>) -> Service {
        self.of.table().renew(self.from, self.id, true);
        Service(Arc::clone(self))
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.of.table().remove(self.from, self.id);
        self.of.room.notify_one();
    }
}

/// A request that is being served.
#[derive(Debug)]
pub struct Service(Arc<Admission>);

impl Drop for Service {
    fn drop(&mut self) {
        self.0.of.table().renew(self.0.from, self.0.id, false);
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
    fn a_request_that_is_being_served_is_finished_beside_requests_of_its_own_address() {
        let from = address("10.0.0.1");
        let mut table = Table::new(64);
        let others: Vec<u64> = (0..63).map(|_| table.admit(from, "other").0).collect();
        let (scrape, _) = table.admit(from, "scrape");
        table.renew(from, scrape, true);
        // All others send requests too, and then new ones come.
        for &other in &others {
            table.renew(from, other, true);
            table.renew(from, other, false);
        }
        for _ in 0..1_000 {
            assert_eq!(table.admit(from, "other").1, Some("other"));
        }
        // Only one that is served itself remains: the one that is served for longest makes room.
        let mut table = Table::new(2);
        let (first, _) = table.admit(from, "first");
        let (second, _) = table.admit(from, "second");
        table.renew(from, second, true);
        table.renew(from, first, true);
        assert_eq!(table.admit(from, "new").1, Some("second"));
    }

    #[tokio::test]
    async fn a_source_with_one_young_connection_loses_none() {
        let (admissions, short, long) = (Admissions::new(2), Duration::from_millis(200), Duration::from_secs(60));
        let (_a, mut a_ended) = admissions.admit(address("10.0.0.1"));
        let (b, _b_ended) = admissions.admit(address("10.0.0.2"));
        let begun = Instant::now();
        let (_c, _c_ended) = admissions.admit_after(address("10.0.0.3"), short).await;
        assert!(begun.elapsed() >= short / 2, "the oldest is old enough");
        assert!(a_ended.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed), "it made room");
        // The end of another connection leaves room at once, and a source replaces its own one at once.
        let waits = admissions.admit_after(address("10.0.0.4"), long);
        let ((_d, mut d_ended), ()) = tokio::join!(waits, async { drop(b) });
        assert!(d_ended.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        let (_e, _e_ended) = admissions.admit_after(address("10.0.0.4"), long).await;
        assert!(d_ended.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed));
        assert!(begun.elapsed() < long / 2);
    }

    #[test]
    fn a_queue_as_long_as_the_table_waits_for_the_least_age_of_one() {
        const LEAST: u64 = 1_000;
        // The end is the time of the admission.
        let admitted = |table: &mut Table<u64>, now: u64, from: [u8; 4]| {
            let time = table.only_one(from.into()).map_or(now, |entry| now.max(entry.end + LEAST));
            table.admit(from.into(), time);
            time
        };
        let mut table = Table::new(100);
        let idle = (0..100).map(|host| admitted(&mut table, 7 * u64::from(host), [10, 0, 0, host]));
        assert!(idle.eq((0..100).map(|at| 7 * at)), "there is room");
        let mut now = 700;
        for host in 0..100 {
            now = admitted(&mut table, now, [10, 0, 1, host]);
        }
        assert!(now <= 700 + LEAST, "{now}");
        // However slow the connections of one source are, others do not wait for it.
        let mut table = Table::new(100);
        for _ in 0..99 {
            admitted(&mut table, 0, [10, 0, 0, 1]);
        }
        let waits = (0..50).map(|host| admitted(&mut table, 0, [10, 0, 1, host]));
        assert_eq!(waits.max(), Some(0));
    }

    #[test]
    fn connections_in_use_stay_before_idle_ones() {
        let mut table = Table::new(2);
        let (used, _) = table.admit(address("10.0.0.1"), "used");
        table.admit(address("10.0.0.1"), "idle");
        table.renew(address("10.0.0.1"), used, false);
        assert_eq!(table.admit(address("10.0.0.1"), "new").1, Some("idle"));
        assert_eq!(table.remove(address("10.0.0.1"), used), Some("used"));
        assert_eq!(table.remove(address("10.0.0.1"), used), None);
        table.renew(address("10.0.0.1"), used, false);
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
            steps in prop::collection::vec((0_u8..5, 0_u8..4, 0_usize..8), 1..60),
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
                    (1, Some((host, id))) => table.renew(from(host), id, false),
                    (2, Some((host, id))) => table.renew(from(host), id, true),
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
