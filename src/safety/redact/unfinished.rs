//! Texts that break off: an answer whose connection was lost, and the beginning of a text of which no more is shown. A secret may
//! lack its end, by which it is recognised.

use std::borrow::Cow;

use super::{AHEAD, BACK, Redactor, mark};
use crate::safety::utf8;

/// A command after a pipe that reads a password.
const READS_PASSWORD: &str = " | sudo -S";

/// The rest of a key, and of one in hexadecimal digits. Forms of a certain length need exactly as much as is missing.
const KEY: &str = "Zk38QhTq0vPz91LmXc7RtYbN4wEd6UaKj2HsGfVu";
const HEX_KEY: &str = "9f86d081884c7d659a2feaa0c55ad015";
/// End of a key of Mailchimp.
const MAILCHIMP: &str = "-us12";
/// Shortest word that may be most of a key, and how much before it may say so.
const KEY_WORD: usize = 16;
const BEFORE_KEY: usize = 64;

/// Possible meanings of the next word of the text: the rest of a key, of a password, of a URL, and the command that reads a
/// password which the text prints.
const CONTINUATIONS: [&str; 5] = [KEY, "7!kQ9#", "7k@h/", READS_PASSWORD, "7k9x | sudo -S"];

impl Redactor {
    /// Returns where a text that breaks off must end so that it contains no part of a secret: whatever would be a secret if the
    /// text continued is left out.
    fn unfinished_end(&self, text: &str) -> usize {
        let mut from = text.len().saturating_sub(AHEAD + BACK);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        let tail = text.get(from..).unwrap_or_default();
        let whole = self.find(tail);
        // One that goes to the end is found without a continuation.
        let is_whole = |start| {
            let mut same = whole.iter().filter(|secret| secret.range.start == start);
            same.any(|secret| secret.range.end == tail.len())
        };
        let mut end = self.certain_end(tail.as_bytes());
        if whole.iter().any(|secret| secret.range.start == end) {
            end = tail.len();
        }
        // The command after a pipe may become another one.
        let line = tail.rfind('\n').map_or(0, |at| at + 1);
        let pipe = tail[line..]
            .rfind('|')
            .map(|at| tail[..line + at].to_owned() + READS_PASSWORD);
        let mut cut_at = |continued: &str, base: usize| {
            let found = self.find(continued);
            let mut starts = found.iter().filter_map(|secret| {
                let range = base + secret.range.start..base + secret.range.end;
                let is_open = range.start < tail.len()
                    && whole.iter().all(|other| other.range != range)
                    && !is_whole(range.start);
                is_open.then_some(range.start)
            });
            if let Some(start) = starts.next() {
                end = end.min(start);
            }
        };
        for more in CONTINUATIONS {
            cut_at(&format!("{tail}{more}"), 0);
        }
        if let Some(piped) = pipe {
            cut_at(&piped, 0);
        }
        let is_key = |c: char| c.is_ascii_alphanumeric() || "_-~".contains(c);
        let word = tail.trim_end_matches(is_key).len();
        if tail.len() - word >= KEY_WORD {
            let mut near = word.saturating_sub(BEFORE_KEY);
            while !tail.is_char_boundary(near) {
                near += 1;
            }
            let before = tail.get(near..).unwrap_or_default();
            for (key, ending) in [(KEY, ""), (HEX_KEY, ""), (HEX_KEY, MAILCHIMP)] {
                for length in 0..key.len() {
                    let more = key.get(..length).unwrap_or_default();
                    cut_at(&format!("{before}{more}{ending}"), near);
                }
            }
            for (at, _) in MAILCHIMP.char_indices() {
                let ending = MAILCHIMP.get(at..).unwrap_or_default();
                cut_at(&format!("{before}{ending}"), near);
            }
        }
        from + end
    }

    /// Replaces what may be the beginning of a secret at the end of a text that breaks off. Returns whether there was any.
    pub fn cut_unfinished(&self, text: &mut String) -> bool {
        let end = self.unfinished_end(text);
        let is_cut = end < text.len();
        if is_cut {
            text.truncate(end);
            text.push_str(&mark("cut"));
        }
        is_cut
    }

    /// Returns a text that breaks off without secrets and parts of secrets.
    pub fn redact_unfinished(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.cut_unfinished(&mut text);
        match self.redact(&text) {
            Cow::Owned(redacted) => redacted,
            Cow::Borrowed(_) => text,
        }
    }

    /// Returns at most about `max` bytes of the beginning of a text without secrets and parts of secrets. What is shown of a text
    /// must be cut after it was redacted, or a secret at its end is not recognised; this does not search a long text to its end.
    pub fn redact_beginning(&self, text: &str, max: usize) -> String {
        let start = utf8::prefix(text, max);
        match start.len() == text.len() {
            true => self.redact(text).into_owned(),
            false => self.redact_unfinished(start),
        }
    }
}
