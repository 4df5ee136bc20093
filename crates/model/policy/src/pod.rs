//! [`PodSelector`]: a set of pods, by globs over namespace and name, and by labels.
//!
//! | key | read as | refused |
//! |---|---|---|
//! | `namespace`, `name` | a glob (`*`, `?`) over the name of an object of Kubernetes | letters that no name has |
//! | `labels` | the selector of `kubectl get --selector` | what the API server refuses; `<` and `>`; a contradiction |
//!
//! Requirements on labels are kept as one set of values for each key (`Values`), which is closed under intersection.
//! So two selectors overlap if every key has a value in common, and equal sets have one spelling: `app==web, app` is
//! `app=web`.
//!
//! Worked example: `tier in (a,b),!canary` has the pods with a label `tier` of `a` or `b` and without a label `canary`.
//! It overlaps `app=web`, as a pod may have both labels, and does not overlap `tier notin (a,b)`.
//!
//! Source: Kubernetes, "Labels and Selectors"; apimachinery/pkg/labels/selector.go, pkg/util/validation.

use crate::glob;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use weir_document::quote;
use weir_document::scalar::Refusal;

/// The most bytes of a selector. One with a hundred values of the longest kind is shorter.
const SELECTOR_MAX: usize = 8_192;
/// validation.go: DNS1123LabelMaxLength, DNS1123SubdomainMaxLength; a label's value and the name in its key.
const NAMESPACE_MAX: usize = 63;
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// The facts about a pod by which it is selected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodFacts {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its labels, where they are known.
    pub labels: Option<BTreeMap<String, String>>,
}

/// The value of a label, or the absence of the label, that a selector permits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Values {
    /// The label is there with one of these. None of them: the label is absent.
    Only(BTreeSet<String>),
    /// The label is there with another value than these.
    Except(BTreeSet<String>),
    /// The label is absent, or has another value than these.
    NotIn(BTreeSet<String>),
}

/// A set of pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PodSelector {
    namespace: Option<String>,
    name: Option<String>,
    labels: BTreeMap<String, Values>,
}

impl PodSelector {
    /// Reads the three keys of a selector, of which one at least is there.
    ///
    /// # Errors
    /// The first key that cannot be read.
    pub fn new(namespace: Option<&str>, name: Option<&str>, labels: Option<&str>) -> Result<Self, Refusal> {
        if [namespace, name, labels].iter().all(Option::is_none) {
            return Err(Refusal::new("the selector of pods is empty", EMPTY_HINT));
        }
        Ok(Self {
            namespace: namespace.map(read_namespace).transpose()?,
            name: name.map(read_name).transpose()?,
            labels: labels.map(read_labels).transpose()?.unwrap_or_default(),
        })
    }

    /// Whether a pod is in the set. One whose labels are unknown is in no set that depends on labels.
    pub fn matches(&self, pod: &PodFacts) -> bool {
        let fits = |glob: &Option<String>, text: &str| glob.as_ref().is_none_or(|glob| glob::matches(glob, text));
        fits(&self.namespace, &pod.namespace)
            && fits(&self.name, &pod.name)
            && match &pod.labels {
                Some(labels) => self.labels.iter().all(|(key, values)| values.permits(labels.get(key))),
                None => !self.needs_labels(),
            }
    }

    /// Whether the set depends on labels.
    pub fn needs_labels(&self) -> bool {
        !self.labels.is_empty()
    }

