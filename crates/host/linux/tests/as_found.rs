//! A host is left in its original state, whatever happens in between.

mod common;

use aya::maps::{Array, Map, MapData};
use bytemuck::TransparentWrapper;
use common::{Cable, interface, services, skipped};
use std::io::Write;
use std::mem::offset_of;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use weir_datapath::Classifier;
use weir_datapath::abi::{Config, Table};
use weir_linux::attachment::Attachment;
use weir_linux::class::{ClassSpec, Sending};
use weir_linux::htb::{CONTROL_MINOR, DEFAULT_MINOR, FIRST_MINOR, HtbError, HtbTree};
use weir_linux::loader::{InterfaceDatapath, LoaderError};
use weir_linux::maps::Value;
use weir_linux::netns::{Netns, Prefix};
use weir_linux::settings::Classes;
use weir_linux::shaper::{Backend, choose, probe};
use weir_linux::tc::Found;
use weir_units::{Bandwidth, Bytes, ServiceId, Weight};

const SENDING: Sending = Sending { frame: Bytes::new(1514), segment: Bytes::new(1514) };
const NIC: Bandwidth = Bandwidth::from_gbps(1);

fn classes(count: u16) -> Vec<ClassSpec> {
    let class = |i| ClassSpec {
        minor: FIRST_MINOR + i,
        parent: None,
        leaf: true,
        parts: 1,
        min: Bandwidth::from_mbps(10),
        max: Bandwidth::from_mbps(50),
        weight: Weight::ONE,
    };
    (0..count).map(class).collect()
}

fn install(count: u16, force: bool) -> Result<HtbTree, HtbError> {
    HtbTree::install(&interface(), NIC, &classes(count), &[], SENDING, force)
}

/// Runs `tc` inside; `tc -n` would do the same here.
fn tc(netns: &Netns, arguments: &str) -> String {
    let mut command = netns.command("tc").expect("tc");
    let output = command.args(arguments.split_whitespace()).output().expect("tc");
    std::io::stderr().write_all(&output.stderr).expect("stderr");
    String::from_utf8(output.stdout).expect("text")
}

/// All that tc and ip say about the interfaces.
fn state(netns: &Netns) -> String {
    let link = netns.ip(["-d", "link", "show"]).expect("ip");
    format!("{}{}{link}", tc(netns, "class show dev eth"), attached(netns))
}

/// The output of tc about qdiscs and the programs on them; not the link's state, which follows the carrier.
fn attached(netns: &Netns) -> String {
    let filters = tc(netns, "filter show dev eth egress") + &tc(netns, "filter show dev eth ingress");
    tc(netns, "qdisc show") + &filters
}

#[test]
fn backend_is_chosen_with_reasons() {
    if skipped() {
        return;
    }
    for possible in probe() {
        println!("{}: {}", possible.backend, possible.obstacle.as_deref().unwrap_or("possible"));
    }
    let possible = probe();
    let fq = possible.iter().any(|possible| possible.backend == Backend::Edt && possible.obstacle.is_none());
    let expected = if fq { Backend::Edt } else { Backend::Htb };
    assert_eq!(choose(&possible, None).expect("a backend"), expected);
    assert_eq!(choose(&possible, Some(Backend::Htb)).expect("a backend"), Backend::Htb);
}

#[test]
fn shaping_leaves_no_trace() {
    if skipped() {
        return;
    }
    let cable = Cable::new("f1");
    let before = state(&cable.a);
    let mut tree = cable.a.run(|| install(3, false)).expect("enter").expect("install");
    assert_eq!(*tree.found(), Found::Default("noqueue".into()));
    assert!(tree.is_installed().expect("queried"));
    let during = tc(&cable.a, "-d class show dev eth");
    assert!(during.contains("class htb 7765:12 parent 7765:1"), "{during}");
    assert!(during.contains("rate 10Mbit ceil 50Mbit"), "{during}");
    let unclassified = during.lines().find(|line| line.contains("class htb 7765:2 ")).expect("a default class");
    assert!(unclassified.contains("rate 10Mbit ceil 1Gbit"), "{unclassified}");
    assert!(tc(&cable.a, "qdisc show dev eth").contains("bfifo 12: parent 7765:12 limit 193792b"), "128 frames");
    tree.remove().expect("remove");
    assert_eq!(state(&cable.a), before);
    drop(cable.a.run(|| install(3, false)).expect("enter").expect("install"));
    assert_eq!(state(&cable.a), before, "dropping removes as well");
}

