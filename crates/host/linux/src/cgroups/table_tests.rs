use super::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Debug, Default)]
struct Content {
    entries: BTreeMap<u64, [u64; 2]>,
    writes: usize,
}

/// A map in memory.
#[derive(Debug, Clone, Default)]
struct Memory(Arc<Mutex<Content>>);

impl Memory {
    fn content(&self) -> Vec<(u64, [u64; 2])> {
        self.0.lock().expect("no panic").entries.iter().map(|(id, sets)| (*id, *sets)).collect()
    }
    fn writes(&self) -> usize {
        self.0.lock().expect("no panic").writes
    }
}

impl Store for Memory {
    fn set(&mut self, id: u64, filters: Cgroup) -> Result<(), MapError> {
        let mut memory = self.0.lock().expect("no panic");
        memory.entries.insert(id, filters.filters);
        memory.writes += 1;
        Ok(())
    }
    fn remove(&mut self, id: u64) -> Result<(), MapError> {
        self.0.lock().expect("no panic").entries.remove(&id);
        Ok(())
    }
}

fn table(room: usize) -> (Memory, Table) {
    let memory = Memory::default();
    (memory.clone(), Table { map: Box::new(memory), entries: BTreeMap::new(), room })
}

fn globs(texts: &[&str]) -> Vec<CgroupGlob> {
    texts.iter().map(|text| CgroupGlob::new(text).expect("a glob")).collect()
}

fn found(globs: &[CgroupGlob], groups: &[(u64, &str)]) -> BTreeMap<u64, Group> {
    let group = |path: &str| Group { path: path.to_owned(), globs: including(globs, path) };
    groups.iter().map(|(id, path)| (*id, group(path))).filter(|(_, group)| group.globs != 0).collect()
}

#[expect(clippy::disallowed_methods, reason = "an instant has no other constructor")]
fn start() -> Instant {
    Instant::now()
}

#[test]
fn globs_become_bits() {
    let globs = globs(&["/a", "/a/*", "/b"]);
    let bits = |path| including(&globs, path);
    assert_eq!([bits("/"), bits("/a"), bits("/a/x/y"), bits("/b/c"), bits("/ab")], [0, 0b001, 0b011, 0b100, 0]);
}

#[test]
fn classifier_in_use_keeps_its_groups_while_the_next_is_written() {
    let (memory, mut table) = table(10);
    let now = start();
    let old = globs(&["/a"]);
    table.set(&found(&old, &[(7, "/a")]), &old, 0, false, now).expect("set");
    assert_eq!(memory.content(), [(7, [1, 0])]);
    let new = globs(&["/b", "/a"]);
    let groups = found(&new, &[(7, "/a"), (8, "/b")]);
    table.set(&groups, &new, 1, true, now).expect("set");
    assert_eq!(memory.content(), [(7, [1, 2]), (8, [0, 1])]);
    table.set(&groups, &new, 1, false, now).expect("set");
    assert_eq!(memory.content(), [(7, [0, 2]), (8, [0, 1])]);
    let writes = memory.writes();
    table.set(&groups, &new, 1, false, now).expect("set");
    assert_eq!(memory.writes(), writes, "entries that stay are not written");
    table.clear().expect("cleared");
    assert_eq!(memory.content(), []);
}

#[test]
fn group_that_no_glob_includes_any_more_leaves_at_once() {
    let (memory, mut table) = table(10);
    let now = start();
    let old = globs(&["/a"]);
    table.set(&found(&old, &[(7, "/a")]), &old, 0, false, now).expect("set");
    let new = globs(&["/b"]);
    table.set(&found(&new, &[(7, "/a")]), &new, 1, true, now).expect("set");
    assert_eq!(memory.content(), [(7, [1, 0])]);
    table.set(&found(&new, &[(7, "/a")]), &new, 1, false, now).expect("set");
    assert_eq!(memory.content(), []);
}

#[test]
fn deleted_group_stays_for_the_rest_of_its_sockets() {
    let (memory, mut table) = table(10);
    let now = start();
    let globs = globs(&["/a/*"]);
    let mut set = |groups: &[(u64, &str)], after: Duration| {
        table.set(&found(&globs, groups), &globs, 0, false, now + after).expect("set");
        (memory.content().len(), table.groups(), table.due().map(|due| due - now))
    };
    assert_eq!(set(&[(7, "/a/x")], Duration::ZERO), (1, 1, None));
    let second = Duration::from_secs(1);
    assert_eq!(set(&[], second), (1, 0, Some(second + KEPT)));
    assert_eq!(set(&[(8, "/a/x")], 2 * second), (2, 1, Some(second + KEPT)), "its successor has another id");
    assert_eq!(set(&[(8, "/a/x")], KEPT), (2, 1, Some(second + KEPT)));
    assert_eq!(set(&[(8, "/a/x")], second + KEPT), (1, 1, None));
}

#[test]
fn full_table_drops_deleted_groups_first_and_counts_the_rest() {
    let (memory, mut table) = table(2);
    let now = start();
    let globs = globs(&["/a/*"]);
    let mut set = |groups: &[(u64, &str)], beside| {
        let without = table.set(&found(&globs, groups), &globs, 0, beside, now).expect("set");
        (without, memory.content().iter().map(|(id, _)| *id).collect::<Vec<_>>())
    };
    assert_eq!(set(&[(1, "/a/1"), (2, "/a/2")], false), (0, vec![1, 2]));
    assert_eq!(set(&[(2, "/a/2"), (3, "/a/3")], true), (1, vec![1, 2]), "the classifier in use may need it");
    assert_eq!(set(&[(2, "/a/2"), (3, "/a/3")], false), (0, vec![2, 3]));
    assert_eq!(set(&[(2, "/a/2"), (3, "/a/3"), (4, "/a/4")], false), (1, vec![2, 3]));
    assert_eq!(set(&[(3, "/a/3"), (4, "/a/4")], false), (0, vec![3, 4]));
}
