//! `weir exec`: a program in the control group of a service.

use super::inherited;
use crate::error::{CommandError, Exit};
use crate::input;
use crate::output::{Style, Ui};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process;
use weir_linux::cgroups::{CgroupError, Hierarchy};
use weir_policy::CgroupGlob;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir exec web -- nginx -g 'daemon off;'
  weir exec batch/spark --policy policy.yaml --name nightly -- ./nightly.sh --all

The program's sockets belong to the service: one of its filters must name control groups, for
example `match: [ { cgroup: \"/weir/web-*\" } ]`. The group is made if there is none. The program
replaces weir, so that the process number and the exit code are the program's (127 if there is no
such program, 126 if it cannot be run).

In the name of the group each `*` of the filter becomes `weir-` and the process number, or the text
of --name; each `?` becomes 0. A filter without them names one group, which all programs share;
--name then makes a group below it. The next start removes the groups of programs that have ended.")]
pub(crate) struct Args {
    /// The service, nested ones as `parent/child`
    service: String,
    /// The policy file
    #[arg(long, value_name = "FILE", default_value = "/etc/weir/policy.yaml")]
    policy: PathBuf,
    /// The name of the program's group
    #[arg(long)]
    name: Option<String>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let (policy, _) = input::policy(&args.policy)??;
    let group = group(policy.cgroup_of(&args.service)?, args.name.as_deref())?;
    policy.check_cgroup(&args.service, &group)?;
    let hierarchy = Hierarchy::find().map_err(|error| CommandError::failed(error.to_string()))?;
    if let Some(warning) = hierarchy.own().ok().and_then(|own| warning(&own, &group)) {
        let text = format!("{} {warning}\n", ui.on_err(Style::Limited, "warning:"));
        // The program runs also if the warning cannot be written.
        let _ = ui.notice(&text);
    }
    let entered = hierarchy.enter(&group).map_err(|error| refused(&error, &group))?;
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(CommandError::refused("there is no command"));
    };
    // Returns only if it fails.
    let error = inherited::restore(process::Command::new(program).args(arguments)).exec();
    entered.leave();
    Err(CommandError::program(format!("cannot run `{}`: {error}", program.display()), &error)
        .hint("write the program's path, or the name of one on the PATH, behind `--`"))
}

/// The warning to a unit of systemd whose program is to leave the unit's group, by the paths of both groups.
fn warning(own: &str, group: &str) -> Option<String> {
    let is_within = group.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    // systemd sets the variable for each start of a unit.
    (std::env::var_os("INVOCATION_ID").is_some() && own != "/" && !is_within).then(|| {
        format!(
            "the program leaves the control group of its systemd unit, `{own}`, for `{group}`: the unit's limits and \
             KillMode= do not apply to it; match the unit's own group instead, or a slice that its Slice= names"
        )
    })
}

/// The path of the program's group.
fn group(glob: &CgroupGlob, name: Option<&str>) -> Result<String, CommandError> {
    let own = format!("weir-{}", process::id());
    let glob = match name {
        Some(_) if glob.is_literal() => CgroupGlob::new(&format!("{glob}/*")),
        _ => Ok(glob.clone()),
    };
    glob.and_then(|glob| glob.path_with(name.unwrap_or(&own)))
        .map_err(|refusal| CommandError::refused(refusal.cause).hint(refusal.hint))
}

/// A group that cannot be made or entered.
fn refused(error: &CgroupError, group: &str) -> CommandError {
    let refused = CommandError::failed(format!("cannot enter control group `{group}`: {error}"));
    let CgroupError::Io { path, error } = error else { return refused };
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::PermissionDenied, _) if path.ends_with("cgroup.procs") => refused.hint(
            "a user moves processes only within a group that is delegated to this user: start the program there \
             already (`systemd-run --user --scope weir exec …`), or run it as root",
        ),
        (io::ErrorKind::PermissionDenied, _) => {
            refused.hint("run it as root, or have the group above delegated to this user (systemd: Delegate=yes)")
        }
        (io::ErrorKind::ReadOnlyFilesystem, _) => {
            refused.hint("mount the control groups writable: mount -o remount,rw -t cgroup2 none MOUNT")
        }
        (_, Some(libc::EBUSY | libc::EOPNOTSUPP)) => refused.hint(
            "groups that distribute resources to groups below, and threaded ones, have no processes: --name makes \
             a group below",
        ),
        _ => refused,
    }
}
