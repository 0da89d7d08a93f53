//! What a model is sent, without secrets.
//!
//! Records have lost theirs when they were made. This is for what is in no record (instructions, tools, words to one
//! command), for the journals of earlier versions, and for values that were learned later.

use std::borrow::Cow;

use crate::chat::{Message, Tool};
use crate::safety::redact::ours;

/// The messages as they go out.
pub fn messages(messages: &[Message]) -> Cow<'_, [Message]> {
    let redacted = |text: &String| owned(ours().redact(text));
    each(messages, |message| {
        let mut new = message.clone();
        let mut any = false;
        let mut put = |text: &mut String, redacted: Option<String>| {
            any |= redacted.is_some();
            *text = redacted.unwrap_or_else(|| std::mem::take(text));
        };
        match &mut new {
            Message::System(text) | Message::User(text) => {
                let new = redacted(text);
                put(text, new);
            }
            Message::Assistant(text, calls) => {
                let new = redacted(text);
                put(text, new);
                for call in calls {
                    let arguments = owned(ours().redact_json(&call.arguments));
                    put(&mut call.arguments, arguments);
                }
            }
            Message::Tool(result) => {
                let text = redacted(&result.text);
                put(&mut result.text, text);
            }
        }
        any.then_some(new)
    })
}

/// The tools as they go out.
pub fn tools(tools: &[Tool]) -> Cow<'_, [Tool]> {
    each(tools, |tool| {
        let description = owned(ours().redact(&tool.description));
        let schema = owned(ours().redact_json(&tool.schema));
        (description.is_some() || schema.is_some()).then(|| Tool {
            description: description.unwrap_or_else(|| tool.description.clone()),
            schema: schema.unwrap_or_else(|| tool.schema.clone()),
            ..tool.clone()
        })
    })
}

fn owned(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Owned(text) => Some(text),
        Cow::Borrowed(_) => None,
    }
}

/// Copies only where there is something to change: a long conversation is sent again with each prompt.
fn each<T: Clone>(all: &[T], change: impl Fn(&T) -> Option<T>) -> Cow<'_, [T]> {
    let mut out = Cow::Borrowed(all);
    for (at, one) in all.iter().enumerate() {
        if let Some(new) = change(one) {
            out.to_mut()[at] = new;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{ToolCall, ToolResult};

    const TOKEN: &str = concat!("glpat-", "q7Rk2ZpL9vXw3TbN5mHs");

    #[test]
    fn nothing_goes_out_with_a_secret_and_the_rest_as_it_is() {
        let call = |arguments: String| ToolCall {
            arguments,
            ..ToolCall::default()
        };
        let result = |text: String| ToolResult {
            text,
            ..ToolResult::default()
        };
        let talk = |secret: &str| {
            vec![
                Message::System(format!("be {secret}")),
                Message::User("plain".into()),
                Message::Assistant(secret.into(), vec![call(format!("{{\"a\":\"{secret}\"}}"))]),
                Message::Tool(result(format!("x\n{secret}"))),
            ]
        };
        let mark = "[REDACTED:gitlab-token]";
        assert_eq!(messages(&talk(TOKEN)).into_owned(), talk(mark));
        assert!(matches!(messages(&talk("nothing")), Cow::Borrowed(_)));
    }
}
