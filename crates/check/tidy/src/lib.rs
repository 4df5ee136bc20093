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
//! | [`wording`] | descriptions without a noun, names of tests that are clauses, aliases of keys |
//! | [`length`] | lines above 120 columns, C functions above 70 lines, files above 700 lines, module docs above 45 |
//! | [`links`] | links and paths of the tree that lead nowhere |
//! | [`contents`] | pages of docs/SUMMARY.md that docs/README.md does not link |
//! | [`arrows`] | dependencies between crates against the direction of the layers |
//! | [`versions`] | versions other than those of docs/reference/compatibility.md and CHANGELOG.md |
//! | [`messages`] | quoted messages in docs/how-to/troubleshoot.md that no source has |
//! | [`wire`] | tables of docs/reference/wire.md that differ from those in the code |
//!
//! The length of Rust functions is clippy's `too_many_lines`, with the same bound; an exception is
//! an `expect` with its reason.
//!
//! Worked example: `docs/reference/policy.md:7: 131 columns, at most 120`.

pub mod arrows;
pub mod contents;
pub mod length;
pub mod links;
pub mod messages;
pub mod terms;
pub mod tree;
pub mod versions;
pub mod wire;
pub mod wording;
