//! The conversation that a session's records make. Pure.

use std::collections::HashSet;

use crate::chat::{Image, Message, ToolCall, ToolResult};
use crate::history::record::{Body, Record};

/// What the model is told in place of a result that there is none of.
pub const NO_RESULT: &str = "[no result: the call failed]";

/// The same where the person stopped it.
pub const INTERRUPTED: &str = "[no result: interrupted]";

/// The messages of these records, as they were sent: the user, the assistant, the results of its calls,
/// the assistant again, and so on.
///
/// Whatever happened (a crash, a denial, records that are missing or there twice), every call has exactly one
/// result, in the order of the calls and before anything else; no result is without a call; no two calls
/// have one id. A prompt whose answer never came stands with a note in the answer's place if another
/// prompt follows, so that roles alternate as strict chat templates demand.
pub fn conversation(records: &[Record]) -> Vec<Message> {
    let mut talk = Talk::default();
    for record in records {
        match &record.body {
            Body::User { content, .. } => {
                talk.end_round();
                if matches!(talk.messages.last(), Some(Message::User(_))) {
                    talk.messages.push(Message::assistant("[no answer]"));
                }
                talk.messages.push(Message::User(content.clone()));
            }
            Body::Assistant {
                text,
                calls,
                finish,
                ..
            } => {
                talk.end_round();
                // An answer to nothing, or a second one, is none.
                if matches!(
                    talk.messages.last(),
                    Some(Message::User(_) | Message::Tool(_))
                ) {
                    let text = match finish.as_str() {
                        _ if !text.is_empty() || !calls.is_empty() => text.clone(),
                        "interrupted" => "[interrupted before an answer]".to_string(),
                        _ => "[no answer]".to_string(),
                    };
                    talk.stopped = finish == "interrupted";
                    talk.open = calls
                        .iter()
                        .map(|call| Open {
                            recorded: call.id.clone(),
                            id: talk.ids.make(&call.id),
                            name: call.name.clone(),
                            result: None,
                        })
                        .collect();
                    let calls = calls
                        .iter()
                        .zip(&talk.open)
                        .map(|(call, open)| ToolCall {
                            id: open.id.clone(),
                            name: call.name.clone(),
                            arguments: call.arguments.clone(),
                            extra: call.extra.clone(),
                        })
                        .collect();
                    talk.messages.push(Message::Assistant(text, calls));
                }
            }
            Body::Approval { decision, .. } => talk.stopped |= decision == "stop",
            Body::Tool {
                call,
                status,
                text,
                images,
                ..
            } => {
                talk.stopped |= status == "interrupted";
                let unanswered = |o: &&mut Open| o.recorded == *call && o.result.is_none();
                if let Some(open) = talk.open.iter_mut().find(unanswered) {
                    open.result = Some((told(status, text), pictures(images)));
                }
            }
            _ => {}
        }
    }
    talk.end_round();
    talk.messages
}

/// The conversation while it is read.
#[derive(Default)]
struct Talk {
    messages: Vec<Message>,
    /// The calls of the last answer.
    open: Vec<Open>,
    /// The person stopped those.
    stopped: bool,
    ids: Ids,
}

/// A call whose round is not over.
struct Open {
    /// Its id in the records, which may be that of another call long ago.
    recorded: String,
    id: String,
    name: String,
    result: Option<(String, Vec<Image>)>,
}

impl Talk {
    /// Gives each open call its result.
    fn end_round(&mut self) {
        let missing = if self.stopped { INTERRUPTED } else { NO_RESULT };
        for open in self.open.drain(..) {
            let (text, images) = open
                .result
                .unwrap_or_else(|| (missing.to_string(), Vec::new()));
            self.messages.push(Message::Tool(ToolResult {
                id: open.id,
                name: open.name,
                text,
                images,
            }));
        }
        self.stopped = false;
    }
}

/// The ids that are taken.
#[derive(Default)]
struct Ids(HashSet<String>);

impl Ids {
    /// This id, or another if it is taken. Servers that number the calls of each answer begin anew every time.
    fn make(&mut self, id: &str) -> String {
        let mut made = id.to_string();
        let mut n = self.0.len();
        while made.is_empty() || !self.0.insert(made.clone()) {
            n += 1;
            made = format!("call_{n}");
        }
        made
    }
}

/// What the model is told of a call that ended so: never nothing, which some servers reject.
fn told(status: &str, text: &str) -> String {
    match status {
        _ if !text.is_empty() => text.to_string(),
        "success" | "error" => "[no output]".to_string(),
        "denied" => "[no result: the user denied the call]".to_string(),
        "interrupted" => INTERRUPTED.to_string(),
        _ => NO_RESULT.to_string(),
    }
}

fn pictures(images: &[(String, String)]) -> Vec<Image> {
    images
        .iter()
        .map(|(mime, data)| Image {
            mime: mime.clone(),
            data: data.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests;