#[test]
fn programs_leave_no_trace() {
    if skipped() {
        return;
    }
    let cable = Cable::new("f2");
    let before = state(&cable.a);
    let attach = |wanted| InterfaceDatapath::attach(&interface(), wanted);
    let held = attachments(&cable);
    for (wanted, expected) in
        [(None, held[0])].into_iter().chain(held.iter().map(|attachment| (Some(*attachment), *attachment)))
    {
        let attach = || {
            let mut datapath = attach(wanted).expect("attach");
            let classifier = Classifier::new([], Some("eth")).expect("rules");
            datapath.set_slots(services(2)).expect("slots");
            datapath.set_rules(&classifier, Classes::Htb).expect("rules");
            assert_eq!(datapath.attachment(), expected);
            datapath
        };
        cable.a.run(|| attach().remove().expect("remove")).expect("enter");
        assert_eq!(state(&cable.a), before, "{wanted:?}");
        cable.a.run(|| drop(attach())).expect("enter");
        assert_eq!(state(&cable.a), before, "{wanted:?}, dropped");
    }
    if !held.contains(&Attachment::Tcx) {
        let refused = cable.a.run(|| attach(Some(Attachment::Tcx)).map(drop)).expect("enter");
        assert!(matches!(refused, Err(LoaderError::Program(_))), "{refused:?}");
        assert_eq!(state(&cable.a), before, "what is not possible leaves nothing");
    }
}

/// Where packets get no departure times the programs are loaded without; what an earlier agent left
/// that gives them goes on doing so.
#[test]
fn programs_without_departure_times_refuse_them_unless_adopted() {
    if skipped() {
        return;
    }
    let cable = Cable::new("fi");
    let classifier = Classifier::new([], Some("eth")).expect("rules");
    let without = || InterfaceDatapath::attach_without_edt(&interface(), None).expect("attach");
    cable
        .a
        .run(|| {
            let mut first = without();
            first.set_rules(&classifier, Classes::Htb).expect("rules");
            assert!(matches!(first.set_rules(&classifier, Classes::Edt), Err(LoaderError::WithoutEdt)));
            first.leave();
            let mut second = InterfaceDatapath::attach(&interface(), None).expect("attach");
            second.set_rules(&classifier, Classes::Edt).expect("rules");
            second.leave();
            let mut third = without();
            assert!(third.is_adopted());
            third.set_rules(&classifier, Classes::Edt).expect("it can, as what it took over could");
            third.set_rules(&classifier, Classes::Htb).expect("rules");
            third.remove().expect("removed");
        })
        .expect("enter");
}

/// The agent checks periodically that its qdisc and its programs are still installed.
#[test]
fn removed_programs_and_qdiscs_are_detected() {
    if skipped() {
        return;
    }
    let cable = Cable::new("fc");
    // No qdisc; a foreign qdisc; a foreign qdisc under the handle of the tree.
    for other in [None, Some("handle 1: htb"), Some("handle 7765: tbf rate 1mbit burst 32kb latency 50ms")] {
        let mut tree = cable.a.run(|| install(3, false)).expect("enter").expect("install");
        assert!(tree.is_installed().expect("queried"), "{other:?}");
        tc(&cable.a, "qdisc del dev eth root");
        if let Some(other) = other {
            tc(&cable.a, &format!("qdisc add dev eth root {other}"));
        }
        assert!(!tree.is_installed().expect("queried"), "{other:?}");
        drop(tree);
        if other.is_some_and(|other| other.contains("htb")) {
            assert!(tc(&cable.a, "qdisc show dev eth").contains("htb 1: root"), "dropping leaves what is not ours");
        }
        tc(&cable.a, "qdisc del dev eth root");
    }
    let before = attached(&cable.a);
    for attachment in attachments(&cable) {
        let attach = || InterfaceDatapath::attach(&interface(), Some(attachment)).expect("attach");
        let datapath = cable.a.run(attach).expect("enter");
        let programs = datapath.attached_programs().expect("a namespace");
        assert!(programs.are_there().expect("queried"), "from another namespace, too");
        match attachment {
            Attachment::Clsact => drop(tc(&cable.a, "filter del dev eth ingress")),
            Attachment::Tcx => {
                for directory in pinned(&cable.a) {
                    std::fs::remove_file(directory.join("weir_ingress")).expect("a pin");
                }
            }
        }
        assert!(!programs.are_there().expect("queried"), "{attachment:?}");
        datapath.remove().expect("remove");
        assert_eq!(attached(&cable.a), before, "{attachment:?}");
    }
}

