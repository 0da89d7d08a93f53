//! The shell of MongoDB.

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
    let is_shell = upper.trim_start().starts_with("DB.");
    let assigns = upper.replace("=>", "").contains('=');
    let has_other = OTHERS.iter().any(|other| upper.contains(other));
    if !is_shell || computes || assigns || has_other || code.contains("Function(") {
        return None;
    }
    let is_used = |word: &&str| {
        let at = word.as_ptr() as usize - upper.as_ptr() as usize;
        let before = upper.get(..at).unwrap_or_default().trim_end();
        let behind = upper.get(at + word.len()..).unwrap_or_default();
        before.ends_with('.') || behind.trim_start().starts_with('(')
    };
    Some(words.into_iter().filter(is_used).collect())
}
