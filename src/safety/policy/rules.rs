//! Policy rules: their subjects, and which calls they apply to.

use std::fmt;

use super::{Call, Wish};
use crate::chat::{Operation, Sensitivity};

/// Effect of a rule, ordered by strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Word {
    /// The call is made without a question.
    Allow,
    /// The user is asked.
    Ask,
    /// The call is denied.
    Deny,
}

impl Word {
    /// All effects.
    pub const ALL: [Word; 3] = [Word::Allow, Word::Ask, Word::Deny];

    /// Returns the name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Word::Allow => "allow",
            Word::Ask => "ask",
            Word::Deny => "deny",
        }
    }
}

/// Actions that aish performs itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// A command proposed by the model runs in the shell (`shell`).
    Shell,
    /// A file of the user is written (`fs.write`): the configuration, after "always" or an import.
    FsWrite,
    /// A server that is not in the configuration is connected (`network`).
    Network,
}

impl Own {
    /// All actions.
    pub const ALL: [Own; 3] = [Own::Shell, Own::FsWrite, Own::Network];

    /// Returns the name in rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Own::Shell => "shell",
            Own::FsWrite => "fs.write",
            Own::Network => "network",
        }
    }
}

/// The subject of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// One tool, `alias.tool`.
    Tool(String, String),
    /// All tools of a server, `alias.*`.
    Server(String),
    /// All calls of an operation class, `op:read`.
    Operation(Operation),
    /// All calls that declare this sensitivity, `sensitivity:private`.
    Sensitivity(Sensitivity),
    /// An action of aish itself.
    Own(Own),
}

impl fmt::Display for Subject {
    /// Formats the subject as in the configuration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Tool(server, tool) => write!(f, "{server}.{tool}"),
            Subject::Server(server) => write!(f, "{server}.*"),
            Subject::Operation(operation) => write!(f, "op:{}", operation.as_str()),
            Subject::Sensitivity(s) => write!(f, "sensitivity:{}", s.as_str()),
            Subject::Own(own) => f.write_str(own.as_str()),
        }
    }
}

impl Subject {
    /// Parses a subject. Does not check that the server exists.
    ///
    /// # Errors
    /// What the subject must be, phrased to follow the key.
    pub fn parse(text: &str) -> Result<Subject, String> {
        if let Some(own) = Own::ALL.into_iter().find(|own| own.as_str() == text) {
            return Ok(Subject::Own(own));
        }
        if let Some(word) = text.strip_prefix("op:") {
            return Operation::from_word(word)
                .map(Subject::Operation)
                .ok_or_else(|| "must be op:read, op:write or op:destructive".to_owned());
        }
        if let Some(word) = text.strip_prefix("sensitivity:") {
            return Sensitivity::from_word(word)
                .map(Subject::Sensitivity)
                .ok_or_else(|| {
                    "must be sensitivity:public, :internal, :private or :unknown".to_owned()
                });
        }
        Subject::of_tools(text).ok_or_else(|| {
            "must be \"alias.tool\", \"alias.*\", \"op:read\", \"sensitivity:private\", shell, \"fs.write\" or network".to_owned()
        })
    }

    /// Parses `alias.tool` or `alias.*` only.
    pub fn of_tools(text: &str) -> Option<Subject> {
        match text.split_once('.')? {
            ("", _) | (_, "") => None,
            (server, "*") if !server.contains('*') => Some(Subject::Server(server.to_owned())),
            // Any other `*` would match one literal name while looking like a pattern.
            _ if text.contains('*') => None,
            (server, tool) => Some(Subject::Tool(server.to_owned(), tool.to_owned())),
        }
    }

    /// Whether an allow rule applies to the call: by the effective operation class only. The caller's declaration is
    /// ignored, since it must not relax anything.
    pub(super) fn applies_as_allow(&self, wish: &Wish<'_>) -> bool {
        match self {
            Subject::Operation(operation) => {
                wish.tool_operation() == *operation && wish.operation() == *operation
            }
            Subject::Sensitivity(_) => false,
            _ => self.may_apply(&wish.call),
        }
    }

