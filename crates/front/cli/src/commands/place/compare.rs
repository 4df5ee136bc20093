//! `weir place --compare`: the tenants of a policy placed by each strategy, from nothing.
//!
//! Source: QShare §IV and §VII-C (c_b and c_q); Oktopus (accepted tenants).

use super::{STRATEGIES, percent};
use crate::error::{CommandError, Exit};
use crate::interrupt::Interrupt;
use crate::output::{Table, Ui};
use crate::progress::Watch;
use crate::text;
use serde_json::{Value, json};
use weir_answers::Places;
use weir_placement::{CableId, arrivals, file};
use weir_policy::Policy;
use weir_report::json;
use weir_units::Bandwidth;

/// The result of one strategy.
struct Outcome {
    name: &'static str,
    accepted: usize,
    vms: u64,
    paid: Bandwidth,
    /// Sums of the accepted tenants' costs.
    bandwidth: u128,
    tenants: u64,
    /// The most tenants of any link at the end.
    most: u32,
    reserved: (u128, u128),
    seconds: f64,
}

/// Places all tenants by each strategy.
pub(super) fn run(policy: &Policy, as_json: bool, interrupt: &Interrupt, ui: &mut Ui) -> Result<Exit, CommandError> {
    let mut watch = Watch::new(ui.err_is_terminal());
    let mut outcomes = Vec::new();
    let hoses: Vec<_> = policy.tenants().iter().map(file::hose).collect();
    let order = arrivals(&hoses);
    for (at, (name, strategy)) in STRATEGIES.into_iter().enumerate() {
        let mut places = Places::new(policy, strategy);
        let began = watch.elapsed();
        let mut outcome = Outcome::new(name);
        for (count, &index) in order.iter().enumerate() {
            let tenant = &policy.tenants()[index];
            if interrupt.is_requested() {
                watch.finish();
                return Err(CommandError::interrupted("interrupted"));
            }
            let done = (at as f64 + count as f64 / policy.tenants().len() as f64) / STRATEGIES.len() as f64;
            watch.show(done, ui, |_| format!("{name}: placed {} tenants", text::whole(count as u64)));
            // The most tenants of its links with itself, as at its arrival.
            let Ok(placed) = places.placer.arrive(&tenant.name, hoses[index].clone()) else { continue };
            let fit = placed.fit.clone();
            let ledger = places.placer.ledger();
            outcome.accepted += 1;
            outcome.vms += u64::from(tenant.vms());
            outcome.paid = Bandwidth::from_bps(outcome.paid.bps() + tenant.bandwidth().bps());
            outcome.bandwidth += fit.bandwidth();
            let of_links = fit.reservations.iter().map(|(cable, _)| u64::from(ledger.tenants(*cable)));
            outcome.tenants += of_links.max().unwrap_or(0);
        }
        outcome.seconds = watch.elapsed() - began;
        let (fabric, ledger) = (places.placer.fabric(), places.placer.ledger());
        outcome.most = (0..fabric.cables() as u32).map(|at| ledger.tenants(CableId(at))).max().unwrap_or(0);
        outcome.reserved = ledger.reserved_of_all();
        outcomes.push(outcome);
    }
    watch.finish();
    if as_json {
        let list: Value = outcomes.iter().map(|outcome| outcome.to_json(policy)).collect();
        json::write(ui.out(), &json!({ "strategies": list }))?;
    } else {
        print(policy, &outcomes, ui)?;
    }
    Ok(Exit::Done)
}

impl Outcome {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            accepted: 0,
            vms: 0,
            paid: Bandwidth::ZERO,
            bandwidth: 0,
            tenants: 0,
            most: 0,
            reserved: (0, 0),
            seconds: 0.0,
        }
    }
    /// Mean c_b, bit/s.
    fn mean_bandwidth(&self) -> u64 {
        self.bandwidth.checked_div(self.accepted as u128).map_or(0, |mean| u64::try_from(mean).unwrap_or(u64::MAX))
    }
    /// Mean c_q.
    fn mean_tenants(&self) -> f64 {
        if self.accepted == 0 { 0.0 } else { self.tenants as f64 / self.accepted as f64 }
    }
    fn to_json(&self, policy: &Policy) -> Value {
        json!({
            "strategy": self.name,
            "tenants": policy.tenants().len(),
            "accepted": self.accepted,
            "vms": vms(policy),
            "accepted_vms": self.vms,
            "paid_bps": paid(policy),
            "accepted_bps": self.paid.bps(),
            "mean_cb_bps": self.mean_bandwidth(),
            "mean_cq": self.mean_tenants(),
            "most_tenants": self.most,
            "reserved_bps": u64::try_from(self.reserved.0).unwrap_or(u64::MAX),
            "capacity_bps": u64::try_from(self.reserved.1).unwrap_or(u64::MAX),
            "milliseconds": self.seconds * 1e3,
        })
    }
}

/// All virtual machines of a policy.
fn vms(policy: &Policy) -> u64 {
    policy.tenants().iter().map(|tenant| u64::from(tenant.vms())).sum()
}

/// The sum of all bandwidths that tenants pay for, bit/s.
fn paid(policy: &Policy) -> u64 {
    policy.tenants().iter().map(|tenant| tenant.bandwidth().bps()).fold(0, u64::saturating_add)
}

fn print(policy: &Policy, outcomes: &[Outcome], ui: &mut Ui) -> Result<(), CommandError> {
    let mut table = Table::new(&[
        "strategy",
        ">tenants",
        ">of VMs",
        ">of bandwidth",
        ">mean c_b",
        ">mean c_q",
        ">most tenants of a link",
        ">links reserved",
    ]);
    let (all, vms, paid) = (policy.tenants().len(), vms(policy), paid(policy));
    for outcome in outcomes {
        table.row([
            outcome.name.to_owned(),
            format!("{} of {all}", outcome.accepted),
            percent(outcome.vms.into(), vms.into()),
            percent(outcome.paid.bps().into(), paid.into()),
            text::rate(Bandwidth::from_bps(outcome.mean_bandwidth())),
            format!("{:.2}", outcome.mean_tenants()),
            outcome.most.to_string(),
            percent(outcome.reserved.0, outcome.reserved.1),
        ]);
    }
    Ok(ui.print_table(&table, 0)?)
}
