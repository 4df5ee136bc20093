//! `weir explain`: the derivation of a service's share.
//!
//! The allocator keeps every split on the way from a machine's interface up to the fabric; this
//! command prints them with the arithmetic of each in a sentence ([`arithmetic`]) and possible
//! changes.

mod arithmetic;
mod change;
mod tenant;

use crate::error::{CommandError, Exit};
use crate::output::{Style, Table, Ui};
use crate::{input, text};
use serde_json::{Value, json};
use std::path::PathBuf;
use weir_alloc::{Constraint, Decision, Explanation, NetworkShares, Step, StepRow, allocate, explain};
use weir_document::{Suggester, quote};
use weir_policy::{Demands, Policy};
use weir_report::json;
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, ServiceId};

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir explain policy.yaml --demands demands.csv m1/dfs/hbase --direction tx
  weir explain policy.yaml red --placed /var/lib/weir/placement.json

Each step is one split: a machine's interface among its services, then a service among its
children, then the rack's uplink among services and each service's part among machines, then
the fabric among racks. At a rack the demand is the rate that the machines admit, at the fabric
the rate that the racks admit.

With --json: {\"explanations\": [{\"machine\", \"service\", \"direction\", \"demand_bps\",
\"allocation_bps\", \"limited\", \"decided_by\", \"headroom_bps\", \"steps\": [{\"point\", \"place\",
\"service\", \"available_bps\", \"sharing\", \"rows\": [{\"name\", \"chosen\", \"min_bps\", \"max_bps\",
\"weight\", \"demand_bps\", \"got_bps\", \"decided_by\"}], \"text\"}], \"advice\"}]}; a null rate is
unlimited, a null service is a step that splits everything at its place.

A tenant is explained by its name: its place (of --placed FILE, otherwise as `weir place` would
find it), the place that a search from now would choose if it is another one, the trees that this
search compares, what the tenant reserves on each link and why, the tenants that compete for the
queues there, and its routes. With --json: {\"tenant\", \"vms\", \"bandwidth_bps\", \"packets\",
\"places\": file or null, \"tree\", \"machines\": [{\"machine\", \"vms\"}], \"search_from_now\": {\"tree\",
\"machines\"} or null,
\"rejected\": reason or null, \"most_free_slots\", \"survey\": [{\"trees\", \"without_slots\",
\"without_bandwidth\", \"nearest\", \"feasible\": [{\"tree\", \"cb_bps\", \"cq\"}]}], \"links\": [{\"link\",
\"reserved_bps\", \"larger_side_bps\", \"other_tenants_bps\", \"services_bps\", \"levels_bps\", \"rate_bps\",
\"tenants\"}], \"queues_for_tenants\", \"routes\"}.")]
pub(crate) struct Args {
    /// The policy file; `-` is standard input
    policy: PathBuf,
    /// The demand of every service, as CSV (see `weir allocate --help`)
    #[arg(long, value_name = "FILE")]
    demands: Option<PathBuf>,
    /// A service on a machine, such as m1/dfs or m1/dfs/hbase; or a tenant
    #[arg(value_name = "MACHINE/SERVICE|TENANT")]
    instance: String,
    /// The tenants' places
    #[arg(long, value_name = "FILE", conflicts_with = "demands")]
    placed: Option<PathBuf>,
    /// Only this direction; otherwise those with a demand
    #[arg(long, value_name = "tx|rx", value_parser = direction)]
    direction: Option<Direction>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn direction(text: &str) -> Result<Direction, String> {
    let known = Direction::ALL.into_iter().find(|direction| direction.name() == text);
    known.ok_or_else(|| "write `tx` or `rx`".to_owned())
}

/// A service on a machine in one direction, with its explanation.
struct Case<'a> {
    policy: &'a Policy,
    demands: &'a Demands,
    machine: MachineId,
    service: ServiceId,
    direction: Direction,
    explanation: Explanation,
    headroom: Option<Bandwidth>,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    if let Some(exit) = tenant::explain(args, ui)? {
        return Ok(exit);
    }
    let Some(path) = &args.demands else { return Err(without_demands(args)) };
    let (policy, demands) = input::policy_and_demands(&args.policy, path, ui)?;
    let (machine, service) = find(&policy, &args.instance)?;
    let asks = |direction: &Direction| demands.get(machine, service, *direction) > Bandwidth::ZERO;
    let directions: Vec<Direction> = match args.direction {
        Some(direction) => vec![direction],
        None => Direction::ALL.into_iter().filter(asks).collect(),
    };
    if directions.is_empty() {
        let row = args.instance.replacen('/', ",", 1);
        return Err(CommandError::refused(format!(
            "`{}` has no demand in `{}`, so its share is zero",
            args.instance,
            path.display()
        ))
        .hint(format!("add a row such as `{row},tx,unlimited`, or name a --direction")));
    }
    let shares = allocate(&policy, |machine, service, direction| demands.get(machine, service, direction));
    let mut cases = Vec::new();
    for direction in directions {
        cases.extend(case(&policy, &demands, &shares, (machine, service, direction)));
    }
    if args.json {
        let list: Value = cases.iter().map(Case::to_json).collect();
        json::write(ui.out(), &json!({ "explanations": list }))?;
        return Ok(Exit::Done);
    }
    for (i, case) in cases.iter().enumerate() {
        if i > 0 {
            ui.print("\n")?;
        }
        case.print(ui)?;
    }
    Ok(Exit::Done)
}

