//! Limiters at hosts at which a service's messages may wait.
//!
//! Problem: the bound counts the queue of a port. Where a host limits a service, or all its services
//! together, messages wait at that limiter first, behind their own service's data or that of
//! others. A load below the limit does not prevent it: ceilings divide a rack's maximum among
//! instances, and one instance may have the messages of all. Approach: name these limiters. No
//! bound is derived for them.
//!
//! - The machine cap, where it is lower than an interface: it holds at the sender, and the receive
//!   meters of a receiver pass it on to the senders.
//! - Maxima of the service, of those that it is nested in, and of those nested in it.
//!
//! Worked example: eight machines of 1 Gb/s, messages of 20 kB at 200 Mb/s together, which are
//! guaranteed. With `caps: { machine: 90Mb/s }` beside UDP one of a hundred takes 28 ms in the
//! simulator, and more under `rack: { max: 500Mb/s }` for the messages' own service, where the
//! queue's bound is 12.64 ms.
//!
//! Source: [`crate::burst_bound`] (limits).

use std::fmt;
use weir_policy::Policy;
use weir_units::{Bandwidth, ContentionPoint, Direction, ServiceId};

/// The limits on a service's messages at hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limiter {
    /// `caps.machine`, in the direction where it is lower.
    Cap(Bandwidth),
    /// The maxima, in words.
    Maxima(Vec<String>),
}

impl fmt::Display for Limiter {
    /// The clause of a verdict.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cap(cap) => write!(f, "the machine cap of {cap} limits each host")?,
            Self::Maxima(maxima) => {
                let (all, those) = (maxima.len(), &maxima[..maxima.len().min(4)]);
                let more = if all > those.len() { format!(" and {} more", all - those.len()) } else { String::new() };
                write!(f, "its maxima ({}{more}) limit it at each host", those.join(", "))?;
            }
        }
        f.write_str(": messages may wait at these limiters, which the bound does not count")
    }
}

/// The limiters of a service's messages. `at` is whether a point is planned for: the machine cap
/// belongs to the machines.
pub fn limiters(policy: &Policy, service: ServiceId, at: impl Fn(ContentionPoint) -> bool) -> Vec<Limiter> {
    let cap = machine_cap(policy).filter(|_| at(ContentionPoint::Machine)).map(Limiter::Cap);
    let maxima = maxima(policy, service);
    cap.into_iter().chain((!maxima.is_empty()).then_some(Limiter::Maxima(maxima))).collect()
}

/// The machine cap, where it is lower than an interface.
fn machine_cap(policy: &Policy) -> Option<Bandwidth> {
    let cap = policy.caps()[ContentionPoint::Machine];
    let limits = |direction: &Direction| {
        policy.network().machines().iter().any(|machine| cap[*direction] < machine.nic()[*direction])
    };
    Direction::ALL.into_iter().filter(limits).map(|direction| cap[direction]).min()
}

/// The maxima that may limit a service: its own, those of the services that it is nested in, and
/// those of the services nested in it, each as `30 Gb/s at the rack`.
pub fn maxima(policy: &Policy, service: ServiceId) -> Vec<String> {
    let above = |of: ServiceId| std::iter::successors(Some(of), |&at| policy.services().get(at).parent());
    let nested = policy.services().iter().map(|(id, _)| id);
    let nested = nested.filter(|&id| id != service && above(id).any(|over| over == service));
    let mut maxima = Vec::new();
    for id in above(service).chain(nested) {
        for point in ContentionPoint::ALL {
            let max = Direction::ALL.map(|direction| policy.services().get(id).share(point, direction).max);
            let least = max[0].min(max[1]);
            let text = format!("{least} at the {point}");
            if !least.is_unlimited() && !maxima.contains(&text) {
                maxima.push(text);
            }
        }
    }
    maxima
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(caps: &str, web: &str, planned: &[ContentionPoint]) -> Vec<String> {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 1Gb/s, racks: {{ r: {{ uplink: 4Gb/s, machines: [m1, m2] }} }}, machines: {{ \
             m2: {{ nic: 500Mb/s }} }} }}\nservices:\n  p:\n    fabric: {{ max: 3Gb/s }}\n    services:\n      web: {{ \
             match: [ {{ port: 80 }} ]{web} }}\n      other: {{ match: [ {{ port: 81 }} ] }}\n  free: {{ match: [ {{ \
             port: 82 }} ] }}\n{caps}"
        );
        let (policy, _) = Policy::parse("policy.yaml", &text).expect("sound");
        let of = |name| policy.services().iter().find(|(_, service)| service.path() == name).expect("it is there").0;
        let found = |name| limiters(&policy, of(name), |point| planned.contains(&point));
        let shown = |limiter: &Limiter| limiter.to_string().split(':').next().unwrap_or_default().to_owned();
        let nested = found("p/web");
        // A service above is limited by the maxima of those nested in it as well.
        assert_eq!(found("p").len(), nested.len());
        assert_eq!(found("free").len(), usize::from(nested.len() == 2));
        nested.iter().map(shown).collect()
    }

    #[test]
    fn machine_caps_and_maxima_limit_at_hosts() {
        let all = ContentionPoint::ALL;
        let fabric = "its maxima (3 Gb/s at the fabric) limit it at each host";
        assert_eq!(found("", "", &all), [fabric]);
        let cap = "the machine cap of 900 Mb/s limits each host";
        assert_eq!(found("caps: { machine: 900Mb/s }\n", "", &all), [cap, fabric]);
        assert_eq!(found("caps: { machine: { rx: 900Mb/s } }\n", "", &all), [cap, fabric]);
        assert_eq!(found("caps: { machine: 900Mb/s }\n", "", &[ContentionPoint::Rack]), [fabric]);
        let own =
            "its maxima (400 Mb/s at the machine, 1 Gb/s at the rack, 3 Gb/s at the fabric) limit it at each host";
        let maxima = ", machine: { tx: { max: 400Mb/s } }, rack: { max: 1Gb/s }";
        assert_eq!(found("", maxima, &all), [own]);
    }
}
