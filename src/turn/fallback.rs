//! The models that answer when the chosen one cannot.

use crate::error::{Error, Result};
use crate::services::SharedServices;
use crate::services::model::{self, ChosenModel, ModelPlan};
use crate::session::feed::TurnFeed;

/// The fallbacks of a prompt's model that were not tried yet.
#[derive(Debug)]
pub(super) struct Fallbacks<'a> {
    plan: &'a ModelPlan,
    /// In the reverse order.
    names: Vec<String>,
    thinks: bool,
    has_images: bool,
}

impl<'a> Fallbacks<'a> {
    /// Returns the `fallback` list of the chosen model.
    pub(super) fn new(
        plan: &'a ModelPlan,
        chosen: &ChosenModel,
        thinks: bool,
        has_images: bool,
    ) -> Fallbacks<'a> {
        let model = plan.config.models.get(&chosen.name);
        let mut names = model.map_or(Vec::new(), |model| model.fallback.clone());
        names.reverse();
        Fallbacks {
            plan,
            names,
            thinks,
            has_images,
        }
    }

    /// Returns the next model after `failed` did not answer, and says so.
    ///
    /// # Errors
    /// `failure`, if there is no other model.
    pub(super) async fn next(
        &mut self,
        services: &SharedServices,
        feed: &TurnFeed,
        failed: &ChosenModel,
        failure: Error,
    ) -> Result<ChosenModel> {
        while let Some(name) = self.names.pop() {
            let next = model::fallback(services, self.plan, &name, feed).await;
            let mut chosen = match next {
                Ok(chosen) => chosen,
                Err(e) => {
                    feed.notice(format!("the fallback {name} cannot be used: {}", e.message));
                    continue;
                }
            };
            if self.has_images && !chosen.endpoint.images {
                feed.notice(format!("the fallback {name} is not configured for images"));
                continue;
            }
            feed.notice(format!("{}; {name} answers instead", failure.message));
            // With the rules of the project.
            chosen.config = failed.config.clone();
            chosen.endpoint.thinks = self.thinks;
            return Ok(chosen);
        }
        Err(failure)
    }
}
