//! What a person has allowed at a prompt, beyond the one call.

use super::{Call, Wish};
use crate::chat::{Annotations, Operation};

/// How long a grant holds: a working day.
pub const GRANT_MS: u64 = 12 * 3_600_000;

/// What a person said to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// This call.
    Once,
    /// This tool, for the session.
    Tool,
    /// The tools of this server that only read, for the session.
    Reads,
    /// This tool, from now on: a rule is written too.
    Always,
}

/// How far a grant goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// One tool.
    Tool,
    /// The tools of a server that only read, as it had them then.
    Reads,
}

/// What was allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Names it (UUIDv7), for `aish-helper policy revoke`.
    pub id: String,
    /// How far it goes.
    pub reach: Reach,
    /// `alias.tool`, or `alias` with [`Reach::Reads`].
    pub name: String,
    /// When it was given, milliseconds since 1970.
    pub at_ms: u64,
    /// When it lapses.
    pub until_ms: u64,
    /// The most that a call of it does: one that is declared to do more was not allowed.
    operation: Operation,
    /// The tools: identity, and what their server said of each. One that has changed since was not allowed.
    tools: Vec<(String, Annotations)>,
}

impl Grant {
    /// What it allows: `fs.read`, or `the reads of fs`.
    pub fn what(&self) -> String {
        match self.reach {
            Reach::Tool => self.name.clone(),
            Reach::Reads => format!("the reads of {}", self.name),
        }
    }

    /// The same, with who gave it.
    pub fn says(&self) -> String {
        format!("you, for this session: {}", self.what())
    }

    /// Whether it is for a tool or a server of that name.
    pub(super) fn could_be(&self, call: &Call<'_>) -> bool {
        match self.reach {
            Reach::Tool => self.name == format!("{}.{}", call.server, call.tool),
            Reach::Reads => self.name == call.server,
        }
    }

    /// Whether it was given for the very tool of a call, as it is.
    fn is_for(&self, wish: &Wish<'_>) -> bool {
        let mut tools = self.tools.iter();
        tools.any(|(identity, says)| identity == wish.call.identity && *says == wish.annotations)
    }

    /// Why it does not cover a call; `None` where it does.
    pub(super) fn idle(&self, wish: &Wish<'_>, now_ms: u64) -> Option<String> {
        let more = match self.reach {
            Reach::Tool => wish.operation() > self.operation,
            // What reads by its server's word is taken for more where that is not believed, but was allowed as it is.
            Reach::Reads => wish.intent.is_some_and(|i| i.operation > self.operation),
        };
        let why = if now_ms >= self.until_ms {
            "it has expired"
        } else if !self.is_for(wish) {
            "it was given for other tools, or before this one or its server changed"
        } else if more {
            "the call is taken for more than what was allowed"
        } else {
            return None;
        };
        Some(why.to_owned())
    }
}

/// What a person has allowed in one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    list: Vec<Grant>,
}

impl Grants {
    /// Whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them, the oldest first.
    pub fn list(&self) -> &[Grant] {
        &self.list
    }

    /// Takes one back; whether it was there.
    pub fn revoke(&mut self, id: &str) -> bool {
        let before = self.list.len();
        self.list.retain(|grant| grant.id != id);
        self.list.len() < before
    }

    /// Takes away what holds no more: it was given for so long and not longer.
    pub fn expire(&mut self, now_ms: u64) {
        self.list.retain(|grant| now_ms < grant.until_ms);
    }

    /// Takes away what was given for a tool of this name that was another then, or said something else; what it was.
    pub fn lapse(&mut self, wish: &Wish<'_>) -> Vec<Grant> {
        let void = |grant: &mut Grant| {
            grant.reach == Reach::Tool && grant.could_be(&wish.call) && !grant.is_for(wish)
        };
        self.list.extract_if(.., void).collect()
    }

    /// The grant that covers a call now.
    pub fn covering(&self, wish: &Wish<'_>, now_ms: u64) -> Option<&Grant> {
        let mut all = self.list.iter();
        all.find(|grant| grant.idle(wish, now_ms).is_none())
    }

    pub(super) fn add<'t>(
        &mut self,
        wish: &Wish<'_>,
        said: Consent,
        of_server: impl IntoIterator<Item = (&'t str, Annotations)>,
        now_ms: u64,
        id: &str,
    ) {
        let own = (wish.call.identity.to_owned(), wish.annotations);
        let (reach, name, operation, tools) = match said {
            Consent::Once => return,
            Consent::Tool | Consent::Always => {
                let name = format!("{}.{}", wish.call.server, wish.call.tool);
                (Reach::Tool, name, wish.operation(), vec![own])
            }
            Consent::Reads => {
                let reads = of_server
                    .into_iter()
                    .filter(|(_, says)| says.reads_only())
                    .map(|(identity, says)| (identity.to_owned(), says));
                let name = wish.call.server.to_owned();
                (
                    Reach::Reads,
                    name,
                    Operation::Read,
                    reads.collect::<Vec<_>>(),
                )
            }
        };
        if tools.is_empty() {
            return;
        }
        self.list.push(Grant {
            id: id.to_owned(),
            reach,
            name,
            at_ms: now_ms,
            until_ms: now_ms.saturating_add(GRANT_MS),
            operation,
            tools,
        });
    }
}
