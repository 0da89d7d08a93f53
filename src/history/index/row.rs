//! Converts a line of the journal to a row of the index: type, status, operation, who decided. Pure.

mod line;

use std::borrow::Cow;

use self::line::{Bare, IndexedLine};
use super::usage::{UsageSource, UsageSum};
use crate::chat::CONTINUED;
use crate::history::record::{current_type, is_aish};
use crate::safety::redact::global_redactor;

/// Types of activities, as shown and filtered by `aish-helper activity`.
pub const TYPES: [&str; 12] = [
    "session",
    "model",
    "prompt",
    "answer",
    "approval",
    "tool",
    "command_approval",
    "command_result",
    "shell_command",
    "policy",
    "server",
    "other",
];
/// Statuses of activities. The user stopped an `interrupted` one, so it is not an error.
pub const STATUSES: [&str; 5] = ["success", "error", "denied", "blocked", "interrupted"];
/// Operation classes of tool calls.
pub const OPERATIONS: [&str; 3] = ["read", "write", "destructive"];

/// Number of characters kept of a text.
const SUMMARY: usize = 160;
/// Maximum number of tokens counted of a request.
const MAX_TOKENS: u64 = 1_000_000_000;
/// Number of characters that are redacted before the text is cut, so that a secret is recognised before it is cut.
const REDACTED_PREFIX: usize = 1024;

/// Properties shared by thousands of activities. A filter selects among these first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ActivityKind {
    /// One of [`TYPES`].
    pub kind: String,
    /// One of [`OPERATIONS`]; only for tool calls and their approvals.
    pub operation: Option<String>,
    /// One of [`STATUSES`].
    pub status: String,
    /// Alias of the server.
    pub server: Option<String>,
    /// Name of the tool at its server.
    pub tool: Option<String>,
}

/// A row of the index.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexRow {
    /// Id of the record.
    pub key: ActivityKey,
    /// Time in milliseconds since 1970.
    pub at_ms: u64,
    /// Type, operation, status, server and tool.
    pub kind: ActivityKind,
    /// Beginning of the prompt, answer, arguments or command.
    pub what: String,
    /// Duration.
    pub ms: Option<u64>,
    /// `person` or `rule`, if a decision was made; `chain` for a prompt that nobody typed.
    pub by: Option<&'static str>,
    /// The session.
    pub session: Option<String>,
    /// Id of the chain: of the prompt, or without one, of the request.
    pub chain: Option<String>,
    /// Id of the command line that started the chain, only on the first activity of a chain; for a shell command its own.
    pub command: Option<String>,
    /// Id of the command line whose output was sent with a prompt.
    pub output_of: Option<String>,
    /// Tokens and cost of an answer.
    pub usage: Option<(UsageSource, UsageSum)>,
}

/// Sort key of an activity: the bytes of a UUIDv7.
pub type ActivityKey = [u8; 16];

/// Returns the id of a key.
pub fn id_of(key: &ActivityKey) -> String {
    uuid::Uuid::from_bytes(*key).to_string()
}

/// Returns the first key of a millisecond.
pub fn first_of(at_ms: u64) -> ActivityKey {
    let mut key = [0; 16];
    // A time past the year 10889 counts as that year.
    key[..6].copy_from_slice(&at_ms.min((1 << 48) - 1).to_be_bytes()[2..]);
    key
}

/// Context of a line from its file name and earlier lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineContext {
    /// Session of the file; none for `shells.jsonl` and the audit log.
    pub session: Option<String>,
    /// Last prompt in the file, which records without ids belong to.
    pub prompt: Option<String>,
    /// Prompt pack of that prompt.
    pub pack: Option<String>,
}

/// Returns the row of a line, or `None` if the line is not a record. `spot` makes the key of a record without a UUIDv7
/// unique.
pub fn read(line: &[u8], spot: (&str, u64), place: &mut LineContext) -> Option<IndexRow> {
    let line = match serde_json::from_slice::<IndexedLine<'_>>(line) {
        Ok(line) => line,
        // A later version may use a field name for another type; the record is then listed as `other`.
        Err(_) => return bare(serde_json::from_slice(line).ok()?, spot, place),
    };
    let kind = kind(&line);
    let chain = chain(&line, &kind.kind, place);
    let shell = line.shell.as_deref();
    let command_id = |start: Option<u64>| Some(format!("{}@{}", shell?, start?));
    let own = command_id(line.start_ms);
    let output = line.output.as_ref().filter(|_| kind.kind == "prompt");
    let output_of = command_id(output.and_then(|output| output.started_ms));
    let command = match &*kind.kind {
        "shell_command" => line.links.command.as_deref().map(str::to_string).or(own),
        "prompt" => line.links.command.as_deref().map(str::to_string),
        _ if line.links.prompt.is_none() => line.links.command.as_deref().map(str::to_string),
        _ => None,
    };
    let session = line.links.session.as_deref().or(line.session.as_deref());
    if kind.kind == "prompt" {
        place.pack = line.pack.as_ref().map(|pack| pack.name.to_string());
    }
    Some(IndexRow {
        usage: usage(&line, &kind, place),
        key: key(&line.id, line.at_ms, spot),
        at_ms: line.at_ms,
        what: beginning(&what(&line, &kind)),
        ms: line
            .duration_ms
            .filter(|_| made(&kind) && !waits_for_model(&line, &kind)),
        by: by(&line, &kind),
        session: session
            .map(str::to_string)
            .or_else(|| place.session.clone()),
        chain,
        command,
        output_of,
        kind,
    })
}

