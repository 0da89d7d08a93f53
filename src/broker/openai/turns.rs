//! The conversation as turns of the roles that a server takes. Pure.

use std::borrow::Cow;
use std::fmt::Write;

use crate::chat::{Image, Message, ToolCall};

/// One turn of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Turn<'a> {
    pub role: &'static str,
    pub text: Cow<'a, str>,
    /// Sent in front of the text; of a user's turn alone.
    pub images: Vec<&'a Image>,
    /// Of an assistant's turn.
    pub calls: &'a [ToolCall],
    /// The call that a tool's turn is the result of.
    pub result_of: Option<&'a str>,
}

impl<'a> Turn<'a> {
    fn new(role: &'static str, text: impl Into<Cow<'a, str>>) -> Turn<'a> {
        Turn {
            role,
            text: text.into(),
            images: Vec::new(),
            calls: &[],
            result_of: None,
        }
    }
}

/// What tools gave that has no turn of its own, until a user's turn takes it along.
#[derive(Default)]
struct Carried<'a> {
    text: String,
    images: Vec<&'a Image>,
}

impl<'a> Carried<'a> {
    /// The user's turn with `words`, behind what was carried.
    fn turn(&mut self, words: &'a str) -> Turn<'a> {
        let text = match (self.text.is_empty(), words.is_empty()) {
            (true, _) => Cow::Borrowed(words),
            (false, true) => Cow::Owned(std::mem::take(&mut self.text)),
            (false, false) => Cow::Owned(format!("{}\n\n{words}", std::mem::take(&mut self.text))),
        };
        Turn {
            images: std::mem::take(&mut self.images),
            ..Turn::new("user", text)
        }
    }

    fn say(&mut self, head: &str, name: &str, body: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n\n" };
        // Writing to a string does not fail.
        let _ = write!(self.text, "{gap}[{head}: {name}]{body}");
    }
}

/// The turns of `messages`. Without `tool_role`, calls and results are text in the turns of the assistant
/// and the user, which then alternate strictly. With `images`, pictures of tools go in a user's turn behind
/// the results, since many servers take none in a tool's.
pub fn turns(messages: &[Message], tool_role: bool, images: bool) -> Vec<Turn<'_>> {
    let mut turns = Vec::with_capacity(messages.len());
    let mut carried = Carried::default();
    for message in messages {
        match message {
            Message::User(words) => {
                turns.push(carried.turn(words));
                continue;
            }
            Message::Tool(result) => {
                if tool_role {
                    turns.push(Turn {
                        result_of: Some(&result.id),
                        ..Turn::new("tool", &result.text)
                    });
                } else {
                    carried.say("tool", &result.name, &format!("\n{}", result.text));
                }
                let pictures = result.images.iter().filter(|i| images && is_sound(i));
                let before = carried.images.len();
                carried.images.extend(pictures);
                if tool_role && carried.images.len() > before {
                    carried.say("pictures of tool", &result.name, "");
                }
                continue;
            }
            Message::System(_) | Message::Assistant(..) => {}
        }
        if !carried.text.is_empty() {
            turns.push(carried.turn(""));
        }
        turns.push(match message {
            Message::Assistant(text, calls) if tool_role => Turn {
                calls,
                ..Turn::new("assistant", text)
            },
            Message::Assistant(text, calls) => Turn::new("assistant", written(text, calls)),
            other => Turn::new("system", other.text()),
        });
    }
    if !carried.text.is_empty() {
        turns.push(carried.turn(""));
    }
    turns
}

/// An assistant's turn with its calls as text.
fn written<'a>(text: &'a str, calls: &[ToolCall]) -> Cow<'a, str> {
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

/// Whether a picture is one by its own words: what goes into a `data:` URL must not end it.
fn is_sound(image: &Image) -> bool {
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

    fn result(name: &str, text: &str, mime: &str) -> Message {
        Message::Tool(ToolResult {
            id: format!("id of {name}"),
            name: name.to_owned(),
            text: text.to_owned(),
            images: vec![Image {
                mime: mime.to_owned(),
                data: "aGk=".to_owned(),
            }],
        })
    }

    fn conversation() -> Vec<Message> {
        let user = |text: &str| Message::User(text.to_owned());
        vec![
            Message::System("s".to_owned()),
            user("u1"),
            Message::Assistant(
                "a1".to_owned(),
                vec![call("x.a", "{\"k\": 1}"), call("x.b", "")],
            ),
            result("x.a", "A", "image/png"),
            result("x.b", "B", "text/html"),
            Message::Assistant(String::new(), vec![call("x.c", "{oops")]),
            result("x.c", "C", "image/png;x"),
            user("u2"),
            Message::Assistant(String::new(), vec![call("x.d", "{}")]),
            result("x.d", "D", "image/svg+xml"),
        ]
    }

    /// Role and text of each turn, with how many pictures it has.
    fn shape<'a>(turns: &'a [Turn<'_>]) -> Vec<(&'static str, &'a str, usize)> {
        let of = |t: &'a Turn<'_>| (t.role, t.text.as_ref(), t.images.len());
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
        let none = |t: &Turn<'_>| t.calls.is_empty() && t.result_of.is_none();
        assert!(turns.iter().all(none));
    }

    #[test]
    fn a_conversation_without_tools_is_borrowed() {
        let talk = [Message::User("u".to_owned()), Message::assistant("a")];
        for tool_role in [true, false] {
            for turn in turns(&talk, tool_role, true) {
                assert!(matches!(turn.text, Cow::Borrowed(_)));
            }
        }
    }
}
