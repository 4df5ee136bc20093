use super::*;
use crate::guests::links::{Kind, Link};
use std::sync::Mutex;
use weir_policy::{Match, PodFacts};
use weir_units::ServiceId;

/// The content of the maps.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Content {
    guests: BTreeMap<u32, [[u16; 3]; 2]>,
    addresses: BTreeMap<AddressKey, u32>,
    paths: GuestPaths,
    numbers: BTreeMap<u32, u32>,
}

#[derive(Default, Clone)]
struct Maps(Arc<Mutex<Content>>);

impl Maps {
    fn content(&self) -> Content {
        self.0.lock().expect("not poisoned").clone()
    }
}

impl Store for Maps {
    fn set_guest(&mut self, index: u32, guest: Option<Guest>) -> Result<(), MapError> {
        let guests = &mut self.0.lock().expect("not poisoned").guests;
        match guest {
            Some(guest) => guests.insert(index, guest.interfaces),
            None => guests.remove(&index),
        };
        Ok(())
    }
    fn set_address(&mut self, address: GuestAddress, guest: Option<u32>) -> Result<(), MapError> {
        let addresses = &mut self.0.lock().expect("not poisoned").addresses;
        match guest {
            Some(guest) => addresses.insert(key(&address), guest),
            None => addresses.remove(&key(&address)),
        };
        Ok(())
    }
    fn set_paths(&mut self, paths: GuestPaths) -> Result<(), MapError> {
        self.0.lock().expect("not poisoned").paths = paths;
        Ok(())
    }
    fn set_number(&mut self, number: u32, guest: Option<u32>) -> Result<(), MapError> {
        let numbers = &mut self.0.lock().expect("not poisoned").numbers;
        match guest {
            Some(guest) => numbers.insert(number, guest),
            None => numbers.remove(&number),
        };
        Ok(())
    }
}

const BRIDGE: u32 = 2;

/// The uplink 1 in the bridge 2, with guests from 3 on.
fn topology(guests: &[&str]) -> Topology {
    let link = |index, name: &str, kind, master| Link { index, name: name.into(), kind, master, hardware: None };
    let mut links =
        vec![link(1, "eth0", Kind::Other, Some(BRIDGE)), link(BRIDGE, "br0", Kind::Bridge { vlans: false }, None)];
    links.extend((3..).zip(guests).map(|(index, name)| link(index, name, Kind::Guest, Some(BRIDGE))));
    Topology::new(1, &links, &BTreeMap::new())
}

fn classifier(globs: &[&str]) -> Option<Arc<Classifier>> {
    let filters: Vec<Match> =
        globs.iter().map(|glob| Match { interface: Some((*glob).into()), ..Match::default() }).collect();
    let order = (0..).map(ServiceId).zip(&filters);
    Some(Arc::new(Classifier::new(order, Some("eth0")).expect("a classifier")))
}

fn change(number: u32, port: u32, is_gone: bool) -> Change {
    let [_, _, high, low] = number.to_be_bytes();
    let neighbour = Neighbour { bridge: BRIDGE, vlan: 0, hardware: [2, 0, 0, 0, high, low] };
    Change { neighbour, port, is_gone }
}

/// The guest of an address for frames of the uplink.
fn guest_of(maps: &Maps, number: u32) -> Option<u32> {
    let hardware = change(number, 0, false).neighbour.hardware;
    maps.content().addresses.get(&(hardware, ANY_VLAN as u16, 0)).copied()
}

fn state(globs: &[&str], guests: &[&str]) -> (State, Maps) {
    let maps = Maps::default();
    let mut state = State::empty(Box::new(maps.clone()));
    state.set_classifier(0, None);
    state.set_classifier(1, classifier(globs));
    state.replace(topology(guests), &[]).expect("written");
    (state, maps)
}

#[test]
fn rows_have_the_globs_of_both_classifiers_until_one_ends() {
    let (mut state, maps) = state(&["tap*"], &["tap0", "veth0"]);
    assert_eq!(maps.content().guests, BTreeMap::from([(3, [[0; 3], [1, 0, 0]])]));
    assert_eq!(maps.content().paths, GuestPaths { bridged: 1, routed: 0 });
    state.set_classifier(0, classifier(&["veth*", "tap0"]));
    state.replace(topology(&["tap0", "veth0"]), &[]).expect("written");
    assert_eq!(maps.content().guests, BTreeMap::from([(3, [[2, 0, 0], [1, 0, 0]]), (4, [[1, 0, 0], [0; 3]])]));
    assert_eq!((state.count(0), state.count(1)), (2, 1));
    state.set_classifier(1, None);
    state.replace(topology(&["eth1", "veth0"]), &[]).expect("written");
    assert_eq!(maps.content().guests, BTreeMap::from([(4, [[1, 0, 0], [0; 3]])]));
    state.clear().expect("removed");
    assert_eq!(maps.content(), Content::default());
}

