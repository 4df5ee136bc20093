//! Written results read back, and invalid ones are refused.

use super::*;
use crate::record::{ClassCount, Coflow, FlowRecord, Group, GroupSample, LinkRecord, LinkSample, MeterSample};
use crate::sample::{sample, sample_of_lab, sample_under_policy};
use proptest::prelude::*;
use weir_units::{Bandwidth, MachineId, SimTime};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

pub(crate) fn written(results: &Results) -> tempfile::TempDir {
    let directory = directory();
    ResultsDirectory::prepare(directory.path(), false).unwrap().write(results, &SizeBins::default()).unwrap();
    directory
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The message without the directory's own name.
fn message(error: &FileError, directory: &Path) -> String {
    error.to_string().replace(&directory.display().to_string(), "DIR")
}

#[test]
fn the_sample_reads_back() {
    let directory = written(&sample());
    assert_eq!(
        names(directory.path()),
        [
            "flows.csv",
            "flows.parquet",
            "group_samples.csv",
            "hosts.csv",
            "link_samples.csv",
            "links.csv",
            "meters.csv",
            "result.json"
        ]
    );
    assert_eq!(Results::read(directory.path()).unwrap(), sample());
    assert!(Results::is_complete(directory.path()).unwrap());
    // Without shapers there is no file of them, even if there was one before.
    let bare = Results { services: Vec::new(), meter_samples: Vec::new(), ..sample() };
    ResultsDirectory::prepare(directory.path(), true).unwrap().write(&bare, &SizeBins::default()).unwrap();
    assert!(!names(directory.path()).contains(&"meters.csv".to_owned()));
    assert_eq!(Results::read(directory.path()).unwrap(), bare);
}

#[test]
fn the_files_of_the_sample() {
    let directory = written(&sample());
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    for name in
        ["flows.csv", "links.csv", "link_samples.csv", "group_samples.csv", "meters.csv", "hosts.csv", "result.json"]
    {
        insta::assert_snapshot!(name, read(name));
    }
}

#[test]
fn a_run_under_a_policy_has_its_services_in_the_same_file() {
    let directory = written(&sample_under_policy());
    assert_eq!(names(directory.path()), names(written(&sample()).path()));
    assert_eq!(Results::read(directory.path()).unwrap(), sample_under_policy());
    let text = fs::read_to_string(directory.path().join(RESULT)).unwrap();
    let (before, policy) = text.split_once("  \"policy\": ").unwrap();
    let (policy, after) = policy.split_once("\n  },\n").unwrap();
    insta::assert_snapshot!("policy", policy);
    // Apart from these it is the file of the network alone.
    assert_eq!(format!("{before}{after}"), sample().to_json(&SizeBins::default()));
}

#[test]
fn a_run_in_the_lab_is_one_file() {
    let directory = written(&sample_of_lab());
    assert_eq!(names(directory.path()), [RESULT]);
    assert_eq!(Results::read(directory.path()).unwrap(), sample_of_lab());
    insta::assert_snapshot!("lab.json", fs::read_to_string(directory.path().join(RESULT)).unwrap());
    assert!(!Results::is_complete(directory.path()).unwrap());
    // In place of a simulated run, whose tables do not belong to it.
    let directory = written(&sample_under_policy());
    ResultsDirectory::prepare(directory.path(), true).unwrap().write(&sample_of_lab(), &SizeBins::default()).unwrap();
    assert_eq!(names(directory.path()), [RESULT]);
}

#[test]
fn the_same_results_give_the_same_bytes() {
    let (one, other) = (written(&sample()), written(&sample()));
    for name in names(one.path()) {
        assert_eq!(fs::read(one.path().join(&name)).unwrap(), fs::read(other.path().join(&name)).unwrap(), "{name}");
    }
}

#[test]
fn a_directory_with_files_is_kept_unless_forced() {
    let directory = written(&sample());
    let error = ResultsDirectory::prepare(directory.path(), false).unwrap_err();
    insta::assert_snapshot!(message(&error, directory.path()), @"`DIR` already has files");
    let changed = Results { seed: 8, complete: false, ..sample() };
    ResultsDirectory::prepare(directory.path(), true).unwrap().write(&changed, &SizeBins::qjump()).unwrap();
    assert_eq!(Results::read(directory.path()).unwrap(), changed);
    assert!(!Results::is_complete(directory.path()).unwrap());
    let file = directory.path().join("flows.csv");
    let error = ResultsDirectory::prepare(&file, true).unwrap_err();
    insta::assert_snapshot!(message(&error, directory.path()), @"`DIR/flows.csv` is a file, not a directory");
}

#[test]
fn a_writer_that_fails_leaves_the_old_file() {
    let directory = directory();
    let path = directory.path().join("report.html");
    replace(&path, |out| out.write_all(b"old")).unwrap();
    let error = replace(&path, |out| {
        // More than any buffer, so that half of it is on the disk.
        out.write_all(&[b'x'; 100_000])?;
        Err(io::ErrorKind::StorageFull.into())
    });
    insta::assert_snapshot!(
        message(&error.unwrap_err(), directory.path()),
        @"cannot write `DIR/report.html`: no storage space"
    );
    assert_eq!((names(directory.path()), fs::read(&path).unwrap()), (vec!["report.html".to_owned()], b"old".to_vec()));
}

/// All files are written, with the reason in `result.json`; no other run is lost for the fault of a record.
#[test]
fn unsound_results_are_written_and_refused_when_read() {
    let unsound = |change: fn(&mut Results)| {
        let directory = directory();
        let mut results = sample();
        change(&mut results);
        let to = ResultsDirectory::prepare(directory.path(), false).unwrap();
        let error = to.write(&results, &SizeBins::default()).unwrap_err();
        assert_eq!(names(directory.path()), names(written(&sample()).path()));
        let rows = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap().lines().count();
        assert_eq!(rows("flows.csv"), results.flows.len() + 1);
        assert_eq!(rows("link_samples.csv"), results.link_samples.len() + 1);
        let FileError::Unsound { cause, .. } = &error else { panic!("{error}") };
        let text = fs::read_to_string(directory.path().join(RESULT)).unwrap();
        assert!(text.contains(&format!("\n  \"unsound\": \"{cause}\",\n")), "{text}");
        let read = Results::read(directory.path()).unwrap_err();
        assert_eq!(message(&read, directory.path()), message(&error, directory.path()));
        assert!(!Results::is_complete(directory.path()).unwrap());
        // Sound results in their place have no such mark.
        ResultsDirectory::prepare(directory.path(), true).unwrap().write(&sample(), &SizeBins::default()).unwrap();
        assert_eq!(Results::read(directory.path()).unwrap(), sample());
        let message = message(&error, directory.path());
        message.strip_prefix("the results in `DIR` are complete, but not sound: ").expect("the beginning").to_owned()
    };
    insta::assert_snapshot!(unsound(|results| results.hosts[1] = "h1".to_owned()), @"two hosts are called `h1`");
    let links = unsound(|results| results.links[1].name = results.links[0].name.clone());
    insta::assert_snapshot!(links, @"two links are called `h1->s1`");
    let group = unsound(|results| results.flows[3].group = 2);
    insta::assert_snapshot!(group, @"flow 3 refers to group 2, but there are 2");
    assert!(unsound(|results| results.flows[3].to = MachineId(9)).starts_with("flow 3 refers to host 9, but"));
    let coflow = unsound(|results| results.flows[0].coflow = Some(Coflow { id: 0, flows: 0 }));
    insta::assert_snapshot!(coflow, @"flow 0 is one too many in a coflow of group `web`");
    let coflow = unsound(|results| results.flows[5].coflow = Some(Coflow { id: 0, flows: 2 }));
    insta::assert_snapshot!(coflow, @"flow 6 is one too many in a coflow of group `bulk`");
    let coflow = unsound(|results| results.flows[5].coflow = Some(Coflow { id: 0, flows: 3 }));
    insta::assert_snapshot!(coflow, @"flow 5 has another number of flows of its coflow than a flow before, in group \
        `bulk`");
    insta::assert_snapshot!(
        unsound(|results| results.flows[3].finished = Some(SimTime::ZERO)),
        @"flow 3 finished before it started"
    );
    insta::assert_snapshot!(unsound(|results| results.link_samples[0].link = 9), @"a sample at 0.001000000000 s refers \
        to link 9, but there are 3");
    assert!(unsound(|results| results.group_samples[0].group = 9).contains(" refers to group 9, but there are 2"));
    assert!(unsound(|results| results.meter_samples[0].service = 9).contains(" refers to service 9, but there are 2"));
}

#[test]
fn unreadable_files_are_refused_with_positions() {
    let spoil = |name: &str, from: &str, to: &str| {
        let directory = written(&sample());
        let path = directory.path().join(name);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from} in {text}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        message(&Results::read(directory.path()).unwrap_err(), directory.path())
    };
    insta::assert_snapshot!(spoil("result.json", "\"format\": 5", "\"format\": 3"));
    insta::assert_snapshot!(spoil("result.json", "\"seed\": 7", "\"seed\": -7"));
    insta::assert_snapshot!(spoil("result.json", "\"complete\": true,", ""));
    insta::assert_snapshot!(spoil("flows.csv", "ideal_ps", "ideal"));
    insta::assert_snapshot!(spoil("flows.csv", "2,web", "2,mail"));
    insta::assert_snapshot!(spoil("flows.csv", "60000", "sixty"));
    let coflow = spoil("flows.csv", "bulk,0,2,", "bulk,0,,");
    insta::assert_snapshot!(coflow, @"`DIR/flows.csv`, line 6: a coflow without its number of flows, or the reverse");
    insta::assert_snapshot!(spoil("links.csv", "10000000000", "-1"));
    insta::assert_snapshot!(spoil("links.csv", "h2->s1", "h1->s1"));
    insta::assert_snapshot!(spoil("group_samples.csv", ",2,2,", ",2,"));
    let nothing = directory();
    insta::assert_snapshot!(message(&Results::read(nothing.path()).unwrap_err(), nothing.path()));
    assert!(!Results::is_complete(&nothing.path().join("nowhere")).unwrap());
}

