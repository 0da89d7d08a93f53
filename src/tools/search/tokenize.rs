//! Splits text into comparable terms: at word and camel-case boundaries, in lower case, without English endings.

use unicode_segmentation::UnicodeSegmentation;

/// Maximum length of a term in bytes; anything longer is a key or a hash.
const MAX_TERM_BYTES: usize = 40;

/// Stop words, in queries and descriptions alike.
const STOP_WORDS: &[&str] = &[
    "a", "all", "also", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "does",
    "for", "from", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "me", "my",
    "of", "on", "or", "our", "should", "so", "some", "such", "that", "the", "their", "them",
    "then", "there", "these", "this", "those", "to", "tool", "use", "used", "using", "want", "was",
    "we", "what", "when", "which", "will", "with", "would", "you", "your",
];

/// Groups of synonyms: a query with one word of a group also finds the others.
const SYNONYMS: &[&str] = &[
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

/// Abbreviations and shell commands, and the words they expand to.
const ABBREVIATIONS: &[(&str, &str)] = &[
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

/// Maximum number of words in a query; a model may send a whole page.
const MAX_QUERY_WORDS: usize = 64;

/// Returns the search terms for a query: each word twice, each of its synonyms once.
pub fn query_terms(text: &str) -> Vec<String> {
    let mut query = tokenize(text);
    query.truncate(MAX_QUERY_WORDS);
    let mut found = Vec::new();
    for word in query {
        let expansion = ABBREVIATIONS.iter().find(|(short, _)| *short == word);
        let expansion = expansion
            .map(|(_, long)| tokenize(long))
            .unwrap_or_default();
        for word in std::iter::once(word).chain(expansion) {
            for line in SYNONYMS {
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

/// Returns the terms of a text, in order.
pub fn tokenize(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for run in text.split(|c: char| !c.is_alphanumeric()) {
        // Scripts without spaces still have word boundaries.
        if run.is_ascii() {
            split_camel_case(run, &mut found);
        } else {
            run.unicode_words()
                .for_each(|word| add_term(word, &mut found));
        }
    }
    found
}

/// Splits `readFile` and `HTTPServer` at their camel-case boundaries.
fn split_camel_case(run: &str, found: &mut Vec<String>) {
    let bytes = run.as_bytes();
    let mut start = 0;
    for at in 1..bytes.len() {
        let rises = bytes[at].is_ascii_uppercase();
        let after_small = !bytes[at - 1].is_ascii_uppercase();
        let before_small = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        if rises && (after_small || before_small) {
            add_term(&run[start..at], found);
            start = at;
        }
    }
    add_term(&run[start..], found);
}

fn add_term(word: &str, found: &mut Vec<String>) {
    if word.is_empty() || word.len() > MAX_TERM_BYTES {
        return;
    }
    let word = word.to_lowercase();
    if !STOP_WORDS.contains(&word.as_str()) {
        found.push(stem(&word).to_owned());
    }
}

/// Returns a word without English endings, so that `files`, `creating`, `created` and `creates` match.
fn stem(word: &str) -> &str {
    let stems = |end: &str| word.strip_suffix(end).filter(|stem| stem.len() >= 3);
    if !word.is_ascii() {
        return word;
    }
    let stem = if let Some(stem) = stems("ies") {
        // The `y` goes below: entries and entry.
        return stem;
    } else if let Some(stem) = stems("ing").or_else(|| stems("ed")) {
        // Doubled consonants: stopped, getting.
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
