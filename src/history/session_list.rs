//! The facts about each session file in the list of sessions: number of prompts, title, and the text that a search found.

use std::io::{BufRead, BufReader};

use serde_json::Value;

use super::journal::Journal;
use crate::chat::CONTINUED;
use crate::error::{ErrorContext, Result};
use crate::paths;
use crate::safety::redact::global_redactor;
use crate::safety::text::{OwnedPiece, strict_pieces};

/// Bytes at the start of a line that hold the type of the record.
const TYPE_PREFIX: usize = 256;
/// Maximum number of characters of a title.
pub const MAX_TITLE: usize = 200;
/// Characters shown before and after the first word that a search found.
const EXCERPT: usize = 60;
/// Maximum number of characters that are read of a title for the list. Redaction needs more than is shown.
const TITLE_TEXT: usize = 1000;

/// A session in the list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SessionSummary {
    /// Number of prompts.
    pub prompts: usize,
    /// The title that the user gave, or the start of the first prompt.
    pub title: String,
    /// The text around the words of a search; empty without a search.
    pub excerpt: String,
    /// Id of the record that the excerpt is from, if the log of the session shows that record.
    pub found_record: Option<String>,
}

impl Journal {
    /// Returns what the list shows of a session; `None` for an empty file, which a kill right after its creation leaves. With
    /// `words`, in lower case, returns `None` unless one record of the session contains all of them, in any case.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub fn summary(&self, session: &str, words: &[String]) -> Result<Option<SessionSummary>> {
        self.drain();
        let path = self.path(session);
        let what = || format!("cannot read {}", path.display());
        let mut summary = SessionSummary::default();
        let (mut first, mut given) = (None, None);
        let mut is_empty = true;
        let mut candidates = Vec::new();
        let in_json: Vec<String> = words.iter().map(|word| in_json(word)).collect();
        for line in BufReader::new(paths::read_own(&path).context(what)?).split(b'\n') {
            let line = line.context(what)?;
            is_empty = false;
            let head = &line[..line.len().min(TYPE_PREFIX)];
            let is = |kind: &str| {
                // Quotes within a text are escaped, so that these bytes occur only as the type.
                let mark = format!("\"type\":\"{kind}\"");
                head.windows(mark.len()).any(|w| w == mark.as_bytes())
            };
            let is_prompt = is("user");
            let is_typed = is_prompt && !has_continued(&line);
            summary.prompts += usize::from(is_typed);
            let is_title = is("title");
            if !words.is_empty() && may_contain(&line, &in_json) {
                candidates.push(line.clone());
            }
            if !(is_title || is_prompt && first.is_none()) {
                continue;
            }
            let Ok(mut record) = serde_json::from_slice::<Value>(&line) else {
                continue;
            };
            // A secret must neither be shown nor be found.
            super::redacted::value(&mut record);
            let text = |key: &str| {
                record[key]
                    .as_str()
                    .map(|t| start(t, TITLE_TEXT).to_owned())
            };
            if is_title {
                given = text("title");
            } else if is_prompt && first.is_none() {
                first = text("prompt");
            }
        }
        if let Some(found) = best(&candidates, words) {
            summary.excerpt = found.excerpt;
            summary.found_record = found.record;
        }
        summary.title = start(&given.or(first).unwrap_or_default(), MAX_TITLE).to_owned();
        let is_shown = !is_empty && (words.is_empty() || !summary.excerpt.is_empty());
        Ok(is_shown.then_some(summary))
    }
}

/// Returns a title as it is recorded: without secrets, and not too long. `None` if nothing of it can be seen.
pub fn stored_title(title: &str) -> Option<String> {
    let title = global_redactor().redact(title.trim());
    let title = start(&title, MAX_TITLE);
    let is_seen =
        |piece: &OwnedPiece| matches!(piece, OwnedPiece::Text(text) if !text.trim().is_empty());
    let is_visible = strict_pieces(title).iter().any(is_seen);
    is_visible.then(|| title.to_owned())
}

/// Returns the first `length` characters.
fn start(text: &str, length: usize) -> &str {
    let end = text.char_indices().nth(length).map_or(text.len(), |c| c.0);
    &text[..end]
}

/// Whether a record has the text of a prompt that nobody typed as one of its values.
fn has_continued(line: &[u8]) -> bool {
    let value = format!(":\"{CONTINUED}\"");
    memchr::memmem::find(line, value.as_bytes()).is_some()
}

