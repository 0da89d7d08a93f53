//! The words of a text, as they are compared: split where programmers join them, in lower case, without endings.

use unicode_segmentation::UnicodeSegmentation;

/// The longest word that means something; what is longer is a key or a hash.
const LONGEST: usize = 40;

/// Words that say nothing of what a tool does, in questions and descriptions alike.
const EMPTY: &[&str] = &[
    "a", "all", "also", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "does",
    "for", "from", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "me", "my",
    "of", "on", "or", "our", "should", "so", "some", "such", "that", "the", "their", "them",
    "then", "there", "these", "this", "those", "to", "tool", "use", "used", "using", "want", "was",
    "we", "what", "when", "which", "will", "with", "would", "you", "your",
];

/// The words of a text, in their order.
pub fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for run in text.split(|c: char| !c.is_alphanumeric()) {
        // Scripts that write without spaces have words all the same.
        if run.is_ascii() {
            humps(run, &mut found);
        } else {
            run.unicode_words().for_each(|word| keep(word, &mut found));
        }
    }
    found
}

/// Splits `readFile` and `HTTPServer` at their humps.
fn humps(run: &str, found: &mut Vec<String>) {
    let bytes = run.as_bytes();
    let mut start = 0;
    for at in 1..bytes.len() {
        let rises = bytes[at].is_ascii_uppercase();
        let after_small = !bytes[at - 1].is_ascii_uppercase();
        let before_small = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        if rises && (after_small || before_small) {
            keep(&run[start..at], found);
            start = at;
        }
    }
    keep(&run[start..], found);
}

fn keep(word: &str, found: &mut Vec<String>) {
    if word.is_empty() || word.len() > LONGEST {
        return;
    }
    let word = word.to_lowercase();
    if !EMPTY.contains(&word.as_str()) {
        found.push(stem(&word).to_owned());
    }
}

/// A word without the endings that English gives to one thing: `files`, `creating`, `created` and `creates` meet.
fn stem(word: &str) -> &str {
    let stems = |end: &str| word.strip_suffix(end).filter(|stem| stem.len() >= 3);
    if !word.is_ascii() {
        return word;
    }
    let stem = if let Some(stem) = stems("ies") {
        // With `y` below: entries and entry.
        return stem;
    } else if let Some(stem) = stems("ing").or_else(|| stems("ed")) {
        // Stopped, getting.
        let bytes = stem.as_bytes();
        let n = bytes.len();
        match n >= 4 && bytes[n - 1] == bytes[n - 2] && !b"lsz".contains(&bytes[n - 1]) {
            true => &stem[..n - 1],
            false => stem,
        }
    } else if word.ends_with("ss") || word.ends_with("us") || word.ends_with("is") {
        word
    } else {
        stems("s").unwrap_or(word)
    };
    let bare = |end: &str| stem.strip_suffix(end).filter(|bare| bare.len() >= 3);
    bare("e").or_else(|| bare("y")).unwrap_or(stem)
}
