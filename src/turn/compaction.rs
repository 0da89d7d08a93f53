//! `llm :compact`: the model summarizes the older part of a session, and the summary replaces that part in later requests.
//! The journal keeps both.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::plan::TurnPlan;
use super::rounds::{RESERVE, TurnRun};
use super::rules_in_force::RequestContext;
use super::turn_settings;
use crate::chat::tokens::message_tokens;
use crate::chat::{ChatMessage, FinishReason};
use crate::context::{self, SUMMARY_PROMPT};
use crate::error::{Error, ErrorKind, Result};
use crate::history::record::{Record, RecordBody};
use crate::protocol::AnswerSummary;
use crate::services::SharedServices;
use crate::services::model::ChosenModel;
use crate::services::token_ratios::TokenCounter;
use crate::session::conversation::Session;
use crate::session::feed::{TurnEvent, TurnFeed};
use crate::turn::machine::TurnSettings;

/// Summarizes the older part of a session.
///
/// # Errors
/// There is nothing to summarize, the request failed, or the summary did not end normally; the conversation is unchanged.
pub(super) async fn perform(
    services: &SharedServices,
    feed: &Arc<TurnFeed>,
    session: &Session,
    chosen: &ChosenModel,
    plan: TurnPlan,
) -> Result<AnswerSummary> {
    if let Some(text) = &chosen.notice {
        feed.notice(text.clone());
    }
    let instructions = ChatMessage::System(SUMMARY_PROMPT.to_owned());
    let counter = TokenCounter {
        base_url: &chosen.endpoint.base_url,
        model: &chosen.endpoint.model,
        session: &session.id,
    };
    let scale = services.token_ratios.get(counter, false);
    let estimated = |tokens: u32| scale.estimate(f64::from(tokens)).max(0.0);
    let reserve = chosen.endpoint.max_tokens.unwrap_or(RESERVE);
    let available = chosen.window.map_or(f64::INFINITY, |window| {
        // Twice the overhead of a message for the message itself.
        estimated(window.saturating_sub(reserve)) - 2.0 * message_tokens(&instructions)
    });
    let window = chosen.window.map(estimated);
    // On another thread: the text of a long session is measured many times.
    let records = session.with_records(<[Record]>::to_vec);
    let planning = move || context::plan_compaction(&records, window, available);
    let planned = tokio::task::spawn_blocking(planning)
        .await
        .map_err(|e| Error::runtime(format!("the session cannot be read: {e}")))?
        .ok_or_else(|| Error::usage("the session has no prompts to summarize"))?;
    feed.push(TurnEvent::Started {
        session: session.id.clone(),
        model: chosen.name.clone(),
    });
    let begun = RecordBody::Compaction {
        kept_from: planned.kept_from,
        prompts: planned.prompts,
    };
    session.record_written(&plan.record_ids, begun).await?;
    let settings = TurnSettings {
        depth: 0,
        ..turn_settings::settings(session, chosen)
    };
    let request = RequestContext::from(&plan.ask);
    let ids = plan.record_ids;
    let mut run = TurnRun::new(services, chosen, session, feed, settings, ids, &request);
    let messages = [instructions, planned.request];
    let estimate = messages.iter().map(message_tokens).sum();
    run.request(&messages, &[], estimate).await?;
    let (mut answer, _) = run
        .answer
        .ok_or_else(|| Error::runtime("the summary ended early"))?;
    // A summary proposes nothing.
    answer.proposals = 0;
    turn_settings::add_session_cost(services, session, &mut answer).await;
    match answer.finish {
        FinishReason::Stop if run.turn.depth == 0 => {}
        FinishReason::Interrupted => return Ok(answer),
        finish => {
            let reason = match finish {
                FinishReason::Stop => "in a tool call",
                finish => finish.as_str(),
            };
            let message = format!("the summary ended early ({reason}); the session is unchanged");
            return Err(Error::new(ErrorKind::Runtime, message)
                .hint("try another model: llm :compact -m NAME"));
        }
    }
    session.dropped_prompts.store(0, Ordering::Relaxed);
    session.compaction_offered.store(false, Ordering::Relaxed);
    let prompts = match planned.prompts {
        1 => "1 prompt".to_owned(),
        n => format!("{n} prompts"),
    };
    let before = (planned.tokens * scale.ratio) as u64;
    let after = answer.completion_tokens.map_or_else(String::new, |tokens| {
        format!(
            " of {} tokens",
            tokens.saturating_sub(answer.reasoning_tokens)
        )
    });
    feed.notice(format!(
        "from now on this summary{after} is sent in place of {prompts} with about {before} tokens; the journal keeps both"
    ));
    Ok(answer)
}
