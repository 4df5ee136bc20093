//! `weir check`: whether a policy is valid and its guarantees fit.

use crate::error::{CommandError, Exit};
use crate::output::{Style, Table, Ui};
use crate::{input, levels, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use weir_datapath::Classifier;
use weir_document::{Diagnostic, Diagnostics};
use weir_latency::levels::Admitted;
use weir_policy::{Policy, beside_levels};
use weir_report::json;
use weir_runs::shaper_remarks;
use weir_units::{Bandwidth, ContentionPoint, Direction};

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir check policy.yaml
  weir check --json - < policy.yaml | jq '.diagnostics[] | \"\\(.line): \\(.cause)\"'

With --json: {\"valid\": true or false, \"errors\": how many, \"diagnostics\": [{\"severity\",
\"file\", \"line\", \"column\", \"cause\", \"hint\"}], and for a valid policy \"racks\", \"machines\",
\"services\" (how many) and \"guarantees\": [{\"point\", \"places\": [name], \"direction\",
\"capacity_bps\", \"guaranteed_bps\", \"left_bps\"}]}. Errors have the severity `error`, remarks `note`.

A policy with latency levels has \"levels\" too: {\"packet_bytes\", \"framing_bytes\", \"load\",
\"reserved\" (the part of every port that guarantees are not of), \"epoch\", \"epoch_ns\", \"slowest_bps\",
\"segments\", \"chosen\", \"levels\": [{\"level\", \"senders\", \"factor\", \"burst_bytes\", \"rate_bps\", \"dscp\",
\"worst_ns\", \"backlog_bytes\", \"unbounded\": why}], \"ports\": [{\"port\", \"alike\", \"kind\", \"rate_bps\",
\"buffer_bytes\", \"levels\": [{\"delay_ns\", \"backlog_bytes\"}]}], \"services\": [{\"service\", \"level\",
\"message_bytes\", \"round_trip\", \"needed_bps\", \"wait_ns\", \"worst_ns\", \"target_ns\", \"verdict\"}],
\"unlimited\": [service]}.

Exit code 0: valid, perhaps with notes. 2: refused.")]
pub(crate) struct Args {
    /// The policy file; `-` is standard input
    policy: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let read = input::admitted_policy(&args.policy)?.map(|(policy, mut notes, levels)| {
        notes.extend(shaper_remarks::of_policy(&policy));
        notes.extend(filter_remark(&policy));
        (policy, notes, levels)
    });
    match (read, args.json) {
        (Ok((policy, notes, admitted)), true) => {
            let mut value = valid_json(&policy, &notes);
            if let Some(admitted) = &admitted {
                value["levels"] = levels::json::to_json(admitted);
            }
            json::write(ui.out(), &value)?;
            Ok(Exit::Done)
        }
        (Ok((policy, notes, admitted)), false) => {
            print_valid(args, &policy, &notes, admitted.as_ref(), ui)?;
            Ok(Exit::Done)
        }
        (Err(refused), true) => {
            json::write(ui.out(), &refused_json(&refused))?;
            Ok(Exit::Refused)
        }
        (Err(refused), false) => Err(refused.into()),
    }
}

/// A remark on filters that agents refuse on an interface whose name no glob matches. The policy may still be one for
/// planning.
fn filter_remark(policy: &Policy) -> Option<Diagnostic> {
    let services = policy.services();
    let error = Classifier::new(services.classification_order(), Some("")).err()?;
    let path = error.service().map_or("", |service| services.get(service).path());
    let keys: Vec<&str> = path.split('/').flat_map(|name| ["services", name]).chain(["match"]).collect();
    Some(policy.note(&keys, &format!("no agent enforces these filters: {error}"), error.hint()))
}

/// The output of `--json` for a refused document.
pub(super) fn refused_json(refused: &Diagnostics) -> Value {
    json!({"valid": false, "errors": refused.count(), "diagnostics": refused.to_json()})
}

fn valid_json(policy: &Policy, notes: &[Diagnostic]) -> Value {
    let guarantees = guarantees(policy).into_iter().map(|row| {
        json!({
            "point": row.point.name(),
            "places": row.places,
            "direction": row.direction.name(),
            "capacity_bps": text::bps(row.capacity),
            "guaranteed_bps": text::bps(row.guaranteed),
            "left_bps": text::bps(row.capacity.saturating_sub(row.guaranteed)),
        })
    });
    json!({
        "valid": true,
        "errors": 0,
        "diagnostics": notes.iter().map(Diagnostic::to_json).collect::<Value>(),
        "racks": policy.network().racks().len(),
        "machines": policy.network().machines().len(),
        "services": policy.services().leaves().count(),
        "guarantees": guarantees.collect::<Value>(),
    })
}

fn print_valid(
    args: &Args,
    policy: &Policy,
    notes: &[Diagnostic],
    admitted: Option<&Admitted>,
    ui: &mut Ui,
) -> Result<(), CommandError> {
    let (network, services) = (policy.network(), policy.services());
    let found = [
        text::count(network.racks().len(), "rack"),
        text::count(network.machines().len(), "machine"),
        text::count(services.leaves().count(), "service"),
    ];
    let valid = ui.on_out(Style::Good, "valid");
    ui.print(&format!("{}: {valid}, {}\n\n", args.policy.display(), found.join(", ")))?;

    let mut table = Table::new(&["where", "places", "direction", ">capacity", ">guaranteed", ">left to share"]);
    let rows = guarantees(policy);
    let mut rows = rows.iter().peekable();
    while let Some(row) = rows.next() {
        // Most networks are the same in both directions: one line shows both.
        let same = rows.next_if(|next| next.same_but_direction(row)).is_some();
        let direction = if same { "tx, rx" } else { row.direction.name() };
        let places = text::list(&row.places, 3);
        let left = row.capacity.saturating_sub(row.guaranteed);
        table.row([
            row.point.name(),
            if row.point == ContentionPoint::Fabric { "" } else { &places },
            direction,
            &text::rate(row.capacity),
            &text::rate(row.guaranteed),
            &text::rate(left),
        ]);
    }
    ui.print_table(&table, 2)?;
    if let Some(admitted) = admitted {
        levels::print::print(admitted, ui)?;
    }
    for note in notes {
        ui.print(&format!("\n{}", note.render(ui.out_is_coloured())))?;
    }
    Ok(())
}

/// Guarantees against the capacity, for equal points.
struct Guarantees<'a> {
    point: ContentionPoint,
    places: Vec<&'a str>,
    direction: Direction,
    capacity: Bandwidth,
    guaranteed: Bandwidth,
}

impl Guarantees<'_> {
    fn same_but_direction(&self, other: &Self) -> bool {
        (self.point, &self.places, self.capacity, self.guaranteed)
            == (other.point, &other.places, other.capacity, other.guaranteed)
    }
}

