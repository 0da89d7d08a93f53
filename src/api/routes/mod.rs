//! The operations of the API, one file per kind of object. Each handler has its documentation, from which the OpenAPI document
//! is made; [`router`] registers both together.

mod activity;
mod events;
mod logs;
mod messages;
mod meta;
mod other;
mod pairing;
mod questions;
mod sessions;
mod shares;
mod tools;
mod tui;
mod undeclared;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware;
use axum::routing::{MethodFilter, MethodRouter};
use serde_json::{Value, json};
use utoipa::OpenApi;
use utoipa::openapi::HttpMethod;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};

use super::problem::{Answer, Problem, ProblemDocument};
use super::types::events as types;
use super::{ApiState, pages};
use crate::error::{Error, ErrorKind};
use crate::history::record::{RecordBody, RecordIds};
use crate::session::conversation::{Session, SharedSession};

/// Maximum size of the body of a request that needs no token, in bytes.
const MAX_TICKET: usize = 1 << 10;

/// Passes all operations to a macro, so that the routes and the document cannot differ.
macro_rules! operations {
    ($use_operations:ident) => {
        $use_operations! {
            meta::health, meta::version, meta::openapi_json, meta::doc, meta::redeem,
            sessions::list, sessions::create, sessions::get, sessions::change, sessions::delete,
            sessions::outline, sessions::record,
            messages::list, messages::send, messages::cancel,
            pairing::begin, pairing::get, pairing::end,
            questions::answer,
            events::of_session, events::of_all,
            logs::events, logs::recordings, logs::raw,
            shares::publish, shares::unshare, shares::list, shares::page, shares::recording,
            activity::list, activity::stats,
            tools::list, tools::call,
            tui::list, tui::append_prompt, tui::submit_prompt, tui::show_notice,
            other::models, other::agents, other::create_agent
        }
    };
}

/// Returns the description of operations.
macro_rules! describe {
    ($($module:ident::$handler:ident),*) => {{
        #[derive(OpenApi)]
        #[openapi(
            info(
                title = "aish",
                description = "Sessions of the AI companion of zsh. `docs/api.md` explains the events, cursors and limits. \
                    Over the unix socket `api.sock`, requests need neither token nor password.",
                license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
            ),
            paths($($module::$handler),*),
            components(schemas(
                super::types::EventEnvelope, ProblemDocument, types::MessageStart, types::MessageDelta, types::MessageEnd,
                types::ToolStart, types::ToolDelta, types::ToolEnd, types::AgentStatus, types::LogAppend, types::ToolRunning,
                types::OpenQuestion, types::ClosedQuestion, types::Notice, types::SessionTitle, types::SessionSetting,
                types::SessionDeleted, types::StreamPosition
            )),
            security(("token" = []), ("password" = []))
        )]
        struct Document;
        Document::openapi()
    }};
}

/// Returns a router with the handlers of operations, under the paths and methods of their descriptions.
macro_rules! routes {
    ($($module:ident::$handler:ident),*) => {
        pastey::paste! {
            Router::new()$(.route(
                &<$module::[<__path_ $handler>] as utoipa::Path>::path(),
                <$module::[<__path_ $handler>] as utoipa::Path>::methods()
                    .iter()
                    .fold(MethodRouter::new(), |router, method| {
                        router.on(filter(method), $module::$handler)
                    }),
            ))*
        }
    };
}

/// The document of the API, as [`document`] makes it.
pub const DOCUMENT: &str = include_str!("../../../docs/openapi.json");

/// Makes the document of the API from the operations. The server sends [`DOCUMENT`], which a test compares with it: so the
/// program needs neither the code nor the memory that it takes to make it.
pub fn document() -> Value {
    let mut document = operations!(describe);
    let components = document.components.get_or_insert_default();
    let schemes = [
        (
            "token",
            HttpAuthScheme::Bearer,
            "`aish-helper serve token show` prints it",
        ),
        (
            "password",
            HttpAuthScheme::Basic,
            "If the configuration has a `password`; the name of the user does not matter",
        ),
    ];
    for (name, kind, description) in schemes {
        let scheme = Http::builder().scheme(kind).description(Some(description));
        components.add_security_scheme(name, SecurityScheme::Http(scheme.build()));
    }
    // A description of text and numbers always serializes.
    let mut document = serde_json::to_value(document).unwrap_or_default();
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    let operations = paths
        .filter_map(|(_, methods)| methods.as_object_mut())
        .flatten();
    for (_, operation) in operations {
        add_refusals(operation);
    }
    document["components"]["responses"] = refusals();
    types::add_payloads(&mut document["components"]["schemas"]["EventEnvelope"]);
    document
}

