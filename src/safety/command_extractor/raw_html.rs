//! Finds comments and other blocks of raw HTML in streamed Markdown: <https://spec.commonmark.org/0.31.2/#html-blocks>.
//! Blocks of ordinary tags such as `<div>` are left out, because models put tags around their answers.

use super::line_kind::list_markers;

/// Maximum number of bytes of a line that are examined.
const MAX_LINE: usize = 64 << 10;

/// Tags whose content is not Markdown.
const TAGS: [&str; 4] = ["pre", "script", "style", "textarea"];

/// Text that ends an open piece of HTML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HtmlEnd {
    /// This text.
    Text(&'static str),
    /// The end tag of any of [`TAGS`].
    Tag,
    /// The end of a comment that began within a paragraph, or a blank line.
    InlineComment,
}

impl HtmlEnd {
    /// Returns what follows the end in `line`, which is in lower case.
    fn after(self, line: &str) -> Option<&str> {
        match self {
            HtmlEnd::Text(end) => line.split_once(end).map(|(_, after)| after),
            HtmlEnd::Tag => {
                let tags = line.match_indices("</").map(|(at, _)| &line[at + 2..]);
                let mut after = tags.flat_map(|rest| {
                    let tag = TAGS.iter().find_map(|tag| rest.strip_prefix(tag));
                    tag.and_then(|after| after.strip_prefix('>'))
                });
                after.next()
            }
            HtmlEnd::InlineComment if line.trim().is_empty() => Some(""),
            HtmlEnd::InlineComment => HtmlEnd::Text("-->").after(line),
        }
    }
}

/// The state of the text so far.
#[derive(Debug, Default)]
pub struct RawHtmlScanner {
    open: Option<HtmlEnd>,
    /// The line so far.
    line: Vec<u8>,
}

impl RawHtmlScanner {
    /// Returns whether a line that begins now is part of HTML.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Handles text.
    pub fn push(&mut self, text: &str) {
        for part in text.split_inclusive('\n') {
            let room = MAX_LINE.saturating_sub(self.line.len());
            self.line.extend(part.bytes().take(room));
            if part.ends_with('\n') {
                let line = std::mem::take(&mut self.line).to_ascii_lowercase();
                self.end_line(&String::from_utf8_lossy(&line));
            }
        }
    }

    fn end_line(&mut self, line: &str) {
        let rest = match self.open.take() {
            Some(end) => match end.after(line) {
                Some(after) => after,
                None => return self.open = Some(end),
            },
            None => {
                let content = line.trim_start_matches([' ', '\t']);
                let content = &content[list_markers(content).0..];
                let content = content.trim_start_matches([' ', '\t']);
                let Some((end, after)) = block(content) else {
                    return self.open = inline(line);
                };
                match end.after(after) {
                    Some(after) => after,
                    None => return self.open = Some(end),
                }
            }
        };
        self.open = inline(rest);
    }
}

/// Returns the end of the block that `line` begins, and the line after its start.
fn block(line: &str) -> Option<(HtmlEnd, &str)> {
    let tag = line.strip_prefix('<')?;
    let is_tag = |name: &&&str| {
        let after = tag.strip_prefix(**name);
        after.is_some_and(|after| {
            after.trim_start().len() < after.len() || after.is_empty() || after.starts_with('>')
        })
    };
    let end = match tag.as_bytes() {
        // The hyphens of the start may be those of the end.
        [b'!', b'-', b'-', ..] => return Some((HtmlEnd::Text("-->"), &tag[1..])),
        [b'?', ..] => HtmlEnd::Text("?>"),
        _ if tag.starts_with("![cdata[") => HtmlEnd::Text("]]>"),
        [b'!', b'a'..=b'z', ..] => HtmlEnd::Text(">"),
        _ if TAGS.iter().any(|name| is_tag(&name)) => HtmlEnd::Tag,
        _ => return None,
    };
    Some((end, &tag[1..]))
}

/// Returns whether a line of a paragraph leaves a comment open. In a code span, and after a backslash, the beginning of a
/// comment is text.
fn inline(line: &str) -> Option<HtmlEnd> {
    let mut rest = line;
    while let Some(at) = rest.find(['\\', '`', '<']) {
        rest = &rest[at..];
        if rest.starts_with('\\') {
            let mut after = rest[1..].chars();
            after.next();
            rest = after.as_str();
        } else if rest.starts_with('`') {
            let after = rest.trim_start_matches('`');
            let length = rest.len() - after.len();
            rest = after_code_span(after, length).unwrap_or(after);
        } else if let Some(comment) = rest.strip_prefix("<!") {
            match comment
                .strip_prefix("--")
                .map(|_| HtmlEnd::Text("-->").after(comment))
            {
                Some(Some(after)) => rest = after,
                Some(None) => return Some(HtmlEnd::InlineComment),
                None => rest = comment,
            }
        } else {
            rest = &rest[1..];
        }
    }
    None
}

/// Returns what follows the code span that begins with `length` backticks before `text`, if it ends on this line.
fn after_code_span(text: &str, length: usize) -> Option<&str> {
    let mut rest = text;
    loop {
        rest = &rest[rest.find('`')?..];
        let after = rest.trim_start_matches('`');
        if rest.len() - after.len() == length {
            return Some(after);
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_ends_where_markdown_ends_it() {
        for (text, is_open) in [
            ("<!-- a\n", true),
            ("   <!-- a\n\nb\n", true),
            ("1. <!-- a\n\nb\n", true),
            ("<!-- a\n-->\n", false),
            ("<!-->\n", false),
            ("<!---\n", true),
            ("a <!-- b\nc\n", true),
            ("a <!-- b\n \n", false),
            ("a <!-- b --> c <!-- d\n", true),
            ("a <!-- b\nc --> d\n", false),
            ("`<!--` a\n", false),
            ("`a` <!-- b\n", true),
            ("it`s <!-- b\n", true),
            ("a \\` <!-- b `\n", true),
            ("a \\<!-- b\n", false),
            ("`` ` <!-- `` ` <!--\n", true),
            ("`` ` <!-- ``\n", false),
            ("<!-\n- a\n", false),
            ("é<!-- ü\n", true),
            ("<?php\na\n", true),
            ("<?php\na ?>\n", false),
            ("<![CDATA[\n> a\n", true),
            ("<![CDATA[\n> a ]]>\n", false),
            ("<!DOCTYPE\na\n", true),
            ("<!DOCTYPE\na>\n", false),
            ("<pre>\n\na\n", true),
            ("- <Script type=a>\n", true),
            ("<textarea\n", true),
            ("<style>\na</STYLE> b\n", false),
            ("<pre>a</pre> <!-- b\n", true),
            ("<present>\n", false),
            ("a <pre>\n", false),
            ("<div>\n", false),
        ] {
            for (at, _) in text.char_indices() {
                let mut scanner = RawHtmlScanner::default();
                scanner.push(&text[..at]);
                scanner.push(&text[at..]);
                assert_eq!(scanner.is_open(), is_open, "{text:?} at {at}");
            }
        }
    }

    #[test]
    fn a_long_line_is_looked_at_in_part() {
        let mut scanner = RawHtmlScanner::default();
        let long = "é".repeat(MAX_LINE);
        for _ in 0..3 {
            scanner.push(&long);
            assert!(scanner.line.len() <= MAX_LINE);
        }
        scanner.push("<!--\n");
        assert!(!scanner.is_open());
        scanner.push("<!--\n");
        assert!(scanner.is_open());
    }
}