/// By contention point, then points with equal capacities, then direction.
fn guarantees(policy: &Policy) -> Vec<Guarantees<'_>> {
    let mut rows = Vec::new();
    for point in ContentionPoint::ALL {
        // In the order of the policy's first point of each kind.
        let mut groups: Vec<([Bandwidth; 2], Vec<&str>)> = Vec::new();
        let mut known: BTreeMap<[Bandwidth; 2], usize> = BTreeMap::new();
        let reserved = policy.levels().and_then(|levels| levels.reserved());
        for (name, capacities) in places(policy, point) {
            let capacities = capacities.map(|capacity| beside_levels(capacity, reserved));
            let group = *known.entry(capacities).or_insert_with(|| {
                groups.push((capacities, Vec::new()));
                groups.len() - 1
            });
            groups[group].1.push(name);
        }
        for (capacities, places) in groups {
            for (direction, capacity) in Direction::ALL.into_iter().zip(capacities) {
                let guaranteed = policy.guaranteed(point, direction);
                rows.push(Guarantees { point, places: places.clone(), direction, capacity, guaranteed });
            }
        }
    }
    rows
}

fn places(policy: &Policy, point: ContentionPoint) -> Vec<(&str, [Bandwidth; 2])> {
    let network = policy.network();
    let both = |capacity: &dyn Fn(Direction) -> Bandwidth| Direction::ALL.map(capacity);
    match point {
        ContentionPoint::Machine => network
            .racks()
            .iter()
            .flat_map(|rack| rack.machines())
            .map(|id| (network.machine(*id).name(), both(&|direction| policy.machine_capacity(*id, direction))))
            .collect(),
        ContentionPoint::Rack => network
            .racks()
            .iter()
            .filter_map(|rack| Some((rack.name(), network.rack_named(rack.name())?)))
            .map(|(name, id)| (name, both(&|direction| policy.rack_capacity(id, direction))))
            .collect(),
        ContentionPoint::Fabric => vec![("fabric", both(&|direction| policy.fabric_capacity(direction)))],
    }
}
