//! Models, and routes that do not exist yet.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::problem::{Answer, Problem, ProblemDocument};
use crate::api::types::{ModelList, ModelView};
use crate::config::ConfigOverrides;

/// Lists the models of the configuration.
#[utoipa::path(get, path = "/v1/models", operation_id = "list_models", tag = "models",
    responses(
        (status = 200, description = "The models", body = ModelList),
        (status = 409, description = "The configuration is not valid", body = ProblemDocument)))]
pub async fn models(State(state): State<ApiState>) -> Answer<Json<ModelList>> {
    let config = state.services.models.config(&ConfigOverrides::default())?;
    let current = config.current().ok().flatten();
    let models = config.models.values().map(|model| ModelView {
        name: model.name.clone(),
        model: model.model.clone(),
        is_default: current.is_some_and(|current| current.name == model.name),
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
    request_body(content = Option<Value>, description = "Anything: it is not read yet"),
    responses((status = 501, description = "aish has no agents yet", body = ProblemDocument)))]
pub async fn create_agent() -> Problem {
    Problem::new(
        StatusCode::NOT_IMPLEMENTED,
        "runtime",
        "aish has no agents yet",
        "send the prompt to a session: POST /v1/sessions/{session_id}/messages",
    )
}
