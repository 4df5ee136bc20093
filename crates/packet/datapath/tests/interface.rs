//! What the build refuses to turn into Rust.

#[path = "../build/interface.rs"]
mod generator;

/// The interface of a function with this parameter, which Rust calls by reference or with pointers.
fn function(parameter: &str, by_reference: bool) -> syn::Result<String> {
    let bindings = format!("unsafe extern \"C\" {{ pub fn weir_sum({parameter}) -> u64_; }}");
    generator::rewrite(&bindings, if by_reference { &[] } else { &["weir_sum"] }, &["weir_counts"])
}

#[test]
fn pointers_to_one_object_become_references() {
    for (parameter, expected) in [
        ("limiter: *mut weir_limiter", "limiter : & mut"),
        ("rule: *const weir_rule", "rule : &"),
        ("words: *const [u64_; 2usize]", "words : & [u64 ; 2usize]"),
        ("departure: *mut u64_", "departure : & mut u64"),
    ] {
        let text = function(parameter, true).expect(parameter);
        assert!(text.contains("safe fn sum") && text.contains(expected), "{parameter}: {text}");
    }
}

#[test]
fn pointers_to_integers_of_unknown_number_are_refused() {
    for parameter in ["words: *const u64_", "header: *mut u8_", "header: *const u8_"] {
        let error = function(parameter, true).expect_err(parameter).to_string();
        let (name, _) = parameter.split_once(':').expect("a name");
        assert!(error.contains("weir_sum") && error.contains(name), "{error}");
        let text = function(parameter, false).expect(parameter);
        assert!(text.contains("*") && !text.contains("safe fn"), "{parameter}: {text}");
    }
}

#[test]
fn counter_without_a_comment_is_named() {
    let counts = |comment: &str| {
        let bindings =
            format!("pub struct weir_counts {{ #[doc = \" Lost.\"] pub lost: u64_, {comment} pub late: u64_ }}");
        generator::rewrite(&bindings, &[], &["weir_counts"])
    };
    assert!(counts("#[doc = \" Late.\"]").is_ok());
    for comment in ["", "#[doc = \"\"]"] {
        let error = counts(comment).expect_err("a counter without a comment").to_string();
        assert!(error.contains("`late`") && !error.contains("`lost`"), "{error}");
    }
}
