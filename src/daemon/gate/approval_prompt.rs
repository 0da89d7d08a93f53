//! What a person is asked, what they can say beyond this once, and what they did say.

use std::time::Duration;

use chrono::Local;

use super::super::background_notice::{self, question_patience};
use super::super::call_context::CallContext;
use super::super::tool_view::tool_info;
use super::resolve::ResolvedCall;
use super::{CallGate, lock};
use crate::config;
use crate::config::mcp::ServerSettings;
use crate::error::Error;
use crate::history::journal::now_ms;
use crate::history::record::RecordBody;
use crate::protocol::QuestionOutcome;
use crate::protocol::tools::{ApprovalRequest, ApprovalVerdict, DeclaredIntent, Reaction};
use crate::safety::policy::{
    self, ApprovalScope, BuiltinAction, CallRequest, PolicyDecision, RuleEffect,
};
use crate::session::feed::{GivenAnswer, TurnEvent};

/// What a person can say yes to, and what that is called in records and questions.
const CONSENTS: [(ApprovalScope, &str); 4] = [
    (ApprovalScope::Once, "once"),
    (ApprovalScope::Tool, "tool"),
    (ApprovalScope::Reads, "reads"),
    (ApprovalScope::Always, "always"),
];

/// The word for what a person has said.
pub fn word(said: ApprovalScope) -> &'static str {
    let named = CONSENTS.iter().find(|(consent, _)| *consent == said);
    named.map_or("once", |(_, word)| word)
}

/// Why a call was not allowed.
#[derive(Debug)]
pub enum Refusal {
    /// The person denied it, perhaps with words for the model.
    Denied(Option<String>),
    /// The person denied it and stopped the turn, or the turn was cancelled.
    Stopped,
    /// No client with a terminal watches the turn.
    NoTerminal,
    /// Nobody answered for this long.
    TimedOut(Duration),
}

