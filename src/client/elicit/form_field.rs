//! Fields of an elicitation form and the values they accept. Pure.
//! <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation>

use serde_json::{Number, Value, json};

/// Most fields of a form that a user can be asked to fill in.
const MAX_FIELDS: usize = 64;

/// Most choices of a field, since the user must find one of them.
const MAX_CHOICES: usize = 200;

/// A field of a form.
#[derive(Debug, Clone, PartialEq)]
pub struct FormField {
    /// Key in the answer.
    pub name: String,
    /// Title and description.
    pub about: Vec<String>,
    /// The field cannot be left empty.
    pub required: bool,
    /// Value of an empty line.
    pub default: Option<Value>,
    kind: FieldKind,
}

#[derive(Debug, Clone, PartialEq)]
enum FieldKind {
    Text {
        min: Option<u64>,
        max: Option<u64>,
        format: Option<String>,
    },
    Number {
        whole: bool,
        min: Option<f64>,
        max: Option<f64>,
    },
    Boolean,
    One(Vec<FieldChoice>),
    Many {
        choices: Vec<FieldChoice>,
        min: Option<u64>,
        max: Option<u64>,
    },
}

/// A value to choose.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldChoice {
    value: String,
    /// Name for the user.
    pub title: String,
}

/// Parses the fields of a schema, in its order.
///
/// # Errors
/// Why the schema is not a form of the protocol.
pub fn form_fields(schema: &Value) -> Result<Vec<FormField>, String> {
    let Some(properties) = schema["properties"].as_object() else {
        return match schema["properties"] {
            Value::Null => Ok(Vec::new()),
            _ => Err("its form is invalid".to_string()),
        };
    };
    if properties.len() > MAX_FIELDS {
        return Err(format!("its form has {} fields", properties.len()));
    }
    let required: Vec<&str> = schema["required"]
        .as_array()
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    properties
        .iter()
        .map(|(name, about)| {
            let kind = kind(about)
                .ok_or_else(|| format!("its form has a field of an unsupported type: {name}"))?;
            let text = |key: &str| about[key].as_str().map(str::to_string);
            let field = FormField {
                name: name.clone(),
                about: [text("title"), text("description")]
                    .into_iter()
                    .flatten()
                    .collect(),
                required: required.contains(&name.as_str()),
                default: None,
                kind,
            };
            let count = field.choices().len();
            if count > MAX_CHOICES {
                return Err(format!("its form has {count} choices for {name}"));
            }
            // A default that the field itself would reject is ignored.
            let default = about.get("default").filter(|value| field.accepts(value));
            Ok(FormField {
                default: default.cloned(),
                ..field
            })
        })
        .collect()
}

fn kind(about: &Value) -> Option<FieldKind> {
    let count = |key: &str| about[key].as_u64();
    let bound = |key: &str| about[key].as_f64();
    if let Some(choices) = choices(about) {
        return Some(FieldKind::One(choices));
    }
    Some(match about["type"].as_str()? {
        "string" => FieldKind::Text {
            min: count("minLength"),
            max: count("maxLength"),
            format: about["format"].as_str().map(str::to_string),
        },
        kind @ ("number" | "integer") => FieldKind::Number {
            whole: kind == "integer",
            min: bound("minimum"),
            max: bound("maximum"),
        },
        "boolean" => FieldKind::Boolean,
        "array" => FieldKind::Many {
            choices: choices(&about["items"])?,
            min: count("minItems"),
            max: count("maxItems"),
        },
        _ => return None,
    })
}

