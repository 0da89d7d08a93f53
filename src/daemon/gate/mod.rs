//! The way of a call from the model's wish to its result: looked up, decided on, recorded, made.
//!
//! Nothing is called that no rule and no person allowed, and nothing before the approval is on the
//! disk. Questions go through the feed of the turn: only clients that watch this turn see them.

mod approval_prompt;
mod explain;
mod live_rules;
mod resolve;
mod tool_review;

use std::collections::BTreeMap;
use std::sync::Mutex;

use self::approval_prompt::Refusal;
use self::live_rules::RulesNow;
use self::resolve::{CallResolution, ResolvedCall};
use super::background_notice::minutes;
use super::builtin_tools;
use super::call_context::CallContext;
use super::tool_execution::{self, AllowedCall};
use crate::chat::{ToolAnnotations, ToolCall, ToolDefinition};
use crate::config::mcp::ServerSettings;
use crate::error::Result;
use crate::history::journal::now_ms;
use crate::history::record::{RecordBody, RecordedCall};
use crate::protocol::tools::CallFinished;
use crate::safety::policy::{
    self, ApprovalScope, Approved, CallRequest, ExactCall, PolicyDecision, RuleSet,
};
use crate::session::feed::TurnEvent;
use crate::session::lock;
use crate::turn::outcome::{CallEnd, CallOutcome, CallSummary};

/// The calls of one round on their way.
#[derive(Debug)]
pub struct CallGate<'a> {
    context: CallContext<'a>,
    calls: &'a [ToolCall],
    /// What each of them means.
    meant: Vec<CallResolution<'a>>,
    /// The calls whose approvals are on the disk before their turn has come: which of the context, and what
    /// its digest was.
    recorded: BTreeMap<usize, String>,
    now: Mutex<RulesNow>,
}

/// A decision on a call that goes into the record.
#[derive(Debug)]
struct RecordedDecision<'d> {
    /// In the words of [`Body::Approval`].
    decision: &'d str,
    why: Option<String>,
    arguments: &'d str,
    digest: Option<String>,
}

