//! The nearest known word to one that is not known.
//!
//! Similarity is Damerau–Levenshtein: a swapped pair of letters is one mistake. A word more than a
//! third of its letters away is no suggestion: a wrong guess costs more than none.
//!
//! Worked example: `weigth` is one swap from `weight`, so it is suggested; `rate` is not near
//! anything in (`min`, `max`, `weight`).

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
        let left = &mut self.comparisons_left;
        let bounded = known.into_iter().take_while(|_| {
            *left = left.saturating_sub(1);
            *left > 0
        });
        match nearest(word, bounded) {
            Some(name) => format!("did you mean `{name}`?"),
            None => otherwise.to_owned(),
        }
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
}