    /// Whether an ask or deny rule applies to the call: by any reading of its operation class, from the annotations,
    /// the effective class or the declaration.
    fn applies_as_restriction(&self, wish: &Wish<'_>) -> bool {
        match self {
            Subject::Operation(operation) => {
                let declared = wish.intent.map(|i| i.operation);
                let readings = [
                    Some(wish.annotations.operation()),
                    Some(wish.operation()),
                    declared,
                ];
                // A destructive call also writes.
                let is = |reading: Operation| {
                    reading == *operation
                        || *operation == Operation::Write && reading == Operation::Destructive
                };
                readings.into_iter().flatten().any(is)
            }
            // Only the caller knows the sensitivity, and a declaration must not exempt a call from a rule about
            // undeclared data.
            Subject::Sensitivity(sensitivity) => {
                let declared = wish.intent.and_then(|i| i.sensitivity);
                *sensitivity == Sensitivity::Unknown || declared == Some(*sensitivity)
            }
            _ => self.may_apply(&wish.call),
        }
    }

    /// Whether the rule could apply to a call of this tool, whatever its annotations and intent.
    pub(super) fn may_apply(&self, call: &Call<'_>) -> bool {
        match self {
            Subject::Tool(server, tool) => server == call.server && tool == call.tool,
            Subject::Server(server) => server == call.server,
            Subject::Operation(_) | Subject::Sensitivity(_) => true,
            // A server may be called `fs` and have a tool `write`; the author of the rule may have meant either.
            Subject::Own(own) => own.as_str().split_once('.') == Some((call.server, call.tool)),
        }
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its subject.
    pub subject: Subject,
    /// Its effect.
    pub word: Word,
    /// Its location, for messages: `policy.rules."fs.*"`, `mcp.auto_approve."fs.*"`, prefixed with the file if it is a
    /// project's.
    pub source: String,
}

impl Rule {
    /// Whether the rule applies to this call.
    pub(super) fn applies(&self, wish: &Wish<'_>) -> bool {
        match self.word {
            Word::Allow => self.subject.applies_as_allow(wish),
            Word::Ask | Word::Deny => self.subject.applies_as_restriction(wish),
        }
    }

    /// Returns why the rule does not apply; `None` if it does.
    pub(super) fn inactive_reason(&self, wish: &Wish<'_>) -> Option<String> {
        let taken = wish.operation();
        let why = match self.subject {
            _ if self.applies(wish) => return None,
            Subject::Operation(operation) if taken == operation => {
                "only the caller declares this class, and a declaration allows nothing".to_owned()
            }
            Subject::Operation(_) => format!("the call counts as {}", taken.as_str()),
            Subject::Sensitivity(_) if self.word == Word::Allow => {
                "only the caller declares the sensitivity, and a declaration allows nothing"
                    .to_owned()
            }
            Subject::Sensitivity(_) => "the caller does not declare this sensitivity".to_owned(),
            _ => "it has another subject".to_owned(),
        };
        Some(why)
    }
}

/// The effect if no rule applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// Its effect.
    pub word: Word,
    /// Its location in the configuration.
    pub source: String,
}

/// All rules in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The effect if no rule applies.
    pub default: Fallback,
    /// The user's rules, in any order.
    pub list: Vec<Rule>,
    /// The project's rules. These can only tighten: an ask rule does not relax a default of deny, and an allow rule has
    /// no effect.
    pub project: Vec<Rule>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            default: Fallback {
                word: Word::Ask,
                source: "policy.default".to_owned(),
            },
            list: Vec::new(),
            project: Vec::new(),
        }
    }
}

impl Rules {
    /// Returns the effective rules with this effect, the user's first.
    pub(super) fn with_effect(&self, word: Word) -> impl Iterator<Item = &Rule> {
        let project = self.project.iter().filter(|r| r.word > Word::Allow);
        let all = self.list.iter().chain(project);
        all.filter(move |rule| rule.word == word)
    }

    /// Returns the rule that decides on an action of aish itself; `None` if no rule applies. Actions that only the
    /// user's own command starts are not asked about: an ask rule is then about a tool of that name.
    pub fn own(&self, own: Own) -> Option<&Rule> {
        let words = Word::ALL.into_iter().rev();
        let mut words = words.filter(|word| own == Own::Shell || *word != Word::Ask);
        words.find_map(|word| {
            self.with_effect(word)
                .find(|r| r.subject == Subject::Own(own))
        })
    }
}
