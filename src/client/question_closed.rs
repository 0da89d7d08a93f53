//! Questions that were closed elsewhere: answered on another terminal, timed out or withdrawn.

use super::terminal_prompt::PromptEnd;
use crate::protocol::{Event, QuestionOutcome};
use crate::safety::text::one_line;

/// Returns how a `question_closed` event ends the question `id` on this terminal.
pub fn end_by_close(event: &Event, id: &str) -> Option<PromptEnd> {
    match event {
        Event::QuestionClosed {
            id: closed,
            answered_in,
            outcome,
        } if closed == id => Some(match outcome {
            QuestionOutcome::Withdrawn => PromptEnd::Withdrawn,
            outcome => PromptEnd::AnsweredElsewhere(closed_text(answered_in.as_deref(), *outcome)),
        }),
        _ => None,
    }
}

/// Says where and how a question was closed: `answered in pts/3: allowed once`.
pub fn closed_text(tty: Option<&str>, outcome: QuestionOutcome) -> String {
    let outcome = match outcome {
        QuestionOutcome::AllowedOnce => "allowed once",
        QuestionOutcome::AllowedTool => "the tool is allowed for this session",
        QuestionOutcome::AllowedReads => "reads are allowed for this session",
        QuestionOutcome::AllowedAlways => "always allowed",
        QuestionOutcome::Denied => "denied",
        QuestionOutcome::Stopped => "denied, and the turn stopped",
        QuestionOutcome::Accepted => "accepted",
        QuestionOutcome::Declined => "declined",
        QuestionOutcome::Dismissed => "dismissed",
        QuestionOutcome::NoTerminal => return "no terminal could answer: denied".to_string(),
        QuestionOutcome::TimedOut => return "nobody answered in time: denied".to_string(),
        QuestionOutcome::Withdrawn => return "the question was withdrawn".to_string(),
    };
    match tty {
        Some(tty) => format!("answered in {}: {outcome}", one_line(tty, 40)),
        None => format!("answered in another terminal: {outcome}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(tty: Option<&str>, outcome: QuestionOutcome) -> Option<PromptEnd> {
        let event = Event::QuestionClosed {
            id: "q1".into(),
            answered_in: tty.map(str::to_string),
            outcome,
        };
        assert_eq!(end_by_close(&event, "q2"), None);
        end_by_close(&event, "q1")
    }

    #[test]
    fn a_closed_question_says_where_and_how() {
        let elsewhere = |text: &str| Some(PromptEnd::AnsweredElsewhere(text.into()));
        assert_eq!(
            closed(Some("pts/3"), QuestionOutcome::AllowedOnce),
            elsewhere("answered in pts/3: allowed once")
        );
        assert_eq!(
            closed(Some("\x1b[2J"), QuestionOutcome::Denied),
            elsewhere("answered in ‹\\x1b›[2J: denied")
        );
        assert_eq!(
            closed(None, QuestionOutcome::Declined),
            elsewhere("answered in another terminal: declined")
        );
        assert_eq!(
            closed(None, QuestionOutcome::TimedOut),
            elsewhere("nobody answered in time: denied")
        );
        assert_eq!(
            closed(None, QuestionOutcome::Withdrawn),
            Some(PromptEnd::Withdrawn)
        );
    }
}
