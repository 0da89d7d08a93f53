//! `.aish.toml`: the rules of a project, which can only tighten the user's rules.
//!
//! The file is as untrusted as the rest of the project's files. So a rule in it never allows anything, and while the file
//! is invalid, every call needs approval, and actions without a prompt are denied.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use super::disk;
use super::file::{ConfigProblem, parse_project};
use super::settings::Config;
use super::share_settings::ShareMode;
use super::table_reader::TableFault;
use crate::chat::OperationClass;
use crate::error::{Error, Result};
use crate::safety::policy::{
    BuiltinAction, DefaultRule, PolicyRule, RuleEffect, RuleSet, RuleSubject,
};

/// The file name.
const NAME: &str = ".aish.toml";

/// The setting of `[share]` that a project can have.
const MODE: &str = "share.mode";

/// Maximum size of a file, in bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// The rules of the projects around a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectRules {
    /// The rules, which all ask or deny.
    pub rules: Vec<PolicyRule>,
    /// The strictest default of the files.
    pub default: Option<DefaultRule>,
    /// Why sessions with prompts from here are not shared, if a file says so or is invalid.
    pub sharing_disabled: Option<String>,
    /// Faults in the files, a line each, for the user.
    pub notices: Vec<String>,
}

/// Returns the rules in force in a directory, the user's and those of its projects, and the faults of the latter.
pub fn rules_in_force(config: &Config, cwd: &Path) -> (RuleSet, Vec<String>) {
    let (own, project) = (&config.policy, ProjectRules::around(config, cwd));
    let stricter = project.default.filter(|d| d.effect > own.default.effect);
    let rules = RuleSet {
        default: stricter.unwrap_or_else(|| own.default.clone()),
        list: own.list.clone(),
        project: project.rules,
    };
    (rules, project.notices)
}

/// Checks that the projects around a directory let aish write the configuration. The rules of the user's file are
/// checked when it is written.
///
/// # Errors
/// A project denies it.
pub fn check_may_write(config: &Config, cwd: &Path) -> Result<()> {
    let rules = RuleSet {
        project: ProjectRules::around(config, cwd).rules,
        ..RuleSet::default()
    };
    match rules
        .rule_for_action(BuiltinAction::FsWrite)
        .filter(|r| r.effect == RuleEffect::Deny)
    {
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

impl ProjectRules {
    /// Reads the files of a directory and of all its ancestors, those of the path as it is given and without links. A project
    /// inside another cannot loosen the outer one.
    pub fn around(config: &Config, cwd: &Path) -> ProjectRules {
        let mut all = ProjectRules::default();
        let real = fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_path_buf());
        let linked = cwd.ancestors().filter(|dir| !real.starts_with(dir));
        for dir in real
            .ancestors()
            .chain(linked)
            .filter(|dir| dir.is_absolute())
        {
            let path = dir.join(NAME);
            match disk::exists(&path) {
                Ok(false) => {}
                Ok(true) => match disk::read_untrusted(&path, MAX_BYTES) {
                    Ok(text) => all.add(&path, &text, config),
                    Err(problem) => all.distrust(&path, problem),
                },
                Err(problem) => all.distrust(&path, problem),
            }
        }
        all
    }

    fn add(&mut self, path: &Path, text: &str, user: &Config) {
        let aliases = user.mcp.servers.keys().cloned().collect();
        let parsed = parse_project(text, aliases);
        let (mut config, values, faults) = match parsed {
            Ok(parsed) => parsed,
            Err(fault) => return self.distrust(path, ConfigProblem::at(path, fault)),
        };
        let (ignored, faults): (Vec<_>, Vec<_>) = faults.into_iter().partition(|fault| {
            // A misspelled mode may have been meant to disable.
            fault.key.starts_with("share.") && fault.key != MODE
        });
        for fault in ignored {
            self.ignore_share(path, fault.key, fault.line);
        }
        if let Some(fault) = faults.into_iter().next() {
            self.distrust(path, ConfigProblem::at(path, fault));
        }
        if let Some(line) = values.line(MODE) {
            match config.share.mode {
                ShareMode::Disabled => {
                    let source = format!("{}:{line}: {MODE}", path.display());
                    self.sharing_disabled.get_or_insert(source);
                }
                ShareMode::Manual | ShareMode::Auto => {
                    self.ignore_share(path, MODE.to_owned(), line);
                }
            }
        }
        let key = "policy.default";
        let default = values
            .line(key)
            .map(|line| (key.to_owned(), None, config.policy.default.effect, line));
        let rules = std::mem::take(&mut config.policy.list).into_iter();
        let rules = rules.map(|rule| {
            let line = values.line(&rule.source).unwrap_or_default();
            (rule.source, Some(rule.subject), rule.effect, line)
        });
        for (key, subject, word, line) in default.into_iter().chain(rules) {
            if word == RuleEffect::Allow {
                let message = "a project can only \"ask\" and \"deny\": this rule is ignored";
                let fault = TableFault {
                    line,
                    key,
                    message: message.to_owned(),
                };
                self.notices
                    .push(ConfigProblem::at(path, fault).to_string());
                continue;
            }
            let source = format!("{}:{line}: {key}", path.display());
            match subject {
                Some(subject) => self.rules.push(PolicyRule {
                    subject,
                    effect: word,
                    source,
                }),
                None => self.tighten_default(word, source),
            }
        }
    }

    /// Reports a setting of `[share]` that does not disable sharing.
    fn ignore_share(&mut self, path: &Path, key: String, line: usize) {
        let message = "a project can only disable sharing: this setting is ignored".to_owned();
        let fault = TableFault { line, key, message };
        self.notices
            .push(ConfigProblem::at(path, fault).to_string());
    }

    fn tighten_default(&mut self, word: RuleEffect, source: String) {
        if self.default.as_ref().is_none_or(|d| d.effect < word) {
            self.default = Some(DefaultRule {
                effect: word,
                source,
            });
        }
    }

    /// Rules while a file is invalid: every call needs approval, and actions without a prompt are denied.
    fn distrust(&mut self, path: &Path, problem: impl Display) {
        let tools = OperationClass::ALL.into_iter().map(RuleSubject::Operation);
        let tools = tools.map(|subject| (subject, RuleEffect::Ask));
        let own = BuiltinAction::ALL.into_iter().map(|own| match own {
            BuiltinAction::Shell | BuiltinAction::FsRead => {
                (RuleSubject::Action(own), RuleEffect::Ask)
            }
            // aish does these without a prompt too, such as writing its own configuration.
            BuiltinAction::FsWrite | BuiltinAction::Network => {
                (RuleSubject::Action(own), RuleEffect::Deny)
            }
        });
        self.rules
            .extend(tools.chain(own).map(|(subject, word)| PolicyRule {
                subject,
                effect: word,
                source: format!("{}: is not valid", path.display()),
            }));
        self.sharing_disabled
            .get_or_insert_with(|| format!("{}: is not valid", path.display()));
        self.notices.push(format!(
            "{problem}; until the file is corrected, everything is asked about here, \"fs.write\" and network are denied, and nothing is shared"
        ));
    }
}

#[cfg(test)]
mod tests;
