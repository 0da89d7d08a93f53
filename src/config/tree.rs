//! One tree for both formats: every key and value with the line it stands on.
//!
//! Messages made here never quote the text: it may hold a secret in the wrong place.

use std::ops::Range;

use jsonc_parser::ast;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and the line it begins on, counted from 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub value: Value,
    pub line: usize,
}

/// What TOML and JSON have in common.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Integer(i64),
    Float(f64),
    String(String),
    Array(Vec<Node>),
    Table(Vec<Entry>),
    /// Something no setting takes, by what a person calls it.
    Other(&'static str),
}

impl Value {
    /// What it is, for "must be X, not Y".
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Bool(_) => "true or false",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Table(_) => "a table",
            Value::Other(kind) => kind,
        }
    }
}

/// One key of a table with the line of the key.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub key: String,
    pub line: usize,
    pub node: Node,
}

/// What the parser could not read, and where.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SyntaxError {
    pub line: usize,
    pub message: String,
}

/// Where each line begins, to turn offsets into line numbers.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Lines {
        Lines(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|newline| *newline < offset) + 1
    }
}

/// Reads TOML.
pub(super) fn parse_toml(text: &str) -> Result<Node, SyntaxError> {
    let lines = Lines::of(text);
    let root = DeTable::parse(text).map_err(|e| SyntaxError {
        line: lines.at(e.span().map_or(0, |s| s.start)),
        message: format!("not valid TOML: {}", one_line(e.message())),
    })?;
    Ok(Node {
        value: toml_table(root.get_ref(), &lines),
        line: 1,
    })
}

fn toml_table(table: &DeTable<'_>, lines: &Lines) -> Value {
    let entry = |(key, node): (&Spanned<_>, &Spanned<DeValue<'_>>)| -> Entry {
        let key: &Spanned<std::borrow::Cow<'_, str>> = key;
        Entry {
            key: key.get_ref().to_string(),
            line: lines.at(key.span().start),
            node: toml_node(node, lines),
        }
    };
    Value::Table(table.iter().map(entry).collect())
}

fn toml_node(node: &Spanned<DeValue<'_>>, lines: &Lines) -> Node {
    let Range { start, .. } = node.span();
    let value = match node.get_ref() {
        DeValue::String(s) => Value::String(s.to_string()),
        DeValue::Integer(i) => match i64::from_str_radix(i.as_str(), i.radix()) {
            Ok(i) => Value::Integer(i),
            Err(_) => Value::Other("a number beyond 64 bits"),
        },
        DeValue::Float(f) => match f.as_str().parse() {
            Ok(f) => Value::Float(f),
            Err(_) => Value::Other("a number that cannot be read"),
        },
        DeValue::Boolean(b) => Value::Bool(*b),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(items) => {
            Value::Array(items.iter().map(|item| toml_node(item, lines)).collect())
        }
        DeValue::Table(table) => toml_table(table, lines),
    };
    Node {
        value,
        line: lines.at(start),
    }
}

/// Reads JSON; comments and trailing commas are fine.
pub(super) fn parse_json(text: &str) -> Result<Node, SyntaxError> {
    let lines = Lines::of(text);
    let options = jsonc_parser::ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = jsonc_parser::parse_to_ast(text, &Default::default(), &options).map_err(|e| {
        SyntaxError {
            line: lines.at(e.range().start),
            message: format!("not valid JSON: {}", one_line(&e.kind().to_string())),
        }
    })?;
    match parsed.value {
        Some(value) => json_node(value, &lines),
        // An empty file configures nothing, as an empty TOML file does.
        None => Ok(Node {
            value: Value::Table(Vec::new()),
            line: 1,
        }),
    }
}

fn json_node(value: ast::Value<'_>, lines: &Lines) -> Result<Node, SyntaxError> {
    use jsonc_parser::common::Ranged;
    let line = lines.at(value.range().start);
    let value = match value {
        ast::Value::StringLit(s) => Value::String(s.value.into_owned()),
        ast::Value::NumberLit(n) => match (n.value.parse::<i64>(), n.value.parse::<f64>()) {
            (Ok(i), _) => Value::Integer(i),
            (_, Ok(f)) => Value::Float(f),
            _ => Value::Other("a number that cannot be read"),
        },
        ast::Value::BooleanLit(b) => Value::Bool(b.value),
        ast::Value::NullKeyword(_) => Value::Other("null"),
        ast::Value::Array(array) => {
            let items: Result<Vec<Node>, SyntaxError> = array
                .elements
                .into_iter()
                .map(|item| json_node(item, lines))
                .collect();
            Value::Array(items?)
        }
        ast::Value::Object(object) => {
            let mut entries: Vec<Entry> = Vec::with_capacity(object.properties.len());
            let mut seen = std::collections::BTreeSet::new();
            for property in object.properties {
                let line = lines.at(property.range.start);
                let key = property.name.into_string();
                // TOML refuses this itself; in JSON one of the two would win in silence.
                if !seen.insert(key.clone()) {
                    return Err(SyntaxError {
                        line,
                        message: "not valid here: this key stands twice in one object".into(),
                    });
                }
                let node = json_node(property.value, lines)?;
                entries.push(Entry { key, line, node });
            }
            Value::Table(entries)
        }
    };
    Ok(Node { value, line })
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
