//! What the index keeps of a line of the journal: which act it is, of whom, and what became of it. Pure.

use std::borrow::Cow;

use serde::Deserialize;

use crate::history::record::current_type;
use crate::safety::redact::global_redactor;

/// The kinds of acts, in plain words.
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
/// What becomes of an act.
pub const STATUSES: [&str; 4] = ["success", "error", "denied", "blocked"];
/// What an act does.
pub const OPERATIONS: [&str; 3] = ["read", "write", "destructive"];

/// So many characters are kept of what was said.
const WHAT: usize = 160;
/// So many are looked at, so that no secret is cut before it is known as one.
const NEAR: usize = 1024;

/// What acts have in common by the thousand: a list is made by choosing among these first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ActivityKind {
    /// One of [`TYPES`].
    pub kind: String,
    /// One of [`OPERATIONS`]; none where no tool is called.
    pub operation: Option<String>,
    /// One of [`STATUSES`].
    pub status: String,
    /// The server's alias.
    pub server: Option<String>,
    /// The tool's name at its server.
    pub tool: Option<String>,
}

/// A line as the index keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexRow {
    /// The record's id; see [`Key`].
    pub key: ActivityKey,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// What it has in common with others.
    pub kind: ActivityKind,
    /// The beginning of what was said, called or run.
    pub what: String,
    /// How long it took.
    pub ms: Option<u64>,
    /// Who decided: `person` or `rule`.
    pub by: Option<&'static str>,
    /// The conversation.
    pub session: Option<String>,
    /// What holds a chain of acts together: the prompt's id, or the request's.
    pub chain: Option<String>,
    /// The command line that it came from (of a command, its own): of the first act of a chain alone.
    pub command: Option<String>,
}

/// An id by which acts sort: the bytes of a UUIDv7.
pub type ActivityKey = [u8; 16];

/// The text of a key.
pub fn id_of(key: &ActivityKey) -> String {
    uuid::Uuid::from_bytes(*key).to_string()
}

/// The first key of a millisecond.
pub fn first_of(at_ms: u64) -> ActivityKey {
    let mut key = [0; 16];
    // A time past the year 10889 counts as that year.
    key[..6].copy_from_slice(&at_ms.min((1 << 48) - 1).to_be_bytes()[2..]);
    key
}

/// The fields of all types, as far as the index needs them. Texts without escapes are borrowed: a journal
/// may be large, and all of it is read at once.
#[derive(Debug, Deserialize)]
struct IndexedLine<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(rename = "timestamp_ms", alias = "at_ms")]
    at_ms: u64,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default, alias = "prompt")]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    calls: Vec<Named<'a>>,
    #[serde(borrow, default)]
    finish: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    error: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    decision: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    status: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "decided_by", alias = "by")]
    by: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "action", alias = "act")]
    act: Option<IndexedAction<'a>>,
    #[serde(borrow, default)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    change: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "rule", alias = "what")]
    what: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    alias: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    event: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    target: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    choice: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    command: Option<Cow<'a, str>>,
    #[serde(default)]
    exit: Option<i64>,
    #[serde(default, alias = "ms")]
    duration_ms: Option<u64>,
    #[serde(default)]
    start_ms: Option<u64>,
    #[serde(borrow, default)]
    session: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    shell: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "ids", alias = "links")]
    links: IndexedIds<'a>,
}

#[derive(Debug, Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
struct IndexedAction<'a> {
    #[serde(borrow)]
    server: Cow<'a, str>,
    #[serde(borrow)]
    tool: Cow<'a, str>,
    #[serde(borrow)]
    operation: Cow<'a, str>,
}

#[derive(Debug, Default, Deserialize)]
struct IndexedIds<'a> {
    #[serde(borrow, default)]
    session: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    request: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    command: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    prompt: Option<Cow<'a, str>>,
}

/// What a line of any later version has, too.
#[derive(Debug, Deserialize)]
struct Bare<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(rename = "timestamp_ms", alias = "at_ms")]
    at_ms: u64,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

/// Where a line stands, and what came before it in its file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineContext {
    /// The session whose file it is; none of the files that are no session's.
    pub session: Option<String>,
    /// The last prompt in it: what the records of before there were links belong to.
    pub prompt: Option<String>,
}

