//! `weir place --compare`: the table of the strategies.

use super::percent;
use crate::error::{CommandError, Exit};
use crate::interrupt::Interrupt;
use crate::output::{Table, Ui};
use crate::progress::Watch;
use crate::text;
use std::ops::ControlFlow;
use weir_answers::place::{Compared, Comparison, compare};
use weir_policy::Policy;
use weir_report::json;
use weir_units::Bandwidth;

/// Places all tenants by each strategy.
pub(super) fn run(policy: &Policy, as_json: bool, interrupt: &Interrupt, ui: &mut Ui) -> Result<Exit, CommandError> {
    let mut watch = Watch::new(ui.err_is_terminal());
    let compared = compare(policy, &mut |Compared { strategy, tried, done }| {
        if interrupt.is_requested() {
            return ControlFlow::Break(());
        }
        watch.show(done, ui, |_| format!("{strategy}: placed {} tenants", text::whole(tried as u64)));
        ControlFlow::Continue(())
    });
    watch.finish();
    let comparison = compared?;
    if as_json {
        json::write(ui.out(), &comparison.to_json())?;
    } else {
        print(&comparison, ui)?;
    }
    Ok(Exit::Done)
}

fn print(comparison: &Comparison, ui: &mut Ui) -> Result<(), CommandError> {
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
    for outcome in &comparison.outcomes {
        table.row([
            outcome.name.to_owned(),
            format!("{} of {}", outcome.accepted, comparison.tenants),
            percent(outcome.vms.into(), comparison.vms.into()),
            percent(outcome.paid.bps().into(), comparison.paid_bps.into()),
            text::rate(Bandwidth::from_bps(outcome.mean_bandwidth())),
            format!("{:.2}", outcome.mean_tenants()),
            outcome.most.to_string(),
            percent(outcome.reserved.0, outcome.reserved.1),
        ]);
    }
    Ok(ui.print_table(&table, 0)?)
}
