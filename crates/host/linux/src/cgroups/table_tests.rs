use super::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Content {
    entries: BTreeMap<u64, [u64; 2]>,
    writes: usize,
}

/// A map in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Content>>);

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

/// For so many groups of each classifier.
pub(crate) fn table(most: usize) -> (Memory, Table) {
    let memory = Memory::default();
    (memory.clone(), Table::empty(Box::new(memory), most))
}

fn globs(texts: &[&str]) -> Vec<CgroupGlob> {
    texts.iter().map(|text| CgroupGlob::new(text).expect("a glob")).collect()
}

fn found(globs: &[CgroupGlob], groups: &[(u64, &str)]) -> BTreeMap<u64, Group> {
    let group = |path: &str| Group { path: path.to_owned(), globs: set_of(globs, path) };
    groups.iter().map(|(id, path)| (*id, group(path))).filter(|(_, group)| group.globs != 0).collect()
}

#[expect(clippy::disallowed_methods, reason = "an instant has no other constructor")]
fn start() -> Instant {
    Instant::now()
}

#[test]
fn globs_become_bits_of_the_groups_that_they_match() {
    let globs = globs(&["/a", "/a/*", "/b"]);
    let bits = |path| set_of(&globs, path);
    assert_eq!([bits("/"), bits("/a"), bits("/a/x"), bits("/b"), bits("/ab")], [0, 0b001, 0b011, 0b100, 0]);
    assert_eq!([bits("/a/x/y"), bits("/b/c")], [0; 2], "a group above has the set");
}

#[test]
fn classifier_in_use_keeps_its_groups_while_the_next_is_written() {
    let (memory, mut table) = table(10);
    let now = start();
    let old = globs(&["/a"]);
    table.set(&found(&old, &[(7, "/a")]), &old, 0, now).expect("set");
    assert_eq!(memory.content(), [(7, [1, 0])]);
    let new = globs(&["/b", "/a"]);
    let groups = found(&new, &[(7, "/a"), (8, "/b")]);
    table.begin_change();
    table.set(&groups, &new, 1, now).expect("set");
    assert_eq!(memory.content(), [(7, [1, 2]), (8, [0, 1])]);
    table.set(&found(&old, &[(7, "/a")]), &old, 0, now).expect("set");
    assert_eq!(memory.content(), [(7, [1, 2]), (8, [0, 1])], "the one in use is followed until then");
    table.end_change();
    table.set(&groups, &new, 1, now).expect("set");
    assert_eq!(memory.content(), [(7, [0, 2]), (8, [0, 1])]);
    let writes = memory.writes();
    table.set(&groups, &new, 1, now).expect("set");
    assert_eq!(memory.writes(), writes, "entries that stay are not written");
    table.clear().expect("cleared");
    assert_eq!(memory.content(), []);
}

#[test]
fn classifier_that_is_not_put_in_force_leaves_no_sets() {
    let (memory, mut table) = table(10);
    let now = start();
    let (old, new) = (globs(&["/a"]), globs(&["/b", "/a"]));
    table.set(&found(&old, &[(7, "/a")]), &old, 0, now).expect("set");
    table.begin_change();
    table.set(&found(&new, &[(7, "/a"), (8, "/b")]), &new, 1, now).expect("set");
    table.abandon_change(1).expect("removed");
    assert_eq!(memory.content(), [(7, [1, 0])]);
    table.set(&found(&old, &[]), &old, 0, now).expect("set");
    assert_eq!(memory.content(), [(7, [1, 0])], "deleted groups are followed as before");
}

#[test]
fn group_that_no_glob_matches_any_more_leaves_at_once() {
    let (memory, mut table) = table(10);
    let now = start();
    let old = globs(&["/a"]);
    table.set(&found(&old, &[(7, "/a")]), &old, 0, now).expect("set");
    let new = globs(&["/b"]);
    table.begin_change();
    table.set(&found(&new, &[(7, "/a")]), &new, 1, now).expect("set");
    assert_eq!(memory.content(), [(7, [1, 0])]);
    table.end_change();
    table.set(&found(&new, &[(7, "/a")]), &new, 1, now).expect("set");
    assert_eq!(memory.content(), []);
}

