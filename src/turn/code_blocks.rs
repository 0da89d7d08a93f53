//! Blocks of Python code in an answer that call helpers: each is a call of the tool `python`. Pure.

use serde_json::json;

use crate::chat::ToolCall;
use crate::tools::builtin::PYTHON;

/// Prefix of the ids of calls that are written in the text of an answer.
pub(super) const ID_PREFIX: &str = "code_";

/// Maximum number of blocks of an answer that are calls.
const MAX_BLOCKS: usize = 8;

/// First words of the info string of a fence.
const LANGUAGES: [&str; 3] = ["py", "python", "python3"];

/// Returns the calls that an answer's fenced blocks represent, see [CommonMark](https://spec.commonmark.org/0.31.2/#fenced-code-blocks).
/// Code that calls none of the helpers was written to be read.
pub(super) fn calls(answer: &str, helpers: &[String]) -> Vec<ToolCall> {
    if helpers.is_empty() {
        return Vec::new();
    }
    blocks(answer)
        .into_iter()
        .filter(|code| helpers.iter().any(|name| calls_function(code, name)))
        .take(MAX_BLOCKS)
        .map(|code| ToolCall {
            id: format!("{ID_PREFIX}{}", uuid::Uuid::new_v4().simple()),
            name: PYTHON.to_owned(),
            arguments: json!({ "code": code }).to_string(),
            extra: None,
        })
        .collect()
}

/// Returns the content of every closed block of Python.
fn blocks(answer: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<OpenBlock> = None;
    for line in answer.lines() {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let fence = Fence::of(line).filter(|_| indent <= 3);
        match (&mut open, fence) {
            (Some(block), Some(fence)) if fence.closes(&block.fence) => {
                found.extend(
                    open.take()
                        .filter(|block| block.is_python)
                        .map(|block| block.code),
                );
            }
            (Some(block), _) => {
                // The content loses as much indentation as its fence has.
                let removed = indent.min(block.indent);
                block.code.push_str(line.get(removed..).unwrap_or_default());
                block.code.push('\n');
            }
            (None, Some(fence)) => {
                let language = fence.info.split([' ', ',', '{']).next().unwrap_or_default();
                open = Some(OpenBlock {
                    is_python: LANGUAGES.contains(&language.to_lowercase().as_str()),
                    indent,
                    fence,
                    code: String::new(),
                });
            }
            (None, None) => {}
        }
    }
    found
}

struct OpenBlock<'a> {
    fence: Fence<'a>,
    indent: usize,
    is_python: bool,
    code: String,
}

struct Fence<'a> {
    mark: char,
    length: usize,
    info: &'a str,
}

impl Fence<'_> {
    fn of(line: &str) -> Option<Fence<'_>> {
        let text = line.trim();
        let mark = text
            .chars()
            .next()
            .filter(|mark| matches!(mark, '`' | '~'))?;
        let info = text.trim_start_matches(mark);
        let length = text.len() - info.len();
        // Behind a fence of backticks, a backtick makes it code in a line.
        let is_fence = length >= 3 && !(mark == '`' && info.contains('`'));
        is_fence.then(|| Fence {
            mark,
            length,
            info: info.trim(),
        })
    }

    fn closes(&self, opened: &Fence<'_>) -> bool {
        self.mark == opened.mark && self.length >= opened.length && self.info.is_empty()
    }
}

/// Whether code has a call of a function by its name.
fn calls_function(code: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let code = without_text(code);
    code.match_indices(name).any(|(at, _)| {
        let before = code.get(..at).unwrap_or_default();
        let after = code.get(at + name.len()..).unwrap_or_default();
        // A method of something else has this name too, but `helper.NAME` is the helper.
        let is_own = !before.ends_with('.') || before.ends_with("helper.");
        !before.ends_with(is_word)
            && is_own
            && !before.trim_end().ends_with("def")
            && after.trim_start_matches(' ').starts_with('(')
    })
}

/// Returns code without its comments and the content of its strings.
fn without_text(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(['#', '\'', '"']) {
        let (before, from) = rest.split_at(at);
        kept.push_str(before);
        if from.starts_with('#') {
            rest = from
                .find('\n')
                .map_or("", |end| from.get(end..).unwrap_or_default());
            continue;
        }
        let quote = ["\"\"\"", "'''", "\"", "'"]
            .into_iter()
            .find(|quote| from.starts_with(quote));
        let quote = quote.unwrap_or("\"");
        kept.push_str("\"\"");
        let mut inside = from.get(quote.len()..).unwrap_or_default();
        while !inside.is_empty() && !inside.starts_with(quote) {
            let mut chars = inside.chars();
            if chars.next() == Some('\\') {
                chars.next();
            }
            inside = chars.as_str();
        }
        rest = inside.strip_prefix(quote).unwrap_or_default();
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(answer: &str) -> Vec<String> {
        let helpers = ["add".to_owned(), "plot".to_owned()];
        let code = |call: ToolCall| {
            let arguments: serde_json::Value = serde_json::from_str(&call.arguments).unwrap();
            assert_eq!(call.name, "python");
            arguments["code"].as_str().unwrap().to_owned()
        };
        calls(answer, &helpers).into_iter().map(code).collect()
    }

    #[test]
    fn blocks_that_call_helpers_are_calls() {
        for (answer, expected) in [
            (
                "So:\n```python\nprint(add(1, 2))\n```\ndone",
                "print(add(1, 2))\n",
            ),
            ("```py\nhelper.plot (x)\n```", "helper.plot (x)\n"),
            (
                "  ~~~~ Python title=x\n  if a:\n    add(1, 2)\n  ~~~~~\n",
                "if a:\n  add(1, 2)\n",
            ),
            ("```python\nadd(1, '```x')\n```", "add(1, '```x')\n"),
            ("```sh\nls\n```\n```python3\nadd(1,1)\n```", "add(1,1)\n"),
        ] {
            assert_eq!(code(answer), [expected], "{answer}");
        }
        assert_eq!(
            code("```python\nadd(1, 1)\n```\n```python\nadd(2, 2)\n```").len(),
            2
        );
    }

    #[test]
    fn other_blocks_are_text() {
        for answer in [
            "```python\nprint('hello')\n```",
            "```python\ndef add(a, b):\n    return a + b\n```",
            "```python\nset.add(1)\nreadd(2)\nadded(3)\nadd = 1\n```",
            "```python\nadd(1, 2)\n",
            "```python\n# add(1, 2)\nprint(1)\n```",
            "```python\nprint('add(1, 2)', \"\\\"add(1)\")\n```",
            "```python\n'''\nadd(1, 2)\n'''\n```",
            "```\nadd(1, 2)\n```",
            "```sh\nadd(1)\n```",
            "````\n```python\nadd(1, 2)\n```\n````",
            "    ```python\n    add(1, 2)\n    ```",
            "`add(1, 2)`",
            "",
        ] {
            assert!(code(answer).is_empty(), "{answer}");
        }
        let block = "```python\nadd(1, 1)\n```\n";
        assert_eq!(code(&block.repeat(20)).len(), MAX_BLOCKS);
        assert!(calls(block, &[]).is_empty());
    }
}
