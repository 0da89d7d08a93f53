//! `.aish.toml`: the rules of a project, which can only ask for more than the user's own.
//!
//! Whoever wrote a directory's files wrote this one too. So nothing in it allows anything, and where it cannot be
//! understood, everything is asked about, or denied where nobody is asked.

use std::fmt::Display;
use std::path::Path;

use super::Config;
use super::disk;
use super::file::Problem;
use super::policy::{self, WrittenRule};
use super::table::{Faults, Table};
use super::tree;
use crate::chat::Operation;
use crate::error::{Error, Result};
use crate::safety::policy::{Fallback, Own, Rule, Rules, Subject, Word};

/// What it is called.
const NAME: &str = ".aish.toml";

/// The most bytes of one.
const MAX_BYTES: u64 = 64 * 1024;

/// What the projects around a directory say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Project {
    /// Their rules, all of which ask or deny.
    pub rules: Vec<Rule>,
    /// What counts where no rule does: what the strictest of them says.
    pub default: Option<Fallback>,
    /// What is wrong with them, a line each, for the person.
    pub notices: Vec<String>,
}

/// The rules in force in a directory: the user's and those of its projects; and what is wrong with the latter.
pub fn rules_in_force(config: &Config, cwd: &Path) -> (Rules, Vec<String>) {
    let (own, project) = (&config.policy, Project::around(config, cwd));
    let stricter = project.default.filter(|d| d.word > own.default.word);
    let rules = Rules {
        default: stricter.unwrap_or_else(|| own.default.clone()),
        list: own.list.clone(),
        project: project.rules,
    };
    (rules, project.notices)
}

/// Whether the projects around a directory let aish write the configuration there. The user's own file is asked where
/// it is written.
///
/// # Errors
/// One of them does not.
pub fn may_write(config: &Config, cwd: &Path) -> Result<()> {
    let rules = Rules {
        project: Project::around(config, cwd).rules,
        ..Rules::default()
    };
    match rules.own(Own::FsWrite).filter(|r| r.word == Word::Deny) {
        None => Ok(()),
        Some(rule) => {
            let message = format!(
                "{} says deny, so aish does not write the configuration here",
                rule.source
            );
            Err(Error::config(message).hint("do it in another directory"))
        }
    }
}

impl Project {
    /// Reads the files of a directory and of all above it: a project within another does not undo what that says.
    pub fn around(config: &Config, cwd: &Path) -> Project {
        let fs = config.mcp.servers.contains_key(policy::FS);
        let mut all = Project::default();
        for dir in cwd.ancestors().filter(|dir| dir.is_absolute()) {
            let path = dir.join(NAME);
            match disk::is_there(&path) {
                Ok(false) => {}
                Ok(true) => match disk::read_any(&path, MAX_BYTES) {
                    Ok(text) => all.add(&path, &text, fs),
                    Err(problem) => all.doubt(&path, problem),
                },
                Err(problem) => all.doubt(&path, problem),
            }
        }
        all
    }

    fn add(&mut self, path: &Path, text: &str, fs: bool) {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let at = |line: usize, key: String, message: String| Problem {
            file: path.to_path_buf(),
            line: Some(line),
            key,
            message,
        };
        let root = match tree::parse_toml(text) {
            Ok(root) => root,
            Err(e) => return self.doubt(path, at(e.line, String::new(), e.message)),
        };
        let faults = Faults::default();
        let written = Table::root(&root, &faults).and_then(|mut root| {
            let table = root.table("policy");
            root.finish();
            Some(policy::read(table?, &[], |subject, word| {
                policy::typed(subject, word, fs)
            }))
        });
        let mut faults = faults.into_inner();
        faults.sort_by_key(|f| f.line);
        if let Some(fault) = faults.into_iter().next() {
            self.doubt(path, at(fault.line, fault.key, fault.message));
        }
        let Some(written) = written else { return };
        let default = written
            .default
            .map(|at| ("policy.default".to_owned(), None, at));
        let rules = written.rules.into_iter();
        let rules = rules.map(|WrittenRule { key, subject, word }| (key, Some(subject), word));
        for (key, subject, word) in default.into_iter().chain(rules) {
            if word.value == Word::Allow {
                let message = "a project can only \"ask\" and \"deny\": this counts for nothing";
                self.notices
                    .push(at(word.line, key, message.to_owned()).to_string());
                continue;
            }
            let source = format!("{}:{}: {key}", path.display(), word.line);
            match subject {
                Some(subject) => self.rules.push(Rule {
                    subject,
                    word: word.value,
                    source,
                }),
                None => self.stricter(word.value, source),
            }
        }
    }

    fn stricter(&mut self, word: Word, source: String) {
        if self.default.as_ref().is_none_or(|d| d.word < word) {
            self.default = Some(Fallback { word, source });
        }
    }

    /// Asks about everything; what nobody is asked about is denied.
    fn doubt(&mut self, path: &Path, problem: impl Display) {
        let tools = Operation::ALL.into_iter().map(Subject::Operation);
        let tools = tools.map(|subject| (subject, Word::Ask));
        let own = Own::ALL.into_iter().map(|own| match own {
            Own::Shell => (Subject::Own(own), Word::Ask),
            // Nobody is asked about these.
            Own::FsWrite | Own::Network => (Subject::Own(own), Word::Deny),
        });
        self.rules
            .extend(tools.chain(own).map(|(subject, word)| Rule {
                subject,
                word,
                source: format!("{}: cannot be understood", path.display()),
            }));
        self.notices.push(format!(
            "{problem}; until it is right, everything is asked about here, and \"fs.write\" and network are denied"
        ));
    }
}

#[cfg(test)]
mod tests;
