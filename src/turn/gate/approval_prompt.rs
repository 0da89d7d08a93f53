//! Asks the user about a call: builds the question, decides which scopes it offers, and waits for the verdict.

use std::time::Duration;

use chrono::Local;

use super::resolve::ResolvedCall;
use super::{CallGate, lock};
use crate::config;
use crate::config::mcp::ServerSettings;
use crate::error::Error;
use crate::history::journal::now_ms;
use crate::history::record::{ApprovalDecision, PolicyChange, RecordBody};
use crate::protocol::QuestionOutcome;
use crate::protocol::tools::{
    ApprovalRequest, ApprovalVerdict, DeclaredIntent, Reaction, ShownEffect, ToolDiffLine,
};
use crate::safety::policy::{
    self, ApprovalScope, BuiltinAction, CallRequest, HELPER_SERVER, PolicyDecision, RuleEffect,
    is_own_tool,
};
use crate::session::feed::{GivenAnswer, TurnEvent};
use crate::tools::builtin::PreparedCall;
use crate::turn::background_notice::{self, minutes, question_patience};
use crate::turn::call_context::CallContext;
use crate::turn::outcome::CallEnd;
use crate::turn::tool_view::tool_info;

/// The name of the server of a built-in tool in a question.
const BUILTIN_TARGET: &str = "built in";

/// The name of the server of a helper in a question.
const HELPER_TARGET: &str = "a Python helper of yours";

fn own_target(resolved: &ResolvedCall<'_>) -> String {
    match resolved.tool.server == HELPER_SERVER {
        true => HELPER_TARGET.to_owned(),
        false => BUILTIN_TARGET.to_owned(),
    }
}

/// Returns the recorded decision for an approval scope.
pub fn recorded_scope(scope: ApprovalScope) -> ApprovalDecision {
    match scope {
        ApprovalScope::Once => ApprovalDecision::Once,
        ApprovalScope::Tool => ApprovalDecision::Tool,
        ApprovalScope::Reads => ApprovalDecision::Reads,
        ApprovalScope::Always => ApprovalDecision::Always,
    }
}

/// Returns the view of a prepared call for the question.
pub fn shown_effect(prepared: &PreparedCall) -> ShownEffect {
    ShownEffect {
        workspace: prepared.workspace.clone(),
        statement: prepared.statement.clone(),
        difference: prepared
            .difference
            .iter()
            .map(|(sign, text)| ToolDiffLine {
                sign: *sign,
                text: text.clone(),
            })
            .collect(),
        danger: prepared.danger.clone(),
        typed_yes: prepared.typed_yes,
        is_second_run: prepared.is_second_run,
    }
}

/// Why a call was not allowed.
#[derive(Debug)]
pub enum Refusal {
    /// The user denied it, with an optional message for the model.
    Denied(Option<String>),
    /// The user denied it and stopped the turn.
    Stopped,
    /// Nobody answered before the turn was cancelled or the daemon stopped.
    Cancelled,
    /// No client with a terminal watches the turn; what requires the question.
    NoTerminal(String),
    /// Nobody answered for this long.
    TimedOut(Duration),
}

impl Refusal {
    /// Returns the decision as it is recorded, its reason, and how the call ends.
    pub(super) fn decided(self) -> (ApprovalDecision, Option<String>, CallEnd) {
        match self {
            Refusal::Denied(words) => (ApprovalDecision::No, words.clone(), CallEnd::Denied(words)),
            Refusal::NoTerminal(asks) => (
                ApprovalDecision::NoTerminal,
                Some(asks.clone()),
                CallEnd::NoTerminal(asks),
            ),
            Refusal::TimedOut(patience) => {
                let why = format!("nobody answered within {}", minutes(patience));
                (
                    ApprovalDecision::TimedOut,
                    Some(why.clone()),
                    CallEnd::Unanswered(why),
                )
            }
            Refusal::Stopped => (ApprovalDecision::Stop, None, CallEnd::Stopped),
            Refusal::Cancelled => (ApprovalDecision::Cancelled, None, CallEnd::Interrupted),
        }
    }
}

