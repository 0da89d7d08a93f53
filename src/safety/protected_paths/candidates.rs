//! The texts in the arguments of a call that may be paths.

use std::collections::BTreeSet;

use serde_json::Value;

use super::commands::{self, Reading};
use super::path_text::{
    Candidates, PathCandidate, PathUse, Unchecked, Variables, expand, is_path_like,
};
use super::shell_words::unescaped;
use crate::safety::percent::percent_decoded;

/// Maximum number of times that a text is decoded.
const MAX_DECODINGS: usize = 3;

/// Names of arguments that hold a command line.
const COMMAND_KEYS: &[&str] = &["cmd", "command", "commands", "exec", "script", "shell"];

/// Names of arguments that hold the directory in which a tool works.
const DIRECTORY_KEYS: &[&str] = &[
    "cwd",
    "current_dir",
    "currentdir",
    "workdir",
    "work_dir",
    "workingdir",
    "working_dir",
    "workingdirectory",
    "working_directory",
];

/// Returns what may be a path in the arguments, keys included, and every text in which a path may occur. A text alone is a
/// command line.
///
/// # Errors
/// There is too much to check, or a command runs a text that it does not contain.
pub fn path_candidates(
    arguments: &Value,
    variables: &Variables,
) -> Result<(BTreeSet<PathCandidate>, Vec<String>), Unchecked> {
    let mut texts = Vec::new();
    collect(arguments, arguments.is_string(), PathUse::Whole, &mut texts);
    let mut found = Candidates::default();
    let mut expanded = Vec::new();
    for (text, is_command, usage) in &texts {
        for text in readings(text) {
            add_text(&text, *usage, variables, &mut found);
            let reading = Reading {
                is_command: *is_command,
                ..Reading::COMMAND
            };
            commands::add(&text, reading, variables, &mut found);
            expanded.push(expand(&text, variables));
            if let Some(why) = found.unchecked {
                return Err(why);
            }
        }
    }
    Ok((found.all, expanded))
}

/// Returns what may be a path in a command line, also where it runs a text that it does not contain. Unknown parts are [`ANY`](super::ANY).
pub fn command_paths(command: &str, variables: &Variables) -> BTreeSet<PathCandidate> {
    let mut found = Candidates::default();
    for text in readings(command) {
        add_text(&text, PathUse::Mention, variables, &mut found);
        commands::add(&text, Reading::COMMAND, variables, &mut found);
    }
    found.all
}

/// Collects the strings and keys of a value, with whether each is a command line, and its use as a whole. The strings of an
/// array are also joined, since they may be the components of a path or the words of a command.
fn collect(
    value: &Value,
    is_command: bool,
    usage: PathUse,
    texts: &mut Vec<(String, bool, PathUse)>,
) {
    match value {
        Value::String(text) => texts.push((text.clone(), is_command, usage)),
        Value::Array(items) => {
            let parts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            if parts.len() > 1 {
                texts.push((parts.join("/"), false, usage));
                if is_command {
                    texts.push((parts.join(" "), true, PathUse::Mention));
                }
            }
            let items = items.iter();
            items.for_each(|item| collect(item, is_command && parts.len() == 1, usage, texts));
        }
        Value::Object(map) => {
            for (key, value) in map {
                texts.push((key.clone(), false, PathUse::Whole));
                let key = key.to_ascii_lowercase();
                let usage = match DIRECTORY_KEYS.contains(&key.as_str()) {
                    true => PathUse::Directory,
                    false => PathUse::Whole,
                };
                collect(value, COMMAND_KEYS.contains(&key.as_str()), usage, texts);
            }
        }
        _ => {}
    }
}

/// Returns the text itself, percent-decoded, and without escapes.
fn readings(text: &str) -> Vec<String> {
    let mut all = vec![text.to_owned()];
    let mut from = 0;
    for _ in 0..MAX_DECODINGS {
        let last = all.get(from..).unwrap_or_default();
        let next = last
            .iter()
            .flat_map(|text| [percent_decoded(text), unescaped(text)]);
        let next: Vec<String> = next.flatten().filter(|text| !all.contains(text)).collect();
        from = all.len();
        all.extend(next);
    }
    all
}

fn add_text(text: &str, usage: PathUse, variables: &Variables, found: &mut Candidates) {
    let mut add = |path: &str, usage: PathUse| {
        found.add(&expand(without_scheme(path), variables), usage);
    };
    // A C program ends a text at NUL.
    let until_nul = text.split('\0').next().unwrap_or_default();
    for whole in [text, until_nul] {
        add(whole.trim(), usage);
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
                add(part, PathUse::Mention);
            }
        }
    }
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
