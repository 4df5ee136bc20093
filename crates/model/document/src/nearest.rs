//! The nearest known word to one that is not known.
//!
//! Similarity is Damerau–Levenshtein: a swapped pair of letters is one mistake. A word more than a
//! third of its letters away is no suggestion: a wrong guess costs more than none.
//!
//! Numbered names have no nearest one: of `m1` to `m4`, `m5` is as near to each. Where the number is outside of all
//! that are known, the hint names their range.
//!
//! Worked example: `weigth` is one swap from `weight`, so it is suggested; `rate` is not near
//! anything in (`min`, `max`, `weight`). For `m5` of `m1` to `m4` the hint is `m[1-4]`.

use std::collections::BTreeSet;

/// Words longer than this are never compared: they are rarely typed by hand, and the comparison is
/// quadratic.
const LONGEST: usize = 64;

/// The nearest of `known` to `word`, if one is near enough. The first wins a tie.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let (lower, number) = (word.to_lowercase(), without_zeros(word));
    known
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST && candidate.len().abs_diff(word.len()) <= 4)
        .map(|candidate| match without_zeros(candidate) == number {
            // `h04` is `h4`, not `h0`, which is one letter away as well.
            true if candidate != word => (0, candidate),
            _ => (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate),
        })
        .filter(|(distance, candidate)| {
            let letters = candidate.chars().count();
            *distance * 3 <= letters.max(3) && *distance < letters
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A word without the leading zeros of its numbers.
fn without_zeros(word: &str) -> String {
    let mut number = false;
    let mut letters = word.chars().peekable();
    let mut out = String::with_capacity(word.len());
    while let Some(letter) = letters.next() {
        let leads = letter == '0' && !number && letters.peek().is_some_and(char::is_ascii_digit);
        if !leads {
            out.push(letter);
            number = letter.is_ascii_digit();
        }
    }
    out
}

/// The known names that differ from `word` in one of its numbers alone, as a range in brackets, if they are all from
/// one number to another and the word's is outside of these. The last number of the word goes first. If a known number
/// has leading zeros, only numbers as wide as the word's count.
fn range_beside(word: &str, known: &[&str]) -> Option<String> {
    if word.len() > LONGEST {
        return None;
    }
    let is_padded = |digits: &str| digits.len() > 1 && digits.starts_with('0');
    numbers(word).into_iter().rev().find_map(|(before, digits, behind)| {
        let beside = known.iter().filter_map(|name| name.strip_prefix(before)?.strip_suffix(behind));
        // Nine digits fit every integer.
        let beside = beside.filter(|text| (1..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit()));
        let beside: Vec<&str> = beside.collect();
        let width = if beside.iter().any(|beside| is_padded(beside)) { digits.len() } else { 0 };
        if width == 0 && is_padded(digits) {
            return None;
        }
        let beside = beside.iter().filter(|beside| width == 0 || beside.len() == width);
        let known: BTreeSet<u64> = beside.filter_map(|beside| beside.parse().ok()).collect();
        let (first, last, own) = (*known.first()?, *known.last()?, digits.parse::<u64>().ok()?);
        let is_range = known.len() > 1 && known.len() as u64 == last - first + 1;
        let is_outside = !(first..=last).contains(&own);
        (is_range && is_outside).then(|| format!("{before}[{first:0width$}-{last:0width$}]{behind}"))
    })
}

/// The numbers in a word, each with the text before and behind it.
fn numbers(word: &str) -> Vec<(&str, &str, &str)> {
    let mut numbers = Vec::new();
    let mut from = 0;
    while let Some(start) = word[from..].find(|c: char| c.is_ascii_digit()).map(|at| from + at) {
        let end = word[start..].find(|c: char| !c.is_ascii_digit()).map_or(word.len(), |at| start + at);
        numbers.push((&word[..start], &word[start..end], &word[end..]));
        from = end;
    }
    numbers
}

/// [`nearest`] with a bound on all work done for one document.
///
/// A file may have a hundred thousand unknown names and as many known ones; the first suggestions
/// are worth their time, the rest are never read.
#[derive(Debug)]
pub struct Suggester {
    comparisons_left: usize,
}

impl Default for Suggester {
    fn default() -> Self {
        // A comparison of two short names takes about half a microsecond: half a second in all.
        Self { comparisons_left: 1_000_000 }
    }
}

impl Suggester {
    /// A hint that names the nearest of `known`, or else `otherwise`.
    pub fn hint<'a>(&mut self, word: &str, known: impl IntoIterator<Item = &'a str>, otherwise: &str) -> String {
        match nearest(word, self.bounded(known)) {
            Some(name) => format!("did you mean `{name}`?"),
            None => otherwise.to_owned(),
        }
    }

    /// The same for names of machines, hosts and switches, which ranges may declare: it names the range that the word's
    /// number is outside of.
    pub fn hint_of_name<'a>(
        &mut self,
        word: &str,
        known: impl IntoIterator<Item = &'a str>,
        otherwise: &str,
    ) -> String {
        let known: Vec<&str> = self.bounded(known).collect();
        // Of a part of the names the range is not known.
        match Some(&known).filter(|_| self.comparisons_left > 0).and_then(|known| range_beside(word, known)) {
            Some(range) => format!("did you mean one of `{range}`?"),
            None => match nearest(word, known) {
                Some(name) => format!("did you mean `{name}`?"),
                None => otherwise.to_owned(),
            },
        }
    }

    /// As many of the known words as may still be compared.
    fn bounded<'a>(&mut self, known: impl IntoIterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
        let left = &mut self.comparisons_left;
        known.into_iter().take_while(|_| {
            *left = left.saturating_sub(1);
            *left > 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_near_words() {
        let keys = ["min", "max", "weight"];
        assert_eq!(nearest("weigth", keys), Some("weight"));
        assert_eq!(nearest("Max", keys), Some("max"));
        assert_eq!(nearest("mx", keys), Some("max"));
        assert_eq!(nearest("rate", keys), None);
        assert_eq!(nearest("", keys), None);
        assert_eq!(nearest("9", ["1", "2"]), None, "nothing of the word is left");
        let hosts = ["h0", "h1", "h4", "h40"];
        assert_eq!(
            ["h04", "h01", "h040", "h5"].map(|word| nearest(word, hosts)),
            [Some("h4"), Some("h1"), Some("h40"), Some("h0")]
        );
    }

    #[test]
    fn names_outside_a_range_suggest_it() {
        let named = |names: &[&str], word: &str| {
            Suggester::default().hint_of_name(word, names.iter().copied(), "name a machine")
        };
        let plain = ["m1", "m2", "m3", "m4", "mail", "m2a"];
        assert_eq!(named(&plain, "m5"), "did you mean one of `m[1-4]`?");
        assert_eq!(named(&plain, "m0"), "did you mean one of `m[1-4]`?");
        assert_eq!(named(&plain, "m14"), "did you mean one of `m[1-4]`?");
        // Another prefix, another suffix, another width.
        assert_eq!(named(&plain, "M2"), "did you mean `m2`?");
        assert_eq!(named(&plain, "m3a"), "did you mean `m3`?");
        assert_eq!(named(&plain, "m02"), "did you mean `m2`?");
        assert_eq!(named(&plain, "rack7"), "name a machine");
        let padded = ["c08", "c09", "c10", "c11"];
        assert_eq!(named(&padded, "c12"), "did you mean one of `c[08-11]`?");
        assert_eq!(named(&padded, "c8"), "did you mean `c08`?");
        assert_eq!(named(&padded, "c011"), "did you mean `c11`?");
        assert_eq!(named(&["c8", "c9", "c10"], "c11"), "did you mean one of `c[8-10]`?");
        // With a gap there are several ranges.
        assert_eq!(named(&["m1", "m2", "m4"], "m3"), "did you mean `m1`?");
        assert_eq!(named(&["m1", "m2", "m4"], "m5"), "did you mean `m1`?");
        let of_racks = ["r1m1", "r1m2", "r2m1", "r2m2"];
        assert_eq!(named(&of_racks, "r1m3"), "did you mean one of `r1m[1-2]`?");
        assert_eq!(named(&of_racks, "r3m1"), "did you mean one of `r[1-2]m1`?");
        assert_eq!(named(&of_racks, "r3m3"), "name a machine");
        assert_eq!(named(&plain, "m99999999999999999999"), "name a machine");
    }

    /// Of a part of the names the end of a range is not known.
    #[test]
    fn a_range_is_not_suggested_without_all_names() {
        let names: Vec<String> = (1..=6).map(|number| format!("m{number}")).collect();
        let named = |left| {
            let mut suggester = Suggester { comparisons_left: left };
            suggester.hint_of_name("m9", names.iter().map(|name| &**name), "name a machine")
        };
        assert_eq!((named(4), named(7)), ("did you mean `m1`?".into(), "did you mean one of `m[1-6]`?".into()));
    }
}