/// A share depends on demands; a name without them must be that of a tenant.
fn without_demands(args: &Args) -> CommandError {
    match args.instance.contains('/') {
        true => CommandError::refused("a share depends on the demands of all services").hint("add --demands FILE"),
        false => CommandError::refused(format!("the policy has no tenant {}", quote(&args.instance)))
            .hint("name a tenant of the policy, or a service as MACHINE/SERVICE with --demands FILE"),
    }
}

/// The machine and the leaf service of `m1/dfs/hbase`.
fn find(policy: &Policy, instance: &str) -> Result<(MachineId, ServiceId), CommandError> {
    let Some((machine_name, path)) = instance.split_once('/') else {
        return Err(CommandError::refused(format!("{} names no service on a machine", quote(instance)))
            .hint("write MACHINE/SERVICE, for example `m1/dfs`, nested services as `m1/dfs/hbase`"));
    };
    let (network, services) = (policy.network(), policy.services());
    let mut suggester = Suggester::default();
    let Some(machine) = network.machine_named(machine_name) else {
        let known = network.machines().iter().map(|machine| machine.name());
        let hint = suggester.hint_of_name(machine_name, known, "name a machine of the policy");
        return Err(
            CommandError::refused(format!("there is no machine {} in the policy", quote(machine_name))).hint(hint)
        );
    };
    let Some(service) = services.named(path) else {
        let known = services.leaves().map(|(_, service)| service.path());
        let hint = suggester.hint(path, known, "name a service of the policy, nested ones as `parent/child`");
        return Err(CommandError::refused(format!("there is no service {} in the policy", quote(path))).hint(hint));
    };
    if !services.get(service).is_leaf() {
        let children = services.get(service).children().iter();
        let children: Vec<_> =
            children.map(|child| format!("`{machine_name}/{}`", services.get(*child).path())).collect();
        return Err(CommandError::refused(format!("service `{path}` has no traffic of its own: its children have"))
            .hint(format!("name {}", text::list(&children, 5))));
    }
    Ok((machine, service))
}

fn case<'a>(
    policy: &'a Policy,
    demands: &'a Demands,
    shares: &NetworkShares,
    (machine, service, direction): (MachineId, ServiceId, Direction),
) -> Option<Case<'a>> {
    let demand = demands.get(machine, service, direction);
    let explanation = explain(policy, shares, machine, service, direction, demand)?;
    let headroom = shares.headroom(policy, machine, service, direction);
    Some(Case { policy, demands, machine, service, direction, explanation, headroom })
}

