//! How a client shows an answer.

/// Format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// Markdown rendered on a terminal, plain text elsewhere.
    Auto,
    /// The unrendered text, on a terminal too.
    Raw,
    /// Every event as a line of JSON.
    Json,
    /// Progress on stderr only: the caller prints the reply.
    ProgressOnly,
}

/// How an answer is shown.
#[derive(Debug, Clone, Copy)]
pub struct OutputOptions {
    /// The form of the text.
    pub format: OutputFormat,
    /// Whether the model's reasoning is shown.
    pub reasoning: bool,
}
