//! How many tokens the models count for what is estimated, learned from their answers.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::chat::tokens::FIRST_RATIO;
use crate::session::lock;

/// Number of sessions whose ratio is kept. More are forgotten together: the ratio of the model is close.
const MAX_SESSIONS: usize = 1000;

/// The least ratio that a tokenizer can have: no text is estimated at twice its tokens.
const LEAST_RATIO: f64 = 0.5;

/// The ratios of real to estimated tokens.
#[derive(Debug, Default)]
pub struct TokenRatios {
    ratios: Mutex<KnownRatios>,
}

#[derive(Debug, Default)]
struct KnownRatios {
    /// By model.
    models: HashMap<String, f64>,
    /// By model and session: with the ratio of the last request, most of the next estimate is what the model counted.
    sessions: HashMap<(String, String), f64>,
}

impl TokenRatios {
    /// Returns the ratio for the next request of a session.
    pub fn get(&self, model: &str, session: &str) -> f64 {
        let ratios = lock(&self.ratios);
        let of_session = ratios.sessions.get(&(model.to_owned(), session.to_owned()));
        let known = of_session.or_else(|| ratios.models.get(model));
        known.copied().unwrap_or(FIRST_RATIO)
    }

    /// Learns from the tokens that the model has reported for a request. Returns whether they are so few that the server has
    /// probably left a part out; nothing is learned then.
    pub fn learn(&self, model: &str, session: &str, estimate: f64, reported: u64) -> bool {
        if estimate < 1.0 || reported == 0 {
            return false;
        }
        let ratio = (reported as f64 / estimate).min(5.0);
        if ratio < LEAST_RATIO {
            return true;
        }
        let mut ratios = lock(&self.ratios);
        if ratios.sessions.len() >= MAX_SESSIONS {
            ratios.sessions.clear();
        }
        ratios.models.insert(model.to_owned(), ratio);
        let key = (model.to_owned(), session.to_owned());
        ratios.sessions.insert(key, ratio);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_of_the_session_counts_before_that_of_the_model() {
        let ratios = TokenRatios::default();
        assert_eq!(ratios.get("m", "s"), FIRST_RATIO);
        ratios.learn("m", "s", 1000.0, 1200);
        ratios.learn("m", "t", 1000.0, 800);
        assert_eq!(ratios.get("m", "s"), 1.2);
        assert_eq!(ratios.get("m", "new"), 0.8);
        // A server that counts nothing or leaves most out teaches nothing.
        assert!(!ratios.learn("m", "s", 1000.0, 0));
        assert!(ratios.learn("m", "s", 1000.0, 400));
        assert_eq!(ratios.get("m", "s"), 1.2);
    }
}