/// Parses choices: `enum` (with `enumNames`), or `oneOf` or `anyOf` with a `const` and a `title` each.
fn choices(about: &Value) -> Option<Vec<FieldChoice>> {
    if let Some(values) = about["enum"].as_array() {
        return values
            .iter()
            .enumerate()
            .map(|(n, value)| {
                let value = value.as_str()?.to_string();
                let title = about["enumNames"][n].as_str().unwrap_or(&value).to_string();
                Some(FieldChoice { value, title })
            })
            .collect();
    }
    let named = about["oneOf"].as_array().or(about["anyOf"].as_array())?;
    named
        .iter()
        .map(|one| {
            let value = one["const"].as_str()?.to_string();
            let title = one["title"].as_str().unwrap_or(&value).to_string();
            Some(FieldChoice { value, title })
        })
        .collect()
}

impl FormField {
    /// Returns the values to choose from; empty for other fields.
    pub fn choices(&self) -> &[FieldChoice] {
        match &self.kind {
            FieldKind::One(choices) | FieldKind::Many { choices, .. } => choices,
            _ => &[],
        }
    }

    /// Describes the accepted input.
    pub fn hint(&self) -> String {
        let mut hint = match &self.kind {
            FieldKind::Text { min, max, format } => {
                let what = match format.as_deref() {
                    Some("email") => "an e-mail address",
                    Some("uri") => "an address such as https://…",
                    Some("date") => "a date, YYYY-MM-DD",
                    Some("date-time") => "a time, YYYY-MM-DDThh:mm:ssZ",
                    _ => "text",
                };
                format!("{what}{}", range(*min, *max, " characters"))
            }
            FieldKind::Number { whole, min, max } => {
                let what = if *whole { "a whole number" } else { "a number" };
                format!("{what}{}", range(*min, *max, ""))
            }
            FieldKind::Boolean => "y or n".to_string(),
            FieldKind::One(_) => "one of these, its number or its text".to_string(),
            FieldKind::Many { min, max, .. } => format!(
                "any of these, numbers or texts with commas{}",
                range(*min, *max, " of them")
            ),
        };
        match &self.default {
            Some(default) => hint.push_str(&format!("; Enter: {}", self.typed_form(default))),
            None if !self.required => hint.push_str("; Enter: leave it out"),
            None => {}
        }
        hint
    }

    /// Formats a value as the user would type it, choices by their title.
    fn typed_form(&self, value: &Value) -> String {
        match value {
            Value::String(text) => {
                let choice = self.choices().iter().find(|c| c.value == *text);
                choice.map_or(text, |c| &c.title).clone()
            }
            Value::Bool(true) => "y".to_string(),
            Value::Bool(false) => "n".to_string(),
            Value::Array(all) => {
                let all: Vec<String> = all.iter().map(|v| self.typed_form(v)).collect();
                all.join(", ")
            }
            other => other.to_string(),
        }
    }

    /// Parses typed text; `None` leaves the field out.
    ///
    /// # Errors
    /// Why the text is not accepted.
    pub fn take(&self, typed: &str) -> Result<Option<Value>, String> {
        if typed.trim().is_empty() {
            return match (&self.default, self.required) {
                (Some(default), _) => Ok(Some(default.clone())),
                (None, false) => Ok(None),
                (None, true) => Err("it cannot be left empty".to_string()),
            };
        }
        let value = self.parse(typed.trim())?;
        match self.accepts(&value) {
            true => Ok(Some(value)),
            false => Err(format!("that is not {}", self.expected_input())),
        }
    }

    fn expected_input(&self) -> String {
        self.hint()
            .split(';')
            .next()
            .unwrap_or_default()
            .to_string()
    }

