//! `weir explain POLICY TENANT`: a tenant's place and its reservations, with the reason of each.

use crate::error::{CommandError, Exit};
use crate::output::{Style, Table, Ui};
use crate::{input, tenants, text};
use weir_answers::Places;
use weir_answers::explain::tenant::{ExplainedTenant, named};
use weir_answers::tenants::{admit, links, routes};
use weir_placement::{Fit, Strategy, SurveyLayer, TenantPlace};
use weir_report::json;
use weir_units::Bandwidth;

/// Trees of a layer that are shown.
const TREES: usize = 5;

/// Reads the policy and explains its tenant of this name; `None` if it has none.
pub(super) fn explain(args: &super::Args, ui: &mut Ui) -> Result<Option<Exit>, CommandError> {
    if args.instance.contains('/') || args.demands.is_some() {
        return Ok(None);
    }
    let (policy, notes) = input::policy(&args.policy)??;
    let Some(tenant) = named(&policy, &args.instance) else { return Ok(None) };
    admit::network(&policy)?;
    input::print_notes(&notes, ui)?;
    let mut places = Places::new(&policy, Strategy::default());
    if let Some(path) = &args.placed {
        input::print_notes(&places.adopt(path, &policy)?, ui)?;
    }
    let explained =
        tenants::watched(None, ui, |on_arrival| weir_answers::explain_tenant(&policy, tenant, places, on_arrival))?;
    if args.json {
        json::write(ui.out(), &explained.to_json())?;
    } else {
        Printed(explained).print(ui)?;
    }
    Ok(Some(Exit::Done))
}

/// The tables and sentences of an explanation.
struct Printed<'a>(ExplainedTenant<'a>);

