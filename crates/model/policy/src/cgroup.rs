//! [`CgroupGlob`]: a set of control groups, by a glob over their paths.
//!
//! A path is read from the root of the cgroup2 hierarchy. `*` stands for any characters within one part of the path,
//! `?` for one; neither matches `/`. A glob includes the groups that it matches and all groups below them, since
//! processes of a service may be in groups of their own below its group.
//!
//! Worked example: `/system.slice/web-*` includes `/system.slice/web-1` and `/system.slice/web-1/worker`, but neither
//! `/system.slice` nor `/system.slice/a/web-1`.
//!
//! Source: Documentation/admin-guide/cgroup-v2.rst (hierarchy, paths in /proc/PID/cgroup).

use crate::glob;
use std::fmt;
use weir_document::quote;
use weir_document::scalar::Refusal;

/// limits.h: PATH_MAX with the zero at the end, NAME_MAX.
const PATH_MAX: usize = 4095;
const NAME_MAX: usize = 255;
const WILDCARDS: [char; 2] = ['*', '?'];

/// A glob over the paths of control groups.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupGlob(String);

impl CgroupGlob {
    /// Reads a glob; a `/` at the start may be omitted.
    ///
    /// # Errors
    /// If the text cannot be the path of a group below the root.
    pub fn new(text: &str) -> Result<Self, Refusal> {
        let refuse = |cause: &str, hint: &str| Err(Refusal::new(format!("{} {cause}", quote(text)), hint));
        let path = text.strip_prefix('/').unwrap_or(text);
        let example = "write a path from the root of the hierarchy, for example `/system.slice/web.service` or \
                       `/system.slice/web-*`";
        if path.len() >= PATH_MAX
            || path.contains(|c: char| c.is_control())
            || path.split('/').any(|part| part.len() > NAME_MAX)
        {
            return refuse("is not a path", example);
        }
        if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return refuse("has an empty part, `.` or `..` in it", example);
        }
        if path.contains("**") {
            return refuse(
                "has `**` in it",
                "write `*` for each part of the path; a glob includes all groups below those that it matches",
            );
        }
        Ok(Self(format!("/{path}")))
    }

    /// The glob, from the root on.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parts of the path.
    fn parts(&self) -> impl Iterator<Item = &str> {
        self.0[1..].split('/')
    }

    /// Whether it includes the group of this path (`/a/b`; the root is `/`): the group, or one above it, matches.
    pub fn includes(&self, path: &str) -> bool {
        let mut names = names(path);
        self.parts().all(|part| names.next().is_some_and(|name| glob::matches(part, name)))
    }

    /// The depth below the root of the groups that match: the number of parts.
    pub fn depth(&self) -> usize {
        self.parts().count()
    }

    /// Whether it matches the group of this path, and not one above it.
    pub fn matches(&self, path: &str) -> bool {
        names(path).count() == self.depth() && self.includes(path)
    }

    /// Whether a group below this path may match.
    pub fn leads_below(&self, path: &str) -> bool {
        let mut parts = self.parts();
        names(path).all(|name| parts.next().is_some_and(|part| glob::matches(part, name))) && parts.next().is_some()
    }

    /// Whether it names one group.
    pub fn is_literal(&self) -> bool {
        !self.0.contains(WILDCARDS)
    }

    /// The path of one group that matches: `name` in place of each `*`, and `0` in place of each `?`.
    ///
    /// # Errors
    /// If `name` cannot be in the name of a group.
    pub fn path_with(&self, name: &str) -> Result<String, Refusal> {
        let path = self.0.replace('*', name).replace('?', "0");
        let is_named = !name.is_empty() && !name.contains('/') && !name.contains(WILDCARDS);
        match Self::new(&path) {
            Ok(group) if is_named => Ok(group.0),
            _ => Err(Refusal::new(
                format!("{} cannot be in the name of a control group", quote(name)),
                "write letters, digits, `-`, `_` and `.`",
            )),
        }
    }

    /// The text before the first wildcard: all matching paths start with it.
    pub(crate) fn literal_start(&self) -> &str {
        self.0.find(WILDCARDS).map_or(&self.0, |end| &self.0[..end])
    }

    /// Whether two globs include some group in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.parts().zip(other.parts()).all(|(a, b)| glob::overlap(a, b))
    }

    /// Whether all groups that another glob includes are included. `false` for some pairs of which they are; see
    /// [`glob::covers`].
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let mut others = other.parts();
        self.parts().all(|part| others.next().is_some_and(|other| glob::covers(part, other)))
    }

    /// The groups that two overlapping globs have in common, for a message: of each part the one without wildcards, or
    /// the longer one.
    pub(crate) fn common(&self, other: &Self) -> Self {
        let (longer, shorter) =
            if self.parts().count() >= other.parts().count() { (self, other) } else { (other, self) };
        let mut others = shorter.parts();
        let narrower = |part: &str| match others.next() {
            Some(other) if part.contains(WILDCARDS) && (!other.contains(WILDCARDS) || other.len() > part.len()) => {
                format!("/{other}")
            }
            _ => format!("/{part}"),
        };
        Self(longer.parts().map(narrower).collect())
    }
}

