//! The cost of requests to models, and whether the budget allows one. Pure.
//!
//! [`decide`] is the only source of a [`SpendingPermit`], without which the broker sends no request.

use std::fmt;

use crate::chat::TokenUsage;

/// The least answer, in tokens, for which a request is still made.
pub const MIN_ANSWER: u64 = 1024;

/// Prices in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TokenRates {
    /// Tokens of the request.
    pub input: f64,
    /// Tokens of the answer, those of the reasoning included.
    pub output: f64,
    /// Tokens read from the cache; `None` if they cost as much as any other.
    pub cache_read: Option<f64>,
    /// Tokens written to the cache; `None` if they cost as much as any other.
    pub cache_write: Option<f64>,
}

impl TokenRates {
    fn cost(&self, usage: &TokenUsage) -> f64 {
        let mut plain = usage.prompt_tokens;
        let mut sum = 0.0;
        for (tokens, rate) in [
            (usage.cache_read_tokens, self.cache_read),
            (usage.cache_write_tokens, self.cache_write),
        ] {
            if let Some(rate) = rate {
                // A server that counts the cached tokens apart counts none twice.
                plain = plain.saturating_sub(tokens);
                sum += dollars(tokens, rate);
            }
        }
        sum + dollars(plain, self.input) + dollars(usage.completion_tokens, self.output)
    }

    /// The highest price of a token of a request.
    fn input_at_most(&self) -> f64 {
        let cache = self.cache_read.unwrap_or(0.0);
        self.input.max(cache).max(self.cache_write.unwrap_or(0.0))
    }
}

/// Prices that depend on the length of the request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RateTable {
    /// The prices of a short request.
    pub base: TokenRates,
    /// The prices of all tokens of a request with more tokens than this, in ascending order.
    pub tiers: Vec<(u64, TokenRates)>,
}

impl RateTable {
    fn at(&self, prompt_tokens: u64) -> &TokenRates {
        let above = self
            .tiers
            .iter()
            .rev()
            .find(|(start, _)| prompt_tokens > *start);
        above.map_or(&self.base, |(_, rates)| rates)
    }
}

/// The price of a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelPrice {
    /// The prices now.
    pub current: RateTable,
    /// Prices that apply at other times of the day or from a later day on.
    pub other: Vec<RateTable>,
}

impl ModelPrice {
    /// Returns the price of a model whose prices depend on nothing.
    pub fn flat(rates: TokenRates) -> ModelPrice {
        ModelPrice {
            current: RateTable {
                base: rates,
                tiers: Vec::new(),
            },
            other: Vec::new(),
        }
    }

    /// Returns what a request cost, in US dollars. A cost that the provider reports counts.
    pub fn cost(&self, usage: &TokenUsage) -> f64 {
        match usage.reported_cost() {
            Some(cost) => cost,
            None => rounded(self.current.at(usage.prompt_tokens).cost(usage)),
        }
    }

    /// Returns whether nothing costs anything.
    pub fn is_free(&self) -> bool {
        self.at_most(u64::from(u32::MAX)) == (0.0, 0.0)
    }

    /// Returns the highest prices of a token of a request and of an answer that may apply to a request of this length.
    fn at_most(&self, prompt_tokens: u64) -> (f64, f64) {
        let tables = std::iter::once(&self.current).chain(&self.other);
        let rates = tables.map(|table| table.at(prompt_tokens));
        rates.fold((0.0, 0.0), |(input, output): (f64, f64), rates| {
            (input.max(rates.input_at_most()), output.max(rates.output))
        })
    }
}

fn dollars(tokens: u64, rate: f64) -> f64 {
    tokens as f64 * rate / 1e6
}

/// A limit of spending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetPeriod {
    /// One prompt, with all its tool calls.
    Prompt,
    /// A session.
    Session,
    /// A day, in local time.
    Day,
    /// A calendar month, in local time.
    Month,
}

impl BudgetPeriod {
    /// All periods, the shortest first.
    pub const ALL: [BudgetPeriod; 4] = [
        BudgetPeriod::Prompt,
        BudgetPeriod::Session,
        BudgetPeriod::Day,
        BudgetPeriod::Month,
    ];

    /// The name of the setting in `[budget]`.
    pub fn as_str(self) -> &'static str {
        match self {
            BudgetPeriod::Prompt => "prompt",
            BudgetPeriod::Session => "session",
            BudgetPeriod::Day => "day",
            BudgetPeriod::Month => "month",
        }
    }
}

/// An amount in US dollars for each period, in the order of [`BudgetPeriod::ALL`].
pub type Amounts<T> = [T; 4];

