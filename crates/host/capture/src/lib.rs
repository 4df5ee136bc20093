//! A bundle of a host's state for a bug report, without secrets.
//!
//! Problem: a report needs the state of kernel, agent and policy, and a copy of all of it has keys and passwords.
//! Approach: three barriers. Only the files and commands of [`sources`] are read (an allow-list), and key files are
//! not among them. [`redact`] then removes from all texts what has the form of a secret, or what one of the
//! texts names a secret. [`bundle`] writes a file that only its owner can read, with a list of its content.
//!
//! Worked example: the journal has `password=mellon77` in one line and `mellon77` in another one; the bundle has
//! `[redacted]` in both.

pub mod anonymise;
pub mod bundle;
pub mod redact;
pub mod sources;

pub use anonymise::Anonymiser;
pub use bundle::{Bundle, File};
pub use redact::Redactor;
pub use sources::{Item, Request};