#[test]
fn rows_of_an_earlier_agent_stay_until_its_classifier_ends() {
    let maps = Maps::default();
    let mut state = State::empty(Box::new(maps.clone()));
    state.guests.insert(3, Guest { interfaces: [[7, 0, 0], [0; 3]] });
    state.set_classifier(1, classifier(&["tap*"]));
    state.replace(topology(&["tap0"]), &[]).expect("written");
    assert_eq!(maps.content().guests, BTreeMap::from([(3, [[7, 0, 0], [1, 0, 0]])]));
    // The guest is gone, and its interface with it.
    state.replace(topology(&[]), &[]).expect("written");
    assert_eq!(maps.content(), Content::default());
}

#[test]
fn addresses_are_where_the_bridge_has_them() {
    let (mut state, maps) = state(&["tap*"], &["tap0", "tap1", "veth0"]);
    state.follow(&change(9, 3, false)).expect("written");
    assert_eq!(guest_of(&maps, 9), Some(3));
    // It moves; the end of the earlier entry is no end of the newer one.
    state.follow(&change(9, 4, false)).expect("written");
    state.follow(&change(9, 3, true)).expect("written");
    assert_eq!(guest_of(&maps, 9), Some(4));
    // To a port of no guest of the policy, and to the uplink.
    for port in [5, 1] {
        state.follow(&change(9, 4, false)).expect("written");
        state.follow(&change(9, port, false)).expect("written");
        assert_eq!(guest_of(&maps, 9), None, "port {port}");
    }
    // A list replaces all.
    state.follow(&change(9, 4, false)).expect("written");
    state.replace(topology(&["tap0", "tap1", "veth0"]), &[change(8, 3, false)]).expect("written");
    assert_eq!((guest_of(&maps, 8), guest_of(&maps, 9)), (Some(3), None));
    state.follow(&change(8, 3, true)).expect("written");
    assert_eq!(maps.content().addresses, BTreeMap::new());
}

/// A guest that sends from many addresses takes no room of others, and keeps its first ones.
#[test]
fn addresses_of_one_guest_are_bounded() {
    let (mut state, maps) = state(&["tap*"], &["tap0", "tap1"]);
    let most = ADDRESSES_MAX as u32;
    for number in 0..3 * most {
        state.follow(&change(number, 3, false)).expect("written");
    }
    state.follow(&change(1000, 4, false)).expect("written");
    assert_eq!((guest_of(&maps, most - 1), guest_of(&maps, most), guest_of(&maps, 1000)), (Some(3), None, Some(4)));
    assert_eq!(state.missed().as_deref(), Some("tap0 has more than 64 hardware addresses"));
    // In a list the earlier ones keep their places, whatever its order.
    let listed: Vec<Change> = (0..3 * most).rev().map(|number| change(number, 3, false)).collect();
    state.replace(topology(&["tap0", "tap1"]), &listed).expect("written");
    assert_eq!((guest_of(&maps, 0), guest_of(&maps, 2 * most)), (Some(3), None));
    state.follow(&change(0, 3, true)).expect("written");
    state.follow(&change(2 * most, 3, false)).expect("written");
    assert_eq!((guest_of(&maps, 0), guest_of(&maps, 2 * most)), (None, Some(3)));
}

/// Of two interfaces whose indexes have the same low half, the packets of neither have a number.
#[test]
fn numbers_of_routed_guests_are_unique_or_unused() {
    let link = |index| Link { index, name: format!("tap{index}"), kind: Kind::Guest, master: None, hardware: None };
    let topology = |indexes: &[u32]| {
        let links: Vec<Link> = indexes.iter().copied().map(link).collect();
        Topology::new(1, &links, &BTreeMap::new())
    };
    let (mut state, maps) = state(&["tap*"], &["tap0"]);
    assert_eq!(maps.content().numbers, BTreeMap::new(), "a bridged guest has none");
    state.replace(topology(&[7, 9]), &[]).expect("written");
    assert_eq!(maps.content().numbers, BTreeMap::from([(7, 7), (9, 9)]));
    state.replace(topology(&[7, 0x1_0007, 0x2_0009]), &[]).expect("written");
    assert_eq!(maps.content().numbers, BTreeMap::from([(9, 0x2_0009)]));
    assert_eq!(state.missed().as_deref(), Some("another interface has the number of tap65543"));
    state.clear().expect("removed");
    assert_eq!(maps.content(), Content::default());
}