fn link() -> impl Strategy<Value = LinkRecord> {
    let count = prop::array::uniform4(any::<u64>());
    (any::<u64>(), any::<[u64; 5]>(), prop::array::uniform8(count)).prop_map(
        |(rate, [bytes, packets, dropped, marked, queue_peak], classes)| LinkRecord {
            name: String::new(),
            rate: Bandwidth::from_bps(rate),
            bytes,
            packets,
            dropped,
            marked,
            classes: classes.map(|[bytes, packets, dropped, marked]| ClassCount { bytes, packets, dropped, marked }),
            queue_peak,
        },
    )
}

fn flow(hosts: u32, groups: u32) -> impl Strategy<Value = FlowRecord> {
    let times = (any::<u64>(), prop::option::of(any::<u64>()), any::<u64>(), prop::option::of(any::<u64>()));
    (any::<[u64; 3]>(), 0..groups, [0..hosts, 0..hosts], times, any::<[u32; 2]>()).prop_map(
        |([id, bytes, delivered], group, [from, to], (start, took, ideal, deadline), [retransmissions, timeouts])| {
            FlowRecord {
                group,
                bytes,
                delivered,
                start: SimTime::from_picos(start),
                finished: took.map(|took| SimTime::from_picos(start.saturating_add(took))),
                ideal: SimTime::from_picos(ideal),
                deadline: deadline.map(SimTime::from_picos),
                retransmissions,
                timeouts,
                ..FlowRecord::new(id, MachineId(from), MachineId(to))
            }
        },
    )
}

