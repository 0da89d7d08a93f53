//! The names that reveal who and where the user is: the home directory, the login name, the name of the machine.

use std::collections::BTreeMap;
use std::ops::Range;

use aho_corasick::AhoCorasick;

use super::percent::percent_encoded;

/// Shorter names occur in ordinary words, and count only as whole words.
const SHORT_NAME: usize = 3;

/// Names that reveal nothing about the user, and occur in many texts: of images of systems, of containers, and of tests.
const COMMON_NAMES: [&str; 29] = [
    "admin",
    "alarm",
    "app",
    "arch",
    "build",
    "centos",
    "core",
    "debian",
    "demo",
    "dev",
    "developer",
    "docker",
    "ec2-user",
    "fedora",
    "guest",
    "host",
    "linux",
    "localhost",
    "node",
    "pi",
    "root",
    "runner",
    "server",
    "test",
    "ubuntu",
    "user",
    "vagrant",
    "vscode",
    "work",
];

/// A name as it can occur in a text.
#[derive(Debug, Clone)]
struct NameForm {
    text: String,
    replacement: &'static str,
    /// A path: it counts only as a whole directory.
    is_path: bool,
    /// Not longer than [`SHORT_NAME`].
    is_short: bool,
}

/// Finds the names of the user in texts.
#[derive(Debug, Clone, Default)]
pub struct OwnNames {
    /// The names in the order in which they count.
    forms: Vec<NameForm>,
    finder: Option<AhoCorasick>,
}

/// A name in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundName {
    /// Where it is.
    pub range: Range<usize>,
    /// The replacement: `~`, `user` or `host`.
    pub replacement: &'static str,
}

impl OwnNames {
    /// Prepares the search: for each name also as it is written in URLs and in strings of JSON, and for a full host name also by its first
    /// part.
    /// An empty name is none.
    pub fn new(home: &str, user: &str, host: &str) -> OwnNames {
        let short_host = host.split('.').next().unwrap_or_default();
        let mut forms: Vec<NameForm> = Vec::new();
        for (name, replacement) in [
            (home, "~"),
            (user, "user"),
            (host, "host"),
            (short_host, "host"),
        ] {
            for text in [
                name.to_owned(),
                percent_encoded(name, "/"),
                percent_encoded(name, ""),
                // As JSON may have it.
                name.replace('/', "\\/"),
                name.replace('/', "\\u002f"),
            ] {
                // The home directory of root is a separate word, and every path begins with /.
                if name.len() > 1 && forms.iter().all(|form| form.text != text) {
                    forms.push(NameForm {
                        text,
                        replacement,
                        is_path: name.starts_with('/'),
                        is_short: name.len() <= SHORT_NAME,
                    });
                }
            }
        }
        let finder = (!forms.is_empty())
            .then(|| {
                let texts = forms.iter().map(|form| &form.text);
                AhoCorasick::builder()
                    .ascii_case_insensitive(true)
                    .build(texts)
                    .ok()
            })
            .flatten();
        OwnNames { forms, finder }
    }

    /// Returns where names are, in order. They do not overlap.
    pub fn find(&self, text: &str) -> Vec<FoundName> {
        let Some(finder) = &self.finder else {
            return Vec::new();
        };
        let mut hits: Vec<(usize, Range<usize>)> = finder
            .find_overlapping_iter(text)
            .map(|hit| (hit.pattern().as_usize(), hit.range()))
            .collect();
        hits.sort_unstable_by_key(|(form, range)| (*form, range.start));
        let mut found: BTreeMap<usize, FoundName> = BTreeMap::new();
        for (form, range) in hits {
            let Some(form) = self.forms.get(form) else {
                continue;
            };
            let before = found.range(..range.end).next_back();
            let is_free = before.is_none_or(|(_, name)| name.range.end <= range.start);
            if is_free && form.counts(text, &range) {
                let replacement = form.replacement;
                found.insert(range.start, FoundName { range, replacement });
            }
        }
        found.into_values().collect()
    }