/// How programs can be held here: by tcx since Linux 6.6, by clsact always.
fn attachments(cable: &Cable) -> Vec<Attachment> {
    let first = || InterfaceDatapath::attach(&interface(), None).expect("attach").attachment();
    match cable.a.run(first).expect("enter") {
        Attachment::Tcx => vec![Attachment::Tcx, Attachment::Clsact],
        Attachment::Clsact => vec![Attachment::Clsact],
    }
}

/// What an agent that was killed leaves, programs and maps, goes on and is taken over; the last one takes all away.
#[test]
fn state_of_a_killed_agent_is_adopted() {
    if skipped() {
        return;
    }
    let possible = attachments(&Cable::new("f3"));
    for attachment in possible {
        let cable = Cable::new("f3");
        let before = state(&cable.a);
        let attach = || InterfaceDatapath::attach(&interface(), Some(attachment)).expect("attach");
        let classifier = || Classifier::new([], Some("eth")).expect("rules");
        let first = || {
            let mut first = attach();
            assert!(!first.is_adopted());
            first.set_slots(services(3)).expect("slots");
            first.set_rules(&classifier(), Classes::None).expect("rules");
            first.start_timer().expect("the timer");
            first.leave();
        };
        cable.a.run(first).expect("enter");
        // No process holds the programs, and they keep running.
        let send = || {
            let socket = std::net::UdpSocket::bind("10.77.0.1:0").expect("a socket");
            socket.send_to(b"hello", "10.77.0.2:9").expect("sent");
        };
        cable.a.run(send).expect("enter");
        let second = || {
            let mut second = attach();
            assert!(second.is_adopted());
            let counted = second.totals(None).expect("meters").tx.packets();
            assert!(counted > 0, "packets were counted while no agent ran");
            // Another order, one service less: slots stay.
            let services = [("c", 0), ("a", 1)].map(|(path, id)| (ServiceId(id), path));
            second.set_slots(services.into_iter()).expect("slots");
            second.set_rules(&classifier(), Classes::None).expect("rules");
            let slots = [0, 1].map(|id| second.slot(ServiceId(id)).expect("a slot"));
            assert_eq!(slots, [2, 0]);
            second.start_timer().expect("the timer");
            let ticks = || second.timer().expect("the timer").ticks;
            let start = ticks();
            common::pause(std::time::Duration::from_millis(50));
            assert!(ticks() > start, "the timer goes on");
            second.remove().expect("remove");
        };
        cable.a.run(second).expect("enter");
        assert_eq!(state(&cable.a), before, "{attachment:?}");
        let removed = cable.a.run(|| InterfaceDatapath::remove_leftover(&interface())).expect("enter");
        assert!(!removed.expect("looked"), "nothing is left");
        cable.a.run(first).expect("enter");
        let removed = cable.a.run(|| InterfaceDatapath::remove_leftover(&interface())).expect("enter");
        assert!(removed.expect("removed"));
        assert_eq!(state(&cable.a), before, "{attachment:?}, removed by hand");
    }
}

/// The directories of pins of a host's interfaces.
fn pinned(host: &Netns) -> Vec<PathBuf> {
    let inode = || std::fs::metadata("/proc/thread-self/ns/net").expect("a namespace").ino();
    let which = format!("-{}-", host.run(inode).expect("enter"));
    let entries = std::fs::read_dir("/sys/fs/bpf/weir").into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.to_string_lossy().contains(&which)).collect()
}

