//! `[policy]` as the user, or a project, wrote it, with the line of every rule.

use super::rules;
use super::table::{At, Table};
use crate::safety::policy::{Own, Subject, Word};

/// What a rule may say.
const WORDS: &[(&str, Word)] = &[
    ("allow", Word::Allow),
    ("ask", Word::Ask),
    ("deny", Word::Deny),
];

/// `[policy]`
#[derive(Debug, Clone, Default)]
pub(super) struct WrittenPolicy {
    pub default: Option<At<Word>>,
    pub rules: Vec<WrittenRule>,
}

/// One line of `[policy.rules]`.
#[derive(Debug, Clone)]
pub(super) struct WrittenRule {
    /// The key with its tables: `policy.rules."github.*"`.
    pub key: String,
    pub subject: Subject,
    pub word: At<Word>,
}

/// Reads `[policy]`. A rule that `refuse` has words for is a fault.
pub(super) fn read(
    mut t: Table<'_>,
    aliases: &[&str],
    refuse: impl Fn(&Subject, Word) -> Option<&'static str>,
) -> WrittenPolicy {
    let default = t.word("default", WORDS);
    let mut all = Vec::new();
    if let Some(table) = t.table("rules") {
        for (name, word) in table.named_words(WORDS) {
            let subject =
                subject(&name, aliases).and_then(|subject| match refuse(&subject, word.value) {
                    Some(message) => Err(message.to_owned()),
                    None => Ok(subject),
                });
            match subject {
                Ok(subject) => all.push(WrittenRule {
                    key: table.path(&name),
                    subject,
                    word,
                }),
                Err(message) => table.fault(word.line, &name, message),
            }
        }
    }
    t.finish();
    WrittenPolicy {
        default,
        rules: all,
    }
}

/// What the user's own file may not say.
pub(super) fn unfit(subject: &Subject, word: Word) -> Option<&'static str> {
    let believes = matches!(subject, Subject::Sensitivity(_)) && word == Word::Allow;
    believes.then_some(
        "what a model declares can only raise what is asked for: only \"ask\" or \"deny\"",
    )
}

/// What neither file may say: that one is asked about what only one's own command does. `fs.write` may be a tool too,
/// where a server is called fs.
pub(super) fn typed(subject: &Subject, word: Word, fs: bool) -> Option<&'static str> {
    let typed = match subject {
        Subject::Own(Own::Network) => true,
        Subject::Own(Own::FsWrite) => !fs,
        _ => false,
    };
    (typed && word == Word::Ask).then_some(
        "only a person's own command does this, which is the word asked for: write \"deny\" or leave it out",
    )
}

/// The server whose tool a rule for `fs.write` may be about.
pub(super) const FS: &str = "fs";

/// What a rule is about.
fn subject(name: &str, aliases: &[&str]) -> Result<Subject, String> {
    let subject = Subject::parse(name).map_err(|message| {
        let own = Own::ALL.iter().map(|own| own.as_str());
        match rules::nearest(name, own) {
            Some(near) => format!("no rule is about this; did you mean \"{near}\"?"),
            None => message,
        }
    })?;
    match &subject {
        Subject::Tool(alias, tool) => known(alias, tool, aliases)?,
        Subject::Server(alias) => known(alias, "*", aliases)?,
        _ => {}
    }
    Ok(subject)
}

/// Whether a server may have that alias. It may have been written down before, or be so later, or be connected by hand.
pub(super) fn known(alias: &str, tool: &str, aliases: &[&str]) -> Result<(), String> {
    rules::alias(alias).map_err(
        |message| match rules::nearest(alias, aliases.iter().copied()) {
            Some(near) => format!("no server has this alias; did you mean \"{near}.{tool}\"?"),
            None => message,
        },
    )
}

#[cfg(test)]
mod tests;