/// The maximum that a request may use.
#[derive(Debug, Clone, Copy)]
pub struct RequestBound<'a> {
    /// The model's price; `None` if it is unknown.
    pub price: Option<&'a ModelPrice>,
    /// The most tokens that the request has.
    pub prompt_tokens: u64,
    /// The most tokens that its answer may have.
    pub answer_tokens: u64,
}

/// Permission for one request. Only [`decide`] makes one.
#[derive(Debug)]
pub struct SpendingPermit {
    reserved: f64,
    max_tokens: Option<u32>,
}

impl SpendingPermit {
    /// The most that the request can cost, in US dollars. 0 without a budget.
    pub fn reserved(&self) -> f64 {
        self.reserved
    }

    /// The limit of the answer, in tokens, that must be sent with the request. `None` without a budget.
    pub fn max_tokens(&self) -> Option<u32> {
        self.max_tokens
    }
}

/// Why a request is refused. Displayed as one line.
#[derive(Debug, Clone, PartialEq)]
pub enum BudgetRefusal {
    /// The model's price is unknown.
    UnknownPrice,
    /// The most that the request with the shortest answer can cost exceeds what is left.
    Exceeded {
        /// The period.
        period: BudgetPeriod,
        /// Its limit.
        limit: f64,
        /// The amount spent, including reservations for running requests.
        spent: f64,
        /// The maximum cost of the request.
        needed: f64,
    },
}

impl fmt::Display for BudgetRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BudgetRefusal::UnknownPrice => {
                f.write_str("a budget is set, but the price of the model is unknown")
            }
            BudgetRefusal::Exceeded {
                period,
                limit,
                spent,
                needed,
            } => {
                let amounts = [*limit, *spent, *needed];
                let decimals = amounts.map(decimals).into_iter().max().unwrap_or(2);
                let [limit, spent, needed] = amounts.map(|amount| format!("${amount:.decimals$}"));
                write!(
                    f,
                    "the budget of {limit} per {} does not allow this request: {spent} is spent or reserved, and the request can cost {needed}",
                    period.as_str(),
                )
            }
        }
    }
}

/// Formats an amount with at least two decimals, and with as many as a small one needs.
pub fn usd(amount: f64) -> String {
    format!("${amount:.*}", decimals(amount))
}

/// Returns an amount without the error of adding fractions, which JSON would show in 17 digits.
pub fn rounded(amount: f64) -> f64 {
    (amount * 1e12).round() / 1e12
}

fn decimals(amount: f64) -> usize {
    if amount == 0.0 || amount >= 1.0 {
        2
    } else if amount >= 0.001 {
        4
    } else {
        6
    }
}

