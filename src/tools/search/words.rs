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

/// Words that people and models use for one thing, and servers for another: what is asked with one of a line finds the
/// others too.
const ALIKE: &[&str] = &[
    "create make new add open",
    "delete remove erase drop forget",
    "search find lookup query",
    "list show display print view",
    "get fetch read load retrieve",
    "update edit modify change patch",
    "move rename",
    "copy duplicate clone fork",
    "directory folder",
    "picture image photo",
    "issue bug ticket",
    "history log",
    "send post submit",
    "run execute start",
    "relation link connect",
    "size big large",
];

/// What people who live in a shell write for it.
const SHORT: &[(&str, &str)] = &[
    ("cat", "read file"),
    ("ci", "status check"),
    ("config", "configuration"),
    ("cp", "copy file"),
    ("db", "database"),
    ("dir", "directory"),
    ("env", "environment"),
    ("grep", "search"),
    ("ls", "list directory"),
    ("mail", "email"),
    ("mkdir", "create directory"),
    ("mr", "merge request"),
    ("mv", "move file"),
    ("pr", "pull request"),
    ("repo", "repository"),
    ("rm", "delete file"),
];

/// The most words of a question: a model may send a whole page.
const MAX_QUESTION: usize = 64;

/// The words to look for, in place of those that were asked: each of these counts twice, and what means about
/// the same once.
pub fn question(text: &str) -> Vec<String> {
    let mut asked = words(text);
    asked.truncate(MAX_QUESTION);
    let mut found = Vec::new();
    for word in asked {
        let long = SHORT.iter().find(|(short, _)| *short == word);
        let meant = long.map(|(_, long)| words(long)).unwrap_or_default();
        for word in std::iter::once(word).chain(meant) {
            for line in ALIKE {
                let line = line.split(' ').map(stem);
                if line.clone().any(|other| other == word) {
                    let others = line.filter(|other| *other != word);
                    found.extend(others.map(str::to_owned));
                }
            }
            found.extend([word.clone(), word]);
        }
    }
    found
}

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