/// The number of siblings of a step that are shown; the others are summed up.
const SHOWN: usize = 8;

impl Case<'_> {
    fn name(&self) -> String {
        let machine = self.policy.network().machine(self.machine).name();
        format!("{machine}/{}", self.policy.services().get(self.service).path())
    }

    fn print(&self, ui: &mut Ui) -> Result<(), CommandError> {
        let explanation = &self.explanation;
        let name = ui.on_out(Style::Strong, &format!("{} {}", self.name(), self.direction));
        let decided = explanation.decided_by.display(self.policy).to_string();
        let (share, demand) = (text::rate(explanation.share), text::rate(explanation.demand));
        ui.print(&format!("{name}: demand {demand}, share {share}, decided by {decided}\n"))?;
        let mut last = None;
        for (i, step) in explanation.steps.iter().enumerate() {
            let title = ui.on_out(Style::Strong, &format!("{}. {}", i + 1, self.title(step)));
            ui.print(&format!("\n{title}\n"))?;
            if last != Some(step.point) && step.point != ContentionPoint::Machine {
                let below = if step.point == ContentionPoint::Rack { "machines" } else { "racks" };
                let remark = format!("   Demands here are what the {below} let through.\n");
                ui.print(&ui.on_out(Style::Faint, &remark))?;
            }
            if last != Some(step.point) && step.point == ContentionPoint::Fabric && self.fabric_decides() {
                let remark = "Shares are found in rounds. This is the last one: racks that the fabric limits were \
                              limited to its shares already, and use no more than these.";
                ui.print(&ui.on_out(Style::Faint, &text::wrapped(remark, 3)))?;
            }
            last = Some(step.point);
            self.print_step(step, ui)?;
        }
        let result = ui.on_out(Style::Strong, "Result:");
        ui.print(&format!("\n{result} {share} for {} {}, decided by {decided}.\n", self.name(), self.direction))?;
        ui.print(&text::wrapped(&change::advice(self), 0))?;
        Ok(())
    }

    fn title(&self, step: &Step) -> String {
        let what = match step.service {
            Some(service) => format!("{} of {}", self.policy.services().get(service).path(), step.place),
            None => step.place.clone(),
        };
        let mut rule = step.sharing.name().to_owned();
        if step.rows.len() == 1 {
            rule = "alone".to_owned();
        }
        format!("{what}: {} to share ({rule})", text::rate(step.available))
    }

    fn print_step(&self, step: &Step, ui: &mut Ui) -> Result<(), CommandError> {
        let mut table = Table::new(&["", "name", ">min", ">max", ">weight", ">demand", ">gets", "limited by"]);
        let (shown, rest) = abbreviate(&step.rows);
        let (mut lowered, mut limited) = (false, false);
        for row in &shown {
            let left = self.lowered(step, row);
            lowered |= left;
            let below = self.limited_by_fabric(step, row);
            limited |= below;
            let style = if row.chosen { Style::Strong } else { Style::Plain };
            let star = if left { "*" } else { "" };
            table.styled([
                (if row.chosen { "▸" } else { "" }.to_owned(), style),
                (row.name.clone(), style),
                (text::rate(row.share.min), Style::Plain),
                (format!("{}{}", if below { "†" } else { "" }, text::rate(row.share.max)), Style::Plain),
                (row.share.weight.to_string(), Style::Plain),
                (format!("{star}{}", text::rate(row.demand)), Style::Plain),
                (text::rate(row.got), style),
                (limited_by(row.decision).to_owned(), Style::Plain),
            ]);
        }
        ui.print_table(&table, 3)?;
        if !rest.is_empty() {
            let got: Bandwidth = rest.iter().map(|row| row.got).sum();
            ui.print(&format!("     … and {} more with {} together\n", rest.len(), text::rate(got)))?;
        }
        if lowered {
            ui.print("   * the demand is higher, but the rack limits it to this\n")?;
        }
        if limited {
            ui.print("   † the fabric's limit for this rack, see below\n")?;
        }
        ui.print(&text::wrapped(&arithmetic::sentence(step), 3))?;
        Ok(())
    }

    /// Whether the rack lowered a service's demand at its machine.
    fn lowered(&self, step: &Step, row: &StepRow) -> bool {
        let service = self.policy.services().named(&row.name);
        let leaf = service.filter(|id| self.policy.services().get(*id).is_leaf());
        step.point == ContentionPoint::Machine
            && leaf.is_some_and(|service| row.demand < self.demands.get(self.machine, service, self.direction))
    }

    /// Whether the fabric set a service's maximum at its rack below the policy's.
    fn limited_by_fabric(&self, step: &Step, row: &StepRow) -> bool {
        let service = self.policy.services().named(&row.name);
        let own = |service| self.policy.services().get(service).share(step.point, self.direction).max;
        step.point == ContentionPoint::Rack && service.is_some_and(|service| row.share.max < own(service))
    }

    fn fabric_decides(&self) -> bool {
        matches!(self.explanation.decided_by, Constraint::Fabric | Constraint::Max(_, ContentionPoint::Fabric))
    }

    fn to_json(&self) -> Value {
        let explanation = &self.explanation;
        let row = |row: &StepRow| {
            json!({
                "name": row.name,
                "chosen": row.chosen,
                "min_bps": text::bps(row.share.min),
                "max_bps": text::bps(row.share.max),
                "weight": f64::from(row.share.weight.thousandths()) / 1000.0,
                "demand_bps": text::bps(row.demand),
                "got_bps": text::bps(row.got),
                "decided_by": decision_name(row.decision),
            })
        };
        let step = |step: &Step| {
            json!({
                "point": step.point.name(),
                "place": step.place,
                "service": step.service.map(|service| self.policy.services().get(service).path()),
                "available_bps": text::bps(step.available),
                "sharing": step.sharing.name(),
                "rows": step.rows.iter().map(row).collect::<Value>(),
                "text": arithmetic::sentence(step),
            })
        };
        json!({
            "machine": self.policy.network().machine(self.machine).name(),
            "service": self.policy.services().get(self.service).path(),
            "direction": self.direction.name(),
            "demand_bps": text::bps(explanation.demand),
            "allocation_bps": text::bps(explanation.share),
            "limited": explanation.decided_by.is_limit(),
            "decided_by": explanation.decided_by.display(self.policy).to_string(),
            "headroom_bps": self.headroom.map(text::bps),
            "steps": explanation.steps.iter().map(step).collect::<Value>(),
            "advice": change::advice(self),
        })
    }
}

/// The rows to show, in their order: the chosen one and those with the largest shares; then the
/// others.
fn abbreviate(rows: &[StepRow]) -> (Vec<&StepRow>, Vec<&StepRow>) {
    let mut ranked: Vec<usize> = (0..rows.len()).collect();
    ranked.sort_by_key(|i| (!rows[*i].chosen, std::cmp::Reverse(rows[*i].got), *i));
    // One more row takes no more room than the line that counts the others.
    let kept = if rows.len() <= SHOWN + 1 { rows.len() } else { SHOWN };
    let (shown, rest) = ranked.split_at(kept);
    let in_order = |places: &[usize]| {
        let mut places = places.to_vec();
        places.sort_unstable();
        places.into_iter().map(|i| &rows[i]).collect()
    };
    (in_order(shown), in_order(rest))
}

/// The text of a table.
fn limited_by(decision: Decision) -> &'static str {
    match decision {
        Decision::Demand => "nothing",
        Decision::Max => "its max",
        Decision::Level => "sharing",
    }
}

/// The text of `--json`.
fn decision_name(decision: Decision) -> &'static str {
    match decision {
        Decision::Demand => "demand",
        Decision::Max => "max",
        Decision::Level => "level",
    }
}
