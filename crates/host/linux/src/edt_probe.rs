//! Tests whether this kernel applies departure times.
//!
//! A qdisc other than fq ignores the departure time of a packet silently: a limit of 100 Mb/s then
//! runs at 20 Gb/s. The presence of fq does not suffice, as some kernel versions clear the time
//! between program and qdisc. The test adds fq to the loopback interface of a scratch namespace as
//! [`crate::fq`] does, with a program that sets every departure 50 ms ahead, and measures the delay
//! of a datagram.
//!
//! Worked example: on Debian 12's kernel the datagram arrives after 50.1 ms; without fq after 0.1 ms.
//!
//! Source: kernel commit a1ac9c8acec1 (departure times are distinguished from arrival times, 5.18).

use crate::attachment::{Attachment, attach_anyhow};
use crate::fq;
use crate::htb::HANDLE;
use crate::loader::LoaderError;
use crate::netlink::{Message, Socket};
use crate::settings::kernel_time;
use crate::tc::{TC_H_ROOT, TCA_KIND, tcmsg};
use aya::programs::{SchedClassifier, TcAttachType};
use aya::{EbpfLoader, include_bytes_aligned};
use std::io;
use std::net::UdpSocket;
use std::time::Duration;
use weir_datapath::abi::PROBE_WAIT;

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/probe.bpf.o"));

/// Time after which the packet counts as lost; a suspended machine may take long.
const NEVER: Duration = Duration::from_secs(2);
const LOOPBACK: u32 = 1;

/// The delay of a datagram with a departure time on the loopback interface of the calling thread's
/// namespace, a scratch one; with `fq` or with the existing qdisc.
pub(crate) fn departure(fq: bool) -> Result<Duration, String> {
    let context = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    loopback_up()?;
    if fq {
        add_fq()?;
    }
    let load = || -> Result<(aya::Ebpf, Attachment), LoaderError> {
        let mut object = EbpfLoader::new().load(OBJECT)?;
        let program: &mut SchedClassifier =
            object.program_mut("weir_probe").ok_or(LoaderError::Missing("weir_probe"))?.try_into()?;
        program.load()?;
        let attachment = attach_anyhow(program, "lo", LOOPBACK, TcAttachType::Egress)?;
        Ok((object, attachment))
    };
    // Detached with the object.
    let _object = load().map_err(|error| error.to_string())?;
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(context("a socket in the scratch namespace"))?;
    let own = socket.local_addr().map_err(context("its address"))?;
    socket.set_read_timeout(Some(NEVER)).map_err(context("its timeout"))?;
    let sent_at = kernel_time();
    socket.send_to(b"weir", own).map_err(context("send a datagram with a departure time"))?;
    let mut buffer = [0; 4];
    socket.recv_from(&mut buffer).map_err(context("a datagram with a departure time does not arrive"))?;
    Ok(Duration::from_nanos(kernel_time() - sent_at))
}

/// Succeeds if departure times are applied.
pub(crate) fn are_applied() -> Result<(), String> {
    let took = departure(true)?;
    if took < Duration::from_nanos(PROBE_WAIT.into()) {
        return Err(format!(
            "the kernel does not apply departure times: a packet with a departure after {} ms arrived after {:.1} ms",
            PROBE_WAIT / 1_000_000,
            took.as_secs_f64() * 1e3
        ));
    }
    Ok(())
}

fn loopback_up() -> Result<(), String> {
    // ifinfomsg: family, type, index, flags, which of them change.
    let mut link = vec![0; 4];
    for word in [LOOPBACK, libc::IFF_UP as u32, libc::IFF_UP as u32] {
        link.extend(word.to_ne_bytes());
    }
    let mut socket = Socket::open().map_err(|error| error.to_string())?;
    let request = Message::new(libc::RTM_NEWLINK, 0, &link);
    socket.request("set the loopback interface up", vec![request]).map_err(|error| error.to_string())
}

fn add_fq() -> Result<(), String> {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    let root = Message::new(libc::RTM_NEWQDISC, flags, &tcmsg(LOOPBACK, HANDLE, TC_H_ROOT)).text(TCA_KIND, "fq");
    let mut socket = Socket::open().map_err(|error| error.to_string())?;
    match socket.request("add fq", vec![fq::with_room(root)]) {
        Ok(()) => Ok(()),
        Err(error) if error.errno() == Some(libc::ENOENT) => Err("the kernel has no qdisc fq".into()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns;

    /// The failure that the probe detects.
    #[test]
    fn departure_time_has_no_effect_without_fq() {
        // SAFETY: plain system call.
        if unsafe { libc::geteuid() } != 0 {
            println!("skipped: needs root");
            return;
        }
        let took = netns::scratch(|| departure(false)).expect("a namespace").expect("sent");
        assert!(took < Duration::from_nanos(PROBE_WAIT.into()), "{took:?}");
    }
}
