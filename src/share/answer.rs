//! Answers as HTML: Markdown, and proposed commands as code. Secrets and own names are looked for in the text that a reader sees,
//! because escapes, entities and marks of Markdown would hide them in its source.

use maud::html;
use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd};

use super::cleaner::{Cleaner, MAX_ENCODED};
use super::segments::{Gap, Piece, visible};
use crate::safety::command_extractor::{AnswerPiece, pieces};
use crate::safety::percent::percent_decoded;

/// Returns an answer as HTML, without secrets and own names. Of one that is not whole, the last command may be incomplete and is text.
pub fn answer_html(text: &str, is_whole: bool, cleaner: &mut Cleaner<'_>) -> String {
    let (mut page, mut pending) = (Fragments::default(), String::new());
    pieces(text, is_whole, |piece| match piece {
        AnswerPiece::Text(text) => pending.push_str(&text),
        AnswerPiece::Command { text, .. } => {
            page.markdown(&std::mem::take(&mut pending), cleaner);
            page.mark("<pre><code>", Gap::Block);
            page.text(&text);
            page.mark("</code></pre>", Gap::Block);
        }
    });
    page.markdown(&pending, cleaner);
    page.html(cleaner)
}

/// HTML whose texts were not cleaned yet.
#[derive(Debug, Default)]
struct Fragments {
    texts: Vec<Piece>,
    /// The tags before each text.
    tags: Vec<String>,
    /// The text before the next one.
    next: (String, Gap),
}

impl Fragments {
    fn text(&mut self, text: &str) {
        self.add(text, false);
    }

    fn add(&mut self, text: &str, is_html: bool) {
        let (tags, gap) = std::mem::take(&mut self.next);
        // The parser splits a text at signs that might have been marks.
        let is_glued = tags.is_empty() && gap == Gap::None;
        if let Some(last) = self
            .texts
            .last_mut()
            .filter(|last| is_glued && last.is_html == is_html)
        {
            last.text.push_str(text);
            return;
        }
        let text = text.to_owned();
        self.texts.push(Piece { gap, text, is_html });
        self.tags.push(tags);
    }

    fn mark(&mut self, tag: &str, gap: Gap) {
        self.next.0.push_str(tag);
        self.next.1 = self.next.1.max(gap);
    }

    /// Cleans the texts, and returns the HTML.
    fn html(mut self, cleaner: &mut Cleaner<'_>) -> String {
        cleaner.clean_pieces(&mut self.texts);
        let mut out = String::new();
        for (tags, piece) in self.tags.iter().zip(&self.texts) {
            out.push_str(tags);
            out.push_str(&html! { (visible(&piece.text)) }.into_string());
        }
        out + &self.next.0
    }

    /// Appends Markdown. HTML in it is shown as text, images as links.
    fn markdown(&mut self, text: &str, cleaner: &mut Cleaner<'_>) {
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        let mut open = Vec::new();
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            match event {
                // Single tildes are home directories.
                Event::Start(Tag::Strikethrough)
                    if text
                        .get(range.clone())
                        .is_some_and(|text| !text.starts_with("~~")) =>
                {
                    self.text("~");
                    open.push(None);
                }
                Event::Start(tag) => {
                    // Links cannot be nested: an image within one is its text.
                    let is_nested = matches!(tag, Tag::Link { .. } | Tag::Image { .. })
                        && open.contains(&Some("</a>"));
                    let (start, end) = match is_nested {
                        true => (String::new(), ""),
                        false => element(&tag, cleaner),
                    };
                    let gap = gap(&tag.to_end());
                    self.mark(&start, gap);
                    open.push(Some(end));
                }
                Event::End(end) => match open.pop().flatten() {
                    Some(tag) => {
                        self.mark(tag, gap(&end));
                        if matches!(end, TagEnd::Paragraph | TagEnd::Item | TagEnd::Heading(_)) {
                            self.mark("\n", Gap::Block);
                        }
                    }
                    None => self.text("~"),
                },
                Event::Text(text) => self.text(&text),
                Event::Html(text) | Event::InlineHtml(text) => self.add(&text, true),
                Event::Code(code) => {
                    self.mark("<code>", Gap::None);
                    // The parser makes a blank of the end of a line.
                    let has_lines = text.get(range).is_some_and(|text| text.contains('\n'));
                    let mut parts = code.split(|c| has_lines && c == ' ');
                    self.text(parts.next().unwrap_or_default());
                    for part in parts {
                        self.mark("\n", Gap::Line);
                        self.text(part);
                    }
                    self.mark("</code>", Gap::None);
                }
                Event::SoftBreak => self.mark("\n", Gap::Line),
                Event::HardBreak => self.mark("<br>", Gap::Line),
                Event::Rule => self.mark("<hr>", Gap::Block),
                Event::TaskListMarker(_)
                | Event::FootnoteReference(_)
                | Event::InlineMath(_)
                | Event::DisplayMath(_) => {}
            }
        }
    }
}

