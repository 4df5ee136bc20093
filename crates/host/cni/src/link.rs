//! Both ends of a pod's veth pair.
//!
//! Problem: the result of the previous plugin lists interfaces in an order and with names that differ among plugins.
//! Approach: the kernel has the pair: the pod's interface, in the pod's namespace, has the index of its peer
//! (`IFLA_LINK`), and the peer has the pod's index and the id of the pod's namespace. All three are compared, since the
//! peer may be in a third namespace where an interface of this one has its index.
//!
//! Worked example: `eth0` in `/run/netns/a` has index 2 and peer 14; index 14 here is `veth3` with peer 2 in the
//! namespace with the id that `RTM_GETNSID` returns for `/run/netns/a`.
//!
//! Source: rtnetlink(7); linux/if_link.h; linux/net_namespace.h; drivers/net/veth.c.

use crate::error::{CniError, Code};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use weir_linux::netlink::{self, Message, NetlinkError, Socket, attribute, read_u32};
use weir_linux::netns;

/// Size of ifinfomsg.
const IFINFOMSG: usize = 16;
/// linux/if_link.h
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_LINK_NETNSID: u16 = 37;
pub(crate) const IFLA_GSO_MAX_SEGS: u16 = 40;
/// linux/rtnetlink.h, linux/net_namespace.h
const RTM_GETNSID: u16 = 90;
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its hardware address, as `0a:58:0a:f4:00:05`.
    pub hardware: String,
    /// Its MTU.
    pub mtu: u32,
    /// The most segments of a GSO packet.
    pub segments: Option<u32>,
    kind: String,
    peer: Option<u32>,
    peer_namespace: Option<u32>,
}

/// A pod's veth pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The end in the pod's namespace.
    pub pod: Link,
    /// The end in the plugin's namespace.
    pub host: Link,
}

/// A pod's network namespace, open.
#[derive(Debug)]
pub struct Namespace {
    file: File,
    path: String,
}

impl Namespace {
    /// Opens one; none if there is no such file, or a regular file as is left where a namespace was mounted.
    ///
    /// # Errors
    /// Any other refusal of the system.
    pub fn open(path: &Path) -> Result<Option<Self>, CniError> {
        let refused = |error: io::Error| {
            let text = format!("the namespace {} cannot be opened", path.display());
            CniError::new(Code::Io, text, error.to_string())
        };
        match File::open(path) {
            Ok(file) => match is_namespace(&file) {
                Ok(true) => Ok(Some(Self { file, path: path.display().to_string() })),
                Ok(false) => Ok(None),
                Err(error) => Err(refused(error)),
            },
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(refused(error)),
        }
    }

    /// Runs `work` with a netlink socket of the namespace.
    ///
    /// # Errors
    /// The file is no network namespace, or an error of `work`.
    pub fn inside<T: Send>(&self, work: impl FnOnce(&mut Socket) -> Result<T, CniError> + Send) -> Result<T, CniError> {
        let refused = |error: std::io::Error| {
            let text = format!("the namespace {} cannot be entered", self.path);
            CniError::new(Code::InvalidEnvironment, text, format!("CNI_NETNS: {error}"))
        };
        netns::inside(&self.file, || work(&mut socket()?)).map_err(refused)?
    }

    /// Its id in the plugin's namespace.
    fn id(&self, socket: &mut Socket) -> Result<Option<u32>, CniError> {
        let descriptor = self.file.as_raw_fd().to_ne_bytes();
        // rtgenmsg: the family, padded.
        let request = Message::new(RTM_GETNSID, 0, &[0; 4]).attribute(NETNSA_FD, &descriptor);
        let replies = socket.get("read the id of a namespace", &mut [request]).map_err(kernel)?;
        let id = |payload: &[u8]| attribute(payload.get(4..)?, NETNSA_NSID).map(|value| read_u32(value, 0));
        Ok(replies.first().and_then(|reply| id(&reply.payload)))
    }
}

