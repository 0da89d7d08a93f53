//! Turns a conversation into messages with the roles that a server accepts. Pure.

use std::borrow::Cow;
use std::fmt::Write;

use crate::chat::{ChatMessage, ImageContent, NativeAnswer, ToolCall};

/// The role of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatRole {
    System,
    User,
    Assistant,
    Tool,
}

impl ChatRole {
    /// Returns the name of the role on the wire.
    pub fn name(self) -> &'static str {
        match self {
            ChatRole::System => "system",
            ChatRole::User => "user",
            ChatRole::Assistant => "assistant",
            ChatRole::Tool => "tool",
        }
    }
}

/// One message of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct ChatTurn<'a> {
    pub role: ChatRole,
    pub text: Cow<'a, str>,
    /// Sent before the text, in a user's message only.
    pub images: Vec<&'a ImageContent>,
    /// Calls of an assistant's message.
    pub calls: &'a [ToolCall],
    /// An assistant's message as its provider sent it.
    pub native: Option<&'a NativeAnswer>,
    /// Id of the call whose result a tool's message is.
    pub result_of: Option<&'a str>,
}

impl<'a> ChatTurn<'a> {
    fn new(role: ChatRole, text: impl Into<Cow<'a, str>>) -> ChatTurn<'a> {
        ChatTurn {
            role,
            text: text.into(),
            images: Vec::new(),
            calls: &[],
            native: None,
            result_of: None,
        }
    }
}

/// Text and images of tools that wait for the next user's message.
#[derive(Default)]
struct PendingResults<'a> {
    text: String,
    images: Vec<&'a ImageContent>,
}

impl<'a> PendingResults<'a> {
    /// Returns a user's message with the pending content before `words`.
    fn user_turn(&mut self, words: &'a str) -> ChatTurn<'a> {
        let text = match (self.text.is_empty(), words.is_empty()) {
            (true, _) => Cow::Borrowed(words),
            (false, true) => Cow::Owned(std::mem::take(&mut self.text)),
            (false, false) => Cow::Owned(format!("{}\n\n{words}", std::mem::take(&mut self.text))),
        };
        ChatTurn {
            images: std::mem::take(&mut self.images),
            ..ChatTurn::new(ChatRole::User, text)
        }
    }

    fn say(&mut self, head: &str, name: &str, body: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n\n" };
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{gap}[{head}: {name}]{body}");
    }
}

/// Returns the messages of a request. Without `tool_role`, calls and results become text in the messages of the assistant
/// and the user, which then alternate strictly. With `images`, images of tools go into a user's message after the
/// results, since many servers refuse images in a tool's message.
pub fn turns(messages: &[ChatMessage], tool_role: bool, images: bool) -> Vec<ChatTurn<'_>> {
    let mut turns = Vec::with_capacity(messages.len());
    let mut carried = PendingResults::default();
    for message in messages {
        match message {
            ChatMessage::User(words, attached) => {
                let mut turn = carried.user_turn(words);
                let pictures = attached.iter().filter(|i| images && is_valid_image(i));
                turn.images.extend(pictures);
                turns.push(turn);
                continue;
            }
            ChatMessage::Tool(result) => {
                if tool_role {
                    turns.push(ChatTurn {
                        result_of: Some(&result.id),
                        ..ChatTurn::new(ChatRole::Tool, &result.text)
                    });
                } else {
                    carried.say("tool", &result.name, &format!("\n{}", result.text));
                }
                let pictures = result.images.iter().filter(|i| images && is_valid_image(i));
                let before = carried.images.len();
                carried.images.extend(pictures);
                if tool_role && carried.images.len() > before {
                    carried.say("pictures of tool", &result.name, "");
                }
                continue;
            }
            ChatMessage::System(_) | ChatMessage::Assistant(..) => {}
        }
        if !carried.text.is_empty() {
            turns.push(carried.user_turn(""));
        }
        turns.push(match message {
            ChatMessage::Assistant(answer) if tool_role => ChatTurn {
                calls: &answer.calls,
                native: answer.native.as_deref(),
                ..ChatTurn::new(ChatRole::Assistant, &answer.text)
            },
            ChatMessage::Assistant(answer) => {
                let text = calls_as_text(&answer.text, &answer.calls);
                ChatTurn::new(ChatRole::Assistant, text)
            }
            other => ChatTurn::new(ChatRole::System, other.text()),
        });
    }
    if !carried.text.is_empty() {
        turns.push(carried.user_turn(""));
    }
    turns
}

/// Puts an assistant's message between a tool's and a user's, which Mistral does not accept one after the other.
pub fn separate_results(turns: Vec<ChatTurn<'_>>) -> Vec<ChatTurn<'_>> {
    let mut separated: Vec<ChatTurn<'_>> = Vec::with_capacity(turns.len());
    for turn in turns {
        let before = separated.last().map(|before| before.role);
        if before == Some(ChatRole::Tool) && turn.role == ChatRole::User {
            separated.push(ChatTurn::new(ChatRole::Assistant, "OK"));
        }
        separated.push(turn);
    }
    separated
}

/// Returns an assistant's text with its calls written after it.
fn calls_as_text<'a>(text: &'a str, calls: &[ToolCall]) -> Cow<'a, str> {
    let mut written = Cow::Borrowed(text);
    for call in calls {
        let gap = if written.is_empty() { "" } else { "\n" };
        let arguments = match call.arguments.trim() {
            "" => "{}",
            arguments => arguments,
        };
        let _ = write!(
            written.to_mut(),
            "{gap}[tool_call: {} {arguments}]",
            call.name
        );
    }
    written
}