/// Returns what a reader sees where an element begins and ends.
fn gap(end: &TagEnd) -> Gap {
    match end {
        TagEnd::Emphasis
        | TagEnd::Strong
        | TagEnd::Strikethrough
        | TagEnd::Link
        | TagEnd::Image => Gap::None,
        _ => Gap::Block,
    }
}

/// Returns the target of a link without secrets and own names; `None` for what is not shown as a link. What is replaced in a target
/// that is shown as text too (`is_shown`) is counted there.
fn link_target(target: &str, is_shown: bool, cleaner: &mut Cleaner<'_>) -> Option<String> {
    // Browsers drop these.
    let mut target = target.replace(['\t', '\n', '\r'], "");
    if !is_web_link(&target) {
        return None;
    }
    let counts = (cleaner.secrets, cleaner.own_names);
    target = cleaner.clean(&target);
    if is_shown {
        (cleaner.secrets, cleaner.own_names) = counts;
    }
    // Text that is encoded more often was not searched.
    let mut encoded = target.clone();
    for _ in 0..MAX_ENCODED {
        match percent_decoded(&encoded) {
            Some(decoded) => encoded = decoded,
            None => return Some(encoded_hidden(&target)),
        }
    }
    None
}

/// Returns an address with its hidden characters percent-encoded: the link still leads where it led.
fn encoded_hidden(target: &str) -> String {
    let mut out = String::new();
    for c in target.chars() {
        let shown = c.to_string();
        match visible(&shown) == shown {
            true => out.push(c),
            false => shown
                .bytes()
                .for_each(|byte| out.push_str(&format!("%{byte:02X}"))),
        }
    }
    out
}

/// Whether a link may be followed from a page of the user.
fn is_web_link(target: &str) -> bool {
    let lower = target.trim().to_ascii_lowercase();
    ["http://", "https://", "mailto:"]
        .iter()
        .any(|scheme| lower.starts_with(scheme))
}

/// Returns the start and the end of an element.
fn element(tag: &Tag<'_>, cleaner: &mut Cleaner<'_>) -> (String, &'static str) {
    let plain = |open: &str, close: &'static str| (open.to_owned(), close);
    match tag {
        Tag::Paragraph => plain("<p>", "</p>"),
        // The page itself uses levels 1 and 2.
        Tag::Heading { .. } => plain("<h3>", "</h3>"),
        Tag::BlockQuote(_) => plain("<blockquote>", "</blockquote>"),
        Tag::CodeBlock(CodeBlockKind::Indented | CodeBlockKind::Fenced(_)) => {
            plain("<pre><code>", "</code></pre>")
        }
        Tag::List(Some(1)) => plain("<ol>", "</ol>"),
        Tag::List(Some(first)) => (format!("<ol start=\"{first}\">"), "</ol>"),
        Tag::List(None) => plain("<ul>", "</ul>"),
        Tag::Item => plain("<li>", "</li>"),
        // Many columns scroll by themselves, by keyboard too.
        Tag::Table(_) => plain(
            "<div role=\"region\" aria-label=\"Table\" tabindex=\"0\"><table>",
            "</table></div>",
        ),
        Tag::TableHead => plain("<thead><tr>", "</tr></thead>"),
        Tag::TableRow => plain("<tr>", "</tr>"),
        Tag::TableCell => plain("<td>", "</td>"),
        Tag::Emphasis => plain("<em>", "</em>"),
        Tag::Strong => plain("<strong>", "</strong>"),
        Tag::Strikethrough => plain("<del>", "</del>"),
        Tag::Link {
            link_type,
            dest_url,
            ..
        }
        | Tag::Image {
            link_type,
            dest_url,
            ..
        } => {
            let is_shown = matches!(link_type, LinkType::Autolink | LinkType::Email);
            match link_target(dest_url, is_shown, cleaner) {
                Some(target) => {
                    let link = html! { a href=(target) rel="noopener noreferrer nofollow" {} };
                    let link = link.into_string();
                    (link.trim_end_matches("</a>").to_owned(), "</a>")
                }
                None => plain("", ""),
            }
        }
        _ => plain("", ""),
    }
}