/// Whether a file is in nsfs, the kernel's file system of namespaces.
fn is_namespace(file: &File) -> io::Result<bool> {
    // linux/magic.h
    const NSFS_MAGIC: u64 = 0x6e73_6673;
    let mut about = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open, and the kernel fills the structure where it returns 0.
    let about = unsafe {
        if libc::fstatfs(file.as_raw_fd(), about.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        about.assume_init()
    };
    Ok(about.f_type as u64 == NSFS_MAGIC)
}

/// A netlink socket of the thread's namespace.
///
/// # Errors
/// The kernel refuses.
pub fn socket() -> Result<Socket, CniError> {
    Socket::open().map_err(kernel)
}

/// An error of the kernel.
pub fn kernel(error: NetlinkError) -> CniError {
    let hint = match error.errno() {
        Some(libc::EPERM) => "the plugin needs CAP_NET_ADMIN and CAP_SYS_ADMIN: the runtime has to run as root",
        Some(libc::ENOENT | libc::EOPNOTSUPP) => "the kernel needs CONFIG_NET_SCH_TBF, or its module sch_tbf",
        _ => "the kernel refused the request",
    };
    CniError::new(Code::Kernel, error.to_string(), hint)
}

/// The interface with a name.
///
/// # Errors
/// The kernel refuses.
pub fn named(socket: &mut Socket, name: &str) -> Result<Option<Link>, CniError> {
    read(socket, Message::new(libc::RTM_GETLINK, 0, &[0; IFINFOMSG]).text(IFLA_IFNAME, name))
}

/// The interface with an index.
///
/// # Errors
/// The kernel refuses.
pub fn at(socket: &mut Socket, index: u32) -> Result<Option<Link>, CniError> {
    // ifinfomsg: family and type, index, flags, change.
    let fixed = [[0; 4], index.to_ne_bytes(), [0; 4], [0; 4]].concat();
    read(socket, Message::new(libc::RTM_GETLINK, 0, &fixed))
}

fn read(socket: &mut Socket, request: Message) -> Result<Option<Link>, CniError> {
    match socket.get("read an interface", &mut [request]) {
        Ok(replies) => Ok(replies.first().and_then(|reply| parse(&reply.payload))),
        Err(error) if error.errno() == Some(libc::ENODEV) => Ok(None),
        Err(error) => Err(kernel(error)),
    }
}

fn parse(payload: &[u8]) -> Option<Link> {
    let attributes = payload.get(IFINFOMSG..)?;
    let number = |kind| attribute(attributes, kind).map(|value| read_u32(value, 0));
    let hardware = attribute(attributes, IFLA_ADDRESS).unwrap_or_default();
    let information = attribute(attributes, IFLA_LINKINFO).unwrap_or_default();
    Some(Link {
        index: read_u32(payload, 4),
        name: attribute(attributes, IFLA_IFNAME).map(netlink::text)?,
        hardware: hardware.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"),
        mtu: number(IFLA_MTU)?,
        segments: number(IFLA_GSO_MAX_SEGS),
        kind: attribute(information, IFLA_INFO_KIND).map(netlink::text).unwrap_or_default(),
        peer: number(IFLA_LINK),
        peer_namespace: number(IFLA_LINK_NETNSID),
    })
}

impl Pair {
    /// The pair of which `interface` in the pod's namespace is one end.
    ///
    /// # Errors
    /// There is no such interface, it is no veth, or its peer is not in the plugin's namespace.
    pub fn of(namespace: &Namespace, interface: &str) -> Result<Self, CniError> {
        let refused = |what: String, why: &str| Err(CniError::new(Code::InvalidConfiguration, what, why));
        let Some(pod) = namespace.inside(|socket| named(socket, interface))? else {
            let hint = "the plugins before weir-cni have to make it";
            return refused(format!("there is no interface {interface} in {}", namespace.path), hint);
        };
        let (true, Some(peer)) = (pod.kind == "veth", pod.peer) else {
            let kind = if pod.kind.is_empty() { "no veth" } else { &pod.kind };
            let hint = "weir-cni limits pods at their veth pairs, which bridge, ptp, Calico and Flannel make";
            return refused(format!("{interface} in {} is {kind}", namespace.path), hint);
        };
        let mut socket = socket()?;
        let host = at(&mut socket, peer)?;
        // Assigned when the kernel lists the link, at the latest.
        let id = namespace.id(&mut socket)?;
        let is_peer = |link: &Link| {
            link.kind == "veth" && link.peer == Some(pod.index) && id.is_some_and(|id| link.peer_namespace == Some(id))
        };
        match host.filter(is_peer) {
            Some(host) => Ok(Self { pod, host }),
            None => {
                let what = format!("the peer of {interface} in {} is not in the plugin's namespace", namespace.path);
                refused(what, "the runtime has to execute plugins in the namespace of the host's interfaces")
            }
        }
    }
}
