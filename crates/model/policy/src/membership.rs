//! The control group in which a process is a service's: [`Policy::cgroup_of`], [`Policy::check_cgroup`].
//!
//! Problem: a program that is started for a service has to be in a group that the service's filters match, and no
//! filter of another service may take its packets before. Approach: of the service's filters one that names nothing but
//! a control group is preferred, since packets match it on every port. A refusal has its position in the policy's file.
//!
//! Worked example: for `web: { match: [ { port: 80 }, { cgroup: /weir/web-* } ] }` the glob is `/weir/web-*`.

use crate::cgroup::CgroupGlob;
use crate::model::{Match, Policy};
use weir_document::{Diagnostic, Diagnostics, Node, Problems, Span, Suggester, quote, tree};

impl Policy {
    /// A glob over the control groups of a service, by the service's path.
    ///
    /// # Errors
    /// If there is no such service, its children have its traffic, or none of its filters names a control group.
    pub fn cgroup_of(&self, service: &str) -> Result<&CgroupGlob, Diagnostics> {
        let services = self.services();
        let Some(id) = services.named(service) else {
            let known = services.leaves().map(|(_, service)| service.path());
            let hint = "name a service of the policy, nested ones as `parent/child`";
            let hint = Suggester::default().hint(service, known, hint);
            return Err(self.refusal(None, format!("there is no service {} in the policy", quote(service)), hint));
        };
        if !services.get(id).is_leaf() {
            let children = services.get(id).children().iter().map(|child| format!("`{}`", services.get(*child).path()));
            let hint = format!("name one of them: {}", children.collect::<Vec<_>>().join(", "));
            let cause = format!("service `{service}` has no traffic of its own: its children have");
            return Err(self.refusal(Some(service), cause, hint));
        }
        let filters = services.get(id).matches();
        let mut by_cgroup = filters.iter().filter(|filter| filter.cgroup.is_some());
        let preferred = by_cgroup.clone().find(|filter| is_alone(filter)).or_else(|| by_cgroup.next());
        preferred.and_then(|filter| filter.cgroup.as_ref()).ok_or_else(|| {
            let name = service.replace('/', "-");
            self.refusal(
                Some(service),
                format!("no filter of service `{service}` names a control group"),
                format!("add one to its `match`, for example `{{ cgroup: /weir/{name} }}`"),
            )
        })
    }

    /// Refuses a control group, by its path, in which packets of all ports belong to another service than `service`.
    ///
    /// # Errors
    /// If a filter that is tried before those of the service includes the group.
    pub fn check_cgroup(&self, service: &str, group: &str) -> Result<(), Diagnostics> {
        let includes = |filter: &Match| filter.cgroup.as_ref().is_some_and(|glob| glob.includes(group));
        let order = self.services().classification_order();
        let first = order
            .iter()
            .find(|(id, filter)| includes(filter) && (is_alone(filter) || self.services().get(*id).path() == service));
        let taken = first.map(|(id, _)| self.services().get(*id).path()).filter(|first| *first != service);
        taken.map_or(Ok(()), |other| {
            let cause = format!("packets of control group {} belong to service `{other}`", quote(group));
            Err(self.refusal(Some(service), cause, format!("write a lower `order` on `{service}` than on `{other}`")))
        })
    }

    /// A refusal at the filters of a service, or at all services.
    fn refusal(&self, service: Option<&str>, cause: String, hint: String) -> Diagnostics {
        let source = &self.written.source;
        let root = tree::parse(source, &mut Problems::new(source));
        let services = root.as_ref().and_then(|root| root.get("services"));
        let span = services.map_or(Span::default(), |services| service.map_or(services.span, |s| place(services, s)));
        Diagnostics::one(Diagnostic::error(source, span, cause, hint))
    }
}

/// Whether a filter names a control group and nothing else.
fn is_alone(filter: &Match) -> bool {
    Match { cgroup: None, ..filter.clone() } == Match::default()
}

/// The position of a service's filters, or of the service.
fn place(services: &Node, path: &str) -> Span {
    let mut parts = path.split('/');
    let first = parts.next().and_then(|part| services.get(part));
    let node = parts.try_fold(first, |node, part| {
        let below = node.and_then(|node| node.get("services")).and_then(|services| services.get(part));
        below.is_some().then_some(below)
    });
    node.flatten().map_or(services.span, |node| node.get("match").unwrap_or(node).span)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        let text = "weir: 1\n\
            network: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m] } } }\n\
            services:\n\
            \x20 web: { match: [ { cgroup: /a/web, port: 80 }, { cgroup: /weir/web-* } ] }\n\
            \x20 db: { match: [ { cgroup: \"weir/*\", port: 5432 } ], order: 1 }\n\
            \x20 rest:\n\
            \x20   match: [ { port: 81 } ]\n\
            \x20 all: { services: { batch: { match: [ { cgroup: /batch } ] } } }\n\
            \x20 below: { match: [ { cgroup: /batch/x } ], order: 1 }\n";
        Policy::parse("policy.yaml", text).expect("valid").0
    }

    fn refusal(result: Result<impl std::fmt::Debug, Diagnostics>) -> (String, String, String) {
        let refused = result.expect_err("refused");
        let first = &refused.all()[0];
        let place = first.position();
        (format!("{}:{}", place.line, place.column), first.cause().to_owned(), first.hint().to_owned())
    }

    #[test]
    fn filter_without_other_fields_is_preferred() {
        let policy = policy();
        let glob = |service| policy.cgroup_of(service).expect("it has a filter").as_str();
        assert_eq!([glob("web"), glob("db"), glob("all/batch")], ["/weir/web-*", "/weir/*", "/batch"]);
    }

    #[test]
    fn service_without_a_group_is_refused_with_its_position() {
        let policy = policy();
        let text = |(place, cause, hint): (&str, &str, &str)| (place.to_owned(), cause.to_owned(), hint.to_owned());
        for (service, expected) in [
            (
                "rest",
                (
                    "7:12",
                    "no filter of service `rest` names a control group",
                    "add one to its `match`, for example `{ cgroup: /weir/rest }`",
                ),
            ),
            (
                "all",
                ("8:8", "service `all` has no traffic of its own: its children have", "name one of them: `all/batch`"),
            ),
            ("wbe", ("4:3", "there is no service `wbe` in the policy", "did you mean `web`?")),
        ] {
            let (place, cause, hint) = refusal(policy.cgroup_of(service));
            let (expected_place, expected_cause, expected_hint) = text(expected);
            assert_eq!((place, cause), (expected_place, expected_cause));
            assert!(hint.starts_with(&expected_hint), "{hint}");
        }
    }

    #[test]
    fn group_of_another_service_is_refused() {
        let policy = policy();
        assert!(policy.check_cgroup("web", "/weir/web-1").is_ok(), "filters with ports take some packets only");
        assert!(policy.check_cgroup("all/batch", "/batch/x").is_ok());
        let (place, cause, hint) = refusal(policy.check_cgroup("below", "/batch/x"));
        assert_eq!(place, "9:19");
        assert_eq!(cause, "packets of control group `/batch/x` belong to service `all/batch`");
        assert_eq!(hint, "write a lower `order` on `below` than on `all/batch`");
    }
}
