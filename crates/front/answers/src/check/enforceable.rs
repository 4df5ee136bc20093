//! Whether agents and forwarders enforce a policy, by the functions that they call themselves.

use crate::text;
use std::collections::BTreeSet;
use weir_datapath::{Unenforceable, fits, fits_forwarders, refusal_anywhere};
use weir_document::scalar::Refusal;
use weir_document::{Diagnostic, Diagnostics};
use weir_policy::{Policy, glob};

/// The reason why agents or forwarders refuse a policy.
pub(super) struct Obstacle {
    /// The interface on which they do; empty for those of most names.
    interface: String,
    error: Unenforceable,
}

/// The first obstacle on an interface, or without one on those that the policy's globs suggest.
pub(super) fn obstacle(policy: &Policy, interface: Option<&str>) -> Option<Obstacle> {
    let (interface, error) = match interface {
        Some(name) => {
            let refused = fits_forwarders(policy).and_then(|()| fits(policy, name).map(drop));
            (name.to_owned(), refused.err()?)
        }
        None => refusal_anywhere(policy)?,
    };
    Some(Obstacle { interface, error })
}

impl Obstacle {
    /// As an error of the policy.
    pub(super) fn error(&self, policy: &Policy) -> Diagnostics {
        let mut problems = policy.problems();
        let hint = format!("{}; for `weir plan` alone, check with --for-planning", self.error.hint());
        problems.error(policy.span_of(&self.path(policy)), self.cause(), hint);
        problems.into_diagnostics().unwrap_or_else(|| unreachable!("an error was reported"))
    }

    /// As a remark.
    pub(super) fn note(&self, policy: &Policy) -> Diagnostic {
        policy.note(&self.path(policy), &self.cause(), self.error.hint())
    }

    fn cause(&self) -> String {
        let subject = match &self.error {
            Unenforceable::TooManyAtForwarders { .. } => "forwarders refuse this policy".to_owned(),
            Unenforceable::Filters(_) if !self.interface.is_empty() => {
                format!("the agent of an interface `{}` refuses these filters", self.interface)
            }
            Unenforceable::Filters(_) => "agents refuse these filters".to_owned(),
            Unenforceable::TooManyServices { .. } => "agents refuse this policy".to_owned(),
        };
        format!("{subject}: {}", self.error)
    }

    /// The keys of the filters that the error is about, or of all services.
    fn path<'a>(&self, policy: &'a Policy) -> Vec<&'a str> {
        let path = self.error.service().map(|service| policy.services().get(service).path());
        let is_tenant = path.is_some_and(|path| policy.tenants().iter().any(|tenant| tenant.name == path));
        match path {
            Some(path) if is_tenant => vec!["tenants", path, "match"],
            Some(path) => path.split('/').flat_map(|name| ["services", name]).chain(["match"]).collect(),
            None => vec!["services"],
        }
    }
}

/// A remark on the globs that hold on this interface for packets of guests only.
pub(super) fn guest_remark(policy: &Policy, name: &str) -> Option<Diagnostic> {
    let leaves = || policy.services().leaves().map(|(_, service)| service);
    let globs = leaves().flat_map(|service| service.matches()).filter_map(|filter| filter.interface.as_deref());
    let globs: BTreeSet<&str> = globs.filter(|glob| !glob::matches(glob, name)).collect();
    let first = *globs.first()?;
    let globs: Vec<String> = globs.into_iter().map(|glob| format!("`{glob}`")).collect();
    let (hold, each) = if globs.len() == 1 { ("holds", "it") } else { ("hold", "them") };
    let cause = format!(
        "{} {hold} on the agent of `{name}` for packets of guests (tap and veth interfaces) only",
        text::list(&globs, 3)
    );
    let hint =
        format!("for the packets of `{name}` itself write its name in place of {each}, or leave `interface` out");
    let of_first =
        leaves().find(|service| service.matches().iter().any(|filter| filter.interface.as_deref() == Some(first)));
    let path = of_first.map_or("", |service| service.path());
    let keys: Vec<&str> = path.split('/').flat_map(|name| ["services", name]).chain(["match"]).collect();
    Some(policy.note(&keys, &cause, &hint))
}

/// Reads the name of an interface: at most 15 bytes without blanks, `/` and `:`, not `.` or `..`, as Linux has them
/// (`dev_valid_name` in net/core/dev.c), and no glob.
///
/// # Errors
/// Other texts.
pub fn interface_name(text: &str) -> Result<String, Refusal> {
    let refused = |cause: &str| Err(Refusal::new(cause, "write a name such as `eth0`"));
    let is_letter = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | ':' | '*' | '?');
    match text {
        "." | ".." => refused("Linux has no interface of this name, since it has directories of interfaces by name"),
        _ if !(1..=15).contains(&text.len()) || !text.chars().all(is_letter) => {
            refused("it is not the name of an interface")
        }
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_interfaces_are_those_of_linux() {
        for name in ["eth0", "eth0.7", "...", ".a", "a", "fifteen-letters"] {
            assert_eq!(interface_name(name).as_deref(), Ok(name));
        }
        for (text, cause) in [
            (".", "Linux has no interface of this name"),
            ("..", "Linux has no interface of this name"),
            ("", "not the name of an interface"),
            ("sixteen-letters-", "not the name of an interface"),
            ("a/b", "not the name of an interface"),
            ("eth0:1", "not the name of an interface"),
            ("eth 0", "not the name of an interface"),
            ("eth*", "not the name of an interface"),
        ] {
            let refusal = interface_name(text).expect_err(text);
            assert!(refusal.cause.contains(cause) && refusal.hint.contains("`eth0`"), "{text}: {refusal:?}");
        }
    }
}
