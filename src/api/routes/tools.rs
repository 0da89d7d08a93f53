//! Tools: list, and calls through the same gate as those of a model.

use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::Json;
use axum::extract::State;

use crate::api::ApiState;
use crate::api::extract::{InPath, JsonBody};
use crate::api::problem::{Answer, Problem, ProblemDocument};
use crate::api::types::{ToolCallReply, ToolCallRequest, ToolList, ToolView};
use crate::chat::OperationClass;
use crate::config::{ConfigOverrides, packs};
use crate::error::{Error, ErrorKind};
use crate::protocol::tools::ManualCall;
use crate::requests::{manual_call, mcp};
use crate::safety::policy::{BUILTIN_SERVER, HELPER_SERVER};
use crate::safety::redact::global_redactor;
use crate::services::client_handle::ClientHandle;
use crate::services::mcp_startup;
use crate::session::feed::{FeedOrigin, HangUpPolicy, THE_API, TurnFeed};
use crate::turn::tool_view::tool_info;
use crate::turn::work_scope;

/// Returns the handle of a request that is not a prompt.
fn client(state: &ApiState) -> ClientHandle {
    let origin = FeedOrigin {
        tty: Some(THE_API.to_owned()),
        // Nobody watches: calls that would need approval are denied immediately.
        hang_up: HangUpPolicy::Cancel,
        ..FeedOrigin::of_request(None, None)
    };
    let feed = TurnFeed::new(origin, state.cancel.child_token());
    let kept = state.services.last_variables.clone();
    ClientHandle::without_shell(feed, super::record_ids(state), kept)
}

/// Lists the tools: the built-in ones, Python helpers and those of the MCP servers.
///
/// With the schemas of their arguments, and the names of toolsets and prompt packs. Starts MCP servers that do not run yet.
#[utoipa::path(get, path = "/v1/tools", operation_id = "list_tools", tag = "tools",
    responses(
        (status = 200, description = "The tools", body = ToolList),
        (status = 409, description = "The configuration is not valid", body = ProblemDocument)))]
pub async fn list(State(state): State<ApiState>) -> Answer<Json<ToolList>> {
    let services = &state.services;
    let config = services.models.config(&ConfigOverrides::default())?;
    let client = client(&state);
    mcp_startup::refresh_for(services, &client, &config).await?;
    mcp::ready(services, &client, &config, None).await?;
    let own = match config.tools.builtin {
        true => work_scope::all_tools(services).await.0,
        false => Vec::new(),
    };
    let tools = services.mcp.tools();
    let tools = own.iter().chain(tools.iter()).map(|tool| {
        let info = tool_info(tool);
        ToolView {
            // The name for models leaves out the alias of a built-in tool.
            name: format!("{}.{}", tool.server, tool.tool),
            description: global_redactor().redact(&info.description).into_owned(),
            operation: info.operation.as_str().to_owned(),
            input_schema: info.schema,
        }
    });
    let tools = tools.collect();
    let paths = services.paths.clone();
    let found = tokio::task::spawn_blocking(move || packs::list(&paths, &PathBuf::from("/")));
    let found = found
        .await
        .map_err(|e| Error::runtime(format!("cannot look for prompt packs: {e}")))?;
    let prompts = found
        .into_iter()
        .flatten()
        .map(|pack| format!("@{}", pack.name));
    Ok(Json(ToolList {
        tools,
        toolsets: config
            .toolsets
            .names()
            .map(|name| format!("@{name}"))
            .collect(),
        prompts: prompts.collect(),
    }))
}

/// Calls a tool, if the policy allows it.
///
/// The call passes the same gate as one of a model, and the audit log has the decision and the call. What the policy asks about is
/// denied, because nobody can be asked. A built-in tool or a helper needs `session_id` or `cwd`. A client that hangs up cancels the
/// call.
#[utoipa::path(post, path = "/v1/tools/{name}/call", operation_id = "call_tool", tag = "tools", request_body = ToolCallRequest,
    params(("name" = String, Path, description = "`alias.tool`")),
    responses(
        (status = 200, description = "The call was made", body = ToolCallReply),
        (status = 403, description = "The call is denied; the message names the rule", body = ProblemDocument),
        (status = 404, description = "There is no such session, server or tool", body = ProblemDocument),
        (status = 409, description = "There is no such directory, or the configuration is not valid", body = ProblemDocument),
        (status = 422, description = "The call is not valid", body = ProblemDocument),
        (status = 500, description = "The tool, or its server, failed", body = ProblemDocument)))]
