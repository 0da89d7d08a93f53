//! The value types that settings have: numbers, texts, lists, durations, words, maps and named sections.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::origin::{SettingLog, SettingOrigin};
use super::setting::{SectionType, SettingSpec, SettingType, ValueKind};
use super::syntax_tree::SyntaxValue;
use super::table_reader::{TableReader, must_be};
use super::value_checks::nearest_name;

impl SettingType for bool {
    const KIND: ValueKind = ValueKind::Boolean;

    fn parse(value: &SyntaxValue, _: &SettingSpec) -> Result<bool, String> {
        match value {
            SyntaxValue::Bool(b) => Ok(*b),
            other => Err(must_be("true or false", other)),
        }
    }

    fn to_json(&self, _: &SettingSpec) -> Option<Json> {
        Some(json!(self))
    }

    fn from_variable(text: &str, _: &SettingSpec) -> Result<bool, String> {
        match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Ok(true),
            "0" | "false" | "no" | "off" => Ok(false),
            _ => Err("must be true or false".into()),
        }
    }
}

/// Parses a whole number within the bounds of the setting.
fn parse_integer(value: &SyntaxValue, spec: &SettingSpec) -> Result<i64, String> {
    let (least, greatest) = bounds(spec);
    let expected = format!("a whole number from {least} to {greatest}");
    match value {
        SyntaxValue::Integer(i) if (least..=greatest).contains(i) => Ok(*i),
        SyntaxValue::Integer(i) => Err(format!("must be {expected}, not {i}")),
        SyntaxValue::Float(f) => Err(format!("must be {expected}, not {f}")),
        other => Err(must_be(&expected, other)),
    }
}

fn bounds(spec: &SettingSpec) -> (i64, i64) {
    spec.bounds.unwrap_or((0, u32::MAX.into()))
}

fn integer_from_variable(text: &str, spec: &SettingSpec) -> Result<i64, String> {
    let (least, greatest) = bounds(spec);
    let number = text.trim().parse().ok();
    number
        .filter(|n| (least..=greatest).contains(n))
        .ok_or_else(|| format!("must be a whole number from {least} to {greatest}"))
}

/// Implements [`SettingType`] for types of whole numbers.
macro_rules! integer_setting {
    ($($type:ty),*) => {$(
        impl SettingType for $type {
            const KIND: ValueKind = ValueKind::Integer;

            fn parse(value: &SyntaxValue, spec: &SettingSpec) -> Result<$type, String> {
                let number = parse_integer(value, spec)?;
                <$type>::try_from(number).map_err(|e| e.to_string())
            }

            fn to_json(&self, _: &SettingSpec) -> Option<Json> {
                Some(json!(self))
            }

            fn from_variable(text: &str, spec: &SettingSpec) -> Result<$type, String> {
                let number = integer_from_variable(text, spec)?;
                <$type>::try_from(number).map_err(|e| e.to_string())
            }
        }
    )*};
}

integer_setting!(u32, u64, usize);

impl SettingType for f64 {
    const KIND: ValueKind = ValueKind::Number;

    fn parse(value: &SyntaxValue, spec: &SettingSpec) -> Result<f64, String> {
        let (least, greatest) = bounds(spec);
        let expected = format!("a number from {least} to {greatest}");
        let number = match value {
            // Exact up to 2^53, which is beyond the bounds of every setting.
            SyntaxValue::Integer(i) => *i as f64,
            SyntaxValue::Float(f) => *f,
            other => return Err(must_be(&expected, other)),
        };
        if (least as f64..=greatest as f64).contains(&number) {
            Ok(number)
        } else {
            Err(format!("must be {expected}, not {number}"))
        }
    }

    fn to_json(&self, _: &SettingSpec) -> Option<Json> {
        Some(json!(self))
    }
}

impl SettingType for String {
    const KIND: ValueKind = ValueKind::Text;

    fn parse(value: &SyntaxValue, spec: &SettingSpec) -> Result<String, String> {
        let text = parse_text(value)?;
        spec.check.map_or(Ok(()), |check| check(&text))?;
        Ok(text)
    }

    fn to_json(&self, _: &SettingSpec) -> Option<Json> {
        Some(json!(self))
    }
}

fn parse_text(value: &SyntaxValue) -> Result<String, String> {
    match value {
        SyntaxValue::String(s) if s.trim().is_empty() => Err("must not be empty".into()),
        // Programs, headers and URLs cannot hold NUL, and elsewhere it would cut the text short.
        SyntaxValue::String(s) if s.contains('\0') => {
            Err("must not contain a NUL character".into())
        }
        SyntaxValue::String(s) => Ok(s.clone()),
        other => Err(must_be("a string", other)),
    }
}

impl SettingType for Vec<String> {
    const KIND: ValueKind = ValueKind::TextList;

