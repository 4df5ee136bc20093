//! A policy with one value changed at run time.
//!
//! Problem: an operator changes a cap or a share while services run, and the new policy must be
//! checked as strictly as a file, and have the same machines and services, since brokers use their
//! ids. Approach: a [`Policy`] keeps the text that it was read from; [`Policy::with`] reads that
//! text again with the value put in its place, as `weir sim --set` does with scenarios, and refuses
//! changes of more than shares.
//!
//! Worked example:
//!
//! ```
//! use weir_policy::Policy;
//! use weir_units::{Bandwidth, ContentionPoint, Direction};
//!
//! let text = "weir: 1\n\
//!     network: { nic: 1Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1] } } }\n\
//!     services: { tenant: { match: [ { port: 80 } ] } }\n";
//! let (policy, _) = Policy::parse("policy.yaml", text)?;
//! let changed = policy.with("services.tenant.fabric.max=50Mb/s")?;
//! let tenant = changed.services().named("tenant").expect("it is in the file");
//! let share = changed.services().get(tenant).share(ContentionPoint::Fabric, Direction::Tx);
//! assert_eq!(share.max, Bandwidth::from_mbps(50));
//!
//! let errors = policy.with("services.tenant.fabric.mx=50Mb/s").unwrap_err();
//! assert_eq!(errors.all()[0].hint(), "did you mean `max`?");
//! # Ok::<(), weir_document::Diagnostics>(())
//! ```
//!
//! Source: Parley §6.3 (Fig 13: the caps of a service change while it runs).

use crate::model::{Policy, Service, Services};
use std::fmt;
use std::sync::Arc;
use weir_document::{Diagnostic, Diagnostics, Problems, Source, Span, quote, tree};

/// The source of a policy: a text and the values that were put into it. All of them are equal,
/// since it is no part of a policy's content.
#[derive(Clone)]
pub(crate) struct Written {
    pub(crate) source: Arc<Source>,
    /// Paths and values, in the order in which they were set.
    pub(crate) settings: Vec<(String, String)>,
    /// The position of the largest minimum of a machine's receiving side.
    pub(crate) receive_minimum: Option<(Arc<Source>, Span)>,
}

impl Written {
    pub(crate) fn new(source: &Arc<Source>) -> Self {
        Self { source: Arc::clone(source), settings: Vec::new(), receive_minimum: None }
    }
}

impl PartialEq for Written {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Written {}

impl fmt::Debug for Written {
    /// Without the text, which may have megabytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Written").field("name", &self.source.name()).field("settings", &self.settings).finish()
    }
}

impl Policy {
    /// This policy with the value at one path changed: `services.tenant.fabric.max=50Mb/s`. A path
    /// is keys with dots and indices of lists in brackets; mappings missing on the way are added.
    ///
    /// Changes follow each other: one at the same path replaces the one before.
    ///
    /// # Errors
    /// The errors of the file with this value, with the setting named; and a change of the network,
    /// of the set of services, of their filters, or of the ports of tunnels: these do not change at run time.
    pub fn with(&self, setting: &str) -> Result<Self, Diagnostics> {
        let Some((path, value)) = setting.split_once('=') else {
            return Err(self.refuse(
                format!("{} is not a setting", quote(setting)),
                "write a path and a value, for example `services.web.rack.max=5Gb/s`",
            ));
        };
        self.with_all([(path.trim().to_owned(), value.trim().to_owned())])
    }

    /// This policy with the values at several paths changed together.
    ///
    /// # Errors
    /// As [`Policy::with`].
    pub fn with_all(&self, settings: impl IntoIterator<Item = (String, String)>) -> Result<Self, Diagnostics> {
        let mut written = self.written.clone();
        let mut last = String::new();
        for (path, value) in settings {
            last = format!("{path}={value}");
            written.settings.retain(|(known, _)| *known != path);
            written.settings.push((path, value));
        }
        let (changed, _) = Self::from_written(written)?;
        if (&changed.network, &changed.wiring) != (&self.network, &self.wiring) {
            return Err(self.refuse(
                format!("{last}: the network would be another one"),
                "racks, machines and their speeds do not change at run time; change shares or caps",
            ));
        }
        if !same_services(&self.services, &changed.services) {
            return Err(self.refuse(
                format!("{last}: the services or their filters would be other ones"),
                "which services there are does not change at run time; change shares or caps",
            ));
        }
        if changed.tunnels != self.tunnels {
            return Err(self.refuse(
                format!("{last}: the ports of tunnels would be other ones"),
                "ports by which packets are classified do not change at run time; change shares or caps",
            ));
        }
        Ok(changed)
    }

    fn refuse(&self, cause: String, hint: &str) -> Diagnostics {
        Diagnostics::one(Diagnostic::error(&self.written.source, Span::default(), cause, hint))
    }

    /// Problems of this policy's file that are found after it was read.
    pub fn problems(&self) -> Problems {
        Problems::new(&self.written.source)
    }

    /// A remark at a path of keys in this policy's file.
    pub fn note(&self, path: &[&str], cause: &str, hint: &str) -> Diagnostic {
        Diagnostic::note(&self.written.source, self.span_of(path), cause, hint)
    }

    /// The position of the value at a path of keys in the file; of the last key on the way that is there. The start of
    /// the file if the path begins with none.
    pub fn span_of(&self, path: &[&str]) -> Span {
        let mut ignored = Problems::new(&self.written.source);
        let Some(root) = tree::parse(&self.written.source, &mut ignored) else { return Span::default() };
        let mut at = (&root, Span::default());
        for key in path {
            let Some(node) = at.0.get(key) else { break };
            at = (node, node.span);
        }
        at.1
    }
}

/// Whether ids mean the same and packets are classified alike.
fn same_services(a: &Services, b: &Services) -> bool {
    let same = |a: &Service, b: &Service| (&a.path, &a.matches, a.order) == (&b.path, &b.matches, b.order);
    a.all().len() == b.all().len() && a.all().iter().zip(b.all()).all(|(a, b)| same(a, b))
}
