use crate::{Attachment, Directory, FORMAT, HostInterface, Labels, NameError, Records};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn attachment(container: &str, interface: &str) -> Attachment {
    Attachment {
        pod: FORMAT,
        network: Some("pods".into()),
        host_interface: HostInterface { name: "veth3".into(), index: 7, hardware: "0a:58:0a:f4:00:05".into() },
        namespace: "shop".into(),
        name: "web-1".into(),
        uid: Some("11e7".into()),
        container: container.into(),
        netns: "/var/run/netns/a".into(),
        interface: interface.into(),
        addresses: vec![[10, 244, 0, 5].into()],
        ingress_bps: Some(10_000_000),
        egress_bps: None,
    }
}

fn labels(namespace: &str, name: &str) -> Labels {
    let labels = [("app".to_owned(), "web".to_owned())].into();
    Labels { pod: FORMAT, namespace: namespace.into(), name: name.into(), uid: None, labels }
}

#[test]
fn records_read_back_as_they_were_written() {
    let at = tempfile::tempdir().expect("a directory");
    let directory = Directory::new(at.path().join("run/pods"));
    assert_eq!(directory.read_all().expect("none"), Records::default());
    // Names that a separator within names would make the same.
    let attachments = [attachment("a", "b-c"), attachment("a-b", "c")];
    let pods = [labels("a", "b-c"), labels("a-b", "c")];
    attachments.iter().for_each(|record| directory.write_attachment(record).expect("written"));
    pods.iter().for_each(|record| directory.write_labels(record).expect("written"));
    let mut records = directory.read_all().expect("listed");
    records.attachments.sort_by(|a, b| a.container.cmp(&b.container));
    records.labels.sort_by(|a, b| a.namespace.cmp(&b.namespace));
    assert_eq!(records, Records { attachments: attachments.into(), labels: pods.into(), refused: Vec::new() });
    assert_eq!(directory.read_attachment("a", "b-c").expect("read"), Some(attachment("a", "b-c")));
    assert_eq!(directory.read_attachment("a", "c").expect("none"), None);
    let mode = |name: &str| fs::metadata(directory.path().join(name)).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode("."), mode("labels-a:b-c.json")), (0o700, 0o600));
    assert!(directory.remove_attachment("a", "b-c").expect("removed"));
    assert!(!directory.remove_attachment("a", "b-c").expect("gone"));
    assert!(directory.remove_labels("a-b", "c").expect("removed"));
    let names = fs::read_dir(directory.path()).expect("listed").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["attachment-a-b:c.json", "labels-a:b-c.json"]);
}

#[test]
fn empty_directories_that_others_can_read_are_narrowed() {
    let at = tempfile::tempdir().expect("a directory");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    for (name, before, file, after) in [
        ("kubelet", 0o755, None, 0o700),
        ("shared", 0o755, Some("other"), 0o755),
        ("sticky", 0o1777, None, 0o1777),
        ("narrow", 0o500, None, 0o500),
    ] {
        let path = at.path().join(name);
        fs::create_dir(&path).expect("made");
        if let Some(file) = file {
            fs::write(path.join(file), "").expect("written");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(before)).expect("set");
        // Without write access to 0500 another user than root fails.
        let _ = Directory::new(&path).write_labels(&labels("shop", "web-1"));
        assert_eq!(mode(&path), after, "{name}");
    }
}

#[test]
fn files_that_are_no_records_are_reported_beside_those_that_are() {
    let at = tempfile::tempdir().expect("a directory");
    let directory = Directory::new(at.path());
    directory.write_labels(&labels("shop", "web-1")).expect("written");
    let put = |name: &str, text: &str| fs::write(at.path().join(name), text).expect("written");
    put(".labels-shop:web-2.json.7.new", "half a rec");
    put("notes.json", "not a record");
    put("labels-shop:a.json", "{\"pod\": 1,");
    put("labels-shop:b.json", "{\"pod\": 2}");
    put("labels-shop:c.json", &fs::read_to_string(at.path().join("labels-shop:web-1.json")).expect("text"));
    put("attachment-x:eth0.json", "{\"pod\": 1}");
    fs::create_dir(at.path().join("labels-shop:d.json")).expect("a directory");
    let records = directory.read_all().expect("listed");
    assert_eq!(records.labels, [labels("shop", "web-1")]);
    let refused: Vec<String> = records.refused.iter().map(|(name, cause)| format!("{name}: {cause}")).collect();
    let expected = [
        "attachment-x:eth0.json: missing field `host_interface` at line 1 column 10",
        "labels-shop:a.json: EOF while parsing a value at line 1 column 10",
        "labels-shop:b.json: its format is 2, and this version of Weir reads 1",
        "labels-shop:c.json: it has the record of labels-shop:web-1.json",
        "labels-shop:d.json: it is not a regular file",
    ];
    assert_eq!(refused, expected);
}

#[test]
fn names_that_no_file_can_have_are_refused() {
    let letter = |text: &str, letter| NameError::Letter { what: "container", text: text.into(), letter };
    assert_eq!(attachment("../../etc", "eth0").file_name(), Err(letter("../../etc", '/')));
    assert_eq!(attachment("a:b", "eth0").file_name(), Err(letter("a:b", ':')));
    assert_eq!(attachment("a\n", "eth0").file_name(), Err(letter("a\n", '\n')));
    assert_eq!(attachment("", "eth0").file_name(), Err(NameError::Empty("container")));
    assert!(matches!(labels("shop", &"n".repeat(253)).file_name(), Err(NameError::Long("pod's name", _))));
}