fn bare(line: Bare<'_>, spot: (&str, u64), place: &LineContext) -> Option<IndexRow> {
    Some(IndexRow {
        key: key(&line.id, line.at_ms, spot),
        at_ms: line.at_ms,
        kind: ActivityKind {
            kind: "other".into(),
            status: "success".into(),
            ..ActivityKind::default()
        },
        what: beginning(&line.kind),
        ms: None,
        by: None,
        session: place.session.clone(),
        chain: None,
        command: None,
        output_of: None,
        usage: None,
    })
}

/// Returns the usage and cost of an answer. A request that failed and used nothing has no cost that would be unknown.
fn usage(
    line: &IndexedLine<'_>,
    kind: &ActivityKind,
    place: &LineContext,
) -> Option<(UsageSource, UsageSum)> {
    if kind.kind != "answer" {
        return None;
    }
    let failed = kind.status == "error";
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let cost = line.cost.filter(|cost| cost.is_finite() && *cost >= 0.0);
    // A server reports any number; the sums stay within 64 bits.
    let tokens = |tokens: Option<u64>| tokens.unwrap_or(0).min(MAX_TOKENS);
    let source = UsageSource {
        model: text(line.model.as_deref()),
        provider: text(line.provider.as_deref()),
        pack: text(place.pack.as_deref()),
    };
    let sum = UsageSum {
        requests: 1,
        failures: failed.into(),
        input: tokens(line.prompt_tokens),
        cache_read: tokens(Some(line.cache_read_tokens)),
        cache_write: tokens(Some(line.cache_write_tokens)),
        output: tokens(line.completion_tokens),
        reasoning: tokens(Some(line.reasoning_tokens)),
        cost: cost.unwrap_or(0.0),
        estimated: line.cost_estimated.into(),
        unpriced: (cost.is_none() && !(failed && line.prompt_tokens.is_none())).into(),
    };
    Some((source, sum))
}

/// Returns the UUIDv7 of a record, which sorts by time; for any other id, a key made of its time and position.
fn key(id: &str, at_ms: u64, (file, offset): (&str, u64)) -> ActivityKey {
    match uuid::Uuid::try_parse(id) {
        Ok(id) if id.get_version_num() == 7 => id.into_bytes(),
        _ => {
            let mut key = first_of(at_ms);
            key[6] = 0x70;
            key[7..12].copy_from_slice(&offset.to_be_bytes()[3..]);
            let sum = file.bytes().fold(0x811c_9dc5_u32, |sum, b| {
                (sum ^ u32::from(b)).wrapping_mul(0x0100_0193)
            });
            key[12..].copy_from_slice(&sum.to_be_bytes());
            key
        }
    }
}

fn kind(line: &IndexedLine<'_>) -> ActivityKind {
    let kind = match &*line.kind {
        "session" | "attached" | "title" | "session_setting" | "compaction" => "session",
        "user" => "prompt",
        "assistant" => "answer",
        other => TYPES
            .into_iter()
            .find(|t| *t == current_type(other))
            // The journal uses these names for other types.
            .filter(|t| !matches!(*t, "prompt" | "answer"))
            .unwrap_or("other"),
    };
    let (server, tool) = match (&line.act, kind) {
        (Some(act), _) if !act.server.is_empty() => {
            (Some(act.server.to_string()), Some(act.tool.to_string()))
        }
        (_, "server") => (line.alias.as_deref().map(str::to_string), None),
        (_, "approval" | "tool") => {
            let name = line.name.as_deref().unwrap_or("");
            match name.split_once('.') {
                Some((server, tool)) => (Some(server.to_string()), Some(tool.to_string())),
                None => (None, Some(name.to_string()).filter(|n| !n.is_empty())),
            }
        }
        _ => (None, None),
    };
    let operation = line.act.as_ref().map(|act| &*act.operation);
    ActivityKind {
        kind: kind.to_string(),
        operation: operation
            .filter(|o| OPERATIONS.contains(o))
            .map(str::to_string),
        status: status(line, kind).to_string(),
        server,
        tool,
    }
}