    fn parse(value: &SyntaxValue, spec: &SettingSpec) -> Result<Vec<String>, String> {
        let SyntaxValue::Array(items) = value else {
            return Err(must_be("a list of strings", value));
        };
        let items = items.iter().map(|item| String::parse(&item.value, spec));
        items.collect()
    }

    fn to_json(&self, _: &SettingSpec) -> Option<Json> {
        Some(json!(self))
    }

    fn read(
        reader: &TableReader<'_>,
        spec: &SettingSpec,
        default: fn() -> Vec<String>,
    ) -> Vec<String> {
        let mut list = match spec.adds_to_default || !reader.has(spec.key) {
            true => default(),
            false => Vec::new(),
        };
        let mut origin = SettingOrigin::Default;
        if let Some(entry) = reader.entry(spec.key) {
            origin = SettingOrigin::File(entry.line);
            let SyntaxValue::Array(items) = &entry.node.value else {
                let message = must_be("a list of strings", &entry.node.value);
                reader.fault(entry.line, spec.key, message);
                return list;
            };
            for item in items {
                match String::parse(&item.value, spec) {
                    Ok(text) => list.push(text),
                    Err(message) => reader.fault(item.line, spec.key, message),
                }
            }
        }
        let shown = json!(list);
        reader.log(
            spec.key,
            spec.mask.map_or(shown.clone(), |mask| mask(&shown)),
            origin,
        );
        list
    }
}

/// The units of a duration, longest first, in seconds.
const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Returns a duration as the file has it, in the longest unit that leaves a whole number: `10m`.
pub(super) fn duration_text(seconds: u64) -> String {
    let unit = UNITS
        .iter()
        .find(|(_, size)| seconds.is_multiple_of(*size) && seconds >= *size);
    let (unit, size) = unit.copied().unwrap_or(('s', 1));
    format!("{}{unit}", seconds / size)
}

fn parse_duration(text: &str) -> Option<u64> {
    let unit = text.chars().next_back()?;
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*size)
}

impl SettingType for Duration {
    const KIND: ValueKind = ValueKind::Duration;

    fn parse(value: &SyntaxValue, spec: &SettingSpec) -> Result<Duration, String> {
        if let ValueKind::Seconds = spec.kind {
            let seconds = parse_integer(value, spec)?;
            return Ok(Duration::from_secs(seconds.unsigned_abs()));
        }
        let (least, greatest) = bounds(spec);
        let (least, greatest) = (least.unsigned_abs(), greatest.unsigned_abs());
        let expected = || {
            let (least, greatest) = (duration_text(least), duration_text(greatest));
            format!(
                "a duration from \"{least}\" to \"{greatest}\", such as \"90s\", \"10m\" or \"2h\""
            )
        };
        match value {
            SyntaxValue::String(text) => parse_duration(text)
                .filter(|seconds| (least..=greatest).contains(seconds))
                .map(Duration::from_secs)
                .ok_or_else(|| format!("must be {}", expected())),
            other => Err(must_be(&expected(), other)),
        }
    }

    fn to_json(&self, spec: &SettingSpec) -> Option<Json> {
        Some(match spec.kind {
            ValueKind::Seconds => json!(self.as_secs()),
            _ => json!(duration_text(self.as_secs())),
        })
    }
}

/// A type whose values are written as words.
pub(super) trait WordType: Copy + 'static {
    /// The values, in the order of the reference.
    const VALUES: &'static [Self];

    /// Returns the text of a value in the file.
    fn word(self) -> &'static str;
}

/// Returns the words of a type.
pub(super) fn words<T: WordType>() -> Vec<&'static str> {
    T::VALUES.iter().map(|value| value.word()).collect()
}

/// Parses one of the words of a type.
pub(super) fn parse_word<T: WordType>(value: &SyntaxValue) -> Result<T, String> {
    let text = parse_text(value)?;
    let found = T::VALUES.iter().find(|value| value.word() == text);
    found.copied().ok_or_else(|| {
        let words = words::<T>();
        match nearest_name(&text, words.iter().copied()) {
            Some(word) => format!("unknown value; did you mean \"{word}\"?"),
            None => format!("unknown value; the values are \"{}\"", words.join("\", \"")),
        }
    })
}

/// Makes an enum a type of settings that are written as words.
macro_rules! word_setting {
    ($type:ty, $values:expr, $word:expr) => {
        impl $crate::config::setting_types::WordType for $type {
            const VALUES: &'static [$type] = &$values;

            fn word(self) -> &'static str {
                $word(self)
            }
        }

        impl $crate::config::setting::SettingType for $type {
            const KIND: $crate::config::setting::ValueKind =
                $crate::config::setting::ValueKind::Words(
                    $crate::config::setting_types::words::<$type>,
                );

            fn parse(
                value: &$crate::config::syntax_tree::SyntaxValue,
                _: &$crate::config::setting::SettingSpec,
            ) -> std::result::Result<$type, String> {
                $crate::config::setting_types::parse_word(value)
            }

            fn to_json(
                &self,
                _: &$crate::config::setting::SettingSpec,
            ) -> Option<serde_json::Value> {
                Some(serde_json::json!($word(*self)))
            }
        }
    };
}