    /// The globs and the values of labels, as they are written: what a selector has of an operator's names, without the
    /// keys of labels.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let values = self.labels.values().flat_map(|values| match values {
            Values::Only(texts) | Values::Except(texts) | Values::NotIn(texts) => texts,
        });
        self.namespace.iter().chain(&self.name).chain(values).map(String::as_str)
    }

    /// The keys of labels on which the set depends.
    pub fn label_keys(&self) -> impl Iterator<Item = &str> {
        self.labels.keys().map(String::as_str)
    }

    /// The glob over namespaces.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The glob over names.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether some pod can be in both sets.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let globs = |a: &Option<String>, b: &Option<String>| match (a, b) {
            (Some(a), Some(b)) => glob::overlap(a, b),
            _ => true,
        };
        let is_shared = |(key, values): (&String, &Values)| match other.labels.get(key) {
            Some(others) => values.intersection(others).is_some(),
            None => true,
        };
        globs(&self.namespace, &other.namespace) && globs(&self.name, &other.name) && self.labels.iter().all(is_shared)
    }

    /// Whether all pods of another set are in this one. `false` for some pairs of globs of which they are; see
    /// [`glob::covers`].
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let globs = |wide: &Option<String>, narrow: &Option<String>| match (wide, narrow) {
            (None, _) => true,
            (Some(wide), Some(narrow)) => glob::covers(wide, narrow),
            (Some(wide), None) => wide.chars().all(|c| c == '*'),
        };
        let is_wider = |(key, values): (&String, &Values)| {
            let others = other.labels.get(key);
            // Every requirement excludes something, so a key without one has more.
            others.is_some_and(|others| values.intersection(others).as_ref() == Some(others))
        };
        globs(&self.namespace, &other.namespace) && globs(&self.name, &other.name) && self.labels.iter().all(is_wider)
    }

    /// The pods that two overlapping sets have in common, for a message: of globs the longer one.
    pub(crate) fn common(&self, other: &Self) -> Self {
        let longer = |a: &Option<String>, b: &Option<String>| match (a, b) {
            (Some(a), Some(b)) => Some(if a.len() >= b.len() { a } else { b }.clone()),
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        let mut labels = self.labels.clone();
        for (key, values) in &other.labels {
            let both = labels.get(key).map_or_else(|| Some(values.clone()), |own| own.intersection(values));
            labels.extend(both.map(|both| (key.clone(), both)));
        }
        Self { namespace: longer(&self.namespace, &other.namespace), name: longer(&self.name, &other.name), labels }
    }
}

impl fmt::Display for PodSelector {
    /// In one spelling, the same for all equal sets: `namespace=shop name=web-* labels=app=web,tier in (a,b)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = Vec::new();
        fields.extend(self.namespace.as_ref().map(|glob| format!("namespace={glob}")));
        fields.extend(self.name.as_ref().map(|glob| format!("name={glob}")));
        if !self.labels.is_empty() {
            let labels: Vec<String> = self.labels.iter().map(|(key, values)| values.text(key)).collect();
            fields.push(format!("labels={}", labels.join(",")));
        }
        f.pad(&fields.join(" "))
    }
}

impl FromStr for PodSelector {
    type Err = Refusal;

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Self, Refusal> {
        let (globs, labels) = match text.split_once("labels=") {
            Some((globs, labels)) => (globs, Some(labels)),
            None => (text, None),
        };
        let (mut namespace, mut name) = (None, None);
        for word in globs.split_whitespace() {
            match word.split_once('=') {
                Some(("namespace", glob)) => namespace = Some(glob),
                Some(("name", glob)) => name = Some(glob),
                _ => return Err(Refusal::new(format!("{} is no part of a selector of pods", quote(word)), EMPTY_HINT)),
            }
        }
        Self::new(namespace, name, labels)
    }
}

impl Values {
    fn permits(&self, value: Option<&String>) -> bool {
        match (self, value) {
            (Self::Only(values), None) => values.is_empty(),
            (Self::Only(values), Some(value)) => values.contains(value),
            (Self::Except(_), None) => false,
            (Self::NotIn(_), None) => true,
            (Self::Except(values) | Self::NotIn(values), Some(value)) => !values.contains(value),
        }
    }

    /// The values that both permit; `None` if there are none.
    fn intersection(&self, other: &Self) -> Option<Self> {
        let absent = self.permits(None) && other.permits(None);
        let values = match (self, other) {
            (Self::Only(a), Self::Only(b)) => Self::Only(a & b),
            (Self::Only(a), Self::Except(b) | Self::NotIn(b)) | (Self::Except(b) | Self::NotIn(b), Self::Only(a)) => {
                Self::Only(a - b)
            }
            (Self::NotIn(a), Self::NotIn(b)) => Self::NotIn(a | b),
            (Self::Except(a) | Self::NotIn(a), Self::Except(b) | Self::NotIn(b)) => Self::Except(a | b),
        };
        match &values {
            // An empty set permits the absence of the label, which both have to.
            Self::Only(left) if left.is_empty() && !absent => None,
            _ => Some(values),
        }
    }

