//! Requirements of Weir and its lab on this host, and how to meet them.
//!
//! Problem: a host lacks a capability, a kernel option or a tool, and the failure comes late and as the error of a
//! system call. Approach: try each thing beforehand, in a scratch namespace where it has to be made, and report
//! the missing item, the reason and the remedy.
//!
//! Worked example: without iperf3, `check(Purpose::Lab)` has one entry: `iperf3: not found on the PATH; the lab
//! sends real TCP with it (apt-get install iperf3)`.

use crate::netlink::{Message, Socket};
use crate::netns;
use crate::shaper::{self, choose};
use crate::tc;
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

/// The use of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The agent on a production host.
    Agent,
    /// Experiments in namespaces.
    Lab,
}

/// Something that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The missing item.
    pub what: &'static str,
    /// The state that was found.
    pub found: String,
    /// Why it is needed and how to get it.
    pub remedy: &'static str,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.what, self.found, self.remedy)
    }
}

/// linux/capability.h
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Everything that is missing for `purpose`; empty when the host is ready. Kernel features can only
/// be tried with the capabilities, so missing features are reported once no capability is missing.
pub fn check(purpose: Purpose) -> Vec<Missing> {
    let effective = effective_capabilities();
    let mut missing = capabilities(purpose, &effective);
    let privileged = missing.is_empty();
    // An agent without CAP_SYS_ADMIN cannot make a scratch namespace: attaching reports missing
    // features.
    let scratched = privileged && has(&effective, &[CAP_SYS_ADMIN]).is_ok();
    let mut need = |what, result: Result<(), String>, remedy| {
        if let Err(found) = result {
            missing.push(Missing { what, found, remedy });
        }
    };
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").map_err(|error| format!("/proc: {error}"));
    let recent = release.and_then(|release| is_recent(release.trim()));
    need("Linux 5.19", recent, "the programs read what other processors counted (a newer kernel)");
    let btf = Path::new("/sys/kernel/btf/vmlinux");
    let btf = if btf.exists() { Ok(()) } else { Err(format!("{} is not there", btf.display())) };
    need("kernel BTF", btf, "the maps carry types (a kernel with CONFIG_DEBUG_INFO_BTF=y)");
    let scratch = |work: fn() -> Result<(), String>| {
        netns::scratch(work).unwrap_or_else(|error| Err(format!("a scratch namespace cannot be made: {error}")))
    };
    if privileged {
        let backend = choose(&shaper::probe(), None).map(drop).map_err(|error| error.to_string());
        need("a backend that enforces rates", backend, "a kernel with CONFIG_NET_SCH_FQ or CONFIG_NET_SCH_HTB");
    }
    if scratched {
        need("clsact", scratch(try_clsact), "BPF programs attach to it (CONFIG_NET_SCH_INGRESS, CONFIG_NET_CLS_BPF)");
    }
    if purpose == Purpose::Lab && privileged {
        need("veth", scratch(|| try_link("veth")), "the lab's cables (CONFIG_VETH)");
        need("bridge", scratch(|| try_link("bridge")), "the lab's switches (CONFIG_BRIDGE)");
        let tbf = scratch(|| shaper::add_to_loopback("tbf"));
        need("tbf", tbf, "the rates of the lab's machines without agents (CONFIG_NET_SCH_TBF)");
        let htb = scratch(|| shaper::add_to_loopback("htb"));
        need("htb", htb, "the queues of the lab's switches (CONFIG_NET_SCH_HTB)");
    }
    if purpose == Purpose::Lab {
        need("ip", on_path("ip"), "the lab makes namespaces with it (apt-get install iproute2)");
        need("tc", on_path("tc"), "the lab limits machines without agents with it (apt-get install iproute2)");
        need("iperf3", on_path("iperf3"), "the lab sends real TCP with it (apt-get install iperf3)");
    }
    missing
}

/// Whether a kernel of this release has all that the programs call: bpf_timer since 5.15, bpf_loop since 5.17,
/// bpf_map_lookup_percpu_elem since 5.19. What cannot be read is left to
/// the kernel's own refusal.
fn is_recent(release: &str) -> Result<(), String> {
    let number = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u32>().ok();
    let mut parts = release.split('.').map(number);
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) < (5, 19) => Err(format!("this is Linux {release}")),
        _ => Ok(()),
    }
}

