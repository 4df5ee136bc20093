//! The units of Weir, as systemd shows them.

use crate::facts::UnitFacts;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// The longest wait for systemd.
const PATIENCE: Duration = Duration::from_secs(5);
const UNITS: [&str; 4] = ["weir-agent.service", "weir-fabric.service", "weir-forwarder.service", "weir-pods.service"];
const PROPERTIES: &str =
    "--property=Id,LoadState,ActiveState,Result,NRestarts,UnitFileState,NeedDaemonReload,MainPID,ExecStart";

/// The units that are there.
pub(super) async fn read() -> Result<Vec<UnitFacts>, String> {
    let mut command = Command::new("systemctl");
    command.arg("show").args(UNITS).arg(PROPERTIES).env("LC_ALL", "C").stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = output.map_err(|_| format!("systemctl: nothing within {} s", PATIENCE.as_secs()))?;
    let output = output.map_err(|error| format!("systemctl: {error}"))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(format!("systemctl: {}", reason.lines().next().unwrap_or("no reason")));
    }
    let is_replaced = |process: &str| {
        fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|path| path.to_string_lossy().ends_with(" (deleted)"))
    };
    Ok(parse(&String::from_utf8_lossy(&output.stdout), |path| Path::new(path).exists(), is_replaced))
}

/// Blocks of `NAME=VALUE`, one for each unit; units that are not there are left out.
fn parse(text: &str, exists: impl Fn(&str) -> bool, is_replaced: impl Fn(&str) -> bool) -> Vec<UnitFacts> {
    let unit = |block: &str| {
        let value = |name: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.unwrap_or_default().to_owned()
        };
        (value("LoadState") == "loaded").then(|| {
            // ExecStart={ path=/usr/bin/weir ; argv[]=/usr/bin/weir agent ... }
            let start = value("ExecStart");
            let program = start.split_once("path=").and_then(|(_, path)| path.split_whitespace().next());
            UnitFacts {
                name: value("Id").trim_end_matches(".service").to_owned(),
                active: value("ActiveState"),
                result: value("Result"),
                // Versions of systemd before 235 do not count.
                restarts: value("NRestarts").parse().unwrap_or(0),
                enabled: value("UnitFileState"),
                needs_reload: value("NeedDaemonReload") == "yes",
                program_missing: program.filter(|path| !exists(path)).map(str::to_owned),
                outdated: is_replaced(&value("MainPID")),
            }
        })
    };
    text.split("\n\n").filter_map(unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_from_blocks() {
        let text = "Id=weir-agent.service\nLoadState=loaded\nActiveState=failed\nResult=exit-code\nNRestarts=3\n\
                    UnitFileState=enabled\nNeedDaemonReload=yes\nMainPID=7\n\
                    ExecStart={ path=/usr/bin/weir ; argv[]=weir agent p }\n\n\
                    Id=weir-fabric.service\nLoadState=not-found\nActiveState=inactive\n";
        let agent = UnitFacts {
            name: "weir-agent".into(),
            active: "failed".into(),
            result: "exit-code".into(),
            restarts: 3,
            enabled: "enabled".into(),
            needs_reload: true,
            program_missing: Some("/usr/bin/weir".into()),
            outdated: true,
        };
        assert_eq!(parse(text, |path| path != "/usr/bin/weir", |process| process == "7"), [agent]);
    }
}
