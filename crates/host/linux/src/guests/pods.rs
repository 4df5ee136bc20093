//! The pods behind interfaces of guests, by the records of their host ([`weir_pods`]).
//!
//! Problem: names of veth interfaces are used again, and the record of a pod may be left when its interface is gone.
//! Approach: a record counts only for an interface that has its index and name. The hardware address is not compared:
//! systemd-udevd assigns another one to a veth after the plugins have run (`MACAddressPolicy=persistent`). Labels are
//! those of the pod with the attachment's UID: another pod of this name had other labels.
//!
//! Each list of interfaces reads all records, and inotify on the directory is a reason for a list. A directory that
//! does not exist is waited for at the nearest one above it.
//!
//! Worked example: `attachment-4f1a:eth0.json` has `veth3`, index 7, and `shop/web-1`; `labels-shop:web-1.json` has
//! `app: web`. Guest 7 is then the pod `shop/web-1` with this label, as long as it is called `veth3`.

use super::topology::Topology;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use weir_pods::{Attachment, Directory, Labels, Records};
use weir_policy::PodFacts;

/// The events by which records change, of the directory itself, and of one above it. Records are written by rename.
const CHANGED: u32 = libc::IN_MOVED_TO | libc::IN_MOVED_FROM | libc::IN_DELETE | libc::IN_CLOSE_WRITE | ENDED;
const APPEARED: u32 = libc::IN_CREATE | libc::IN_MOVED_TO | ENDED;
const ENDED: u32 = libc::IN_DELETE_SELF | libc::IN_MOVE_SELF | libc::IN_ONLYDIR;

/// Attempts to find the directory that is to be watched, while directories appear. Each that appears is an event, so
/// the next list goes on.
const ATTEMPTS: u32 = 8;

/// The records of a host, with the events of changes.
pub(super) struct PodRecords {
    directory: Directory,
    events: OwnedFd,
    /// The watch of the last list.
    watch: Option<i32>,
}

impl PodRecords {
    pub(super) fn open(directory: Directory) -> io::Result<Self> {
        // SAFETY: plain system call; the result is checked before it is owned.
        let fd = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nothing else owns.
        Ok(Self { directory, events: unsafe { OwnedFd::from_raw_fd(fd) }, watch: None })
    }

    /// All records. Their directory is watched before they are read, so that none is missed.
    pub(super) fn read(&mut self) -> Result<Records, String> {
        // Events are discarded before the watch is checked, never after: the directory may appear in between.
        for _ in 0..ATTEMPTS {
            self.clear();
            let has_moved =
                self.follow().map_err(|error| format!("watch {}: {error}", self.directory.path().display()))?;
            // The end of the earlier watch is an event, too.
            if !has_moved {
                break;
            }
        }
        self.directory.read_all().map_err(|error| error.to_string())
    }

