//! Rules that the user adds and removes at the terminal, in `config.toml`.
//!
//! `toml_edit` finds the place of a new line. Its output is not used as a whole, because it drops carriage returns and
//! moves dotted keys: only the new piece is inserted into the old text.

use std::path::Path;

use toml_edit::{Document, DocumentMut, Item, Table, value};

use super::edit;
use crate::config::file::ConfigFile;
use crate::config::table_reader::shown_key;
use crate::config::value_checks::nearest_name;
use crate::error::{Error, Result};
use crate::paths::Paths;
use crate::safety::policy::{RuleEffect, RuleSubject};

/// The beginning of the comment above a rule that was added at a prompt.
pub const ALLOWED_COMMENT: &str = "allowed at a prompt";

/// Writes `"alias.tool" = "allow"` under `[policy.rules]`, below a comment that begins with [`ALLOWED_COMMENT`]. An existing rule
/// that allows the same is left as it is.
///
/// # Errors
/// The file cannot be read or written, is invalid, is `aish.json`, or has an `"ask"` or `"deny"` rule for the tool.
pub fn allow_always(paths: &Paths, name: &str, comment: &str) -> Result<()> {
    let (alias, tool) = name.split_once('.').unwrap_or((name, ""));
    // The prompt offers a permanent rule for a single tool only.
    if tool.is_empty() || tool == "*" || RuleSubject::parse(name).is_err() {
        let message = format!("no rule can be written for {}", shown_key(name));
        return Err(Error::config(message));
    }
    let manual_hint = format!("write it by hand, under policy.rules: {}", rule_line(name));
    let server_pattern = format!("{alias}.*");
    edit(paths, &manual_hint, true, |old, file, path| {
        for rule in file_rules(file) {
            if rule.effect != RuleEffect::Allow
                && (rule.name == name || rule.name == server_pattern)
            {
                let message = format!(
                    "{}:{}: {} says {} already, which takes precedence over \"allow\"",
                    path.display(),
                    rule.line,
                    rule.key,
                    rule.effect.as_str()
                );
                return Err(Error::config(message).hint("change that rule by hand"));
            }
        }
        if file_rules(file).any(|rule| rule.name == name) {
            return Ok(old.to_owned());
        }
        // The comment must stay on one line.
        let comment = comment.replace(char::is_control, " ");
        with_rule(old, name, &comment).ok_or_else(|| unsupported_layout(path, &manual_hint))
    })
}

/// Removes the rules of that name that allow, from `[policy.rules]` and `[mcp.auto_approve]`, with the comment that
/// [`allow_always`] wrote.
///
/// # Errors
/// Same as [`allow_always`], or there is no such rule, or its effect is `"ask"` or `"deny"`.
pub fn remove_rule(paths: &Paths, name: &str) -> Result<()> {
    let manual_hint = format!("remove it by hand: {}", shown_key(name));
    edit(paths, &manual_hint, false, |old, file, path| {
        let mut new = old.to_owned();
        let mut found = false;
        for rule in file_rules(file).filter(|rule| rule.name == name) {
            if rule.effect != RuleEffect::Allow {
                let message = format!(
                    "{}:{}: {} says {}: only an \"allow\" rule can be removed",
                    path.display(),
                    rule.line,
                    rule.key,
                    rule.effect.as_str()
                );
                return Err(Error::usage(message).hint("change that rule by hand"));
            }
            let table = match rule.key.starts_with("mcp.") {
                true => ["mcp", "auto_approve"],
                false => ["policy", "rules"],
            };
            found = true;
            new = without_rule(&new, table, name)
                .ok_or_else(|| unsupported_layout(path, &manual_hint))?;
        }
        if !found {
            let message = format!(
                "{}: no rule or grant is named {}",
                path.display(),
                shown_key(name)
            );
            let names: Vec<String> = file_rules(file).map(|rule| rule.name).collect();
            return Err(Error::usage(
                match nearest_name(name, names.iter().map(String::as_str)) {
                    Some(near) => format!("{message}; did you mean {near}?"),
                    None => message,
                },
            ));
        }
        Ok(new)
    })
}

/// A rule of a file, with its name, key and line.
struct FileRule<'f> {
    name: String,
    effect: RuleEffect,
    key: &'f str,
    line: usize,
}

