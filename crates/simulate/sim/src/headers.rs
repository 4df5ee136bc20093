//! The headers of flows that belong to a policy's services.
//!
//! Flows are classified once, by the kernel's classifier, with the headers of their packets, which
//! do not change. The reverse packets of a flow belong to the same service, since filters match
//! either end. A service whose filter names interfaces has the flows that the scenario assigns to
//! it: those of endpoints that the scenario puts on the machine. Source ports are from Linux's
//! ephemeral range.
//!
//! Example: service `web` with `match: [ { protocol: tcp, port: 8000-8099 } ]` has flows from a
//! drawn port to port 8000.

use crate::routes::mix;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use weir_datapath::{Classifier, ClassifierError, Fields};
use weir_policy::{Match, Policy, Protocol};
use weir_units::{MachineId, ServiceId};

/// Linux's default range of ephemeral ports (`net.ipv4.ip_local_port_range`).
const EPHEMERAL_PORTS: std::ops::RangeInclusive<u16> = 32_768..=60_999;
/// The server's port where a service's filters leave it open: iperf's.
const DEFAULT_PORT: u16 = 5201;

/// No packet of a flow's protocol between two machines belongs to a service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {protocol} packet from `{from}` to `{to}` belongs to service `{service}`")]
pub struct Unclassified {
    /// `TCP` or `UDP`.
    pub protocol: &'static str,
    /// The service's path.
    pub service: String,
    /// The sending machine's name.
    pub from: String,
    /// The receiving machine's name.
    pub to: String,
}

/// Makes headers for flows of a policy's services.
#[derive(Debug)]
pub struct Headers {
    policy: Arc<Policy>,
    classifier: Classifier,
}

impl Headers {
    /// Headers under a policy.
    ///
    /// # Errors
    /// If the policy's filters cannot become a classifier.
    pub fn new(policy: &Arc<Policy>) -> Result<Self, ClassifierError> {
        let classifier = Classifier::of(policy, None)?;
        Ok(Self { policy: Arc::clone(policy), classifier })
    }

    /// The ECMP hash of a flow of `service` over `protocol`, TCP or UDP, whose source port is drawn by `drawn`. A flow
    /// over UDP has TCP's headers if the service's filters take only those: a scenario may send any service by UDP.
    ///
    /// # Errors
    /// If no filter of the service takes such a flow's packets.
    pub fn hash(
        &self,
        service: ServiceId,
        (from, to): (MachineId, MachineId),
        protocol: Protocol,
        drawn: u32,
    ) -> Result<u32, Unclassified> {
        let ports = u32::from(EPHEMERAL_PORTS.end() - EPHEMERAL_PORTS.start()) + 1;
        let port = EPHEMERAL_PORTS.start() + (drawn % ports) as u16;
        let with = |protocol| headers(&self.policy, &self.classifier, service, (from, to), protocol, port);
        let fields = with(protocol).or_else(|| with(Protocol::TCP));
        fields.as_ref().map(flow_hash).ok_or_else(|| Unclassified {
            protocol: if protocol == Protocol::UDP { "UDP" } else { "TCP" },
            service: self.policy.services().get(service).path().to_owned(),
            from: self.policy.network().machine(from).name().to_owned(),
            to: self.policy.network().machine(to).name().to_owned(),
        })
    }
}

/// The headers of a flow of `service`, as the classifier reads them; `None` if no filter takes such
/// packets.
fn headers(
    policy: &Policy,
    classifier: &Classifier,
    service: ServiceId,
    (from, to): (MachineId, MachineId),
    protocol: Protocol,
    source_port: u16,
) -> Option<Fields> {
    let with = |filter: &Match| {
        let mut fields = Fields {
            source: address(policy, from),
            destination: address(policy, to),
            protocol,
            ports: Some((source_port, filter.ports.map_or(DEFAULT_PORT, |(first, _)| first))),
            dscp: filter.dscp.unwrap_or(0),
            vni: filter.vni,
        };
        if let Some(prefix) = filter.address
            && !prefix.contains(&fields.source)
            && !prefix.contains(&fields.destination)
        {
            // The service's address, at the machine that serves.
            fields.destination = prefix.addr();
            if fields.source.is_ipv4() != fields.destination.is_ipv4() {
                fields.source = IpAddr::V6(Ipv6Addr::from(0xfd00_u128 << 112 | u128::from(from.0)));
            }
        }
        fields
    };
    policy.services().get(service).matches().iter().find_map(|filter| {
        let fields = with(filter);
        (filter.is_of_guests() || classifier.classify_fields(&fields) == Some(service)).then_some(fields)
    })
}

/// A machine's address: its policy's, or one of 10.0.0.0/8 by number.
fn address(policy: &Policy, machine: MachineId) -> IpAddr {
    let fallback = IpAddr::V4(Ipv4Addr::from(0x0a00_0001 + machine.0));
    policy.network().machine(machine).address().unwrap_or(fallback)
}

/// A hash of the five fields that ECMP distinguishes flows by.
fn flow_hash(fields: &Fields) -> u32 {
    let fold = |address: IpAddr| match address {
        IpAddr::V4(address) => u32::from(address),
        IpAddr::V6(address) => address
            .octets()
            .chunks_exact(4)
            .fold(0, |hash, word| mix(hash ^ word.iter().fold(0, |word, &byte| word << 8 | u32::from(byte)))),
    };
    let (source, destination) = fields.ports.unwrap_or_default();
    let ports = u32::from(source) << 16 | u32::from(destination);
    [fold(fields.source), fold(fields.destination), u32::from(fields.protocol.0), ports]
        .into_iter()
        .fold(0, |hash, part| mix(hash ^ part))
}
