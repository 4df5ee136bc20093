//! Removes secrets from texts, by their form and by their name.
//!
//! | form | example |
//! |---|---|
//! | PEM block; to the end of the text if its end is missing | `-----BEGIN PRIVATE KEY-----` |
//! | 32 hexadecimal digits or more, also in pairs or groups of eight | a key of Weir |
//! | base64 of 24 characters or more with capitals, small letters and digits, or of 32 with both cases | a token |
//! | the value of a name with `password`, `secret`, `token`, `key` and the like | `password=mellon77` |
//! | the user of a URL | `http://user:mellon77@host` |
//!
//! A value that one text names a secret, of 6 bytes or more, is removed from all texts, also where it is in
//! hexadecimal or base64. A path after `key`, or an absolute one after `--token`, stays: it names a file.
//!
//! Limit: a secret of another form that no text names cannot be found.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use regex_lite::{Captures, Regex};

/// The text in place of a secret.
pub const MARK: &str = "[redacted]";
/// The shortest value that is removed wherever it is: shorter ones occur by chance.
const SHORTEST_VALUE: usize = 6;
/// The fewest letters of each case in base64. Of 43 random characters fewer occur once in ten million.
const CASE_LEAST: usize = 3;

/// The patterns.
#[derive(Debug)]
struct Patterns {
    user: Regex,
    named: Regex,
    flag: Regex,
    scheme: Regex,
    hexadecimal: Regex,
    base64: Regex,
}

impl Patterns {
    fn new() -> Self {
        // Quoted within JSON, in double or single quotes, with a quote that does not end, or up to a space.
        const VALUE: &str = r#"(?<value>\\+"[^"\n]*"|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|["'\\][^\n]*|[^\s"'&\\][^\s"'&]*)"#;
        const WORD: &str =
            "token|passw(?:or)?d|passwd|passphrase|secret|authorization|credentials?|api[-_]?key|cookie|key";
        // With the dashes of an option.
        const NAME: &str = r"(?<name>(?:--|\b)[a-z0-9_.-]*";
        const SEPARATOR: &str = r#"(?<between>(?:\\?["'])?[ \t]*[:=][ \t]*(?:(?:bearer|basic|digest)[ \t]+)?)"#;
        const DIGIT: &str = "[0-9A-Fa-f]";
        const PAIR: &str = r"(?:[0-9A-Fa-f]{2}[:. \t-]){15,}[0-9A-Fa-f]{2}";
        const GROUP: &str = "(?:[0-9A-Fa-f]{8}[:-]){3,}[0-9A-Fa-f]{8}";
        // A constant pattern: each test compiles them.
        let pattern = |text: &str| Regex::new(text).expect("a pattern");
        Self {
            user: pattern(r#"(?<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?<value>[^\s/@"']+)@"#),
            named: pattern(&format!("(?i){NAME}(?:{WORD})){SEPARATOR}{VALUE}")),
            flag: pattern(&format!(r"(?i)(?<name>--[a-z0-9-]*(?:{WORD}))(?<between>[ \t]+){VALUE}")),
            scheme: pattern(&format!(r"(?i)(?<name>\b(?:bearer|basic))(?<between>[ \t]+){VALUE}")),
            hexadecimal: pattern(&format!("{DIGIT}{{32,}}|{PAIR}|{GROUP}")),
            base64: pattern("[A-Za-z0-9+/_-]{24,}={0,2}"),
        }
    }
}

/// Removes secrets from all texts of a bundle.
#[derive(Debug)]
pub struct Redactor {
    patterns: Patterns,
    /// Named values in all forms, the longest first.
    known: Vec<String>,
}

impl Redactor {
    /// Collects the values that any of these texts names a secret.
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let patterns = Patterns::new();
        let mut values = Vec::new();
        for text in texts {
            collect(&patterns, text, &mut values);
        }
        values.sort_unstable();
        values.dedup();
        let mut known: Vec<String> = values.iter().flat_map(|value| forms(value)).collect();
        known.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        known.dedup();
        Self { patterns, known }
    }

    /// The text without secrets, and how many it had.
    pub fn redact(&self, text: &str) -> (String, usize) {
        let mut count = 0;
        let mut text = without_pem(text, &mut count);
        for secret in &self.known {
            let found = text.matches(secret.as_str()).count();
            if found > 0 {
                text = text.replace(secret.as_str(), MARK);
                count += found;
            }
        }
        let Patterns { user, named, flag, scheme, hexadecimal, base64 } = &self.patterns;
        text = replaced(user, &text, |found| Some(format!("{}{MARK}@", &found["scheme"])), &mut count);
        for pattern in [named, flag, scheme] {
            let value = |found: &Captures<'_>| {
                // Quotes stay, so that JSON stays JSON.
                let value = found["value"].replacen(secret_value(found)?, MARK, 1);
                Some(format!("{}{}{value}", &found["name"], &found["between"]))
            };
            text = replaced(pattern, &text, value, &mut count);
        }
        text = replaced(hexadecimal, &text, |_| Some(MARK.to_owned()), &mut count);
        text = replaced(base64, &text, |found| is_base64(&found[0]).then(|| MARK.to_owned()), &mut count);
        (without_remainders(&text, &mut count), count)
    }
}

