//! Rules that a person gives and takes back at the terminal, in the user's own file.
//!
//! `toml_edit` says where a line belongs. What it writes is not taken as it is, since it drops carriage returns and
//! gathers dotted keys: the one new piece is put into the text that was there.

use std::path::Path;

use toml_edit::{Document, DocumentMut, Item, Table, value};

use super::edit;
use crate::config::file::File;
use crate::config::nearest;
use crate::config::table::shown_key;
use crate::error::{Error, Result};
use crate::paths::Paths;
use crate::safety::policy::{Subject, Word};

/// How the comment begins that stands above a rule which a person gave at a prompt.
pub const ALLOWED: &str = "allowed at a prompt";

/// Writes `"alias.tool" = "allow"` under `[policy.rules]`, below a comment that begins with [`ALLOWED`]. Where it
/// stands already, nothing is changed.
///
/// # Errors
/// The file cannot be read or written, is wrong already, is `aish.json`, or has a rule that says ask or deny.
pub fn allow_always(paths: &Paths, name: &str, comment: &str) -> Result<()> {
    let (alias, tool) = name.split_once('.').unwrap_or((name, ""));
    // What is allowed once and for all is one tool.
    if tool.is_empty() || tool == "*" || Subject::parse(name).is_err() {
        let message = format!("no rule can be written for {}", shown_key(name));
        return Err(Error::config(message));
    }
    let by_hand = format!("write it by hand, under policy.rules: {}", line(name));
    let all = format!("{alias}.*");
    edit(paths, &by_hand, |old, file, path| {
        for (of, word, key, line) in written(file) {
            if word != Word::Allow && (of == name || of == all) {
                let message = format!(
                    "{}:{line}: {key} says {} already, and that counts more than \"allow\"",
                    path.display(),
                    word.as_str()
                );
                return Err(Error::config(message).hint("change that rule by hand"));
            }
        }
        if written(file).any(|(of, ..)| of == name) {
            return Ok(old.to_owned());
        }
        // One line, whatever it holds.
        let comment = comment.replace(char::is_control, " ");
        with_rule(old, name, &comment).ok_or_else(|| unfit(path, &by_hand))
    })
}

/// Takes a rule that allows out again, by its name, from `[policy.rules]` and `[mcp.auto_approve]`; with the comment that
/// [`allow_always`] wrote.
///
/// # Errors
/// As for [`allow_always`]; or there is no such rule, or it says ask or deny.
pub fn remove_rule(paths: &Paths, name: &str) -> Result<()> {
    let by_hand = format!("take it out by hand: {}", shown_key(name));
    edit(paths, &by_hand, |old, file, path| {
        let mut new = old.to_owned();
        let mut found = false;
        for (_, word, key, line) in written(file).filter(|(of, ..)| of == name) {
            if word != Word::Allow {
                let message = format!(
                    "{}:{line}: {key} says {}: only what is allowed can be taken back",
                    path.display(),
                    word.as_str()
                );
                return Err(Error::usage(message).hint("change that rule by hand"));
            }
            let table = match key.starts_with("mcp.") {
                true => ["mcp", "auto_approve"],
                false => ["policy", "rules"],
            };
            found = true;
            new = without(&new, table, name).ok_or_else(|| unfit(path, &by_hand))?;
        }
        if !found {
            let message = format!(
                "{}: no rule and no grant is called {}",
                path.display(),
                shown_key(name)
            );
            let names: Vec<String> = written(file).map(|(of, ..)| of).collect();
            return Err(Error::usage(
                match nearest(name, names.iter().map(String::as_str)) {
                    Some(near) => format!("{message}; did you mean {near}?"),
                    None => message,
                },
            ));
        }
        Ok(new)
    })
}

/// The rules of a file: name, word, key and line.
fn written(file: &File) -> impl Iterator<Item = (String, Word, String, usize)> {
    let approved = file.mcp.auto_approve.iter().map(|(name, at)| {
        let word = match at.value {
            true => Word::Allow,
            false => Word::Ask,
        };
        let key = format!("mcp.auto_approve.{}", shown_key(name));
        (name.clone(), word, key, at.line)
    });
    let rules = file.policy.rules.iter();
    approved.chain(rules.map(|r| {
        (
            r.subject.to_string(),
            r.word.value,
            r.key.clone(),
            r.word.line,
        )
    }))
}

fn line(name: &str) -> String {
    let mut table = Table::new();
    table.insert(name, value(Word::Allow.as_str()));
    table.to_string().trim_end().to_owned()
}

fn unfit(path: &Path, by_hand: &str) -> Error {
    let message = format!(
        "cannot change {}: its rules are not written a line each",
        path.display()
    );
    Error::config(message).hint(by_hand.to_owned())
}

/// The text with one rule more; `None` where it has no line to put it on.
fn with_rule(old: &str, name: &str, comment: &str) -> Option<String> {
    // The last line may lack its end.
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
        // Comments at the end of the file stay above what is new.
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
    rules.insert(name, value(Word::Allow.as_str()));
    let mut key = rules.key_mut(name)?;
    key.leaf_decor_mut().set_prefix(format!("# {comment}\n"));
    insert(old, &plain, &doc.to_string())
}

/// Puts into `old` what `new` has more than `plain`, which is `old` without carriage returns. `None` where `new` is
/// anything but `plain` with one piece more.
fn insert(old: &str, plain: &str, new: &str) -> Option<String> {
    let differs = plain
        .char_indices()
        .zip(new.chars())
        .find(|((_, a), b)| a != b);
    let at = differs.map_or(plain.len(), |((at, _), _)| at);
    let (before, after) = plain.split_at_checked(at)?;
    let piece = new.strip_prefix(before)?.strip_suffix(after)?;
    // The same place, with the carriage returns before it.
    let returns = old.match_indices("\r\n").enumerate();
    let returns = returns.take_while(|(n, (crlf, _))| crlf - n < at).count();
    let (before, after) = old.split_at_checked(at + returns)?;
    let piece = match old.contains("\r\n") {
        true => piece.replace('\n', "\r\n"),
        false => piece.to_owned(),
    };
    Some(format!("{before}{piece}{after}"))
}

/// The text without the line of a rule, and without the comment of ours above it; `None` where it has no line of its own.
fn without(old: &str, table: [&str; 2], name: &str) -> Option<String> {
    let doc = Document::parse(old).ok()?;
    let [outer, inner] = table;
    // In an inline table other rules stand on the same line.
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
    let ours = comment.is_some_and(|text| text.starts_with(ALLOWED));
    let before = if ours { before.get(..last)? } else { before };
    Some(format!("{before}{}", old.get(stop..)?))
}

#[cfg(test)]
mod tests;
