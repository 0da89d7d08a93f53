//! What tools are called on the wire. Pure.
//!
//! `alias.tool` goes out as it is where dots are taken. Elsewhere it is written
//! otherwise, and a table made for each request brings back what the model says:
//! a wire name is never parsed, so no name can pretend to be another.

use std::collections::{BTreeSet, HashMap};

use reqwest::Url;
use sha2::{Digest, Sha256};

use crate::address;

/// The longest name that every provider takes.
const LONGEST: usize = 64;

/// The letters of a hash that make a name unlike others.
const HASH: usize = 8;

/// The names of one request, both ways.
#[derive(Debug, Default)]
pub struct Names {
    wire: HashMap<String, String>,
    ours: HashMap<String, String>,
}

impl Names {
    /// The table for these `tools` and for the `others` that the conversation mentions: tools that are
    /// gone, and names that a model made up. Tools choose first, so that nothing said changes their names.
    pub fn new<'a>(
        tools: impl IntoIterator<Item = &'a str>,
        others: impl IntoIterator<Item = &'a str>,
        dots: bool,
    ) -> Names {
        let mut names = Names::default();
        // Sorted, so that the same names are written the same in every request and after every restart.
        names.add(tools.into_iter().collect(), dots);
        names.add(others.into_iter().collect(), dots);
        names
    }

    fn add(&mut self, mut names: BTreeSet<&str>, dots: bool) {
        names.retain(|name| !self.wire.contains_key(*name));
        // A name that fits keeps itself; of several others with one spelling none gets it, whoever is there.
        let mut often: HashMap<String, usize> = HashMap::new();
        for name in &names {
            *often.entry(spelled(name, dots)).or_default() += 1;
        }
        let (fit, rest): (Vec<_>, Vec<_>) = names
            .into_iter()
            .partition(|name| *name == spelled(name, dots));
        let fitting = fit.len();
        for (at, name) in fit.into_iter().chain(rest).enumerate() {
            let spelling = spelled(name, dots);
            let alone = at < fitting || often.get(&spelling) == Some(&1);
            let free = spelling.len() <= LONGEST && !self.ours.contains_key(&spelling);
            let wire = if alone && free {
                spelling
            } else {
                self.hashed(name, &spelling)
            };
            self.ours.insert(wire.clone(), name.to_owned());
            self.wire.insert(name.to_owned(), wire);
        }
    }

    /// A name that nobody has: the begin of the spelling, and a hash of all of it.
    fn hashed(&self, name: &str, spelling: &str) -> String {
        let begin = &spelling[..spelling.len().min(LONGEST - HASH - 1)];
        let mut hash = Sha256::digest(name);
        loop {
            let hex: String = hash
                .iter()
                .take(HASH / 2)
                .map(|b| format!("{b:02x}"))
                .collect();
            let wire = format!("{begin}_{hex}");
            if !self.ours.contains_key(&wire) {
                return wire;
            }
            hash = Sha256::digest(hash);
        }
    }

    /// What `name` is called on the wire. Every name that the table was made for is in it.
    pub fn wire<'a>(&'a self, name: &'a str) -> &'a str {
        self.wire.get(name).map_or(name, String::as_str)
    }

    /// What came back, as it is called here; a name that was not sent stays as it came.
    pub fn ours<'a>(&'a self, wire: &'a str) -> &'a str {
        self.ours.get(wire).map_or(wire, String::as_str)
    }

    /// Whether a name with a dot goes out.
    pub fn dotted(&self) -> bool {
        self.ours.keys().any(|wire| wire.contains('.'))
    }
}

