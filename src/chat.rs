//! The vocabulary of a conversation. No serde here: each serialised border
//! (`protocol`, `history::record`, provider JSON) has types of its own.

/// One message of what the model is sent, in the order of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The instructions.
    System(String),
    /// What the user said, with what the shell knows in front of it.
    User(String),
    /// What the model answered.
    Assistant(String),
}

impl Message {
    /// The text of the message.
    pub fn text(&self) -> &str {
        match self {
            Message::System(t) | Message::User(t) | Message::Assistant(t) => t,
        }
    }
}

/// Tokens that one request took, as the provider counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the request.
    pub prompt_tokens: u64,
    /// Tokens of the answer.
    pub completion_tokens: u64,
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It was done.
    Stop,
    /// It ran into `max_tokens` or the end of its context window.
    Length,
    /// The provider filtered the answer.
    ContentFilter,
    /// The user stopped it.
    Interrupted,
}

impl Finish {
    /// The word for it on the wire, in the history and in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::ContentFilter => "content_filter",
            Finish::Interrupted => "interrupted",
        }
    }
}

/// A part of an answer, in the order of its arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// Text of the answer.
    Text(String),
    /// What the model thinks before it answers; not part of the answer.
    Reasoning(String),
    /// What the server says the model is. At most once.
    Model(String),
    /// The tokens that the request took. At most once, at the end.
    Usage(Usage),
    /// Something to tell the user while it lasts: a wait before another try.
    Notice(String),
    /// The answer is complete; nothing follows.
    Done(Finish),
}