impl CallGate<'_> {
    /// The question about the call at this place of the round; `asks` is the rule that wants it asked.
    pub(super) fn question(
        &self,
        meant: &ResolvedCall<'_>,
        at: usize,
        server: &ServerSettings,
        asks: String,
    ) -> ApprovalRequest {
        let wish = self.wish(meant, &meant.arguments);
        let of_it = || self.of_server(&meant.tool.server);
        let writing = of_it().filter(|t| !t.annotations.reads_only()).count();
        ApprovalRequest {
            id: uuid::Uuid::now_v7().to_string(),
            tool: tool_info(meant.tool),
            target: server.target(),
            arguments: meant.arguments.clone(),
            number: at + 1,
            of: self.calls.len(),
            server_tools: (of_it().count(), writing),
            operation: wish.operation(),
            intent: meant.intent.as_ref().map(|intent| DeclaredIntent {
                operation_type: intent.operation,
                data_sensitivity: intent.sensitivity,
                reason: intent.reason.clone(),
            }),
            why: asks,
            warning: meant.warning.clone(),
            changes: self.changes(server, meant.tool),
            offers: self.offers(&wish),
            digest: String::new(),
        }
    }

    /// Which answers beyond this once would keep the same call from being asked about again.
    fn offers(&self, wish: &CallRequest<'_>) -> Vec<String> {
        // It is asked about because it has changed: seen once more, it is what it is.
        let wish = CallRequest {
            changed: false,
            ..*wish
        };
        let given = lock(&self.context.session.grants).clone();
        let silences = |said: ApprovalScope| {
            let mut grants = given.clone();
            policy::approve(
                &wish,
                said,
                self.identities(&wish),
                &mut grants,
                now_ms(),
                "",
            );
            matches!(self.judge(&wish, &grants), PolicyDecision::Allow(..))
        };
        let mut offers = Vec::new();
        for (said, word) in &CONSENTS[1..] {
            let can = match said {
                ApprovalScope::Always => self.can_keep(&wish),
                // Outside of conversations nothing is the session's.
                _ => !self.context.session.id.is_empty(),
            };
            if can && silences(*said) {
                offers.push((*word).to_owned());
            }
        }
        offers
    }

    /// Whether a rule about a server can be written into the configuration, and would be about that server.
    fn can_keep(&self, wish: &CallRequest<'_>) -> bool {
        let denied = self
            .rules()
            .rule_for_action(BuiltinAction::FsWrite)
            .map(|rule| rule.effect)
            == Some(RuleEffect::Deny);
        let file = self.context.config.file.as_deref();
        let is_toml = file.is_some_and(|f| f.extension().is_some_and(|e| e == "toml"));
        wish.configured && is_toml && !denied
    }

    /// Writes a rule into the configuration that allows this tool. Its approval is on the disk; where the rule cannot
    /// be written, that is worth this call and the session's grant.
    pub(super) async fn keep(&self, name: &str) {
        let paths = self.context.daemon.paths.clone();
        let rule = name.to_owned();
        let comment = format!(
            "{} on {}",
            config::ALLOWED_COMMENT,
            Local::now().format("%Y-%m-%d")
        );
        // Elsewhere: a slow disk holds up this call, and nobody's answer.
        let written =
            tokio::task::spawn_blocking(move || config::allow_always(&paths, &rule, &comment))
                .await
                .unwrap_or_else(|e| Err(Error::runtime(e.to_string())));
        let failed = match written {
            Ok(()) => {
                let record = RecordBody::Policy {
                    change: "always".to_owned(),
                    what: format!("{} = \"allow\"", config::toml_string(name)),
                    grant: None,
                    why: None,
                };
                let session = self.context.session;
                session
                    .record_written(&self.context.links, record)
                    .await
                    .err()
            }
            Err(e) => {
                let hint = e.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
                Some(Error::config(format!(
                    "the rule for {name} was not written, so that it is asked about again later: {}{hint}",
                    e.message
                )))
            }
        };
        if let Some(e) = failed {
            self.context.feed.notice(e.message);
        }
    }

    /// What the person says, as far as it was offered, and the arguments that it is about.
    ///
    /// # Errors
    /// No.
    pub(super) async fn consent(
        &self,
        question: ApprovalRequest,
    ) -> Result<(ApprovalScope, String), Refusal> {
        let offers = question.offers.clone();
        let (verdict, arguments) = self.ask(question).await?;
        let said = match verdict {
            ApprovalVerdict::Once => ApprovalScope::Once,
            ApprovalVerdict::Tool => ApprovalScope::Tool,
            ApprovalVerdict::Reads => ApprovalScope::Reads,
            ApprovalVerdict::Always => ApprovalScope::Always,
            ApprovalVerdict::No { words } => return Err(Refusal::Denied(words)),
            ApprovalVerdict::Stop => return Err(Refusal::Stopped),
            ApprovalVerdict::NoTerminal => return Err(Refusal::NoTerminal),
        };
        // Of what is more than they were offered, this call is what they have seen.
        match offers.iter().any(|offer| offer == word(said)) {
            true => Ok((said, arguments)),
            false => Ok((ApprovalScope::Once, arguments)),
        }
    }

    /// Asks every client that watches the turn; the first valid answer wins. Returns the verdict and the arguments
    /// it is about. A daemon that is stopping waits for nobody.
    async fn ask(
        &self,
        mut question: ApprovalRequest,
    ) -> Result<(ApprovalVerdict, String), Refusal> {
        let stop = Err(Refusal::Stopped);
        question.digest = question.shown_digest();
        let (id, digest) = (question.id.clone(), question.digest.clone());
        let CallContext { daemon, feed, .. } = self.context;
        let event = TurnEvent::ApprovalRequested(Box::new(question));
        let answer = feed.open_question(&id, &digest, event);
        let patience = question_patience(self.context.config);
        let deadline = tokio::time::Instant::now() + patience;
        background_notice::question_waits(daemon, feed, &id);
        let close = |outcome| feed.close_question(&id, None, outcome);
        tokio::select! {
            biased;
            given = answer => match given {
                Ok(GivenAnswer { reaction: Reaction::Call { verdict, arguments, .. }, answered_in }) => {
                    let (verdict, arguments) = checked(verdict, arguments);
                    feed.close_question(&id, answered_in, outcome(&verdict));
                    Ok((verdict, arguments))
                }
                _ => {
                    close(QuestionOutcome::Withdrawn);
                    stop
                }
            },
            () = feed.cancel_token().cancelled() => {
                close(QuestionOutcome::Withdrawn);
                stop
            }
            () = daemon.leaving.cancelled() => {
                close(QuestionOutcome::Withdrawn);
                feed.notice("the daemon ends, so it asks no more");
                stop
            }
            ended = feed.unanswerable(&id, deadline) => {
                close(ended);
                match ended {
                    QuestionOutcome::TimedOut => Err(Refusal::TimedOut(patience)),
                    _ => Err(Refusal::NoTerminal),
                }
            }
        }
    }
}

/// How a question ends with this verdict.
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

/// A client that has shown anything but the one text of a JSON object has not shown what would be sent.
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
