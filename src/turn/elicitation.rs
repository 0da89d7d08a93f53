//! An elicitation of a server while its call runs: one question to all clients that watch the turn.

use std::time::Duration;

use tokio::sync::oneshot;

use super::background_notice::{self, question_patience};
use super::call_context::CallContext;
use crate::mcp::ElicitationResponse;
use crate::protocol::QuestionOutcome;
use crate::protocol::tools::{ElicitationAction, ElicitationPrompt, Reaction};
use crate::session::feed::{GivenAnswer, TurnEvent, TurnFeed};

/// The open elicitation; at most one is open at a time.
pub(super) struct AskedElicitation {
    pub id: String,
    server: oneshot::Sender<ElicitationResponse>,
    answer: oneshot::Receiver<GivenAnswer>,
    patience: Duration,
}

/// How an elicitation ends.
pub(super) enum ElicitationEnd {
    Given(GivenAnswer),
    Closed(QuestionOutcome),
}

/// Opens an elicitation for all clients that watch the turn.
pub(super) fn ask(
    context: &CallContext<'_>,
    mut question: ElicitationPrompt,
    server: oneshot::Sender<ElicitationResponse>,
) -> AskedElicitation {
    question.digest = question.shown_digest();
    let (id, digest) = (question.id.clone(), question.digest.clone());
    let event = TurnEvent::ElicitationRequested(Box::new(question));
    let answer = context.feed.open_question(&id, &digest, event);
    AskedElicitation {
        id,
        server,
        answer,
        patience: question_patience(context.config),
    }
}

/// Waits for the answer to the open elicitation; pending forever if none is open. Cancel-safe.
pub(super) async fn answered(
    context: &CallContext<'_>,
    asked: Option<&mut AskedElicitation>,
) -> ElicitationEnd {
    let Some(asked) = asked else {
        return std::future::pending().await;
    };
    let CallContext { services, feed, .. } = context;
    let announce = || background_notice::question_waits(services, feed);
    tokio::select! {
        biased;
        given = &mut asked.answer => match given {
            Ok(given) => ElicitationEnd::Given(given),
            Err(_) => ElicitationEnd::Closed(QuestionOutcome::Withdrawn),
        },
        outcome = feed.unanswerable(&asked.id, asked.patience, announce) => ElicitationEnd::Closed(outcome),
    }
}

/// Sends the response to the server and closes the elicitation for the clients.
pub(super) fn close(feed: &TurnFeed, asked: AskedElicitation, end: ElicitationEnd) {
    let (elicited, answered_in, outcome) = match end {
        ElicitationEnd::Given(GivenAnswer {
            reaction: Reaction::Elicit {
                content, action, ..
            },
            answered_in,
            ..
        }) => {
            let (elicited, outcome) = match action {
                ElicitationAction::Accept => (
                    ElicitationResponse::Accept(content),
                    QuestionOutcome::Accepted,
                ),
                ElicitationAction::Decline => {
                    (ElicitationResponse::Decline, QuestionOutcome::Declined)
                }
                ElicitationAction::Cancel | ElicitationAction::NoTerminal => {
                    (ElicitationResponse::Cancel, QuestionOutcome::Dismissed)
                }
            };
            (elicited, answered_in, outcome)
        }
        ElicitationEnd::Given(_) => (
            ElicitationResponse::Cancel,
            None,
            QuestionOutcome::Withdrawn,
        ),
        ElicitationEnd::Closed(outcome) => (ElicitationResponse::Cancel, None, outcome),
    };
    feed.close_question(&asked.id, answered_in, outcome);
    // The call may have ended, which drops the receiver.
    let _ = asked.server.send(elicited);
}
