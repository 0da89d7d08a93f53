//! Policy rules: their subjects, and which calls they apply to.

use std::fmt;

use super::{CallRequest, DEFAULT_RULE};
use crate::chat::{DataSensitivity, OperationClass, RuleEffect};

/// Actions that aish performs itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltinAction {
    /// A command of the model runs (`shell`): a proposal in the user's shell, or a call of the tool `shell`.
    Shell,
    /// A file of the user is read (`fs.read`) by a built-in tool.
    FsRead,
    /// A file of the user is written (`fs.write`): by a built-in tool, or the configuration after "always" or an import.
    FsWrite,
    /// A server that is not in the configuration is connected, or a built-in tool reaches the network (`network`).
    Network,
}

impl BuiltinAction {
    /// All actions.
    pub const ALL: [BuiltinAction; 4] = [
        BuiltinAction::Shell,
        BuiltinAction::FsRead,
        BuiltinAction::FsWrite,
        BuiltinAction::Network,
    ];

    /// Returns the name in rules.
    pub fn as_str(self) -> &'static str {
        match self {
            BuiltinAction::Shell => "shell",
            BuiltinAction::FsRead => "fs.read",
            BuiltinAction::FsWrite => "fs.write",
            BuiltinAction::Network => "network",
        }
    }

    /// Whether the call is of a server and tool that have the name of this action, such as `fs.write`.
    fn is_name_of(self, wish: &CallRequest<'_>) -> bool {
        self.as_str().split_once('.') == Some((wish.call.server, wish.call.tool))
    }
}

/// The subject of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleSubject {
    /// One tool, `alias.tool`.
    Tool(String, String),
    /// All tools of a server, `alias.*`.
    Server(String),
    /// All calls of an operation class, `op:read`.
    Operation(OperationClass),
    /// All calls that declare this sensitivity, `sensitivity:private`.
    Sensitivity(DataSensitivity),
    /// An action of aish itself.
    Action(BuiltinAction),
}

impl fmt::Display for RuleSubject {
    /// Formats the subject as in the configuration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleSubject::Tool(server, tool) => write!(f, "{server}.{tool}"),
            RuleSubject::Server(server) => write!(f, "{server}.*"),
            RuleSubject::Operation(operation) => write!(f, "op:{}", operation.as_str()),
            RuleSubject::Sensitivity(s) => write!(f, "sensitivity:{}", s.as_str()),
            RuleSubject::Action(own) => f.write_str(own.as_str()),
        }
    }
}

impl RuleSubject {
    /// Parses a subject. Does not check that the server exists.
    ///
    /// # Errors
    /// Condition on the subject, phrased to follow the key.
    pub fn parse(text: &str) -> Result<RuleSubject, String> {
        if let Some(own) = BuiltinAction::ALL
            .into_iter()
            .find(|own| own.as_str() == text)
        {
            return Ok(RuleSubject::Action(own));
        }
        if let Some(word) = text.strip_prefix("op:") {
            return OperationClass::from_name(word)
                .map(RuleSubject::Operation)
                .ok_or_else(|| "must be op:read, op:write or op:destructive".to_owned());
        }
        if let Some(word) = text.strip_prefix("sensitivity:") {
            return DataSensitivity::from_name(word)
                .map(RuleSubject::Sensitivity)
                .ok_or_else(|| {
                    "must be sensitivity:public, :internal, :private or :unknown".to_owned()
                });
        }
        RuleSubject::of_tools(text).ok_or_else(|| {
            "must be \"alias.tool\", \"alias.*\", \"op:read\", \"sensitivity:private\", shell, \"fs.read\", \"fs.write\" or network".to_owned()
        })
    }

    /// Parses `alias.tool` or `alias.*` only.
    pub fn of_tools(text: &str) -> Option<RuleSubject> {
        match text.split_once('.')? {
            ("", _) | (_, "") => None,
            (server, "*") if !server.contains('*') => Some(RuleSubject::Server(server.to_owned())),
            // Any other `*` would match one literal name while looking like a pattern.
            _ if text.contains('*') => None,
            (server, tool) => Some(RuleSubject::Tool(server.to_owned(), tool.to_owned())),
        }
    }

    /// Whether an allow rule applies to the call: by the effective operation class only. The caller's declaration is
    /// ignored, since it must not relax anything.
    pub(super) fn applies_as_allow(&self, wish: &CallRequest<'_>) -> bool {
        match self {
            RuleSubject::Operation(operation) => {
                wish.tool_operation() == *operation && wish.operation() == *operation
            }
            RuleSubject::Sensitivity(_) => false,
            RuleSubject::Action(own) if wish.effects.second_action.is_some() => {
                own.is_name_of(wish)
            }
            _ => self.may_apply(wish),
        }
    }

    /// Whether an ask or deny rule applies to the call: by any reading of its operation class, from the annotations,
    /// the effective class or the declaration.
    fn applies_as_restriction(&self, wish: &CallRequest<'_>) -> bool {
        match self {
            RuleSubject::Operation(operation) => {
                let declared = wish.intent.map(|i| i.operation);
                let readings = [
                    Some(wish.annotations.operation()),
                    Some(wish.operation()),
                    declared,
                ];
                // A destructive call also writes.
                let is = |reading: OperationClass| {
                    reading == *operation
                        || *operation == OperationClass::Write
                            && reading == OperationClass::Destructive
                };
                readings.into_iter().flatten().any(is)
            }
            // Only the caller knows the sensitivity, and a declaration must not exempt a call from a rule about
            // undeclared data.
            RuleSubject::Sensitivity(sensitivity) => {
                let declared = wish.intent.and_then(|i| i.sensitivity);
                *sensitivity == DataSensitivity::Unknown || declared == Some(*sensitivity)
            }
            _ => self.may_apply(wish),
        }
    }

