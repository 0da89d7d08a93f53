//! The way of a call from the model's wish to its result: looked up, decided on, recorded, made.
//!
//! Nothing is called that no rule and no person allowed, and nothing before the approval is on the
//! disk. A person is asked through the connection of the prompt that wants it, so that no other shell
//! sees the question.

use std::collections::BTreeMap;

use tokio_util::sync::CancellationToken;

use super::Daemon;
use super::calls::{self, Allowed};
use super::connection::Connection;
use super::mcp::tool_info;
use super::outcome::{Outcome, Used};
use super::session::{Session, lock};
use crate::chat::{Tool, ToolCall};
use crate::config::mcp::{Mcp, Server};
use crate::error::{Error, Result};
use crate::history::journal::now_ms;
use crate::history::record::{Body, Links};
use crate::mcp::Catalog;
use crate::protocol::tools::{End, Question, Reaction, Verdict};
use crate::protocol::{self, Event, kind};
use crate::safety::policy::{self, Approved, Call, Consent, Decision, Rules, Wish};

/// What the calls of one round have in common.
#[derive(Debug)]
pub struct Gate<'a> {
    /// Who serves.
    pub daemon: &'a Daemon,
    /// Where decisions are recorded and grants are kept.
    pub session: &'a Session,
    /// The servers, and how much of a result is wanted.
    pub config: &'a Mcp,
    /// The rules in force.
    pub rules: &'a Rules,
    /// The tools that the model was offered.
    pub catalog: &'a Catalog,
    /// Ends the turn.
    pub cancel: &'a CancellationToken,
    /// What its records belong to.
    pub links: Links,
    /// The calls whose approvals are on the disk before their turn has come: which of the round, and what
    /// its digest was.
    pub recorded: BTreeMap<usize, String>,
}

impl<'a> Gate<'a> {
    /// Makes the next call, `calls[at]`; or that and those after it at once, as far as all are allowed by
    /// rule and only read, in the words of a server that the user trusts. Their outcomes, in order.
    pub async fn make(
        &mut self,
        connection: &mut Connection,
        calls: &'a [ToolCall],
        at: usize,
    ) -> Vec<Used> {
        let rest = calls.get(at..).unwrap_or_default();
        let together = rest.iter().take_while(|c| self.harmless(c)).count().max(1);
        let mut allowed = Vec::new();
        let mut used = Vec::new();
        for (n, call) in rest.iter().take(together).enumerate() {
            match self.admit(connection, call, at + n, calls).await {
                Ok(one) => allowed.push(one),
                Err(outcome) => used.push(Used {
                    id: call.id.clone(),
                    outcome,
                    ms: 0,
                }),
            }
        }
        let made = calls::run(
            self.daemon,
            connection,
            allowed,
            self.config.max_result_bytes,
            self.cancel,
        );
        used.extend(made.await);
        used
    }

    /// Whether a call may run beside others: no question, and it only reads.
    fn harmless(&self, call: &ToolCall) -> bool {
        let tool = self.catalog.find(&call.name);
        tool.is_some_and(|t| t.trusted && t.annotations.reads_only())
            && self.by_rule(call).is_some()
    }

    /// The right to make a call that needs no question, and the rule that gives it.
    fn by_rule(&self, call: &ToolCall) -> Option<(Approved, String)> {
        let tool = self.catalog.find(&call.name)?;
        match self.decide(&self.wish(tool, &call.arguments))?.0 {
            Decision::Allow(approved, rule) => Some((approved, rule)),
            Decision::Ask(_) | Decision::Deny(_) => None,
        }
    }

    /// What is known of a call with these arguments. The configuration's rules are for the servers that it
    /// has, exactly as this prompt knows them: an alias may lead elsewhere by now.
    fn wish<'w>(&self, tool: &'w Tool, arguments: &'w str) -> Wish<'w> {
        let meant = self.config.servers.get(&tool.server);
        Wish {
            call: Call {
                server: &tool.server,
                tool: &tool.tool,
                identity: &tool.identity,
                arguments,
            },
            annotations: tool.annotations,
            trusted: tool.trusted,
            configured: meant.is_some_and(|s| self.daemon.mcp.holds(s)),
            changed: false,
            intent: None,
        }
    }

