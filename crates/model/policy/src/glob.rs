//! Globs over names of interfaces and control groups: whether one matches, and whether two can match the same name.
//!
//! `*` stands for any characters, also none; `?` for one character; everything else for itself.
//!
//! Worked example: `tap*` and `*0` both match `tap0`, so they overlap; `tap*` and `eth?` share no
//! name. Approach: two globs with a star each overlap if the texts before their first stars agree
//! and the texts behind their last stars do, since each star can match the rest of the other glob.
//! Otherwise one of them matches names of one length only, and its letters are walked along the
//! other glob.

/// Whether `name` is matched by a glob.
pub fn matches(glob: &str, name: &str) -> bool {
    matches_by(glob, name, |letter, of_name| letter == '?' || letter == of_name)
}

/// Whether all names that `narrow` matches are matched by `wide`. `false` for some pairs of which they are, such as
/// `?*` and `*?`.
pub(crate) fn covers(wide: &str, narrow: &str) -> bool {
    // As if `narrow` were a name: only a star stands for one of its stars, and no letter for its `?`.
    matches_by(wide, narrow, |letter, of_narrow| of_narrow != '*' && (letter == '?' || letter == of_narrow))
}

/// [`matches`] where `fits` decides for each letter of the glob, stars aside, and each letter of the name.
fn matches_by(glob: &str, name: &str, fits: impl Fn(char, char) -> bool) -> bool {
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    let (mut g, mut n) = (0, 0);
    // The last star and the length it matches: backtracking to it suffices, since a later star only helps.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if g < glob.len() && glob[g] == '*' {
            star = Some((g, n));
            g += 1;
        } else if g < glob.len() && fits(glob[g], name[n]) {
            (g, n) = (g + 1, n + 1);
        } else if let Some((at, taken)) = star {
            star = Some((at, taken + 1));
            (g, n) = (at + 1, taken + 1);
        } else {
            return false;
        }
    }
    glob[g..].iter().all(|c| *c == '*')
}

/// Whether some name matches both globs. At most (length + 1)² steps.
pub(crate) fn overlap(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    match (a.contains(&'*'), b.contains(&'*')) {
        (true, true) => {
            agree(until_star(a.iter()), until_star(b.iter()))
                && agree(until_star(a.iter().rev()), until_star(b.iter().rev()))
        }
        (true, false) => fits(&a, &b),
        (false, _) => fits(&b, &a),
    }
}

/// Whether two letters of globs, stars aside, have a letter in common.
fn letters_agree(a: char, b: char) -> bool {
    a == b || a == '?' || b == '?'
}

fn until_star<'a>(letters: impl Iterator<Item = &'a char>) -> impl Iterator<Item = char> {
    letters.copied().take_while(|letter| *letter != '*')
}

/// Whether two texts agree as far as both go.
fn agree(a: impl Iterator<Item = char>, b: impl Iterator<Item = char>) -> bool {
    a.zip(b).all(|(a, b)| letters_agree(a, b))
}

/// Whether `glob` matches some name of `letters`, which has no star.
fn fits(glob: &[char], letters: &[char]) -> bool {
    // reachable[j]: the part of `glob` so far matches letters[..j].
    let mut reachable = vec![false; letters.len() + 1];
    reachable[0] = true;
    for &part in glob {
        if part == '*' {
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
    fn names_match() {
        for (glob, name, expected) in [
            ("tap*", "tap3", true),
            ("tap*", "tap", true),
            ("tap*", "eth0", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("?", "x", true),
            ("?", "", false),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1b2b3", false),
            ("*0", "eth00", true),
            ("e?h*", "eth0", true),
            ("a", "*", false),
        ] {
            assert_eq!(matches(glob, name), expected, "{glob} {name}");
        }
    }

    #[test]
    fn wider_globs_cover_narrower_ones() {
        for (wide, narrow, expected) in [
            ("tap*", "tap3", true),
            ("tap*", "tap?", true),
            ("tap?", "tap*", false),
            ("tap?", "tap?", true),
            ("tap3", "tap?", false),
            ("*", "a*b", true),
            ("*b", "a*b", true),
            ("a*", "*b", false),
            ("tap*", "eth0", false),
            ("?*", "*", false),
        ] {
            assert_eq!(covers(wide, narrow), expected, "{wide} {narrow}");
        }
    }

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

        #[test]
        fn covered_names_match(a in "[ab*?]{0,3}", b in "[ab*?]{0,3}") {
            if covers(&a, &b) {
                let outside = names().into_iter().find(|name| matches(&b, name) && !matches(&a, name));
                prop_assert_eq!(outside, None);
            }
        }
    }
}
