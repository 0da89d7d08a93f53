//! Programs of `awk`: whether they run commands, and which files they write.

/// What a program does besides printing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AwkEffects {
    /// Whether it runs a command or loads code.
    pub runs: bool,
    /// The files that it writes; empty for one that is computed.
    pub writes: Vec<String>,
}

/// Reads a program.
pub fn awk_effects(program: &str) -> AwkEffects {
    let (code, texts) = without_texts(program);
    let words: Vec<&str> = code
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .collect();
    let has_pipe = code.replace("||", "").contains('|');
    let mut effects = AwkEffects {
        runs: words.contains(&"system") || has_pipe || code.contains('@'),
        writes: Vec::new(),
    };
    for (at, word) in code.match_indices("print") {
        let rest = code.get(at + word.len()..).unwrap_or_default();
        let mut depth = 0;
        for (at, c) in rest.char_indices() {
            match c {
                '(' | '[' => depth += 1,
                ')' | ']' => depth -= 1,
                ';' | '}' | '\n' if depth <= 0 => break,
                '>' if depth <= 0 => {
                    let target = rest.get(at + 1..).unwrap_or_default();
                    let target = target.trim_start_matches('>').trim_start();
                    effects.writes.push(literal(target, &texts));
                    break;
                }
                _ => {}
            }
        }
    }
    effects
}

/// Returns the text that an expression begins with, if it is only that.
fn literal(expression: &str, texts: &[String]) -> String {
    let number = expression
        .strip_prefix('"')
        .and_then(|rest| rest.split_once('"'));
    let text = number.filter(|(_, rest)| {
        let rest = rest.trim_start();
        rest.is_empty() || rest.starts_with([';', '}'])
    });
    let text = text.and_then(|(number, _)| texts.get(number.parse::<usize>().ok()?));
    text.cloned().unwrap_or_default()
}

/// Replaces each text by `"N"`, its number, and removes expressions and comments.
fn without_texts(program: &str) -> (String, Vec<String>) {
    let mut code = String::with_capacity(program.len());
    let mut texts = Vec::new();
    let mut chars = program.chars();
    while let Some(c) = chars.next() {
        let before = code.trim_end_matches([' ', '\t']).chars().next_back();
        // After a value, a slash divides.
        let is_expression = c == '/'
            && before
                .is_none_or(|c| !(c.is_alphanumeric() || matches!(c, '_' | ')' | ']' | '"' | '$')));
        if c == '#' {
            if chars.by_ref().any(|c| c == '\n') {
                code.push('\n');
            }
        } else if c == '"' || is_expression {
            let mut text = String::new();
            while let Some(next) = chars.next() {
                match next {
                    '\\' => text.extend(chars.next()),
                    next if next == c => break,
                    next => text.push(next),
                }
            }
            if c == '"' {
                code.push_str(&format!("\"{}\"", texts.len()));
                texts.push(text);
            } else {
                code.push('0');
            }
        } else {
            code.push(c);
        }
    }
    (code, texts)
}