/// Decides whether a request may be made, and with which limit of its answer, so that `spent` and all that is reserved
/// never exceed a limit. Near a limit the answer is limited to what fits, but to no less than [`MIN_ANSWER`] tokens.
///
/// # Errors
/// The request does not fit, or its price is unknown.
pub fn decide(
    limits: &Amounts<Option<f64>>,
    spent: &Amounts<f64>,
    bound: RequestBound<'_>,
) -> Result<SpendingPermit, BudgetRefusal> {
    if limits.iter().all(Option::is_none) {
        return Ok(SpendingPermit {
            reserved: 0.0,
            max_tokens: None,
        });
    }
    let price = bound.price.ok_or(BudgetRefusal::UnknownPrice)?;
    let (input, output) = price.at_most(bound.prompt_tokens);
    let needs = |answer: u64| dollars(bound.prompt_tokens, input) + dollars(answer, output);
    let fits = |answer: u64| {
        let needed = needs(answer);
        let mut limits = limits.iter().zip(spent);
        limits.all(|(limit, spent)| limit.is_none_or(|limit| spent + needed <= limit))
    };
    let least = MIN_ANSWER.min(bound.answer_tokens);
    if !fits(least) {
        let needed = needs(least);
        let mut exceeded = BudgetPeriod::ALL.into_iter().zip(limits.iter().zip(spent));
        let refusal = exceeded.find_map(|(period, (limit, spent))| {
            let limit = limit.filter(|limit| spent + needed > *limit)?;
            Some(BudgetRefusal::Exceeded {
                period,
                limit,
                spent: *spent,
                needed,
            })
        });
        return Err(refusal.unwrap_or(BudgetRefusal::UnknownPrice));
    }
    // The longest answer that fits; sums of fractions are compared as they are, not computed backwards.
    let (mut low, mut high) = (least, bound.answer_tokens);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Ok(SpendingPermit {
        reserved: needs(low),
        max_tokens: Some(u32::try_from(low).unwrap_or(u32::MAX)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(prompt: u64, read: u64, write: u64, completion: u64) -> TokenUsage {
        TokenUsage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            cache_read_tokens: read,
            cache_write_tokens: write,
            ..TokenUsage::default()
        }
    }

    const RATES: TokenRates = TokenRates {
        input: 3.0,
        output: 15.0,
        cache_read: Some(0.3),
        cache_write: Some(3.75),
    };

    fn bound(price: &ModelPrice, prompt_tokens: u64, answer_tokens: u64) -> RequestBound<'_> {
        RequestBound {
            price: Some(price),
            prompt_tokens,
            answer_tokens,
        }
    }

    #[test]
    fn every_class_of_tokens_has_its_price() {
        let price = ModelPrice::flat(RATES);
        let cost = price.cost(&usage(1_000_000, 600_000, 100_000, 200_000));
        assert!((cost - (0.3 * 3.0 + 0.6 * 0.3 + 0.1 * 3.75 + 0.2 * 15.0)).abs() < 1e-12);
        let plain = TokenRates {
            cache_read: None,
            cache_write: None,
            ..RATES
        };
        assert_eq!(
            ModelPrice::flat(plain).cost(&usage(1_000_000, 600_000, 0, 0)),
            3.0
        );
        // More cached than there are: nothing is negative.
        assert!(price.cost(&usage(1, 10, 10, 0)) > 0.0);
    }

    #[test]
    fn a_long_request_pays_more_for_all_its_tokens() {
        let double = TokenRates {
            input: 6.0,
            ..RATES
        };
        let price = ModelPrice {
            current: RateTable {
                base: RATES,
                tiers: vec![(200_000, double)],
            },
            other: Vec::new(),
        };
        assert_eq!(price.cost(&usage(200_000, 0, 0, 0)), 0.6);
        assert_eq!(price.cost(&usage(200_001, 0, 0, 0)), 200_001.0 * 6.0 / 1e6);
    }

    #[test]
    fn a_reported_cost_counts() {
        let mut reported = usage(1_000_000, 0, 0, 0);
        reported.cost_picodollars = Some(1_234_567_000);
        assert_eq!(ModelPrice::flat(RATES).cost(&reported), 0.001_234_567);
    }

    #[test]
    fn the_answer_is_limited_to_what_fits() {
        let price = ModelPrice::flat(RATES);
        let day = |limit| [None, None, Some(limit), None];
        // 10,000 tokens at the price of the cache's writes, and 64,000 of the answer.
        let permit = decide(&day(10.0), &[0.0; 4], bound(&price, 10_000, 64_000)).unwrap();
        assert_eq!(permit.max_tokens(), Some(64_000));
        assert!((permit.reserved() - (0.0375 + 0.96)).abs() < 1e-12);
        let permit = decide(&day(0.1), &[0.0; 4], bound(&price, 10_000, 64_000)).unwrap();
        assert_eq!(permit.max_tokens(), Some(4166));
        assert!(permit.reserved() <= 0.1);
        let refusal = decide(
            &day(0.05),
            &[9.0, 9.0, 0.04, 9.0],
            bound(&price, 10_000, 64_000),
        );
        let words = refusal.unwrap_err().to_string();
        assert_eq!(
            words,
            "the budget of $0.0500 per day does not allow this request: $0.0400 is spent or reserved, and the request can cost $0.0529"
        );
    }

    #[test]
    fn an_unknown_price_is_refused_only_with_a_budget() {
        let unknown = RequestBound {
            price: None,
            prompt_tokens: 1,
            answer_tokens: 1,
        };
        assert_eq!(
            decide(&[None; 4], &[9.0; 4], unknown).unwrap().max_tokens(),
            None
        );
        let limits = [None, None, None, Some(5.0)];
        assert_eq!(
            decide(&limits, &[0.0; 4], unknown).unwrap_err(),
            BudgetRefusal::UnknownPrice
        );
        let free = ModelPrice::default();
        assert!(free.is_free());
        assert!(decide(&limits, &[0.0; 4], bound(&free, 1_000_000, 8)).is_ok());
    }

    #[test]
    fn the_highest_price_that_may_apply_is_reserved() {
        let peak = TokenRates {
            output: 30.0,
            ..RATES
        };
        let price = ModelPrice {
            other: vec![RateTable {
                base: peak,
                tiers: Vec::new(),
            }],
            ..ModelPrice::flat(RATES)
        };
        let permit = decide(
            &[Some(1.0), None, None, None],
            &[0.0; 4],
            bound(&price, 0, 1000),
        );
        assert_eq!(permit.unwrap().reserved(), 0.03);
    }
}
