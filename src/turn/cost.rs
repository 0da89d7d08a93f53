//! Cost of a turn: as the provider reports it, by the model's price, or estimated. Pure.

use crate::chat::tokens::text_tokens;
use crate::chat::{FinishReason, TokenUsage, ToolCall};
use crate::safety::budget::{self, ModelPrice};

/// The cost of a turn, in US dollars.
#[derive(Debug)]
pub struct TurnCost {
    price: Option<ModelPrice>,
    /// Estimated tokens of this round's request.
    request_tokens: u64,
    /// Estimated tokens of this round's reasoning.
    reasoning_tokens: f64,
    /// The cost of all rounds; `None` once that of one is unknown.
    pub total: Option<f64>,
    /// The known part of the cost.
    pub spent: f64,
    /// Whether a part is estimated.
    pub estimated: bool,
}

impl TurnCost {
    /// Creates the cost of a turn with a model of this price.
    pub fn new(price: Option<ModelPrice>) -> TurnCost {
        TurnCost {
            price,
            request_tokens: 0,
            reasoning_tokens: 0.0,
            total: Some(0.0),
            spent: 0.0,
            estimated: false,
        }
    }

    /// Begins a round, whose request has about this many tokens.
    pub fn begin_request(&mut self, tokens: u64) {
        self.request_tokens = tokens;
        self.reasoning_tokens = 0.0;
    }

    /// Counts reasoning, which is in no record.
    pub fn add_reasoning(&mut self, text: &str) {
        self.reasoning_tokens += text_tokens(text);
    }

    /// Ends a round, and returns its cost and whether that is estimated. A request that failed before it was answered
    /// costs nothing.
    pub fn end_round(
        &mut self,
        usage: Option<TokenUsage>,
        finish: FinishReason,
        text: &str,
        calls: &[ToolCall],
    ) -> (Option<f64>, bool) {
        let answer = || {
            let calls = calls.iter().map(|call| text_tokens(&call.arguments));
            text_tokens(text) + self.reasoning_tokens + calls.sum::<f64>()
        };
        let mut is_estimated = false;
        let usage = usage.unwrap_or_else(|| {
            let answer = answer();
            if finish == FinishReason::Error && answer == 0.0 {
                return TokenUsage::default();
            }
            is_estimated = true;
            TokenUsage {
                prompt_tokens: self.request_tokens,
                completion_tokens: answer as u64,
                ..TokenUsage::default()
            }
        });
        let cost = match &self.price {
            Some(price) => Some(price.cost(&usage)),
            None if usage == TokenUsage::default() => Some(0.0),
            None => usage.reported_cost(),
        };
        // Nothing is guessed about a free model either.
        is_estimated &= cost.is_some_and(|cost| cost > 0.0);
        self.total = self
            .total
            .zip(cost)
            .map(|(sum, cost)| budget::rounded(sum + cost));
        self.spent += cost.unwrap_or(0.0);
        self.estimated |= is_estimated;
        (cost, is_estimated)
    }
}

/// Adds the usage of a round to that of the rounds before.
pub fn sum_usage(total: Option<TokenUsage>, usage: Option<TokenUsage>) -> Option<TokenUsage> {
    let Some((a, b)) = total.zip(usage) else {
        return total.or(usage);
    };
    Some(TokenUsage {
        prompt_tokens: a.prompt_tokens.saturating_add(b.prompt_tokens),
        completion_tokens: a.completion_tokens.saturating_add(b.completion_tokens),
        cache_read_tokens: a.cache_read_tokens.saturating_add(b.cache_read_tokens),
        cache_write_tokens: a.cache_write_tokens.saturating_add(b.cache_write_tokens),
        reasoning_tokens: a.reasoning_tokens.saturating_add(b.reasoning_tokens),
        cost_picodollars: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::budget::TokenRates;

    fn cost(price: Option<(f64, f64)>) -> TurnCost {
        let flat = |(input, output)| {
            ModelPrice::flat(TokenRates {
                input,
                output,
                ..TokenRates::default()
            })
        };
        let mut cost = TurnCost::new(price.map(flat));
        cost.begin_request(1000);
        cost
    }

    #[test]
    fn what_is_not_reported_is_estimated() {
        let mut cost = cost(Some((1.0, 2.0)));
        cost.add_reasoning("because of this ");
        let (first, estimated) = cost.end_round(None, FinishReason::Interrupted, "a word", &[]);
        assert!(estimated && first.unwrap() > 0.001 && first.unwrap() < 0.0011);
        cost.begin_request(1000);
        let failed = cost.end_round(None, FinishReason::Error, "", &[]);
        assert_eq!(failed, (Some(0.0), false));
        assert_eq!((cost.total, cost.estimated), (first, true));
    }

    #[test]
    fn an_unknown_price_is_not_guessed() {
        let mut unknown = cost(None);
        assert_eq!(
            unknown.end_round(None, FinishReason::Error, "", &[]),
            (Some(0.0), false)
        );
        assert_eq!(unknown.total, Some(0.0));
        assert_eq!(
            unknown.end_round(None, FinishReason::Stop, "x", &[]),
            (None, false)
        );
        let reported = TokenUsage {
            prompt_tokens: 1,
            cost_picodollars: Some(5_000_000_000),
            ..TokenUsage::default()
        };
        let reported = unknown.end_round(Some(reported), FinishReason::Stop, "x", &[]);
        assert_eq!(reported, (Some(0.005), false));
        assert_eq!((unknown.total, unknown.spent), (None, 0.005));
    }
}
