//! `--dry-run`: the request that a prompt would send, without sending it and without a record.

use super::plan;
use super::prepared_prompt::{PreparedPrompt, PromptParts};
use super::rounds::TurnRun;
use super::turn_settings;
use crate::chat::TokenUsage;
use crate::error::{Error, Result};
use crate::protocol::{AskRequest, RequestFailure, RequestPreview};
use crate::services::SharedServices;
use crate::services::client_handle::ClientHandle;
use crate::services::model;
use crate::session::conversation::Session;

/// Returns the first request of a prompt, without secrets. MCP servers are started, and resources read, since their tools and
/// texts are part of it; no model server is started and no `key_cmd` run.
///
/// # Errors
/// The prompt could not be sent.
pub async fn preview(
    services: &SharedServices,
    client: &ClientHandle,
    ask: AskRequest,
) -> std::result::Result<RequestPreview, RequestFailure> {
    // Without the shell, a session that would be continued does not become its own.
    let collected = plan::collect(services, client, &ask, None).await?;
    let feed = &client.feed;
    let chosen = model::look(services, &collected.model, feed).await;
    let Some(mut chosen) = chosen.map_err(|e| RequestFailure::from(&e))? else {
        return Err(model::nothing_configured(&collected.model.config));
    };
    let parts = PromptParts {
        ask,
        tools: collected.tools,
        pack: collected.pack,
        servers: collected.servers,
        prompt_id: None,
    };
    let existing = collected.existing;
    let work = async {
        parts.fit(&mut chosen)?;
        let none = Session::outside(Err(Error::runtime("")));
        let session = existing.as_ref().unwrap_or(&none);
        let prompt = PreparedPrompt::new(services, feed, session, &mut chosen, parts).await?;
        let setting = turn_settings::settings(session, &chosen);
        let (ids, request) = (collected.record_ids, &prompt.request);
        let run = TurnRun::new(services, &chosen, session, feed, setting, ids, request);
        let catalog = prompt.tools.map(|(catalog, _)| catalog);
        let (url, body, tokens) = run.preview(catalog, prompt.user).await?;
        let body = String::from_utf8(body)
            .map_err(|e| Error::runtime(format!("the request is not UTF-8: {e}")))?;
        let usage = TokenUsage {
            prompt_tokens: tokens,
            ..TokenUsage::default()
        };
        let result: Result<RequestPreview> = Ok(RequestPreview {
            url,
            model: chosen.name.clone(),
            session: existing.as_ref().map(|session| session.id.clone()),
            body,
            tokens,
            cost: chosen.price.as_ref().map(|price| price.cost(&usage)),
        });
        result
    };
    work.await.map_err(|e| RequestFailure::from(&e))
}