pub async fn call(
    State(state): State<ApiState>,
    InPath(name): InPath<String>,
    JsonBody(request): JsonBody<ToolCallRequest>,
) -> Answer<Json<ToolCallReply>> {
    let is_name =
        |(alias, tool): &(&str, &str)| name.len() <= 300 && !alias.is_empty() && !tool.is_empty();
    let Some((alias, tool)) = name.split_once(['.', ':']).filter(is_name) else {
        return Err(no_tool("there is no tool of this name"));
    };
    super::check_length(
        "reason",
        request.reason.as_deref().unwrap_or_default(),
        2000,
    )?;
    let operation = match request.operation.as_deref() {
        None | Some("read") => OperationClass::Read,
        Some("write") => OperationClass::Write,
        Some("destructive") => OperationClass::Destructive,
        Some(_) => {
            let message = "operation is not read, write or destructive";
            let hint = "leave it out for a tool that only reads";
            return Err(Problem::invalid(message, hint));
        }
    };
    let cwd = directory(&state, (alias, tool), request.session_id, request.cwd).await?;
    let call = ManualCall {
        operation,
        name: format!("{alias}:{tool}"),
        arguments: serde_json::Value::Object(request.arguments).to_string(),
        reason: request.reason,
        sensitivity: None,
        cwd,
        overrides: BTreeMap::new(),
        tty: None,
        work_env: BTreeMap::new(),
    };
    let client = client(&state);
    // A client that hangs up drops this handler: the call is then cancelled, and still ends with its record.
    let _hang_up = client.feed.cancel_token().clone().drop_guard();
    let services = state.services.clone();
    let calling = async move { manual_call::call(&services, &client, call).await };
    let called = state.services.tasks.spawn(calling).await;
    let called = called.map_err(|e| Error::runtime(format!("the call failed: {e}")))?;
    let called = called.map_err(|error| match error.kind {
        // Of a well-formed request, only the name of the server is refused here: the gate reports the rest in its result.
        ErrorKind::Usage => no_tool(error.message),
        _ => Problem::from(error),
    })?;
    if called.has_no_tool {
        return Err(no_tool(format!("there is no tool {alias}.{tool} now")));
    }
    if let Some(kind) = called.kind {
        let reason = called
            .why
            .unwrap_or_else(|| "the call was not made".to_owned());
        let reason = global_redactor().redact(&reason).into_owned();
        let hint = match kind {
            ErrorKind::Approval => format!(
                "allow it in [policy] of the configuration, or call it in a terminal: aish-helper policy explain {name}"
            ),
            ErrorKind::Usage => {
                "GET /v1/tools has the schema of its arguments, and its operation".to_owned()
            }
            _ => "see whether its server runs: aish-helper mcp list".to_owned(),
        };
        return Err(Error::new(kind, reason).hint(hint).into());
    }
    Ok(Json(ToolCallReply {
        status: called.status.as_str().to_owned(),
        text: global_redactor().redact(&called.text).into_owned(),
        reason: called.why,
        record_id: called.id,
    }))
}

fn no_tool(message: impl Into<String>) -> Problem {
    Problem::not_found(message, "GET /v1/tools lists them, as alias.tool")
}

/// Returns the directory in which a call works. A request has none by itself, so it must name one for the tools that work on
/// files and commands: the home directory, where a prompt over HTTP works then, would be a workspace that nobody chose.
async fn directory(
    state: &ApiState,
    (alias, tool): (&str, &str),
    session_id: Option<String>,
    cwd: Option<String>,
) -> Answer<String> {
    let is_own = matches!(alias, BUILTIN_SERVER | HELPER_SERVER);
    let config = state.services.models.config(&ConfigOverrides::default())?;
    if is_own && !config.tools.builtin {
        let message = "the built-in tools and helpers are turned off";
        let hint = "the configuration has builtin = false in [tools]";
        return Err(Problem::invalid(message, hint));
    }
    if is_own {
        let (known, _) = work_scope::all_tools(&state.services).await;
        if !known
            .iter()
            .any(|known| known.server == alias && known.tool == tool)
        {
            return Err(no_tool(format!("there is no tool {alias}.{tool}")));
        }
    }
    let of_session = match &session_id {
        Some(id) => Some(super::cwd(&*super::session(state, id).await?)),
        None => None,
    };
    if let Some(cwd) = cwd {
        super::check_length("cwd", &cwd, 4096)?;
        return super::real_dir(&cwd).await;
    }
    match of_session {
        Some(cwd) => Ok(cwd.unwrap_or_else(super::home)),
        None if is_own => {
            let message = "a built-in tool or helper needs a directory to work in";
            let hint = "send the session_id of a session, or the path of the directory as cwd";
            Err(Problem::invalid(message, hint))
        }
        None => Ok(super::home()),
    }
}
