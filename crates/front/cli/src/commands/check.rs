//! `weir check`: whether a policy is valid, its guarantees fit, and agents and forwarders can enforce it.

mod enforceable;

use crate::error::{CommandError, Exit};
use crate::output::{Style, Table, Ui};
use crate::tenants;
use crate::{credits, input, levels, mechanisms, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use weir_answers::tenants::routes::{self, TenantRoute};
use weir_answers::tenants::{Order, admit, paths_name, spread_cost};
use weir_answers::{Places, ReadPolicy};
use weir_document::{Diagnostic, Diagnostics};
use weir_latency::levels::Admitted;
use weir_placement::Strategy;
use weir_policy::{Policy, TenantPaths};
use weir_report::json;
use weir_runs::shaper_remarks;
use weir_units::{Bandwidth, ContentionPoint, Direction};

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir check policy.yaml
  weir check policy.yaml --placed /var/lib/weir/placement.json
  weir check policy.yaml --interface eth0
  weir check --json - < policy.yaml | jq '.diagnostics[] | \"\\(.line): \\(.cause)\"'

With --json: {\"valid\": true or false, \"errors\": how many, \"diagnostics\": [{\"severity\",
\"file\", \"line\", \"column\", \"cause\", \"hint\", \"fix\": only where the hint suggests one text,
{\"line\", \"column\", \"length\", \"text\"}}], and for a valid policy \"racks\", \"machines\",
\"services\" (how many) and \"guarantees\": [{\"point\", \"places\": [name], \"direction\",
\"capacity_bps\", \"guaranteed_bps\", \"left_bps\"}]}. Errors have the severity `error`, remarks `note`.

\"mechanisms\": [{\"service\", \"mechanism\": \"shares\", \"level\", \"tenant-queues\" or \"credits\", \"needs\"
(of switches), \"offered\": true, false or null where the policy states no queues}] has every
service and tenant.

A policy with latency levels has \"levels\" too: {\"packet_bytes\", \"framing_bytes\", \"load\",
\"reserved\" (the part of every port that guarantees are not of), \"epoch\", \"epoch_ns\", \"slowest_bps\",
\"segments\", \"chosen\", \"levels\": [{\"level\", \"senders\", \"factor\", \"burst_bytes\", \"rate_bps\", \"dscp\",
\"worst_ns\", \"backlog_bytes\", \"unbounded\": why}], \"ports\": [{\"port\", \"alike\", \"kind\", \"rate_bps\",
\"buffer_bytes\", \"levels\": [{\"delay_ns\", \"backlog_bytes\"}]}], \"services\": [{\"service\", \"level\",
\"message_bytes\", \"round_trip\", \"needed_bps\", \"wait_ns\", \"worst_ns\", \"target_ns\", \"verdict\"}],
\"unlimited\": [service]}.

A policy with credits has \"credits\" too: {\"lossless\", \"reasons\" (why not), \"forwarders\", \"share\"
(of what levels leave of every port), \"period_max_us\", \"queue\" of switches: null or {\"scheduler\",
\"weight\", \"others_weight\", \"dscp\", \"messages_dscp\"}, \"services\": [{\"service\", \"weight\"}],
\"ports\": [{\"port\", \"alike\", \"kind\", \"rate_bps\", \"granted_bps\", \"buffer_bytes\", \"needed_bytes\",
\"flows\"}]}.

A policy with tenants is checked with their places: those of --placed FILE, and for all others
those that `weir place` would find. One table shows the division of links: services first, tenants
reserve the rest; a second the queues of ports. Tenants that no tree of the network can have are
refused. The search for places is a heuristic: a tenant that it does not place is noted, with the
resource that ran out, and with another order or search that places all tenants, if there is one.
With --json it has \"tenants\" too: {\"places\": file or null, \"placed\", \"rejected\": [{\"tenant\",
\"reason\"}], \"paths\", \"switches_without_routes\", \"links\": [{\"link\", \"kind\", \"rate_bps\",
\"levels_bps\", \"credits_bps\", \"services_bps\", \"not_usable_bps\", \"for_tenants_bps\", \"reserved_bps\",
\"left_bps\", \"tenants\"}], \"queues\": [{\"at\", \"ports\", \"queues\", \"control\", \"levels\", \"strict_left\",
\"shared\", \"credits\", \"tenants\", \"most_tenants\", \"queues_left\", \"ports_with_more_tenants\"}]}.
Reservations are the same in both directions of a link.

A policy that agents or forwarders refuse is refused here too, by the same rules: at most 1024
services and tenants, 4096 filters of an interface, 256 that a packet is compared with, 64 globs
over control groups. Filters by interface are tried on the names that the policy states, or with
--interface on that one; then a remark lists the globs that hold there for packets of guests only.
--for-planning makes these refusals remarks.

Exit code 0: valid, perhaps with notes. 2: refused.")]
pub(crate) struct Args {
    /// The policy file; `-` is standard input
    policy: PathBuf,
    /// Check the tenants of this placement where they are
    #[arg(long, value_name = "FILE")]
    placed: Option<PathBuf>,
    /// Check for an agent on this interface
    #[arg(long, value_name = "NAME", value_parser = enforceable::interface_name)]
    interface: Option<String>,
    /// Check for `weir plan`, `allocate` and `place` alone: what agents and forwarders refuse is a remark
    #[arg(long)]
    for_planning: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let read = input::admitted_policy(&args.policy)?;
    let checked = match read {
        Ok(ReadPolicy { policy, notes, admitted }) => CheckedPolicy::new(args, policy, notes, admitted, ui)?,
        Err(refused) => Err(refused),
    };
    match (checked, args.json) {
        (Ok(checked), true) => {
            json::write(ui.out(), &checked.to_json())?;
            Ok(Exit::Done)
        }
        (Ok(checked), false) => {
            checked.print(args, ui)?;
            Ok(Exit::Done)
        }
        (Err(refused), true) => {
            json::write(ui.out(), &refused_json(&refused))?;
            Ok(Exit::Refused)
        }
        (Err(refused), false) => Err(refused.into()),
    }
}

/// A valid policy.
struct CheckedPolicy {
    policy: Policy,
    notes: Vec<Diagnostic>,
    levels: Option<Admitted>,
    /// The tenants with their places and routes, if there are any.
    tenants: Option<(Places, Vec<TenantRoute>)>,
}

impl CheckedPolicy {
    /// Adds remarks, and checks tenants. The outer error is that of a placement's file.
    fn new(
        args: &Args,
        policy: Policy,
        mut notes: Vec<Diagnostic>,
        levels: Option<Admitted>,
        ui: &mut Ui,
    ) -> Result<Result<Self, Diagnostics>, CommandError> {
        notes.extend(shaper_remarks::of_policy(&policy));
        if let Some(obstacle) = enforceable::obstacle(&policy, args.interface.as_deref()) {
            if !args.for_planning {
                return Ok(Err(obstacle.error(&policy)));
            }
            notes.push(obstacle.note(&policy));
        }
        if let Some(name) = &args.interface {
            notes.extend(enforceable::guest_remark(&policy, name));
        }
        if policy.tenants().is_empty() {
            if args.placed.is_some() {
                let hint = "leave --placed out";
                return Err(CommandError::refused("the policy has no tenants that could be placed").hint(hint));
            }
            return Ok(Ok(Self { policy, notes, levels, tenants: None }));
        }
        // Levels that the planner numbers reserve their part of links too.
        let numbered = levels.as_ref().map_or(&policy, |admitted| &admitted.policy);
        if let Err(refused) = admit::network(numbered) {
            return Ok(Err(refused));
        }
        let mut places = Places::new(numbered, Strategy::default());
        if let Some(path) = &args.placed {
            notes.extend(places.adopt(path, numbered)?);
        }
        tenants::watched(None, ui, |on_arrival| places.arrive(numbered, Order::default(), on_arrival));
        match admit::tenants(numbered, &places) {
            Ok(remarks) => notes.extend(remarks),
            Err(refused) => return Ok(Err(refused)),
        }
        let found = routes::of(&places, numbered);
        notes.extend(route_remark(numbered, &found));
        Ok(Ok(Self { policy, notes, levels, tenants: Some((places, found)) }))
    }

    /// The policy with numbered levels.
    fn numbered(&self) -> &Policy {
        self.levels.as_ref().map_or(&self.policy, |admitted| &admitted.policy)
    }

    fn to_json(&self) -> Value {
        let mut value = valid_json(&self.policy, &self.notes);
        value["mechanisms"] = weir_answers::mechanisms::to_json(self.numbered());
        if let Some(admitted) = &self.levels {
            value["levels"] = weir_answers::levels::to_json(admitted);
        }
        if let Some(credits) = weir_answers::credits::to_json(self.numbered()) {
            value["credits"] = credits;
        }
        if let Some((places, found)) = &self.tenants {
            let rejected = places.rejected.iter().map(|own| json!({ "tenant": own.name, "reason": own.reason() }));
            value["tenants"] = json!({
                "places": places.file_name(),
                "placed": places.placer.placed().len(),
                "rejected": rejected.collect::<Value>(),
                "paths": paths_name(&self.policy),
                "switches_without_routes": routes::switches(found),
                "links": weir_answers::tenants::links::to_json(places),
                "queues": weir_answers::tenants::queues::to_json(places, self.numbered()),
            });
        }
        value
    }

    fn print(&self, args: &Args, ui: &mut Ui) -> Result<(), CommandError> {
        print_valid(args, &self.policy, self.levels.as_ref(), ui)?;
        credits::print(self.numbered(), ui)?;
        mechanisms::print(self.numbered(), ui)?;
        if let Some((places, _)) = &self.tenants {
            let placed = places.placer.placed().len();
            ui.print(&format!(
                "\nlinks, each direction: levels and services first, tenants reserve the rest\n{placed} of {}, {}\n",
                text::count(self.policy.tenants().len(), "tenant"),
                places.origin()
            ))?;
            tenants::links::print(places, ui)?;
            if self.policy.tenant_queues().paths == TenantPaths::Spread {
                ui.print(&text::wrapped(&spread_cost(places), 2))?;
            }
            ui.print(
                "\nqueues of each port: levels and credits take strict queues, tenants weighted ones, one is shared\n",
            )?;
            tenants::queues::print(places, self.numbered(), ui)?;
        }
        for note in &self.notes {
            ui.print(&format!("\n{}", note.render(ui.out_is_coloured())))?;
        }
        Ok(())
    }
}

/// A remark on reservations that hold only with routes that nothing configures.
fn route_remark(policy: &Policy, found: &[TenantRoute]) -> Option<Diagnostic> {
    let first = found.first().filter(|_| policy.tenant_queues().paths == TenantPaths::Unstated)?;
    let cause = format!(
        "the network has several paths, and its switches spread the packets of tenants such as `{}` over them: \
         reservations hold in the simulator only, until the routes of tenants along their trees are configured at {}",
        first.tenant,
        routes::switches_text(found)
    );
    let hint = "`weir place` lists the routes: configure them and write `tenant-queues: { paths: routed }`, or write \
                `paths: spread`, which needs none and reserves in full on each of the equal uplinks";
    Some(policy.note(&["tenants"], &cause, hint))
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
        "services": policy.services().leaves().count() - policy.tenants().len(),
        "guarantees": guarantees.collect::<Value>(),
    })
}

fn print_valid(args: &Args, policy: &Policy, admitted: Option<&Admitted>, ui: &mut Ui) -> Result<(), CommandError> {
    let (network, services) = (policy.network(), policy.services());
    let found = [
        text::count(network.racks().len(), "rack"),
        text::count(network.machines().len(), "machine"),
        // Each tenant has a service of its own.
        text::count(services.leaves().count() - policy.tenants().len(), "service"),
    ];
    let mut found = found.to_vec();
    if !policy.tenants().is_empty() {
        found.push(text::count(policy.tenants().len(), "tenant"));
    }
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
        for (name, capacities) in places(policy, point) {
            let capacities = capacities.map(|capacity| policy.beside_levels_and_credits(capacity));
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
