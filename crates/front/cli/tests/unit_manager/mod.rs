//! A systemd that runs the shipped units, with their sandboxes, on a host that was not booted by systemd.
//!
//! A user manager that is root applies the settings of a unit as the system's does. It runs in a
//! mount namespace of its own, where `/etc`, `/run`, `/var/lib` and `/usr/local/bin` are the
//! test's, so that a unit is run as it is shipped, with the paths it names, and nothing of the host
//! is touched; and in the network namespace of a lab's host, with which it ends.
#![expect(clippy::disallowed_methods, reason = "tests of real processes wait in real time")]
#![allow(dead_code, reason = "each test file uses a part of this")]

use crate::common::{WEIR, wait_for};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use weir_linux::netns::Netns;

const SYSTEMD: &str = "/lib/systemd/systemd";
/// The user of weir-fabric.service here: any number without an account.
pub(crate) const USER: u32 = 42_420;

/// What makes the manager's file systems and becomes the manager. `$1` is its directory, `$2` the program.
const BEGIN: &str = r#"
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /usr/local/bin
cp "$2" /usr/local/bin/weir
mount --bind "$1/etc" /etc
mount -t tmpfs -o mode=755 tmpfs /var/lib
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/systemd/system /run/systemd/inaccessible/dir /run/weir /run/home
touch /run/systemd/inaccessible/reg
chmod 0 /run/systemd/inaccessible/dir /run/systemd/inaccessible/reg
mount --bind "$1/run" /run/weir
exec "$3" --user --log-target=console
"#;

/// The manager; ended, with all that it runs, when dropped.
pub(crate) struct Manager {
    process: Child,
    directory: PathBuf,
}

impl Manager {
    /// Starts one for these units in `netns`, with its files below `directory`, which must be new;
    /// `None`, and a line of output, where this host has no systemd.
    pub(crate) fn start(netns: &Netns, directory: &Path, units: &[(&str, &str)]) -> Option<Self> {
        if !Path::new(SYSTEMD).exists() {
            assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set, and there is no systemd");
            let line = "skipped: running the units needs systemd (Debian's package systemd)\n";
            std::io::stderr().write_all(line.as_bytes()).expect("standard error takes a line");
            return None;
        }
        let (etc, run) = (directory.join("etc"), directory.join("run"));
        fs::create_dir_all(etc.join("weir")).expect("made");
        fs::create_dir(&run).expect("made");
        let users = format!("root:x:0:0::/root:/bin/sh\nweir:x:{USER}:{USER}::/:/bin/false\n");
        fs::write(etc.join("passwd"), users).expect("written");
        fs::write(etc.join("group"), format!("root:x:0:\nweir:x:{USER}:\n")).expect("written");
        // Where libraries are.
        let _ = fs::copy("/etc/ld.so.cache", etc.join("ld.so.cache"));
        for (name, text) in units {
            let units = etc.join("systemd/user");
            fs::create_dir_all(units.join(format!("{name}.d"))).expect("made");
            fs::write(units.join(name), text).expect("written");
            // There is no journal here.
            let log = format!("[Service]\nStandardError=append:/run/weir/{name}.log\n");
            fs::write(units.join(format!("{name}.d/log.conf")), log).expect("written");
        }
        let mut command = netns.command("unshare").expect("a command");
        command.args(["-m", "sh", "-c", BEGIN, "sh"]).arg(directory).args([WEIR, SYSTEMD]);
        command.env_clear().envs([("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), ("HOME", "/run/home")]);
        // RuntimeDirectory= and StateDirectory= of a user's units are below these; which of both
        // the latter is depends on the version.
        command.envs([("XDG_RUNTIME_DIR", "/run"), ("XDG_CONFIG_HOME", "/var/lib"), ("XDG_STATE_HOME", "/var/lib")]);
        let log = fs::File::create(directory.join("manager.log")).expect("made");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("copied")).stderr(log);
        let manager = Self { process: command.spawn().expect("starts"), directory: directory.to_owned() };
        wait_for("systemd", 20, || manager.systemctl(&["list-units"]).0);
        // The sender of a readiness notification is identified by its process; the system's manager does the same.
        assert!(manager.inside("chmod").args(["0777", "/run/systemd/notify"]).status().expect("runs").success());
        Some(manager)
    }

    /// Where `/etc/weir` of the units is.
    pub(crate) fn etc(&self) -> PathBuf {
        self.directory.join("etc/weir")
    }

    /// Where `/run/weir` of the units is.
    pub(crate) fn run(&self) -> PathBuf {
        self.directory.join("run")
    }

    /// Writes a file of `/etc/weir` with these permissions, and owner.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>, mode: u32, owner: u32) {
        let path = self.etc().join(name);
        fs::write(&path, content).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
        std::os::unix::fs::chown(&path, Some(owner), Some(owner)).expect("given");
    }

    /// A program among the manager's files.
    pub(crate) fn inside(&self, program: &str) -> Command {
        let process = self.process.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &process, "--mount", "--net", "--", program]);
        command.env("XDG_RUNTIME_DIR", "/run").env_remove("DBUS_SESSION_BUS_ADDRESS").env("NO_COLOR", "1");
        command
    }

    /// Whether `systemctl` succeeds, and its output.
    pub(crate) fn systemctl(&self, arguments: &[&str]) -> (bool, String) {
        let output = self.inside("systemctl").args(["--user", "--no-pager"]).args(arguments).output().expect("runs");
        let printed = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
    }

    /// Does so, and panics where it fails.
    pub(crate) fn must(&self, verb: &str, unit: &str) {
        let (done, output) = self.systemctl(&[verb, unit]);
        assert!(done, "systemctl {verb} {unit}: {output}\n{}\n{}", self.log(unit), self.systemctl(&["status", unit]).1);
    }

    /// A property of a unit, such as its `MainPID`.
    pub(crate) fn property(&self, unit: &str, name: &str) -> String {
        self.systemctl(&["show", "--value", "-p", name, unit]).1.trim().to_owned()
    }

    /// What a unit wrote to its standard error.
    pub(crate) fn log(&self, unit: &str) -> String {
        fs::read_to_string(self.run().join(format!("{unit}.log"))).unwrap_or_default()
    }

    /// A file below `/proc` of a unit's main process.
    pub(crate) fn proc(&self, unit: &str, file: &str) -> String {
        let path = format!("/proc/{}/{file}", self.property(unit, "MainPID"));
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // It stops its units and ends.
        let asked = self.systemctl(&["exit"]).0;
        for _ in 0..if asked { 100 } else { 0 } {
            if matches!(self.process.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
