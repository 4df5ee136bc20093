//! Tenants on the terminal: the tables of links, queues and routes that `weir check`, `weir explain` and `weir place`
//! show, and the progress of a placement. [`weir_answers::tenants`] computes.

pub(crate) mod links;
pub(crate) mod queues;
pub(crate) mod routes;

use crate::interrupt::Interrupt;
use crate::output::Ui;
use crate::progress::{self, Watch};
use crate::text;
use std::ops::ControlFlow;
use weir_answers::tenants::{Arrivals, OnArrival};

/// Runs `work` with the progress of its placement on the terminal. A request to stop ends the placement between two
/// tenants.
pub(crate) fn watched<T>(interrupt: Option<&Interrupt>, ui: &mut Ui, work: impl FnOnce(OnArrival<'_>) -> T) -> T {
    let mut watch = Watch::new(ui.err_is_terminal());
    let worked = work(&mut |arrivals: Arrivals| {
        if arrivals.tried == 0 {
            watch.restart();
        }
        let (done, tried, all) = (arrivals.done(), arrivals.tried, arrivals.all);
        watch.show(done, ui, |elapsed| {
            let left =
                progress::left(done, elapsed).map_or(String::new(), |left| format!("{} left; ", progress::wall(left)));
            format!("{left}placed {} of {} tenants", text::whole(tried as u64), text::whole(all as u64))
        });
        match interrupt.is_some_and(Interrupt::is_requested) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    watch.finish();
    worked
}