/// Replaces matches for which `by` has a replacement; one that is there already does not count.
fn replaced(pattern: &Regex, text: &str, by: impl Fn(&Captures<'_>) -> Option<String>, count: &mut usize) -> String {
    let replacement = |found: &Captures<'_>| match by(found) {
        Some(other) if other != found[0] => {
            *count += 1;
            other
        }
        _ => found[0].to_owned(),
    };
    pattern.replace_all(text, replacement).into_owned()
}

/// The value of a name without its quotes; `None` if it is empty, redacted already, or a path of a key or a token.
fn secret_value<'a>(found: &Captures<'a>) -> Option<&'a str> {
    let value = found.name("value")?.as_str().trim_matches(['"', '\'', '\\']);
    let name = found["name"].to_ascii_lowercase();
    // The option of `weir pods` names a file. Base64 may begin with `/`, too, and is removed by its form.
    let is_option = |option: &str| name == option && matches!(found["between"].trim(), "" | "=");
    let is_path =
        name.ends_with("key") && value.starts_with(['/', '.', '~']) || is_option("--token") && value.starts_with('/');
    (!value.is_empty() && value != MARK && !is_path).then_some(value)
}

fn collect(patterns: &Patterns, text: &str, values: &mut Vec<String>) {
    let mut take = |value: &str| {
        if value.len() >= SHORTEST_VALUE && !value.contains(MARK) {
            values.push(value.to_owned());
        }
    };
    // A word alone is more likely prose (`password: required`) than a secret.
    let is_word = |value: &str| value.chars().all(|letter| letter.is_ascii_lowercase());
    for pattern in [&patterns.named, &patterns.flag, &patterns.scheme] {
        let values = pattern.captures_iter(text).filter_map(|found| secret_value(&found));
        values.filter(|value| !is_word(value)).for_each(&mut take);
    }
    for found in patterns.user.captures_iter(text) {
        let user = &found["value"];
        take(user);
        if let Some((_, password)) = user.split_once(':') {
            take(password);
        }
    }
}

/// A secret as it is, in hexadecimal, in base64, and as the bytes that its hexadecimal digits are.
fn forms(secret: &str) -> Vec<String> {
    let hexadecimal = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut forms = vec![secret.to_owned()];
    let mut encoded = |bytes: &[u8]| {
        let hexadecimal = hexadecimal(bytes);
        forms.extend([hexadecimal.to_ascii_uppercase(), hexadecimal]);
        forms.extend([STANDARD_NO_PAD.encode(bytes), URL_SAFE_NO_PAD.encode(bytes)]);
    };
    encoded(secret.as_bytes());
    if secret.len().is_multiple_of(2) && secret.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let pairs = (0..secret.len()).step_by(2);
        let bytes: Vec<u8> = pairs.filter_map(|at| u8::from_str_radix(&secret[at..at + 2], 16).ok()).collect();
        encoded(&bytes);
    }
    forms
}

/// Whether a run of characters is base64 of random bytes rather than a path or a name.
fn is_base64(run: &str) -> bool {
    let count = |is: fn(&char) -> bool| run.chars().filter(is).count();
    let (capitals, small) = (count(char::is_ascii_uppercase), count(char::is_ascii_lowercase));
    let digits = count(char::is_ascii_digit);
    capitals >= CASE_LEAST && small >= CASE_LEAST && (run.len() >= 32 || digits >= 2)
}

/// Removes PEM blocks, whatever their line ends are.
fn without_pem(text: &str, count: &mut usize) -> String {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    let (mut rest, mut kept) = (text, String::with_capacity(text.len()));
    while let Some((before, block)) = rest.split_once(BEGIN) {
        kept.push_str(before);
        kept.push_str(MARK);
        *count += 1;
        let behind = block.split_once(END).and_then(|(_, end)| end.split_once("-----"));
        rest = behind.map_or("", |(_, behind)| behind);
    }
    kept + rest
}

/// Removes the last, short line of base64 or hexadecimal digits behind lines that were redacted.
fn without_remainders(text: &str, count: &mut usize) -> String {
    let is_digit = |letter: char| letter.is_ascii_alphanumeric() || "+/=_-".contains(letter);
    let (mut kept, mut follows) = (String::with_capacity(text.len()), false);
    for line in text.split_inclusive('\n') {
        let bare = line.trim();
        if follows && bare.len() >= 2 && bare.chars().all(is_digit) {
            *count += 1;
            kept.push_str(&line.replace(bare, MARK));
        } else {
            kept.push_str(line);
        }
        follows = bare.ends_with(MARK) && bare.trim_end_matches(MARK).trim().is_empty();
    }
    kept
}

#[cfg(test)]
mod tests;
