//! Findings about a command line.

use std::collections::BTreeSet;

use super::class::CommandClass;

/// Maximum number of texts that are kept to name their effects.
const MAX_TEXTS: usize = 8;

/// A text that may run, and where it would if that is not this machine.
pub type GuessedText = (String, Option<&'static str>);

/// An effect, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    class: CommandClass,
    /// Whether it reaches beyond the directory, so that it is said first.
    is_grave: bool,
    reason: String,
}

/// Effects of a command line, with reasons.
#[derive(Debug, Default)]
pub struct Findings {
    list: Vec<Finding>,
    classes: BTreeSet<CommandClass>,
    /// How many of the effects are more than reading.
    changes: usize,
    /// Texts that may run in a way that is not analysed, so that they only name what is worse than not known.
    texts: Vec<GuessedText>,
    /// Whether only the class of what is not known counts next, because another reason says more.
    pub hides_unknown: bool,
    /// Where what is found next happens, if that is not this machine; the reasons end with it.
    pub elsewhere: Option<&'static str>,
}

impl Findings {
    /// Adds an effect; an empty reason is not shown.
    pub fn add(&mut self, class: CommandClass, reason: impl Into<String>) {
        self.push(class, false, reason.into());
    }

    /// Adds an effect that is not known, of a text that may be or hold a command line.
    pub fn add_text(&mut self, reason: impl Into<String>, text: impl Into<String>) {
        self.add(CommandClass::Unknown, reason);
        self.guess(text);
    }

    /// Notes a text that may be or hold a command line, in case that what the command line does is not known.
    pub fn guess(&mut self, text: impl Into<String>) {
        if self.texts.len() < MAX_TEXTS {
            self.texts.push((text.into(), self.elsewhere));
        }
    }

    /// Takes the texts that may run in a way that is not analysed.
    pub fn take_texts(&mut self) -> Vec<GuessedText> {
        std::mem::take(&mut self.texts)
    }

    /// Takes over the effects of a text that are worse than not known.
    pub fn raise(&mut self, other: Findings) {
        let worse = |finding: &Finding| finding.class > CommandClass::Unknown;
        self.take_over(other.list.into_iter().filter(worse).collect());
    }

    /// Takes over all effects of a text.
    pub fn merge(&mut self, other: Findings) {
        self.classes.extend(other.classes);
        self.changes += other.changes;
        self.texts.extend(other.texts);
        self.texts.truncate(MAX_TEXTS);
        self.take_over(other.list);
    }

    /// Adds findings whose reasons already say where they happen.
    fn take_over(&mut self, list: Vec<Finding>) {
        let elsewhere = self.elsewhere.take();
        for finding in list {
            self.push(finding.class, finding.is_grave, finding.reason);
        }
        self.elsewhere = elsewhere;
    }

    /// Adds an effect beyond the directory.
    pub fn add_grave(&mut self, class: CommandClass, reason: impl Into<String>) {
        self.push(class, true, reason.into());
    }

    fn push(&mut self, class: CommandClass, is_grave: bool, reason: String) {
        let reason = match self.elsewhere {
            Some(place) if class >= CommandClass::Destroys && !reason.is_empty() => {
                format!("{}{place}", without_here(&reason))
            }
            _ if self.hides_unknown && class == CommandClass::Unknown => String::new(),
            _ => reason,
        };
        self.classes.insert(class);
        self.changes += usize::from(class > CommandClass::Reads);
        if !reason.is_empty() && !self.list.iter().any(|known| known.reason == reason) {
            self.list.push(Finding {
                class,
                is_grave,
                reason,
            });
        }
    }

    /// How many of the effects are more than reading.
    pub fn changes(&self) -> usize {
        self.changes
    }

    /// The classes seen.
    pub fn classes(&self) -> BTreeSet<CommandClass> {
        self.classes.clone()
    }

    /// Returns up to `most` reasons, the worst first.
    pub fn reasons(&self, most: usize) -> Vec<String> {
        // A reason that another one states in more detail is not repeated.
        let is_said = |finding: &&Finding| {
            let mut others = self
                .list
                .iter()
                .filter(|other| other.class == finding.class);
            // Only guessed from the name of a subcommand.
            let is_guess = |finding: &Finding| finding.reason.ends_with(" deletes something");
            others.any(|other| {
                let rest = other.reason.strip_prefix(&finding.reason);
                rest.is_some_and(|rest| rest.starts_with([' ', ',']))
                    || is_guess(finding) && !is_guess(other)
            })
        };
        let mut list: Vec<&Finding> = self.list.iter().filter(|f| !is_said(f)).collect();
        list.sort_by_key(|finding| std::cmp::Reverse((finding.class, finding.is_grave)));
        list.into_iter()
            .take(most)
            .map(|finding| finding.reason.clone())
            .collect()
    }
}

/// Returns a reason without its parts about the directories of this machine.
fn without_here(reason: &str) -> String {
    let plain = reason.replace(" outside this directory", "");
    let plain = plain.replace(
        ", the home directory or a parent of this directory",
        " or of the home directory",
    );
    plain.replace("this directory", "a directory")
}