    /// Whether the rule could apply to a call of this tool, whatever its annotations and intent.
    pub(super) fn may_apply(&self, wish: &CallRequest<'_>) -> bool {
        let call = &wish.call;
        match self {
            RuleSubject::Tool(server, tool) => server == call.server && tool == call.tool,
            RuleSubject::Server(server) => server == call.server,
            RuleSubject::Operation(_) | RuleSubject::Sensitivity(_) => true,
            // A server may be called `fs` and have a tool `write`; the author of the rule may have meant either.
            RuleSubject::Action(own) => {
                let actions = [wish.effects.action, wish.effects.second_action];
                actions.contains(&Some(*own)) || own.is_name_of(wish)
            }
        }
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRule {
    /// Its subject.
    pub subject: RuleSubject,
    /// Its effect.
    pub effect: RuleEffect,
    /// Its location, for messages: `policy.rules."fs.*"`, `mcp.auto_approve."fs.*"`, prefixed with the file if it is a
    /// project's.
    pub source: String,
}

impl PolicyRule {
    /// Whether the rule applies to this call.
    pub(super) fn applies(&self, wish: &CallRequest<'_>) -> bool {
        match self.effect {
            RuleEffect::Allow => self.subject.applies_as_allow(wish),
            RuleEffect::Ask | RuleEffect::Deny => self.subject.applies_as_restriction(wish),
        }
    }

    /// Returns why the rule does not apply; `None` if it does.
    pub(super) fn inactive_reason(&self, wish: &CallRequest<'_>) -> Option<String> {
        let taken = wish.operation();
        let why = match self.subject {
            _ if self.applies(wish) => return None,
            RuleSubject::Operation(operation) if taken == operation => {
                "only the caller declares this class, and a declaration allows nothing".to_owned()
            }
            RuleSubject::Operation(_) => format!("the call counts as {}", taken.as_str()),
            RuleSubject::Sensitivity(_) if self.effect == RuleEffect::Allow => {
                "only the caller declares the sensitivity, and a declaration allows nothing"
                    .to_owned()
            }
            RuleSubject::Sensitivity(_) => {
                "the caller does not declare this sensitivity".to_owned()
            }
            _ => "it has another subject".to_owned(),
        };
        Some(why)
    }
}

/// The effect if no rule applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultRule {
    /// Its effect.
    pub effect: RuleEffect,
    /// Its location in the configuration.
    pub source: String,
}

/// All rules in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSet {
    /// The effect if no rule applies.
    pub default: DefaultRule,
    /// The user's rules, in any order.
    pub list: Vec<PolicyRule>,
    /// The project's rules. These can only tighten: an ask rule does not relax a default of deny, and an allow rule has
    /// no effect.
    pub project: Vec<PolicyRule>,
}

impl Default for RuleSet {
    fn default() -> RuleSet {
        RuleSet {
            default: DefaultRule {
                effect: RuleEffect::Ask,
                source: DEFAULT_RULE.to_owned(),
            },
            list: Vec::new(),
            project: Vec::new(),
        }
    }
}

impl RuleSet {
    /// Returns the effective rules with this effect, the user's first.
    pub(super) fn with_effect(&self, word: RuleEffect) -> impl Iterator<Item = &PolicyRule> {
        let project = self.project.iter().filter(|r| r.effect > RuleEffect::Allow);
        let all = self.list.iter().chain(project);
        all.filter(move |rule| rule.effect == word)
    }

    /// Returns the strictest rule that asks about or denies commands of a class. A destructive command also writes.
    pub fn rule_for_class(&self, operation: OperationClass) -> Option<&PolicyRule> {
        let is_about = |rule: &&PolicyRule| match rule.subject {
            RuleSubject::Operation(class) => {
                class == operation
                    || class == OperationClass::Write && operation == OperationClass::Destructive
            }
            _ => false,
        };
        let words = [RuleEffect::Deny, RuleEffect::Ask].into_iter();
        let mut found = words.filter_map(|word| self.with_effect(word).find(is_about));
        found.next()
    }

    /// Whether a rule denies a tool by its name.
    pub fn denies_tool(&self, (server, tool): (&str, &str)) -> bool {
        self.with_effect(RuleEffect::Deny)
            .any(|rule| match &rule.subject {
                RuleSubject::Tool(denied, name) => denied == server && name == tool,
                RuleSubject::Server(denied) => denied == server,
                _ => false,
            })
    }

    /// Whether a rule of the user allows a class of calls and commands.
    pub fn allows_class(&self, operation: OperationClass) -> bool {
        let subject = RuleSubject::Operation(operation);
        let mut allowing = self.with_effect(RuleEffect::Allow);
        allowing.any(|rule| rule.subject == subject)
    }

    /// Returns the rule that decides on an action of aish itself; `None` if no rule applies. Actions that only the
    /// user's own command starts are not asked about: an ask rule is then about a tool of that name.
    pub fn rule_for_action(&self, own: BuiltinAction) -> Option<&PolicyRule> {
        let words = RuleEffect::ALL.into_iter().rev();
        let mut words =
            words.filter(|word| own == BuiltinAction::Shell || *word != RuleEffect::Ask);
        words.find_map(|word| {
            self.with_effect(word)
                .find(|r| r.subject == RuleSubject::Action(own))
        })
    }
}