/// The name in the letters that are taken, as long as it may be. It is ASCII.
fn spelled(name: &str, dots: bool) -> String {
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

/// Whether names with dots are taken there, as far as the host tells: servers of one's own do
/// (llama.cpp, Ollama, LM Studio, vLLM), and so does OpenRouter. Others are not asked to.
pub fn takes_dots(url: &Url) -> bool {
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
        (1..=LONGEST).contains(&wire.len())
            && wire
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c) || (dots && c == '.'))
    }

    fn wires<'a>(names: &'a Names, list: &[&'a str]) -> Vec<&'a str> {
        list.iter().map(|name| names.wire(name)).collect()
    }

    #[test]
    fn names_that_fit_go_out_as_they_are() {
        let list = ["fs.read", "git-hub.create_issue"];
        let names = Names::new(list, [], true);
        assert_eq!(wires(&names, &list), list);
        assert!(names.dotted());
        let names = Names::new(list, [], false);
        assert_eq!(wires(&names, &list), ["fs__read", "git-hub__create_issue"]);
        assert_eq!(names.ours("fs__read"), "fs.read");
        assert!(!names.dotted());
    }

    #[test]
    fn what_was_not_sent_stays_as_it_came() {
        let names = Names::new(["fs.read"], [], false);
        assert_eq!(names.ours("fs.read"), "fs.read");
        assert_eq!(names.ours("fs__write"), "fs__write");
        assert_eq!(names.ours(""), "");
    }

    #[test]
    fn names_that_would_be_one_get_a_hash() {
        let list = ["fs.a b", "fs.a/b", "fs.a_b"];
        let names = Names::new(list, [], true);
        assert_eq!(
            wires(&names, &list),
            ["fs.a_b_a523ae46", "fs.a_b_7b2faae9", "fs.a_b"]
        );
        let long = format!("fs.{}", "x".repeat(80));
        let names = Names::new([long.as_str()], [], false);
        let wire = names.wire(&long).to_owned();
        assert!(wire.starts_with("fs__xxx") && fits(&wire, false), "{wire}");
        assert_eq!(names.ours(&wire), long);
    }

    #[test]
    fn what_a_model_made_up_takes_no_name_from_a_tool() {
        let names = Names::new(["fs.read"], ["fs__read", "", "né", "fs.read"], false);
        assert_eq!(names.wire("fs.read"), "fs__read");
        assert_ne!(names.wire("fs__read"), "fs__read");
        assert_eq!(names.ours(names.wire("fs__read")), "fs__read");
        assert_eq!((names.wire(""), names.wire("né")), ("_", "n_"));
    }

    #[test]
    fn dots_are_for_servers_of_ones_own_and_those_that_are_known() {
        for (url, takes) in [
            ("http://127.0.0.1:11434/v1", true),
            ("http://localhost/v1", true),
            ("http://192.168.1.9:8080/v1", true),
            ("https://openrouter.ai/api/v1", true),
            ("https://api.openai.com/v1", false),
            ("https://openrouter.ai.example.com/v1", false),
            ("https://notopenrouter.ai/v1", false),
        ] {
            assert_eq!(takes_dots(&Url::parse(url).unwrap()), takes, "{url}");
        }
    }

    /// Names that are likely to meet.
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
        fn every_name_fits_and_comes_back(
            tools in proptest::collection::vec(name(), 0..30),
            others in proptest::collection::vec(name(), 0..30),
            dots: bool,
        ) {
            let of = |tools: &[String], others: &[String]| {
                Names::new(tools.iter().map(String::as_str), others.iter().map(String::as_str), dots)
            };
            let names = of(&tools, &others);
            let all: BTreeSet<&String> = tools.iter().chain(&others).collect();
            let mut seen = HashSet::new();
            for name in all {
                let wire = names.wire(name);
                prop_assert!(fits(wire, dots), "{name:?} is {wire:?}");
                prop_assert!(seen.insert(wire.to_owned()), "{wire:?} is there twice");
                prop_assert_eq!(names.ours(wire), name);
            }
            let (mut turned, mut rest) = (tools.clone(), others.clone());
            turned.reverse();
            rest.reverse();
            let again = of(&turned, &rest);
            prop_assert_eq!(again.wire, names.wire, "the order changes nothing");
            let alone = of(&tools, &[]);
            for name in &tools {
                prop_assert_eq!(alone.wire(name), of(&tools, &others).wire(name).to_owned());
            }
        }
    }
}
