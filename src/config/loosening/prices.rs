//! Compares the prices of models, by which the limits of `[budget]` are kept.

use serde::{Deserialize, Serialize};

use super::{ConfigChange, SeenConfig, changed};
use crate::config::model::PriceSettings;
use crate::config::settings::Config;

/// The price of a model, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct SeenPrice {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

impl SeenPrice {
    pub(super) fn of(price: &PriceSettings) -> SeenPrice {
        let PriceSettings {
            input,
            output,
            cache_read,
            cache_write,
        } = *price;
        SeenPrice {
            input,
            output,
            cache_read,
            cache_write,
        }
    }

    fn settings(self) -> PriceSettings {
        PriceSettings {
            input: self.input,
            output: self.output,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
        }
    }

    /// Whether no rate is lower than that of another price. An unset rate is a distinct value.
    fn is_at_least(&self, other: &SeenPrice) -> bool {
        let cache = |new: Option<f64>, old: Option<f64>| match (new, old) {
            (Some(new), Some(old)) => new >= old,
            (new, old) => new == old,
        };
        self.input >= other.input
            && self.output >= other.output
            && cache(self.cache_read, other.cache_read)
            && cache(self.cache_write, other.cache_write)
    }

    fn shown(&self) -> String {
        let cache = |name: &str, rate: Option<f64>| {
            rate.map_or(String::new(), |rate| format!(", {name} = {rate}"))
        };
        format!(
            "{{ input = {}, output = {}{}{} }}",
            self.input,
            self.output,
            cache("cache_read", self.cache_read),
            cache("cache_write", self.cache_write)
        )
    }
}

/// Takes back the changed price of a model that a budget uses, unless it was only raised, and adds the lines.
pub(super) fn take_back(seen: &SeenConfig, now: &mut Config, lines: &mut Vec<ConfigChange>) {
    if seen.budget.is_empty() {
        return;
    }
    let shown = |price: &Option<SeenPrice>| match price {
        Some(price) => price.shown(),
        None => "that of the provider".to_owned(),
    };
    for (name, model) in &mut now.models {
        let Some(old) = seen.models.get(name).map(|seen| seen.price) else {
            continue;
        };
        let new = model.price.as_ref().map(SeenPrice::of);
        let is_stricter = match (&new, &old) {
            (Some(new), Some(old)) => new.is_at_least(old),
            (new, old) => new == old,
        };
        if !is_stricter {
            changed(
                lines,
                &format!("models.{name}.price"),
                &shown(&old),
                &shown(&new),
            );
            model.price = old.map(SeenPrice::settings);
        }
    }
}
