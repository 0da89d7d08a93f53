//! The gate that every tool call passes: resolve the tool, apply the policy, ask the user if needed, record the approval,
//! run the call.
//!
//! A call needs the approval of a rule or of the user, and the approval is synced to disk before the call. The exception
//! are read-only built-in tools: the policy always allows them, and only their result is recorded. Questions go through
//! the feed of the turn, so only clients that watch this turn see them.

mod approval_prompt;
mod explain;
mod live_rules;
mod nested_calls;
mod preparation;
mod protection;
mod recording;
mod resolve;
mod tool_review;

use std::collections::BTreeMap;
use std::sync::Mutex;

use self::approval_prompt::Refusal;
use self::live_rules::RulesNow;
use self::recording::{RecordedDecision, reason_with_warning};
use self::resolve::{CallResolution, ResolvedCall};
use crate::chat::{ToolAnnotations, ToolCall, ToolDefinition};
use crate::config::mcp::ServerSettings;
use crate::history::journal::now_ms;
use crate::history::record::{ApprovalDecision, DecidedBy, PolicyChange, RecordBody, RecordedCall};
use crate::protocol::tools::CallFinished;
use crate::safety::policy::{
    self, Approved, BUILTIN_IDENTITY, BUILTIN_SERVER, CallRequest, ExactCall, HELPER_SERVER,
    PolicyDecision, RuleSet, is_own_tool,
};
use crate::session::feed::{AnswerPlace, TurnEvent};
use crate::session::lock;
use crate::tools::builtin;
use crate::turn::call_context::CallContext;
use crate::turn::outcome::{CallEnd, CallOutcome, CallSummary};
use crate::turn::tool_execution::AllowedCall;

/// The decision of the gate about a call.
enum Admission<'a> {
    /// It may be made.
    Allowed(Box<AllowedCall<'a>>),
    /// The user has edited its arguments, which are these now.
    Edited(String),
}

/// The tool calls of one round.
#[derive(Debug)]
pub struct CallGate<'a> {
    context: CallContext<'a>,
    calls: &'a [ToolCall],
    /// The resolution of each call, in the same order.
    resolutions: Vec<CallResolution<'a>>,
    /// Calls whose approval was synced to disk ahead of their turn: position and digest of the approval.
    recorded: BTreeMap<usize, String>,
    /// What the sandbox blocked of the command that the call runs again.
    blocked: Option<String>,
    now: Mutex<RulesNow>,
    /// Where the answer was given that is about to be recorded.
    answered_on: Mutex<AnswerPlace>,
}