    /// As a selector has it.
    fn text(&self, key: &str) -> String {
        let list = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(",");
        let first = |values: &BTreeSet<String>| values.first().cloned().unwrap_or_default();
        match self {
            Self::Only(values) if values.is_empty() => format!("!{key}"),
            Self::Only(values) if values.len() == 1 => format!("{key}={}", first(values)),
            Self::Only(values) => format!("{key} in ({})", list(values)),
            Self::Except(values) if values.is_empty() => key.to_owned(),
            Self::Except(values) => format!("{key},{}", Self::NotIn(values.clone()).text(key)),
            Self::NotIn(values) if values.len() == 1 => format!("{key}!={}", first(values)),
            Self::NotIn(values) => format!("{key} notin ({})", list(values)),
        }
    }
}

/// The hint for a selector without keys.
pub(crate) const EMPTY_HINT: &str =
    "write `namespace`, `name` or `labels`; every pod is in `pod: { namespace: \"*\" }`";

/// Reads a glob over namespaces.
pub(crate) fn read_namespace(text: &str) -> Result<String, Refusal> {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name_glob(text, "namespace", NAMESPACE_MAX, is_letter, "shop")
}

/// Reads a glob over names of pods.
pub(crate) fn read_name(text: &str) -> Result<String, Refusal> {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    name_glob(text, "name of a pod", NAME_MAX, is_letter, "web-*")
}

fn name_glob(
    text: &str,
    what: &str,
    most: usize,
    is_letter: impl Fn(char) -> bool,
    example: &str,
) -> Result<String, Refusal> {
    let is_wildcard = |c: char| matches!(c, '*' | '?');
    let hint = format!("write lower-case letters, digits, `-`, and `*` or `?` as wildcards, for example `{example}`");
    if text.is_empty() {
        return Err(Refusal::new(format!("the {what} is empty"), hint));
    }
    if let Some(c) = text.chars().find(|c| !is_letter(*c) && !is_wildcard(*c)) {
        let cause = format!("the {what} {} has {} in it", quote(text), quote(&c.to_string()));
        let lower = text.to_lowercase();
        let is_case = lower.chars().all(|c| is_letter(c) || is_wildcard(c));
        return Err(if is_case { Refusal::instead(cause, [lower], "") } else { Refusal::new(cause, hint) });
    }
    if text.chars().filter(|c| *c != '*').count() > most || text.len() > 2 * most {
        return Err(Refusal::new(format!("the {what} {} is longer than {most} characters", quote(text)), hint));
    }
    Ok(text.to_owned())
}

/// Reads a selector over labels.
fn read_labels(text: &str) -> Result<BTreeMap<String, Values>, Refusal> {
    if text.len() > SELECTOR_MAX {
        let cause = format!("the selector is longer than {SELECTOR_MAX} bytes");
        return Err(Refusal::new(cause, "use fewer values, or a label that all of these pods have"));
    }
    let mut labels: BTreeMap<String, Values> = BTreeMap::new();
    for part in requirements(text)? {
        let (key, values) = requirement(text, part.trim())?;
        let both = match labels.get(&key) {
            None => values,
            Some(others) => values.intersection(others).ok_or_else(|| {
                let cause =
                    format!("no pod matches {}: its requirements on {} exclude each other", quote(text), quote(&key));
                Refusal::new(cause, "write several values of one label as `key in (a,b)`")
            })?,
        };
        labels.insert(key, both);
    }
    Ok(labels)
}

