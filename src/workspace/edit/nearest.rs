//! The lines of a file that are nearest to a text that is not in it, for the refusal.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::punctuation::fold;
use crate::workspace::text_file::{ModelLine, TextFile};

/// Maximum number of lines of an excerpt.
const EXCERPT_LINES: usize = 12;

/// Maximum number of characters of a line of an excerpt.
const LINE_CHARACTERS: usize = 200;

/// Maximum number of lines that are compared character by character.
const COMPARED_LINES: usize = 20_000;

/// Returns numbered lines of the file that are most like `old`, or nothing if none is.
pub(in crate::workspace) fn excerpt_near(file: &TextFile, old: &[ModelLine<'_>]) -> Option<String> {
    let first = nearest_line(file, old)?;
    let start = first.saturating_sub(1);
    let count = (old.len() + 2).min(EXCERPT_LINES);
    Some(format!(
        "nearest lines of the file:\n{}",
        numbered_lines(file, start..start + count)
    ))
}

/// Returns lines with their numbers, cut to a readable length.
fn numbered_lines(file: &TextFile, range: std::ops::Range<usize>) -> String {
    let mut text = String::new();
    for index in range.start..range.end.min(file.real_line_count()) {
        let line = String::from_utf8_lossy(file.line(index));
        let cut: String = line.chars().take(LINE_CHARACTERS).collect();
        let more = if cut.len() < line.len() { " [cut]" } else { "" };
        text.push_str(&format!("{:>6}\t{cut}{more}\n", index + 1));
    }
    text
}

/// What is compared of a line: neither space nor the form of punctuation counts.
fn key(line: &[u8]) -> Cow<'_, [u8]> {
    match fold(line) {
        Cow::Borrowed(line) => Cow::Borrowed(line.trim_ascii()),
        Cow::Owned(line) => Cow::Owned(line.trim_ascii().to_vec()),
    }
}

fn nearest_line(file: &TextFile, old: &[ModelLine<'_>]) -> Option<usize> {
    let mut wanted: HashMap<Cow<'_, [u8]>, Vec<usize>> = HashMap::new();
    for (index, line) in old.iter().enumerate() {
        let key = key(line.content);
        if !key.is_empty() {
            wanted.entry(key).or_default().push(index);
        }
    }
    // Each equal line is a vote for the place where the text would begin.
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for line in 0..file.real_line_count() {
        for offset in wanted
            .get(&key(file.line(line)))
            .into_iter()
            .flatten()
            .take(4)
        {
            *votes.entry(line.saturating_sub(*offset)).or_default() += 1;
        }
    }
    let most = votes
        .into_iter()
        .max_by_key(|(line, count)| (*count, std::cmp::Reverse(*line)));
    if let Some((line, _)) = most {
        return Some(line);
    }
    let (offset, longest) = old
        .iter()
        .map(|line| key(line.content))
        .enumerate()
        .max_by_key(|(_, key)| key.len())?;
    let pairs = letter_pairs(&longest);
    if pairs.is_empty() {
        return None;
    }
    let shared = |line: usize| {
        let other = letter_pairs(&key(file.line(line)));
        let common = pairs.intersection(&other).count();
        // At least half of the pairs, else any line would do.
        (common * 2 >= pairs.len()).then(|| (common * 1000 / (pairs.len() + other.len()), line))
    };
    let lines = 0..file.real_line_count().min(COMPARED_LINES);
    let best = lines
        .filter_map(shared)
        .max_by_key(|(score, line)| (*score, std::cmp::Reverse(*line)));
    best.map(|(_, line)| line.saturating_sub(offset))
}

fn letter_pairs(line: &[u8]) -> HashSet<[u8; 2]> {
    let pairs = line.windows(2).take(1_000);
    pairs.filter_map(|pair| pair.try_into().ok()).collect()
}