impl Printed<'_> {
    fn print(&self, ui: &mut Ui) -> Result<(), CommandError> {
        let tenant = self.0.tenant;
        let groups: Vec<String> =
            tenant.groups.iter().map(|group| format!("{} × {}", group.vms, text::rate(group.bandwidth))).collect();
        let name = ui.on_out(Style::Strong, &tenant.name);
        let packets = match routes::packets(self.0.policy, tenant) {
            filters if filters.is_empty() => "no filter".to_owned(),
            filters => text::list(&filters, 5),
        };
        ui.print(&format!(
            "{name}: {} ({}), pays for {}; packets: {}\n{}\n",
            text::count(tenant.vms() as usize, "virtual machine"),
            groups.join(", "),
            text::rate(tenant.bandwidth()),
            packets,
            self.0.places.origin(),
        ))?;
        self.print_place(ui)?;
        if let Some(placed) = &self.0.placed {
            self.print_links(placed, ui)?;
        }
        if !self.0.routes.is_empty() {
            ui.print(&format!("\n{}\n", ui.on_out(Style::Strong, "3. Routes that keep its packets on these links")))?;
            tenants::routes::print(&self.0.routes, ui)?;
        }
        Ok(())
    }

    /// The place, and the search that finds it.
    fn print_place(&self, ui: &mut Ui) -> Result<(), CommandError> {
        let place = match (&self.0.placed, &self.0.rejected) {
            (Some(placed), _) => self.place(&placed.fit),
            (None, Some(reason)) => format!("none: {reason}"),
            (None, None) => "none".to_owned(),
        };
        ui.print(&format!("\n{}\n", ui.on_out(Style::Strong, &format!("1. Place: {place}"))))?;
        for line in self.reasons() {
            ui.print(&text::wrapped(&line, 3))?;
        }
        let Some(layer) = self.0.survey.last().filter(|layer| layer.feasible.len() > 1) else { return Ok(()) };
        let mut table =
            Table::new(&["cheapest trees", ">reserved on all links (c_b)", ">most tenants of a link (c_q)"]);
        for fit in layer.feasible.iter().take(TREES) {
            table.row([
                fit.root.name(&self.0.places.graph).to_owned(),
                bits(fit.bandwidth()),
                fit.tenants(self.0.places.placer.ledger()).to_string(),
            ]);
        }
        Ok(ui.print_table(&table, 3)?)
    }

    /// A place in words: `spine0, with h1 (1), h2 (4) and h3 (1)`.
    fn place(&self, fit: &Fit) -> String {
        let machine = |part: &weir_placement::Part| {
            let name = &self.0.places.graph.hosts[part.machine.index()].name;
            format!("{name} ({})", part.vms.iter().sum::<u32>())
        };
        let machines: Vec<String> = fit.parts.iter().map(machine).collect();
        match machines.len() {
            1 => format!("{}, on one machine", machines[0]),
            _ => format!("below {}, on {}", fit.root.name(&self.0.places.graph), text::list(&machines, 8)),
        }
    }

    /// The place as it is, and the search that finds it, or that would find another one now.
    fn reasons(&self) -> Vec<String> {
        let (vms, most) = (self.0.tenant.vms(), self.0.most_free);
        let whole = self.0.placed.as_ref().filter(|_| self.0.rejected.is_none());
        if let Some(placed) = whole.filter(|placed| placed.fit.parts.len() == 1) {
            let machine = placed.fit.parts[0].machine;
            let slots = text::count(self.0.places.placer.ledger().free(machine) as usize, "slot");
            return vec![format!(
                "The machine has {slots} beside other tenants, so room for all {vms}, and nothing crosses a link."
            )];
        }
        let mut lines = Vec::new();
        if let (Some(_), Some(reason)) = (&self.0.placed, &self.0.rejected) {
            lines.push(format!("Not all of it has a place: {reason}."));
        }
        if let Some(other) = &self.0.other {
            lines.push(format!(
                "The tenant keeps the place that it has. Other tenants were there when it was placed, it had fewer \
                 virtual machines, or another search chose; a search from now would choose {}. Nothing moves without \
                 --rebalance.",
                self.place(other)
            ));
        }
        if self.0.survey.is_empty() {
            return lines;
        }
        lines.push(format!("No machine has room for all {vms}: the most free slots of one are {most}."));
        lines.extend((1..).zip(&self.0.survey).map(|(number, layer)| self.layer(number, layer)));
        lines
    }

    /// One layer of a search from now, beside all other tenants.
    fn layer(&self, number: usize, layer: &SurveyLayer) -> String {
        let mut parts = vec![format!("Layer {number}, {}", text::count(layer.trees, "tree"))];
        if layer.without_slots > 0 {
            parts.push(format!("{} with too few free slots", layer.without_slots));
        }
        if layer.without_bandwidth > 0 {
            let nearest = layer.nearest.map(|lack| format!(" ({})", self.0.lack(lack))).unwrap_or_default();
            parts.push(format!("{} without the bandwidth{nearest}", layer.without_bandwidth));
        }
        let cheapest = if self.0.other.is_some() { "the cheapest would be chosen" } else { "the cheapest is chosen" };
        match layer.feasible.len() {
            0 => parts.push("none can have it".to_owned()),
            1 => parts.push("one can have it".to_owned()),
            more => parts.push(format!("{more} different ones can have it, {cheapest}")),
        }
        format!("{}.", parts.join("; "))
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
        let dedicated = self.0.policy.queue_budget().tenants;
        for (cable, own) in &placed.fit.reservations {
            let (ledger, room) = (self.0.places.placer.ledger(), self.0.places.rooms[cable.index()]);
            let others = ledger.reserved(*cable);
            let larger = placed.hose.bandwidth().saturating_sub(*own);
            let left = room.tenants.saturating_sub(others).saturating_sub(*own);
            let mut row = vec![links::name(&self.0.places, *cable)];
            row.push(format!("{} and {}", text::rate(*own), text::rate(larger)));
            row.extend([*own, others, room.services, room.levels, room.rate, left].map(text::rate));
            row.extend([(ledger.tenants(*cable) + 1).to_string(), dedicated.to_string()]);
            table.row(row);
        }
        ui.print_table(&table, 3)?;
        let most =
            placed.fit.reservations.iter().map(|(cable, _)| self.0.places.placer.ledger().tenants(*cable) + 1).max();
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
}

/// A sum of rates.
fn bits(bps: u128) -> String {
    text::rate(Bandwidth::from_bps(u64::try_from(bps).unwrap_or(u64::MAX)))
}