impl<'a> CallGate<'a> {
    /// For these calls, whose arguments are whole JSON objects in their one text.
    pub fn new(context: CallContext<'a>, calls: &'a [ToolCall]) -> CallGate<'a> {
        let of = |call| resolve::resolve(call, context.catalog, context.exposure);
        CallGate {
            meant: calls.iter().map(of).collect(),
            context,
            calls,
            recorded: BTreeMap::new(),
            now: Mutex::new(RulesNow::Same),
        }
    }

    /// Makes the call at this place; or that and those after it at once, as far as all are allowed by
    /// rule and only read, in the words of a server that the user trusts. Their outcomes, in order; where the
    /// person stops them, those of all that are left.
    pub async fn make(&mut self, at: usize) -> Vec<CallOutcome> {
        let mut used = match (self.meant.get(at), self.calls.get(at)) {
            (Some(CallResolution::Own), Some(call)) => {
                vec![builtin_tools::call(&self.context, call).await]
            }
            _ => self.servers(at).await,
        };
        let stops = |u: &CallOutcome| matches!(u.outcome, CallEnd::Stopped | CallEnd::Interrupted);
        if used.iter().any(stops) {
            let left = self.calls.iter().enumerate().skip(at + used.len());
            used.extend(left.map(|(n, call)| CallOutcome {
                id: call.id.clone(),
                outcome: CallEnd::Interrupted,
                ms: 0,
                account: self.account(n),
            }));
        }
        used
    }

    /// The same for calls of servers' tools.
    async fn servers(&mut self, at: usize) -> Vec<CallOutcome> {
        self.renew().await;
        let rest = self.meant.iter().skip(at);
        let together = rest.take_while(|one| self.harmless(one)).count().max(1);
        let mut allowed = Vec::new();
        let mut used = Vec::new();
        let calls = self.calls;
        for (n, call) in calls.iter().enumerate().skip(at).take(together) {
            match self.admit(call, n).await {
                Ok(one) => allowed.push(one),
                Err((outcome, account)) => used.push(CallOutcome {
                    id: call.id.clone(),
                    outcome,
                    ms: 0,
                    account,
                }),
            }
        }
        used.extend(tool_execution::run(&self.context, allowed).await);
        used
    }

    /// Whether a call may run beside others: no question, and it only reads.
    fn harmless(&self, meant: &CallResolution<'_>) -> bool {
        let reads = |m: &&ResolvedCall<'_>| m.tool.trusted && m.tool.annotations.reads_only();
        let meant = meant.call().filter(reads);
        meant.is_some_and(|m| self.by_rule(m).is_some())
    }

    /// The right to make a call that needs no question, and the rule that gives it.
    fn by_rule(&self, meant: &ResolvedCall<'_>) -> Option<(Approved, String)> {
        match self.decide(&self.wish(meant, &meant.arguments))?.0 {
            PolicyDecision::Allow(approved, rule) => Some((approved, rule)),
            PolicyDecision::Ask(_) | PolicyDecision::Deny(_) => None,
        }
    }

    /// What is known of a call with these arguments. The configuration's rules are for the servers that it
    /// has, exactly as this prompt knows them: an alias may lead elsewhere by now.
    fn wish<'w>(&self, meant: &'w ResolvedCall<'_>, arguments: &'w str) -> CallRequest<'w> {
        let tool = meant.tool;
        let there = self.context.config.mcp.servers.get(&tool.server);
        CallRequest {
            call: ExactCall {
                server: &tool.server,
                tool: &tool.tool,
                identity: &tool.identity,
                arguments,
            },
            annotations: tool.annotations,
            trusted: tool.trusted,
            configured: there.is_some_and(|s| self.context.daemon.mcp.has_configured(s)),
            changed: self.changed(tool),
            intent: meant.intent.as_ref(),
        }
    }

    fn rules(&self) -> &RuleSet {
        &self.context.config.policy
    }

    /// What the rules say, and where the server is; `None` when it has gone.
    fn decide(&self, wish: &CallRequest<'_>) -> Option<(PolicyDecision, ServerSettings)> {
        let server = self.context.daemon.mcp.server(wish.call.server)?;
        let grants = lock(&self.context.session.grants);
        Some((self.judge(wish, &grants), server))
    }

    /// The tools of a server that the model was offered.
    fn of_server(&self, server: &str) -> impl Iterator<Item = &'a ToolDefinition> {
        let tools = self.context.catalog.tools.iter();
        tools.filter(move |t| t.server == server)
    }

    /// Those of the server that a call is for, and none that came while the person read.
    fn identities(
        &self,
        wish: &CallRequest<'_>,
    ) -> impl Iterator<Item = (&'a str, ToolAnnotations)> {
        let of_it = self.of_server(wish.call.server);
        of_it.map(|t| (t.identity.as_str(), t.annotations))
    }

    /// What is known of the call at this place before it is decided on.
    fn account(&self, at: usize) -> CallSummary {
        match self.meant.get(at) {
            Some(CallResolution::Call(meant)) => CallSummary {
                name: Some(meant.tool.name.clone()),
                act: Some(self.act(meant)),
                arguments: Some(meant.arguments.clone()),
                by: None,
                why: meant.warning.clone(),
            },
            Some(CallResolution::RefusedCall(refused)) => refused.account().clone(),
            Some(CallResolution::Own) | None => CallSummary {
                arguments: self.calls.get(at).map(|call| call.arguments.clone()),
                ..CallSummary::default()
            },
        }
    }

    /// What a call does, for the record.
    fn act(&self, meant: &ResolvedCall<'_>) -> RecordedCall {
        RecordedCall {
            server: meant.tool.server.clone(),
            tool: meant.tool.tool.clone(),
            variant: meant.variant.map(|v| v.call_tool_name().to_owned()),
            operation: self.wish(meant, "").operation().as_str().to_owned(),
            intent: meant.intent.as_ref().map(resolve::intent_record),
            annotations: resolve::annotations_record(meant.tool.annotations),
        }
    }

    /// Lets a call through, by rule or by the person's word, or says how it ended here.
    async fn admit(
        &mut self,
        call: &'a ToolCall,
        at: usize,
    ) -> std::result::Result<AllowedCall<'a>, (CallEnd, CallSummary)> {
        let mut account = self.account(at);
        if self.context.feed.cancel_token().is_cancelled() {
            return Err((CallEnd::Interrupted, account));
        }
        let meant = match self.meant.get(at) {
            Some(CallResolution::Call(meant)) => meant,
            Some(CallResolution::RefusedCall(refused)) => {
                let outcome = match refused.outcome() {
                    CallEnd::NoSuchTool => CallEnd::NoSuchTool,
                    why => self.told(call, at, why),
                };
                return Err((outcome, account));
            }
            Some(CallResolution::Own) | None => return Err((CallEnd::NoSuchTool, account)),
        };
        let wish = self.wish(meant, &meant.arguments);
        let Some((decision, server)) = self.decide(&wish) else {
            let gone = CallEnd::Failed("the server has gone".to_string());
            return Err((gone, account));
        };
        let operation = wish.operation();
        if !matches!(decision, PolicyDecision::Deny(_)) {
            self.introduce(&server, meant.tool);
            self.lapse(&wish);
        }
        let (approved, decision, arguments, rule, granted) = match decision {
            PolicyDecision::Allow(approved, rule) => {
                (approved, "rule", meant.arguments.clone(), Some(rule), None)
            }
            PolicyDecision::Deny(rule) => {
                return Err((self.block(call, at, rule), account));
            }
            PolicyDecision::Ask(asks) => {
                let question = self.question(meant, at, &server, asks);
                let (said, arguments) = match self.consent(question).await {
                    Ok(yes) => yes,
                    Err(no) => return Err((self.deny(call, at, no), account)),
                };
                let wish = self.wish(meant, &arguments);
                // A no that was written while they read is one too.
                self.renew().await;
                if let Some((PolicyDecision::Deny(rule), _)) = self.decide(&wish) {
                    return Err((self.block(call, at, rule), account));
                }
                let id = uuid::Uuid::now_v7().to_string();
                let mut grants = lock(&self.context.session.grants);
                let of_server = self.identities(&wish);
                let approved = policy::approve(&wish, said, of_server, &mut grants, now_ms(), &id);
                let granted = grants.list().iter().find(|grant| grant.id == id);
                let granted = granted.map(|grant| (id.clone(), grant.description()));
                (
                    approved,
                    approval_prompt::word(said),
                    arguments,
                    None,
                    granted,
                )
            }
        };
        account.by = Some(if rule.is_some() { "rule" } else { "person" });
        let word = rule.clone().unwrap_or_else(|| decision.to_owned());
        account.why = Some(match &meant.warning {
            Some(warning) => format!("{word}; {warning}"),
            None => word,
        });
        account.arguments = Some(arguments.clone());
        let warning = meant.warning.clone();
        let tool = meant.tool;
        let digest = approved.digest();
        // What a person says is recorded, whatever a rule has said before.
        if rule.is_none() || self.recorded.get(&at) != Some(&digest) {
            let decided = RecordedDecision {
                decision,
                why: with(rule.clone(), warning.as_ref()),
                arguments: &arguments,
                digest: Some(digest),
            };
            let mut records = vec![self.approval(call, at, decided)];
            records.extend(granted.iter().map(|(id, what)| RecordBody::Policy {
                change: "granted".to_owned(),
                what: what.clone(),
                grant: Some(id.clone()),
                why: None,
            }));
            if let Err(e) = self.record_synced(records, at + 1).await {
                // What is on no disk was not given.
                if let Some((id, _)) = granted {
                    lock(&self.context.session.grants).revoke(&id);
                }
                return Err((CallEnd::Unrecorded(e.message), account));
            }
        }
        if rule.is_none() {
            self.accept(&server, tool);
        }
        if decision == approval_prompt::word(ApprovalScope::Always) {
            self.keep(&tool.name).await;
        }
        Ok(AllowedCall {
            call,
            tool,
            approved,
            edited: self.account(at).arguments.as_ref() != Some(&arguments),
            arguments,
            rule,
            operation,
            warning,
            account,
        })
    }

    /// Records a rule's no, and says so.
    fn block(&self, call: &ToolCall, at: usize, rule: String) -> CallEnd {
        self.note(call, at, "denied", Some(rule.clone()));
        self.told(call, at, CallEnd::Blocked(rule))
    }

    /// Records a no, and says so.
    fn deny(&self, call: &ToolCall, at: usize, refusal: Refusal) -> CallEnd {
        let (decision, why, outcome) = match refusal {
            Refusal::Denied(words) => ("no", words.clone(), CallEnd::Denied(words)),
            Refusal::NoTerminal => ("no_terminal", None, CallEnd::NoTerminal),
            Refusal::TimedOut(patience) => {
                let why = format!("nobody answered within {}", minutes(patience));
                ("no_terminal", Some(why.clone()), CallEnd::Unanswered(why))
            }
            Refusal::Stopped => ("stop", None, CallEnd::Stopped),
        };
        self.note(call, at, decision, why);
        self.told(call, at, outcome)
    }

    /// Records that a call is not made.
    fn note(&self, call: &ToolCall, at: usize, decision: &str, why: Option<String>) {
        let arguments = self.account(at).arguments.unwrap_or_default();
        let decided = RecordedDecision {
            decision,
            why,
            arguments: &arguments,
            digest: None,
        };
        // The record of the result comes next, and says that nothing can be recorded.
        let record = self.approval(call, at, decided);
        let _ = self.context.session.record(&self.context.links, record);
    }

    /// Tells the client that a call is not made.
    fn told(&self, call: &ToolCall, at: usize, outcome: CallEnd) -> CallEnd {
        let end = TurnEvent::CallFinished(CallFinished {
            id: call.id.clone(),
            name: self.account(at).name.unwrap_or_else(|| call.name.clone()),
            status: outcome.status(),
            duration_ms: 0,
            bytes: 0,
            head: outcome.why_not(),
            more: 0,
            notes: Vec::new(),
        });
        self.context.feed.push(end);
        outcome
    }

    /// The record of a decision on the call at this place.
    fn approval(&self, call: &ToolCall, at: usize, decided: RecordedDecision<'_>) -> RecordBody {
        let account = self.account(at);
        RecordBody::Approval {
            call: call.id.clone(),
            name: account.name.unwrap_or_else(|| call.name.clone()),
            decision: decided.decision.to_string(),
            why: decided.why,
            arguments: decided.arguments.to_string(),
            digest: decided.digest,
            act: account.act,
        }
    }

    /// Puts an approval on the disk. Synced elsewhere: a slow disk holds up this call, and nobody's answer.
    ///
    /// With it go those of the calls from `next` on, as far as rules allow them: the disk is waited for once.
    /// The rules are asked again when their turn comes.
    async fn record_synced(&mut self, mut records: Vec<RecordBody>, next: usize) -> Result<()> {
        let mut recorded = Vec::new();
        for (at, call) in self.calls.iter().enumerate().skip(next) {
            // What is not made at all keeps nothing waiting.
            let Some(meant) = self.meant.get(at).and_then(CallResolution::call) else {
                continue;
            };
            let Some((approved, rule)) = self.by_rule(meant) else {
                break;
            };
            let digest = approved.digest();
            recorded.push((at, digest.clone()));
            let decided = RecordedDecision {
                decision: "rule",
                why: with(Some(rule), meant.warning.as_ref()),
                arguments: &meant.arguments,
                digest: Some(digest),
            };
            records.push(self.approval(call, at, decided));
        }
        let (session, links) = (self.context.session, &self.context.links);
        session.record_synced(links, records).await?;
        self.recorded.extend(recorded);
        Ok(())
    }
}

/// Adds what a call would have done that ended before the gate: its turn knows no tools.
pub fn complete(context: CallContext<'_>, body: &mut RecordBody) {
    let RecordBody::Tool {
        call,
        name,
        act: act @ None,
        arguments: Some(arguments),
        ..
    } = body
    else {
        return;
    };
    let calls = [ToolCall {
        id: call.clone(),
        name: name.clone(),
        arguments: arguments.clone(),
        extra: None,
    }];
    let known = CallGate::new(context, &calls).account(0);
    *act = known.act;
    *name = known.name.unwrap_or_else(|| name.clone());
    *arguments = known.arguments.unwrap_or_else(|| arguments.clone());
}

/// Returns why a call was allowed, with what contradicts its declared intent.
fn with(rule: Option<String>, warning: Option<&String>) -> Option<String> {
    match (rule, warning) {
        (Some(rule), Some(warning)) => Some(format!("{rule}; {warning}")),
        (rule, warning) => rule.or_else(|| warning.cloned()),
    }
}
