//! The answer to a prompt in the events of another aish server. Pure.
//!
//! Everything here was sent by that server, which may be hostile: an event of another form is an error, sizes are limited, and
//! what becomes a notice is one short line. What shows it makes invisible characters visible, as in all texts.

use std::borrow::Cow;

use serde::Deserialize;

use super::call::{MAX_ID, plain_line};
use crate::broker::sse::EventTooLong;
use crate::chat::{FinishReason, StreamItem, TokenUsage};

/// Maximum size of an event. The API cuts texts to 64 KiB, which JSON escapes can make six times as long.
pub const MAX_EVENT: usize = 1 << 20;
/// Maximum number of notices of one answer.
const MAX_NOTICES: usize = 200;
/// Maximum length of a notice, in characters.
const MAX_NOTICE: usize = 400;
/// Maximum length of a name and of the arguments in a notice, in characters.
const MAX_NAME: usize = 80;
const MAX_ARGUMENTS: usize = 160;
/// Number of tool calls whose arguments are remembered for their notices.
const MAX_CALLS: usize = 64;

/// An event that another aish server cannot have sent.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidEvent(pub String);

impl From<EventTooLong> for InvalidEvent {
    fn from(EventTooLong: EventTooLong) -> InvalidEvent {
        InvalidEvent("an event is too long".to_owned())
    }
}

/// The type of an event.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

/// An event with the payload of its type.
#[derive(Deserialize)]
struct Event<T> {
    payload: T,
}

#[derive(Deserialize)]
struct Start {
    message_id: String,
    role: String,
}

#[derive(Deserialize)]
struct Delta {
    message_id: String,
    text: String,
}

/// The end of an answer; one that is discarded has only `finish`, and a prompt has none.
#[derive(Deserialize)]
struct End {
    message_id: Option<String>,
    finish: Option<String>,
    length: Option<u64>,
    model: Option<String>,
    error: Option<String>,
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    cost: Option<f64>,
}

#[derive(Deserialize)]
struct CallStart {
    call_id: String,
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct CallRunning {
    call_id: String,
    name: String,
}

#[derive(Deserialize)]
struct CallEnd {
    call_id: String,
    name: String,
    status: String,
    reason: Option<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Notice {
    text: String,
}

#[derive(Deserialize)]
struct Question {
    kind: String,
    answers: Vec<String>,
    /// The view that the page shows; only an approval has it.
    view: Option<View>,
}

#[derive(Deserialize)]
struct View {
    tool: String,
    facts: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct Status {
    status: String,
    message_id: Option<String>,
    failure: Option<Failure>,
    /// Ids of the prompts that wait.
    #[serde(default)]
    waiting: Vec<String>,
}

#[derive(Deserialize)]
struct Failure {
    message_id: Option<String>,
    message: String,
    hint: Option<String>,
}

/// The state of the server, as far as its events show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerActivity {
    /// Nothing is known yet.
    Unknown,
    /// It answers the prompt.
    Answers,
    /// It answers another prompt of the session; this one waits.
    AnswersAnother,
    /// It answers no prompt, although this one has no answer.
    Idle,
}

/// How the answer has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerEnd {
    /// It has all its text.
    Finished(FinishReason),
    /// It failed there: the message, and what to do next.
    Failed(String, Option<String>),
}

/// The answer to one prompt, read from the events of its session.
#[derive(Debug)]
pub struct ServerAnswer {
    /// The server, as notices name it.
    place: String,
    /// The id of the session there.
    session: String,
    /// The id of the prompt.
    prompt: String,
    activity: ServerActivity,
    /// Whether the prompt was waiting for another answer, as the server said last.
    is_waiting: bool,
    /// Whether the prompt was recorded there.
    has_begun: bool,
    /// The id of the round whose text arrives, and how much has arrived.
    round: Option<(String, u64)>,
    /// Whether the text so far ends without a line end.
    open_line: bool,
    /// How the last round has ended.
    finish: Option<AnswerEnd>,
    /// Name and arguments of the calls that were asked for, by their ids.
    calls: Vec<(String, String)>,
    /// Calls whose start was shown to the user.
    told: Vec<String>,
    usage: Option<TokenUsage>,
    /// Cost of all rounds; `None` once the cost of one is unknown.
    cost: Option<f64>,
    model: Option<String>,
    notices: usize,
    end: Option<AnswerEnd>,
}

impl ServerAnswer {
    /// Returns the answer to the prompt with this id, in this session, before its first event.
    pub fn new(place: &str, session: &str, prompt: &str) -> ServerAnswer {
        ServerAnswer {
            place: place.to_owned(),
            session: session.to_owned(),
            prompt: prompt.to_owned(),
            activity: ServerActivity::Unknown,
            is_waiting: false,
            has_begun: false,
            round: None,
            open_line: false,
            finish: None,
            calls: Vec::new(),
            told: Vec::new(),
            usage: None,
            cost: Some(0.0),
            model: None,
            notices: 0,
            end: None,
        }
    }