    /// What the rules say, and where the server is; `None` when it has gone.
    fn decide(&self, wish: &Wish<'_>) -> Option<(Decision, Server)> {
        let server = self.daemon.mcp.server(wish.call.server)?;
        let grants = lock(&self.session.grants);
        Some((policy::decide(wish, self.rules, &grants, now_ms()), server))
    }

    /// How many tools a server offers, and how many of them may write.
    fn server_tools(&self, server: &str) -> (usize, usize) {
        let of_it = || self.catalog.tools.iter().filter(|t| t.server == server);
        let writing = of_it().filter(|t| !t.annotations.reads_only()).count();
        (of_it().count(), writing)
    }

    /// Lets a call through, by rule or by the person's word, or says how it ended here.
    async fn admit(
        &mut self,
        connection: &mut Connection,
        call: &'a ToolCall,
        at: usize,
        calls: &[ToolCall],
    ) -> std::result::Result<Allowed<'a>, Outcome> {
        if self.cancel.is_cancelled() {
            return Err(Outcome::Interrupted);
        }
        let tool = self.catalog.find(&call.name).ok_or(Outcome::NoSuchTool)?;
        let wish = self.wish(tool, &call.arguments);
        let gone = || Outcome::Failed("the server has gone".to_string());
        let (decision, server) = self.decide(&wish).ok_or_else(gone)?;
        let (approved, word, why, arguments) = match decision {
            Decision::Allow(approved, rule) => {
                (approved, "rule", Some(rule), call.arguments.clone())
            }
            Decision::Deny(rule) => {
                let outcome = Outcome::Blocked(rule.clone());
                return Err(self
                    .refuse(connection, call, "denied", Some(rule), outcome)
                    .await);
            }
            Decision::Ask(asks) => {
                let question = Question {
                    id: uuid::Uuid::now_v7().to_string(),
                    tool: tool_info(tool),
                    target: server.target(),
                    arguments: call.arguments.clone(),
                    number: at + 1,
                    of: calls.len(),
                    server_tools: self.server_tools(&tool.server),
                    operation: wish.operation().as_str().to_string(),
                    intent: None,
                    why: asks,
                    warning: None,
                    changes: Vec::new(),
                    offers: Vec::new(),
                };
                let (said, word, arguments) = match self.ask(connection, question).await {
                    (Verdict::Once, arguments) => (Consent::Once, "once", arguments),
                    (Verdict::Tool, arguments) => (Consent::Tool, "tool", arguments),
                    (Verdict::Reads, arguments) => (Consent::Reads, "reads", arguments),
                    (Verdict::Always, arguments) => (Consent::Always, "always", arguments),
                    (denied, _) => return Err(self.deny(connection, call, denied).await),
                };
                let wish = self.wish(tool, &arguments);
                // Those that the model was offered with this one, and none that came while the person read.
                let offered = self.catalog.tools.iter();
                let of_server = offered.filter(|t| t.server == tool.server);
                let of_server = of_server.map(|t| (t.identity.as_str(), t.annotations));
                let id = uuid::Uuid::now_v7().to_string();
                let mut grants = lock(&self.session.grants);
                let approved = policy::consent(&wish, said, of_server, &mut grants, now_ms(), &id);
                (approved, word, None, arguments)
            }
        };
        let digest = approved.digest();
        // What a person says is recorded, whatever a rule has said before.
        if why.is_none() || self.recorded.get(&at) != Some(&digest) {
            let rule = why.clone();
            let record = approval(call, &arguments, word, rule, Some(digest));
            let synced = self.record_synced(record, calls, at + 1).await;
            synced.map_err(|e| Outcome::Unrecorded(e.message))?;
        }
        Ok(Allowed {
            call,
            tool,
            approved,
            arguments,
            rule: why,
        })
    }

    /// Records a no.
    async fn deny(
        &self,
        connection: &mut Connection,
        call: &ToolCall,
        verdict: Verdict,
    ) -> Outcome {
        let (decision, why, outcome) = match verdict {
            Verdict::No { words } => ("no", words.clone(), Outcome::Denied(words)),
            Verdict::NoTerminal => ("no_terminal", None, Outcome::NoTerminal),
            _ => ("stop", None, Outcome::Stopped),
        };
        self.refuse(connection, call, decision, why, outcome).await
    }

    /// Records that a call is not made, and says so.
    async fn refuse(
        &self,
        connection: &mut Connection,
        call: &ToolCall,
        decision: &str,
        why: Option<String>,
        outcome: Outcome,
    ) -> Outcome {
        // The record of the result comes next, and says that nothing can be recorded.
        let record = approval(call, &call.arguments, decision, why, None);
        let _ = self.session.record(&self.links, record);
        let end = Event::ToolEnd(End {
            id: call.id.clone(),
            name: call.name.clone(),
            status: outcome.status().to_string(),
            ms: 0,
            bytes: 0,
            head: String::new(),
            more: 0,
            notes: Vec::new(),
        });
        calls::tell(connection, self.cancel, &end).await;
        outcome
    }

    /// Puts an approval on the disk. Synced elsewhere: a slow disk holds up this call, and nobody's answer.
    ///
    /// With it go those of the calls from `next` on, as far as rules allow them: the disk is waited for once.
    /// The rules are asked again when their turn comes.
    async fn record_synced(
        &mut self,
        approved: Body,
        calls: &[ToolCall],
        next: usize,
    ) -> Result<()> {
        let mut records = vec![approved];
        let mut recorded = Vec::new();
        for (at, call) in calls.iter().enumerate().skip(next) {
            let Some((approved, rule)) = self.by_rule(call) else {
                break;
            };
            let digest = approved.digest();
            recorded.push((at, digest.clone()));
            records.push(approval(
                call,
                &call.arguments,
                "rule",
                Some(rule),
                Some(digest),
            ));
        }
        self.session.record_all(&self.links, records)?;
        let log = self.session.log_handle()?;
        tokio::task::spawn_blocking(move || log.sync())
            .await
            .unwrap_or_else(|e| Err(Error::runtime(format!("cannot sync the history: {e}"))))?;
        self.recorded.extend(recorded);
        Ok(())
    }

    /// The person's word, and the arguments that it is about. Whoever leaves, or does not speak the
    /// language, has said no to this and to all that follows; so has a daemon that is leaving, which waits
    /// for no person.
    async fn ask(&self, connection: &mut Connection, question: Question) -> (Verdict, String) {
        let stop = (Verdict::Stop, String::new());
        let id = question.id.clone();
        let leaving = &self.daemon.leaving;
        let event = Event::Confirm(Box::new(question));
        if !calls::tell(connection, self.cancel, &event).await {
            return stop;
        }
        loop {
            let frame = tokio::select! {
                biased;
                frame = connection.read() => frame,
                () = leaving.cancelled() => {
                    let text = "the daemon ends, so it asks no more".to_string();
                    calls::tell(connection, self.cancel, &Event::Notice { text }).await;
                    return stop;
                }
            };
            match frame {
                Ok(Some((kind::REACTION, body))) => match protocol::parse::<Reaction>(&body) {
                    Ok(Reaction::Call {
                        id: to,
                        verdict,
                        arguments,
                    }) if to == id => return checked(verdict, arguments),
                    // To an earlier question, which has lapsed.
                    Ok(_) => {}
                    Err(e) => {
                        tracing::debug!("{}", e.message);
                        return stop;
                    }
                },
                Ok(Some(_)) => return stop,
                Ok(None) | Err(_) => {
                    self.cancel.cancel();
                    return stop;
                }
            }
        }
    }
}

/// The record of a decision on a call with these arguments.
fn approval(
    call: &ToolCall,
    arguments: &str,
    decision: &str,
    why: Option<String>,
    digest: Option<String>,
) -> Body {
    Body::Approval {
        call: call.id.clone(),
        name: call.name.clone(),
        decision: decision.to_string(),
        why,
        arguments: arguments.to_string(),
        digest,
        act: None,
    }
}

/// A client that has shown anything but the one text of a JSON object has not shown what would be sent.
fn checked(verdict: Verdict, arguments: String) -> (Verdict, String) {
    let yes = matches!(
        verdict,
        Verdict::Once | Verdict::Tool | Verdict::Reads | Verdict::Always
    );
    if yes && policy::canonical(&arguments).ok().as_ref() != Some(&arguments) {
        return (Verdict::No { words: None }, arguments);
    }
    (verdict, arguments)
}
