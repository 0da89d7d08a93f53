//! The texts in the arguments of a call that may be paths.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{FILE_NAMES, NAMES};

/// More possible paths in one call than this are not checked; the call is asked about then.
const MAX_CANDIDATES: usize = 2_000;

/// Maximum number of times that a text is percent-decoded.
const MAX_DECODINGS: usize = 3;

/// Variables that may occur in a path, with their values.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    /// The home directory, for `~`.
    pub home: String,
    /// The login name, for `~name`.
    pub user: String,
    /// Other variables.
    pub values: Vec<(String, String)>,
}

/// A text that may be a path. It is absolute, or relative to an unknown directory; it may be a pattern.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathCandidate {
    /// The path.
    pub path: String,
    /// The argument consists of this path alone.
    pub whole: bool,
}

/// Returns what may be a path in the arguments, keys included, and every text in which a path may occur. `None` if there is
/// too much to check.
pub fn path_candidates(
    arguments: &Value,
    variables: &Variables,
) -> Option<(BTreeSet<PathCandidate>, Vec<String>)> {
    let mut texts = Vec::new();
    collect(arguments, &mut texts);
    let texts: Vec<String> = texts.iter().flat_map(|text| readings(text)).collect();
    let mut found = BTreeSet::new();
    for text in &texts {
        add_text(text, variables, &mut found);
        if found.len() > MAX_CANDIDATES {
            return None;
        }
    }
    let expanded = texts.iter().map(|text| expand(text, variables));
    Some((found, expanded.collect()))
}

/// Collects the strings and keys of a value. The strings of an array are also joined, since they may be the components of
/// a path.
fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => {
            let parts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            if parts.len() > 1 {
                texts.push(parts.join("/"));
            }
            items.iter().for_each(|item| collect(item, texts));
        }
        Value::Object(map) => {
            for (key, value) in map {
                texts.push(key.clone());
                collect(value, texts);
            }
        }
        _ => {}
    }
}

/// Returns a text as it stands and percent-decoded.
fn readings(text: &str) -> Vec<String> {
    let mut all = vec![text.to_owned()];
    for _ in 0..MAX_DECODINGS {
        match all.last().and_then(|text| percent_decoded(text)) {
            Some(decoded) => all.push(decoded),
            None => break,
        }
    }
    all
}

/// Returns the decoded text, or `None` if it has nothing to decode.
fn percent_decoded(text: &str) -> Option<String> {
    let hex = |byte: Option<&u8>| byte.and_then(|b| char::from(*b).to_digit(16));
    let bytes = text.as_bytes();
    let (mut out, mut at, mut decoded) = (Vec::with_capacity(bytes.len()), 0, false);
    while let Some(byte) = bytes.get(at) {
        match (*byte, hex(bytes.get(at + 1)), hex(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or_default());
                (at, decoded) = (at + 3, true);
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    decoded.then(|| String::from_utf8_lossy(&out).into_owned())
}

fn add_text(text: &str, variables: &Variables, found: &mut BTreeSet<PathCandidate>) {
    let mut add = |path: &str, whole: bool| {
        let path = expand(without_scheme(path), variables);
        // `*` in an unknown directory says nothing.
        let wild = path.contains(['*', '?', '[', '{', '(', '^']);
        let any = wild && !path.starts_with('/') && !path.contains(is_literal);
        if !path.is_empty() && !path.contains('\0') && !any {
            found.insert(PathCandidate { path, whole });
        }
    };
    // A C program ends a text at NUL.
    let until_nul = text.split('\0').next().unwrap_or_default();
    for whole in [text, until_nul] {
        add(whole.trim(), true);
    }
    let is_space = |c: char| c.is_whitespace() || c == '\0';
    let is_shell = move |c: char| is_space(c) || matches!(c, ';' | '|' | '&' | '<' | '>' | '`');
    // Once as a shell splits it, once at everything that may surround a path in source code.
    let words = text.split(move |c| is_shell(c) || matches!(c, '(' | ')'));
    let pieces = text.split(move |c: char| is_shell(c) || "'\"=:,@(){}[]".contains(c));
    for word in words.chain(pieces) {
        let word: String = word.chars().filter(|c| !"'\"\\".contains(*c)).collect();
        // A path may follow an option without a space.
        let slash = word.find('/');
        let head = word.get(..slash.unwrap_or(word.len())).unwrap_or_default();
        let starts = ['~', '$', '.'].map(|c| head.find(c)).into_iter();
        let starts: BTreeSet<usize> = starts.chain([slash, Some(0)]).flatten().collect();
        for start in starts {
            let part = word.get(start..).unwrap_or_default();
            if is_path_like(part) {
                add(part, false);
            }
        }
    }
}

fn is_literal(c: char) -> bool {
    !"*?[]{}()^#/.".contains(c)
}

/// Whether a word is checked as a path, rather than as a word of a text.
fn is_path_like(word: &str) -> bool {
    word.contains('/')
        || word.starts_with(['~', '$'])
        || word.starts_with('.') && word.len() > 1
        || NAMES.contains(&word)
        || FILE_NAMES.contains(&word)
}

/// Removes `file:`, with or without an authority.
fn without_scheme(text: &str) -> &str {
    let scheme = text.get(..5).filter(|s| s.eq_ignore_ascii_case("file:"));
    let Some(rest) = scheme.and_then(|s| text.get(s.len()..)) else {
        return text;
    };
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or(rest),
        None => rest,
    };
    path.split(['?', '#']).next().unwrap_or(path)
}

/// Replaces `~` at the beginning and variables everywhere. A variable without a known value stands for any path.
fn expand(text: &str, variables: &Variables) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    if let Some(after) = text.strip_prefix('~') {
        let end = after.find('/').unwrap_or(after.len());
        let (name, path) = after.split_at(end);
        if name.is_empty() || name == variables.user {
            out.push_str(&variables.home);
            rest = path;
        }
    }
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, after) = match rest.strip_prefix('{') {
            Some(braced) => {
                let end = braced.find('}').unwrap_or(braced.len());
                let name = braced[..end].split(|c| !is_name(c)).next();
                let after = braced.get(end + 1..).unwrap_or_default();
                (name.unwrap_or_default(), after)
            }
            None => rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len())),
        };
        let known = match name {
            "HOME" => Some(variables.home.as_str()),
            "USER" | "LOGNAME" => Some(variables.user.as_str()),
            _ => {
                let mut values = variables.values.iter();
                values.find(|(n, _)| n == name).map(|(_, v)| v.as_str())
            }
        };
        match known {
            Some(value) => out.push_str(value),
            // Only in front of a slash it can be a directory.
            None if out.is_empty() && after.starts_with('/') => out.push_str("/**"),
            None => out.push('*'),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}
