//! The shell of MongoDB.

use std::ops::Range;

/// Returns the names of the members and functions that code of the shell of MongoDB uses, or `None` if it is something else or may
/// use others. Its texts and filters are data. `words` are those of `upper`, the code in upper case.
pub(super) fn member_names<'a>(
    code: &str,
    upper: &'a str,
    words: Vec<&'a str>,
) -> Option<Vec<&'a str>> {
    const OTHERS: [&str; 9] = [
        "COMMAND",
        "FINDANDMODIFY",
        "EVAL",
        "LOAD(",
        "REQUIRE(",
        "FS.",
        "CONSTRUCTOR",
        "`",
        "\\",
    ];
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let computes = upper.match_indices('[').any(|(at, _)| {
        let before = upper.get(..at).unwrap_or_default().trim_end();
        before.ends_with(|c: char| is_name(c) || matches!(c, ')' | ']'))
    });
    let starts = ["DB.", "PRINT(", "PRINTJSON("];
    let is_shell = starts
        .iter()
        .any(|start| upper.trim_start().starts_with(start));
    let assigns = upper.replace("=>", "").contains('=');
    let has_other = OTHERS.iter().any(|other| upper.contains(other));
    if !is_shell || computes || assigns || has_other || code.contains("Function(") {
        return None;
    }
    let texts = texts(upper);
    let is_used = |word: &&str| {
        let at = word.as_ptr() as usize - upper.as_ptr() as usize;
        if texts.iter().any(|text| text.contains(&at)) {
            return false;
        }
        let before = upper.get(..at).unwrap_or_default().trim_end();
        let behind = upper.get(at + word.len()..).unwrap_or_default();
        before.ends_with('.') || behind.trim_start().starts_with('(')
    };
    Some(words.into_iter().filter(is_used).collect())
}

/// Returns where the texts of code without escapes are, or none if it is not certain: a quote can be in a comment or a regular
/// expression.
fn texts(code: &str) -> Vec<Range<usize>> {
    let mut texts = Vec::new();
    let mut open = None;
    for (at, c) in code.char_indices() {
        match (open, c) {
            (None, '"' | '\'') => open = Some((at, c)),
            (None, '/') => return Vec::new(),
            (Some((start, quote)), c) if quote == c => {
                texts.push(start..at);
                open = None;
            }
            _ => {}
        }
    }
    match open {
        Some(_) => Vec::new(),
        None => texts,
    }
}
