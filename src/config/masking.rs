//! Forms of values that can be shown, with everything that may be a secret replaced.

use serde_json::{Value as Json, json};

use super::value_checks::{is_public_header, is_secret_name, variable_reference};
use crate::secret::REDACTED;

/// Replaces the values in the query of a server's address: `https://a.example/mcp?k=…`.
pub fn shown_url(url: &str) -> String {
    let Some((address, query)) = url.split_once('?') else {
        return url.to_string();
    };
    let hidden = |pair: &str| match pair.split_once('=') {
        Some((name, _)) => format!("{name}=…"),
        None => "…".to_string(),
    };
    let query: Vec<String> = query.split('&').map(hidden).collect();
    format!("{address}?{}", query.join("&"))
}

/// Masks possible secrets in the arguments of a command: the word after an option that names a secret or a header, the
/// value in `name=value` of such a name, and addresses that hold a password or a key.
pub fn shown_words(words: &[String]) -> Vec<String> {
    let mut hide_next = false;
    words
        .iter()
        .map(|word| {
            let hidden = std::mem::replace(&mut hide_next, false);
            if hidden && !word.starts_with("--") || holds_secret(word) {
                return REDACTED.to_string();
            }
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.as_str(), None),
            };
            let secret = is_header_option(name) || is_secret_name(name);
            match value {
                Some(_) if secret => format!("{name}={REDACTED}"),
                Some(value) if holds_secret(value) => format!("{name}={REDACTED}"),
                _ => {
                    hide_next = secret && value.is_none() && word.starts_with('-');
                    match word.contains("://") {
                        true => shown_url(word),
                        false => word.clone(),
                    }
                }
            }
        })
        .collect()
}

fn is_header_option(name: &str) -> bool {
    matches!(name, "-H" | "-e" | "--header" | "--headers" | "--env")
}

/// Returns whether the text is an address with a password or a key in it, or the value of a header with a token.
fn holds_secret(text: &str) -> bool {
    if text.to_ascii_lowercase().contains("bearer ") {
        return true;
    }
    text.contains("://")
        && reqwest::Url::parse(text).is_ok_and(|url| {
            url.password().is_some() || url.query_pairs().any(|(n, _)| is_secret_name(&n))
        })
}

/// Shows only the first word of a command: the words after it may be the secret itself.
fn program_only(command: &str) -> String {
    let mut words = command.split_whitespace();
    let first = words.next().unwrap_or_default();
    // In `KEY=value program` the first word may be a secret too.
    let first = if first.contains('=') { "" } else { first };
    match (first, words.next()) {
        ("", _) => REDACTED.to_string(),
        (first, None) => first.to_string(),
        (first, Some(_)) => format!("{first} …"),
    }
}

fn words_of(value: &Json) -> Vec<String> {
    let words = value.as_array().into_iter().flatten();
    words
        .filter_map(|word| word.as_str().map(str::to_owned))
        .collect()
}

/// Shows the program of a command alone, given as text or as a list of words.
pub(super) fn mask_command(value: &Json) -> Json {
    match value.as_str() {
        Some(command) => json!(program_only(command)),
        None => json!(program_only(&words_of(value).join(" "))),
    }
}

/// Masks the arguments of a command that may be secret.
pub(super) fn mask_arguments(value: &Json) -> Json {
    json!(shown_words(&words_of(value)))
}

/// Shows an address without the values of its query.
pub(super) fn mask_url(value: &Json) -> Json {
    json!(shown_url(value.as_str().unwrap_or_default()))
}

/// Shows nothing of a value.
pub(super) fn mask_whole(_: &Json) -> Json {
    json!(REDACTED)
}

/// Shows the values of harmless headers only.
pub(super) fn mask_header(name: &str, value: &str) -> String {
    match is_public_header(name) {
        true => value.to_owned(),
        false => REDACTED.to_owned(),
    }
}

/// Shows a variable of a server's environment if its value is the name of another variable.
pub(super) fn mask_server_variable(_: &str, value: &str) -> String {
    variable_reference(value)
        .map_or(REDACTED, |_| value)
        .to_owned()
}
