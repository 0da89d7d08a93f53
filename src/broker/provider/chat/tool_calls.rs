//! Assembles the tool calls of an answer from their fragments. Pure.
//!
//! The index of a fragment says which call the fragment belongs to. Some servers leave the index out, give every call
//! the same index, repeat id and name with each fragment, or send neither: this module decides where one call ends and
//! the next begins.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::surrogates::{PairJoiner, mark};
use super::{LenientText, StreamError};
use crate::broker::wire_names::WireNames;
use crate::chat::{ChatMessage, ToolCall};

/// Maximum number of calls in one answer.
const MAX_CALLS: usize = 128;

/// Maximum size of the extra content of one call, in bytes.
const MAX_EXTRA: usize = 64 << 10;

/// Maximum size of the names, ids and arguments of all calls of an answer, in bytes.
const MAX_CALL_BYTES: usize = 4 << 20;

/// A limit that the tool calls of an answer exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallLimit {
    /// Too many calls.
    Count,
    /// Names, ids and arguments are too long.
    Bytes,
    /// Extra content of one call is too long.
    ExtraBytes,
}

impl fmt::Display for CallLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CallLimit::Count => "more than 128 calls of tools",
            CallLimit::Bytes => "tool calls longer than 4 MiB",
            CallLimit::ExtraBytes => "extra content of a call longer than 64 KiB",
        })
    }
}

/// An item of `tool_calls` in an event or in a whole message.
#[derive(Deserialize)]
pub struct CallFragment<'a> {
    #[serde(default)]
    index: Option<i64>,
    #[serde(borrow, default)]
    id: LenientText<'a>,
    #[serde(borrow, default)]
    function: Option<FunctionFragment<'a>>,
    /// Signatures of the reasoning, without which Gemini refuses the next request.
    #[serde(borrow, default)]
    extra_content: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct FunctionFragment<'a> {
    #[serde(borrow, default)]
    name: LenientText<'a>,
    /// A fragment of the JSON text as a string, or the whole object.
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// The tool calls received so far.
#[derive(Debug, Default)]
pub struct CallAssembler {
    calls: Vec<PartialCall>,
    /// Size of names, ids and arguments.
    bytes: usize,
}

#[derive(Debug, Default)]
struct PartialCall {
    index: i64,
    id: String,
    name: String,
    arguments: String,
    extra: Option<String>,
    nesting: JsonNesting,
    pairs: PairJoiner,
}

impl CallAssembler {
    /// Whether no call has arrived.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether there are calls and the arguments of each are complete.
    pub fn is_complete(&self) -> bool {
        !self.is_empty() && self.calls.iter().all(|call| call.nesting.is_complete())
    }

    /// Adds a fragment; `marked` if it comes from `surrogates::mark`.
    ///
    /// # Errors
    /// A limit is exceeded, or the arguments are not a JSON string.
    pub fn add(&mut self, piece: CallFragment<'_>, marked: bool) -> Result<(), StreamError> {
        let function = piece.function.unwrap_or_default();
        let (id, name) = (piece.id.text, function.name.text);
        let (arguments, has_halves) = match function.arguments {
            Some(raw) => fragment(raw)?,
            None => (Cow::Borrowed(""), false),
        };
        let marked = marked || has_halves;
        let extra = piece.extra_content.map(RawValue::get);
        let extra = extra.filter(|extra| *extra != "null");
        if id.is_empty() && name.is_empty() && arguments.is_empty() && extra.is_none() {
            return Ok(());
        }
        let indexed = piece.index.is_some();
        let at = match piece.index {
            Some(index) => self.calls.iter().rposition(|c| c.index == index),
            None => self.calls.len().checked_sub(1),
        };
        let full = self.calls.len() == MAX_CALLS;
        let call = at.and_then(|at| self.calls.get_mut(at));
        match call.filter(|call| call.continues_with(indexed, &id, &name)) {
            Some(call) => call.take(&id, &name, (&arguments, marked), extra, &mut self.bytes),
            // Extra content without a call to belong to.
            None if id.is_empty() && name.is_empty() && arguments.is_empty() => Ok(()),
            None if full => Err(StreamError::CallLimit(CallLimit::Count)),
            None => {
                let next = self.calls.iter().map(|c| c.index.saturating_add(1)).max();
                let mut call = PartialCall {
                    index: piece.index.or(next).unwrap_or(0),
                    ..PartialCall::default()
                };
                call.take(&id, &name, (&arguments, marked), extra, &mut self.bytes)?;
                self.calls.push(call);
                Ok(())
            }
        }
    }

