use super::*;

/// Directories that stand for groups, removed at the end.
struct Tree(PathBuf);

impl Tree {
    fn new(test: &str) -> Self {
        let root = std::env::temp_dir().join(format!("weir-walk-{}-{test}", std::process::id()));
        fs::create_dir_all(&root).expect("a directory");
        Self(root)
    }
    fn make(&self, path: &str) -> u64 {
        let directory = self.0.join(path);
        fs::create_dir_all(&directory).expect("a directory");
        id(&directory).expect("it exists")
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether events have arrived; takes them.
fn events(inotify: &Inotify) -> bool {
    let mut file = libc::pollfd { fd: inotify.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one file, which is valid during the call.
    let ready = unsafe { libc::poll(&raw mut file, 1, 0) } == 1;
    inotify.clear();
    ready
}

fn globs<const N: usize>(texts: [&str; N]) -> [CgroupGlob; N] {
    texts.map(|text| CgroupGlob::new(text).expect("a glob"))
}

#[test]
fn walk_finds_groups_and_reports_those_that_come_and_go() {
    let tree = Tree::new("groups");
    let hierarchy = Hierarchy::at(tree.0.clone());
    let globs = globs(["/a/web-*", "/a/web-1/x", "/*/db"]);
    let inotify = Inotify::new().expect("inotify");
    let mut expected = BTreeMap::new();
    let mut expect = |id, path: &str, globs| drop(expected.insert(id, Group { path: path.to_owned(), globs }));
    tree.make("a");
    fs::write(tree.0.join("a/web-file"), "no group").expect("a file");
    expect(tree.make("a/web-1"), "/a/web-1", 0b001);
    expect(tree.make("a/web-1/x"), "/a/web-1/x", 0b011);
    expect(tree.make("b/db"), "/b/db", 0b100);
    tree.make("b/other/below");
    let walk = || walk(&hierarchy, &globs, &inotify).expect("it reads");
    let found = |groups: &BTreeMap<_, _>| Found { groups: groups.clone(), missed: None };
    assert_eq!(walk(), found(&expected));
    assert!(!events(&inotify));
    let new = tree.make("c/db");
    assert!(events(&inotify), "in the root");
    expected.insert(new, Group { path: "/c/db".to_owned(), globs: 0b100 });
    assert_eq!(walk(), found(&expected));
    for path in ["b/other/below/db", "b/db/below", "a/web-1/x/y"] {
        tree.make(path);
        assert!(!events(&inotify), "no glob leads to {path}");
    }
    fs::remove_dir_all(tree.0.join("a/web-1/x")).expect("removed");
    assert!(events(&inotify), "in a group");
    expected.retain(|_, group| group.path != "/a/web-1/x");
    assert_eq!(walk(), found(&expected));
}

/// Restores the identity of this thread for access to files.
struct Unprivileged;

impl Unprivileged {
    fn new() -> Self {
        // SAFETY: plain system call, for this thread alone.
        unsafe { libc::setfsuid(65_534) };
        Self
    }
}

impl Drop for Unprivileged {
    fn drop(&mut self) {
        // SAFETY: as above. Only a test that runs as root has changed it.
        unsafe { libc::setfsuid(libc::geteuid()) };
    }
}

#[test]
fn directory_that_cannot_be_read_is_skipped_and_reported() {
    use std::os::unix::fs::PermissionsExt;
    let tree = Tree::new("skipped");
    let hierarchy = Hierarchy::at(tree.0.clone());
    let (globs, inotify) = (globs(["/*/x", "/*/x/y"]), Inotify::new().expect("inotify"));
    let open = tree.make("open/x");
    tree.make("closed/x/y");
    let closed = tree.0.join("closed");
    let mode = |mode| fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).expect("a mode");
    mode(0o000);
    let found = {
        let _unprivileged = Unprivileged::new();
        walk(&hierarchy, &globs, &inotify).expect("the root can be read")
    };
    assert_eq!(found.groups.keys().copied().collect::<Vec<_>>(), [open]);
    let reason = found.missed.expect("a reason");
    assert!(reason.starts_with(&format!("{}: Permission denied", closed.display())), "{reason}");
    mode(0o755);
    let found = walk(&hierarchy, &globs, &inotify).expect("it reads");
    assert_eq!((found.groups.len(), found.missed), (3, None));
    fs::remove_dir_all(&tree.0).expect("removed");
    assert!(walk(&hierarchy, &globs, &inotify).is_err(), "without the root nothing is known");
}

#[test]
fn directory_beyond_the_longest_path_is_skipped_and_reported() {
    let tree = Tree::new("deep");
    let hierarchy = Hierarchy::at(tree.0.clone());
    let (globs, inotify) = (globs([&format!("{}/x", "/*".repeat(20)), "/a"]), Inotify::new().expect("inotify"));
    let a = tree.make("a");
    let name = "n".repeat(250);
    // A path through an open directory is short.
    let mut directory = fs::File::open(&tree.0).expect("a directory");
    for _ in 0..20 {
        let below = format!("/proc/self/fd/{}/{name}", directory.as_raw_fd());
        fs::create_dir(&below).expect("a directory");
        directory = fs::File::open(&below).expect("a directory");
    }
    let found = walk(&hierarchy, &globs, &inotify).expect("the root can be read");
    assert_eq!(found.groups.keys().copied().collect::<Vec<_>>(), [a]);
    assert!(found.missed.is_some_and(|reason| reason.contains("File name too long")));
}

#[test]
fn globs_that_match_no_group_are_listed() {
    let tree = Tree::new("unmatched");
    let (hierarchy, inotify) = (Hierarchy::at(tree.0.clone()), Inotify::new().expect("inotify"));
    let globs = globs(["/a/web-*", "/a/web-1/x", "/*/db"]);
    let unmatched = || without_group(&walk(&hierarchy, &globs, &inotify).expect("it reads").groups, &globs);
    assert_eq!(unmatched(), ["/a/web-*", "/a/web-1/x", "/*/db"]);
    // Included by the first glob, and matched by the second one.
    tree.make("a/web-1/x");
    assert_eq!(unmatched(), ["/*/db"]);
    fs::remove_dir_all(tree.0.join("a/web-1/x")).expect("removed");
    tree.make("b/db");
    assert_eq!(unmatched(), ["/a/web-1/x"]);
}