    fn parse(&self, typed: &str) -> Result<Value, String> {
        let number = |typed: &str| -> Option<Number> {
            match typed.parse::<i64>() {
                Ok(n) => Some(n.into()),
                Err(_) => Number::from_f64(typed.parse().ok()?),
            }
        };
        let choose = |choices: &[FieldChoice], typed: &str| -> Result<Value, String> {
            let numbered = typed
                .parse::<usize>()
                .ok()
                .and_then(|n| choices.get(n.wrapping_sub(1)));
            let named = choices
                .iter()
                .find(|c| c.title == typed || c.value == typed);
            let choice = numbered.or(named);
            choice
                .map(|c| json!(c.value))
                .ok_or_else(|| "not one of the choices".to_string())
        };
        match &self.kind {
            FieldKind::Text { .. } => Ok(json!(typed)),
            FieldKind::Number { .. } => number(typed)
                .map(Value::Number)
                .ok_or_else(|| format!("that is not {}", self.expected_input())),
            FieldKind::Boolean => match typed.to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(json!(true)),
                "n" | "no" | "false" => Ok(json!(false)),
                _ => Err("that is neither y nor n".to_string()),
            },
            FieldKind::One(choices) => choose(choices, typed),
            FieldKind::Many { choices, .. } => {
                let mut all: Vec<Value> = Vec::new();
                for part in typed.split(',').map(str::trim).filter(|p| !p.is_empty()) {
                    let value = choose(choices, part)?;
                    if !all.contains(&value) {
                        all.push(value);
                    }
                }
                Ok(Value::Array(all))
            }
        }
    }

    /// Returns whether the schema allows `value`.
    fn accepts(&self, value: &Value) -> bool {
        let within = |n: u64, min: &Option<u64>, max: &Option<u64>| {
            min.is_none_or(|l| n >= l) && max.is_none_or(|m| n <= m)
        };
        let is_choice = |choices: &[FieldChoice], value: &Value| {
            value
                .as_str()
                .is_some_and(|v| choices.iter().any(|c| c.value == v))
        };
        match &self.kind {
            FieldKind::Text { min, max, format } => value.as_str().is_some_and(|text| {
                within(text.chars().count() as u64, min, max)
                    && format.as_deref().is_none_or(|f| has_format(text, f))
            }),
            FieldKind::Number { whole, min, max } => value.as_f64().is_some_and(|n| {
                (!whole || value.is_i64() || value.is_u64())
                    && min.is_none_or(|l| n >= l)
                    && max.is_none_or(|m| n <= m)
            }),
            FieldKind::Boolean => value.is_boolean(),
            FieldKind::One(choices) => is_choice(choices, value),
            FieldKind::Many { choices, min, max } => value.as_array().is_some_and(|all| {
                within(all.len() as u64, min, max) && all.iter().all(|v| is_choice(choices, v))
            }),
        }
    }
}

/// Returns whether `text` plausibly has a format of the schema. The server validates it finally.
fn has_format(text: &str, format: &str) -> bool {
    let matches_shape = |text: &str, shape: &str| {
        text.len() == shape.len()
            && text.bytes().zip(shape.bytes()).all(|(t, s)| match s {
                b'0' => t.is_ascii_digit(),
                s => t == s,
            })
    };
    match format {
        "email" => text.split_once('@').is_some_and(|(who, host)| {
            !who.is_empty() && host.contains('.') && !text.contains(' ')
        }),
        "uri" => text.split_once(':').is_some_and(|(scheme, rest)| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
                && !rest.is_empty()
                && !text.contains(' ')
        }),
        "date" => matches_shape(text, "0000-00-00"),
        "date-time" => text
            .get(..19)
            .is_some_and(|t| matches_shape(t, "0000-00-00T00:00:00")),
        _ => true,
    }
}

