//! Preprocessing of Rust sources for the checks: code without comments, strings and tests; and its imports.

/// Returns the code of a source without comments, contents of strings, and items marked `#[cfg(test)]`. Line numbers are
/// preserved.
pub fn code(source: &str) -> String {
    without_tests(&without_text(source))
}

/// Number of lines of a source, without tests.
pub fn lines(source: &str) -> usize {
    // Comments count as lines, so only the test items found in the code are subtracted.
    let code = without_text(source);
    let kept = without_tests(&code);
    let tests = code.lines().filter(|l| !l.trim().is_empty()).count()
        - kept.lines().filter(|l| !l.trim().is_empty()).count();
    source.lines().count() - tests
}

fn without_text(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut out = String::with_capacity(source.len());
    let mut i = 0;
    while i < chars.len() {
        let c = chars[i];
        let word = i > 0 && (chars[i - 1].is_alphanumeric() || chars[i - 1] == '_');
        match c {
            '/' if at(i + 1) == '/' => {
                while i < chars.len() && chars[i] != '\n' {
                    i += 1;
                }
            }
            '/' if at(i + 1) == '*' => {
                let mut depth = 0;
                while i < chars.len() {
                    match (chars[i], at(i + 1)) {
                        ('/', '*') => (depth, i) = (depth + 1, i + 2),
                        ('*', '/') => (depth, i) = (depth - 1, i + 2),
                        (c, _) => {
                            out.extend((c == '\n').then_some('\n'));
                            i += 1;
                        }
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
            'r' | 'b' if !word && raw_start(&chars, i).is_some() => {
                let (start, hashes) = raw_start(&chars, i).unwrap();
                let end: Vec<char> = std::iter::once('"')
                    .chain(std::iter::repeat_n('#', hashes))
                    .collect();
                i = start;
                out.push('"');
                while i < chars.len() && !chars[i..].starts_with(&end) {
                    out.extend((chars[i] == '\n').then_some('\n'));
                    i += 1;
                }
                out.push('"');
                i += end.len();
            }
            '"' => {
                out.push('"');
                i += 1;
                while i < chars.len() && chars[i] != '"' {
                    out.extend((chars[i] == '\n').then_some('\n'));
                    i += if chars[i] == '\\' && at(i + 1) != '\n' {
                        2
                    } else {
                        1
                    };
                }
                out.push('"');
                i += 1;
            }
            // A character literal, not a lifetime: it ends after one character or one escape.
            '\'' if at(i + 1) == '\\' || at(i + 2) == '\'' => {
                i += if at(i + 1) == '\\' { 3 } else { 2 };
                while i < chars.len() && chars[i] != '\'' {
                    i += 1;
                }
                out.push_str("''");
                i += 1;
            }
            c => {
                out.push(c);
                i += 1;
            }
        }
    }
    out
}

/// Position after the opening quote of a raw string at `i`, and its number of `#`.
fn raw_start(chars: &[char], i: usize) -> Option<(usize, usize)> {
    let mut j = i + usize::from(chars[i] == 'b');
    if chars.get(j) != Some(&'r') {
        return None;
    }
    j += 1;
    let hashes = chars[j..].iter().take_while(|c| **c == '#').count();
    (chars.get(j + hashes) == Some(&'"')).then_some((j + hashes + 1, hashes))
}

fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(start) = rest.find(MARK) {
        out.push_str(&rest[..start]);
        let item = &rest[start + MARK.len()..];
        let mut depth = 0;
        let end = item
            .char_indices()
            .find_map(|(i, c)| {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                (matches!(c, ';' | '}') && depth == 0).then_some(i + 1)
            })
            .unwrap_or(item.len());
        out.extend(item[..end].chars().filter(|c| *c == '\n'));
        rest = &item[end..];
    }
    out + rest
}

/// Absolute paths of all items of this crate that the code of `module` names.
pub fn imports(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for begin in ["crate::", "super::"] {
        for (i, _) in code.match_indices(begin) {
            let before = code[..i].chars().next_back();
            // Not a start: `x::super::`, `supercrate::`, and the second half of `super::super::`.
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let mut chars = code[i..].chars().filter(|c| !c.is_whitespace()).peekable();
            tree(&mut chars, &mut Vec::new(), &mut found);
        }
    }
    found.iter().map(|path| absolute(path, module)).collect()
}

/// Returns the name and the path of every item in the `pub use` statements, as they are written.
pub fn re_exports(code: &str) -> Vec<(String, Vec<String>)> {
    // A path may be written with an alias, which becomes its last part.
    const ALIAS: &str = "as__";
    let mut found = Vec::new();
    for (i, _) in code.match_indices("pub") {
        let rest = &code[i + "pub".len()..];
        let rest = match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(')').map_or("", |(_, rest)| rest),
            None => rest,
        };
        let Some(items) = rest.trim_start().strip_prefix("use ") else {
            continue;
        };
        let items = items.split(';').next().unwrap_or_default();
        let items = items.replace(" as ", &format!("::{ALIAS}"));
        let mut chars = items.chars().filter(|c| !c.is_whitespace()).peekable();
        let mut paths = Vec::new();
        tree(&mut chars, &mut Vec::new(), &mut paths);
        for mut path in paths {
            let Some(last) = path.last().cloned() else {
                continue;
            };
            let name = match last.strip_prefix(ALIAS) {
                Some(alias) => {
                    path.pop();
                    alias.to_owned()
                }
                None => last,
            };
            found.push((name, path));
        }
    }
    found
}

/// Expands a use tree such as `a::b::{c, d::e}` to its paths.
fn tree(
    chars: &mut std::iter::Peekable<impl Iterator<Item = char>>,
    prefix: &mut Vec<String>,
    found: &mut Vec<Vec<String>>,
) {
    let depth = prefix.len();
    loop {
        let mut name = String::new();
        while let Some(c) = chars.next_if(|c| c.is_alphanumeric() || *c == '_') {
            name.push(c);
        }
        if !name.is_empty() {
            prefix.push(name);
        }
        if chars.peek() == Some(&'{') {
            chars.next();
            loop {
                tree(chars, prefix, found);
                match chars.next() {
                    Some(',') => {}
                    _ => break,
                }
            }
            break;
        }
        if chars.peek() != Some(&':') {
            found.push(prefix.clone());
            break;
        }
        chars.next();
        // `x: Type` is not a continued path.
        if chars.next_if_eq(&':').is_none() {
            found.push(prefix.clone());
            break;
        }
    }
    prefix.truncate(depth);
}

/// Returns a path that begins with `crate` or `super` as a path from the root of the crate.
pub fn absolute(path: &[String], module: &[String]) -> Vec<String> {
    match path.first().map(String::as_str) {
        Some("crate") => path[1..].to_vec(),
        Some("super") => {
            let up = path.iter().take_while(|p| *p == "super").count();
            let mut full = module[..module.len().saturating_sub(up)].to_vec();
            full.extend_from_slice(&path[up..]);
            full
        }
        _ => path.to_vec(),
    }
}

/// Module path of a file under `src`.
pub fn module(file: &str) -> Vec<String> {
    let path = file.trim_start_matches("src/").trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if matches!(path, "lib" | "main") {
        return Vec::new();
    }
    path.split('/').map(str::to_owned).collect()
}

#[test]
fn strings_comments_and_tests_are_removed() {
    let source = r##"
let url = "http://x"; // crate::comment
let raw = r#"crate::"raw"#; let byte = b'\''; let quote = '"';
/* crate::block
/* nested */ */ fn f<'a>(x: &'a str) -> char { '\u{1b}' }
#[cfg(test)]
mod tests {
    fn g() { crate::tested(); }
}
fn after() {}
"##;
    let code = code(source);
    assert!(!code.contains("crate"), "{code}");
    assert!(code.contains("fn f<'a>(x: &'a str)") && code.contains("fn after"));
    assert_eq!(code.lines().count(), source.lines().count());
    assert_eq!(lines("a\n// b\n#[cfg(test)]\nmod t {\n    c\n}\nd\n"), 3);
}

#[test]
fn imports_are_absolute_paths() {
    let module: Vec<String> = ["daemon", "turn"].map(String::from).to_vec();
    let found: Vec<String> = imports(
        "use crate::{a::{b, c::D}, e};\nuse super::f::G;\nlet x: crate::h::I = super::super::j();",
        &module,
    )
    .iter()
    .map(|p| p.join("::"))
    .collect();
    assert_eq!(found, ["a::b", "a::c::D", "e", "h::I", "daemon::f::G", "j"]);
}
