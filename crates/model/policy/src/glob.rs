//! Globs over interface names: whether one matches, and whether two can match the same name.
//!
//! `*` stands for any characters, also none; `?` for one character; everything else for itself.
//!
//! Worked example: `tap*` and `*0` both match `tap0`, so they overlap; `tap*` and `eth?` share no
//! name. Approach: two globs with a star each overlap if the texts before their first stars agree
//! and the texts behind their last stars do, since each star can match the rest of the other glob.
//! Otherwise one of them matches names of one length only, and its letters are walked along the
//! other glob.

/// Whether `glob` matches `name`.
#[cfg(test)]
fn matches(glob: &str, name: &str) -> bool {
    // A name without wildcards is a glob that matches itself only.
    overlap(glob, name)
}

/// Whether some name matches both globs. At most (length + 1)² steps.
pub(crate) fn overlap(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    match (a.contains(&b'*'), b.contains(&b'*')) {
        (true, true) => {
            agree(until_star(a.iter()), until_star(b.iter()))
                && agree(until_star(a.iter().rev()), until_star(b.iter().rev()))
        }
        (true, false) => fits(a, b),
        (false, _) => fits(b, a),
    }
}

/// Whether two letters of globs, stars aside, have a letter in common.
fn letters_agree(a: u8, b: u8) -> bool {
    a == b || a == b'?' || b == b'?'
}

fn until_star<'a>(letters: impl Iterator<Item = &'a u8>) -> impl Iterator<Item = u8> {
    letters.copied().take_while(|letter| *letter != b'*')
}

/// Whether two texts agree as far as both go.
fn agree(a: impl Iterator<Item = u8>, b: impl Iterator<Item = u8>) -> bool {
    a.zip(b).all(|(a, b)| letters_agree(a, b))
}

/// Whether `glob` matches some name of `letters`, which has no star.
fn fits(glob: &[u8], letters: &[u8]) -> bool {
    // reachable[j]: the part of `glob` so far matches letters[..j].
    let mut reachable = vec![false; letters.len() + 1];
    reachable[0] = true;
    for &part in glob {
        if part == b'*' {
            if let Some(first) = reachable.iter().position(|reachable| *reachable) {
                reachable[first..].fill(true);
            }
            continue;
        }
        for j in (0..letters.len()).rev() {
            reachable[j + 1] = reachable[j] && letters_agree(part, letters[j]);
        }
        reachable[0] = false;
    }
    reachable[letters.len()]
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
