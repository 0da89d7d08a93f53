//! Grants: what the user has allowed at a prompt beyond a single call.

use super::{CallRequest, ExactCall};
use crate::chat::{ApprovalScope, OperationClass, ToolAnnotations};

/// Lifetime of a grant: one working day.
pub const GRANT_TTL_MS: u64 = 12 * 3_600_000;

/// Scope of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantScope {
    /// One tool.
    Tool,
    /// The tools of a server that were read-only at the time of the grant.
    Reads,
}

/// Permission for further calls, given at a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolGrant {
    /// Id (UUIDv7), as taken by `aish-helper policy revoke`.
    pub id: String,
    /// Its scope.
    pub scope: GrantScope,
    /// `alias.tool`, or `alias` for the read-only tools of a server.
    pub name: String,
    /// When it was given, in milliseconds since the Unix epoch.
    pub granted_ms: u64,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_ms: u64,
    /// The most severe operation class it covers; a call that declares more is not covered.
    operation: OperationClass,
    /// The directory in which it applies, for a built-in tool that works on files.
    workspace: Option<String>,
    /// The tools it covers, as identity and annotations; a tool that has changed since is not covered.
    tools: Vec<(String, ToolAnnotations)>,
}

impl ToolGrant {
    /// Returns its subject: `fs.read`, or `the reads of fs`.
    pub fn subject(&self) -> String {
        match (self.scope, &self.workspace) {
            (GrantScope::Tool, None) => self.name.clone(),
            (GrantScope::Tool, Some(dir)) => format!("{} in {dir}", self.name),
            (GrantScope::Reads, None) => format!("the reads of {}", self.name),
            (GrantScope::Reads, Some(dir)) => format!("the reads in {dir}"),
        }
    }

    /// Returns its subject and who gave it.
    pub fn description(&self) -> String {
        format!("you, for this session: {}", self.subject())
    }

    /// Whether it is for a tool or server of that name.
    pub(super) fn may_apply(&self, call: &ExactCall<'_>) -> bool {
        match self.scope {
            GrantScope::Tool => self.name == format!("{}.{}", call.server, call.tool),
            GrantScope::Reads => self.name == call.server,
        }
    }

    /// Whether it covers the tool of a call in its present definition.
    fn covers_tool(&self, wish: &CallRequest<'_>) -> bool {
        let mut tools = self.tools.iter();
        tools.any(|(identity, says)| identity == wish.call.identity && *says == wish.annotations)
    }

    /// Returns why it does not cover a call; `None` if it does.
    pub(super) fn inactive_reason(&self, wish: &CallRequest<'_>, now_ms: u64) -> Option<String> {
        let more = match self.scope {
            // An answer to a call that destroys says nothing about the next one.
            GrantScope::Tool => {
                wish.effects.operation == Some(OperationClass::Destructive)
                    || wish.operation() > self.operation
            }
            // A tool that is read-only by its server's annotations may count as a write if those are not trusted; it
            // was allowed in that state.
            GrantScope::Reads => {
                let raised = [wish.intent.map(|i| i.operation), wish.effects.operation];
                raised.into_iter().flatten().any(|of| of > self.operation)
            }
        };
        let why = if now_ms >= self.expires_ms {
            "it has expired"
        } else if self.workspace.as_deref() != wish.effects.workspace {
            "it covers another directory"
        } else if !self.may_apply(&wish.call) || !self.covers_tool(wish) {
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
pub struct GrantSet {
    list: Vec<ToolGrant>,
}

impl GrantSet {
    /// Whether there are no grants.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All grants, oldest first.
    pub fn list(&self) -> &[ToolGrant] {
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
        self.list.retain(|grant| now_ms < grant.expires_ms);
    }

    /// Removes and returns the grants for a tool of this name whose identity or annotations have changed since.
    pub fn remove_changed(&mut self, wish: &CallRequest<'_>) -> Vec<ToolGrant> {
        let void = |grant: &mut ToolGrant| {
            grant.scope == GrantScope::Tool
                && grant.may_apply(&wish.call)
                && !grant.covers_tool(wish)
        };
        self.list.extract_if(.., void).collect()
    }

    /// Returns the grant that covers a call at this time.
    pub fn find_covering(&self, wish: &CallRequest<'_>, now_ms: u64) -> Option<&ToolGrant> {
        let mut all = self.list.iter();
        all.find(|grant| grant.inactive_reason(wish, now_ms).is_none())
    }

    pub(super) fn add<'t>(
        &mut self,
        wish: &CallRequest<'_>,
        scope: ApprovalScope,
        of_server: impl IntoIterator<Item = (&'t str, ToolAnnotations)>,
        now_ms: u64,
        id: &str,
    ) {
        let own = (wish.call.identity.to_owned(), wish.annotations);
        let (reach, name, operation, tools) = match scope {
            ApprovalScope::Once => return,
            ApprovalScope::Tool | ApprovalScope::Always => {
                let name = format!("{}.{}", wish.call.server, wish.call.tool);
                (GrantScope::Tool, name, wish.operation(), vec![own])
            }
            ApprovalScope::Reads => {
                let reads = of_server
                    .into_iter()
                    .filter(|(_, says)| says.reads_only())
                    .map(|(identity, says)| (identity.to_owned(), says));
                let name = wish.call.server.to_owned();
                (
                    GrantScope::Reads,
                    name,
                    OperationClass::Read,
                    reads.collect::<Vec<_>>(),
                )
            }
        };
        if tools.is_empty() {
            return;
        }
        self.list.push(ToolGrant {
            id: id.to_owned(),
            scope: reach,
            name,
            granted_ms: now_ms,
            expires_ms: now_ms.saturating_add(GRANT_TTL_MS),
            operation,
            workspace: wish.effects.workspace.map(str::to_owned),
            tools,
        });
    }
}