#[test]
fn pins_of_a_deleted_interface_are_swept() {
    if skipped() {
        return;
    }
    let cable = Cable::new("fa");
    cable.a.run(|| InterfaceDatapath::attach(&interface(), None).expect("attach").leave()).expect("enter");
    let pinned = || pinned(&cable.a).len();
    assert_eq!(pinned(), 1);
    // As an agent of the same namespace does when it attaches.
    let sweep = || cable.a.run(weir_linux::pins::sweep).expect("enter");
    sweep();
    assert_eq!(pinned(), 1, "the interface is there");
    cable.a.ip(["link", "del", "eth"]).expect("ip");
    sweep();
    assert_eq!(pinned(), 0);
}

#[test]
fn dropping_in_another_namespace_detaches_in_the_first() {
    if skipped() {
        return;
    }
    let cable = Cable::new("f9");
    let index = |netns: &Netns| netns.run(|| interface().index()).expect("enter");
    assert_eq!(index(&cable.a), index(&cable.b), "the same number in both namespaces");
    let attach = || InterfaceDatapath::attach(&interface(), Some(Attachment::Clsact)).expect("attach");
    let before = attached(&cable.a);
    // The same handles and priorities on the interface with the same number.
    let other = cable.b.run(attach).expect("enter");
    let others = attached(&cable.b);
    assert!(others.contains("clsact") && others.contains("weir_egress"), "{others}");
    for remove in [false, true] {
        let datapath = cable.a.run(attach).expect("enter");
        assert!(attached(&cable.a).contains("weir_ingress"));
        let end = || if remove { datapath.remove().expect("remove") } else { drop(datapath) };
        cable.b.run(end).expect("enter");
        assert_eq!(attached(&cable.a), before, "remove: {remove}");
        assert_eq!(attached(&cable.b), others, "remove: {remove}");
    }
    // From a thread that never was in either.
    drop(other);
    assert!(!attached(&cable.b).contains("clsact"));
}

/// A foreign program that ends the chain of programs runs after the programs of Weir.
#[test]
fn programs_run_for_packets_that_other_programs_accept() {
    if skipped() {
        return;
    }
    let possible = attachments(&Cable::new("fg"));
    for attachment in possible {
        let cable = Cable::new("fg");
        let other = || -> Option<aya::Ebpf> {
            if attachment == Attachment::Clsact {
                tc(&cable.a, "qdisc add dev eth clsact");
                // Without an action it is the end.
                tc(&cable.a, "filter add dev eth ingress prio 100 u32 match u32 0 0 flowid 1:1");
                return None;
            }
            let mut object = aya::Ebpf::load(weir_linux::loader::VERDICT_OBJECT).expect("the kernel takes the object");
            let program = object.program_mut("weir_verdict").expect("a program");
            let program: &mut aya::programs::SchedClassifier = program.try_into().expect("a classifier");
            program.load().expect("loaded");
            // The program returns 0: the packet passes, and no later program runs.
            program.attach("eth", aya::programs::TcAttachType::Ingress).expect("attached");
            Some(object)
        };
        let other = cable.a.run(other).expect("enter");
        let attach = || InterfaceDatapath::attach(&interface(), Some(attachment)).expect("attach");
        let datapath = cable.a.run(attach).expect("enter");
        let send = || {
            let socket = std::net::UdpSocket::bind("10.77.0.2:0").expect("a socket");
            for _ in 0..10 {
                socket.send_to(b"hello", "10.77.0.1:9").expect("sent");
            }
        };
        cable.b.run(send).expect("enter");
        let came = datapath.totals(None).expect("meters").rx.packets();
        assert!(came >= 10, "{attachment:?}: {came} packets");
        datapath.remove().expect("remove");
        drop(other);
    }
}

