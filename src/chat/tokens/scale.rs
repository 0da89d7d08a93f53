//! The ratio between the tokens that a model counts and the estimate. Pure.

/// Ratio of real to estimated tokens before a model has reported any: more than the tokenizers that are known need.
pub const FIRST_RATIO: f64 = 1.45;

/// Tokens that providers add to a request: to any, and to one with tools, for Claude and for models of unknown makers. Some
/// add fewer.
const ADDED: f64 = 75.0;
const ADDED_WITH_TOOLS: (f64, f64) = (600.0, 400.0);
/// Makers that write the tools into the request and little else.
const ADDING_LITTLE: [&str; 4] = ["gpt", "gemini", "gemma", "mistral"];

/// Weight of the ratio 1 beside the ratio of a request, in estimated tokens.
const TELLING_TOKENS: f64 = 500.0;

/// The least ratio for text. A lower ratio comes from another part, such as tools without arguments, and says nothing about text.
const LEAST_RATIO: f64 = 0.75;

/// The tokens that a model counts for an estimate: a multiple of it, and those that the provider adds to every request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenScale {
    /// Ratio of real to estimated tokens.
    pub ratio: f64,
    /// Tokens in addition, such as the provider's instructions for tools. Less than none if a part of the request counts less
    /// than estimated.
    pub added: f64,
}

impl TokenScale {
    /// Returns the scale of a model that has not reported any tokens: at least as much as known models count.
    pub fn unknown(model: &str, has_tools: bool) -> TokenScale {
        TokenScale {
            ratio: FIRST_RATIO,
            added: added_tokens(model, has_tools),
        }
    }

    /// Returns the scale with which the estimate of a request gives the tokens that the model has reported for it.
    ///
    /// New text in the next request is scaled by the ratio alone, so the ratio leaves out the tokens that the provider is known to
    /// add, and a short request, whose estimate is rough, changes it little.
    pub fn learned(model: &str, has_tools: bool, estimate: f64, reported: u64) -> TokenScale {
        let reported = reported as f64;
        let added = added_tokens(model, has_tools);
        let of_request = (reported - added).max(reported.min(estimate));
        let ratio = (of_request + TELLING_TOKENS) / (estimate + TELLING_TOKENS);
        let ratio = ratio.max(LEAST_RATIO);
        TokenScale {
            ratio,
            added: reported - estimate * ratio,
        }
    }

    /// Returns the tokens that the model counts for this estimate.
    pub fn tokens(&self, estimate: f64) -> f64 {
        (estimate * self.ratio + self.added).max(0.0)
    }

    /// Returns the estimate for which the model counts these tokens.
    pub fn estimate(&self, tokens: f64) -> f64 {
        (tokens - self.added) / self.ratio.max(0.1)
    }
}

/// The tokens that the provider of a model adds to a request.
fn added_tokens(model: &str, has_tools: bool) -> f64 {
    let (claude, other) = ADDED_WITH_TOOLS;
    let adds_little = ADDING_LITTLE.iter().any(|name| model.contains(name));
    match has_tools {
        true if model.contains("claude") => claude,
        true if !adds_little => other,
        _ => ADDED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_gives_what_was_reported_and_scales_what_is_new() {
        for (model, has_tools, estimate, reported) in [
            ("gpt-x", false, 10_000.0, 8_000),
            ("gpt-x", true, 1_000.0, 400),
            ("claude-x", true, 60.0, 560),
            ("m", false, 20.0, 10),
        ] {
            let scale = TokenScale::learned(model, has_tools, estimate, reported);
            assert!((scale.tokens(estimate) - reported as f64).abs() < 1e-6);
            assert!((scale.estimate(reported as f64) - estimate).abs() < 1e-6);
            assert!(
                scale.ratio >= LEAST_RATIO && scale.ratio < 1.1,
                "{model}: {scale:?}"
            );
        }
        // The tokens that a provider adds to a short request say nothing about its tokenizer.
        assert_eq!(TokenScale::learned("claude-x", true, 60.0, 560).ratio, 1.0);
        let long = TokenScale::learned("claude-x", true, 50_000.0, 70_600);
        assert!((long.ratio - 1.4).abs() < 0.01, "{long:?}");
        let first = |model, has_tools| TokenScale::unknown(model, has_tools).tokens(100.0);
        assert!(first("m", false) < first("m", true));
        assert!(first("m", true) < first("anthropic/claude-x", true));
        assert_eq!(first("gpt-x", true), first("gpt-x", false));
        assert_eq!(
            TokenScale {
                ratio: 1.0,
                added: -50.0
            }
            .tokens(20.0),
            0.0
        );
    }
}
