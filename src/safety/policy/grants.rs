//! Grants: what the user has allowed at a prompt beyond a single call.

use super::{Call, Wish};
use crate::chat::{Annotations, Operation};

/// Lifetime of a grant: one working day.
pub const GRANT_MS: u64 = 12 * 3_600_000;

/// Scope that the user chose when allowing a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// This call only.
    Once,
    /// This tool, for the session.
    Tool,
    /// The read-only tools of this server, for the session.
    Reads,
    /// This tool permanently: a rule is written as well.
    Always,
}

/// Scope of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// One tool.
    Tool,
    /// The tools of a server that were read-only at the time of the grant.
    Reads,
}

/// Permission for further calls, given at a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Id (UUIDv7), as taken by `aish-helper policy revoke`.
    pub id: String,
    /// Its scope.
    pub reach: Reach,
    /// `alias.tool`, or `alias` for the read-only tools of a server.
    pub name: String,
    /// When it was given, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// When it expires, in milliseconds since the Unix epoch.
    pub until_ms: u64,
    /// The most severe operation class it covers; a call that declares more is not covered.
    operation: Operation,
    /// The tools it covers, as identity and annotations; a tool that has changed since is not covered.
    tools: Vec<(String, Annotations)>,
}

impl Grant {
    /// Returns its subject: `fs.read`, or `the reads of fs`.
    pub fn what(&self) -> String {
        match self.reach {
            Reach::Tool => self.name.clone(),
            Reach::Reads => format!("the reads of {}", self.name),
        }
    }

    /// Returns its subject and who gave it.
    pub fn says(&self) -> String {
        format!("you, for this session: {}", self.what())
    }

    /// Whether it is for a tool or server of that name.
    pub(super) fn may_apply(&self, call: &Call<'_>) -> bool {
        match self.reach {
            Reach::Tool => self.name == format!("{}.{}", call.server, call.tool),
            Reach::Reads => self.name == call.server,
        }
    }

    /// Whether it covers the tool of a call in its present definition.
    fn covers_tool(&self, wish: &Wish<'_>) -> bool {
        let mut tools = self.tools.iter();
        tools.any(|(identity, says)| identity == wish.call.identity && *says == wish.annotations)
    }

    /// Returns why it does not cover a call; `None` if it does.
    pub(super) fn inactive_reason(&self, wish: &Wish<'_>, now_ms: u64) -> Option<String> {
        let more = match self.reach {
            Reach::Tool => wish.operation() > self.operation,
            // A tool that is read-only by its server's annotations may count as a write if those are not trusted; it
            // was allowed in that state.
            Reach::Reads => wish.intent.is_some_and(|i| i.operation > self.operation),
        };
        let why = if now_ms >= self.until_ms {
            "it has expired"
        } else if !self.covers_tool(wish) {
            "it covers other tools, or the tool or its server has changed since"
        } else if more {
            "the call is more severe than what was allowed"
        } else {
            return None;
        };
        Some(why.to_owned())
    }
}

/// The grants of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    list: Vec<Grant>,
}

impl Grants {
    /// Whether there are no grants.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All grants, oldest first.
    pub fn list(&self) -> &[Grant] {
        &self.list
    }

    /// Removes a grant; returns whether it existed.
    pub fn revoke(&mut self, id: &str) -> bool {
        let before = self.list.len();
        self.list.retain(|grant| grant.id != id);
        self.list.len() < before
    }

    /// Removes expired grants.
    pub fn expire(&mut self, now_ms: u64) {
        self.list.retain(|grant| now_ms < grant.until_ms);
    }

    /// Removes and returns the grants for a tool of this name whose identity or annotations have changed since.
    pub fn lapse(&mut self, wish: &Wish<'_>) -> Vec<Grant> {
        let void = |grant: &mut Grant| {
            grant.reach == Reach::Tool && grant.may_apply(&wish.call) && !grant.covers_tool(wish)
        };
        self.list.extract_if(.., void).collect()
    }

    /// Returns the grant that covers a call at this time.
    pub fn find_covering(&self, wish: &Wish<'_>, now_ms: u64) -> Option<&Grant> {
        let mut all = self.list.iter();
        all.find(|grant| grant.inactive_reason(wish, now_ms).is_none())
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
