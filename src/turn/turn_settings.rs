//! The parts of a turn from its model and its session, whatever its purpose: settings, the cost so far, the share of the window.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use crate::history::record::{Record, RecordBody};
use crate::protocol::{AnswerSummary, ShownCost};
use crate::safety::budget;
use crate::services::SharedServices;
use crate::services::model::ChosenModel;
use crate::session::conversation::Session;
use crate::session::feed::TurnFeed;
use crate::turn::machine::TurnSettings;

/// Share of the model's context window from which a summary is offered.
const OFFER_SHARE: f64 = 0.8;
/// Share below which a session is offered one again.
const OFFER_AGAIN_SHARE: f64 = 0.6;

/// Returns the settings of a turn with this model.
pub(super) fn settings(session: &Session, chosen: &ChosenModel) -> TurnSettings {
    TurnSettings {
        session: session.id.clone(),
        model_name: chosen.name.clone(),
        model: chosen.endpoint.model.clone(),
        // Only the other server knows the cost of its answers.
        price: chosen.price.clone().filter(|_| !chosen.is_aish_server),
        provider: chosen.endpoint.host(),
        show_cost: chosen.shown_cost(),
        depth: chosen.config.mcp.max_tool_depth,
        code_helpers: Vec::new(),
    }
}

/// Whether the price of an answer is unknown. A server on this machine is usually the user's own, and free.
fn is_unpriced(record: &Record) -> bool {
    let RecordBody::Assistant {
        cost: None,
        prompt_tokens: Some(_),
        provider: Some(host),
        ..
    } = &record.body
    else {
        return false;
    };
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host != "localhost" && !ip.is_ok_and(|ip| ip.is_loopback())
}

/// Adds the cost of the session so far, where costs are shown.
pub(super) async fn add_session_cost(
    services: &SharedServices,
    session: &Session,
    answer: &mut AnswerSummary,
) {
    if answer.show_cost != ShownCost::Nothing && answer.cost.is_some() {
        let (spending, id) = (services.spending.clone(), session.id.clone());
        let session_cost = tokio::task::spawn_blocking(move || spending.session(&id));
        answer.session_cost = session_cost.await.ok().map(budget::rounded);
        answer.session_cost_partial = session.with_records(|all| all.iter().any(is_unpriced));
    }
}

/// Names `llm :compact` once the conversation fills most of the model's context window.
pub(super) fn offer_summary(feed: &TurnFeed, session: &Session, window: Option<u32>, tokens: f64) {
    let Some(window) = window.filter(|window| *window > 0) else {
        return;
    };
    let share = tokens / f64::from(window);
    let offered = &session.compaction_offered;
    if share < OFFER_AGAIN_SHARE {
        offered.store(false, Ordering::Relaxed);
    } else if share >= OFFER_SHARE && !offered.swap(true, Ordering::Relaxed) {
        let percent = (share * 100.0).min(100.0) as u32;
        feed.notice(format!(
            "the session fills {percent} % of the model's context window; llm :compact replaces its older part by a summary"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_of_other_machines_are_unpriced() {
        let unpriced = |cost: &str, host: &str| {
            let body = format!(
                r#"{{"type":"assistant","text":"a","model":"m","finish":"stop","prompt_tokens":5,"provider":"{host}",{cost}"duration_ms":1}}"#
            );
            let body: RecordBody = serde_json::from_str(&body).expect("a record");
            is_unpriced(&crate::history::journal::new_record(
                Default::default(),
                body,
            ))
        };
        assert!(unpriced("", "api.example"));
        assert!(unpriced("", "192.168.1.5"));
        assert!(!unpriced(r#""cost":0.1,"#, "api.example"));
        for host in ["127.0.0.1", "[::1]", "localhost"] {
            assert!(!unpriced("", host), "{host}");
        }
    }
}
