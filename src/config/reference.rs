//! Documents that are generated from the settings table: the starter file, the reference and the JSON schema.

use serde_json::{Map, Value as Json, json};

use super::setting::{SectionSpec, SectionType, SettingSpec, ValueKind};
use super::setting_types::duration_text;
use super::settings::Config;

/// The introduction of the starter file.
const STARTER_HEAD: &str = "\
# The configuration of aish: ~/.config/aish/config.toml. Every setting is optional and is shown with its default or an
# example. To set one, remove the # in front of its key, and of the [table] above it. A line with ## is an alternative to another setting.
# `aish-helper config check` checks the file, `aish-helper config show` lists the values in force and their origins.
";

/// Returns an example file with every setting, described and commented out.
pub fn starter() -> String {
    let mut text = STARTER_HEAD.to_owned();
    starter_section(&Config::SECTION, "", true, &mut text);
    text
}

/// Returns the settings of a section, required ones first.
fn in_order(section: &SectionSpec) -> Vec<&'static SettingSpec> {
    let mut settings: Vec<_> = section.settings.iter().collect();
    settings.sort_by_key(|spec| !spec.is_required);
    settings
}

/// Appends the settings of a section: first the plain values, then the tables. `is_live` tables have headers that are not
/// commented out.
fn starter_section(section: &SectionSpec, path: &str, is_live: bool, text: &mut String) {
    let is_table = |spec: &&SettingSpec| {
        matches!(
            spec.kind,
            ValueKind::Map(_) | ValueKind::Section(_) | ValueKind::NamedSections(_)
        )
    };
    for spec in in_order(section).into_iter().filter(|spec| !is_table(spec)) {
        text.push('\n');
        starter_comment(spec.doc, text);
        let mark = comment_mark(spec);
        text.push_str(&format!("{mark}{} = {}\n", spec.key, example(spec)));
    }
    for spec in in_order(section).into_iter().filter(is_table) {
        let mut path = match path {
            "" => spec.key.to_owned(),
            path => format!("{path}.{}", spec.key),
        };
        text.push('\n');
        match spec.kind {
            ValueKind::Section(inner) => {
                starter_comment(inner.doc, text);
                starter_header(&path, is_live, "#", text);
                starter_section(inner, &path, is_live, text);
            }
            ValueKind::NamedSections(inner) => {
                starter_comment(inner.doc, text);
                path = format!("{path}.{}", spec.example.unwrap_or("name"));
                starter_header(&path, false, "#", text);
                starter_section(inner, &path, false, text);
            }
            _ => {
                starter_comment(spec.doc, text);
                let mark = comment_mark(spec);
                starter_header(&path, is_live, mark, text);
                for line in spec.example.unwrap_or_default().lines() {
                    text.push_str(&format!("{mark}{line}\n"));
                }
            }
        }
    }
}

fn comment_mark(spec: &SettingSpec) -> &'static str {
    match spec.is_alternative {
        true => "##",
        false => "#",
    }
}

fn starter_header(path: &str, is_live: bool, mark: &str, text: &mut String) {
    match is_live {
        true => text.push_str(&format!("[{path}]\n")),
        false => text.push_str(&format!("{mark}[{path}]\n")),
    }
}

/// Descriptions have a space after the `#`, and settings do not: uncommenting all settings leaves a valid file.
fn starter_comment(doc: &[&str], text: &mut String) {
    for line in doc {
        text.push_str(&format!("# {}\n", line.trim()));
    }
}

/// The value of a setting in the starter file: the example, or else the default.
fn example(spec: &SettingSpec) -> String {
    match spec.example {
        Some(example) => example.to_owned(),
        None => default_text(spec).unwrap_or_default(),
    }
}

/// The default as TOML; scalars and lists of strings are the same there as in JSON.
fn default_text(spec: &SettingSpec) -> Option<String> {
    if spec.adds_to_default {
        return Some("[]".to_owned());
    }
    let value = (spec.default)(spec)?;
    Some(match value {
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(Json::to_string).collect();
            format!("[{}]", items.join(", "))
        }
        value => value.to_string(),
    })
}

/// The introduction of the reference.
const REFERENCE_HEAD: &str = "\
# Settings

<!-- Generated from the settings table in src/config. To regenerate: AISH_UPDATE_DOCS=1 cargo test --test it settings:: -->

aish reads `~/.config/aish/config.toml`, or `aish.json` of the same shape (only one of the two may exist). Every setting is
optional. `aish-helper config check` checks the file, `aish-helper config show` lists the values in force and their origins,
and `aish-helper config path` prints where the file is. [config.schema.json](config.schema.json) is a JSON schema of the file.

Precedence: command-line flags, then environment variables, then the file, then the defaults. An environment variable that is
empty counts as unset. In addition to the variables in the tables, `AISH_MODEL` chooses a model by its name;
`AISH_BASE_URL`, with `AISH_MODEL` as the name of the model on that server and `AISH_KEY_ENV` as the name of the variable
that holds the key, defines a model without a file. `AISH_SERVER`, which `aish attach` sets, names another aish server that
answers, and takes precedence over both.

A project's `.aish.toml` can have the settings that are marked *project file*. It is as untrusted as the project's other
files, so it can only tighten: rules in it that allow are ignored with a notice.
";

/// Returns the reference of all settings as Markdown.
pub fn markdown() -> String {
    let mut text = REFERENCE_HEAD.to_owned();
    markdown_section(&Config::SECTION, "Top level", &mut text);
    text.push_str("\n## Example\n\n```toml\n");
    text.push_str(&starter());
    text.push_str("```\n");
    text
}

