//! Checks of the source tree that no compiler makes.
//!
//! Problem: a term that was replaced, a line that no editor shows whole and a link to a file that
//! was renamed come back one by one unless a test refuses them. Approach: the test `tree` reads
//! every tracked text file and reports each violation as `path:line: message`; each check is a
//! function of one file.
//!
//! | module | refuses |
//! |---|---|
//! | [`terms`] | a term that GLOSSARY.md replaces by another, with the replacement |
//! | [`length`] | lines above 120 columns, C functions above 70 lines, files above 700 lines |
//! | [`links`] | Markdown links and paths in back quotes that lead nowhere |
//!
//! The length of Rust functions is clippy's `too_many_lines`, with the same bound; an exception is
//! an `expect` with its reason.
//!
//! Worked example: `docs/policy.md:7: "sighting": write "liveness"`.

pub mod length;
pub mod links;
pub mod terms;
pub mod tree;