/// Formats a range: `, 3 to 10 characters`.
fn range<T: std::fmt::Display>(min: Option<T>, max: Option<T>, of: &str) -> String {
    match (min, max) {
        (Some(min), Some(max)) => format!(", {min} to {max}{of}"),
        (Some(min), None) => format!(", at least {min}{of}"),
        (None, Some(max)) => format!(", at most {max}{of}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(about: Value) -> FormField {
        let schema = json!({ "type": "object", "properties": { "x": about }, "required": ["x"] });
        form_fields(&schema).unwrap().remove(0)
    }

    #[test]
    fn typed_values_are_validated() {
        for (about, typed, value) in [
            (json!({"type": "string"}), " a b ", Some(json!("a b"))),
            (json!({"type": "string"}), " ", None),
            (
                json!({"type": "string", "minLength": 2, "maxLength": 3}),
                "é",
                None,
            ),
            (
                json!({"type": "string", "minLength": 2, "maxLength": 3}),
                "éé",
                Some(json!("éé")),
            ),
            (
                json!({"type": "string", "format": "email"}),
                "a@b.example",
                Some(json!("a@b.example")),
            ),
            (
                json!({"type": "string", "format": "email"}),
                "a.example",
                None,
            ),
            (
                json!({"type": "string", "format": "uri"}),
                "https://a.example/",
                Some(json!("https://a.example/")),
            ),
            (json!({"type": "string", "format": "uri"}), "a b", None),
            (
                json!({"type": "string", "format": "date"}),
                "2026-01-31",
                Some(json!("2026-01-31")),
            ),
            (
                json!({"type": "string", "format": "date"}),
                "31.1.2026",
                None,
            ),
            (
                json!({"type": "integer", "minimum": 1, "maximum": 9}),
                "9",
                Some(json!(9)),
            ),
            (
                json!({"type": "integer", "minimum": 1, "maximum": 9}),
                "10",
                None,
            ),
            (json!({"type": "integer"}), "1.5", None),
            (json!({"type": "number"}), "1.5", Some(json!(1.5))),
            (json!({"type": "number"}), "inf", None),
            (json!({"type": "boolean"}), "Y", Some(json!(true))),
            (json!({"type": "boolean"}), "no", Some(json!(false))),
            (json!({"type": "boolean"}), "maybe", None),
            (
                json!({"type": "string", "enum": ["a", "b"]}),
                "2",
                Some(json!("b")),
            ),
            (
                json!({"type": "string", "enum": ["a", "b"]}),
                "a",
                Some(json!("a")),
            ),
            (json!({"type": "string", "enum": ["a", "b"]}), "0", None),
            (
                json!({"type": "string", "enum": ["a", "b"], "enumNames": ["A!", "B!"]}),
                "B!",
                Some(json!("b")),
            ),
            (
                json!({"type": "string", "oneOf": [{"const": "r", "title": "Red"}]}),
                "Red",
                Some(json!("r")),
            ),
            (
                json!({"type": "array", "minItems": 1, "items": {"type": "string", "enum": ["a", "b", "c"]}}),
                "3, a,3",
                Some(json!(["c", "a"])),
            ),
            (
                json!({"type": "array", "maxItems": 1, "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b"}]}}),
                "1,2",
                None,
            ),
        ] {
            assert_eq!(
                field(about.clone()).take(typed).ok().flatten(),
                value,
                "{about} {typed}"
            );
        }
    }

    #[test]
    fn enter_takes_the_default_or_leaves_out() {
        let schema = json!({"properties": {
            "a": {"type": "integer", "default": 3},
            "b": {"type": "boolean"},
            "c": {"type": "integer", "maximum": 2, "default": 3},
        }});
        let fields = form_fields(&schema).unwrap();
        assert_eq!(fields[0].take("").unwrap(), Some(json!(3)));
        assert_eq!(fields[0].hint(), "a whole number; Enter: 3");
        assert_eq!(fields[1].take("").unwrap(), None);
        assert_eq!(fields[2].default, None, "a default that the schema forbids");
    }

    #[test]
    fn schemas_that_are_not_forms_are_refused() {
        for schema in [
            json!({"properties": {"x": {"type": "object"}}}),
            json!({"properties": {"x": {"type": "array", "items": {"type": "string"}}}}),
            json!({"properties": {"x": {"enum": [1, 2]}}}),
            json!({"properties": []}),
            json!({"properties": {"x": {"enum": vec!["a"; 201]}}}),
        ] {
            assert!(form_fields(&schema).is_err(), "{schema}");
        }
        assert_eq!(form_fields(&json!({"type": "object"})).unwrap(), []);
    }
}
