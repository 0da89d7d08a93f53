//! How many tokens the models count for an estimate, learned from their answers.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::chat::tokens::TokenScale;
use crate::session::lock;

/// Number of sessions whose scale is kept. More are forgotten together: the scale of the model is close.
const MAX_SESSIONS: usize = 1000;

/// The least ratios that are believed, of a short and of a long request. A lower one comes from a server that counts what it
/// has not cached, or that has left a part out; tools without arguments alone are estimated at twice their tokens.
const LEAST_RATIOS: (f64, f64) = (0.35, 0.5);
/// Estimated tokens from which a request is long: a shorter one fits every server.
const LONG_REQUEST: f64 = 3000.0;

/// The most tokens that are believed: this multiple of the estimate, and as many in addition. Without a bound one absurd number
/// would refuse or cut every later request.
const MOST_BELIEVED: (f64, f64) = (5.0, 2000.0);

/// Who counts the tokens of a request. Two servers may count a model of the same name differently.
#[derive(Debug, Clone, Copy)]
pub struct TokenCounter<'a> {
    /// Base URL of the server.
    pub base_url: &'a str,
    /// Name of the model there.
    pub model: &'a str,
    /// The session.
    pub session: &'a str,
}

impl TokenCounter<'_> {
    fn model_key(&self) -> (String, String) {
        (self.base_url.to_owned(), self.model.to_owned())
    }
}

/// The scales between real and estimated tokens.
#[derive(Debug, Default)]
pub struct TokenRatios {
    scales: Mutex<KnownScales>,
}

#[derive(Debug, Default)]
struct KnownScales {
    /// By server and model.
    models: HashMap<(String, String), TokenScale>,
    /// By these and the session: with the scale of the last request, most of the next estimate is what the model counted.
    /// Also whether that request had tools.
    sessions: HashMap<((String, String), String), (TokenScale, bool)>,
}

impl TokenRatios {
    /// Returns the scale for the next request of a session.
    pub fn get(&self, counter: TokenCounter<'_>, has_tools: bool) -> TokenScale {
        let scales = lock(&self.scales);
        let model = counter.model_key();
        let known = scales.models.get(&model).copied();
        let of_session = scales.sessions.get(&(model, counter.session.to_owned()));
        if let Some((scale, had_tools)) = of_session
            && *had_tools == has_tools
        {
            return *scale;
        }
        let unknown = TokenScale::unknown(counter.model, has_tools);
        match known {
            // Other requests have other tools and images.
            Some(scale) => TokenScale {
                added: scale.added.max(unknown.added),
                ..scale
            },
            None => unknown,
        }
    }

    /// Learns from the tokens that the model has reported for a request, unless they are too few to be believed. Returns
    /// whether the server has probably left a part of a long request out.
    pub fn learn(
        &self,
        counter: TokenCounter<'_>,
        has_tools: bool,
        estimate: f64,
        reported: u64,
    ) -> bool {
        if estimate < 1.0 || reported == 0 {
            return false;
        }
        let is_long = estimate > LONG_REQUEST;
        let (short, long) = LEAST_RATIOS;
        if (reported as f64) < estimate * if is_long { long } else { short } {
            return is_long;
        }
        let (ratio, added) = MOST_BELIEVED;
        let believed = reported.min((estimate * ratio + added) as u64);
        let scale = TokenScale::learned(counter.model, has_tools, estimate, believed);
        let mut scales = lock(&self.scales);
        if scales.sessions.len() >= MAX_SESSIONS {
            scales.sessions.clear();
        }
        scales.models.insert(counter.model_key(), scale);
        let key = (counter.model_key(), counter.session.to_owned());
        scales.sessions.insert(key, (scale, has_tools));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(session: &str) -> TokenCounter<'_> {
        TokenCounter {
            base_url: "https://a/v1",
            model: "m",
            session,
        }
    }

    #[test]
    fn the_scale_of_the_session_counts_before_that_of_the_model() {
        let ratios = TokenRatios::default();
        let tokens = |session: &str, estimate| ratios.get(counter(session), false).tokens(estimate);
        assert_eq!(
            ratios.get(counter("s"), true),
            TokenScale::unknown("m", true),
            "before any answer"
        );
        ratios.learn(counter("s"), false, 10_000.0, 12_000);
        ratios.learn(counter("t"), false, 10_000.0, 8_000);
        assert_eq!(tokens("s", 10_000.0).round(), 12_000.0);
        assert_eq!(tokens("t", 10_000.0).round(), 8_000.0);
        let new = ratios.get(counter("new"), true);
        assert!((0.8..0.82).contains(&new.ratio), "{new:?}");
        assert_eq!(new.added, TokenScale::unknown("m", true).added);
        // A server that counts nothing or leaves most out teaches nothing.
        assert!(!ratios.learn(counter("s"), false, 10_000.0, 0));
        assert!(ratios.learn(counter("s"), false, 10_000.0, 4_000));
        assert_eq!(tokens("s", 10_000.0).round(), 12_000.0);
        assert!(
            !ratios.learn(counter("s"), false, 1_000.0, 300),
            "it was not cut"
        );
        assert_eq!(tokens("s", 10_000.0).round(), 12_000.0);
        // Another server counts for itself.
        let elsewhere = TokenCounter {
            base_url: "https://b/v1",
            ..counter("s")
        };
        assert_eq!(
            ratios.get(elsewhere, false),
            TokenScale::unknown("m", false)
        );
        // Tools without arguments.
        assert!(!ratios.learn(counter("s"), true, 1_000.0, 400));
        assert_eq!(
            ratios.get(counter("s"), true).tokens(1_000.0).round(),
            400.0
        );
        // That says nothing of a request without tools, nor of text.
        assert!(tokens("s", 1_000.0) >= 750.0);
        assert!(ratios.get(counter("s"), true).tokens(101_000.0) >= 75_000.0);
    }

    #[test]
    fn an_absurd_count_is_not_believed() {
        let ratios = TokenRatios::default();
        let counter = counter("s");
        assert!(!ratios.learn(counter, true, 500.0, u64::MAX));
        let tokens = ratios.get(counter, true).tokens(500.0);
        assert!((4499.0..=4501.0).contains(&tokens), "{tokens}");
        assert!(ratios.get(counter, true).ratio <= 5.0);
    }
}