/// The capabilities that this process lacks.
fn capabilities(purpose: Purpose, effective: &Result<u64, String>) -> Vec<Missing> {
    // CAP_SYS_ADMIN includes CAP_BPF and CAP_PERFMON.
    let agent: [(_, &[u32], _); 3] = [
        ("CAP_NET_ADMIN", &[CAP_NET_ADMIN], "shaping needs it (run as root)"),
        ("CAP_BPF", &[CAP_BPF, CAP_SYS_ADMIN], "loading BPF programs needs it (run as root)"),
        ("CAP_PERFMON", &[CAP_PERFMON, CAP_SYS_ADMIN], "BPF programs that reckon with pointers need it (run as root)"),
    ];
    let lab: [(_, &[u32], _); 1] = [("CAP_SYS_ADMIN", &[CAP_SYS_ADMIN], "namespaces need it (run as root)")];
    let lab = lab.into_iter().filter(|_| purpose == Purpose::Lab);
    let lacking =
        |(what, any, remedy): (_, &[u32], _)| has(effective, any).err().map(|found| Missing { what, found, remedy });
    agent.into_iter().chain(lab).filter_map(lacking).collect()
}

/// The effective set of the calling thread, or why it cannot be read.
fn effective_capabilities() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/thread-self/status").map_err(|error| format!("/proc: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).ok_or("/proc lists no capabilities")?;
    u64::from_str_radix(line.trim(), 16).map_err(|error| format!("/proc: {error}"))
}

/// Whether any of these is in the set.
fn has(effective: &Result<u64, String>, any: &[u32]) -> Result<(), String> {
    match effective {
        Ok(set) if any.iter().any(|bit| set >> bit & 1 == 1) => Ok(()),
        Ok(_) => Err("this process does not have it".into()),
        Err(reason) => Err(reason.clone()),
    }
}

fn try_clsact() -> Result<(), String> {
    const LOOPBACK: u32 = 1;
    let mut socket = Socket::open().map_err(|error| error.to_string())?;
    tc::add_clsact(&mut socket, LOOPBACK).map(drop).map_err(|error| error.to_string())
}

/// Makes a link of this kind in the namespace of the calling thread.
fn try_link(kind: &str) -> Result<(), String> {
    const IFLA_LINKINFO: u16 = 18;
    const IFLA_INFO_KIND: u16 = 1;
    // ifinfomsg: all zeros requests a new link with a name of the kernel's choice.
    let request = Message::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &[0; 16])
        .nest(IFLA_LINKINFO, |m| m.text(IFLA_INFO_KIND, kind));
    let mut socket = Socket::open().map_err(|error| error.to_string())?;
    socket.request("add a link", vec![request]).map_err(|error| error.to_string())
}

/// Looks where [`netns::Netns::command`] finds it as well.
fn on_path(program: &str) -> Result<(), String> {
    netns::find(OsStr::new(program)).map(drop).ok_or_else(|| "not found on the PATH".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tool_is_reported_with_its_remedy() {
        let missing = Missing {
            what: "iperf3",
            found: on_path("no-such-tool").expect_err("missing"),
            remedy: "apt-get install iperf3",
        };
        assert_eq!(missing.to_string(), "iperf3: not found on the PATH; apt-get install iperf3");
    }

    #[test]
    fn kernels_that_are_too_old_are_reported() {
        for recent in ["5.19.0", "6.1.0-28-amd64", "6.18.44-fc", "10.0", "unknown"] {
            assert_eq!(is_recent(recent), Ok(()), "{recent}");
        }
        assert_eq!(is_recent("5.10.0-33-amd64"), Err("this is Linux 5.10.0-33-amd64".to_owned()));
        assert!(is_recent("5.18.19").is_err(), "no bpf_map_lookup_percpu_elem");
        assert!(is_recent("4.19-rc1").is_err());
    }

    #[test]
    fn an_agent_needs_less_than_the_lab() {
        let set = |bits: &[u32]| Ok(bits.iter().fold(0, |set, bit| set | 1 << bit));
        let lacks = |purpose, set: &Result<u64, String>| -> Vec<&str> {
            capabilities(purpose, set).iter().map(|missing| missing.what).collect()
        };
        let least = set(&[CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON]);
        assert!(lacks(Purpose::Agent, &least).is_empty());
        assert_eq!(lacks(Purpose::Lab, &least), ["CAP_SYS_ADMIN"]);
        assert_eq!(lacks(Purpose::Agent, &set(&[CAP_NET_ADMIN])), ["CAP_BPF", "CAP_PERFMON"]);
        assert!(lacks(Purpose::Lab, &set(&[CAP_NET_ADMIN, CAP_SYS_ADMIN])).is_empty());
    }

    #[test]
    fn check_reports_everything_once() {
        let missing = check(Purpose::Lab);
        for entry in &missing {
            println!("missing: {entry}");
        }
        let mut names: Vec<_> = missing.iter().map(|entry| entry.what).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), missing.len());
    }
}
