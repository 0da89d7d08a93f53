//! The types of the settings table: a declaration ([`SettingSpec`]), a table of them ([`SectionSpec`]), and the
//! value types that a setting can have (`SettingType`). The declarations themselves are in `settings`, `model` and
//! `mcp`, written with the macro of `section`.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::origin::{SettingLog, SettingOrigin};
use super::syntax_tree::SyntaxValue;
use super::table_reader::{FileScope, TableReader, key_path};

/// The type of a value in the file.
#[derive(Clone, Copy)]
pub enum ValueKind {
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// A string that is not empty.
    Text,
    /// A list of strings.
    TextList,
    /// A duration as a whole number of seconds.
    Seconds,
    /// A duration as text, such as `"10m"`.
    Duration,
    /// One of a few words.
    Words(fn() -> Vec<&'static str>),
    /// A table whose keys the user chooses and whose values have one type.
    Map(&'static ValueKind),
    /// A table of settings.
    Section(&'static SectionSpec),
    /// A table of sections whose names the user chooses.
    NamedSections(&'static SectionSpec),
}

/// The settings of one table of the file.
pub struct SectionSpec {
    /// The path of the table, such as `models.NAME`; capital letters mark a name that the user chooses.
    pub path: &'static str,
    /// The description, a line each.
    pub doc: &'static [&'static str],
    /// The settings, in the order of the reference.
    pub settings: &'static [SettingSpec],
}

impl SectionSpec {
    /// The keys that a file of this kind can have.
    pub(super) fn keys(&self, scope: FileScope) -> Vec<&'static str> {
        let settings = self.settings.iter().filter(|spec| spec.is_in(scope));
        settings.map(|spec| spec.key).collect()
    }

    /// The settings of this section, and of the sections in it that have a fixed name, that an environment variable
    /// overrides.
    pub fn overridable(&self) -> Vec<&'static SettingSpec> {
        let mut all = Vec::new();
        for spec in self.settings {
            match spec.kind {
                ValueKind::Section(section) => all.extend(section.overridable()),
                _ => all.extend(spec.variable.map(|_| spec)),
            }
        }
        all
    }
}

/// Checks a text; the message follows the key.
type TextCheck = fn(&str) -> Result<(), String>;

/// Checks an entry of a map by its name and value; the message follows the key.
type EntryCheck = fn(&str, &str) -> Result<(), String>;

/// The declaration of one setting. The parser, the defaults, `config show`, the starter file, the
/// reference and the JSON schema are all derived from it.
pub struct SettingSpec {
    /// The key in its table.
    pub key: &'static str,
    /// The description, a line each.
    pub doc: &'static [&'static str],
    /// The type of its value.
    pub kind: ValueKind,
    /// The least and the greatest value of a number, or of a duration in seconds.
    pub bounds: Option<(i64, i64)>,
    /// The default as JSON, or `None` if there is none.
    pub default: fn(&SettingSpec) -> Option<Json>,
    /// An example as TOML: a value, or the lines of a table.
    pub example: Option<&'static str>,
    /// The setting cannot be combined with another one that the starter file shows.
    pub is_alternative: bool,
    /// The setting must be present.
    pub is_required: bool,
    /// The value in the file is added to the default.
    pub adds_to_default: bool,
    /// A project's `.aish.toml` can have the setting.
    pub is_in_project: bool,
    /// The environment variable that overrides the file.
    pub variable: Option<&'static str>,
    /// A check of a text, of each text of a list, or of each name of a map of sections.
    pub(super) check: Option<TextCheck>,
    /// A check of each entry of a map.
    pub(super) check_entry: Option<EntryCheck>,
    /// Masks a value that can hold a secret, for `config show`.
    pub(super) mask: Option<fn(&Json) -> Json>,
    /// Masks an entry of a map, for `config show`.
    pub(super) mask_entry: Option<fn(&str, &str) -> String>,
    /// Checks the value of the environment variable.
    pub(super) check_override: fn(&SettingSpec, &str) -> Result<(), String>,
}

