//! `weir explain POLICY TENANT`: a tenant's place and its reservations, with the reason of each.

use crate::error::{CommandError, Exit};
use crate::output::{Style, Table, Ui};
use crate::{input, tenants, text};
use serde_json::{Value, json};
use std::path::Path;
use weir_answers::Places;
use weir_answers::tenants::routes::{self, TenantRoute};
use weir_answers::tenants::{Order, admit, links};
use weir_placement::{CableId, Fit, Hose, Placer, Shortage, Strategy, SurveyLayer, TenantPlace, file};
use weir_policy::{Policy, Tenant};
use weir_report::json;
use weir_units::Bandwidth;

/// Trees of a layer that are shown.
const TREES: usize = 5;

/// A tenant with its place, and the network without it.
struct Case<'a> {
    policy: &'a Policy,
    tenant: &'a Tenant,
    /// The network of all other tenants.
    places: Places,
    placed: Option<TenantPlace>,
    rejected: Option<String>,
    /// The most free slots of a machine.
    most_free: u32,
    /// The layers that a search from now compares; none if a machine has room for all.
    survey: Vec<SurveyLayer>,
    /// The place that a search from now would choose, if it is another one.
    other: Option<Fit>,
    routes: Vec<TenantRoute>,
}

/// Explains a tenant of a policy.
pub(super) fn run(
    policy: &Policy,
    tenant: &Tenant,
    placed: Option<&Path>,
    as_json: bool,
    ui: &mut Ui,
) -> Result<Exit, CommandError> {
    let mut places = Places::new(policy, Strategy::default());
    if let Some(path) = placed {
        input::print_notes(&places.adopt(path, policy)?, ui)?;
    }
    tenants::watched(None, ui, |on_arrival| places.arrive(policy, Order::default(), on_arrival));
    let routes = routes::of(&places, policy).into_iter().filter(|route| route.tenant == tenant.name).collect();
    let rejected = places.rejected.iter().find(|own| own.name == tenant.name).map(|own| own.reason());
    let placed = places.placer.depart(&tenant.name);
    let machines = 0..policy.network().machines().len() as u32;
    let free = machines.map(|at| places.placer.ledger().free(weir_units::MachineId(at)));
    let most_free = free.max().unwrap_or(0);
    let hose = file::hose(tenant);
    let survey = if most_free < tenant.vms() { places.placer.survey(&hose) } else { Vec::new() };
    let other = placed.as_ref().and_then(|placed| other_place(&mut places.placer, &tenant.name, &hose, placed));
    let case = Case { policy, tenant, places, placed, rejected, most_free, survey, other, routes };
    if as_json {
        json::write(ui.out(), &case.to_json())?;
    } else {
        case.print(ui)?;
    }
    Ok(Exit::Done)
}

/// The place that a search from now would choose for a tenant, beside all others, if it is not the place that it has.
fn other_place(placer: &mut Placer, name: &str, hose: &Hose, placed: &TenantPlace) -> Option<Fit> {
    let now = placer.arrive(name, hose.clone()).ok()?.fit.clone();
    placer.depart(name);
    (now != placed.fit).then_some(now)
}

/// A tenant of a policy by its name.
pub(super) fn named<'a>(policy: &'a Policy, name: &str) -> Option<&'a Tenant> {
    policy.tenants().iter().find(|tenant| tenant.name == name)
}

/// Reads the policy and explains its tenant of this name; `None` if it has none.
pub(super) fn explain(args: &super::Args, ui: &mut Ui) -> Result<Option<Exit>, CommandError> {
    if args.instance.contains('/') || args.demands.is_some() {
        return Ok(None);
    }
    let (policy, notes) = input::policy(&args.policy)??;
    let Some(tenant) = named(&policy, &args.instance) else { return Ok(None) };
    admit::network(&policy)?;
    input::print_notes(&notes, ui)?;
    run(&policy, tenant, args.placed.as_deref(), args.json, ui).map(Some)
}