/// Whether type and data of an image are valid: neither may end the `data:` URL that they are written into.
pub fn is_valid_image(image: &ImageContent) -> bool {
    let kind = image.mime.strip_prefix("image/").unwrap_or("");
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
    let base64 = |b: u8| b.is_ascii_alphanumeric() || b"+/=".contains(&b);
    !kind.is_empty()
        && kind.bytes().all(plain)
        && !image.data.is_empty()
        && image.data.bytes().all(base64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::ToolResult;

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall {
            id: format!("id of {name}"),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            extra: None,
        }
    }

    fn result(name: &str, text: &str, mime: &str) -> ChatMessage {
        ChatMessage::Tool(ToolResult {
            id: format!("id of {name}"),
            name: name.to_owned(),
            text: text.to_owned(),
            images: vec![ImageContent {
                mime: mime.to_owned(),
                data: "aGk=".into(),
            }],
        })
    }

    fn conversation() -> Vec<ChatMessage> {
        let user = |text: &str| ChatMessage::user(text);
        vec![
            ChatMessage::System("s".to_owned()),
            user("u1"),
            ChatMessage::calling(
                "a1".to_owned(),
                vec![call("x.a", "{\"k\": 1}"), call("x.b", "")],
            ),
            result("x.a", "A", "image/png"),
            result("x.b", "B", "text/html"),
            ChatMessage::calling(String::new(), vec![call("x.c", "{oops")]),
            result("x.c", "C", "image/png;x"),
            user("u2"),
            ChatMessage::calling(String::new(), vec![call("x.d", "{}")]),
            result("x.d", "D", "image/svg+xml"),
        ]
    }

    /// Role and text of each turn, with how many pictures it has.
    fn shape<'a>(turns: &'a [ChatTurn<'_>]) -> Vec<(&'static str, &'a str, usize)> {
        let of = |t: &'a ChatTurn<'_>| (t.role.name(), t.text.as_ref(), t.images.len());
        turns.iter().map(of).collect()
    }

    #[test]
    fn with_the_tool_role_every_message_is_a_turn() {
        let talk = conversation();
        let turns = turns(&talk, true, false);
        assert_eq!(
            shape(&turns),
            [
                ("system", "s", 0),
                ("user", "u1", 0),
                ("assistant", "a1", 0),
                ("tool", "A", 0),
                ("tool", "B", 0),
                ("assistant", "", 0),
                ("tool", "C", 0),
                ("user", "u2", 0),
                ("assistant", "", 0),
                ("tool", "D", 0),
            ]
        );
        assert_eq!((turns[2].calls.len(), turns[5].calls.len()), (2, 1));
        assert_eq!(turns[3].result_of, Some("id of x.a"));
    }

    #[test]
    fn pictures_go_in_a_users_turn_behind_the_results() {
        let talk = conversation();
        let turns = turns(&talk, true, true);
        assert_eq!(
            shape(&turns)[3..],
            [
                ("tool", "A", 0),
                ("tool", "B", 0),
                ("user", "[pictures of tool: x.a]", 1),
                ("assistant", "", 0),
                ("tool", "C", 0),
                ("user", "u2", 0),
                ("assistant", "", 0),
                ("tool", "D", 0),
                ("user", "[pictures of tool: x.d]", 1),
            ]
        );
    }

    #[test]
    fn without_the_tool_role_calls_and_results_are_text_and_roles_alternate() {
        let talk = conversation();
        let turns = turns(&talk, false, true);
        assert_eq!(
            shape(&turns),
            [
                ("system", "s", 0),
                ("user", "u1", 0),
                (
                    "assistant",
                    "a1\n[tool_call: x.a {\"k\": 1}]\n[tool_call: x.b {}]",
                    0
                ),
                ("user", "[tool: x.a]\nA\n\n[tool: x.b]\nB", 1),
                ("assistant", "[tool_call: x.c {oops]", 0),
                ("user", "[tool: x.c]\nC\n\nu2", 0),
                ("assistant", "[tool_call: x.d {}]", 0),
                ("user", "[tool: x.d]\nD", 1),
            ]
        );
        let none = |t: &ChatTurn<'_>| t.calls.is_empty() && t.result_of.is_none();
        assert!(turns.iter().all(none));
    }

    #[test]
    fn a_conversation_without_tools_is_borrowed() {
        let talk = [ChatMessage::user("u"), ChatMessage::assistant("a")];
        for tool_role in [true, false] {
            for turn in turns(&talk, tool_role, true) {
                assert!(matches!(turn.text, Cow::Borrowed(_)));
            }
        }
    }
}
