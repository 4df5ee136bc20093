//! A cap written back into the file that a policy was read from.
//!
//! Problem: a planner finds the cap that keeps a latency, and an operator's file has its own
//! comments, order and layout. Approach: change the text, not a tree: put the rate in the place of
//! an older one, or add a key in the file's layout. Then read the whole text again. Unless the
//! result is this policy with the new cap and no other change, nothing is written.
//!
//! Worked example:
//!
//! ```
//! use weir_policy::Policy;
//! use weir_units::{Bandwidth, ContentionPoint, PerDirection};
//!
//! let text = "weir: 1 # ours\n\
//!     network: { nic: 1Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1] } } }\n\
//!     services: { web: { match: [ { port: 80 } ] } }\n\
//!     caps: { rack: 9Gb/s } # the star\n";
//! let (policy, _) = Policy::parse("policy.yaml", text)?;
//! let cap = PerDirection::both(Some(Bandwidth::from_mbps(7_500)));
//! let (written, _) = policy.write_cap(ContentionPoint::Rack, cap)?;
//! assert_eq!(written, text.replace("9Gb/s", "7.5Gb/s"));
//! # Ok::<(), weir_document::Diagnostics>(())
//! ```

use crate::model::Policy;
use weir_document::{Diagnostic, Diagnostics, Node, Problems, Source, Span, tree};
use weir_units::{Bandwidth, ContentionPoint, Direction, PerDirection};

/// A text that replaces another.
struct Edit {
    place: Span,
    text: String,
}

impl Policy {
    /// This policy with the cap at `point` set in the directions that have one.
    ///
    /// # Errors
    /// The errors of the result, such as minima that no longer fit.
    pub fn with_cap(&self, point: ContentionPoint, cap: PerDirection<Option<Bandwidth>>) -> Result<Self, Diagnostics> {
        let old = |direction: Direction| Some(self.caps[point][direction]).filter(|old| !old.is_unlimited());
        let full = PerDirection { tx: cap.tx.or(old(Direction::Tx)), rx: cap.rx.or(old(Direction::Rx)) };
        self.with(&format!("caps.{point}={}", value(full)))
    }

    /// The text of this policy's file with the cap at `point` set in the directions that have one,
    /// and the resulting policy. Every other byte stays as it is, except a byte order mark, which a
    /// text does not have.
    ///
    /// # Errors
    /// The errors of the policy with this cap, such as minima that no longer fit; or a file whose
    /// layout does not allow the cap.
    pub fn write_cap(
        &self,
        point: ContentionPoint,
        cap: PerDirection<Option<Bandwidth>>,
    ) -> Result<(String, Self), Diagnostics> {
        let source = &self.written.source;
        let refuse = |cause: &str| {
            let hint = format!("write it yourself: `caps: {{ {} }}`", cap_text(point, cap));
            Diagnostics::one(Diagnostic::error(source, Span::default(), cause, hint))
        };
        if !self.written.settings.is_empty() {
            return Err(refuse("the policy differs from its file: values were changed since it was read"));
        }
        let mut problems = Problems::new(source);
        let root = tree::parse(source, &mut problems).ok_or_else(|| refuse("the file cannot be read again"))?;
        let text = edited(source, edits(source, &root, point, cap));

        // Errors of the policy itself are reported as such; all others are due to the layout.
        let wanted = self.with_cap(point, cap)?;
        match Self::parse(source.name(), &text) {
            Ok((changed, _)) if changed == wanted => Ok((text, changed)),
            _ => Err(refuse("a cap cannot be written into this file as it is laid out")),
        }
    }
}

/// The text with its edits.
fn edited(source: &Source, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.place.start);
    let (mut text, mut from) = (String::new(), 0);
    for edit in &edits {
        text.push_str(source.slice(Span::new(from, edit.place.start)));
        text.push_str(&edit.text);
        from = edit.place.end;
    }
    text.push_str(source.slice(Span::new(from, source.text().len() as u32)));
    text
}

impl Policy {
    /// The text of this policy's file with values at paths of keys (`services.web.level`), and the resulting policy.
    /// Every other byte stays as it is, as in [`Policy::write_cap`]. A path leads to a value, or to a key that is
    /// missing in a mapping of the file or below a missing key of the file.
    ///
    /// # Errors
    /// The errors of the policy with these values; or a file whose layout does not allow them.
    pub fn write_values(&self, values: &[(String, String)]) -> Result<(String, Self), Diagnostics> {
        let source = &self.written.source;
        let refuse = |cause: &str| {
            let lines: Vec<String> = values.iter().map(|(path, value)| format!("`{path}: {value}`")).collect();
            let hint = format!("write them yourself: {}", lines.join(", "));
            Diagnostics::one(Diagnostic::error(source, Span::default(), cause, hint))
        };
        if !self.written.settings.is_empty() {
            return Err(refuse("the policy differs from its file: values were changed since it was read"));
        }
        let mut problems = Problems::new(source);
        let root = tree::parse(source, &mut problems).ok_or_else(|| refuse("the file cannot be read again"))?;
        let text = edited(source, value_edits(source, &root, values));
        let wanted = self.with_all(values.iter().cloned())?;
        match Self::parse(source.name(), &text) {
            Ok((changed, _)) if changed == wanted => Ok((text, changed)),
            _ => Err(refuse("the values cannot be written into this file as it is laid out")),
        }
    }
}