impl Case<'_> {
    fn print(&self, ui: &mut Ui) -> Result<(), CommandError> {
        let tenant = self.tenant;
        let groups: Vec<String> =
            tenant.groups.iter().map(|group| format!("{} × {}", group.vms, text::rate(group.bandwidth))).collect();
        let name = ui.on_out(Style::Strong, &tenant.name);
        let packets = match routes::packets(self.policy, tenant) {
            filters if filters.is_empty() => "no filter".to_owned(),
            filters => text::list(&filters, 5),
        };
        ui.print(&format!(
            "{name}: {} ({}), pays for {}; packets: {}\n{}\n",
            text::count(tenant.vms() as usize, "virtual machine"),
            groups.join(", "),
            text::rate(tenant.bandwidth()),
            packets,
            self.places.origin(),
        ))?;
        self.print_place(ui)?;
        if let Some(placed) = &self.placed {
            self.print_links(placed, ui)?;
        }
        if !self.routes.is_empty() {
            ui.print(&format!("\n{}\n", ui.on_out(Style::Strong, "3. Routes that keep its packets on these links")))?;
            tenants::routes::print(&self.routes, ui)?;
        }
        Ok(())
    }

    /// The place, and the search that finds it.
    fn print_place(&self, ui: &mut Ui) -> Result<(), CommandError> {
        let place = match (&self.placed, &self.rejected) {
            (Some(placed), _) => self.place(&placed.fit),
            (None, Some(reason)) => format!("none: {reason}"),
            (None, None) => "none".to_owned(),
        };
        ui.print(&format!("\n{}\n", ui.on_out(Style::Strong, &format!("1. Place: {place}"))))?;
        for line in self.reasons() {
            ui.print(&text::wrapped(&line, 3))?;
        }
        let Some(layer) = self.survey.last().filter(|layer| layer.feasible.len() > 1) else { return Ok(()) };
        let mut table =
            Table::new(&["cheapest trees", ">reserved on all links (c_b)", ">most tenants of a link (c_q)"]);
        for fit in layer.feasible.iter().take(TREES) {
            table.row([
                fit.root.name(&self.places.graph).to_owned(),
                bits(fit.bandwidth()),
                fit.tenants(self.places.placer.ledger()).to_string(),
            ]);
        }
        Ok(ui.print_table(&table, 3)?)
    }

    /// A place in words: `spine0, with h1 (1), h2 (4) and h3 (1)`.
    fn place(&self, fit: &Fit) -> String {
        let machine = |part: &weir_placement::Part| {
            let name = &self.places.graph.hosts[part.machine.index()].name;
            format!("{name} ({})", part.vms.iter().sum::<u32>())
        };
        let machines: Vec<String> = fit.parts.iter().map(machine).collect();
        match machines.len() {
            1 => format!("{}, on one machine", machines[0]),
            _ => format!("below {}, on {}", fit.root.name(&self.places.graph), text::list(&machines, 8)),
        }
    }

    /// The place as it is, and the search that finds it, or that would find another one now.
    fn reasons(&self) -> Vec<String> {
        let (vms, most) = (self.tenant.vms(), self.most_free);
        let whole = self.placed.as_ref().filter(|_| self.rejected.is_none());
        if let Some(placed) = whole.filter(|placed| placed.fit.parts.len() == 1) {
            let machine = placed.fit.parts[0].machine;
            let slots = text::count(self.places.placer.ledger().free(machine) as usize, "slot");
            return vec![format!(
                "The machine has {slots} beside other tenants, so room for all {vms}, and nothing crosses a link."
            )];
        }
        let mut lines = Vec::new();
        if let (Some(_), Some(reason)) = (&self.placed, &self.rejected) {
            lines.push(format!("Not all of it has a place: {reason}."));
        }
        if let Some(other) = &self.other {
            lines.push(format!(
                "The tenant keeps the place that it has. Other tenants were there when it was placed, it had fewer \
                 virtual machines, or another search chose; a search from now would choose {}. Nothing moves without \
                 --rebalance.",
                self.place(other)
            ));
        }
        if self.survey.is_empty() {
            return lines;
        }
        lines.push(format!("No machine has room for all {vms}: the most free slots of one are {most}."));
        lines.extend((1..).zip(&self.survey).map(|(number, layer)| self.layer(number, layer)));
        lines
    }

    /// One layer of a search from now, beside all other tenants.
    fn layer(&self, number: usize, layer: &SurveyLayer) -> String {
        let mut parts = vec![format!("Layer {number}, {}", text::count(layer.trees, "tree"))];
        if layer.without_slots > 0 {
            parts.push(format!("{} with too few free slots", layer.without_slots));
        }
        if layer.without_bandwidth > 0 {
            let nearest = layer.nearest.map(|lack| format!(" ({})", self.lack(lack))).unwrap_or_default();
            parts.push(format!("{} without the bandwidth{nearest}", layer.without_bandwidth));
        }
        let cheapest = if self.other.is_some() { "the cheapest would be chosen" } else { "the cheapest is chosen" };
        match layer.feasible.len() {
            0 => parts.push("none can have it".to_owned()),
            1 => parts.push("one can have it".to_owned()),
            more => parts.push(format!("{more} different ones can have it, {cheapest}")),
        }
        format!("{}.", parts.join("; "))
    }

    fn lack(&self, shortage: Shortage) -> String {
        shortage.text(|cable| links::name(&self.places, cable))
    }

    /// The reservations of a place.
    fn print_links(&self, placed: &TenantPlace, ui: &mut Ui) -> Result<(), CommandError> {
        ui.print(&format!("\n{}\n", ui.on_out(Style::Strong, "2. Reservations")))?;
        if placed.fit.reservations.is_empty() {
            ui.print("   None: all of it is on one machine.\n")?;
            return Ok(());
        }
        let rule = "A link divides the virtual machines into two sides. At most the smaller sum of their bandwidths \
                    crosses it, so that is reserved, in each direction, beside levels and services.";
        ui.print(&text::wrapped(rule, 3))?;
        let mut table = Table::new(&[
            "link",
            ">sides",
            ">reserved",
            ">other tenants",
            ">services",
            ">levels",
            ">rate",
            ">left",
            ">tenants",
            ">queues for them",
        ]);
        let dedicated = self.policy.queue_budget().tenants;
        for (cable, own) in &placed.fit.reservations {
            let (ledger, room) = (self.places.placer.ledger(), self.places.rooms[cable.index()]);
            let others = ledger.reserved(*cable);
            let larger = placed.hose.bandwidth().saturating_sub(*own);
            let left = room.tenants.saturating_sub(others).saturating_sub(*own);
            let mut row = vec![links::name(&self.places, *cable)];
            row.push(format!("{} and {}", text::rate(*own), text::rate(larger)));
            row.extend([*own, others, room.services, room.levels, room.rate, left].map(text::rate));
            row.extend([(ledger.tenants(*cable) + 1).to_string(), dedicated.to_string()]);
            table.row(row);
        }
        ui.print_table(&table, 3)?;
        let most =
            placed.fit.reservations.iter().map(|(cable, _)| self.places.placer.ledger().tenants(*cable) + 1).max();
        let most = most.unwrap_or(0) as usize;
        let queues = if most <= dedicated {
            format!("Every port has a queue for each of its tenants (at most {most} of {dedicated} queues).")
        } else if dedicated == 0 {
            "Ports have no queues for single tenants.".to_owned()
        } else {
            format!(
                "A port with {most} tenants has {dedicated} queues for single ones: the tenants that use their \
                 guarantees most have them, the others share one."
            )
        };
        Ok(ui.print(&text::wrapped(&queues, 3))?)
    }

    fn to_json(&self) -> Value {
        let (tenant, graph) = (self.tenant, &self.places.graph);
        let fit = self.placed.as_ref().map(|placed| &placed.fit);
        let machines = |fit: &Fit| {
            let part = |part: &weir_placement::Part| {
                let name = &graph.hosts[part.machine.index()].name;
                json!({ "machine": name, "vms": part.vms.iter().sum::<u32>() })
            };
            fit.parts.iter().map(part).collect::<Value>()
        };
        let layer = |layer: &SurveyLayer| {
            let tree = |fit: &Fit| {
                json!({
                    "tree": fit.root.name(graph),
                    "cb_bps": u64::try_from(fit.bandwidth()).unwrap_or(u64::MAX),
                    "cq": fit.tenants(self.places.placer.ledger()),
                })
            };
            json!({
                "trees": layer.trees,
                "without_slots": layer.without_slots,
                "without_bandwidth": layer.without_bandwidth,
                "nearest": layer.nearest.map(|lack| self.lack(lack)),
                "feasible": layer.feasible.iter().map(tree).collect::<Value>(),
            })
        };
        let link = |(cable, own): &(CableId, Bandwidth)| {
            let (ledger, room) = (self.places.placer.ledger(), self.places.rooms[cable.index()]);
            json!({
                "link": links::name(&self.places, *cable),
                "reserved_bps": own.bps(),
                "larger_side_bps": tenant.bandwidth().saturating_sub(*own).bps(),
                "other_tenants_bps": ledger.reserved(*cable).bps(),
                "services_bps": room.services.bps(),
                "levels_bps": room.levels.bps(),
                "rate_bps": room.rate.bps(),
                "tenants": ledger.tenants(*cable) + 1,
            })
        };
        json!({
            "tenant": tenant.name,
            "vms": tenant.vms(),
            "bandwidth_bps": tenant.bandwidth().bps(),
            "packets": routes::packets(self.policy, tenant),
            "places": self.places.file_name(),
            "tree": fit.map(|fit| fit.root.name(graph)),
            "machines": fit.map(machines),
            "search_from_now": self.other.as_ref().map(|fit| json!({
                "tree": fit.root.name(graph),
                "machines": machines(fit),
            })),
            "rejected": self.rejected,
            "most_free_slots": self.most_free,
            "survey": self.survey.iter().map(layer).collect::<Value>(),
            "links": fit.into_iter().flat_map(|fit| &fit.reservations).map(link).collect::<Value>(),
            "queues_for_tenants": self.policy.queue_budget().tenants,
            "routes": routes::to_json(&self.routes),
        })
    }
}

/// A sum of rates.
fn bits(bps: u128) -> String {
    text::rate(Bandwidth::from_bps(u64::try_from(bps).unwrap_or(u64::MAX)))
}
