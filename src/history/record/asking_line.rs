//! Tells command lines that ask aish from others.

/// Options of `llm` that take a value.
const VALUE_OPTIONS: &[&str] = &[
    "-m",
    "-f",
    "-r",
    "--model",
    "--file",
    "--attach",
    "--resource",
    "--tools",
    "--prompt",
    "--add-dir",
];

/// Words after which a command follows.
const PREFIXES: &[&str] = &[
    "noglob",
    "nocorrect",
    "command",
    "builtin",
    "exec",
    "time",
    "!",
    "{",
    "(",
    "if",
    "then",
    "elif",
    "else",
    "while",
    "until",
    "do",
];

/// Returns whether the last pipeline of a command line asks aish: it took as long as the model, and its output is not the user's. The
/// plugin decides likewise for `:fix` (`zsh/functions/_aish_asks`).
pub fn is_aish(line: &str) -> bool {
    let mut rest = line;
    let (mut asks, mut is_command, mut begins) = (false, true, true);
    while let Some(token) = next_token(&mut rest) {
        let word = match token {
            Token::Word(word) => word,
            Token::Pipe => {
                is_command = true;
                continue;
            }
            Token::List => {
                (is_command, begins) = (true, true);
                continue;
            }
        };
        // These words end a compound command; they do not begin a pipeline.
        if matches!(word, "done" | "fi" | "esac" | "}" | ")") {
            continue;
        }
        asks &= !std::mem::take(&mut begins);
        if !is_command || PREFIXES.contains(&word) || is_assignment(word) {
            continue;
        }
        is_command = false;
        match word.rsplit('/').next() {
            Some("aish-helper") => asks = true,
            Some("llm") if is_prompt(rest) => return true,
            Some("llm") => asks = true,
            _ => {}
        }
    }
    asks
}

/// Whether the text after an `llm` is a prompt without quotes, which reaches to the end of the line.
fn is_prompt(mut rest: &str) -> bool {
    loop {
        let word = match next_token(&mut rest) {
            Some(Token::Word(word)) => word,
            Some(Token::Pipe) => return true,
            Some(Token::List) | None => return false,
        };
        match word.as_bytes() {
            b"--" => return true,
            [b'-', ..] => {
                if VALUE_OPTIONS.contains(&word) {
                    next_token(&mut rest);
                }
            }
            [b':', b'a'..=b'z', ..] => return false,
            [b'\'' | b'"', ..] | [b'$', b'\'', ..] => {
                // More lines were pasted.
                if rest.trim_start_matches([' ', '\t']).starts_with('\n') && !rest.trim().is_empty()
                {
                    return true;
                }
                let redirects = |word: &str| {
                    let word = word.trim_start_matches(|c: char| c.is_ascii_digit());
                    word.starts_with(['<', '>', '&'])
                };
                return matches!(next_token(&mut rest), Some(Token::Word(word)) if !redirects(word));
            }
            // Also what looks like a redirection: the plugin takes it as text.
            _ => return true,
        }
    }
}

fn is_assignment(word: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| {
        !name.is_empty()
            && name.chars().all(is_name)
            && !name.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// A part of a command line.
enum Token<'a> {
    Word(&'a str),
    /// `|` and `|&`.
    Pipe,
    /// An operator between pipelines.
    List,
}

/// Takes the next token from the beginning of `rest`.
fn next_token<'a>(rest: &mut &'a str) -> Option<Token<'a>> {
    let text = rest.trim_start_matches([' ', '\t', '\r']);
    let (token, length) = match text.as_bytes() {
        [] => return None,
        [b'|', b'|', ..] | [b'&', b'&' | b'|' | b'!', ..] => (Token::List, 2),
        [b'|', b'&', ..] => (Token::Pipe, 2),
        [b'|', ..] => (Token::Pipe, 1),
        [b'&', b'>', ..] => (Token::Word("&>"), 2),
        [b';' | b'\n' | b'&', ..] => (Token::List, 1),
        bytes => {
            let length = word_length(bytes);
            (Token::Word(text.get(..length)?), length)
        }
    };
    *rest = text.get(length..).unwrap_or_default();
    Some(token)
}

/// Returns the length of the word at the beginning of `bytes`, at least 1. Substitutions and quotes are part of it.
fn word_length(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        match byte {
            b'\\' => at += 1,
            b'\'' | b'"' | b'`' => at += quote_length(bytes.get(at..).unwrap_or_default(), before),
            b'(' if at > 0 => depth += 1,
            b')' if depth > 0 => depth -= 1,
            b'&' | b'|' if matches!(before, Some(b'<' | b'>')) => {}
            b' ' | b'\t' | b'\r' | b'\n' | b';' | b'&' | b'|' | b')' if depth == 0 && at > 0 => {
                break;
            }
            b'(' | b')' => return 1,
            _ => {}
        }
        at += 1;
    }
    at.min(bytes.len())
}

/// Returns how far the end of the quotes is from their beginning.
fn quote_length(bytes: &[u8], before: Option<&u8>) -> usize {
    let quote = bytes.first();
    let is_literal = quote == Some(&b'\'') && before != Some(&b'$');
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if !is_literal => at += 1,
            byte if Some(byte) == quote => break,
            _ => {}
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pipeline_decides_what_a_line_is() {
        for line in [
            "llm hello",
            "/usr/local/bin/aish-helper status",
            "cat Makefile | llm what is it",
            "git diff|llm -m small what's wrong; it fails | sort",
            "git diff |& noglob llm review",
            "X=1 llm hi",
            "cd src && git diff | llm what's wrong?",
            "llm explain this < Makefile",
            "llm \"list colours\" | sort > colours",
            "make 2>&1 | llm 'why' >out 2>&1;",
            "make; llm -- 'why'; make",
            "llm 'what' is; that",
            "llm :status | head",
            "print \"$(ls | wc -l)\" | llm -c\n",
            "cat ünïcode\\é | llm",
            "llm <html> tags; what is wrong with them",
            "llm :) hello there; what is up",
            "llm < notes; echo hi",
            "llm \"review\"\nplease; do it",
            "for i in 1 2; do llm \"look $i\"; done",
            "if true; then llm 'look'; fi",
        ] {
            assert!(is_aish(line), "{line}");
        }
        for line in [
            "",
            "make",
            "echo llm hello",
            "llm \"list\" | sort; cat x",
            "llm -m small 'list' && make",
            "llm :status; make",
            "cat notes | grep 'x | llm y'",
            "cat notes | grep \"x\\\" | llm y",
            "echo $(git diff | llm review)",
            "make # | llm-lint",
            "ls & make |",
            "a>|llm b",
            "for i in 1 2; do llm 'look'; make; done",
        ] {
            assert!(!is_aish(line), "{line}");
        }
    }
}
