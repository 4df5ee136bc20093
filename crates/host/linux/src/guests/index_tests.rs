//! Interfaces with the index of a deleted one, on real interfaces: as root.

use super::*;
use crate::attachment::{Attachment, has_filters};
use crate::interface::Interface;
use crate::netns::{Netns, Prefix};
use crate::requirements::{Purpose, check};
use crate::settings::Classes;
use aya::programs::{SchedClassifier, TcAttachType};
use std::time::Duration;
use weir_policy::Match;
use weir_units::ServiceId;

/// Whether the program that numbers packets is attached to an interface of the thread's namespace.
fn is_numbered(attachment: Attachment, name: &str, index: u32) -> bool {
    match attachment {
        Attachment::Tcx => {
            let (_, programs) = SchedClassifier::query_tcx(name, TcAttachType::Ingress).expect("programs");
            programs.iter().any(|program| program.name_as_str() == Some("weir_guest"))
        }
        Attachment::Clsact => has_filters(index, &[("weir_guest", TcAttachType::Ingress)]).expect("filters"),
    }
}

fn index_of(host: &Netns, link: &str) -> u32 {
    host.run(|| Interface::named(link).expect("an interface").index()).expect("enter")
}

/// The program of the uplink with services by `tap*` and by `veth*`.
fn attach(host: &Netns, attachment: Attachment) -> Option<InterfaceDatapath> {
    let filter = |glob: &str| Match { interface: Some(glob.into()), ..Match::default() };
    let filters = ["tap*", "veth*"].map(filter);
    let classifier = Classifier::new((0..).map(ServiceId).zip(&filters), Some("eth")).expect("supported");
    let attach = || {
        let uplink = Interface::named("eth").expect("the uplink");
        let mut datapath = match InterfaceDatapath::attach_without_edt(&uplink, Some(attachment)) {
            Ok(datapath) => datapath,
            Err(LoaderError::Program(error)) if crate::attachment::lacks_tcx(&error) => return None,
            Err(error) => panic!("{error}"),
        };
        datapath.set_slots([(ServiceId(0), "a"), (ServiceId(1), "b")].into_iter()).expect("slots");
        datapath.set_rules(&classifier, Classes::None).expect("rules");
        Some(datapath)
    };
    host.run(attach).expect("enter")
}

/// The thread cannot list interfaces between the end of one and the beginning of the next one with its index: it finds
/// both in one list, and numbers the packets of the second.
#[test]
#[expect(clippy::disallowed_methods, reason = "waits for a thread")]
fn an_interface_with_the_index_of_a_deleted_one_is_numbered() {
    if !check(Purpose::Lab).is_empty() {
        assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set, and this host cannot run the test");
        return;
    }
    let prefix = Prefix::new("wtuidx").expect("a prefix");
    prefix.cleanup().expect("clean up after an earlier run");
    let host = prefix.create("a").expect("a namespace");
    host.ip_batch("link add eth type veth peer name other\nlink set eth up\nlink set other up\n").expect("an uplink");
    for attachment in [Attachment::Clsact, Attachment::Tcx] {
        host.ip_batch("link add veth1 type veth peer name p1\n").expect("a guest");
        let index = index_of(&host, "veth1");
        let Some(datapath) = attach(&host, attachment) else { continue };
        let numbered = |link: &str| host.run(|| is_numbered(attachment, link, index)).expect("enter");
        assert!(numbered("veth1"), "{attachment:?}");
        {
            let watcher = datapath.guests.watcher.as_ref().expect("globs");
            let _held = watcher.hold();
            host.ip_batch(&format!("link del veth1\nlink add tap2 index {index} type veth peer name p2\n"))
                .expect("it");
        }
        assert_eq!(index_of(&host, "tap2"), index);
        let is_followed = || {
            std::thread::sleep(Duration::from_millis(10));
            numbered("tap2")
        };
        assert!((0..300).any(|_| is_followed()), "{attachment:?}");
        datapath.remove().expect("removed");
        host.ip_batch("link del tap2\n").expect("deleted");
    }
}