    /// Returns the current activity of the server.
    pub fn activity(&self) -> ServerActivity {
        self.activity
    }

    /// Returns how the answer has ended; `None` while more can follow.
    pub fn end(&self) -> Option<&AnswerEnd> {
        self.end.as_ref()
    }

    /// Returns the items that follow the text of the answer.
    pub fn last_items(&self) -> Vec<StreamItem> {
        let model = self.model.clone().map(StreamItem::Model);
        let usage = self.usage.map(|usage| {
            // A negative or immense cost is none.
            let cost = self.cost.filter(|cost| (0.0..1e6).contains(cost));
            StreamItem::Usage(TokenUsage {
                cost_picodollars: cost.map(|cost| (cost * 1e12) as u64),
                ..usage
            })
        });
        model.into_iter().chain(usage).collect()
    }

    /// Reads one event. Appends what it adds to the answer to `out`. Returns whether the event is more than a sign of life.
    ///
    /// # Errors
    /// No aish server sends such an event.
    pub fn event(&mut self, data: &[u8], out: &mut Vec<StreamItem>) -> Result<bool, InvalidEvent> {
        if data.len() > MAX_EVENT {
            return Err(InvalidEvent("an event is too long".to_owned()));
        }
        let Kind { kind } = read(data, "an event")?;
        match &*kind {
            "message.start" => self.start(payload(data, &kind)?),
            "message.delta" => self.delta(payload(data, &kind)?, out),
            "message.end" => self.message_end(payload(data, &kind)?, out),
            "tool.start" => self.call_start(payload(data, &kind)?),
            "x.tool.running" => self.call_running(payload(data, &kind)?, out),
            "tool.end" => self.call_end(payload(data, &kind)?, out),
            "x.notice" => {
                let Notice { text } = payload(data, &kind)?;
                self.notice(&text, out);
            }
            "x.question.open" => self.question(payload(data, &kind)?, out),
            // Every connection begins with it.
            "agent.status" => {
                self.status(payload(data, &kind)?);
                return Ok(false);
            }
            "x.session.deleted" => {
                let message = format!("the session was deleted at {}", self.place);
                self.end = Some(AnswerEnd::Failed(message, None));
            }
            "x.heartbeat" | "x.caught_up" => return Ok(false),
            // Events of later versions, and those that say nothing about the answer.
            _ => {}
        }
        Ok(true)
    }

    fn start(&mut self, start: Start) {
        match &*start.role {
            "user" if start.message_id == self.prompt => {
                self.has_begun = true;
                self.activity = ServerActivity::Answers;
            }
            // The next prompt of the session: this one has ended.
            "user" if self.has_begun => self.finish_answer(None),
            "assistant" if self.has_begun => self.round = Some((start.message_id, 0)),
            _ => {}
        }
    }

    fn delta(&mut self, delta: Delta, out: &mut Vec<StreamItem>) {
        let Some((round, length)) = &mut self.round else {
            return;
        };
        if *round != delta.message_id || delta.text.is_empty() {
            return;
        }
        // The text of a round starts on its own line.
        if *length == 0 && self.open_line {
            out.push(StreamItem::Text("\n".to_owned()));
        }
        *length += delta.text.len() as u64;
        self.open_line = !delta.text.ends_with('\n');
        out.push(StreamItem::Text(delta.text));
    }