fn link_sample(links: u32) -> impl Strategy<Value = LinkSample> {
    (any::<u64>(), 0..links, any::<[u64; 6]>()).prop_map(
        |(at, link, [bytes, capacity, queue, queue_peak, dropped, marked])| LinkSample {
            at: SimTime::from_picos(at),
            link,
            bytes,
            capacity,
            queue,
            queue_peak,
            dropped,
            marked,
        },
    )
}

fn group_sample(groups: u32) -> impl Strategy<Value = GroupSample> {
    (any::<u64>(), 0..groups, any::<u64>(), any::<[u32; 2]>(), any::<u128>()).prop_map(
        |(at, group, delivered, [active, flows], squares)| GroupSample {
            at: SimTime::from_picos(at),
            group,
            delivered,
            active,
            flows,
            squares,
        },
    )
}

/// Results with any names and numbers, as long as they are sound.
fn meter_sample(hosts: u32, services: u32) -> impl Strategy<Value = MeterSample> {
    let rate = || prop::option::of(any::<u64>().prop_map(Bandwidth::from_bps));
    (any::<u64>(), 0..hosts, 0..services, any::<[u64; 2]>(), rate(), rate(), rate()).prop_map(
        |(at, host, service, [sent, received], limit, capacity, rate)| MeterSample {
            at: SimTime::from_picos(at),
            host: MachineId(host),
            service,
            sent,
            limit,
            received,
            capacity,
            rate,
        },
    )
}

