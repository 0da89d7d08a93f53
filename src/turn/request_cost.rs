//! What a request can cost at most, and whether the budget allows that.

use crate::error::{Error, Result};
use crate::history::record::{Record, RecordBody};
use crate::safety::budget::{Amounts, BudgetPeriod, BudgetRefusal, RequestBound};
use crate::services::SharedServices;
use crate::services::model::ChosenModel;
use crate::services::spending::{ReserveError, Spending};
use crate::session::conversation::Session;

/// The longest answer that is reserved in a budget if the configuration sets no limit, in tokens, where the model's own
/// limit is known; it may be longer than any answer ever is.
const MAX_RESERVED_ANSWER: u32 = 32_000;
/// The longest answer that is reserved in a budget where nothing is known, in tokens.
const UNKNOWN_ANSWER: u32 = 16_384;
/// Factor between the estimated tokens of a request and the most that it is expected to have.
const ESTIMATE_MARGIN: f64 = 1.1;
/// Tokens of the instructions that providers add to a request with tools. The most that was measured is 800.
const HIDDEN_TOKENS: u64 = 1000;
/// A request to a model, as the budget sees it.
pub(super) struct RequestCost<'a> {
    pub(super) services: &'a SharedServices,
    pub(super) chosen: &'a ChosenModel,
    pub(super) session: &'a Session,
    /// The tokens that the model is expected to count.
    pub(super) tokens: u64,
    pub(super) has_tools: bool,
}

impl RequestCost<'_> {
    /// Asks the budget: for a reservation, or for the permit that it would give.
    ///
    /// # Errors
    /// The budget does not allow the request, or its file cannot be used.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(
            &Spending,
            &Amounts<Option<f64>>,
            RequestBound<'_>,
        ) -> std::result::Result<T, ReserveError>
        + Send
        + 'static,
    ) -> Result<T> {
        let chosen = self.chosen;
        let limits = chosen.config.budget.limits();
        let has_budget = limits.iter().any(Option::is_some);
        let answer_tokens = match (chosen.endpoint.max_tokens, chosen.max_output) {
            (Some(max), _) => max,
            (None, Some(max)) => max.min(MAX_RESERVED_ANSWER),
            (None, None) => UNKNOWN_ANSWER,
        };
        // The provider's own instructions for tools count too.
        let hidden = if self.has_tools { HIDDEN_TOKENS } else { 0 };
        let prompt_tokens = ((self.tokens as f64 * ESTIMATE_MARGIN) as u64).saturating_add(hidden);
        let (spending, price) = (self.services.spending.clone(), chosen.price.clone());
        let ask = move || {
            let bound = RequestBound {
                price: price.as_ref(),
                prompt_tokens,
                answer_tokens: u64::from(answer_tokens),
            };
            ask(&spending, &limits, bound)
        };
        let asked = match has_budget {
            true => tokio::task::spawn_blocking(ask)
                .await
                .map_err(|e| Error::runtime(format!("the budget cannot be checked: {e}")))?,
            false => ask(),
        };
        asked.map_err(|e| match e {
            ReserveError::File(e) => e,
            ReserveError::Refused(refusal) => {
                Error::runtime(refusal.to_string()).hint(self.hint(&refusal))
            }
        })
    }

    fn hint(&self, refusal: &BudgetRefusal) -> String {
        let BudgetRefusal::Exceeded { period, .. } = refusal else {
            return format!(
                "add its price to [models.{}]: price = {{ input = 0.4, output = 1.6 }} (US dollars per million tokens, 0 if it is free), or remove [budget]",
                self.chosen.name
            );
        };
        let name = period.as_str();
        let hint = format!("raise or remove `{name}` in [budget] of the configuration");
        match period {
            // It has less to send, or a budget of its own.
            BudgetPeriod::Prompt | BudgetPeriod::Session if self.has_earlier_prompts() => {
                format!("{hint}, or start a new session with `llm --new`")
            }
            // What is attached stays in the session.
            BudgetPeriod::Prompt => format!("{hint}, or attach less, with `llm --new`"),
            _ => hint,
        }
    }

    fn has_earlier_prompts(&self) -> bool {
        let is_prompt = |r: &&Record| matches!(r.body, RecordBody::User { .. });
        let count = |records: &[Record]| records.iter().filter(is_prompt).count();
        self.session.with_records(count) > 1
    }
}
