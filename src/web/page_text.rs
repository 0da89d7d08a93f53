//! The readable text of an HTML page: headings, paragraphs, links, lists, tables and code, as Markdown.
//!
//! Works on the tags as they come, without a tree: linear in the size of the page, however deep it is nested. Elements that a
//! reader does not see (scripts, styles, hidden ones) are left out, so that a page cannot give the model text that it does not
//! show.

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{StartTag, Token, Tokenizer};

/// Maximum size of the text; a page of tags that each add a line grows.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// Maximum number of nested lists that are indented.
const MAX_LISTS: usize = 16;

/// Maximum length of the target of a link in bytes.
const MAX_LINK_BYTES: usize = 2000;

/// Elements whose contents are not text for a reader.
const UNSEEN: &[&[u8]] = &[
    b"script",
    b"style",
    b"template",
    b"svg",
    b"math",
    b"iframe",
    b"object",
    b"canvas",
    b"audio",
    b"video",
    b"select",
    b"datalist",
];

/// Elements without contents.
const VOID: &[&[u8]] = &[
    b"area", b"base", b"br", b"col", b"embed", b"hr", b"img", b"input", b"link", b"meta",
    b"source", b"track", b"wbr",
];

/// Elements that begin and end a line.
const BLOCKS: &[&[u8]] = &[
    b"address",
    b"article",
    b"aside",
    b"body",
    b"dd",
    b"details",
    b"div",
    b"dt",
    b"fieldset",
    b"figcaption",
    b"figure",
    b"footer",
    b"form",
    b"header",
    b"main",
    b"nav",
    b"option",
    b"section",
    b"summary",
    b"tbody",
    b"thead",
    b"tr",
];

/// Elements with an empty line before and after them.
const PARAGRAPHS: &[&[u8]] = &[b"p", b"blockquote", b"dl", b"table", b"caption", b"title"];

