//! Models, and what does not exist yet.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::problem::{Answer, Problem, ProblemDocument};
use crate::api::types::{ModelList, ModelView};
use crate::requests;

/// Lists the models of the configuration.
#[utoipa::path(get, path = "/v1/models", operation_id = "list_models", tag = "models",
    responses(
        (status = 200, description = "The models", body = ModelList),
        (status = 409, description = "The configuration is not valid", body = ProblemDocument)))]
pub async fn models(State(state): State<ApiState>) -> Answer<Json<ModelList>> {
    let models = requests::models(&state.services, None, &BTreeMap::new()).await?;
    let models = models.into_iter().map(|model| ModelView {
        name: model.name,
        model: model.model,
        is_default: model.current,
    });
    Ok(Json(ModelList {
        models: models.collect(),
    }))
}

/// Lists the agents: none, because aish has no agents yet.
#[utoipa::path(get, path = "/v1/agents", operation_id = "list_agents", tag = "agents",
    responses((status = 200, description = "An empty list", body = Object)))]
pub async fn agents() -> Json<Value> {
    Json(json!({ "agents": [] }))
}

/// Creates an agent: not possible yet.
#[utoipa::path(post, path = "/v1/agents", tag = "agents",
    responses((status = 501, description = "aish has no agents yet", body = ProblemDocument)))]
pub async fn create_agent() -> Problem {
    Problem::new(
        StatusCode::NOT_IMPLEMENTED,
        "runtime",
        "aish has no agents yet",
    )
    .hint("send the prompt to a session: POST /v1/sessions/{session_id}/messages")
}