    /// Adds a complete call.
    ///
    /// # Errors
    /// A limit is exceeded.
    pub fn add_complete(
        &mut self,
        id: &str,
        name: &str,
        arguments: &str,
    ) -> Result<(), StreamError> {
        if self.calls.len() == MAX_CALLS {
            return Err(StreamError::CallLimit(CallLimit::Count));
        }
        let mut call = PartialCall {
            index: i64::try_from(self.calls.len()).unwrap_or(i64::MAX),
            ..PartialCall::default()
        };
        call.take(id, name, (arguments, false), None, &mut self.bytes)?;
        self.calls.push(call);
        Ok(())
    }

    /// Returns the calls in order, with tool names instead of wire names, and with ids that are unique among the calls in
    /// `messages`, the conversation so far.
    pub fn take(&mut self, names: &WireNames, messages: &[ChatMessage]) -> Vec<ToolCall> {
        let mut calls = std::mem::take(&mut self.calls);
        calls.sort_by_key(|call| call.index);
        let mut used: HashSet<String> = HashSet::new();
        for message in messages {
            if let ChatMessage::Assistant(answer) = message {
                used.extend(answer.calls.iter().map(|call| call.id.clone()));
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
                name: names.original_name(&call.name).to_owned(),
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

impl PartialCall {
    /// Whether a fragment with this id and name, either of which may be empty, belongs to this call. The fragment has
    /// the call's index, or has no index and arrived after the call.
    fn continues_with(&self, indexed: bool, id: &str, name: &str) -> bool {
        if name.is_empty() {
            // Some servers invent an id for every fragment.
            return indexed || id.is_empty() || id == self.id;
        }
        let same_id = id == self.id || (indexed && id.is_empty());
        if self.name.is_empty() {
            return same_id || self.id.is_empty();
        }
        // Some servers repeat the name with each fragment. After complete arguments it begins another call.
        let known = indexed || !id.is_empty();
        known && same_id && name == self.name && !self.nesting.is_complete()
    }

    fn take(
        &mut self,
        id: &str,
        name: &str,
        (arguments, marked): (&str, bool),
        extra: Option<&str>,
        bytes: &mut usize,
    ) -> Result<(), StreamError> {
        // Some servers repeat id and name with each fragment.
        let new = |known: &str, text: &str| if known.is_empty() { text.len() } else { 0 };
        *bytes += new(&self.id, id) + new(&self.name, name) + arguments.len();
        if *bytes > MAX_CALL_BYTES {
            return Err(StreamError::CallLimit(CallLimit::Bytes));
        }
        if self.id.is_empty() {
            id.clone_into(&mut self.id);
        }
        if self.name.is_empty() {
            name.clone_into(&mut self.name);
        }
        if let Some(extra) = extra {
            if extra.len() > MAX_EXTRA {
                return Err(StreamError::CallLimit(CallLimit::ExtraBytes));
            }
            self.extra = Some(extra.to_owned());
        }
        let arguments = self.pairs.join(Cow::Borrowed(arguments), marked);
        self.arguments.push_str(&arguments);
        self.nesting.follow(&arguments);
        Ok(())
    }
}

/// Returns a fragment of the arguments as text, and whether halves of surrogate pairs are marked in it.
fn fragment(raw: &RawValue) -> Result<(Cow<'_, str>, bool), StreamError> {
    match raw.get() {
        "null" => Ok((Cow::Borrowed(""), false)),
        text if text.starts_with('"') => {
            if let Ok(text) = serde_json::from_str::<LenientText<'_>>(text) {
                return Ok((text.text, false));
            }
            let marked = mark(text).ok_or_else(|| super::bad_json(text))?;
            let text = serde_json::from_str(&marked).map_err(|_| super::bad_json(text))?;
            Ok((Cow::Owned(text), true))
        }
        other => Ok((Cow::Borrowed(other), false)),
    }
}

/// Nesting at the end of a JSON text that arrives in fragments. Each fragment is read once.
#[derive(Debug, Default)]
struct JsonNesting {
    begun: bool,
    depth: usize,
    string: bool,
    escape: bool,
}

impl JsonNesting {
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

    /// Whether a value has begun and ended.
    fn is_complete(&self) -> bool {
        self.begun && self.depth == 0 && !self.string
    }
}

#[cfg(test)]
mod tests;