/// Sockets of a deleted group send for as long as a process has them.
#[test]
fn deleted_group_stays_also_under_another_policy() {
    let (memory, mut table) = table(10);
    let now = start();
    let old = globs(&["/a/*"]);
    let mut set = |globs: &[CgroupGlob], groups: &[(u64, &str)], index, after: Duration| {
        table.set(&found(globs, groups), globs, index, now + after).expect("set");
        memory.content()
    };
    let year = Duration::from_secs(365 * 24 * 3600);
    set(&old, &[(7, "/a/x")], 0, Duration::ZERO);
    assert_eq!(set(&old, &[], 0, Duration::from_secs(1)), [(7, [1, 0])]);
    assert_eq!(set(&old, &[(8, "/a/x")], 0, year), [(7, [1, 0]), (8, [1, 0])], "its successor has another id");
    let new = globs(&["/b", "/*/x"]);
    assert_eq!(set(&new, &[(8, "/a/x")], 1, 2 * year), [(7, [0, 2]), (8, [0, 2])]);
}

#[test]
fn full_table_drops_the_groups_that_were_deleted_first() {
    let (memory, mut table) = table(2);
    let now = start();
    let globs = globs(&["/a/*"]);
    let mut set = |groups: &[(u64, &str)], second| {
        let now = now + Duration::from_secs(second);
        let without = table.set(&found(&globs, groups), &globs, 0, now).expect("set");
        (without, memory.content().iter().map(|(id, _)| *id).collect::<Vec<_>>())
    };
    assert_eq!(set(&[(1, "/a/1"), (2, "/a/2")], 0), (0, vec![1, 2]));
    assert_eq!(set(&[(2, "/a/2"), (3, "/a/3"), (4, "/a/4")], 1), (1, vec![1, 2, 3]), "two of a classifier");
    assert_eq!(set(&[(1, "/a/1"), (4, "/a/4")], 2), (0, vec![1, 2, 3, 4]), "group 1 was missed before");
    assert_eq!(set(&[(4, "/a/4"), (5, "/a/5")], 3), (0, vec![1, 3, 4, 5]), "2 and 3 were deleted before 1");
}

/// Old and new groups have room beside each other, whatever was deleted before.
#[test]
fn change_drops_deleted_groups_for_new_ones() {
    let (memory, mut table) = table(2);
    let now = start();
    let (old, new) = (globs(&["/a/*"]), globs(&["/b/*"]));
    let mut set = |globs: &[CgroupGlob], groups: &[(u64, &str)], index| {
        table.set(&found(globs, groups), globs, index, now).expect("set")
    };
    assert_eq!(set(&old, &[(1, "/a/1"), (2, "/a/2")], 0), 0);
    assert_eq!(set(&old, &[(3, "/a/3"), (4, "/a/4")], 0), 0);
    table.begin_change();
    let without = table.set(&found(&new, &[(5, "/b/5"), (6, "/b/6")]), &new, 1, now).expect("set");
    assert_eq!(without, 0);
    assert_eq!(memory.content(), [(3, [1, 0]), (4, [1, 0]), (5, [0, 1]), (6, [0, 1])]);
}

/// The groups of an earlier agent that were deleted without an agent do not keep new ones out.
#[test]
fn groups_of_an_earlier_agent_leave_a_full_map_last() {
    let (memory, mut table) = table(1);
    for id in [1, 2] {
        let filters = Cgroup { filters: [1, 0] };
        table.map.set(id, filters).expect("set");
        table.entries.insert(id, Entry { filters, path: None, gone: None });
    }
    let globs = globs(&["/a/*"]);
    table.begin_change();
    assert_eq!(table.set(&found(&globs, &[(3, "/a/3")]), &globs, 1, start()).expect("set"), 0);
    assert_eq!(memory.content(), [(2, [1, 0]), (3, [0, 1])]);
    table.end_change();
    assert_eq!(table.set(&found(&globs, &[(3, "/a/3")]), &globs, 1, start()).expect("set"), 0);
    assert_eq!(memory.content(), [(3, [0, 1])]);
}