    fn message_end(&mut self, end: End, out: &mut Vec<StreamItem>) {
        let discarded = end.finish.as_deref() == Some("discarded");
        let is_of_round = |(round, _): &mut (String, u64)| {
            discarded || end.message_id.as_deref() == Some(round.as_str())
        };
        let Some((_, length)) = self.round.take_if(is_of_round) else {
            return;
        };
        if discarded {
            if length > 0 {
                let message = format!("{} discarded an answer that it had begun", self.place);
                self.end = Some(AnswerEnd::Failed(message, None));
            }
            return;
        }
        if end.length.is_some_and(|whole| whole != length) {
            let line =
                "the answer was changed after a part of it was sent; the text here may differ";
            self.notice(line, out);
        }
        let name = end.model.map(|name| plain_line(&name, MAX_NAME));
        self.model = name.or_else(|| self.model.take());
        if end.prompt_tokens.is_some() || end.completion_tokens.is_some() {
            let sum = self.usage.get_or_insert_with(TokenUsage::default);
            let add = |sum: u64, more: Option<u64>| sum.saturating_add(more.unwrap_or(0));
            sum.prompt_tokens = add(sum.prompt_tokens, end.prompt_tokens);
            sum.completion_tokens = add(sum.completion_tokens, end.completion_tokens);
        }
        self.cost = self.cost.zip(end.cost).map(|(sum, cost)| sum + cost);
        self.finish = Some(match end.finish.as_deref().unwrap_or_default() {
            "stop" => AnswerEnd::Finished(FinishReason::Stop),
            "length" => AnswerEnd::Finished(FinishReason::Length),
            "content_filter" => AnswerEnd::Finished(FinishReason::ContentFilter),
            "interrupted" => AnswerEnd::Finished(FinishReason::Interrupted),
            other => {
                let why = end.error.unwrap_or_else(|| match other {
                    "cut_off" => {
                        "the answer was cut off, because the server there was stopped; ask again"
                            .into()
                    }
                    other => format!("it ended as {other}"),
                });
                AnswerEnd::Failed(self.said(&why), None)
            }
        });
    }

    fn call_start(&mut self, call: CallStart) {
        if self.has_begun && self.calls.len() < MAX_CALLS {
            let arguments = plain_line(&call.arguments, MAX_ARGUMENTS);
            let line = format!("{} {arguments}", plain_line(&call.name, MAX_NAME));
            self.calls.push((call.call_id, line));
        }
    }

    fn call_running(&mut self, call: CallRunning, out: &mut Vec<StreamItem>) {
        // The end of a call that took no time can arrive first.
        if self.told.contains(&call.call_id) {
            return;
        }
        let known = self.calls.iter().find(|(id, _)| *id == call.call_id);
        let line = known.map_or(&call.name, |(_, line)| line);
        let line = format!("runs {line}");
        if self.told.len() < MAX_CALLS {
            self.told.push(call.call_id);
        }
        self.notice(&line, out);
    }

    fn call_end(&mut self, call: CallEnd, out: &mut Vec<StreamItem>) {
        let was_told = self.told.contains(&call.call_id);
        if !was_told && self.told.len() < MAX_CALLS {
            self.told.push(call.call_id.clone());
        }
        let known = self.calls.iter().position(|(id, _)| *id == call.call_id);
        let line = match known {
            Some(at) => self.calls.swap_remove(at).1,
            None => plain_line(&call.name, MAX_NAME),
        };
        let status = plain_line(&call.status.replace('_', " "), MAX_NAME);
        let reason = call.reason.or(call.error);
        let reason = reason.map(|reason| format!(" ({reason})"));
        match (&*call.status, was_told) {
            ("success", true) => {}
            ("success", false) => self.notice(&format!("ran {line}"), out),
            _ => {
                let reason = reason.unwrap_or_default();
                self.notice(&format!("{line}: {status}{reason}"), out);
            }
        }
    }