pub(super) use word_setting;

/// A setting without a default. A table in this place is read only where it is present.
impl<T: SettingType + Default> SettingType for Option<T> {
    const KIND: ValueKind = T::KIND;

    fn parse(value: &SyntaxValue, spec: &SettingSpec) -> Result<Option<T>, String> {
        T::parse(value, spec).map(Some)
    }

    fn to_json(&self, spec: &SettingSpec) -> Option<Json> {
        self.as_ref()?.to_json(spec)
    }

    fn from_variable(text: &str, spec: &SettingSpec) -> Result<Option<T>, String> {
        T::from_variable(text, spec).map(Some)
    }

    fn read(reader: &TableReader<'_>, spec: &SettingSpec, default: fn() -> Option<T>) -> Option<T> {
        match reader.has(spec.key) {
            true => Some(T::read(reader, spec, T::default)),
            false => default(),
        }
    }
}

/// Names and texts, in the order of the file.
impl SettingType for Vec<(String, String)> {
    const KIND: ValueKind = ValueKind::Map(&ValueKind::Text);

    fn parse(value: &SyntaxValue, _: &SettingSpec) -> Result<Vec<(String, String)>, String> {
        Err(must_be("a table", value))
    }

    fn to_json(&self, _: &SettingSpec) -> Option<Json> {
        None
    }

    fn read(
        reader: &TableReader<'_>,
        spec: &SettingSpec,
        default: fn() -> Vec<(String, String)>,
    ) -> Vec<(String, String)> {
        let Some(table) = reader.table(spec.key) else {
            return default();
        };
        let mut all = Vec::new();
        for entry in table.entries() {
            let name = &entry.key;
            let value = parse_text(&entry.node.value);
            let checked = value.and_then(|value| {
                let check = spec.check_entry;
                check.map_or(Ok(()), |check| check(name, &value))?;
                Ok(value)
            });
            match checked {
                Ok(value) => {
                    let shown = spec
                        .mask_entry
                        .map_or(value.clone(), |mask| mask(name, &value));
                    table.log(name, shown, SettingOrigin::File(entry.line));
                    all.push((name.clone(), value));
                }
                Err(message) => table.fault(entry.line, name, message),
            }
        }
        all
    }
}

/// Sections by the names that the user chose.
impl<T: SectionType + Clone> SettingType for BTreeMap<String, T> {
    const KIND: ValueKind = ValueKind::NamedSections(&T::SECTION);

    fn parse(value: &SyntaxValue, _: &SettingSpec) -> Result<BTreeMap<String, T>, String> {
        Err(must_be("a table", value))
    }

    fn to_json(&self, _: &SettingSpec) -> Option<Json> {
        None
    }

    fn read(
        reader: &TableReader<'_>,
        spec: &SettingSpec,
        default: fn() -> BTreeMap<String, T>,
    ) -> BTreeMap<String, T> {
        let Some(table) = reader.table(spec.key) else {
            return default();
        };
        let mut all = BTreeMap::new();
        for entry in table.entries() {
            let Some(section) = table.table_of(entry) else {
                continue;
            };
            if let Some(Err(message)) = spec.check.map(|check| check(&entry.key)) {
                table.fault(entry.line, &entry.key, message);
            }
            all.insert(entry.key.clone(), T::read_table(&section));
        }
        all
    }

    fn apply_override(
        &mut self,
        _: &str,
        _: &SettingSpec,
        _: &BTreeMap<String, String>,
        _: &mut SettingLog,
    ) {
    }
}

/// Parses each entry of a map whose names can hold a dot; `example` is a value of the map. Entries that are wrong are
/// recorded as faults. Each entry is returned with its line.
pub(super) fn read_dotted_map<T>(
    table: &TableReader<'_>,
    example: &str,
    parse: impl Fn(&SyntaxValue) -> Result<T, String>,
) -> Vec<(String, T, usize)> {
    let mut all = Vec::new();
    for entry in table.entries() {
        let parsed = match &entry.node.value {
            // `a.b = true` is a table in TOML, and is easily mistaken for a name with a dot.
            SyntaxValue::Table(_) => Err(format!(
                "put a name with a dot in quotes: \"alias.tool\" = {example}"
            )),
            value => parse(value),
        };
        match parsed {
            Ok(value) => all.push((entry.key.clone(), value, entry.line)),
            Err(message) => table.fault(entry.line, &entry.key, message),
        }
    }
    all
}
