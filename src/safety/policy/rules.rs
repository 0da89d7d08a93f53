//! The rules: what each is about, and whether it speaks of a call.

use std::fmt;

use super::{Call, Wish};
use crate::chat::{Operation, Sensitivity};

/// What a rule says. Each is more than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Word {
    /// No question.
    Allow,
    /// The person is asked.
    Ask,
    /// No.
    Deny,
}

impl Word {
    /// All of them.
    pub const ALL: [Word; 3] = [Word::Allow, Word::Ask, Word::Deny];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Word::Allow => "allow",
            Word::Ask => "ask",
            Word::Deny => "deny",
        }
    }
}

/// What the helper does itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// A command that the model proposed is run in the shell (`shell`).
    Shell,
    /// A file of the user's is written (`fs.write`): the configuration, by an "always" or an import.
    FsWrite,
    /// A server that the configuration does not have is connected to (`network`).
    Network,
}

impl Own {
    /// All of them.
    pub const ALL: [Own; 3] = [Own::Shell, Own::FsWrite, Own::Network];

    /// The name of it in rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Own::Shell => "shell",
            Own::FsWrite => "fs.write",
            Own::Network => "network",
        }
    }
}

/// What a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// One tool, `alias.tool`.
    Tool(String, String),
    /// All tools of a server, `alias.*`.
    Server(String),
    /// All calls of a kind, `op:read`.
    Operation(Operation),
    /// All calls that declare such data, `sensitivity:private`.
    Sensitivity(Sensitivity),
    /// An act of the helper's own.
    Own(Own),
}

impl fmt::Display for Subject {
    /// As it is written in the configuration.
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
    /// Reads it. Whether there is such a server is for others to say.
    ///
    /// # Errors
    /// It is none; what it must be, in words that follow the key.
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

    /// Reads `alias.tool` or `alias.*`, where nothing else is meant.
    pub fn of_tools(text: &str) -> Option<Subject> {
        match text.split_once('.')? {
            ("", _) | (_, "") => None,
            (server, "*") if !server.contains('*') => Some(Subject::Server(server.to_owned())),
            // Anything else with a star would name one odd tool, and look like many.
            _ if text.contains('*') => None,
            (server, tool) => Some(Subject::Tool(server.to_owned(), tool.to_owned())),
        }
    }

    /// Whether it is about this call where it makes it easier: by what the call is taken for, and not because the
    /// caller says so, since its word earns nothing.
    pub(super) fn loosens(&self, wish: &Wish<'_>) -> bool {
        match self {
            Subject::Operation(operation) => {
                wish.of_tool() == *operation && wish.operation() == *operation
            }
            Subject::Sensitivity(_) => false,
            _ => self.could_be(&wish.call),
        }
    }

    /// Whether it is about this call where it makes it harder: by any reading, what the server says, what the call is
    /// taken for, what the caller declares.
    fn tightens(&self, wish: &Wish<'_>) -> bool {
        match self {
            Subject::Operation(operation) => {
                let declared = wish.intent.map(|i| i.operation);
                let readings = [
                    Some(wish.annotations.operation()),
                    Some(wish.operation()),
                    declared,
                ];
                // What destroys writes too.
                let is = |reading: Operation| {
                    reading == *operation
                        || *operation == Operation::Write && reading == Operation::Destructive
                };
                readings.into_iter().flatten().any(is)
            }
            // Nobody knows but the caller, and its word spares no call a rule about what is not known.
            Subject::Sensitivity(sensitivity) => {
                let declared = wish.intent.and_then(|i| i.sensitivity);
                *sensitivity == Sensitivity::Unknown || declared == Some(*sensitivity)
            }
            _ => self.could_be(&wish.call),
        }
    }

    /// Whether it can be about a call of this tool, however that is annotated and declared.
    pub(super) fn could_be(&self, call: &Call<'_>) -> bool {
        match self {
            Subject::Tool(server, tool) => server == call.server && tool == call.tool,
            Subject::Server(server) => server == call.server,
            Subject::Operation(_) | Subject::Sensitivity(_) => true,
            // A server may be called fs, and its tool write: whoever wrote the rule may have meant either.
            Subject::Own(own) => own.as_str().split_once('.') == Some((call.server, call.tool)),
        }
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What it is about.
    pub subject: Subject,
    /// What it says.
    pub word: Word,
    /// Where it stands, for people: `policy.rules."fs.*"`, `mcp.auto_approve."fs.*"`, or with a project's file in front.
    pub source: String,
}

impl Rule {
    /// Whether it speaks of this call.
    pub(super) fn speaks(&self, wish: &Wish<'_>) -> bool {
        match self.word {
            Word::Allow => self.subject.loosens(wish),
            Word::Ask | Word::Deny => self.subject.tightens(wish),
        }
    }

    /// Why it does not; `None` where it does.
    pub(super) fn idle(&self, wish: &Wish<'_>) -> Option<String> {
        let taken = wish.operation();
        let why = match self.subject {
            _ if self.speaks(wish) => return None,
            Subject::Operation(operation) if taken == operation => {
                "only its caller makes it that, whose word allows nothing".to_owned()
            }
            Subject::Operation(_) => format!("the call is taken for {}", taken.as_str()),
            Subject::Sensitivity(_) if self.word == Word::Allow => {
                "only the caller says how sensitive data is, whose word allows nothing".to_owned()
            }
            Subject::Sensitivity(_) => "its caller does not declare such data".to_owned(),
            _ => "it is about something else".to_owned(),
        };
        Some(why)
    }
}

/// What counts where no rule does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// What it says.
    pub word: Word,
    /// Where it stands.
    pub source: String,
}

/// All rules in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// What counts where no rule does.
    pub default: Fallback,
    /// The user's, in no order that matters.
    pub list: Vec<Rule>,
    /// Those of the project. They can only tighten: one that asks makes nothing of a default that denies, and one that
    /// allows counts for nothing.
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
    /// All that count and say this, the user's first.
    pub(super) fn of(&self, word: Word) -> impl Iterator<Item = &Rule> {
        let project = self.project.iter().filter(|r| r.word > Word::Allow);
        let all = self.list.iter().chain(project);
        all.filter(move |rule| rule.word == word)
    }

    /// What they say to an act of the helper's own, and which rule does; `None` where none does. Nobody is asked about
    /// what only a person's own command does: a rule that asks is about a tool of that name.
    pub fn own(&self, own: Own) -> Option<&Rule> {
        let words = Word::ALL.into_iter().rev();
        let mut words = words.filter(|word| own == Own::Shell || *word != Word::Ask);
        words.find_map(|word| self.of(word).find(|r| r.subject == Subject::Own(own)))
    }
}
