//! How many tokens the models count for what is estimated, learned from their answers.

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

/// The scales between real and estimated tokens.
#[derive(Debug, Default)]
pub struct TokenRatios {
    scales: Mutex<KnownScales>,
}

#[derive(Debug, Default)]
struct KnownScales {
    /// By model.
    models: HashMap<String, TokenScale>,
    /// By model and session: with the scale of the last request, most of the next estimate is what the model counted.
    sessions: HashMap<(String, String), TokenScale>,
}

impl TokenRatios {
    /// Returns the scale for the next request of a session.
    pub fn get(&self, model: &str, session: &str, has_tools: bool) -> TokenScale {
        let scales = lock(&self.scales);
        let of_session = scales.sessions.get(&(model.to_owned(), session.to_owned()));
        if let Some(scale) = of_session {
            return *scale;
        }
        let unknown = TokenScale::unknown(model, has_tools);
        match scales.models.get(model) {
            // Other sessions have other tools and images.
            Some(scale) => TokenScale {
                added: scale.added.max(unknown.added),
                ..*scale
            },
            None => unknown,
        }
    }

    /// Learns from the tokens that the model has reported for a request, unless they are too few to be believed. Returns
    /// whether the server has probably left a part of a long request out.
    pub fn learn(
        &self,
        model: &str,
        session: &str,
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
        let scale = TokenScale::learned(model, has_tools, estimate, reported);
        let mut scales = lock(&self.scales);
        if scales.sessions.len() >= MAX_SESSIONS {
            scales.sessions.clear();
        }
        scales.models.insert(model.to_owned(), scale);
        let key = (model.to_owned(), session.to_owned());
        scales.sessions.insert(key, scale);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_of_the_session_counts_before_that_of_the_model() {
        let ratios = TokenRatios::default();
        let tokens = |session: &str, estimate| ratios.get("m", session, false).tokens(estimate);
        assert_eq!(
            ratios.get("m", "s", true),
            TokenScale::unknown("m", true),
            "before any answer"
        );
        ratios.learn("m", "s", false, 10_000.0, 12_000);
        ratios.learn("m", "t", false, 10_000.0, 8_000);
        assert_eq!(tokens("s", 10_000.0).round(), 12_000.0);
        assert_eq!(tokens("t", 10_000.0).round(), 8_000.0);
        let new = ratios.get("m", "new", true);
        assert!((0.8..0.82).contains(&new.ratio), "{new:?}");
        assert_eq!(new.added, TokenScale::unknown("m", true).added);
        // A server that counts nothing or leaves most out teaches nothing.
        assert!(!ratios.learn("m", "s", false, 10_000.0, 0));
        assert!(ratios.learn("m", "s", false, 10_000.0, 4_000));
        assert_eq!(tokens("s", 10_000.0).round(), 12_000.0);
        assert!(
            !ratios.learn("m", "s", false, 1_000.0, 300),
            "it was not cut"
        );
        assert_eq!(tokens("s", 10_000.0).round(), 12_000.0);
        // Tools without arguments.
        assert!(!ratios.learn("m", "s", true, 1_000.0, 400));
        assert_eq!(tokens("s", 1_000.0).round(), 400.0);
    }
}
