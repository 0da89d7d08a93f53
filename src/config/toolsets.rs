//! Toolsets, and the selection of the tools that a prompt offers. A selection narrows what is offered; it allows nothing.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::origin::SettingOrigin;
use super::setting::{SettingSpec, SettingType, ValueKind};
use super::syntax_tree::SyntaxValue;
use super::table_reader::{TableReader, must_be};
use super::value_checks::nearest_name;
use crate::error::{Error, Result};
use crate::safety::text::{OwnedPiece, strict_pieces};

/// `[toolsets]`: patterns of tools by the name of the toolset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Toolsets(BTreeMap<String, Vec<String>>);

impl Toolsets {
    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.0.keys().map(String::as_str)
    }
}

impl SettingType for Toolsets {
    const KIND: ValueKind = ValueKind::Map(&ValueKind::TextList);

    fn parse(value: &SyntaxValue, _: &SettingSpec) -> std::result::Result<Toolsets, String> {
        Err(must_be("a table", value))
    }

    fn to_json(&self, _: &SettingSpec) -> Option<Json> {
        None
    }

    fn read(reader: &TableReader<'_>, spec: &SettingSpec, default: fn() -> Toolsets) -> Toolsets {
        let Some(table) = reader.table(spec.key) else {
            return default();
        };
        let mut all = BTreeMap::new();
        for entry in table.entries() {
            let parsed = check_name(&entry.key).and_then(|()| {
                let patterns = Vec::<String>::parse(&entry.node.value, spec)?;
                for pattern in &patterns {
                    check_pattern(pattern)?;
                }
                Ok(patterns)
            });
            match parsed {
                Ok(patterns) => {
                    let origin = SettingOrigin::File(entry.line);
                    table.log(&entry.key, json!(patterns), origin);
                    all.insert(entry.key.clone(), patterns);
                }
                Err(message) => table.fault(entry.line, &entry.key, message),
            }
        }
        Toolsets(all)
    }
}

fn check_name(name: &str) -> std::result::Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    match (1..=64).contains(&name.len()) && name.chars().all(allowed) {
        true => Ok(()),
        false => Err("a name has 1 to 64 of the characters A-Z a-z 0-9 _ -".into()),
    }
}

fn check_pattern(pattern: &str) -> std::result::Result<(), String> {
    let is_word = |c: char| !c.is_whitespace() && !c.is_control() && !",@".contains(c);
    // Names that look alike must not differ.
    let pieces = strict_pieces(pattern);
    let is_visible = pieces
        .iter()
        .all(|piece| matches!(piece, OwnedPiece::Text(_)));
    match !pattern.is_empty() && is_visible && pattern.chars().all(is_word) {
        true => Ok(()),
        false => Err(
            "must be \"alias\" or \"alias.*\" for the tools of a server, \"alias.tool\", or a pattern with *".into(),
        ),
    }
}

/// The tools that a prompt offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolSelection {
    /// All tools.
    #[default]
    All,
    /// The tools whose name, `alias.tool`, matches one of these patterns; no pattern selects no tool.
    Matching(Vec<String>),
}

impl ToolSelection {
    /// Parses a list such as `@minimal,tracker,files.read_*`; `all` and `none` must be alone.
    ///
    /// # Errors
    /// There is no such toolset, or a pattern is wrong.
    pub fn parse(text: &str, toolsets: &Toolsets) -> Result<ToolSelection> {
        match text.trim() {
            "all" => return Ok(ToolSelection::All),
            "none" => return Ok(ToolSelection::Matching(Vec::new())),
            _ => {}
        }
        let mut patterns = Vec::new();
        for word in text.split(',').map(str::trim) {
            if let Some(name) = word.strip_prefix('@') {
                let toolset = toolsets.0.get(name);
                patterns.extend(toolset.ok_or_else(|| no_toolset(name, toolsets))?.clone());
                continue;
            }
            check_pattern(word).map_err(|message| {
                Error::usage(format!("not a selection of tools: {text:?}: {message}")).hint(
                    "write server aliases, tools, patterns and @toolsets with commas between them, all, or none",
                )
            })?;
            patterns.push(word.to_owned());
        }
        let patterns = patterns
            .into_iter()
            .map(|pattern| match pattern.contains(['.', '*']) {
                true => pattern,
                false => format!("{pattern}.*"),
            });
        Ok(ToolSelection::Matching(patterns.collect()))
    }

    /// Whether no tool can match.
    pub fn is_none(&self) -> bool {
        matches!(self, ToolSelection::Matching(patterns) if patterns.is_empty())
    }

    /// Whether the tool `alias.tool` is selected.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            ToolSelection::All => true,
            ToolSelection::Matching(patterns) => {
                patterns.iter().any(|pattern| matches(pattern, name))
            }
        }
    }

    /// Whether a tool of this server may be selected.
    pub fn may_match_server(&self, alias: &str) -> bool {
        match self {
            ToolSelection::All => true,
            ToolSelection::Matching(patterns) => patterns.iter().any(|pattern| {
                let of = pattern
                    .split_once('.')
                    .map_or(pattern.as_str(), |(of, _)| of);
                matches(of, alias)
            }),
        }
    }
}

fn no_toolset(name: &str, toolsets: &Toolsets) -> Error {
    let known: Vec<String> = toolsets.names().map(|name| format!("@{name}")).collect();
    let message = match nearest_name(name, toolsets.names()) {
        Some(near) => format!("no toolset named {name:?}; did you mean @{near}?"),
        None => format!("no toolset named {name:?}"),
    };
    Error::usage(message).hint(match known.is_empty() {
        true => "define it in the configuration: [toolsets] NAME = [\"alias.tool\", \"alias.*\"]"
            .to_owned(),
        false => format!("defined are: {}", known.join(", ")),
    })
}

/// Whether a name matches a pattern, in which `*` matches any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolsets() -> Toolsets {
        let minimal = ["files.read_*", "git"].map(String::from).to_vec();
        Toolsets([("minimal".to_owned(), minimal)].into())
    }

    #[test]
    fn a_selection_names_servers_tools_patterns_and_toolsets() {
        let selection = ToolSelection::parse("@minimal, tracker,a.b", &toolsets()).unwrap();
        for (name, selected) in [
            ("files.read_file", true),
            ("files.write_file", false),
            ("git.log", true),
            ("github.log", false),
            ("tracker.x.y", true),
            ("a.b", true),
            ("a.bc", false),
            ("", false),
        ] {
            assert_eq!(selection.matches(name), selected, "{name}");
        }
        assert!(selection.may_match_server("files"));
        assert!(!selection.may_match_server("file"));
        let none = ToolSelection::parse("none", &toolsets()).unwrap();
        assert!(none.is_none() && !none.matches("a.b") && !none.may_match_server("a"));
        assert_eq!(
            ToolSelection::parse("all", &toolsets()).unwrap(),
            ToolSelection::All
        );
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, expected) in [
            ("*", "a.b", true),
            ("*.read", "a.read", true),
            ("*.read", "a.reader", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("a**a", "aa", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn an_unknown_toolset_suggests_one() {
        let error = ToolSelection::parse("@minimum", &toolsets()).unwrap_err();
        assert!(
            error.message.contains("did you mean @minimal?"),
            "{error:?}"
        );
        for wrong in ["", "a,,b", "a b", "@", "\u{200b}", "files\u{feff}"] {
            assert!(
                ToolSelection::parse(wrong, &toolsets()).is_err(),
                "{wrong:?}"
            );
        }
    }
}
