//! Checks of the host: its kernel, its clocks, its units, its leftovers.

use super::{Verdict, doubtful, fine, quoted, skipped, wrong};
use crate::facts::{Facts, UnitFacts};

pub(super) fn requirements(facts: &Facts) -> Verdict {
    let (capabilities, others): (Vec<_>, Vec<_>) =
        facts.missing.iter().partition(|missing| missing.what.starts_with("CAP_"));
    if !others.is_empty() {
        let all: Vec<String> = others.iter().map(ToString::to_string).collect();
        return wrong(all.join("; "), "the agent does not start");
    }
    if capabilities.is_empty() { fine("nothing is missing") } else { skipped("needs root") }
}

pub(super) fn clock_source(facts: &Facts) -> Verdict {
    match &facts.clock_source {
        Err(error) => skipped(error),
        Ok(name) if ["hpet", "acpi_pm", "jiffies", "refined-jiffies"].contains(&name.as_str()) => doubtful(
            name,
            "the programs read the time for each packet, and this source takes a microsecond or is coarse",
        )
        .mend("cat /sys/devices/system/clocksource/clocksource0/available_clocksource"),
        Ok(name) => fine(name),
    }
}

pub(super) fn clock_synchronised(facts: &Facts) -> Verdict {
    match &facts.clock_synchronised {
        Err(error) => skipped(error),
        Ok(true) => fine("synchronised"),
        Ok(false) => {
            doubtful("not synchronised", "certificates are valid by the system clock").mend("timedatectl set-ntp true")
        }
    }
}

/// The units, or why there is nothing to judge.
fn of_units(facts: &Facts) -> Result<&[UnitFacts], Verdict> {
    match &facts.units {
        Err(error) => Err(skipped(error)),
        Ok(units) if units.is_empty() => Err(skipped("no unit of Weir")),
        Ok(units) => Ok(units),
    }
}

/// Whether systemd waits to start a unit again (`Restart=always`), or does so now. At the start the last result is
/// `success` again, and the number of restarts stays.
fn is_in_crash_loop(unit: &UnitFacts) -> bool {
    unit.active == "activating" && (unit.result != "success" || unit.restarts > 0)
}

pub(super) fn units(facts: &Facts) -> Verdict {
    let units = match of_units(facts) {
        Ok(units) => units,
        Err(verdict) => return verdict,
    };
    let find = |is: fn(&UnitFacts) -> bool| units.iter().find(|unit| is(unit));
    if let Some(UnitFacts { name, result, .. }) = find(|unit| unit.active == "failed") {
        return wrong(
            format!("{name} has failed: {result}"),
            "the service does not run, and its journal has the reason",
        )
        .mend(format!("systemctl restart {name} || journalctl -u {name} -n 20 --no-pager"));
    }
    if let Some(UnitFacts { name, result, restarts, .. }) = find(is_in_crash_loop) {
        return wrong(
            format!("{name} ends and is started again: {result}, {restarts} restarts"),
            "between the starts the service does not run, and its journal has the reason",
        )
        .mend(format!("journalctl -u {name} -n 20 --no-pager"));
    }
    if let Some(UnitFacts { name, .. }) = find(|unit| unit.enabled == "enabled" && unit.active == "inactive") {
        return wrong(
            format!("{name} is enabled and does not run"),
            "it was stopped, and starts at the next boot only",
        )
        .mend(format!("systemctl start {name}"));
    }
    // A unit that fails some seconds after each start is active nearly always.
    if let Some(UnitFacts { name, restarts, .. }) = find(|unit| unit.restarts > 0) {
        return doubtful(
            format!("{name}: automatic restarts since the last manual start: {restarts}"),
            "the service did not run between the starts, and its journal has the reason",
        )
        .mend(format!("journalctl -u {name} -n 20 --no-pager"));
    }
    if let Some(UnitFacts { name, .. }) = find(|unit| unit.enabled == "disabled" && unit.active == "active") {
        return doubtful(format!("{name} runs and is not enabled"), "it does not start at the next boot")
            .mend(format!("systemctl enable {name}"));
    }
    if let Some(UnitFacts { name, .. }) = find(|unit| unit.needs_reload) {
        return doubtful(format!("the file of {name} has changed"), "systemd uses the old one")
            .mend("systemctl daemon-reload");
    }
    let all: Vec<String> = units.iter().map(|unit| format!("{} {}", unit.name, unit.active)).collect();
    fine(all.join(", "))
}

pub(super) fn programs(facts: &Facts) -> Verdict {
    let units = match of_units(facts) {
        Ok(units) => units,
        Err(verdict) => return verdict,
    };
    if let Some((unit, path)) = units.iter().find_map(|unit| Some((unit, unit.program_missing.as_ref()?))) {
        return wrong(format!("{path} of {} is not there", unit.name), "the service does not start")
            .mend(format!("systemctl cat {}", unit.name));
    }
    if let Some(unit) = units.iter().find(|unit| unit.outdated) {
        return doubtful(format!("{} runs a program that was replaced", unit.name), "the new version is not in use")
            .mend(format!("systemctl restart {}", unit.name));
    }
    fine("as installed")
}

pub(super) fn leftovers(facts: &Facts) -> Verdict {
    match &facts.gone {
        Err(error) => skipped(error),
        Ok(gone) => match gone.first() {
            None => fine("none"),
            // The removal on an interface that is not there removes the pins of all that are gone.
            Some(index) => doubtful(
                format!("{} interfaces that are gone have pins", gone.len()),
                "their maps use memory of the kernel until an agent starts",
            )
            .mend(format!("weir agent --remove --interface {}", quoted(&format!("gone{index}")))),
        },
    }
}