/// The row of a line, `None` where that is no record. `spot` tells apart what has no id of ours.
pub fn read(line: &[u8], spot: (&str, u64), place: &mut LineContext) -> Option<IndexRow> {
    let line = match serde_json::from_slice::<IndexedLine<'_>>(line) {
        Ok(line) => line,
        // A later version may say something else by the same name; that it was there is known all the same.
        Err(_) => return bare(serde_json::from_slice(line).ok()?, spot, place),
    };
    let kind = kind(&line);
    let chain = chain(&line, &kind.kind, place);
    let shell = line.shell.as_deref();
    let own = shell
        .zip(line.start_ms)
        .map(|(s, start)| format!("{s}@{start}"));
    let command = match &*kind.kind {
        "shell_command" => line.links.command.as_deref().map(str::to_string).or(own),
        "prompt" => line.links.command.as_deref().map(str::to_string),
        _ if line.links.prompt.is_none() => line.links.command.as_deref().map(str::to_string),
        _ => None,
    };
    let session = line.links.session.as_deref().or(line.session.as_deref());
    Some(IndexRow {
        key: key(&line.id, line.at_ms, spot),
        at_ms: line.at_ms,
        what: beginning(&what(&line, &kind)),
        ms: line.duration_ms.filter(|_| made(&kind)),
        by: by(&line, &kind),
        session: session
            .map(str::to_string)
            .or_else(|| place.session.clone()),
        chain,
        command,
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
    })
}

/// Ids of ours sort by time. One that is none gets a key of its time and its place.
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
        "session" | "attached" => "session",
        "user" => "prompt",
        "assistant" => "answer",
        other => TYPES
            .into_iter()
            .find(|t| *t == current_type(other))
            // Of these words the journal has other meanings, or none yet.
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

/// The four words for all that can become of an act.
fn status(line: &IndexedLine<'_>, kind: &str) -> &'static str {
    let word = |word: &Option<Cow<'_, str>>| word.as_deref().unwrap_or("").to_string();
    match kind {
        "tool" => match &*word(&line.status) {
            "success" => "success",
            "denied" => "denied",
            "blocked" | "invalid_call" | "skipped" => "blocked",
            _ => "error",
        },
        "approval" => match &*word(&line.decision) {
            "no" | "stop" => "denied",
            "denied" | "no_terminal" => "blocked",
            _ => "success",
        },
        "answer" => match &*word(&line.finish) {
            "error" | "interrupted" | "cut_off" => "error",
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

/// Whether it was done at all: a call that was not made took no time.
fn made(kind: &ActivityKind) -> bool {
    kind.kind != "tool" || matches!(&*kind.status, "success" | "error")
}

fn by(line: &IndexedLine<'_>, kind: &ActivityKind) -> Option<&'static str> {
    let word = |word: &Option<Cow<'_, str>>| word.as_deref().unwrap_or("").to_string();
    match &*kind.kind {
        "tool" => match &*word(&line.by) {
            "person" => Some("person"),
            "rule" => Some("rule"),
            // Of before that was written: only a person could.
            _ if kind.status == "denied" => Some("person"),
            _ => None,
        },
        "approval" => match &*word(&line.decision) {
            "rule" | "denied" => Some("rule"),
            "no_terminal" => None,
            _ => Some("person"),
        },
        "command_approval" if line.choice.as_deref() == Some("denied") => Some("rule"),
        "policy" if line.change.as_deref() == Some("lapsed") => None,
        "prompt" | "command_approval" | "command_result" | "shell_command" | "policy" | "model" => {
            Some("person")
        }
        _ => None,
    }
}

/// What a list shows of it, beside the server and the tool.
fn what<'a>(line: &'a IndexedLine<'_>, kind: &ActivityKind) -> Cow<'a, str> {
    let said = |text: &'a Option<Cow<'_, str>>| text.as_deref().unwrap_or("");
    let both = |a: &str, b: &str| Cow::from(format!("{a}: {b}"));
    match &*kind.kind {
        "session" if line.kind == "attached" => "goes on".into(),
        "session" => "begins".into(),
        "model" => said(&line.model).into(),
        "answer" if line.finish.as_deref() == Some("error") => said(&line.error).into(),
        "answer" if said(&line.text).trim().is_empty() && !line.calls.is_empty() => {
            let names: Vec<&str> = line.calls.iter().map(|c| &*c.name).collect();
            format!("calls {}", names.join(", ")).into()
        }
        "prompt" | "answer" => said(&line.text).into(),
        "approval" | "tool" => said(&line.arguments).into(),
        "command_approval" => both(said(&line.choice), said(&line.command)),
        "command_result" | "shell_command" => said(&line.command).into(),
        "policy" => both(said(&line.change), said(&line.what)),
        "server" => both(said(&line.event), said(&line.target)),
        _ => (&*line.kind).into(),
    }
}

/// Without secrets, which records have that are of before they were taken out of all that is written.
fn beginning(text: &str) -> String {
    let text = text.trim_start();
    let near = text
        .char_indices()
        .nth(NEAR)
        .map_or(text.len(), |(at, _)| at);
    let near = global_redactor().redact(text.get(..near).unwrap_or_default());
    near.chars().take(WHAT).collect()
}

/// What the act belongs to: its prompt; without one, its request. The records of before there were links belong
/// to the last prompt of their session.
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