/// Returns the status of an activity, one of [`STATUSES`].
fn status(line: &IndexedLine<'_>, kind: &str) -> &'static str {
    let word = |word: &Option<Cow<'_, str>>| word.as_deref().unwrap_or("").to_string();
    match kind {
        "tool" => match &*word(&line.status) {
            "success" => "success",
            "denied" => "denied",
            "blocked" | "invalid_call" | "skipped" => "blocked",
            "interrupted" => "interrupted",
            _ => "error",
        },
        "approval" => match &*word(&line.decision) {
            "no" | "stop" => "denied",
            "cancelled" => "interrupted",
            "denied" | "no_terminal" | "timed_out" => "blocked",
            _ => "success",
        },
        "answer" => match &*word(&line.finish) {
            "error" | "cut_off" => "error",
            "interrupted" => "interrupted",
            _ => "success",
        },
        "command_approval" => match &*word(&line.choice) {
            "no" | "quit" => "denied",
            "denied" => "blocked",
            _ => "success",
        },
        "command_result" | "shell_command" if line.exit.is_some_and(|exit| exit != 0) => "error",
        "server" => match &*word(&line.event) {
            "failed" | "login" => "error",
            _ if line.error.is_some() => "error",
            _ => "success",
        },
        _ => "success",
    }
}

/// Whether the activity was started: a call that was not made has no duration.
fn made(kind: &ActivityKind) -> bool {
    kind.kind != "tool" || matches!(&*kind.status, "success" | "error" | "interrupted")
}

/// Whether the duration of a command line is that of the model, which its answer has.
fn waits_for_model(line: &IndexedLine<'_>, kind: &ActivityKind) -> bool {
    kind.kind == "shell_command" && line.command.as_deref().is_some_and(is_aish)
}

fn by(line: &IndexedLine<'_>, kind: &ActivityKind) -> Option<&'static str> {
    let word = |word: &Option<Cow<'_, str>>| word.as_deref().unwrap_or("").to_string();
    match &*kind.kind {
        "tool" => match &*word(&line.by) {
            "person" => Some("person"),
            "rule" => Some("rule"),
            // Older records lack the field; only the user could deny.
            _ if kind.status == "denied" => Some("person"),
            _ => None,
        },
        "approval" => match &*word(&line.decision) {
            "rule" | "denied" => Some("rule"),
            "no_terminal" | "timed_out" | "cancelled" => None,
            _ => Some("person"),
        },
        "command_approval" if line.choice.as_deref() == Some("denied") => Some("rule"),
        "prompt" if line.text.as_deref() == Some(CONTINUED) => Some("chain"),
        "policy" if line.change.as_deref() == Some("lapsed") => None,
        "prompt" | "command_approval" | "command_result" | "shell_command" | "policy" | "model" => {
            Some("person")
        }
        _ => None,
    }
}

/// Returns the text shown in a list, beside server and tool.
fn what<'a>(line: &'a IndexedLine<'_>, kind: &ActivityKind) -> Cow<'a, str> {
    let text_or_empty = |text: &'a Option<Cow<'_, str>>| text.as_deref().unwrap_or("");
    let both = |a: &str, b: &str| Cow::from(format!("{a}: {b}"));
    match &*kind.kind {
        "session" if line.kind == "attached" => "goes on".into(),
        "session" if line.kind == "title" => "gets a title".into(),
        "session" if line.kind == "session_setting" => "changes a setting".into(),
        "session" if line.kind == "compaction" => "is summarized".into(),
        "session" => "begins".into(),
        "model" => text_or_empty(&line.model).into(),
        "answer" if line.finish.as_deref() == Some("error") => text_or_empty(&line.error).into(),
        "answer" if text_or_empty(&line.text).trim().is_empty() && !line.calls.is_empty() => {
            let names: Vec<&str> = line.calls.iter().map(|c| &*c.name).collect();
            format!("calls {}", names.join(", ")).into()
        }
        "prompt" | "answer" => text_or_empty(&line.text).into(),
        "approval" | "tool" => text_or_empty(&line.arguments).into(),
        "command_approval" => both(text_or_empty(&line.choice), text_or_empty(&line.command)),
        "command_result" | "shell_command" => text_or_empty(&line.command).into(),
        "policy" => both(text_or_empty(&line.change), text_or_empty(&line.what)),
        "server" => both(text_or_empty(&line.event), text_or_empty(&line.target)),
        // Not of the type `prompt`: it counts once its turn has recorded it.
        _ if line.kind == "waiting_prompt" => both("waiting prompt", text_or_empty(&line.text)),
        _ => (&*line.kind).into(),
    }
}

/// Returns the redacted beginning of a text: older records may contain secrets.
fn beginning(text: &str) -> String {
    let near = global_redactor().redact_beginning(text.trim_start(), REDACTED_PREFIX);
    near.chars().take(SUMMARY).collect()
}

/// Returns the chain of an activity: its prompt, or without one, its request. Records without ids belong to the last prompt
/// of their session.
fn chain(line: &IndexedLine<'_>, kind: &str, place: &mut LineContext) -> Option<String> {
    if let Some(prompt) = line.links.prompt.as_deref() {
        return Some(prompt.to_string());
    }
    if kind == "prompt" {
        place.prompt = Some(line.id.to_string());
        return place.prompt.clone();
    }
    match (line.links.request.as_deref(), kind) {
        (Some(request), _) => Some(request.to_string()),
        (None, "answer" | "approval" | "tool" | "command_approval" | "command_result") => {
            place.prompt.clone()
        }
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests;