/// The parts of a selector between commas outside parentheses.
fn requirements(text: &str) -> Result<Vec<&str>, Refusal> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0u32);
    for (at, c) in text.char_indices() {
        match c {
            '(' if depth == 0 => depth = 1,
            ')' if depth == 1 => depth = 0,
            '(' | ')' => return Err(refused(text, &format!("has a {} too many", quote(&c.to_string())))),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(refused(text, "has a `(` without `)`"));
    }
    parts.push(&text[start..]);
    match parts.iter().any(|part| part.trim().is_empty()) {
        true if parts.len() == 1 => Err(refused(text, "is empty")),
        true => Err(refused(text, "has a comma too many")),
        false => Ok(parts),
    }
}

fn refused(text: &str, cause: &str) -> Refusal {
    Refusal::new(format!("the selector {} {cause}", quote(text)), SELECTOR_HINT)
}

const SELECTOR_HINT: &str =
    "write the selector of `kubectl get --selector`, for example `app=web,tier in (a,b),!canary`";

/// Reads one requirement of a selector `text`.
fn requirement(text: &str, part: &str) -> Result<(String, Values), Refusal> {
    let one = |value: &str| -> Result<BTreeSet<String>, Refusal> { Ok([self::value(text, value.trim())?].into()) };
    if let Some(key) = part.strip_prefix('!') {
        return Ok((self::key(text, key.trim())?, Values::Only(BTreeSet::new())));
    }
    if let Some(list) = part.strip_suffix(')') {
        let (before, list) = list.split_once('(').ok_or_else(|| refused(text, "has a `(` without `)`"))?;
        let words: Vec<&str> = before.split_whitespace().collect();
        let values = list.split(',').map(|value| self::value(text, value.trim())).collect::<Result<_, _>>()?;
        return match words[..] {
            [key, "in"] => Ok((self::key(text, key)?, Values::Only(values))),
            [key, "notin"] => Ok((self::key(text, key)?, Values::NotIn(values))),
            _ => Err(refused(text, &format!("has {} before a list", quote(before.trim())))),
        };
    }
    if let Some(c) = part.chars().find(|c| matches!(c, '<' | '>')) {
        let cause = format!("the selector {} compares numbers by `{c}`", quote(text));
        return Err(Refusal::new(cause, "list the values, for example `tier in (1,2,3)`"));
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Ok((self::key(text, key.trim())?, Values::NotIn(one(value)?)));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok((self::key(text, key.trim())?, Values::Only(one(value)?)));
    }
    Ok((key(text, part)?, Values::Except(BTreeSet::new())))
}

/// Whether a text is empty or a label's value: letters and digits at both ends, `-`, `_` and `.` between them.
fn is_value(text: &str) -> bool {
    let is_end = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= LABEL_MAX
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && is_end(text.chars().next())
        && is_end(text.chars().next_back())
}

fn value(text: &str, value: &str) -> Result<String, Refusal> {
    if is_value(value) {
        return Ok(value.to_owned());
    }
    Err(refused(text, &format!("has the value {}, which no label has", quote(value))))
}

/// A label's key: a name, or a prefix of a domain, `/` and a name.
fn key(text: &str, key: &str) -> Result<String, Refusal> {
    let is_part = |part: &str| {
        let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && is_end(part.chars().next())
            && is_end(part.chars().next_back())
    };
    let is_key = match key.split_once('/') {
        None => !key.is_empty() && is_value(key),
        Some((domain, name)) => {
            domain.len() <= NAME_MAX && domain.split('.').all(is_part) && !name.is_empty() && is_value(name)
        }
    };
    if is_key {
        Ok(key.to_owned())
    } else {
        Err(refused(text, &format!("has the key {}, which no label has", quote(key))))
    }
}

/// Refuses a text that is no glob over namespaces.
pub(crate) fn check_namespace(text: &str) -> Result<(), Refusal> {
    read_namespace(text).map(drop)
}

/// Refuses a text that is no glob over names of pods.
pub(crate) fn check_name(text: &str) -> Result<(), Refusal> {
    read_name(text).map(drop)
}

/// Refuses a text that is no selector over labels.
pub(crate) fn check_labels(text: &str) -> Result<(), Refusal> {
    read_labels(text).map(drop)
}

#[cfg(test)]
#[path = "pod_tests.rs"]
mod tests;
