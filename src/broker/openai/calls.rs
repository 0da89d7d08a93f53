//! The calls of an answer, put together from their pieces. Pure.
//!
//! A piece says by its index which call it belongs to. Servers leave the index
//! out, give every call the same one, repeat id and name with each piece, or
//! send none: what is one call and what another is decided here.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Fault, Text};
use crate::broker::names::Names;
use crate::chat::{Message, ToolCall};

/// The most calls of one answer.
const MAX_CALLS: usize = 128;

/// The most that the extra content of one call may take, in bytes.
const MAX_EXTRA: usize = 64 << 10;

/// The most that the arguments of one call may take, in bytes.
const MAX_ARGUMENTS: usize = 4 << 20;

/// One of `tool_calls` in an event or in a whole message.
#[derive(Deserialize)]
pub struct Piece<'a> {
    #[serde(default)]
    index: Option<i64>,
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow, default)]
    function: Option<Function<'a>>,
    /// Signatures of thoughts, without which Gemini refuses the next request.
    #[serde(borrow, default)]
    extra_content: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    /// A fragment of the text, as a string; or the object itself.
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// What has come of the calls.
#[derive(Debug, Default)]
pub struct Calls(Vec<Call>);

#[derive(Debug, Default)]
struct Call {
    index: i64,
    id: String,
    name: String,
    arguments: String,
    extra: Option<String>,
    nesting: Nesting,
}

impl Calls {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there are calls and none of them lacks a part of its arguments.
    pub fn whole(&self) -> bool {
        !self.is_empty() && self.0.iter().all(|call| call.nesting.whole())
    }

    /// Takes a piece.
    ///
    /// # Errors
    /// Too many calls, too long arguments or extra content, or arguments that are no JSON string.
    pub fn add(&mut self, piece: Piece<'_>) -> Result<(), Fault> {
        let function = piece.function.unwrap_or_default();
        let (id, name) = (piece.id.text, function.name.text);
        let arguments = match function.arguments {
            Some(raw) => fragment(raw)?,
            None => Cow::Borrowed(""),
        };
        let extra = piece.extra_content.map(RawValue::get);
        let extra = extra.filter(|extra| *extra != "null");
        if id.is_empty() && name.is_empty() && arguments.is_empty() && extra.is_none() {
            return Ok(());
        }
        let indexed = piece.index.is_some();
        let at = match piece.index {
            Some(index) => self.0.iter().rposition(|c| c.index == index),
            None => self.0.len().checked_sub(1),
        };
        let full = self.0.len() == MAX_CALLS;
        let call = at.and_then(|at| self.0.get_mut(at));
        match call.filter(|call| call.goes_on(indexed, &id, &name)) {
            Some(call) => call.take(&id, &name, &arguments, extra),
            // Of no call that there is.
            None if id.is_empty() && name.is_empty() && arguments.is_empty() => Ok(()),
            None if full => Err(Fault::Calls("more than 128 calls of tools")),
            None => {
                let next = self.0.iter().map(|c| c.index.saturating_add(1)).max();
                let mut call = Call {
                    index: piece.index.or(next).unwrap_or(0),
                    ..Call::default()
                };
                call.take(&id, &name, &arguments, extra)?;
                self.0.push(call);
                Ok(())
            }
        }
    }

    /// The calls in their order, under the names that tools have here, each with an id that no other call
    /// of the conversation has: `messages` is what the answer is to.
    pub fn take(&mut self, names: &Names, messages: &[Message]) -> Vec<ToolCall> {
        let mut calls = std::mem::take(&mut self.0);
        calls.sort_by_key(|call| call.index);
        let mut used: HashSet<String> = HashSet::new();
        for message in messages {
            if let Message::Assistant(_, calls) = message {
                used.extend(calls.iter().map(|call| call.id.clone()));
            }
        }
        for call in &mut calls {
            if !call.id.is_empty() && !used.insert(call.id.clone()) {
                call.id.clear();
            }
        }
        let mut free = (1..).map(|n: usize| format!("call_{n}"));
        let mut calls: Vec<ToolCall> = calls
            .into_iter()
            .map(|call| ToolCall {
                name: names.ours(&call.name).to_owned(),
                id: call.id,
                arguments: call.arguments,
                extra: call.extra,
            })
            .collect();
        for call in calls.iter_mut().filter(|call| call.id.is_empty()) {
            call.id = free.find(|id| !used.contains(id)).unwrap_or_default();
        }
        calls
    }
}

impl Call {
    /// Whether a piece with this id and name, either of which may be empty, belongs to this call. The
    /// piece has the call's index, or has none and came after it.
    fn goes_on(&self, indexed: bool, id: &str, name: &str) -> bool {
        if name.is_empty() {
            // Some servers make up another id for every piece.
            return indexed || id.is_empty() || id == self.id;
        }
        let same_id = id == self.id || (indexed && id.is_empty());
        if self.name.is_empty() {
            return same_id || self.id.is_empty();
        }
        // A name again: with each piece, until the arguments are whole; what comes then is another call.
        let known = indexed || !id.is_empty();
        known && same_id && name == self.name && !self.nesting.whole()
    }

    fn take(
        &mut self,
        id: &str,
        name: &str,
        arguments: &str,
        extra: Option<&str>,
    ) -> Result<(), Fault> {
        if self.id.is_empty() {
            id.clone_into(&mut self.id);
        }
        if self.name.is_empty() {
            name.clone_into(&mut self.name);
        }
        if arguments.len() > MAX_ARGUMENTS.saturating_sub(self.arguments.len()) {
            return Err(Fault::Calls("arguments of a tool longer than 4 MiB"));
        }
        if let Some(extra) = extra {
            if extra.len() > MAX_EXTRA {
                return Err(Fault::Calls("extra content of a call longer than 64 KiB"));
            }
            self.extra = Some(extra.to_owned());
        }
        self.arguments.push_str(arguments);
        self.nesting.follow(arguments);
        Ok(())
    }
}

/// A piece of the arguments as text.
fn fragment(raw: &RawValue) -> Result<Cow<'_, str>, Fault> {
    match raw.get() {
        "null" => Ok(Cow::Borrowed("")),
        text if text.starts_with('"') => serde_json::from_str::<Text<'_>>(text)
            .map(|text| text.text)
            .map_err(|_| super::bad_json(text)),
        other => Ok(Cow::Borrowed(other)),
    }
}

/// Where in a JSON text its end so far lies. Followed piece by piece, so that a long text in many pieces
/// is read once.
#[derive(Debug, Default)]
struct Nesting {
    begun: bool,
    depth: usize,
    string: bool,
    escape: bool,
}

impl Nesting {
    fn follow(&mut self, text: &str) {
        for byte in text.bytes() {
            match (self.string, byte) {
                (true, _) if self.escape => self.escape = false,
                (true, b'\\') => self.escape = true,
                (true, b'"') => self.string = false,
                (true, _) => {}
                (false, b'"') => self.string = true,
                (false, b'{' | b'[') => {
                    self.begun = true;
                    self.depth += 1;
                }
                (false, b'}' | b']') => self.depth = self.depth.saturating_sub(1),
                (false, _) => {}
            }
        }
    }

    /// Whether an object has begun and ended.
    fn whole(&self) -> bool {
        self.begun && self.depth == 0 && !self.string
    }
}

#[cfg(test)]
mod tests;
