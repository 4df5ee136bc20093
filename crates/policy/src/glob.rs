//! Globs over interface names: whether one matches, and whether two can match the same name.
//!
//! `*` stands for any characters, also none; `?` for one character; everything else for itself.
//!
//! Worked example: `tap*` and `*0` both match `tap0`, so they overlap; `tap*` and `eth?` share no name.
//! Approach: walk both patterns at once over pairs of places, at most (length + 1)² of them: a `*` may end
//! or swallow what the other pattern demands next.

/// Whether `glob` matches `name`.
#[cfg(test)]
fn matches(glob: &str, name: &str) -> bool {
    // A name without wildcards is a glob that matches itself only.
    overlap(glob, name)
}

/// Whether some name matches both globs.
pub(crate) fn overlap(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    // reachable[j]: some name's start matches a[..i] and b[..j].
    let mut reachable = vec![false; b.len() + 1];
    reachable[0] = true;
    for i in 0..=a.len() {
        let mut next = vec![false; b.len() + 1];
        for j in 0..=b.len() {
            if !reachable[j] {
                continue;
            }
            let (x, y) = (a.get(i), b.get(j));
            // A star that ends here.
            if x == Some(&b'*') {
                next[j] = true;
            }
            if y == Some(&b'*') {
                reachable[j + 1] = true;
            }
            match (x, y) {
                // One star swallows what the other pattern demands.
                (Some(b'*'), Some(y)) if *y != b'*' => reachable[j + 1] = true,
                (Some(x), Some(b'*')) if *x != b'*' => next[j] = true,
                (Some(x), Some(y)) if *x != b'*' && *y != b'*' && (x == y || *x == b'?' || *y == b'?') => {
                    next[j + 1] = true;
                }
                _ => {}
            }
        }
        if i < a.len() {
            reachable = next;
        }
    }
    reachable[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn globs() {
        for (a, b, expected) in [
            ("tap*", "*0", true),
            ("tap*", "eth?", false),
            ("tap*", "tap", true),
            ("tap?", "tap", false),
            ("a*b", "a*c", false),
            ("*a*", "*b*", true),
            ("", "*", true),
            ("", "?", false),
            ("eth0", "eth0", true),
            ("eth0", "eth1", false),
            ("a?c", "?b?", true),
            ("**", "abc", true),
        ] {
            assert_eq!(overlap(a, b), expected, "{a} {b}");
            assert_eq!(overlap(b, a), expected, "{b} {a}");
        }
    }

    /// All names of up to five letters of an alphabet that holds a letter of neither glob.
    fn names() -> Vec<String> {
        let mut names = vec![String::new()];
        let mut start = 0;
        for _ in 0..5 {
            let end = names.len();
            for i in start..end {
                for c in ['a', 'b', 'c'] {
                    names.push(format!("{}{c}", names[i]));
                }
            }
            start = end;
        }
        names
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
        /// Short globs that overlap have a short name in common: at most the letters of both.
        #[test]
        fn overlap_is_a_common_name(a in "[ab*?]{0,3}", b in "[ab*?]{0,2}") {
            let common = names().iter().any(|name| matches(&a, name) && matches(&b, name));
            prop_assert_eq!(overlap(&a, &b), common);
        }
    }
}