impl SettingSpec {
    pub(super) const fn new<T: SettingType>(
        key: &'static str,
        doc: &'static [&'static str],
        default: fn(&SettingSpec) -> Option<Json>,
    ) -> SettingSpec {
        SettingSpec {
            key,
            doc,
            kind: T::KIND,
            bounds: None,
            default,
            example: None,
            is_alternative: false,
            is_required: false,
            adds_to_default: false,
            is_in_project: false,
            variable: None,
            check: None,
            check_entry: None,
            mask: None,
            mask_entry: None,
            check_override: |spec, text| T::from_variable(text, spec).map(drop),
        }
    }

    /// Sets the key, where it differs from the name of the field.
    pub(super) const fn key(mut self, key: &'static str) -> SettingSpec {
        self.key = key;
        self
    }

    pub(super) const fn range(mut self, least: i64, greatest: i64) -> SettingSpec {
        self.bounds = Some((least, greatest));
        self
    }

    /// Writes a duration as a number of seconds.
    pub(super) const fn in_seconds(mut self) -> SettingSpec {
        self.kind = ValueKind::Seconds;
        self
    }

    pub(super) const fn example(mut self, toml: &'static str) -> SettingSpec {
        self.example = Some(toml);
        self
    }

    pub(super) const fn alternative(mut self, toml: &'static str) -> SettingSpec {
        self.example = Some(toml);
        self.is_alternative = true;
        self
    }

    pub(super) const fn required(mut self, example: &'static str) -> SettingSpec {
        self.example = Some(example);
        self.is_required = true;
        self
    }

    pub(super) const fn added_to_default(mut self) -> SettingSpec {
        self.adds_to_default = true;
        self
    }

    pub(super) const fn in_project(mut self) -> SettingSpec {
        self.is_in_project = true;
        self
    }

    pub(super) const fn variable(mut self, name: &'static str) -> SettingSpec {
        self.variable = Some(name);
        self
    }

    pub(super) const fn check(mut self, check: TextCheck) -> SettingSpec {
        self.check = Some(check);
        self
    }

    pub(super) const fn check_entry(mut self, check: EntryCheck) -> SettingSpec {
        self.check_entry = Some(check);
        self
    }

    pub(super) const fn mask(mut self, mask: fn(&Json) -> Json) -> SettingSpec {
        self.mask = Some(mask);
        self
    }

    pub(super) const fn mask_entry(mut self, mask: fn(&str, &str) -> String) -> SettingSpec {
        self.mask_entry = Some(mask);
        self
    }

    fn is_in(&self, scope: FileScope) -> bool {
        scope == FileScope::User || self.is_in_project
    }

    fn shown<T: SettingType>(&self, value: &T) -> Option<Json> {
        let json = value.to_json(self)?;
        Some(self.mask.map_or(json.clone(), |mask| mask(&json)))
    }
}

/// A type that a setting can have.
pub(super) trait SettingType: Sized + Clone {
    /// The type of the value in the file.
    const KIND: ValueKind;

    /// Parses one value; the message follows the key.
    fn parse(value: &SyntaxValue, spec: &SettingSpec) -> Result<Self, String>;

    /// The value as JSON; `None` if it is not set, or if its parts are listed by themselves.
    fn to_json(&self, spec: &SettingSpec) -> Option<Json>;

    /// Parses the value of an environment variable.
    fn from_variable(text: &str, spec: &SettingSpec) -> Result<Self, String> {
        Self::parse(&SyntaxValue::String(text.to_owned()), spec)
    }

    /// Reads the setting out of its table. A fault is recorded and leaves the default; then the file is refused.
    fn read(reader: &TableReader<'_>, spec: &SettingSpec, default: fn() -> Self) -> Self {
        let (value, origin) = match reader.entry(spec.key) {
            Some(entry) => match Self::parse(&entry.node.value, spec) {
                Ok(value) => (value, SettingOrigin::File(entry.line)),
                Err(message) => {
                    reader.fault(entry.line, spec.key, message);
                    return default();
                }
            },
            None => (default(), SettingOrigin::Default),
        };
        if let Some(shown) = spec.shown(&value) {
            reader.log(spec.key, shown, origin);
        }
        value
    }

    /// Replaces the value by that of the setting's environment variable, if it is set.
    fn apply_override(
        &mut self,
        table: &str,
        spec: &SettingSpec,
        variables: &BTreeMap<String, String>,
        log: &mut SettingLog,
    ) {
        let Some(name) = spec.variable else { return };
        let text = variables.get(name).filter(|text| !text.is_empty());
        // The value was checked when the variables were collected.
        let Some(Ok(value)) = text.map(|text| Self::from_variable(text, spec)) else {
            return;
        };
        if let Some(shown) = spec.shown(&value) {
            log.set(&key_path(table, spec.key), shown, SettingOrigin::Env(name));
        }
        *self = value;
    }
}

/// A struct that is the value of a table, made by the macro of `section`.
pub(super) trait SectionType: Sized {
    /// Its settings.
    const SECTION: SectionSpec;

    /// Reads every setting of the table.
    fn read_table(reader: &TableReader<'_>) -> Self;

    /// Applies the environment variables of every setting.
    fn apply_overrides(
        &mut self,
        table: &str,
        variables: &BTreeMap<String, String>,
        log: &mut SettingLog,
    );
}

/// Reads one setting, unless the file is of a kind that does not have it.
pub(super) fn read_setting<T: SettingType>(
    reader: &TableReader<'_>,
    spec: &SettingSpec,
    default: fn() -> T,
) -> T {
    if !spec.is_in(reader.context.scope) {
        return default();
    }
    if spec.is_required && !reader.has(spec.key) {
        reader.fault(reader.line(), spec.key, "missing");
        return default();
    }
    T::read(reader, spec, default)
}
