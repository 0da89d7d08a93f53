//! Translates tool names to names that a provider accepts, and back. Pure.
//!
//! `alias.tool` is sent unchanged where dots are accepted, and in another spelling elsewhere. A table made for each
//! request translates the model's calls back: wire names are never parsed, so no name can pass for another.

use std::collections::{BTreeSet, HashMap};

use reqwest::Url;
use sha2::{Digest, Sha256};

use crate::address;

/// Maximum length of a name that every provider accepts.
const MAX_NAME_LENGTH: usize = 64;

/// Number of hash digits that make a name unique.
const HASH_DIGITS: usize = 8;

/// The table of one request, for both directions.
#[derive(Debug, Default)]
pub struct WireNames {
    to_wire: HashMap<String, String>,
    from_wire: HashMap<String, String>,
}

impl WireNames {
    /// Returns the table for these `tools` and for the `others` in the conversation: removed tools, and names that a
    /// model invented. The names of `tools` are assigned first, so that the conversation cannot change them.
    pub fn new<'a>(
        tools: impl IntoIterator<Item = &'a str>,
        others: impl IntoIterator<Item = &'a str>,
        dots: bool,
    ) -> WireNames {
        let mut names = WireNames::default();
        // Sorted, so that the names are the same in every request and after every restart.
        names.add(tools.into_iter().collect(), dots);
        names.add(others.into_iter().collect(), dots);
        names
    }

    fn add(&mut self, mut names: BTreeSet<&str>, dots: bool) {
        names.retain(|name| !self.to_wire.contains_key(*name));
        // A valid name stays. If several other names have one spelling, none of them gets it, so that the result does
        // not depend on which of them are present.
        let mut spelling_counts: HashMap<String, usize> = HashMap::new();
        for name in &names {
            *spelling_counts
                .entry(accepted_spelling(name, dots))
                .or_default() += 1;
        }
        let (fit, rest): (Vec<_>, Vec<_>) = names
            .into_iter()
            .partition(|name| *name == accepted_spelling(name, dots));
        let fitting = fit.len();
        for (at, name) in fit.into_iter().chain(rest).enumerate() {
            let spelling = accepted_spelling(name, dots);
            let alone = at < fitting || spelling_counts.get(&spelling) == Some(&1);
            let free = spelling.len() <= MAX_NAME_LENGTH && !self.from_wire.contains_key(&spelling);
            let wire = if alone && free {
                spelling
            } else {
                self.hashed(name, &spelling)
            };
            self.from_wire.insert(wire.clone(), name.to_owned());
            self.to_wire.insert(name.to_owned(), wire);
        }
    }

    /// Returns an unused name: the beginning of the spelling and a hash of the whole name.
    fn hashed(&self, name: &str, spelling: &str) -> String {
        let begin = &spelling[..spelling.len().min(MAX_NAME_LENGTH - HASH_DIGITS - 1)];
        let mut hash = Sha256::digest(name);
        loop {
            let hex: String = hash
                .iter()
                .take(HASH_DIGITS / 2)
                .map(|b| format!("{b:02x}"))
                .collect();
            let wire = format!("{begin}_{hex}");
            if !self.from_wire.contains_key(&wire) {
                return wire;
            }
            hash = Sha256::digest(hash);
        }
    }

    /// Returns the wire name of `name`. Every name that the table was made for has one.
    pub fn to_wire<'a>(&'a self, name: &'a str) -> &'a str {
        self.to_wire.get(name).map_or(name, String::as_str)
    }

    /// Returns the tool name for a wire name. Returns unknown wire names unchanged.
    pub fn original_name<'a>(&'a self, wire: &'a str) -> &'a str {
        self.from_wire.get(wire).map_or(wire, String::as_str)
    }

    /// Whether any wire name has a dot.
    pub fn has_dots(&self) -> bool {
        self.from_wire.keys().any(|wire| wire.contains('.'))
    }
}

/// Replaces the characters that providers refuse. The result is ASCII and may be too long.
fn accepted_spelling(name: &str, dots: bool) -> String {
    let mut spelling = String::with_capacity(name.len() + 1);
    for c in name.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || c == '_' || c == '-' => spelling.push(c),
            '.' if dots => spelling.push('.'),
            '.' => spelling.push_str("__"),
            _ => spelling.push('_'),
        }
    }
    if spelling.is_empty() {
        spelling.push('_');
    }
    spelling
}