impl<'a> CallGate<'a> {
    /// Creates the gate for `calls`, whose arguments are canonical JSON.
    pub fn new(context: CallContext<'a>, calls: &'a [ToolCall]) -> CallGate<'a> {
        let reads_terminal = context.request.terminal.is_some();
        let work = context.request.work.as_ref();
        let work = work.map_or(&[][..], |work| &work.offered);
        let of = |call| {
            let (catalog, exposure) = (context.catalog, context.exposure);
            resolve::resolve(call, catalog, exposure, reads_terminal, work)
        };
        CallGate {
            resolutions: calls.iter().map(of).collect(),
            context,
            calls,
            recorded: BTreeMap::new(),
            blocked: None,
            now: Mutex::new(RulesNow::Same),
            answered_on: Mutex::default(),
        }
    }

    /// Makes call number `at`. Following calls run concurrently with it as long as all of them are allowed by a rule and
    /// are read-only according to a trusted server. Returns the outcomes in order; if the user stops the turn, also the
    /// outcomes of all remaining calls.
    pub async fn make(&mut self, at: usize) -> Vec<CallOutcome> {
        let mut used = self.admit_and_run(at).await;
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

    /// Decides on the calls of one batch that begins at `at`, and runs those that are allowed.
    async fn admit_and_run(&mut self, at: usize) -> Vec<CallOutcome> {
        // Rules do not apply to reads of built-in tools, so these need not wait until the rules are read again.
        let first = self.resolved_call(at);
        if !first.is_some_and(ResolvedCall::is_builtin_read) {
            self.prepare(at).await;
            // Here and not once for the round: an earlier call may have made a symlink.
            let ((), reasons) = tokio::join!(self.renew(), self.protection_reasons(at));
            self.set_protected(at, reasons);
        }
        let rest = self.resolutions.iter().skip(at);
        let concurrent = rest.take_while(|one| self.runs_concurrently(one));
        let together = concurrent.count().max(1);
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
        used.extend(nested_calls::run(&self.context, allowed).await);
        used
    }

    /// Whether a call may run concurrently with others: a read of an MCP tool that needs no question.
    fn runs_concurrently(&self, resolved: &CallResolution<'_>) -> bool {
        let reads = |m: &&ResolvedCall<'_>| {
            !m.is_builtin() && m.tool.trusted && m.tool.annotations.reads_only()
        };
        let resolved = resolved.call().filter(reads);
        resolved.is_some_and(|m| self.by_rule(m).is_some())
    }

    /// Returns the approval of a call that needs no question, and the rule that allows it.
    fn by_rule(&self, resolved: &ResolvedCall<'_>) -> Option<(Approved, String)> {
        if resolved.is_work() && resolved.prepared.is_none() {
            return None;
        }
        match self
            .decide(&self.call_request(resolved, &resolved.arguments))?
            .0
        {
            PolicyDecision::Allow(approved, rule) => Some((approved, rule)),
            PolicyDecision::Ask(_) | PolicyDecision::Deny(_) => None,
        }
    }

    /// Builds the request to the policy for a call with `arguments`. The server counts as configured only if the pool's
    /// server has the same settings as the configuration of this prompt, because an alias can be reused.
    fn call_request<'w>(
        &self,
        resolved: &'w ResolvedCall<'_>,
        arguments: &'w str,
    ) -> CallRequest<'w> {
        let tool = resolved.tool;
        let servers = &self.context.config.mcp.servers;
        let configured = servers.get(&tool.server);
        let configured = configured.is_some_and(|s| self.context.services.mcp.has_configured(s));
        CallRequest {
            call: ExactCall {
                server: &tool.server,
                tool: &tool.tool,
                identity: &tool.identity,
                arguments,
            },
            annotations: tool.annotations,
            trusted: tool.trusted,
            configured: resolved.is_builtin() || configured,
            changed: !resolved.is_builtin() && self.changed(tool),
            intent: resolved.intent.as_ref(),
            protected: resolved
                .protected
                .as_deref()
                .or_else(|| resolved.prepared.as_ref()?.reason.as_deref()),
            effects: resolved
                .prepared
                .as_ref()
                .map(|prepared| prepared.effects())
                .unwrap_or_default(),
        }
    }

    /// Returns the built-in tools and helpers that the request offers.
    fn offered_work(&self) -> &'a [ToolDefinition] {
        let work = self.context.request.work.as_ref();
        work.map_or(&[], |work| &work.offered)
    }

    fn rules(&self) -> &RuleSet {
        &self.context.config.policy
    }

    /// Applies the policy to a call. Also returns the MCP server, except for a built-in tool; `None` if the server is
    /// no longer connected.
    fn decide(
        &self,
        request: &CallRequest<'_>,
    ) -> Option<(PolicyDecision, Option<ServerSettings>)> {
        let server = match is_own_tool(request.call.identity) {
            true => None,
            false => Some(self.context.services.mcp.server(request.call.server)?),
        };
        let grants = lock(&self.context.session.grants);
        Some((self.judge(request, &grants), server))
    }

    /// Returns the tools that the source of a tool offers, given the tool's server and identity.
    fn of_source(&self, server: &str, identity: &str) -> impl Iterator<Item = &'a ToolDefinition> {
        let tools: &'a [ToolDefinition] = match identity {
            BUILTIN_IDENTITY if server == BUILTIN_SERVER => builtin::work_tools(),
            BUILTIN_IDENTITY => builtin::shell_tools(),
            _ if server == HELPER_SERVER => self.offered_work(),
            _ => &self.context.catalog.tools,
        };
        tools.iter().filter(move |tool| tool.server == server)
    }

    /// Returns the tools that a grant for the call's server covers; not tools added while the user read the question.
    fn identities(
        &self,
        request: &CallRequest<'_>,
    ) -> impl Iterator<Item = (&'a str, ToolAnnotations)> {
        let tools = self.of_source(request.call.server, request.call.identity);
        tools.map(|t| (t.identity.as_str(), t.annotations))
    }

    fn resolved_call(&self, at: usize) -> Option<&ResolvedCall<'a>> {
        self.resolutions.get(at).and_then(CallResolution::call)
    }

    /// Returns the summary of call number `at` before the decision.
    fn account(&self, at: usize) -> CallSummary {
        match self.resolutions.get(at) {
            Some(CallResolution::Call(resolved)) => CallSummary {
                name: Some(resolved.tool.name.clone()),
                act: Some(self.act(resolved)),
                arguments: Some(resolved.arguments.clone()),
                by: None,
                why: resolved.warning.clone(),
            },
            Some(CallResolution::RefusedCall(refused)) => refused.account().clone(),
            None => CallSummary {
                arguments: self.calls.get(at).map(|call| call.arguments.clone()),
                ..CallSummary::default()
            },
        }
    }

    /// Returns the action of a call, as it is recorded.
    fn act(&self, resolved: &ResolvedCall<'_>) -> RecordedCall {
        RecordedCall {
            server: resolved.tool.server.clone(),
            tool: resolved.tool.tool.clone(),
            variant: resolved.variant.map(|v| v.call_tool_name().to_owned()),
            operation: self.call_request(resolved, "").operation(),
            intent: resolved.intent.as_ref().map(resolve::intent_record),
            annotations: resolve::annotations_record(resolved.tool.annotations),
        }
    }

    /// Decides on a call, by rule or by asking the user. Returns the allowed call, or how the call ended.
    async fn admit(
        &mut self,
        call: &'a ToolCall,
        at: usize,
    ) -> std::result::Result<AllowedCall<'a>, (CallEnd, CallSummary)> {
        loop {
            match self.admit_once(call, at).await? {
                Admission::Allowed(allowed) => return Ok(*allowed),
                // The call does something other than was shown, so it is asked about again.
                Admission::Edited(arguments) => self.edit(at, arguments).await,
            }
        }
    }

    async fn admit_once(
        &mut self,
        call: &'a ToolCall,
        at: usize,
    ) -> std::result::Result<Admission<'a>, (CallEnd, CallSummary)> {
        let mut account = self.account(at);
        if self.context.feed.cancel_token().is_cancelled() {
            return Err((CallEnd::Interrupted, account));
        }
        let resolved = match self.resolutions.get(at) {
            Some(CallResolution::Call(resolved)) => resolved,
            Some(CallResolution::RefusedCall(refused)) => {
                let outcome = match refused.outcome() {
                    CallEnd::NoSuchTool => CallEnd::NoSuchTool,
                    why => self.report(call, at, why),
                };
                return Err((outcome, account));
            }
            None => return Err((CallEnd::NoSuchTool, account)),
        };
        let request = self.call_request(resolved, &resolved.arguments);
        let Some((decision, server)) = self.decide(&request) else {
            let gone = CallEnd::Failed("the server is no longer connected".to_string());
            return Err((gone, account));
        };
        let operation = request.operation();
        let mut unseen = None;
        if !matches!(decision, PolicyDecision::Deny(_)) {
            let introduce = |server| self.introduce(server, resolved.tool);
            unseen = server.as_ref().and_then(introduce);
            self.lapse(&request);
        }
        // Before the question, which shows what would be sent.
        let prepared = match &decision {
            PolicyDecision::Deny(_) => None,
            _ => match self.terminal_output(resolved).await {
                Ok(text) => text,
                Err(end) => return Err((self.report(call, at, end), account)),
            },
        };
        let (approved, scope, arguments, rule, granted) = match decision {
            PolicyDecision::Allow(approved, rule) => {
                (approved, None, resolved.arguments.clone(), Some(rule), None)
            }
            PolicyDecision::Deny(rule) => {
                return Err((self.block(call, at, rule), account));
            }
            PolicyDecision::Ask(asks) => {
                let mut question = self.question(resolved, at, server.as_ref(), asks);
                question.unseen = unseen;
                question.preview.clone_from(&prepared);
                if let Some(prepared) = &resolved.prepared {
                    question.effect = approval_prompt::shown_effect(prepared);
                }
                let (scope, arguments) = match self.consent(question).await {
                    Ok(yes) => yes,
                    Err(no) => return Err((self.deny(call, at, no), account)),
                };
                if (prepared.is_some() || resolved.is_work()) && arguments != resolved.arguments {
                    return Ok(Admission::Edited(arguments));
                }
                let request = self.call_request(resolved, &arguments);
                // A deny rule may have been added while the user read the question.
                self.renew().await;
                if let Some((PolicyDecision::Deny(rule), _)) = self.decide(&request) {
                    return Err((self.block(call, at, rule), account));
                }
                let id = uuid::Uuid::now_v7().to_string();
                let mut grants = lock(&self.context.session.grants);
                let of_server = self.identities(&request);
                let approved =
                    policy::approve(&request, scope, of_server, &mut grants, now_ms(), &id);
                let granted = grants.list().iter().find(|grant| grant.id == id);
                let granted = granted.map(|grant| (id.clone(), grant.description()));
                (approved, Some(scope), arguments, None, granted)
            }
        };
        account.by = Some(scope.map_or(DecidedBy::Rule, |_| DecidedBy::Person));
        let decision = scope.map_or(ApprovalDecision::Rule, approval_prompt::recorded_scope);
        let scope = scope.map(|scope| scope.as_str().to_owned());
        let word = rule.clone().or(scope).unwrap_or_default();
        account.why = Some(match &resolved.warning {
            Some(warning) => format!("{word}; {warning}"),
            None => word,
        });
        account.arguments = Some(arguments.clone());
        let warning = resolved.warning.clone();
        let tool = resolved.tool;
        let digest = approved.digest();
        // A decision of the user is always recorded, even if an earlier approval by rule is on disk.
        let needs_record = match &rule {
            Some(_) => !resolved.is_builtin_read() && self.recorded.get(&at) != Some(&digest),
            None => true,
        };
        if needs_record {
            let decided = RecordedDecision {
                decision,
                why: reason_with_warning(rule.clone(), warning.as_ref()),
                arguments: &arguments,
                digest: Some(digest),
            };
            let mut records = vec![self.approval(call, at, decided)];
            records.extend(granted.iter().map(|(id, what)| RecordBody::Policy {
                change: PolicyChange::Granted,
                what: what.clone(),
                grant: Some(id.clone()),
                why: None,
            }));
            if let Err(e) = self.record_synced(records, at + 1).await {
                // A grant without a record on disk is not valid.
                if let Some((id, _)) = granted {
                    lock(&self.context.session.grants).revoke(&id);
                }
                return Err((CallEnd::Unrecorded(e.message), account));
            }
        }
        if let (None, Some(server)) = (&rule, &server) {
            self.accept(server, tool);
        }
        if decision == ApprovalDecision::Always {
            self.keep(&tool.name).await;
        }
        let was_edited = self
            .resolved_call(at)
            .is_some_and(|resolved| resolved.edited);
        let edited = was_edited || self.account(at).arguments.as_ref() != Some(&arguments);
        let work = match self.resolutions.get_mut(at) {
            Some(CallResolution::Call(resolved)) => resolved.prepared.take(),
            _ => None,
        };
        Ok(Admission::Allowed(Box::new(AllowedCall {
            call,
            tool,
            approved,
            edited,
            arguments,
            rule,
            operation,
            warning,
            account,
            prepared,
            work,
        })))
    }

    /// Records a denial by a rule and reports it to the clients.
    fn block(&self, call: &ToolCall, at: usize, rule: String) -> CallEnd {
        self.record_denial(call, at, ApprovalDecision::Denied, Some(rule.clone()));
        self.report(call, at, CallEnd::Blocked(rule))
    }

    /// Records a denial and reports it to the clients.
    fn deny(&self, call: &ToolCall, at: usize, refusal: Refusal) -> CallEnd {
        let (decision, why, outcome) = refusal.decided();
        self.record_denial(call, at, decision, why);
        self.report(call, at, outcome)
    }

    /// Reports to the clients that a call is not made.
    fn report(&self, call: &ToolCall, at: usize, outcome: CallEnd) -> CallEnd {
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
}

/// Completes the record of a call that ended before the gate with its tool and action; the turn machine does not know
/// the tools.
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
