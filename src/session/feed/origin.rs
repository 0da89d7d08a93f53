//! Who started a turn, and how.

use crate::chat::shown_prompt;
use crate::protocol::ShellId;
use crate::safety::redact::global_redactor;

/// Maximum length of the prompt in messages on other terminals, in characters.
pub(super) const PROMPT_LENGTH: usize = 40;

/// Maximum size of the beginning of a prompt that is searched for these words and for secrets, in bytes.
const SEARCHED: usize = 4 << 10;

/// Effect of a disconnect of the client that started a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HangUpPolicy {
    /// The turn is cancelled.
    Cancel,
    /// The turn continues.
    Continue,
}

/// Who started a turn, and how.
#[derive(Debug, Clone)]
pub struct FeedOrigin {
    /// The shell.
    pub shell: Option<ShellId>,
    /// The terminal, `pts/3`.
    pub tty: Option<String>,
    /// The text of the prompt.
    pub prompt: String,
    /// Start time, milliseconds since 1970.
    pub started_ms: u64,
    /// Effect of a disconnect of the client.
    pub hang_up: HangUpPolicy,
}

impl FeedOrigin {
    /// Returns the origin of a request other than a prompt.
    pub fn of_request(shell: Option<ShellId>, tty: Option<String>) -> FeedOrigin {
        FeedOrigin {
            shell,
            tty,
            prompt: String::new(),
            started_ms: 0,
            hang_up: HangUpPolicy::Cancel,
        }
    }

    /// Returns the first words of the prompt in one line and without secrets, for messages on other terminals.
    pub fn words(&self) -> String {
        let start =
            global_redactor().redact_beginning(shown_prompt(&self.prompt).trim_start(), SEARCHED);
        let line = start.split_whitespace().collect::<Vec<_>>().join(" ");
        let visible = |c: &char| !c.is_control();
        match line.chars().filter(visible).count() > PROMPT_LENGTH {
            true => {
                line.chars()
                    .filter(visible)
                    .take(PROMPT_LENGTH - 1)
                    .collect::<String>()
                    + "…"
            }
            false => line.chars().filter(visible).collect(),
        }
    }
}