/// Whether the server at `url` accepts dots in names: local and private servers (llama.cpp, Ollama, LM Studio, vLLM) and
/// OpenRouter do. Any other server is assumed not to.
pub fn accepts_dots(url: &Url) -> bool {
    let openrouter = url
        .host_str()
        .is_some_and(|host| host == "openrouter.ai" || host.ends_with(".openrouter.ai"));
    openrouter || address::is_loopback(url) || address::is_private(url)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn fits(wire: &str, dots: bool) -> bool {
        (1..=MAX_NAME_LENGTH).contains(&wire.len())
            && wire
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c) || (dots && c == '.'))
    }

    fn wires<'a>(names: &'a WireNames, list: &[&'a str]) -> Vec<&'a str> {
        list.iter().map(|name| names.to_wire(name)).collect()
    }

    #[test]
    fn valid_names_are_sent_unchanged() {
        let list = ["fs.read", "git-hub.create_issue"];
        let names = WireNames::new(list, [], true);
        assert_eq!(wires(&names, &list), list);
        assert!(names.has_dots());
        let names = WireNames::new(list, [], false);
        assert_eq!(wires(&names, &list), ["fs__read", "git-hub__create_issue"]);
        assert_eq!(names.original_name("fs__read"), "fs.read");
        assert!(!names.has_dots());
    }

    #[test]
    fn a_name_that_was_not_sent_stays_unchanged() {
        let names = WireNames::new(["fs.read"], [], false);
        assert_eq!(names.original_name("fs.read"), "fs.read");
        assert_eq!(names.original_name("fs__write"), "fs__write");
        assert_eq!(names.original_name(""), "");
    }

    #[test]
    fn names_with_one_spelling_get_a_hash() {
        let list = ["fs.a b", "fs.a/b", "fs.a_b"];
        let names = WireNames::new(list, [], true);
        assert_eq!(
            wires(&names, &list),
            ["fs.a_b_a523ae46", "fs.a_b_7b2faae9", "fs.a_b"]
        );
        let long = format!("fs.{}", "x".repeat(80));
        let names = WireNames::new([long.as_str()], [], false);
        let wire = names.to_wire(&long).to_owned();
        assert!(wire.starts_with("fs__xxx") && fits(&wire, false), "{wire}");
        assert_eq!(names.original_name(&wire), long);
    }

    #[test]
    fn an_invented_name_does_not_replace_a_tools_name() {
        let names = WireNames::new(["fs.read"], ["fs__read", "", "né", "fs.read"], false);
        assert_eq!(names.to_wire("fs.read"), "fs__read");
        assert_ne!(names.to_wire("fs__read"), "fs__read");
        assert_eq!(names.original_name(names.to_wire("fs__read")), "fs__read");
        assert_eq!((names.to_wire(""), names.to_wire("né")), ("_", "n_"));
    }

    #[test]
    fn local_private_and_known_servers_accept_dots() {
        for (url, takes) in [
            ("http://127.0.0.1:11434/v1", true),
            ("http://localhost/v1", true),
            ("http://192.168.1.9:8080/v1", true),
            ("https://openrouter.ai/api/v1", true),
            ("https://api.openai.com/v1", false),
            ("https://openrouter.ai.example.com/v1", false),
            ("https://notopenrouter.ai/v1", false),
        ] {
            assert_eq!(accepts_dots(&Url::parse(url).unwrap()), takes, "{url}");
        }
    }

    /// WireNames that are likely to meet.
    fn name() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ab._/-]{0,4}",
            "[a-z0-9-]{1,20}\\.[a-zA-Z0-9_./ -]{0,80}",
            "(a|b){60,70}",
            "\\PC{0,70}",
            "(fs)[._]{1,2}a( |/|_)b(_[0-9a-f]{8})?",
        ]
    }

    proptest! {
        #[test]
        fn every_name_is_valid_and_translates_back(
            tools in proptest::collection::vec(name(), 0..30),
            others in proptest::collection::vec(name(), 0..30),
            dots: bool,
        ) {
            let of = |tools: &[String], others: &[String]| {
                WireNames::new(tools.iter().map(String::as_str), others.iter().map(String::as_str), dots)
            };
            let names = of(&tools, &others);
            let all: BTreeSet<&String> = tools.iter().chain(&others).collect();
            let mut seen = HashSet::new();
            for name in all {
                let wire = names.to_wire(name);
                prop_assert!(fits(wire, dots), "{name:?} is {wire:?}");
                prop_assert!(seen.insert(wire.to_owned()), "{wire:?} is there twice");
                prop_assert_eq!(names.original_name(wire), name);
            }
            let (mut turned, mut rest) = (tools.clone(), others.clone());
            turned.reverse();
            rest.reverse();
            let again = of(&turned, &rest);
            prop_assert_eq!(again.to_wire, names.to_wire, "the order changes nothing");
            let alone = of(&tools, &[]);
            for name in &tools {
                prop_assert_eq!(alone.to_wire(name), of(&tools, &others).to_wire(name).to_owned());
            }
        }
    }
}