    /// Watches the directory, or the nearest one above it. Returns whether that is another one than before.
    fn follow(&mut self) -> io::Result<bool> {
        let path = self.directory.path().to_owned();
        for (depth, directory) in path.ancestors().enumerate() {
            match self.add(directory, if depth == 0 { CHANGED } else { APPEARED }) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                watch => {
                    let watch = watch?;
                    let before = self.watch.replace(watch);
                    if let Some(before) = before.filter(|before| *before != watch) {
                        // SAFETY: plain system call. It fails if the watch ended with its directory.
                        unsafe { libc::inotify_rm_watch(self.events.as_raw_fd(), before) };
                    }
                    // The one below may have appeared before this one was watched.
                    let is_nearest = !path.ancestors().take(depth).any(Path::is_dir);
                    return Ok(before != Some(watch) || !is_nearest);
                }
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    fn add(&self, directory: &Path, events: u32) -> io::Result<i32> {
        let path = CString::new(directory.as_os_str().as_bytes())?;
        // SAFETY: the path is alive during the call.
        let watch = unsafe { libc::inotify_add_watch(self.events.as_raw_fd(), path.as_ptr(), events) };
        if watch < 0 { Err(io::Error::last_os_error()) } else { Ok(watch) }
    }

    /// Discards the events so far. Their content is not needed: records are read afterwards.
    fn clear(&self) {
        let mut buffer = [0u8; 4096];
        // SAFETY: the kernel writes at most the buffer's length.
        while unsafe { libc::read(self.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) } > 0 {}
    }
}

impl AsRawFd for PodRecords {
    fn as_raw_fd(&self) -> i32 {
        self.events.as_raw_fd()
    }
}

/// Gives the guests of a topology their pods. Returns why some have none, or not their labels.
pub(super) fn join(topology: &mut Topology, records: &Records) -> Vec<String> {
    let mut reasons: Vec<String> =
        records.refused.iter().map(|(name, cause)| format!("record {name}: {cause}")).collect();
    let labels: BTreeMap<(&str, &str), &Labels> =
        records.labels.iter().map(|of| ((&*of.namespace, &*of.name), of)).collect();
    let mut doubtful = BTreeSet::new();
    for attachment in &records.attachments {
        let host = &attachment.host_interface;
        let Some(guest) = topology.guests.get_mut(&host.index).filter(|guest| guest.name == host.name) else {
            if topology.others.contains(&host.name) {
                let (namespace, name) = (&attachment.namespace, &attachment.name);
                reasons.push(format!("{} of pod {namespace}/{name} is neither a tap nor a veth interface", host.name));
            }
            continue;
        };
        let own = labels.get(&(&*attachment.namespace, &*attachment.name)).filter(|labels| is_same(attachment, labels));
        let facts = PodFacts {
            namespace: attachment.namespace.clone(),
            name: attachment.name.clone(),
            labels: own.map(|labels| labels.labels.clone()),
        };
        match &guest.pod {
            Some(other) if *other != facts => drop(doubtful.insert(host.index)),
            _ => guest.pod = Some(facts),
        }
    }
    for index in doubtful {
        if let Some(guest) = topology.guests.get_mut(&index) {
            guest.pod = None;
            reasons.push(format!("{} has the records of two pods", guest.name));
        }
    }
    reasons
}

/// Whether labels are those of the attached pod, as far as both have a UID.
fn is_same(attachment: &Attachment, labels: &Labels) -> bool {
    match (&attachment.uid, &labels.uid) {
        (Some(uid), Some(of)) => uid == of,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guests::links::{Kind, Link};
    use weir_pods::{FORMAT, HostInterface};

    fn attachment(index: u32, name: &str, uid: Option<&str>) -> Attachment {
        Attachment {
            network: None,
            pod: FORMAT,
            host_interface: HostInterface {
                name: format!("veth{index}"),
                index,
                hardware: format!("02:00:00:00:00:0{index}"),
            },
            namespace: "shop".into(),
            name: name.into(),
            uid: uid.map(str::to_owned),
            container: format!("c{index}"),
            netns: "/run/netns/a".into(),
            interface: "eth0".into(),
            addresses: Vec::new(),
            ingress_bps: None,
            egress_bps: None,
        }
    }

    fn labels(name: &str, uid: Option<&str>) -> Labels {
        let labels = [("app".to_owned(), name.to_owned())].into();
        let (namespace, name, uid) = ("shop".into(), name.into(), uid.map(str::to_owned));
        Labels { pod: FORMAT, namespace, name, uid, labels }
    }

    fn topology() -> Topology {
        let link = |index: u32, kind| {
            let name = if kind == Kind::Guest { format!("veth{index}") } else { format!("lxc{index}") };
            Link { index, name, kind, master: None, hardware: Some([2, 0, 0, 0, 0, index as u8]) }
        };
        let links = [link(1, Kind::Other), link(3, Kind::Guest), link(4, Kind::Guest), link(5, Kind::Other)];
        Topology::new(1, &links, &BTreeMap::new())
    }

    /// A guest's index, its pod and the pod's label `app`.
    type Pod = (u32, String, Option<String>);

    fn pods(records: &Records) -> (Vec<Pod>, Vec<String>) {
        let mut topology = topology();
        let reasons = join(&mut topology, records);
        let pod = |(index, guest): (&u32, &crate::guests::topology::GuestLink)| {
            let pod = guest.pod.as_ref()?;
            let app = pod.labels.as_ref().map(|labels| labels["app"].clone());
            Some((*index, format!("{}/{}", pod.namespace, pod.name), app))
        };
        (topology.guests.iter().filter_map(pod).collect(), reasons)
    }

    #[test]
    fn guests_are_the_pods_of_their_records() {
        let records = Records {
            attachments: vec![attachment(3, "web", Some("1")), attachment(4, "db", None)],
            labels: vec![labels("web", Some("1")), labels("db", Some("2"))],
            refused: vec![("labels-x:y.json".into(), "no".into())],
        };
        let of = |index, name: &str, app: Option<&str>| (index, format!("shop/{name}"), app.map(str::to_owned));
        let expected = vec![of(3, "web", Some("web")), of(4, "db", Some("db"))];
        assert_eq!(pods(&records), (expected, vec!["record labels-x:y.json: no".to_owned()]));
        // Labels of an earlier pod of this name, and of none.
        let records = Records {
            attachments: vec![attachment(3, "web", Some("9")), attachment(4, "db", None)],
            labels: vec![labels("web", Some("1"))],
            ..Records::default()
        };
        assert_eq!(pods(&records).0, [of(3, "web", None), of(4, "db", None)]);
    }

    #[test]
    fn records_of_other_interfaces_do_not_count() {
        let other = |change: fn(&mut HostInterface)| {
            let mut attachment = attachment(3, "web", None);
            change(&mut attachment.host_interface);
            pods(&Records { attachments: vec![attachment], ..Records::default() })
        };
        let none = (Vec::new(), Vec::new());
        // The hardware address of an interface may change while the pod runs.
        let web = (vec![(3, "shop/web".to_owned(), None)], Vec::new());
        assert_eq!(other(|host| host.hardware = "02:00:00:00:00:04".into()), web);
        assert_eq!(other(|host| host.name = "veth4".into()), none);
        assert_eq!(other(|host| host.index = 4), none);
        assert_eq!(other(|host| host.index = 1), none);
        let reason = "lxc5 of pod shop/web is neither a tap nor a veth interface";
        assert_eq!(other(|host| (host.name, host.index) = ("lxc5".into(), 5)), (vec![], vec![reason.to_owned()]));
        let two = vec![attachment(3, "web", None), attachment(3, "db", None)];
        let reason = "veth3 has the records of two pods".to_owned();
        assert_eq!(pods(&Records { attachments: two, ..Records::default() }), (vec![], vec![reason]));
    }

    /// A directory that appears at any moment of a list is an event after it, or watched already.
    #[test]
    fn no_change_is_missed_while_the_directory_appears() {
        for round in 0..200 {
            let at = tempfile::tempdir().expect("a directory");
            let directory = Directory::new(at.path().join("run/pods"));
            let mut records = PodRecords::open(directory.clone()).expect("inotify");
            assert_eq!(records.read().expect("none"), Records::default());
            std::thread::scope(|scope| {
                scope.spawn(|| directory.write_labels(&labels("web", None)).expect("written"));
                // Only an event leads to the next list, as in the agent.
                while records.read().expect("read").labels.is_empty() {
                    let mut poll = libc::pollfd { fd: records.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                    // SAFETY: one valid element.
                    assert_eq!(unsafe { libc::poll(&raw mut poll, 1, 10_000) }, 1, "{round}");
                }
            });
            // Whatever was read before, the events lead to the directory itself.
            while crate::wait::is_readable(records.as_raw_fd()) {
                records.read().expect("read");
            }
            directory.write_labels(&labels("db", None)).expect("written");
            assert!(crate::wait::is_readable(records.as_raw_fd()), "{round}");
        }
    }

    #[test]
    fn changes_of_records_and_of_their_directory_are_reported() {
        let at = tempfile::tempdir().expect("a directory");
        let directory = Directory::new(at.path().join("run/pods"));
        let mut records = PodRecords::open(directory.clone()).expect("inotify");
        let is_readable = |records: &PodRecords| crate::wait::is_readable(records.as_raw_fd());
        assert_eq!(records.read().expect("none"), Records::default());
        assert!(!is_readable(&records));
        std::fs::create_dir(at.path().join("run")).expect("made");
        assert!(is_readable(&records), "the directory above");
        assert_eq!(records.read().expect("none"), Records::default());
        let record = labels("web", None);
        directory.write_labels(&record).expect("written");
        assert!(is_readable(&records), "the directory");
        assert_eq!(records.read().expect("one").labels, std::slice::from_ref(&record));
        assert!(!is_readable(&records));
        directory.write_labels(&record).expect("written");
        assert!(is_readable(&records), "a record");
        records.clear();
        directory.remove_labels("shop", "web").expect("removed");
        assert!(is_readable(&records), "the end of a record");
        assert_eq!(records.read().expect("none"), Records::default());
        std::fs::remove_dir(directory.path()).expect("removed");
        assert!(is_readable(&records), "the end of the directory");
        assert_eq!(records.read().expect("none"), Records::default());
        directory.write_labels(&record).expect("written");
        assert!(is_readable(&records), "the directory again");
        assert_eq!(records.read().expect("one").labels, [record]);
    }
}
