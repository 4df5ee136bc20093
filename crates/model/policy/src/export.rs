//! A policy as JSON.
//!
//! Problem: a program that makes policies from an inventory, or compares them, has a library for JSON and none for the
//! file that people write. Approach: the tree of the file with the values that were set since, as JSON; then read the
//! text again. Unless the result is this policy with the same fingerprint, nothing is given out.
//!
//! Worked example:
//!
//! ```
//! use weir_policy::Policy;
//!
//! let text = "weir: 1\n\
//!     network: { nic: 1Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1] } } }\n\
//!     services: { web: { match: [ { port: 80 } ] } } # all of it\n";
//! let (policy, _) = Policy::parse("policy.yaml", text)?;
//! let json = policy.to_json_text()?;
//! assert!(json.contains("\"nic\": \"1Gb/s\""));
//! assert_eq!(Policy::parse("policy.json", &json)?.0.digest(), policy.digest());
//! # Ok::<(), weir_document::Diagnostics>(())
//! ```

use crate::language::POLICY;
use crate::model::Policy;
use weir_document::shape::Shape;
use weir_document::{Diagnostic, Diagnostics, Problems, Span, set_by, tree};

impl Policy {
    /// The text of this policy in JSON, without comments, which is read as the same policy.
    ///
    /// # Errors
    /// A policy that is too large in this notation.
    pub fn to_json_text(&self) -> Result<String, Diagnostics> {
        let source = &self.written.source;
        let mut problems = Problems::new(source);
        let root = tree::parse(source, &mut problems).map(|mut root| {
            for (path, value) in &self.written.settings {
                set_by("", &mut root, &Shape::Record(&POLICY), path, value, &mut problems);
            }
            root
        });
        let (root, _) = problems.finish(root)?;
        let text = root.map(|root| format!("{:#}\n", root.to_json())).unwrap_or_default();
        let (again, _) = Self::parse(&format!("{} as JSON", source.name()), &text)?;
        if again != *self || again.digest() != self.digest() {
            let cause = "the policy is another one in JSON";
            let hint = "use the file itself, and report this as a fault of Weir";
            return Err(Diagnostics::one(Diagnostic::error(source, Span::default(), cause, hint)));
        }
        Ok(text)
    }
}
