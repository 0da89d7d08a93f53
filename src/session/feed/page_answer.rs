//! Answers that a person gives in a paired browser, and questions that are closed.

use super::{GivenAnswer, TurnEvent, TurnFeed};
use crate::protocol::QuestionOutcome;
use crate::protocol::tools::Reaction;
use crate::session::lock;

/// The place that terminals show for the answer of a paired browser.
pub const THE_PAGE: &str = "the page";

/// The place of a request over HTTP, where others have a terminal.
pub const THE_API: &str = "the HTTP API";

/// Where a person has answered, as it is recorded.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct AnswerPlace {
    /// The device of the terminal, as the kernel reports it.
    pub terminal: Option<String>,
    /// The paired browser, by the id of its pairing.
    pub browser: Option<String>,
}

impl AnswerPlace {
    /// Returns the place of an answer in a terminal.
    pub fn terminal(terminal: Option<String>) -> AnswerPlace {
        AnswerPlace {
            terminal,
            browser: None,
        }
    }
}

/// Why an answer of a paired browser does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerRefusal {
    /// The turn has not asked this.
    Unknown,
    /// The question is closed, or was answered just now.
    Closed,
    /// Something else was shown.
    OtherDigest,
}

/// How a question was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedQuestion {
    /// The question.
    pub id: String,
    /// Where the answer was given.
    pub answered_in: Option<String>,
    /// The answer.
    pub outcome: QuestionOutcome,
}

impl TurnFeed {
    /// Takes the answer of a paired browser. As with terminals, the first answer with the digest of the question wins.
    ///
    /// # Errors
    /// The answer does not count.
    pub fn answer_in_page(
        &self,
        reaction: Reaction,
        browser: String,
    ) -> std::result::Result<(), AnswerRefusal> {
        let (Reaction::Call { id, digest, .. } | Reaction::Elicit { id, digest, .. }) = &reaction;
        let mut state = lock(&self.state);
        let Some(at) = state.questions.iter().position(|q| q.id == *id) else {
            drop(state);
            return Err(match self.has_asked(id) {
                true => AnswerRefusal::Closed,
                false => AnswerRefusal::Unknown,
            });
        };
        let question = &state.questions[at];
        let is_approval = matches!(reaction, Reaction::Call { .. });
        if question.digest != *digest || question.is_approval != is_approval {
            return Err(AnswerRefusal::OtherDigest);
        }
        let question = state.questions.remove(at);
        drop(state);
        let place = AnswerPlace {
            terminal: None,
            browser: Some(browser),
        };
        let given = GivenAnswer {
            reaction,
            answered_in: Some(THE_PAGE.to_owned()),
            place,
        };
        // The receiver may have stopped waiting: the question is being closed for another reason.
        question
            .reply
            .send(given)
            .map_err(|_| AnswerRefusal::Closed)
    }

    /// Whether the turn has asked this question, open or not.
    pub fn has_asked(&self, id: &str) -> bool {
        self.events().iter().any(|event| match &**event {
            TurnEvent::ApprovalRequested(question) => question.id == id,
            TurnEvent::ElicitationRequested(question) => question.id == id,
            _ => false,
        })
    }

    /// Returns the questions that are closed, oldest first.
    pub fn closed_questions(&self) -> Vec<ClosedQuestion> {
        let events = self.events();
        let closed = events.iter().filter_map(|event| match &**event {
            TurnEvent::QuestionClosed {
                id,
                answered_in,
                outcome,
            } => Some(ClosedQuestion {
                id: id.clone(),
                answered_in: answered_in.clone(),
                outcome: *outcome,
            }),
            _ => None,
        });
        closed.collect()
    }
}