impl CallGate<'_> {
    /// Builds the question about call number `at` of the round; `asks` is the rule that requires it.
    pub(super) fn question(
        &self,
        resolved: &ResolvedCall<'_>,
        at: usize,
        server: Option<&ServerSettings>,
        asks: String,
    ) -> ApprovalRequest {
        let request = self.call_request(resolved, &resolved.arguments);
        let of_source = || self.of_source(&resolved.tool.server, &resolved.tool.identity);
        let writing = of_source().filter(|t| !t.annotations.reads_only()).count();
        ApprovalRequest {
            id: uuid::Uuid::now_v7().to_string(),
            tool: tool_info(resolved.tool),
            target: server.map_or_else(|| own_target(resolved), ServerSettings::target),
            arguments: resolved.arguments.clone(),
            number: at + 1,
            of: self.calls.len(),
            server_tools: (of_source().count(), writing),
            operation: request.operation(),
            intent: resolved.intent.as_ref().map(|intent| DeclaredIntent {
                operation_type: intent.operation,
                data_sensitivity: intent.sensitivity,
                reason: intent.reason.clone(),
            }),
            why: asks,
            warning: resolved.warning.clone(),
            changes: server.map_or_else(Vec::new, |server| self.changes(server, resolved.tool)),
            unseen: None,
            preview: None,
            effect: Default::default(),
            offers: self.offers(&request),
            digest: String::new(),
        }
    }

    /// Returns the approval scopes beyond "once" that would let the same call pass without a question.
    fn offers(&self, request: &CallRequest<'_>) -> Vec<ApprovalScope> {
        // Approving a changed tool accepts its new definition, so later calls are not calls of a changed tool.
        let request = CallRequest {
            changed: false,
            ..*request
        };
        let given = lock(&self.context.session.grants).clone();
        let silences = |scope: ApprovalScope| {
            let mut grants = given.clone();
            policy::approve(
                &request,
                scope,
                self.identities(&request),
                &mut grants,
                now_ms(),
                "",
            );
            matches!(self.judge(&request, &grants), PolicyDecision::Allow(..))
        };
        let offered = |scope: &ApprovalScope| {
            let can = match scope {
                ApprovalScope::Always => self.can_keep(&request),
                // A manual call has no session that could hold a grant.
                _ => !self.context.session.id.is_empty(),
            };
            can && silences(*scope)
        };
        let scopes = [
            ApprovalScope::Tool,
            ApprovalScope::Reads,
            ApprovalScope::Always,
        ];
        scopes.into_iter().filter(offered).collect()
    }

    /// Whether "always" can be offered: the configuration can be written, and a rule in it would apply to this server.
    fn can_keep(&self, request: &CallRequest<'_>) -> bool {
        let denied = self
            .rules()
            .rule_for_action(BuiltinAction::FsWrite)
            .map(|rule| rule.effect)
            == Some(RuleEffect::Deny);
        let file = self.context.config.file.as_deref();
        let is_toml = file.is_some_and(|f| f.extension().is_some_and(|e| e == "toml"));
        // A rule names the alias, which could also be that of an MCP server.
        let is_builtin = is_own_tool(request.call.identity);
        request.configured && is_toml && !denied && !is_builtin
    }

    /// Writes a rule that allows this tool to the configuration. If that fails, the approval that was already recorded
    /// still covers this call, and the session keeps its grant.
    pub(super) async fn keep(&self, name: &str) {
        let paths = self.context.services.paths.clone();
        let rule = name.to_owned();
        let comment = format!(
            "{} on {}",
            config::ALLOWED_COMMENT,
            Local::now().format("%Y-%m-%d")
        );
        // On a blocking thread, so that a slow disk delays only this call.
        let written =
            tokio::task::spawn_blocking(move || config::allow_always(&paths, &rule, &comment))
                .await
                .unwrap_or_else(|e| Err(Error::runtime(e.to_string())));
        let failed = match written {
            Ok(()) => {
                let record = RecordBody::Policy {
                    change: PolicyChange::Always,
                    what: format!("{} = \"allow\"", config::toml_string(name)),
                    grant: None,
                    why: None,
                };
                let session = self.context.session;
                session
                    .record_written(&self.context.record_ids, record)
                    .await
                    .err()
            }
            Err(e) => {
                let hint = e.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
                Some(Error::config(format!(
                    "the rule for {name} was not written, so a later session will ask again: {}{hint}",
                    e.message
                )))
            }
        };
        if let Some(e) = failed {
            self.context.feed.notice(e.message);
        }
    }

    /// Asks the question and returns the approved scope and arguments.
    ///
    /// # Errors
    /// The call was not approved.
    pub(super) async fn consent(
        &self,
        question: ApprovalRequest,
    ) -> Result<(ApprovalScope, String), Refusal> {
        let offers = question.offers.clone();
        let asks = question.why.clone();
        let (verdict, arguments) = self.ask(question).await?;
        let scope = match verdict {
            ApprovalVerdict::Once => ApprovalScope::Once,
            ApprovalVerdict::Tool => ApprovalScope::Tool,
            ApprovalVerdict::Reads => ApprovalScope::Reads,
            ApprovalVerdict::Always => ApprovalScope::Always,
            ApprovalVerdict::No { words } => return Err(Refusal::Denied(words)),
            ApprovalVerdict::Stop => return Err(Refusal::Stopped),
            ApprovalVerdict::NoTerminal => return Err(Refusal::NoTerminal(asks)),
        };
        // A scope that was not offered was not shown either, so only the call itself is approved.
        match offers.contains(&scope) {
            true => Ok((scope, arguments)),
            false => Ok((ApprovalScope::Once, arguments)),
        }
    }

    /// Asks every client that watches the turn; the first valid answer wins. Returns the verdict and the arguments it
    /// applies to. Ends with [`Refusal::Cancelled`] when the turn is cancelled or the daemon stops.
    async fn ask(
        &self,
        mut question: ApprovalRequest,
    ) -> Result<(ApprovalVerdict, String), Refusal> {
        let cancelled = Err(Refusal::Cancelled);
        question.digest = question.shown_digest();
        let (id, digest) = (question.id.clone(), question.digest.clone());
        let asks = question.why.clone();
        let CallContext { services, feed, .. } = self.context;
        let event = TurnEvent::ApprovalRequested(Box::new(question));
        let answer = feed.open_question(&id, &digest, event);
        let patience = question_patience(self.context.config);
        let announce = || background_notice::question_waits(services, feed);
        let close = |outcome| feed.close_question(&id, None, outcome);
        let answered = tokio::select! {
            biased;
            given = answer => match given {
                Ok(GivenAnswer {
                    reaction: Reaction::Call { verdict, arguments, .. },
                    answered_in,
                    place,
                }) => {
                    *lock(&self.answered_on) = place;
                    let (verdict, arguments) = checked(verdict, arguments);
                    feed.close_question(&id, answered_in, outcome(&verdict));
                    Ok((verdict, arguments))
                }
                _ => {
                    close(QuestionOutcome::Withdrawn);
                    cancelled
                }
            },
            () = feed.cancel_token().cancelled() => {
                close(QuestionOutcome::Withdrawn);
                cancelled
            }
            () = services.leaving.cancelled() => {
                close(QuestionOutcome::Withdrawn);
                feed.notice("the daemon is stopping: the call is not made");
                cancelled
            }
            ended = feed.unanswerable(&id, patience, announce) => {
                close(ended);
                match ended {
                    QuestionOutcome::TimedOut => Err(Refusal::TimedOut(patience)),
                    _ => Err(Refusal::NoTerminal(asks)),
                }
            }
        };
        background_notice::question_closed(services, feed);
        answered
    }
}