#[test]
fn ingress_qdisc_in_place_of_clsact_is_reported() {
    if skipped() {
        return;
    }
    let cable = Cable::new("fh");
    tc(&cable.a, "qdisc add dev eth ingress");
    let before = attached(&cable.a);
    let attach = || InterfaceDatapath::attach(&interface(), Some(Attachment::Clsact));
    let refused = cable.a.run(attach).expect("enter").expect_err("no place for programs on what leaves");
    assert!(matches!(&refused, LoaderError::Ingress(name) if name == "eth"), "{refused}");
    assert_eq!(attached(&cable.a), before);
    assert!(pinned(&cable.a).is_empty());
}

/// A clsact that also carries foreign filters no longer belongs to the agent.
#[test]
fn foreign_filters_stay() {
    if skipped() {
        return;
    }
    let cable = Cable::new("fd");
    let before = attached(&cable.a);
    let attach = || InterfaceDatapath::attach(&interface(), Some(Attachment::Clsact)).expect("attach");
    let leftover = || InterfaceDatapath::remove_leftover(&interface()).expect("remove");
    for direction in ["ingress", "egress"] {
        for killed in [false, true] {
            let datapath = cable.a.run(attach).expect("enter");
            tc(
                &cable.a,
                &format!("filter add dev eth {direction} u32 match u32 0 0 action mirred egress redirect dev eth"),
            );
            cable.a.run(|| if killed { datapath.leave() } else { datapath.remove().expect("remove") }).expect("enter");
            assert_eq!(cable.a.run(leftover).expect("enter"), killed);
            let after = attached(&cable.a);
            assert!(after.contains("clsact") && after.contains("u32"), "{direction}, killed: {killed}: {after}");
            assert!(!after.contains("weir_"), "{direction}, killed: {killed}: {after}");
            tc(&cable.a, "qdisc delete dev eth clsact");
            assert_eq!(attached(&cable.a), before);
        }
    }
}

/// Makes the pins of an agent of this version look like those of an earlier version, whose
/// configuration has another size and the same first fields.
fn as_of_an_earlier_version(netns: &Netns) {
    let rename = || {
        let inode = std::fs::metadata("/proc/thread-self/ns/net").expect("a namespace").ino();
        let which = format!("-{inode}-{}", interface().index());
        let pinned = std::fs::read_dir("/sys/fs/bpf/weir").expect("pins").map(|entry| entry.expect("an entry").path());
        let own = pinned.into_iter().find(|path| path.to_string_lossy().ends_with(&which)).expect("its pins");
        let open = |name: &str| Map::from_map_data(MapData::from_pin(own.join(name)).expect(name)).expect(name);
        let config = Array::<_, Value<Config>>::try_from(open("weir_config")).expect("the sizes agree");
        let config = config.get(&0, 0).expect("the configuration").0;
        // Another array stands in for the configuration: its values are larger.
        let mut larger = Array::<_, Value<Table>>::try_from(open("weir_tables")).expect("the sizes agree");
        let mut value = bytemuck::zeroed_box::<Table>();
        let first_fields = offset_of!(Config, clsact) + size_of::<u32>();
        bytemuck::bytes_of_mut(&mut *value)[..first_fields]
            .copy_from_slice(&bytemuck::bytes_of(&config)[..first_fields]);
        larger.set(0, Value::wrap_ref(&*value), 0).expect("written");
        std::fs::rename(own.join("weir_tables"), own.join("weir_config")).expect("renamed");
        std::fs::rename(&own, own.with_file_name(format!("v0{which}"))).expect("renamed");
    };
    netns.run(rename).expect("enter");
}

/// An upgrade replaces the programs and takes over nothing of the maps but the duty to remove clsact.
#[test]
fn upgrade_and_removal_restore_the_host() {
    if skipped() {
        return;
    }
    let cable = Cable::new("fb");
    for attachment in [None, Some(Attachment::Clsact)] {
        let before = attached(&cable.a);
        let attach = || InterfaceDatapath::attach(&interface(), attachment).expect("attach");
        cable.a.run(|| attach().leave()).expect("enter");
        as_of_an_earlier_version(&cable.a);
        let datapath = cable.a.run(attach).expect("enter");
        assert!(!datapath.is_adopted(), "another version's maps are not taken over");
        cable.a.run(|| datapath.remove().expect("remove")).expect("enter");
        assert_eq!(attached(&cable.a), before, "{attachment:?}");
        assert!(!cable.a.run(|| InterfaceDatapath::remove_leftover(&interface()).expect("nothing")).expect("enter"));
    }
}