/// Converts a page. `resolve` makes a link absolute; `None` leaves it out.
pub(super) fn page_text(html: &str, resolve: impl Fn(&str) -> Option<String>) -> String {
    let mut emitter = DefaultEmitter::default();
    // The contents of scripts are not tags.
    emitter.naively_switch_states(true);
    let mut page = PageWriter {
        resolve,
        text: String::new(),
        newlines: 2,
        space: false,
        pre: 0,
        lists: Vec::new(),
        unseen: None,
        link: None,
    };
    for token in Tokenizer::new_with_emitter(html, emitter) {
        let Ok(token) = token;
        if page.text.len() > MAX_TEXT_BYTES {
            break;
        }
        match token {
            Token::StartTag(tag) => page.start(&tag),
            Token::EndTag(tag) => page.end(&tag.name),
            Token::String(text) => page.string(&String::from_utf8_lossy(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }
    page.end_link();
    page.text.truncate(page.text.trim_end().len());
    page.text
}

/// An open element whose contents are left out: its name, and how many of that name are open in it.
struct UnseenElement {
    name: Vec<u8>,
    depth: usize,
}

/// An open link: where its text begins, and its target.
struct OpenLink {
    start: usize,
    target: String,
}

struct PageWriter<F> {
    resolve: F,
    text: String,
    /// Line ends at the end of `text`.
    newlines: usize,
    /// White space was met and not yet written.
    space: bool,
    /// Number of open `pre` elements.
    pre: usize,
    /// Open lists: the next number of an ordered one.
    lists: Vec<Option<u32>>,
    unseen: Option<UnseenElement>,
    link: Option<OpenLink>,
}

impl<F: Fn(&str) -> Option<String>> PageWriter<F> {
    fn start(&mut self, tag: &StartTag<()>) {
        let name: &[u8] = &tag.name;
        if let Some(unseen) = &mut self.unseen {
            unseen.depth += usize::from(unseen.name == name);
            return;
        }
        let is_void = VOID.contains(&name) || tag.self_closing;
        if !is_void && (UNSEEN.contains(&name) || is_hidden(tag)) {
            self.unseen = Some(UnseenElement {
                name: name.to_vec(),
                depth: 1,
            });
            return;
        }
        match name {
            b"br" => self.raw_line(),
            b"hr" => {
                self.lines(2);
                self.push("---");
                self.lines(2);
            }
            b"pre" => {
                self.lines(2);
                self.push("```\n");
                self.newlines = 1;
                self.pre += 1;
            }
            b"code" | b"kbd" | b"samp" if self.pre == 0 => {
                self.flush_space();
                self.push("`");
            }
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => {
                let level = name.get(1).map_or(1, |digit| usize::from(digit - b'0'));
                self.lines(2);
                self.push(&format!("{} ", "#".repeat(level)));
                self.space = false;
            }
            b"ul" | b"ol" | b"menu" => {
                self.lines(if self.lists.is_empty() { 2 } else { 1 });
                if self.lists.len() < MAX_LISTS {
                    self.lists.push((name == b"ol").then_some(1));
                }
            }
            b"li" => {
                self.lines(1);
                let depth = self.lists.len().saturating_sub(1);
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let mark = format!("{number}. ");
                        *number += 1;
                        mark
                    }
                    _ => "- ".to_owned(),
                };
                self.push(&format!("{}{mark}", "  ".repeat(depth)));
                self.space = false;
            }
            b"td" | b"th" if self.newlines == 0 => self.push(" | "),
            b"a" => {
                self.end_link();
                let href = attribute(tag, b"href").filter(|href| href.len() <= MAX_LINK_BYTES);
                if let Some(target) = href.and_then(|href| (self.resolve)(href.trim())) {
                    self.flush_space();
                    self.link = Some(OpenLink {
                        start: self.text.len(),
                        target,
                    });
                }
            }
            b"img" => {
                if let Some(alt) = attribute(tag, b"alt").filter(|alt| !alt.trim().is_empty()) {
                    self.string(&format!("[image: {}]", alt.trim()));
                }
            }
            name => self.block(name),
        }
    }

    fn end(&mut self, name: &[u8]) {
        if let Some(unseen) = &mut self.unseen {
            unseen.depth -= usize::from(unseen.name == name);
            if unseen.depth == 0 {
                self.unseen = None;
            }
            return;
        }
        match name {
            b"pre" if self.pre > 0 => {
                self.pre -= 1;
                self.lines(1);
                self.push("```");
                self.lines(2);
            }
            b"code" | b"kbd" | b"samp" if self.pre == 0 => {
                self.space = false;
                self.push("`");
            }
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => self.lines(2),
            b"ul" | b"ol" | b"menu" => {
                self.lists.pop();
                self.lines(if self.lists.is_empty() { 2 } else { 1 });
            }
            b"li" => self.lines(1),
            b"a" => self.end_link(),
            name => self.block(name),
        }
    }

    fn block(&mut self, name: &[u8]) {
        if PARAGRAPHS.contains(&name) {
            self.lines(if self.lists.is_empty() { 2 } else { 1 });
        } else if BLOCKS.contains(&name) {
            self.lines(1);
        }
    }

    fn string(&mut self, text: &str) {
        if self.unseen.is_some() {
            return;
        }
        if self.pre > 0 {
            let mut text = text;
            // The first line end of `pre` is not part of it.
            if self.text.ends_with("```\n") {
                text = text.strip_prefix('\n').unwrap_or(text);
            }
            for c in text.chars() {
                match c {
                    '\n' => self.raw_line(),
                    '\t' => self.push("\t"),
                    c if c.is_control() => {}
                    c => self.push(c.encode_utf8(&mut [0; 4])),
                }
            }
            return;
        }
        let mut words = text
            .split(|c: char| c.is_whitespace() && c != '\u{a0}')
            .peekable();
        while let Some(word) = words.next() {
            let visible: String = word.chars().filter(|c| !c.is_control()).collect();
            if !visible.is_empty() {
                self.flush_space();
                self.push(&visible);
            }
            self.space = self.space || words.peek().is_some();
        }
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.newlines = 0;
    }

    fn flush_space(&mut self) {
        if self.space && self.newlines == 0 && !self.text.ends_with(' ') {
            self.text.push(' ');
        }
        self.space = false;
    }

    fn raw_line(&mut self) {
        self.text.push('\n');
        self.newlines += 1;
        self.space = false;
    }

    /// Ends the line, so that at least `count` line ends are there.
    fn lines(&mut self, count: usize) {
        if self.pre > 0 {
            if self.newlines == 0 {
                self.raw_line();
            }
            return;
        }
        let end = self.text.trim_end_matches(' ').len();
        self.text
            .truncate(end.max(self.link.as_ref().map_or(0, |link| link.start)));
        self.space = false;
        while self.newlines < count && !self.text.is_empty() {
            self.raw_line();
        }
    }

    fn end_link(&mut self) {
        let Some(link) = self.link.take() else {
            return;
        };
        let label = self.text.get(link.start..).unwrap_or_default();
        let bare = label.trim().to_owned();
        if bare.is_empty() || bare == link.target {
            return;
        }
        if bare.contains('\n') {
            self.push(&format!(" ({})", link.target));
            return;
        }
        self.text.truncate(link.start);
        self.push(&format!("[{bare}]({})", link.target));
    }
}

fn attribute(tag: &StartTag<()>, name: &[u8]) -> Option<String> {
    let value = tag.attributes.get(name)?;
    Some(String::from_utf8_lossy(value).into_owned())
}

fn is_hidden(tag: &StartTag<()>) -> bool {
    let style = attribute(tag, b"style")
        .unwrap_or_default()
        .to_ascii_lowercase();
    let style: String = style.chars().filter(|c| !c.is_whitespace()).collect();
    tag.attributes.contains_key(&b"hidden"[..])
        || attribute(tag, b"aria-hidden").is_some_and(|value| value == "true")
        || style.contains("display:none")
        || style.contains("visibility:hidden")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(html: &str) -> String {
        page_text(html, |href| {
            (!href.starts_with("javascript:")).then(|| format!("https://a.example/{href}"))
        })
    }

    #[test]
    fn page_becomes_readable_text() {
        let html = "<!doctype html><html><head><title>A &amp; B</title><style>p{}</style>\
            <script>if (a < b) document.write('<p>x</p>')</script></head><body>\
            <h1>One</h1><p>Some  <b>bold</b>\n text, <a href=x>a link</a>, <code>let a</code>.</p>\
            <ul><li>first<ul><li>inner</li></ul></li><li>second</li></ul>\
            <ol><li>eins<li>zwei</ol>\
            <pre>\n  a\n    b &lt; c\n</pre>\
            <table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td>2</td></tr></table>\
            <p>line<br>break</p><img alt='a cat' src=x> \
            <a href='javascript:x()'>plain</a></body>";
        let expected = "A & B\n\n# One\n\nSome bold text, [a link](https://a.example/x), `let a`.\n\n\
            - first\n  - inner\n- second\n\n1. eins\n2. zwei\n\n```\n  a\n    b < c\n```\n\n\
            k | v\n1 | 2\n\nline\nbreak\n\n[image: a cat] plain";
        assert_eq!(text(html), expected);
    }

    #[test]
    fn unseen_text_is_left_out() {
        for hidden in [
            "<div hidden>evil<div>evil</div>evil</div>",
            "<div style='color:red; DISPLAY : none'>evil</div>",
            "<span aria-hidden=true>evil</span>",
            "<!-- evil --><template><p>evil</p></template>",
            "<script>evil</script><style>evil</style><svg><text>evil</text></svg>",
        ] {
            assert_eq!(
                text(&format!("<p>a</p>{hidden}<p>b</p>")),
                "a\n\nb",
                "{hidden}"
            );
        }
    }

    #[test]
    fn hostile_pages_take_linear_time() {
        for html in [
            "<div>".repeat(50_000),
            "<ul><li>".repeat(30_000),
            "<a href=x>y".repeat(20_000),
            "<b><i>".repeat(50_000),
            "<".repeat(200_000),
            "&".repeat(200_000),
            "<p title='".repeat(20_000),
            "<table><tr><td>".repeat(20_000),
            "\u{1b}[31m\0\u{7}".repeat(20_000),
        ] {
            let out = text(&html);
            assert!(out.len() <= MAX_TEXT_BYTES + 4096, "{}", out.len());
            assert!(!out.contains('\u{1b}'));
        }
    }
}
