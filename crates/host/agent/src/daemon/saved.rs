//! The last settings of tenants on disk, for an agent that starts again.
//!
//! Problem: an agent that starts, and reaches no controller, would give its tenants no guarantee and no tag. Approach:
//! settings are saved before they are confirmed; an agent that starts uses them if they are of the same policy, and
//! limits all of its tenants until the controller has sent others: a move may have begun or ended meanwhile
//! (docs/design/binding.md, *Machines that are off*).
//!
//! Worked example: `{"format":1,"policy":"0f3c…","values":62,"tenants":[{"tenant":"red","dscp":12,"reserved_bps":300000000}]}`.

use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use weir_fabric::state::replace;
use weir_linux::tags::HostTags;
use weir_policy::{Policy, TenantAtMachine};
use weir_units::{Bandwidth, ServiceId, TenantId};

/// The version of the file. Files of agents before 0.2.0 have none and are of version 1.
const FORMAT: u32 = 1;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    /// [`FORMAT`].
    #[serde(default = "first_format")]
    format: u32,
    /// The policy's fingerprint.
    policy: String,
    /// The DSCP values that tenants can have, one bit for each.
    values: u64,
    tenants: Vec<SavedTenant>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedTenant {
    tenant: String,
    dscp: u8,
    reserved_bps: u64,
}

fn first_format() -> u32 {
    1
}

/// The version alone, which is checked before other keys.
#[derive(Deserialize)]
struct FormatOnly {
    #[serde(default = "first_format")]
    format: u32,
}

fn fingerprint(policy: &Policy) -> String {
    format!("{:016x}", policy.digest())
}

/// The settings as a text; limits are not part of it.
pub(super) fn text(policy: &Policy, shares: &[TenantAtMachine], tags: &HostTags) -> String {
    let tenant = |own: &TenantAtMachine| {
        let tenant = &policy.tenants()[own.tenant.index()];
        let tag = tags.tenants.iter().find(|(service, _)| *service == tenant.service);
        let dscp = tag.map_or(0, |(_, dscp)| *dscp);
        SavedTenant { tenant: tenant.name.clone(), dscp, reserved_bps: own.reserved.bps() }
    };
    let tenants = shares.iter().map(tenant).collect();
    let saved = Saved { format: FORMAT, policy: fingerprint(policy), values: tags.values, tenants };
    serde_json::to_string(&saved).expect("plain data is JSON")
}

/// Saves a text so that it survives a crash of the host.
pub(super) fn save(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    replace::write_durably(path, text.as_bytes())
}

/// The saved settings, with all tenants limited; `None` where there are none of this policy. Settings that no agent of
/// this version saved are an error.
pub(super) fn load(path: &Path, policy: &Policy) -> io::Result<Option<(Vec<TenantAtMachine>, HostTags)>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let FormatOnly { format } = serde_json::from_slice(&text).map_err(io::Error::other)?;
    if format != FORMAT {
        return Err(io::Error::other(format!("a file of format {format}, and this program reads format {FORMAT}")));
    }
    let saved: Saved = serde_json::from_slice(&text).map_err(io::Error::other)?;
    if saved.policy != fingerprint(policy) {
        return Ok(None);
    }
    let (mut shares, mut tags) = (Vec::new(), HostTags { tenants: Vec::new(), values: saved.values });
    for own in saved.tenants {
        let known = policy.tenants().iter().position(|tenant| tenant.name == own.tenant);
        let at = known.filter(|_| own.dscp < 64).ok_or_else(|| {
            io::Error::other(format!(
                "`{}` is not a tenant of the policy, or {} not a DSCP value",
                own.tenant, own.dscp
            ))
        })?;
        let reserved = Bandwidth::from_bps(own.reserved_bps).min(Bandwidth::MAX);
        let service: ServiceId = policy.tenants()[at].service;
        shares.push(TenantAtMachine { tenant: TenantId(at as u32), reserved, limited: true });
        tags.tenants.push((service, own.dscp));
    }
    Ok(Some((shares, tags)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(port: u16) -> Policy {
        let text = format!(
            "weir: 1\nnetwork:\n  nic: 1Gb/s\n  racks: {{ r1: {{ uplink: 1Gb/s, machines: [m1] }} }}\n  slots: 4\n  \
             switches: {{ queues: 3, scheduler: weighted }}\ntenants:\n  \
             blue: {{ vms: 2, bandwidth: 100Mb/s, match: [ {{ port: {port} }} ] }}\n  \
             red: {{ vms: 2, bandwidth: 300Mb/s, match: [ {{ port: 1 }} ] }}\n"
        );
        Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}")).0
    }

    #[test]
    fn saved_settings_are_of_one_policy_and_limit_all_tenants() {
        let (directory, policy) = (tempfile::tempdir().expect("a directory"), policy(2));
        let path = directory.path().join("state/tenants-m1.json");
        assert_eq!(load(&path, &policy).expect("none"), None);
        let red = TenantAtMachine { tenant: TenantId(1), reserved: Bandwidth::from_mbps(300), limited: false };
        let tags = HostTags { tenants: vec![(policy.tenants()[1].service, 12)], values: 62 };
        save(&path, &text(&policy, &[red], &tags)).expect("saved");
        let (shares, again) = load(&path, &policy).expect("read").expect("of this policy");
        assert_eq!((shares, again), (vec![TenantAtMachine { limited: true, ..red }], tags.clone()));
        // Agents before 0.2.0 saved no version.
        let saved = text(&policy, &[red], &tags);
        std::fs::write(&path, saved.replace("\"format\":1,", "")).expect("written");
        let (shares, _) = load(&path, &policy).expect("read").expect("of this policy");
        assert_eq!(shares.len(), 1);
        std::fs::write(&path, saved.replace("\"format\":1,", "\"format\":2,")).expect("written");
        let error = load(&path, &policy).expect_err("of a later version");
        assert!(error.to_string().contains("format 2"), "{error}");
        save(&path, &saved).expect("saved");
        // Tenants of another policy may be others, whatever they are called.
        assert_eq!(load(&path, &self::policy(3)).expect("read"), None);
        std::fs::write(&path, "{").expect("written");
        load(&path, &policy).expect_err("damaged");
    }
}
