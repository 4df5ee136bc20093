//! From a file to a [`Policy`]: every rule is checked here or in the modules called from here.
//!
//! Approach: text → tree → check against [`crate::language`] → network and services with their
//! positions → rules that span several positions ([`crate::overlap`], [`crate::admission`]) →
//! policy. Each step continues with the sound part of the steps before, so independent mistakes are
//! all reported in one run; values known to be wrong are left out of later sums, so one mistake is
//! not reported twice.
//!
//! Worked example: a file with a misspelt key in one service, `min: 3` without a unit in a second
//! and a minimum above its maximum in a third gives three errors, in the order of the file.

mod credits;
mod effect;
mod filters;
mod impossible;
mod levels;
mod machines;
mod services;
mod shaper;
mod share;
mod tenants;
mod tunnels;

pub(crate) use services::ReadService;
pub(crate) use share::{direction_names, same_in_directions};

use crate::change::Written;
use crate::language::{MAX_FILE, POLICY, SHARING_KEYWORDS};
use crate::model::{Caps, Policy, Services, Sharing};
use crate::{admission, digest, overlap};
use std::path::Path;
use std::sync::Arc;
use weir_document::shape::Shape;
use weir_document::{Diagnostic, Diagnostics, Field, Node, Problems, Source, check, scalar, tree};
use weir_network::read::{NetworkReader, ReadNetwork, rates};
use weir_units::{Bandwidth, ContentionPoint, Direction, PerDirection, PerPoint};

impl Policy {
    /// Reads a policy file of at most [`MAX_FILE`] bytes. The notes list content that is accepted
    /// but has no effect.
    pub fn read(path: impl AsRef<Path>) -> Result<(Self, Vec<Diagnostic>), Diagnostics> {
        Self::from_source(&Source::read(path.as_ref(), MAX_FILE)?)
    }
    /// Reads a policy from a text; `name` is used in messages.
    pub fn parse(name: &str, text: &str) -> Result<(Self, Vec<Diagnostic>), Diagnostics> {
        Self::from_source(&Source::from_bytes(name, text.as_bytes().to_vec(), MAX_FILE)?)
    }
    /// Reads a policy from a source.
    pub fn from_source(source: &Arc<Source>) -> Result<(Self, Vec<Diagnostic>), Diagnostics> {
        Self::from_written(Written::new(source))
    }
    /// Reads a policy from a source with settings.
    pub(crate) fn from_written(written: Written) -> Result<(Self, Vec<Diagnostic>), Diagnostics> {
        let source = &written.source;
        let mut problems = Problems::new(source);
        let policy = tree::parse(source, &mut problems).map(|mut root| {
            for (path, value) in &written.settings {
                weir_document::set_by("", &mut root, &Shape::Record(&POLICY), path, value, &mut problems);
            }
            check::check(&root, &Shape::Record(&POLICY), &mut problems);
            read(&root, &written, &mut problems)
        });
        let (policy, notes) = problems.finish(policy)?;
        match policy {
            Some(policy) => Ok((policy, notes)),
            None => unreachable!("a source without a tree has an error"),
        }
    }
}

/// A cap with its position.
pub(crate) type ReadCaps = PerPoint<PerDirection<Field<Bandwidth>>>;

/// Reads a checked tree. The result is a policy only if no error was reported.
fn read(root: &Node, written: &Written, problems: &mut Problems) -> Policy {
    let sharing = sharing(root).value().unwrap_or_default();
    let network = NetworkReader::new(problems, None).contention_points(root.get("network"));
    let bundles = (root.get("services"), root.get("tenants"));
    let (services, tenants) = services::read(bundles, sharing, &network, problems);
    if services.is_empty() && problems.count() == 0 {
        let hint =
            "name the traffic that shares the network, for example `services: { web: { match: [ { port: 80 } ] } }`";
        problems.error(root.span, "the policy has no services and no tenants", hint);
    }
    let tunnels = tunnels::read(root.get("tunnels"), problems);
    let read_caps = caps(root.get("caps"));
    overlap::check(&services, problems);
    levels::socket_filters(&services, problems);
    impossible::note(&services, &tunnels, problems);
    let levels = levels::read(root.get("levels"), &network, &services, problems);
    let reserved = levels.as_ref().and_then(|levels| levels.reserved);
    let tenant_queues = tenants::queues(root.get("tenant-queues"), problems);
    tenants::note_queues(root, network.network.offer(), problems);
    tenants::check_paths(root, &tenant_queues, &network, problems);
    let credits = credits::read(root, &network, &services, problems);
    admission::check(&network, &services, &read_caps, (reserved, credits.as_ref()), problems);
    if problems.count() == 0 {
        effect::note(&network, &services, &read_caps, problems);
    }

    let mut caps = Caps::default();
    for point in ContentionPoint::ALL {
        for direction in Direction::ALL {
            caps[point][direction] = read_caps[point][direction].value().unwrap_or(Bandwidth::UNLIMITED);
        }
    }
    let receive_minimum = admission::largest_receive_minimum(&services).map(|span| problems.place(span));
    let written = Written { receive_minimum, ..written.clone() };
    let services = Services::new(services.into_iter().map(|read| read.service).collect());
    let ReadNetwork { network, wiring, .. } = network;
    let digest = digest::of(sharing, &network, (&services, &tunnels), &caps);
    let levels = levels.map(|levels| levels.levels);
    let policy = Policy {
        sharing,
        network,
        wiring,
        services,
        tunnels,
        caps,
        levels,
        credits,
        tenants,
        tenant_queues,
        digest,
        written,
    };
    tenants::check_dscps(root, &policy, problems);
    policy
}

/// Reads `sharing:` of the file or of a service.
fn sharing(node: &Node) -> Field<Sharing> {
    node.field("sharing", |text| scalar::word(text, "", SHARING_KEYWORDS).map(|i| [Sharing::Add, Sharing::Fill][i]))
}

fn caps(node: Option<&Node>) -> ReadCaps {
    let cap = |point: ContentionPoint| rates(node.and_then(|node| node.get(point.name())));
    PerPoint {
        machine: cap(ContentionPoint::Machine),
        rack: cap(ContentionPoint::Rack),
        fabric: cap(ContentionPoint::Fabric),
    }
}
