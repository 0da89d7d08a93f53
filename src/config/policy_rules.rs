//! The rules of `[policy.rules]` and `[mcp.auto_approve]`, in the user's file and in a project's.

use serde_json::Value as Json;

use super::origin::SettingOrigin;
use super::setting::{SettingSpec, SettingType, ValueKind};
use super::setting_types::{parse_word, read_dotted_map, word_setting, words};
use super::syntax_tree::SyntaxValue;
use super::table_reader::{FileScope, TableReader, must_be};
use super::value_checks::{check_alias, nearest_name};
use crate::safety::policy::{BuiltinAction, PolicyRule, RuleEffect, RuleSubject};

word_setting!(RuleEffect, RuleEffect::ALL, RuleEffect::as_str);

/// `[policy.rules]`, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PolicyRules(pub(super) Vec<PolicyRule>);

impl SettingType for PolicyRules {
    const KIND: ValueKind = ValueKind::Map(&ValueKind::Words(words::<RuleEffect>));

    fn parse(value: &SyntaxValue, _: &SettingSpec) -> Result<PolicyRules, String> {
        Err(must_be("a table", value))
    }

    fn to_json(&self, _: &SettingSpec) -> Option<Json> {
        None
    }

    fn read(
        reader: &TableReader<'_>,
        spec: &SettingSpec,
        default: fn() -> PolicyRules,
    ) -> PolicyRules {
        let Some(table) = reader.table(spec.key) else {
            return default();
        };
        PolicyRules(read_rules(
            &table,
            "\"deny\"",
            parse_word::<RuleEffect>,
            |name, effect| rule_subject(&table, name, effect),
            |effect| effect.as_str().into(),
        ))
    }
}

/// Reads the rules of a table, in the order of the file, and logs each as `shown` formats its effect. `subject` parses the
/// name of a rule; `example` is a value of the table.
fn read_rules(
    table: &TableReader<'_>,
    example: &str,
    parse: impl Fn(&SyntaxValue) -> Result<RuleEffect, String>,
    subject: impl Fn(&str, RuleEffect) -> Result<RuleSubject, String>,
    shown: impl Fn(RuleEffect) -> Json,
) -> Vec<PolicyRule> {
    let mut rules = Vec::new();
    for (name, effect, line) in read_dotted_map(table, example, parse) {
        match subject(&name, effect) {
            Ok(subject) => {
                table.log(&name, shown(effect), SettingOrigin::File(line));
                rules.push(PolicyRule {
                    subject,
                    effect,
                    source: table.path(&name),
                });
            }
            Err(message) => table.fault(line, &name, message),
        }
    }
    rules
}

/// Parses the name of a rule and checks that the file can have this rule.
fn rule_subject(
    table: &TableReader<'_>,
    name: &str,
    effect: RuleEffect,
) -> Result<RuleSubject, String> {
    let aliases = &table.context.aliases;
    let subject = RuleSubject::parse(name).map_err(|message| {
        let actions = BuiltinAction::ALL.iter().map(|action| action.as_str());
        match nearest_name(name, actions) {
            Some(near) => format!("unknown rule; did you mean \"{near}\"?"),
            None => message,
        }
    })?;
    match &subject {
        RuleSubject::Tool(alias, tool) => check_rule_alias(alias, tool, aliases)?,
        RuleSubject::Server(alias) => check_rule_alias(alias, "*", aliases)?,
        _ => {}
    }
    let is_user = table.context.scope == FileScope::User;
    // In a project file the rule is ignored with a notice, like every rule that allows.
    if is_user && effect == RuleEffect::Allow && matches!(subject, RuleSubject::Sensitivity(_)) {
        let message =
            "a declaration of the model can only make a rule stricter: write \"ask\" or \"deny\"";
        return Err(message.into());
    }
    Ok(subject)
}

/// Checks the alias in a rule. The server itself need not be configured: it may be connected manually, or added later.
fn check_rule_alias(alias: &str, tool: &str, aliases: &[String]) -> Result<(), String> {
    check_alias(alias).map_err(|message| {
        match nearest_name(alias, aliases.iter().map(String::as_str)) {
            Some(near) => format!("no server has this alias; did you mean \"{near}.{tool}\"?"),
            None => message,
        }
    })
}

/// `[mcp.auto_approve]` as rules, sorted by name: `true` allows, `false` asks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AutoApprovals(pub(super) Vec<PolicyRule>);

impl SettingType for AutoApprovals {
    const KIND: ValueKind = ValueKind::Map(&ValueKind::Boolean);

    fn parse(value: &SyntaxValue, _: &SettingSpec) -> Result<AutoApprovals, String> {
        Err(must_be("a table", value))
    }

    fn to_json(&self, _: &SettingSpec) -> Option<Json> {
        None
    }

    fn read(
        reader: &TableReader<'_>,
        spec: &SettingSpec,
        default: fn() -> AutoApprovals,
    ) -> AutoApprovals {
        let Some(table) = reader.table(spec.key) else {
            return default();
        };
        let mut rules = read_rules(
            &table,
            "true",
            |value| {
                Ok(match bool::parse(value, spec)? {
                    true => RuleEffect::Allow,
                    false => RuleEffect::Ask,
                })
            },
            |name, _| approval_subject(name, &table.context.aliases),
            |effect| (effect == RuleEffect::Allow).into(),
        );
        rules.sort_by(|a, b| a.source.cmp(&b.source));
        AutoApprovals(rules)
    }
}

/// Parses `alias.tool` or `alias.*`. Only tools can be approved here, so `fs.write` is the tool of a server.
fn approval_subject(name: &str, aliases: &[String]) -> Result<RuleSubject, String> {
    let form = "must be \"alias.tool\", or \"alias.*\" for all tools of a server";
    let Some((alias, tool)) = name.split_once('.') else {
        return Err(form.into());
    };
    check_rule_alias(alias, tool, aliases)?;
    RuleSubject::of_tools(name).ok_or_else(|| form.into())
}

#[cfg(test)]
mod tests;