    fn question(&mut self, question: Question, out: &mut Vec<StreamItem>) {
        let line = match question.view {
            Some(view) if question.kind == "approval" => {
                let facts = view.facts.iter().take(MAX_CALLS);
                let shown = facts.filter(|(name, _)| {
                    ["Danger", "Warning", "Arguments", "Changes"].contains(&name.as_str())
                });
                let shown: Vec<String> = shown
                    .map(|(name, text)| format!("{name}: {}", plain_line(text, MAX_ARGUMENTS)))
                    .collect();
                let tool = plain_line(&view.tool, MAX_NAME);
                format!("asks whether {tool} may run there. {}", shown.join(". "))
            }
            _ => "asks for input".to_owned(),
        };
        self.notice(&line, out);
        let attach = format!("llm --attach {}", plain_line(&self.session, MAX_ID));
        let can_approve = question.answers.iter().any(|answer| answer == "yes");
        self.notice(
            &match can_approve {
                true => format!("the question is answered there: in a terminal ({attach}) or in a paired browser"),
                false => format!("the question is answered there, in a terminal ({attach})"),
            },
            out,
        );
    }

    fn status(&mut self, status: Status) {
        let is_ours = status.message_id.as_ref() == Some(&self.prompt);
        let is_waiting = status.waiting.contains(&self.prompt);
        let was_waiting = std::mem::replace(&mut self.is_waiting, is_waiting);
        // A prompt that waited and was cancelled is never begun.
        let has_ended = self.activity == ServerActivity::Answers || was_waiting && !self.is_waiting;
        if status.status != "idle" {
            self.activity = match is_ours {
                true => ServerActivity::Answers,
                false if has_ended => return self.finish_answer(None),
                false => ServerActivity::AnswersAnother,
            };
            return;
        }
        let failure = status
            .failure
            .filter(|failure| failure.message_id.as_ref() == Some(&self.prompt));
        if has_ended || failure.is_some() {
            self.finish_answer(failure);
        } else {
            self.activity = ServerActivity::Idle;
        }
    }

    /// Ends the answer: as its last round has ended, or with the failure of its prompt.
    fn finish_answer(&mut self, failure: Option<Failure>) {
        let end = match (failure, self.finish.take()) {
            (Some(failure), _) => AnswerEnd::Failed(
                self.said(&failure.message),
                failure.hint.map(|hint| plain_line(&hint, MAX_NOTICE)),
            ),
            (None, Some(end)) => end,
            (None, None) => {
                let why = "the prompt has no answer; it was cancelled, or the server was restarted";
                AnswerEnd::Failed(self.said(why), None)
            }
        };
        self.end.get_or_insert(end);
    }

    /// Adds a line of the server.
    fn notice(&mut self, text: &str, out: &mut Vec<StreamItem>) {
        self.notices += 1;
        let line = match self.notices {
            n if n < MAX_NOTICES => text,
            MAX_NOTICES => "further notices are left out",
            _ => return,
        };
        // Behind a round the notice is between two texts.
        if self.round.is_none() && std::mem::take(&mut self.open_line) {
            out.push(StreamItem::Text("\n".to_owned()));
        }
        out.push(StreamItem::Notice(self.said(line)));
    }

    fn said(&self, text: &str) -> String {
        format!("{}: {}", self.place, plain_line(text, MAX_NOTICE))
    }
}

fn read<'a, T: Deserialize<'a>>(data: &'a [u8], what: &str) -> Result<T, InvalidEvent> {
    // The reason can quote the event, which is not shown.
    serde_json::from_slice(data)
        .map_err(|_| InvalidEvent(format!("{what} has an unexpected format")))
}

fn payload<'a, T: Deserialize<'a>>(data: &'a [u8], kind: &str) -> Result<T, InvalidEvent> {
    read::<Event<T>>(data, kind).map(|event| event.payload)
}

/// Joins neighbouring texts, so that a server that sends single bytes costs little more than others.
pub(super) fn merged(items: Vec<StreamItem>) -> Vec<StreamItem> {
    let mut merged: Vec<StreamItem> = Vec::with_capacity(items.len());
    for item in items {
        match (merged.last_mut(), item) {
            (Some(StreamItem::Text(text)), StreamItem::Text(more)) => text.push_str(&more),
            (_, item) => merged.push(item),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