#[test]
fn two_agents_on_one_interface_are_refused() {
    if skipped() {
        return;
    }
    let cable = Cable::new("f4");
    let attach = || InterfaceDatapath::attach(&interface(), None);
    let first = cable.a.run(attach).expect("enter").expect("attach");
    let second = cable.a.run(attach).expect("enter");
    assert!(matches!(&second, Err(LoaderError::AlreadyAttached(name)) if name == "eth"), "{second:?}");
    drop(first);
    assert!(cable.a.run(attach).expect("enter").is_ok());
}

#[test]
fn foreign_qdisc_is_refused_unless_forced() {
    if skipped() {
        return;
    }
    let cable = Cable::new("f5");
    tc(&cable.a, "qdisc add dev eth root handle 1: tbf rate 100mbit burst 32kb latency 50ms");
    let before = state(&cable.a);
    let refused = cable.a.run(|| install(1, false)).expect("enter").expect_err("a foreign qdisc");
    assert!(matches!(&refused, HtbError::Foreign(foreign) if foreign.found.to_string() == "tbf 1:"), "{refused}");
    assert_eq!(state(&cable.a), before);
    let tree = cable.a.run(|| install(1, true)).expect("enter").expect("forced");
    assert!(matches!(tree.found(), Found::Foreign(_)));
    tree.remove().expect("remove");
    assert!(tc(&cable.a, "qdisc show dev eth").contains("noqueue"));
}

#[test]
fn tree_of_a_killed_agent_is_taken_over() {
    if skipped() {
        return;
    }
    let cable = Cable::new("f6");
    let before = state(&cable.a);
    cable.a.run(|| install(4, false).expect("install").leave()).expect("enter");
    assert!(tc(&cable.a, "class show dev eth").contains("7765:13"), "the last rates stay in force");
    let mut tree = cable.a.run(|| install(2, false)).expect("enter").expect("taken over");
    assert_eq!(*tree.found(), Found::Leftover);
    let minors: Vec<u16> = tree.status().expect("classes").iter().map(|class| class.minor).collect();
    assert_eq!(
        minors,
        [DEFAULT_MINOR, CONTROL_MINOR, FIRST_MINOR, FIRST_MINOR + 1],
        "classes without a service are gone"
    );
    tree.remove().expect("remove");
    assert_eq!(state(&cable.a), before);
}

#[test]
fn rates_above_34_gbps_arrive_whole() {
    if skipped() {
        return;
    }
    let cable = Cable::new("f7");
    let nic = Bandwidth::from_gbps(400);
    let spec = ClassSpec { min: Bandwidth::from_gbps(100), max: nic, ..classes(1)[0] };
    let install = || HtbTree::install(&interface(), nic, &[spec], &[], SENDING, false);
    let _tree = cable.a.run(install).expect("enter").expect("install");
    let classes = tc(&cable.a, "class show dev eth");
    assert!(classes.contains("rate 100Gbit ceil 400Gbit"), "{classes}");
}

#[test]
fn cleanup_removes_leftovers_of_a_crash() {
    if skipped() {
        return;
    }
    let prefix = Prefix::new("wtfe").expect("a prefix");
    prefix.cleanup().expect("clean up after an earlier run");
    let netns = prefix.create("x").expect("a namespace");
    let mut child = netns.command("sleep").expect("sleep").arg("600").spawn().expect("sleep");
    assert_eq!(netns.processes().expect("processes"), [child.id() as i32]);
    std::mem::forget(netns);
    assert_eq!(prefix.existing().expect("names"), ["wtfe-x"]);
    assert_eq!(prefix.cleanup().expect("clean up"), ["wtfe-x"]);
    assert!(!child.wait().expect("the child").success(), "it was killed");
    assert!(prefix.existing().expect("names").is_empty());
}