impl fmt::Display for CgroupGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The names on the way from the root to a group.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(text: &str) -> CgroupGlob {
        CgroupGlob::new(text).unwrap_or_else(|refusal| panic!("{}", refusal.cause))
    }

    #[test]
    fn glob_includes_the_groups_below() {
        for (pattern, path, expected) in [
            ("/a", "/a", true),
            ("/a", "/a/b/c", true),
            ("/a", "/ab", false),
            ("/a", "/", false),
            ("/a/*", "/a", false),
            ("/a/*", "/a/b", true),
            ("/a/*/c", "/a/b/c/d", true),
            ("/a/*/c", "/a/b/d", false),
            ("/a*", "/a/b", true),
            ("/web-?.slice", "/web-1.slice", true),
            ("/web-?.slice", "/web-10.slice", false),
            ("/*", "/a*?", true),
            ("/é?", "/éü", true),
        ] {
            assert_eq!(glob(pattern).includes(path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn all_matching_groups_have_one_depth() {
        assert_eq!([glob("/a").depth(), glob("/a/*/c").depth()], [1, 3]);
        for (pattern, path, expected) in [
            ("/a", "/a", true),
            ("/a", "/a/b", false),
            ("/a", "/", false),
            ("/a/*", "/a/b", true),
            ("/a/*", "/a", false),
        ] {
            assert_eq!(glob(pattern).matches(path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn walk_descends_where_groups_may_match() {
        for (pattern, path, expected) in [
            ("/a/b*/c", "/", true),
            ("/a/b*/c", "/a", true),
            ("/a/b*/c", "/a/b1", true),
            ("/a/b*/c", "/a/x", false),
            ("/a/b*/c", "/a/b1/c", false),
            ("/a/b*/c", "/a/b1/c/d", false),
            ("/a/b*/c", "/b", false),
        ] {
            assert_eq!(glob(pattern).leads_below(path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn slash_at_the_start_may_be_omitted() {
        assert_eq!(glob("system.slice/*"), glob("/system.slice/*"));
        assert_eq!(glob("a").as_str(), "/a");
    }

    #[test]
    fn overlap_is_by_parts() {
        for (a, b, expected, common) in [
            ("/a", "/a/b", true, "/a/b"),
            ("/a", "/ab", false, ""),
            ("/a/*", "/a/b", true, "/a/b"),
            ("/*/b", "/a", true, "/a/b"),
            ("/*/b", "/a/c", false, ""),
            ("/a*c", "/a*d", false, ""),
            ("/a*c*", "/a*d*", true, "/a*c*"),
            ("/a?", "/ab*/x", true, "/ab*/x"),
        ] {
            let (a, b) = (glob(a), glob(b));
            assert_eq!((a.overlaps(&b), b.overlaps(&a)), (expected, expected), "{a} {b}");
            if expected {
                assert_eq!(a.common(&b), glob(common));
            }
        }
    }

    #[test]
    fn one_group_is_made_of_a_glob() {
        let path = |pattern: &str, name: &str| glob(pattern).path_with(name).map_err(|refusal| refusal.cause);
        assert_eq!(path("/weir/web", "x"), Ok("/weir/web".to_owned()));
        assert_eq!(path("/weir/web-*", "12"), Ok("/weir/web-12".to_owned()));
        assert_eq!(path("/*/w?b", "12"), Ok("/12/w0b".to_owned()));
        for name in ["", "a/b", "..", "*"] {
            let refused = format!("{} cannot be in the name of a control group", quote(name));
            assert_eq!(path("/a/*", name), Err(refused));
        }
    }
}
