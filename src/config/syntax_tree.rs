//! One syntax tree for TOML and JSON: every key and value with its line.
//!
//! Messages never quote the text, because a misplaced value can be a secret.

use std::ops::Range;

use jsonc_parser::ast;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and the line it begins on, counted from 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SyntaxNode {
    pub value: SyntaxValue,
    pub line: usize,
}

/// The value types that TOML and JSON share.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SyntaxValue {
    Bool(bool),
    Integer(i64),
    Float(f64),
    String(String),
    Array(Vec<SyntaxNode>),
    Table(Vec<TableEntry>),
    /// A value that no setting accepts, described for error messages.
    Other(&'static str),
}

impl SyntaxValue {
    /// Describes the type, for messages such as "must be X, not Y".
    pub fn kind(&self) -> &'static str {
        match self {
            SyntaxValue::Bool(_) => "true or false",
            SyntaxValue::Integer(_) | SyntaxValue::Float(_) => "a number",
            SyntaxValue::String(_) => "a string",
            SyntaxValue::Array(_) => "a list",
            SyntaxValue::Table(_) => "a table",
            SyntaxValue::Other(kind) => kind,
        }
    }
}

/// One key of a table, with its line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TableEntry {
    pub key: String,
    pub line: usize,
    pub node: SyntaxNode,
}

/// A syntax error and its line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SyntaxError {
    pub line: usize,
    pub message: String,
}

/// Offsets of the line ends, to turn an offset into a line number.
struct LineIndex(Vec<usize>);

impl LineIndex {
    fn new(text: &str) -> LineIndex {
        LineIndex(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    fn line_at(&self, offset: usize) -> usize {
        self.0.partition_point(|newline| *newline < offset) + 1
    }
}

/// Parses TOML.
pub(super) fn parse_toml(text: &str) -> Result<SyntaxNode, SyntaxError> {
    let lines = LineIndex::new(text);
    let root = DeTable::parse(text).map_err(|e| SyntaxError {
        line: lines.line_at(e.span().map_or(0, |s| s.start)),
        message: format!("not valid TOML: {}", single_line(e.message())),
    })?;
    Ok(SyntaxNode {
        value: toml_table(root.get_ref(), &lines),
        line: 1,
    })
}

fn toml_table(table: &DeTable<'_>, lines: &LineIndex) -> SyntaxValue {
    let entry = |(key, node): (&Spanned<_>, &Spanned<DeValue<'_>>)| -> TableEntry {
        let key: &Spanned<std::borrow::Cow<'_, str>> = key;
        TableEntry {
            key: key.get_ref().to_string(),
            line: lines.line_at(key.span().start),
            node: toml_node(node, lines),
        }
    };
    SyntaxValue::Table(table.iter().map(entry).collect())
}

fn toml_node(node: &Spanned<DeValue<'_>>, lines: &LineIndex) -> SyntaxNode {
    let Range { start, .. } = node.span();
    let value = match node.get_ref() {
        DeValue::String(s) => SyntaxValue::String(s.to_string()),
        DeValue::Integer(i) => match i64::from_str_radix(i.as_str(), i.radix()) {
            Ok(i) => SyntaxValue::Integer(i),
            Err(_) => SyntaxValue::Other("a number beyond 64 bits"),
        },
        DeValue::Float(f) => match f.as_str().parse() {
            Ok(f) => SyntaxValue::Float(f),
            Err(_) => SyntaxValue::Other("a number that cannot be read"),
        },
        DeValue::Boolean(b) => SyntaxValue::Bool(*b),
        DeValue::Datetime(_) => SyntaxValue::Other("a date"),
        DeValue::Array(items) => {
            SyntaxValue::Array(items.iter().map(|item| toml_node(item, lines)).collect())
        }
        DeValue::Table(table) => toml_table(table, lines),
    };
    SyntaxNode {
        value,
        line: lines.line_at(start),
    }
}

/// Parses JSON with comments and trailing commas.
pub(super) fn parse_json(text: &str) -> Result<SyntaxNode, SyntaxError> {
    let lines = LineIndex::new(text);
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
            line: lines.line_at(e.range().start),
            message: format!("not valid JSON: {}", single_line(&e.kind().to_string())),
        }
    })?;
    match parsed.value {
        Some(value) => json_node(value, &lines),
        // An empty file configures nothing, as an empty TOML file does.
        None => Ok(SyntaxNode {
            value: SyntaxValue::Table(Vec::new()),
            line: 1,
        }),
    }
}

fn json_node(value: ast::Value<'_>, lines: &LineIndex) -> Result<SyntaxNode, SyntaxError> {
    use jsonc_parser::common::Ranged;
    let line = lines.line_at(value.range().start);
    let value = match value {
        ast::Value::StringLit(s) => SyntaxValue::String(s.value.into_owned()),
        ast::Value::NumberLit(n) => match (n.value.parse::<i64>(), n.value.parse::<f64>()) {
            (Ok(i), _) => SyntaxValue::Integer(i),
            (_, Ok(f)) => SyntaxValue::Float(f),
            _ => SyntaxValue::Other("a number that cannot be read"),
        },
        ast::Value::BooleanLit(b) => SyntaxValue::Bool(b.value),
        ast::Value::NullKeyword(_) => SyntaxValue::Other("null"),
        ast::Value::Array(array) => {
            let items: Result<Vec<SyntaxNode>, SyntaxError> = array
                .elements
                .into_iter()
                .map(|item| json_node(item, lines))
                .collect();
            SyntaxValue::Array(items?)
        }
        ast::Value::Object(object) => {
            let mut entries: Vec<TableEntry> = Vec::with_capacity(object.properties.len());
            let mut seen = std::collections::BTreeSet::new();
            for property in object.properties {
                let line = lines.line_at(property.range.start);
                let key = property.name.into_string();
                // The TOML parser rejects duplicate keys itself; in JSON one of the two would be silently ignored.
                if !seen.insert(key.clone()) {
                    return Err(SyntaxError {
                        line,
                        message: "not valid here: this key appears twice in one object".into(),
                    });
                }
                let node = json_node(property.value, lines)?;
                entries.push(TableEntry { key, line, node });
            }
            SyntaxValue::Table(entries)
        }
    };
    Ok(SyntaxNode { value, line })
}

fn single_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
