//! Tables of a workload: lists of flows, and distributions of their sizes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Read;
use weir_units::SimTime;
use weir_workload::{FlowList, Framing, SizeDistribution, Spec, TableError, Workload};

/// Hosts that a list may name: as many as those of the published list.
const HOSTS: u32 = 144;
/// Bytes of a packet in that list.
const PAYLOAD: u32 = 1460;
/// The largest difference of float sums that are equal in exact arithmetic: steps of 2^−64 and
/// sizes up to 2^64 leave some ten of the 53 bits.
const ROUNDING: f64 = 1e-3;

/// Gives one byte at a time, as a slow pipe does.
struct Drops<'a>(&'a [u8]);

impl Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = buffer.len().min(1);
        self.0.read(&mut buffer[..count])
    }
}

/// Reads `data` as a list of flows. A refusal has its lines in the text. A list gives every flow
/// once, in the order of starts, between two hosts, and is the same when written and read again.
/// Returns whether it is accepted.
///
/// # Panics
/// If any of that does not hold: a finding.
pub fn flow_list(data: &[u8]) -> bool {
    let read = FlowList::read(data, PAYLOAD, FlowList::numbered(HOSTS));
    let slowly = FlowList::read(Drops(data), PAYLOAD, FlowList::numbered(HOSTS));
    assert!(read == slowly, "it matters how the bytes come: {read:?} and {slowly:?}");
    let list = match read {
        Ok(list) => list,
        Err(error) => return refused(&error, data),
    };
    let mut workload = Workload::new(&Spec::List(list.clone()), 1);
    let mut text = "id,start_s,src,dst,bytes,coflow\n".to_owned();
    let mut coflows: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let (mut flows, mut last) = (0, SimTime::ZERO);
    while let Some(at) = workload.next() {
        let flow = workload.poll(at).expect("a flow at the time that was named");
        assert!(flow.at == at && at >= last, "flows are not in the order of their starts");
        assert!(flow.from != flow.to && flow.from.0.max(flow.to.0) < HOSTS && flow.bytes > 0);
        last = at;
        flows += 1;
        let (seconds, picos) = (at.picos() / 1_000_000_000_000, at.picos() % 1_000_000_000_000);
        let coflow = workload.coflow(flow.tag);
        if let Some(coflow) = coflow {
            let (all, started) = coflows.entry(coflow.id).or_insert((coflow.flows, 0));
            *started += 1;
            assert!(*all == coflow.flows, "flows of one coflow differ in their number");
        }
        let coflow = coflow.map_or(String::new(), |coflow| coflow.id.to_string());
        writeln!(text, "{},{seconds}.{picos:012},{},{},{},{coflow}", flow.tag, flow.from.0, flow.to.0, flow.bytes)
            .expect("a text takes every text");
    }
    assert!(coflows.values().all(|(all, started)| all == started), "a coflow without some of its flows: {coflows:?}");
    assert!(flows == list.len() && flows > 0 && last == list.last_start());
    match FlowList::read(text.as_bytes(), 1, FlowList::numbered(HOSTS)) {
        Ok(again) => assert!(again == list, "another list when read again:\n{text}"),
        Err(error) => panic!("refused when read again: {error}\n{text}"),
    }
    true
}

/// Reads `data` as a distribution of flow sizes. A refusal has its lines in the text. Of a
/// distribution the sizes are one byte or more and rise with the fraction, and the mean lies
/// between the smallest and the largest. Returns whether it is accepted.
///
/// # Panics
/// If any of that does not hold: a finding.
pub fn sizes(data: &[u8]) -> bool {
    let read = SizeDistribution::read(data);
    assert!(read == SizeDistribution::read(Drops(data)), "it matters how the bytes come");
    let sizes = match read {
        Ok(sizes) => sizes,
        Err(error) => return refused(&error, data),
    };
    let (smallest, largest) = (sizes.quantile(0), sizes.quantile(u64::MAX));
    let mut last = smallest;
    for eighth in 1..8 {
        let size = sizes.quantile(eighth << 61);
        assert!(size >= last, "a larger fraction has a smaller size");
        last = size;
    }
    assert!(smallest > 0 && last <= largest && largest <= sizes.largest() && sizes.largest() < u64::MAX);
    let (mean, least, most) = (sizes.mean(), smallest as f64, sizes.largest() as f64);
    assert!(mean >= least * (1.0 - ROUNDING) && mean <= most * (1.0 + ROUNDING), "{least} to {most}, mean {mean}");
    assert!(sizes.mean_square() >= mean * mean * (1.0 - ROUNDING));
    assert!((sizes.share_up_to(sizes.largest()) - 1.0).abs() < ROUNDING && sizes.share_up_to(0) == 0.0);
    assert!(sizes.share_of_bytes_above(sizes.largest()).abs() < ROUNDING);
    let framing = Framing::new(PAYLOAD, 40).expect("a payload");
    let (packets, wire) = (sizes.mean_packets(framing), sizes.mean_wire_bytes(framing));
    assert!(packets >= (mean / f64::from(PAYLOAD)) * (1.0 - ROUNDING) && packets >= 1.0 - ROUNDING);
    assert!((wire - mean - 40.0 * packets).abs() <= wire * ROUNDING, "{wire} for {mean} in {packets} packets");
    true
}

/// Checks the report of a refused table. Returns `false`: not accepted.
fn refused(error: &TableError, data: &[u8]) -> bool {
    assert!(!error.rows.is_empty(), "refused without a cause");
    let lines = data.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    assert!(error.rows.windows(2).all(|pair| pair[0].line <= pair[1].line), "not in reading order: {error}");
    for row in &error.rows {
        assert!(row.line.is_none_or(|line| (1..=lines).contains(&line)), "of {lines} lines: {error}");
        for words in [&row.cause, &row.hint] {
            assert!(!words.trim().is_empty(), "neither a cause nor a hint is empty");
            assert!(!words.contains(char::is_control), "a control character in {words:?}");
        }
    }
    false
}