pub(crate) fn results() -> impl Strategy<Value = Results> {
    let names = || {
        prop::collection::btree_set("[ -~\n\"é]{0,8}", 1..4)
            .prop_map(|names| names.into_iter().collect::<Vec<String>>())
    };
    let whole = (".*", any::<u64>(), any::<bool>(), any::<u64>(), prop::option::of(any::<u64>()));
    (names(), names(), names(), names(), whole).prop_flat_map(
        |(hosts, groups, links, services, (scenario, seed, complete, simulated, interval))| {
            let (h, g, l) = (hosts.len() as u32, groups.len() as u32, links.len() as u32);
            let s = services.len() as u32;
            (
                prop::collection::vec(flow(h, g), 0..5),
                prop::collection::vec(link(), links.len()),
                prop::collection::vec(link_sample(l), 0..5),
                prop::collection::vec(group_sample(g), 0..5),
                prop::option::of(prop::collection::vec(meter_sample(h, s), 0..5)),
                prop::collection::btree_map(".*", any::<u64>(), 0..3),
                prop::collection::btree_map(".*", ".*", 0..3),
            )
                .prop_map(
                    move |(mut flows, mut records, link_samples, group_samples, meters, counters, parameters)| {
                        for (flow, number) in flows.iter_mut().zip(0u64..) {
                            let of_group = groups[flow.group as usize].len().is_multiple_of(2);
                            flow.coflow = of_group.then_some(Coflow { id: number / 2, flows: 2 + number / 2 % 3 });
                        }
                        for (record, name) in records.iter_mut().zip(&links) {
                            record.name.clone_from(name);
                        }
                        let group = |name: &String| Group { name: name.clone(), transport: name.to_uppercase() };
                        Results {
                            scenario: scenario.clone(),
                            seed,
                            complete,
                            simulated: SimTime::from_picos(simulated),
                            parameters,
                            counters,
                            hosts: hosts.clone(),
                            groups: groups.iter().map(group).collect(),
                            flows,
                            links: records,
                            sample_interval: interval.map(SimTime::from_picos),
                            link_samples,
                            group_samples,
                            services: if meters.is_some() { services.clone() } else { Vec::new() },
                            meter_samples: meters.unwrap_or_default(),
                            ..Results::default()
                        }
                    },
                )
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn written_results_read_back(results in results()) {
        let directory = written(&results);
        prop_assert_eq!(Results::read(directory.path()).unwrap(), results);
    }
}
