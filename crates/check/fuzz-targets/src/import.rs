//! Tables of sizes and lists of flows in the formats of other programs.

use std::sync::Arc;
use weir_document::{Diagnostics, Source};
use weir_units::Duration;
use weir_workload::import::{FlowFormat, FlowOptions, FlowTable, SizeFormat, SizeTable, SizeUnit, StartUnit};
use weir_workload::{FlowList, SizeDistribution};

/// Bytes of a packet in tables that count packets.
const PAYLOAD: u32 = 1460;

/// Reads `data` in each format of sizes. A refusal has its positions in the text. An accepted table is one of Weir, and
/// has no size above those of the file. Returns whether a format accepts it.
///
/// # Panics
/// If any of that does not hold: a finding.
pub fn imported_sizes(data: &[u8]) -> bool {
    let Ok(source) = Source::from_bytes("sizes.txt", data.to_vec(), u64::MAX) else { return false };
    let formats = [
        (SizeFormat::HpccCdf, None),
        (SizeFormat::HkustCdf, None),
        (SizeFormat::Homa, Some(SizeUnit::Bytes)),
        (SizeFormat::Homa, Some(SizeUnit::Packets(PAYLOAD))),
    ];
    let read = formats.map(|(format, unit)| match SizeTable::read(&source, format, unit) {
        Ok((table, _)) => {
            let text = table.to_csv();
            let sizes = SizeDistribution::read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert!(sizes == table.distribution() && sizes.quantile(0) > 0, "{text}");
            let last = source.text().split_ascii_whitespace().rev().nth(1).and_then(|size| size.parse::<u64>().ok());
            let factor = if matches!(unit, Some(SizeUnit::Packets(_))) { u64::from(PAYLOAD) } else { 1 };
            // The last row may have no flows of its own.
            assert!(last.is_none_or(|last| sizes.largest() <= last * factor), "{text}");
            true
        }
        Err(errors) => refused(&errors, &source),
    });
    read.contains(&true)
}

/// Reads `data` in each format of lists. A refusal has its positions in the text. An accepted list is one of Weir, with
/// as many flows and bytes, and an origin moves all of its starts. Returns whether a format accepts it.
///
/// # Panics
/// If any of that does not hold: a finding.
pub fn imported_flows(data: &[u8]) -> bool {
    let Ok(source) = Source::from_bytes("flows.txt", data.to_vec(), u64::MAX) else { return false };
    let formats = [(FlowFormat::Ns3Hpcc, StartUnit::Seconds), (FlowFormat::HtsimCm, StartUnit::Picos)];
    let read = formats.map(|(format, unit)| {
        let mut options = FlowOptions { start_unit: Some(unit), ..FlowOptions::default() };
        let table = match FlowTable::read(&source, format, &options) {
            Ok((table, _)) => table,
            Err(errors) => return refused(&errors, &source),
        };
        let list = list(&table);
        assert!((list.len(), list.bytes(), list.last_start()) == (table.len(), table.bytes(), table.starts().1));
        let (first, _) = table.starts();
        options.origin = Duration::from_nanos(first.picos() / 1_000);
        let moved = FlowTable::read(&source, format, &options).map(|(table, _)| table);
        let moved = moved.unwrap_or_else(|errors| panic!("refused with an origin before all starts: {errors}"));
        assert!(moved.starts().0.picos() == first.picos() % 1_000 && moved.bytes() == table.bytes());
        true
    });
    read.contains(&true)
}

fn list(table: &FlowTable) -> FlowList {
    let text = table.to_csv();
    FlowList::read(text.as_bytes(), 1, FlowList::numbered(u32::MAX)).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Checks the report of a refused file. Returns `false`: not accepted.
fn refused(errors: &Diagnostics, source: &Arc<Source>) -> bool {
    assert!(errors.count() > 0 && !errors.all().is_empty(), "refused without a cause");
    for error in errors.all() {
        assert!(error.span().end as usize <= source.text().len(), "outside of the text: {}", error.cause());
        for words in [error.cause(), error.hint()] {
            assert!(!words.trim().is_empty(), "neither a cause nor a hint is empty");
            assert!(!words.contains(char::is_control), "a control character in {words:?}");
        }
    }
    false
}