/// An interface that is gone has no entries until the next list, which may have another one of its index.
#[test]
fn an_index_is_of_no_guest_once_its_interface_is_gone() {
    let (mut state, maps) = state(&["tap*", "veth*"], &["tap0", "tap1"]);
    state.follow(&change(9, 3, false)).expect("written");
    state.follow(&change(8, 4, false)).expect("written");
    state.forget(3).expect("removed");
    assert_eq!(maps.content().guests.keys().copied().collect::<Vec<_>>(), [4]);
    assert_eq!((guest_of(&maps, 9), guest_of(&maps, 8)), (None, Some(4)));
    // A late entry of the bridge makes it no guest again, and the list gives the index to another one.
    state.follow(&change(7, 3, false)).expect("written");
    assert_eq!(guest_of(&maps, 7), None);
    state.replace(topology(&["veth0", "tap1"]), &[change(9, 3, false)]).expect("written");
    assert_eq!(maps.content().guests, BTreeMap::from([(3, [[0; 3], [2, 0, 0]]), (4, [[0; 3], [1, 0, 0]])]));
    assert_eq!(guest_of(&maps, 9), Some(3));
    // Numbers of routed guests end with them, too.
    let link = |index, name: &str| Link { index, name: name.into(), kind: Kind::Guest, master: None, hardware: None };
    let routed = Topology::new(1, &[link(5, "tap5"), link(6, "tap6")], &BTreeMap::new());
    state.replace(routed, &[]).expect("written");
    assert_eq!(maps.content().numbers, BTreeMap::from([(5, 5), (6, 6)]));
    state.forget(5).expect("removed");
    assert_eq!(maps.content().numbers, BTreeMap::from([(6, 6)]));
    assert_eq!(state.numbered().keys().copied().collect::<Vec<_>>(), [6]);
}

#[test]
fn interfaces_that_are_no_guests_are_reported() {
    let (state, _) = state(&["br*"], &["tap0"]);
    assert_eq!(state.missed().as_deref(), Some("br0 is neither a tap nor a veth interface"));
}

fn names(globs: &[GuestGlob]) -> Vec<&str> {
    globs.iter().filter_map(|glob| glob.interface.as_deref()).collect()
}

#[test]
fn globs_that_match_no_interface_are_reported_by_classifier() {
    let (mut state, _) = state(&["tap*", "br*", "eth0"], &[]);
    assert_eq!(names(&state.unmatched(1)), ["tap*"], "the bridge is there, and is reported as no guest");
    assert_eq!(names(&state.unmatched(0)), [] as [&str; 0]);
    state.set_classifier(0, classifier(&["veth*", "tap1"]));
    state.replace(topology(&["tap0"]), &[]).expect("written");
    assert_eq!(names(&state.unmatched(1)), [] as [&str; 0]);
    assert_eq!(names(&state.unmatched(0)), ["veth*", "tap1"]);
    state.set_classifier(1, None);
    state.replace(topology(&["veth7", "tap1"]), &[]).expect("written");
    assert_eq!((state.unmatched(0).len(), state.unmatched(1).len()), (0, 0));
    state.replace(topology(&[]), &[]).expect("written");
    assert_eq!(names(&state.unmatched(0)), ["veth*", "tap1"], "the guests are gone");
    state.clear().expect("removed");
    assert_eq!(names(&state.unmatched(0)), [] as [&str; 0]);
}

/// Labels that change move a pod to another service; a guest without a record has no service by pod.
#[test]
fn pods_have_the_globs_of_their_labels() {
    let selector = |namespace, labels| Match {
        pod: Some(PodSelector::new(namespace, None, labels).expect("a selector")),
        ..Match::default()
    };
    let filters = [selector(None, Some("app=web")), selector(Some("shop"), None), selector(Some("bank"), None)];
    let order = (0..).map(ServiceId).zip(&filters);
    let classifier = Some(Arc::new(Classifier::new(order, Some("eth0")).expect("a classifier")));
    let (mut state, maps) = state(&["tap*"], &["veth0", "veth1", "tap0"]);
    state.set_classifier(0, classifier);
    let with = |labels: Option<&str>| {
        let mut topology = topology(&["veth0", "veth1", "tap0"]);
        let labels = labels.map(|app| [("app".to_owned(), app.to_owned())].into());
        let pod = PodFacts { namespace: "shop".into(), name: "web-1".into(), labels };
        topology.guests.get_mut(&3).expect("veth0").pod = Some(pod);
        topology
    };
    for (labels, globs, reasons) in [
        (Some("web"), [1, 0, 0], &["no record of a pod at veth1"][..]),
        (Some("db"), [2, 0, 0], &["no record of a pod at veth1"]),
        (None, [2, 0, 0], &["no record of a pod at veth1", "no labels are known of pod shop/web-1"]),
    ] {
        state.replace(with(labels), &[]).expect("written");
        // The third is of the other classifier by its name.
        assert_eq!(maps.content().guests, BTreeMap::from([(3, [globs, [0; 3]]), (5, [[0; 3], [1, 0, 0]])]));
        assert_eq!(state.without_pod(), reasons);
    }
    let unmatched: Vec<String> =
        state.unmatched(0).into_iter().filter_map(|glob| Some(glob.pod?.to_string())).collect();
    assert_eq!(unmatched, ["labels=app=web", "namespace=bank"]);
    state.replace(topology(&["veth0"]), &[]).expect("written");
    assert_eq!(maps.content().guests, BTreeMap::new());
}
