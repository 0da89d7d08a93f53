//! Files, queries and requests that Python code names in plain texts, so that they are judged as what they are.

/// Effects of Python code on the things that it names.
#[derive(Debug, Default)]
pub struct NamedEffects {
    /// The code without these uses.
    pub rest: String,
    /// Files that it writes.
    pub files: Vec<String>,
    /// Texts for SQLite.
    pub queries: Vec<String>,
    /// Whether it sends requests that only get something.
    pub requests: bool,
}

/// Methods that write the file that their first argument names.
const WRITERS: [&str; 5] = [
    ".savefig(",
    ".to_csv(",
    ".to_json(",
    ".to_parquet(",
    ".to_excel(",
];

/// Splits a text without escapes off the beginning of code.
fn literal(code: &str) -> Option<(&str, &str)> {
    let quote = code.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let (text, rest) = code.get(1..)?.split_once(quote)?;
    let is_plain = !text.is_empty() && !text.contains(['\\', '\n']);
    is_plain.then_some((text, rest))
}

/// Splits a file below the working directory, by its name, off the beginning of code.
fn file(code: &str) -> Option<(&str, &str)> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_' | '-');
    let ends = |rest: &str| rest.trim_start().starts_with([',', ')']);
    literal(code).filter(|(path, rest)| {
        !path.starts_with('/') && !path.contains("..") && path.chars().all(is_plain) && ends(rest)
    })
}

/// Splits the mode of `open`, with which it writes, off the beginning of the arguments after the file.
fn mode(arguments: &str) -> Option<&str> {
    let arguments = arguments.trim_start().strip_prefix(',')?.trim_start();
    let (mode, rest) = literal(arguments.strip_prefix("mode=").unwrap_or(arguments))?;
    let writes = mode.contains(['w', 'a', 'x']) && mode.chars().all(|c| "waxbt+".contains(c));
    writes.then_some(rest)
}

/// Returns what Python code does with the files, queries and requests that it names, or `None` if it names none.
pub fn named_effects(code: &str) -> Option<NamedEffects> {
    let mut found = NamedEffects::default();
    let mut rest = code;
    let has_queries = code.contains("import sqlite3");
    while let Some(next) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let is_start = !found.rest.ends_with(is_word);
        let after = |start: &str| rest.strip_prefix(start);
        let opened = after("open(").filter(|_| is_start).and_then(file);
        let opened = opened.and_then(|(path, rest)| Some((path, mode(rest)?)));
        let written = WRITERS.iter().find_map(|name| file(after(name)?));
        let query = after(".execute(").filter(|_| has_queries).and_then(literal);
        let database = after("sqlite3.connect(").filter(|_| is_start);
        let request = ["requests.get(", "requests.head("]
            .iter()
            .find_map(|name| after(name));
        let request = request.filter(|_| is_start);
        if let Some((path, behind)) = opened {
            found.files.push(path.to_owned());
            found.rest.push_str("open('x'");
            rest = behind;
        } else if let Some((path, behind)) = written {
            found.files.push(path.to_owned());
            found.rest.push_str(".show('x'");
            rest = behind;
        } else if let Some((query, behind)) = query {
            found.queries.push(query.to_owned());
            found.rest.push_str(".show('x'");
            rest = behind;
        } else if let Some((path, behind)) = database.and_then(literal) {
            found.files.push(path.to_owned());
            found.rest.push_str("print('x'");
            rest = behind;
        } else if let Some(behind) = request {
            found.requests = true;
            found.rest.push_str("print(");
            rest = behind;
        } else {
            found.rest.push(next);
            rest = rest.get(next.len_utf8()..)?;
        }
    }
    found.files.retain(|path| path != ":memory:");
    let opens = code.contains("open(") && !found.files.is_empty();
    let fills = [".write(", "dump(", "writer(", "file="];
    let empties = [".write(\'\'", ".write(\"\"", ".write(b\'\'", ".write(b\"\""];
    // A file that is only opened to write is emptied.
    if opens && !fills.iter().any(|fill| code.contains(fill))
        || empties.iter().any(|empty| code.contains(empty))
    {
        return None;
    }
    if !found.files.is_empty() {
        found.rest = found.rest.replace(".write(", ".show(");
    }
    for module in ["import sqlite3", "import requests"] {
        found.rest = found.rest.replace(module, "import json");
    }
    let is_named = found.requests || !found.files.is_empty() || !found.queries.is_empty();
    is_named.then_some(found)
}
