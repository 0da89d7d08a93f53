//! What `${…}` evaluates to, as far as its text says.

use tree_sitter::Node;

use crate::safety::command::word::WordPart;

/// Returns the constant text of a default or alternative.
fn constant(text: &str) -> Option<String> {
    let is_constant = !text.contains(['$', '`', '<', '>']);
    is_constant.then(|| text.replace(['\'', '"', '\\'], ""))
}

/// Splits the text between the braces into a name, and what follows it and a subscript of all elements.
fn split_name(inner: &str) -> (&str, &str, bool) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = match inner.starts_with(['@', '*']) {
        true => 1,
        false => inner.find(|c| !is_name(c)).unwrap_or(inner.len()),
    };
    let (name, rest) = inner.split_at(end);
    let all = rest.strip_prefix("[@]").or(rest.strip_prefix("[*]"));
    let is_list = all.is_some() || matches!(name, "@" | "*");
    (name, all.unwrap_or(rest), is_list)
}

/// Returns the text behind an operator that may begin with a colon.
fn behind<'t>(rest: &'t str, operators: &[char]) -> Option<&'t str> {
    rest.strip_prefix(':')
        .unwrap_or(rest)
        .strip_prefix(operators)
}

/// Returns the part of a word that `${INNER}` is. Modifiers without an effect on a known value are left out.
pub(super) fn variable(inner: &str, is_quoted: bool) -> WordPart {
    let (name, rest, is_list) = split_name(inner);
    let part = |name: &str, fallback: Option<String>| WordPart::Variable {
        name: name.to_owned(),
        fallback,
        skipped: Some(0),
        is_quoted,
    };
    if name.is_empty() {
        return part("", None);
    }
    if rest.is_empty() || behind(rest, &['?']).is_some() {
        return part(name, None);
    }
    let unsure = |name: &str| WordPart::Variable {
        name: name.to_owned(),
        fallback: None,
        skipped: None,
        is_quoted,
    };
    if let Some(text) = behind(rest, &['-', '=']) {
        return match constant(text) {
            Some(text) => part(name, Some(text)),
            None => unsure(name),
        };
    }
    if let Some(text) = behind(rest, &['+']) {
        let other = text.trim_matches('"').strip_prefix('$').unwrap_or_default();
        let other = other
            .strip_prefix('{')
            .and_then(|other| other.strip_suffix('}'))
            .unwrap_or(other);
        return match split_name(other) {
            (other, "", _) if other == name => part(other, None),
            (other, "", _) if !other.is_empty() => unsure(other),
            _ => part("", constant(text)),
        };
    }
    // `${a[1]}`, `${@:2}`, `${a[@]:1:2}`
    let is_subscript = rest.starts_with('[') && rest.find(']') == Some(rest.len() - 1);
    let from = rest.strip_prefix(':').filter(|_| is_list);
    let skipped = from.and_then(|from| from.parse::<usize>().ok());
    match is_subscript || from.is_some() {
        true => WordPart::Variable {
            name: name.to_owned(),
            fallback: None,
            // The first of the positional parameters has the number 1.
            skipped: skipped
                .map(|from| from.saturating_sub(usize::from(matches!(name, "@" | "*")))),
            is_quoted,
        },
        false => part("", None),
    }
}

/// Returns the variable and the constant text that `${NAME:=TEXT}` gives to it.
pub(super) fn default_of(inner: &str) -> Option<(String, String)> {
    let (name, rest, _) = split_name(inner);
    let text = rest.trim_start_matches(':').strip_prefix('=');
    let text = text.filter(|_| !name.is_empty())?;
    Some((name.to_owned(), constant(text)?))
}

/// Whether a command runs whenever its line does, or whenever its function does if that is counted: it stands in no condition,
/// loop, pipeline or subshell, and not in the background.
pub(super) fn is_certain(node: Node<'_>, in_function: bool) -> bool {
    let mut node = node;
    loop {
        let next = node.next_sibling();
        if next.is_some_and(|next| next.kind() == "&") {
            return false;
        }
        let Some(parent) = node.parent() else {
            return true;
        };
        let is_transparent = match parent.kind() {
            "program" | "compound_statement" | "declaration_command" | "variable_assignments" => {
                true
            }
            "list" => parent.child(0).is_some_and(|first| first.id() == node.id()),
            "function_definition" => return in_function,
            _ => false,
        };
        if !is_transparent {
            return false;
        }
        node = parent;
    }
}