/// The changes of the text for values at paths.
fn value_edits(source: &Source, root: &Node, values: &[(String, String)]) -> Vec<Edit> {
    let mut edits = Vec::new();
    // By missing key of the file: the entries below it.
    let mut missing: Vec<(&str, Vec<String>)> = Vec::new();
    for (path, value) in values {
        let keys: Vec<&str> = path.split('.').collect();
        let Some((last, above)) = keys.split_last() else { continue };
        let parent = above.iter().try_fold(root, |node, key| node.get(key));
        match (parent.map(|parent| (parent, parent.get(last))), above) {
            (Some((_, Some(old))), _) => edits.push(Edit { place: old.span, text: value.clone() }),
            (Some((parent, None)), _) => edits.push(first_entry(source, parent, &format!("{last}: {value}"))),
            (None, [key]) => match missing.iter_mut().find(|(known, _)| known == key) {
                Some((_, entries)) => entries.push(format!("{last}: {value}")),
                None => missing.push((key, vec![format!("{last}: {value}")])),
            },
            (None, _) => {}
        }
    }
    edits.extend(
        missing.iter().map(|(key, entries)| root_entry(source, root, &format!("{key}: {{ {} }}", entries.join(", ")))),
    );
    edits
}

/// Adds an entry to the file's mapping, at the end, where it is easy to find.
fn root_entry(source: &Source, root: &Node, entry: &str) -> Edit {
    if is_flow(source, root) {
        return first_entry(source, root, entry);
    }
    let (end, line_end) = (source.text().len() as u32, line_end(source));
    let before = if source.text().ends_with('\n') { "" } else { line_end };
    Edit { place: Span::new(end, end), text: format!("{before}{entry}{line_end}") }
}

/// `rack: 9Gb/s`, in the layout of a file under `caps`.
pub fn cap_text(point: ContentionPoint, cap: PerDirection<Option<Bandwidth>>) -> String {
    format!("{point}: {}", value(cap))
}

/// A rate in the notation of files: without a blank, every digit kept.
pub(crate) fn rate(bandwidth: Bandwidth) -> String {
    bandwidth.to_string().replace(' ', "")
}

/// A cap as a value.
fn value(cap: PerDirection<Option<Bandwidth>>) -> String {
    match (cap.tx, cap.rx) {
        (Some(tx), Some(rx)) if tx == rx => rate(tx),
        (tx, rx) => {
            let one = |name: &str, cap: Option<Bandwidth>| cap.map(|cap| format!("{name}: {}", rate(cap)));
            let both: Vec<String> = [one("tx", tx), one("rx", rx)].into_iter().flatten().collect();
            format!("{{ {} }}", both.join(", "))
        }
    }
}

/// The changes of the text. For an unknown layout, the result is not the intended policy, and is
/// refused.
fn edits(source: &Source, root: &Node, point: ContentionPoint, cap: PerDirection<Option<Bandwidth>>) -> Vec<Edit> {
    let Some(caps) = root.get("caps") else {
        return vec![root_entry(source, root, &format!("caps: {{ {} }}", cap_text(point, cap)))];
    };
    let Some(level) = caps.get(point.name()) else {
        return vec![first_entry(source, caps, &cap_text(point, cap))];
    };
    if let Some(old) = level.scalar() {
        // A direction without a change keeps its value.
        let old = old.parse().ok();
        let both = PerDirection { tx: cap.tx.or(old), rx: cap.rx.or(old) };
        return vec![Edit { place: level.span, text: value(both) }];
    }
    if level.entries().is_empty() {
        return vec![Edit { place: level.span, text: value(cap) }];
    }
    let mut edits = Vec::new();
    let mut missing = Vec::new();
    for direction in Direction::ALL {
        let Some(bandwidth) = cap[direction] else { continue };
        match level.get(direction.name()) {
            Some(old) => edits.push(Edit { place: old.span, text: rate(bandwidth) }),
            None => missing.push(format!("{direction}: {}", rate(bandwidth))),
        }
    }
    edits.extend(missing.iter().map(|entry| first_entry(source, level, entry)));
    edits
}

/// Whether a mapping is written in braces.
fn is_flow(source: &Source, mapping: &Node) -> bool {
    source.slice(mapping.span).starts_with('{')
}

fn line_end(source: &Source) -> &'static str {
    if source.text().contains("\r\n") { "\r\n" } else { "\n" }
}

/// Adds an entry before all others of a mapping, laid out like them.
fn first_entry(source: &Source, mapping: &Node, entry: &str) -> Edit {
    let Some((key, _)) = mapping.entries().first() else {
        return Edit { place: mapping.span, text: format!("{{ {entry} }}") };
    };
    let start = key.span.start;
    let text = if is_flow(source, mapping) {
        format!("{entry}, ")
    } else {
        let line = source.text()[..start as usize].rfind('\n').map_or(0, |end| end + 1);
        format!("{entry}{}{}", line_end(source), &source.text()[line..start as usize])
    };
    Edit { place: Span::new(start, start), text }
}