    /// Replaces the names in a text. Returns the text and the number of replacements.
    pub fn replace(&self, text: &str) -> (String, usize) {
        let found = self.find(text);
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for name in &found {
            out.push_str(text.get(at..name.range.start).unwrap_or_default());
            out.push_str(name.replacement);
            at = name.range.end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        (out, found.len())
    }
}

impl NameForm {
    /// Whether the name is not a part of a longer word: `anna` counts in `anna2` and `annaMueller`, but not in `hosanna`.
    fn counts(&self, text: &str, range: &Range<usize>) -> bool {
        let before = text.get(..range.start).unwrap_or_default();
        let behind = text.get(range.end..).unwrap_or_default();
        let name = text.get(range.clone()).unwrap_or_default();
        let last_before = before
            .chars()
            .next_back()
            .filter(|_| !ends_with_escape(before));
        let first_behind = behind.chars().next();
        let joins_behind = first_behind.is_some_and(char::is_alphanumeric);
        if self.is_path {
            return !joins_behind;
        }
        if self.is_short {
            return !joins_behind && !last_before.is_some_and(char::is_alphanumeric);
        }
        let is_joined = |a: Option<char>, b: Option<char>| match (a, b) {
            (Some(a), Some(b)) => {
                a.is_lowercase() && b.is_lowercase() || a.is_uppercase() && b.is_uppercase()
            }
            _ => false,
        };
        !is_joined(last_before, name.chars().next())
            && !is_joined(name.chars().next_back(), first_behind)
    }
}

/// Whether a name of a user or a machine reveals nothing about the user, and would make texts unreadable.
pub fn is_common_name(name: &str) -> bool {
    COMMON_NAMES.contains(&name)
}

/// Whether a text ends with an encoded character of a URL, such as `%2F`, or `%252F` in a URL within a URL, or with a line end as programs
/// and JSON write it.
fn ends_with_escape(text: &str) -> bool {
    if ["\\n", "\\r", "\\t"]
        .iter()
        .any(|escape| text.ends_with(escape))
    {
        return true;
    }
    let text = text.as_bytes();
    let Some((mut rest, digits)) = text.split_at_checked(text.len().saturating_sub(2)) else {
        return false;
    };
    while let Some(less) = rest.strip_suffix(b"25") {
        rest = less;
    }
    digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit) && rest.ends_with(b"%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_urls_and_the_short_form_of_a_host_are_replaced() {
        let names = OwnNames::new("/home/josé", "bo", "lab7.example.org");
        for (text, expected) in [
            ("file:///home/jos%C3%A9/x", "file://~/x"),
            ("?path=%2Fhome%2Fjos%c3%a9%2Fx", "?path=~%2Fx"),
            ("/home/joséphine", "/home/joséphine"),
            (r#""path":"\/home\/josé\/x""#, r#""path":"~\/x""#),
            (r#""\u002fhome\u002fJosé\u002Fx""#, r#""~\u002Fx""#),
            (r"\/home\/joséphine", r"\/home\/joséphine"),
            ("?u=a%2Fbo&v=%252Fbo", "?u=a%2Fuser&v=%252Fuser"),
            ("robot, bob, 2bo", "robot, bob, 2bo"),
            ("lab7.example.org LAB7 lab7:/x", "host host host:/x"),
            ("collab7 LAB7X lab7x", "collab7 hostX hostx"),
            ("lab7-2 _lab7 lab7X a\\nlab7", "host-2 _host hostX a\\nhost"),
        ] {
            assert_eq!(names.replace(text).0, expected, "{text}");
        }
    }

    #[test]
    fn a_name_within_a_word_stays() {
        let names = OwnNames::new("/home/test1", "test", "anna");
        let text = "pytest latest TESTING attest hosanna annals Annabel";
        assert_eq!(names.replace(text), (text.to_owned(), 0));
        let (text, count) =
            names.replace("test_fn() myTest testX TEST=1 ~test %2ftest annaMueller");
        let expected = "user_fn() myuser userX user=1 ~user %2fuser hostMueller";
        assert_eq!((&*text, count), (expected, 7));
        assert!(is_common_name("test") && is_common_name("dev") && !is_common_name("anna"));
    }

    #[test]
    fn a_name_within_another_is_replaced_once() {
        let names = OwnNames::new("/home/anna", "anna", "anna");
        let (text, count) = names.replace("/home/anna/anna on Anna: /home/annabel");
        assert_eq!((&*text, count), ("~/user on user: /home/annabel", 3));
        assert_eq!(OwnNames::default().replace("anna"), ("anna".into(), 0));
    }
}
