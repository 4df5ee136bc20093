//! The links of a Markdown text.

use regex_lite::{Captures, Regex};

/// The text with every link target outside of fenced blocks replaced by what `target` returns for it.
///
/// # Errors
/// The first error of `target`, with the number of its line.
pub fn replace_targets<E: std::fmt::Display>(
    text: &str,
    mut target: impl FnMut(&str) -> Result<String, E>,
) -> Result<String, String> {
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("a constant pattern");
    let (mut replaced, mut fenced) = (String::with_capacity(text.len()), false);
    for (line, number) in text.lines().zip(1..) {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            replaced.push_str(line);
        } else {
            let mut failed = None;
            let new = link.replace_all(line, |captures: &Captures| {
                let new = target(&captures[1]).unwrap_or_else(|error| {
                    failed.get_or_insert(format!("{number}: {}: {error}", &captures[1]));
                    String::new()
                });
                format!("]({new})")
            });
            replaced.push_str(&new);
            if let Some(error) = failed {
                return Err(error);
            }
        }
        replaced.push('\n');
    }
    Ok(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_outside_of_blocks_are_replaced() {
        let text = "see [a](a.md) and ![b](b.svg)\n```\n[a](a.md)\n```\n";
        let replaced = replace_targets(text, |target| Ok::<_, String>(format!("x/{target}")));
        assert_eq!(replaced.as_deref(), Ok("see [a](x/a.md) and ![b](x/b.svg)\n```\n[a](a.md)\n```\n"));
    }

    #[test]
    fn an_error_has_the_line_and_the_target() {
        let replaced = replace_targets("\n[a](a.md)", |_| Err::<String, _>("no such file"));
        assert_eq!(replaced, Err("2: a.md: no such file".to_owned()));
    }
}