/// Returns a word in the form that it has in a JSON string.
fn in_json(word: &str) -> String {
    let quoted = Value::from(word).to_string();
    // Only the outer quotes: a word may end with one itself.
    let word = quoted.strip_prefix('"').and_then(|q| q.strip_suffix('"'));
    word.unwrap_or_default().to_owned()
}

/// Whether the JSON of a record has all of the words, in any case. To parse each record takes five times as long.
fn may_contain(line: &[u8], words: &[String]) -> bool {
    let lower = if line.is_ascii() {
        line.to_ascii_lowercase()
    } else {
        // Only UTF-8 is JSON.
        let text = std::str::from_utf8(line).unwrap_or_default();
        text.chars()
            .map(lower_case)
            .collect::<String>()
            .into_bytes()
    };
    let has = |word: &String| memchr::memmem::find(&lower, word.as_bytes()).is_some();
    words.iter().all(has)
}

/// Match of a search in a record.
struct Found {
    /// The text around the phrase, or around the first of the words.
    excerpt: String,
    /// Whether the words are adjacent, in their order.
    is_phrase: bool,
    /// Id of the record, if the log of the session shows it.
    record: Option<String>,
}

/// Returns what was found last, of the lines with records that may contain the words: the phrase rather than words that are scattered.
fn best(lines: &[Vec<u8>], words: &[String]) -> Option<Found> {
    let mut scattered = None;
    for line in lines.iter().rev() {
        let Ok(mut record) = serde_json::from_slice::<Value>(line) else {
            continue;
        };
        super::redacted::value(&mut record);
        match find(&record, words) {
            Some(found) if found.is_phrase => return Some(found),
            found => scattered = scattered.or(found),
        }
    }
    scattered
}

/// Returns the text of a record around the phrase or the first of the words, if the record contains all of them.
fn find(record: &Value, words: &[String]) -> Option<Found> {
    let output = &record["output"];
    let texts = match record["type"].as_str()? {
        "user" | "waiting_prompt" => vec![&record["prompt"]],
        "assistant" | "tool" => vec![&record["text"]],
        "title" => vec![&record["title"]],
        "command_result" => vec![&record["command"], &output["head"], &output["tail"]],
        _ => return None,
    };
    let texts: Vec<&str> = texts.into_iter().filter_map(Value::as_str).collect();
    let text = without_escapes(texts.join("\n"));
    // Character by character, so that a position in one is a position in the other.
    let original: Vec<char> = text.chars().collect();
    let lower: String = original.iter().map(|c| lower_case(*c)).collect();
    if !words.iter().all(|word| lower.contains(word.as_str())) {
        return None;
    }
    let phrase = phrase(&lower, words);
    let at = phrase.or_else(|| lower.find(words.first()?.as_str()))?;
    let at = lower[..at].chars().count();
    let (from, to) = (
        at.saturating_sub(EXCERPT),
        (at + EXCERPT).min(original.len()),
    );
    let excerpt: String = original[from..to].iter().collect();
    let excerpt = excerpt.split_whitespace().collect::<Vec<_>>().join(" ");
    let dots = |cut: bool| if cut { "…" } else { "" };
    Some(Found {
        excerpt: format!("{}{excerpt}{}", dots(from > 0), dots(to < original.len())),
        is_phrase: phrase.is_some(),
        record: (record["type"] != "title")
            .then(|| record["id"].as_str().map(str::to_owned))
            .flatten(),
    })
}

/// Returns a text without escape sequences of terminals. They may have parted a secret, so it is redacted again.
fn without_escapes(text: String) -> String {
    if !text.contains('\u{1b}') {
        return text;
    }
    let spaced = text.replace(['\t', '\r'], " ");
    let plain = strip_ansi_escapes::strip_str(spaced);
    global_redactor().redact(&plain).into_owned()
}

/// Returns where the words are in their order, with nothing but white space between them.
fn phrase(text: &str, words: &[String]) -> Option<usize> {
    let (first, rest) = words.split_first()?;
    let follows = |at: &usize| {
        rest.iter()
            .try_fold(text.get(at + first.len()..)?, |text, word| {
                let next = text.trim_start();
                (next.len() < text.len())
                    .then_some(next)?
                    .strip_prefix(word.as_str())
            })
    };
    let starts = text.match_indices(first.as_str()).map(|(at, _)| at);
    starts.into_iter().find(|at| follows(at).is_some())
}

/// Returns the lower case of a character where that is one character.
fn lower_case(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) => lower,
        _ => c,
    }
}

/// Returns the words of a search, in the form in which they are compared.
pub fn search_words(query: &str) -> Vec<String> {
    let words = query.split_whitespace();
    words.map(|w| w.chars().map(lower_case).collect()).collect()
}