fn file_rules(file: &ConfigFile) -> impl Iterator<Item = FileRule<'_>> {
    file.config.policy.list.iter().map(|rule| FileRule {
        name: rule.subject.to_string(),
        effect: rule.effect,
        key: &rule.source,
        line: file.values.line(&rule.source).unwrap_or_default(),
    })
}

/// Returns the line of a rule that allows.
fn rule_line(name: &str) -> String {
    let mut table = Table::new();
    table.insert(name, value(RuleEffect::Allow.as_str()));
    table.to_string().trim_end().to_owned()
}

fn unsupported_layout(path: &Path, manual_hint: &str) -> Error {
    let message = format!(
        "cannot change {}: its rules are not on separate lines",
        path.display()
    );
    Error::config(message).hint(manual_hint.to_owned())
}

/// Returns the text with the new rule, or `None` if the rules are not on separate lines.
fn with_rule(old: &str, name: &str, comment: &str) -> Option<String> {
    // The last line may not end with a newline.
    let end = match old.ends_with('\n') || old.is_empty() {
        true => "",
        false if old.contains("\r\n") => "\r\n",
        false => "\n",
    };
    let old = &format!("{old}{end}");
    let plain = old.replace("\r\n", "\n");
    let mut doc: DocumentMut = plain.parse().ok()?;
    let mut rules = toml_edit::table();
    if !doc.contains_key("policy") {
        // Comments at the end of the file stay above the new table.
        let end = doc.trailing().as_str()?.to_owned();
        let space = if plain.is_empty() { "" } else { "\n" };
        rules
            .as_table_mut()?
            .decor_mut()
            .set_prefix(format!("{end}{space}"));
        doc.set_trailing("");
        let mut policy = Table::new();
        policy.set_implicit(true);
        doc.insert("policy", Item::Table(policy));
    }
    let policy = doc.get_mut("policy")?.as_table_mut()?;
    let rules = policy.entry("rules").or_insert(rules).as_table_mut()?;
    rules.insert(name, value(RuleEffect::Allow.as_str()));
    let mut key = rules.key_mut(name)?;
    key.leaf_decor_mut().set_prefix(format!("# {comment}\n"));
    insert_addition(old, &plain, &doc.to_string())
}

/// Inserts into `old` the piece that `new` has in addition to `plain`, which is `old` without carriage returns. Returns
/// `None` if `new` differs in any other way.
fn insert_addition(old: &str, plain: &str, new: &str) -> Option<String> {
    let differs = plain
        .char_indices()
        .zip(new.chars())
        .find(|((_, a), b)| a != b);
    let at = differs.map_or(plain.len(), |((at, _), _)| at);
    let (before, after) = plain.split_at_checked(at)?;
    let piece = new.strip_prefix(before)?.strip_suffix(after)?;
    // The same position in the text with carriage returns.
    let returns = old.match_indices("\r\n").enumerate();
    let returns = returns.take_while(|(n, (crlf, _))| crlf - n < at).count();
    let (before, after) = old.split_at_checked(at + returns)?;
    let piece = match old.contains("\r\n") {
        true => piece.replace('\n', "\r\n"),
        false => piece.to_owned(),
    };
    Some(format!("{before}{piece}{after}"))
}

/// Returns the text without the line of a rule and without the comment that aish wrote above it, or `None` if the rule
/// is not on a separate line.
fn without_rule(old: &str, table: [&str; 2], name: &str) -> Option<String> {
    let doc = Document::parse(old).ok()?;
    let [outer, inner] = table;
    // In an inline table, other rules are on the same line.
    let rules = doc.get(outer)?.as_table()?.get(inner)?.as_table()?;
    let (key, item) = rules.get_key_value(name)?;
    let start = old
        .get(..key.span()?.start)?
        .rfind('\n')
        .map_or(0, |at| at + 1);
    let stop = item.span()?.end;
    let stop = old
        .get(stop..)?
        .find('\n')
        .map_or(old.len(), |at| stop + at + 1);
    let before = old.get(..start)?;
    let above = before.strip_suffix('\n').unwrap_or(before);
    let last = above.rfind('\n').map_or(0, |at| at + 1);
    let comment = above.get(last..)?.strip_prefix("# ");
    let is_written_by_aish = comment.is_some_and(|text| text.starts_with(ALLOWED_COMMENT));
    let before = if is_written_by_aish {
        before.get(..last)?
    } else {
        before
    };
    Some(format!("{before}{}", old.get(stop..)?))
}

#[cfg(test)]
mod tests;