fn markdown_section(section: &SectionSpec, title: &str, text: &mut String) {
    text.push_str(&format!("\n## {title}\n"));
    if !section.path.is_empty() {
        text.push_str(&format!("\n{}\n", paragraph(section.doc)));
    }
    let mut inner = Vec::new();
    text.push_str("\n| key | type | default | description |\n| --- | --- | --- | --- |\n");
    for spec in in_order(section) {
        match spec.kind {
            ValueKind::Section(section) | ValueKind::NamedSections(section) => inner.push(section),
            _ => markdown_row(spec, text),
        }
    }
    for section in inner {
        markdown_section(section, &format!("`[{}]`", section.path), text);
    }
}

fn markdown_row(spec: &SettingSpec, text: &mut String) {
    let default = match (spec.is_required, default_text(spec)) {
        (true, _) => "required".to_owned(),
        (false, Some(default)) => format!("`{default}`"),
        (false, None) => "–".to_owned(),
    };
    let mut doc = joined_lines(spec.doc, "<br>");
    if let Some(variable) = spec.variable {
        doc.push_str(&format!(" Environment: `{variable}`."));
    }
    if spec.is_in_project {
        doc.push_str(" *Project file.*");
    }
    let row = [
        format!("`{}`", spec.key),
        type_text(spec.kind, spec.bounds),
        default,
        doc,
    ];
    let row = row.map(|cell| cell.replace('|', "\\|"));
    text.push_str(&format!("| {} |\n", row.join(" | ")));
}

fn paragraph(doc: &[&str]) -> String {
    joined_lines(doc, "\n")
}

/// Joins the lines of a doc comment. `item_break` precedes each line that is a list item, because a cell of a Markdown
/// table cannot contain a line break.
fn joined_lines(doc: &[&str], item_break: &str) -> String {
    let mut text = String::new();
    for line in doc.iter().map(|line| line.trim()) {
        let separator = match text.is_empty() {
            true => "",
            false if line.starts_with("- ") => item_break,
            false => " ",
        };
        text.push_str(separator);
        text.push_str(line);
    }
    text
}

fn type_text(kind: ValueKind, bounds: Option<(i64, i64)>) -> String {
    let range = |name: &str| match bounds {
        Some((least, greatest)) => format!("{name}, {least} to {greatest}"),
        None => name.to_owned(),
    };
    match kind {
        ValueKind::Boolean => "true or false".to_owned(),
        ValueKind::Integer => range("whole number"),
        ValueKind::Number => range("number"),
        ValueKind::Text => "string".to_owned(),
        ValueKind::TextList => "list of strings".to_owned(),
        ValueKind::Seconds => range("seconds"),
        ValueKind::Duration => match bounds {
            Some((least, greatest)) => format!(
                "duration, `\"{}\"` to `\"{}\"`",
                duration_text(least.unsigned_abs()),
                duration_text(greatest.unsigned_abs())
            ),
            None => "duration".to_owned(),
        },
        ValueKind::Words(words) => words()
            .iter()
            .map(|word| format!("`\"{word}\"`"))
            .collect::<Vec<_>>()
            .join(", "),
        ValueKind::Map(values) => format!("table of: {}", type_text(*values, None)),
        ValueKind::Section(_) | ValueKind::NamedSections(_) => "table".to_owned(),
    }
}

/// Returns a JSON schema (2020-12) of the configuration file.
pub fn json_schema() -> String {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "aish configuration",
    });
    if let (Some(schema), Json::Object(root)) =
        (schema.as_object_mut(), section_schema(&Config::SECTION))
    {
        schema.extend(root);
    }
    format!("{schema:#}\n")
}

fn section_schema(section: &SectionSpec) -> Json {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for spec in section.settings {
        let mut schema = kind_schema(spec.kind, spec.bounds);
        if let Some(schema) = schema.as_object_mut() {
            if !matches!(spec.kind, ValueKind::Section(_)) {
                schema.insert("description".into(), json!(paragraph(spec.doc)));
            }
            if let Some(default) = (spec.default)(spec).filter(|_| !spec.is_required) {
                schema.insert("default".into(), default);
            }
        }
        if spec.is_required {
            required.push(spec.key);
        }
        properties.insert(spec.key.to_owned(), schema);
    }
    let mut schema = json!({
        "type": "object",
        "description": paragraph(section.doc),
        "properties": properties,
        "additionalProperties": false,
    });
    if let (Some(schema), false) = (schema.as_object_mut(), required.is_empty()) {
        schema.insert("required".into(), json!(required));
    }
    schema
}

fn kind_schema(kind: ValueKind, bounds: Option<(i64, i64)>) -> Json {
    let with_bounds = |name: &str| match bounds {
        Some((least, greatest)) => json!({"type": name, "minimum": least, "maximum": greatest}),
        None => json!({"type": name}),
    };
    match kind {
        ValueKind::Boolean => json!({"type": "boolean"}),
        ValueKind::Integer | ValueKind::Seconds => with_bounds("integer"),
        ValueKind::Number => with_bounds("number"),
        ValueKind::Text => json!({"type": "string", "minLength": 1}),
        ValueKind::TextList => {
            json!({"type": "array", "items": {"type": "string", "minLength": 1}})
        }
        ValueKind::Duration => json!({"type": "string", "pattern": "^[0-9]+[smhd]$"}),
        ValueKind::Words(words) => json!({"enum": words()}),
        ValueKind::Map(values) => {
            json!({"type": "object", "additionalProperties": kind_schema(*values, None)})
        }
        ValueKind::Section(section) => section_schema(section),
        ValueKind::NamedSections(section) => {
            json!({"type": "object", "additionalProperties": section_schema(section)})
        }
    }
}
