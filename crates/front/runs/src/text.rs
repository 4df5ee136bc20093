//! Words of command lines and of messages.
//!
//! Problem: a written command line must give the same arguments again in any shell, and messages list names without
//! filling the screen. Approach: quotes only where a shell needs them; of a long list the first names and the number of
//! the others.
//!
//! Worked example: `traffic[0].load=60%` is written as `'traffic[0].load=60%'`; four names of which two fit are
//! `a, b and 2 more`.

use std::fmt::Display;

/// `1 rack`, `2 racks`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// An argument of a command line, quoted for a shell where necessary.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:=,%+@-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// `a`, `a and b`, `a, b and c`; of more than `shown` only the first and the number of the others.
pub fn list(items: &[impl Display], shown: usize) -> String {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        all if all.len() > shown => format!("{} and {} more", all[..shown].join(", "), all.len() - shown),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(shell_word("transport.min-rto=1ms"), "transport.min-rto=1ms");
        assert_eq!(shell_word("traffic[0].load=60%"), "'traffic[0].load=60%'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }

    #[test]
    fn lists_end() {
        assert_eq!(list(&["a"], 3), "a");
        assert_eq!(list(&["a", "b", "c"], 3), "a, b and c");
        assert_eq!(list(&["a", "b", "c", "d"], 2), "a, b and 2 more");
        assert_eq!([1, 2].map(|number| count(number, "rack")), ["1 rack", "2 racks"]);
    }
}
