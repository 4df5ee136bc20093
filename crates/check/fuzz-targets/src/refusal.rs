//! The invariants of every diagnostic.

use weir_document::{Diagnostic, Diagnostics, Span};

/// Checks a list of errors of documents that were each read once. Returns `false`: not accepted.
pub(crate) fn check(errors: &Diagnostics) -> bool {
    for pair in errors.all().windows(2) {
        let same_file = pair[0].file() == pair[1].file();
        let in_order = !same_file || pair[0].span().start <= pair[1].span().start;
        assert!(in_order, "not in reading order: {}", errors.render(false));
    }
    print(errors)
}

/// Checks a list of errors except for their order, and that it prints for people and for programs.
/// Returns `false`: not accepted.
pub(crate) fn print(errors: &Diagnostics) -> bool {
    assert!(!errors.all().is_empty(), "refused without a cause");
    assert!(errors.count() >= errors.all().len());
    errors.all().iter().for_each(one);
    let text = errors.render(false);
    assert!(!text.contains(acts_on_a_terminal), "a control character reaches the terminal: {text:?}");
    let _ = errors.render(true);
    assert_eq!(errors.to_json().as_array().map(Vec::len), Some(errors.all().len()));
    false
}

/// Characters other than line ends and tabs that a terminal would interpret: C0 and C1 control
/// characters (U+009B begins a sequence on some) and marks that turn the direction of text.
pub(crate) fn acts_on_a_terminal(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && c != '\n' && c != '\t')
}

/// Checks one diagnostic, be it an error or a note.
pub(crate) fn one(diagnostic: &Diagnostic) {
    let text = diagnostic.source().text();
    let within = |text: &str, span: Span| {
        let (start, end) = (span.start as usize, span.end as usize);
        assert!(start <= end && end <= text.len(), "{span:?} is outside {} bytes: {}", text.len(), diagnostic.cause());
        assert!(text.is_char_boundary(start) && text.is_char_boundary(end), "{span:?} splits a character");
    };
    within(text, diagnostic.span());
    if let Some((source, span, label)) = diagnostic.label() {
        within(source.text(), span);
        assert!(!label.is_empty());
    }
    if let Some((span, correction)) = diagnostic.fix() {
        within(text, span);
        assert!(!correction.is_empty() && !correction.contains(char::is_control), "{correction:?} as a correction");
    }
    let position = diagnostic.position();
    let line = text.split('\n').nth(position.line - 1).expect("the line is in the text");
    assert!((1..=line.chars().count() + 1).contains(&position.column), "{position:?} is outside {line:?}");
    for words in [diagnostic.cause(), diagnostic.hint()] {
        assert!(!words.trim().is_empty(), "neither a cause nor a hint is empty");
        assert!(!words.contains(char::is_control), "a control character in {words:?}");
    }
}