/// The refusals of the guard and the listener: the status, the name of its description, and the description.
const REFUSALS: [(&str, &str, &str); 13] = [
    (
        "400",
        "BadRequest",
        "The path, a parameter, a header or the body is not well-formed",
    ),
    ("401", "Unauthorized", "The request has no valid token"),
    ("403", "Forbidden", "The origin of the request is refused"),
    (
        "408",
        "RequestTimeout",
        "The request did not arrive in time",
    ),
    ("413", "ContentTooLarge", "The body is too large"),
    (
        "414",
        "UriTooLong",
        "The address of the request is too long",
    ),
    (
        "415",
        "UnsupportedMediaType",
        "The body is not declared as JSON",
    ),
    (
        "421",
        "MisdirectedRequest",
        "The header Host names another server",
    ),
    ("422", "UnprocessableContent", "A value is not valid"),
    (
        "429",
        "TooManyRequests",
        "Too many wrong passwords were sent",
    ),
    (
        "431",
        "RequestHeaderFieldsTooLarge",
        "The head of the request is too large",
    ),
    (
        "501",
        "NotImplemented",
        "The transfer coding of the body is not supported",
    ),
    (
        "503",
        "ServiceUnavailable",
        "Too many connections are open, or too many bodies above 2 MiB are being read",
    ),
];