/// Returns the outcome that a verdict gives a question.
fn outcome(verdict: &ApprovalVerdict) -> QuestionOutcome {
    match verdict {
        ApprovalVerdict::Once => QuestionOutcome::AllowedOnce,
        ApprovalVerdict::Tool => QuestionOutcome::AllowedTool,
        ApprovalVerdict::Reads => QuestionOutcome::AllowedReads,
        ApprovalVerdict::Always => QuestionOutcome::AllowedAlways,
        ApprovalVerdict::No { .. } => QuestionOutcome::Denied,
        ApprovalVerdict::Stop => QuestionOutcome::Stopped,
        ApprovalVerdict::NoTerminal => QuestionOutcome::NoTerminal,
    }
}

/// Turns an approval into a denial unless it is for canonical arguments: the client then showed a text other than the
/// one that would be sent.
fn checked(verdict: ApprovalVerdict, arguments: String) -> (ApprovalVerdict, String) {
    let yes = matches!(
        verdict,
        ApprovalVerdict::Once
            | ApprovalVerdict::Tool
            | ApprovalVerdict::Reads
            | ApprovalVerdict::Always
    );
    if yes && policy::canonical_arguments(&arguments).ok().as_ref() != Some(&arguments) {
        return (ApprovalVerdict::No { words: None }, arguments);
    }
    (verdict, arguments)
}