/// The content of every refusal.
fn problem_content() -> Value {
    json!({ "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } })
}

/// Returns the descriptions of the refusals that operations refer to.
fn refusals() -> Value {
    let described = REFUSALS.iter().map(|(_, name, description)| {
        let response = json!({ "description": description, "content": problem_content() });
        ((*name).to_owned(), response)
    });
    described.collect()
}

/// Adds the refusals that an operation may answer with, and the media type of all refusals.
fn add_refusals(operation: &mut Value) {
    let is_public = operation.get("security").is_some();
    let has_body = operation.get("requestBody").is_some();
    let Some(responses) = operation["responses"].as_object_mut() else {
        return;
    };
    for (status, name, _) in REFUSALS {
        let is_possible = match status {
            "401" | "429" | "503" => !is_public,
            "413" | "415" | "422" | "501" => has_body,
            _ => true,
        };
        if is_possible && !responses.contains_key(status) {
            let reference = format!("#/components/responses/{name}");
            responses.insert(status.to_owned(), json!({ "$ref": reference }));
        }
    }
    for (status, response) in responses.iter_mut() {
        if status.starts_with(['4', '5'])
            && let Some(content) = response.get_mut("content")
        {
            *content = problem_content();
        }
    }
    responses.sort_keys();
}

fn filter(method: &HttpMethod) -> MethodFilter {
    match method {
        HttpMethod::Get => MethodFilter::GET,
        HttpMethod::Post => MethodFilter::POST,
        HttpMethod::Put => MethodFilter::PUT,
        HttpMethod::Delete => MethodFilter::DELETE,
        HttpMethod::Options => MethodFilter::OPTIONS,
        HttpMethod::Head => MethodFilter::HEAD,
        HttpMethod::Patch => MethodFilter::PATCH,
        HttpMethod::Trace => MethodFilter::TRACE,
    }
}

/// Returns all routes, behind `guard`.
pub fn router(state: ApiState) -> Router {
    operations!(routes)
        .route_layer(middleware::from_fn(undeclared::refuse_undeclared))
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(pages::serve)
        .with_state(state)
}

/// The router adds the header `Allow`.
async fn method_not_allowed() -> Problem {
    Problem {
        headers: Vec::new(),
        ..Problem::method_not_allowed("")
    }
}

/// Returns the session with this id.
async fn session(state: &ApiState, id: &str) -> Answer<SharedSession> {
    let sessions = &state.services.sessions;
    // Only the form that ids have: nothing else becomes part of a path.
    let is_id = id.len() == 36 && uuid::Uuid::parse_str(id).is_ok() && *id == id.to_lowercase();
    if is_id {
        if let Some(session) = sessions.opened(id) {
            return Ok(session);
        }
        if sessions.journal.has(id) {
            match sessions.get(id).await {
                // It was deleted meanwhile.
                Err(_) if !sessions.journal.has(id) => {}
                found => return Ok(found?),
            }
        }
    }
    Err(no_session())
}

fn no_session() -> Problem {
    let message = "there is no session with this id";
    Problem::not_found(message, "GET /v1/sessions lists them")
}

/// Returns the result of an operation, or that there is no session if the operation has failed because the session was
/// deleted meanwhile.
fn unless_deleted<T>(
    state: &ApiState,
    id: &str,
    result: Result<T, impl Into<Problem>>,
) -> Answer<T> {
    result.map_err(|e| {
        let problem = e.into();
        let is_failure = problem.status == StatusCode::INTERNAL_SERVER_ERROR;
        match is_failure && !state.services.sessions.journal.has(id) {
            true => no_session(),
            false => problem,
        }
    })
}

/// Returns the ids of the records of a request.
fn record_ids(state: &ApiState) -> RecordIds {
    RecordIds {
        user: state.services.user.clone(),
        request: Some(uuid::Uuid::now_v7().to_string()),
        ..RecordIds::default()
    }
}

/// Returns the value of the parameter `name`, which must be at least 1, or its default.
fn within(name: &str, value: Option<usize>, (default, maximum): (usize, usize)) -> Answer<usize> {
    match value {
        None => Ok(default),
        Some(value) if (1..=maximum).contains(&value) => Ok(value),
        Some(_) => Err(Problem::bad_request(
            format!("{name} is not within 1 and {maximum}"),
            format!("leave it out for {default}"),
        )),
    }
}

fn at_most(value: Option<usize>, name: &str, maximum: usize) -> Answer<usize> {
    match value {
        None => Ok(0),
        Some(value) if value <= maximum => Ok(value),
        Some(_) => Err(Problem::bad_request(
            format!("{name} is more than {maximum}"),
            "use the value that the page before names",
        )),
    }
}

/// Turns the error of a well-formed request into a problem: an object that it names, such as a prompt pack, does not exist now.
fn unfit(error: Error) -> Problem {
    let is_usage = error.kind == ErrorKind::Usage;
    let problem = Problem::from(error);
    match is_usage {
        true => Problem {
            status: StatusCode::CONFLICT,
            ..problem
        },
        false => problem,
    }
}

fn check_length(name: &str, text: &str, limit: usize) -> Answer<()> {
    match text.chars().nth(limit) {
        None => Ok(()),
        Some(_) => Err(Problem::invalid(
            format!("{name} is longer than {limit} characters"),
            "shorten it",
        )),
    }
}

/// Name of the setting with the directory of a session, in its records.
const CWD: &str = "cwd";

/// Returns the directory of a session: that of the last prompt, or the one that was set since.
fn cwd(session: &Session) -> Option<String> {
    session.with_records(|records| {
        records.iter().rev().find_map(|record| match &record.body {
            RecordBody::User { cwd, .. } => Some(cwd.clone()),
            RecordBody::SessionSetting { setting, value } if setting == CWD => value.clone(),
            _ => None,
        })
    })
}

/// Returns a directory with its links resolved: the rules of a project hold for it whatever it is called.
async fn real_dir(named: &str) -> Answer<String> {
    if !named.starts_with('/') || named.chars().any(char::is_control) {
        let hint = "send the path of a directory from / on, without control characters";
        return Err(Problem::invalid("cwd is not an absolute path", hint));
    }
    let real = tokio::fs::canonicalize(named).await.ok();
    let real = real.and_then(|real| real.into_os_string().into_string().ok());
    match real {
        Some(real) if tokio::fs::metadata(&real).await.is_ok_and(|m| m.is_dir()) => Ok(real),
        _ => {
            let message = "cwd is not a directory on this machine";
            let hint = "create it, or send the path of another one";
            Err(Problem::new(StatusCode::CONFLICT, "usage", message, hint))
        }
    }
}

/// The directory of requests that name none.
fn home() -> String {
    let home = crate::paths::variable("HOME").map(|home| home.to_string_lossy().into_owned());
    home.unwrap_or_else(|| "/".to_owned())
}
