//! Driven shells: prompts and notices for terminals whose users have typed `llm :tui`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use crate::api::ApiState;
use crate::api::extract::JsonBody;
use crate::api::problem::{Answer, Problem, ProblemDocument};
use crate::api::types::{
    DrivenShellList, DrivenShellView, PerformedAction, ShellChoice, ShellText,
};
use crate::protocol::ShellId;
use crate::safety::text;
use crate::services::driven_shells::{ActionRefusal, ShellAction};
use crate::session::lock;

/// Maximum size of a text, in bytes.
const MAX_TEXT: usize = 16 << 10;
/// Maximum length of a notice on the screen, in characters.
const NOTICE_LENGTH: usize = 200;
/// What makes a shell a driven shell.
const HINT: &str = "type llm :tui in the shell";

/// Lists the shells that can be driven.
///
/// Those in which `llm :tui` was typed. Without a `shell_id`, the other operations use the one with `is_default`.
#[utoipa::path(get, path = "/v1/tui", operation_id = "list_driven_shells", tag = "tui",
    responses((status = 200, description = "The shells", body = DrivenShellList)))]
pub async fn list(State(state): State<ApiState>) -> Json<DrivenShellList> {
    let shells = state.services.driven_shells.list();
    let default = default_shell(&state, &shells);
    let view = |shell: ShellId| {
        let tty = lock(&state.services.shells).on_screen(&shell);
        let tty = tty.map(|shown| shown.tty).filter(|tty| !tty.is_empty());
        let pid = shell.as_str().split('-').next().unwrap_or_default();
        // Only Linux has it.
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).ok();
        DrivenShellView {
            is_default: default.as_ref() == Some(&shell),
            tty,
            session_id: state.services.sessions.session_for_shell(&shell),
            cwd: cwd.map(|cwd| cwd.to_string_lossy().into_owned()),
            shell_id: shell.to_string(),
        }
    };
    Json(DrivenShellList {
        shells: shells.into_iter().map(view).collect(),
    })
}

/// Appends to the prompt on the command line of a driven shell, or begins one.
///
/// An empty line becomes `llm -- TEXT`. Nothing is sent to a model. The shell acts at once or not at all: 409 says why not.
#[utoipa::path(post, path = "/v1/tui/append-prompt", tag = "tui", request_body = ShellText,
    responses(
        (status = 200, description = "The text is in the edit buffer", body = PerformedAction),
        (status = 404, description = "This shell is not driven", body = ProblemDocument),
        (status = 409, description = "No shell is driven, it runs a command, or its command line holds something else", body = ProblemDocument),
        (status = 422, description = "The text has control characters except line feeds and tabs, or characters that cannot be seen", body = ProblemDocument)))]
pub async fn append_prompt(
    State(state): State<ApiState>,
    JsonBody(body): JsonBody<ShellText>,
) -> Answer<Json<PerformedAction>> {
    check_size(&body.text)?;
    if text::prose(&body.text) != body.text {
        return Err(Problem::invalid(
            "text has control characters, or characters that cannot be seen",
            "only line feeds and tabs are accepted of these",
        ));
    }
    perform(&state, body.shell_id, ShellAction::Append(&body.text)).await
}

/// Submits the prompt on the command line of a driven shell, as Enter does.
///
/// Each command that the model proposes in the answer is asked about. The shell acts at once or not at all: 409 says why not.
#[utoipa::path(post, path = "/v1/tui/submit-prompt", tag = "tui", request_body = ShellChoice,
    responses(
        (status = 200, description = "The prompt is submitted", body = PerformedAction),
        (status = 404, description = "This shell is not driven", body = ProblemDocument),
        (status = 409, description = "No shell is driven, it runs a command, or its command line does not hold a prompt", body = ProblemDocument)))]
pub async fn submit_prompt(
    State(state): State<ApiState>,
    JsonBody(body): JsonBody<ShellChoice>,
) -> Answer<Json<PerformedAction>> {
    perform(&state, body.shell_id, ShellAction::Submit).await
}

/// Shows a line above the prompt of a driven shell.
///
/// The command line stays as it is. Invisible characters are shown as visible replacements, and a long text is cut to 200 characters.
#[utoipa::path(post, path = "/v1/tui/show-notice", tag = "tui", request_body = ShellText,
    responses(
        (status = 200, description = "The line is shown", body = PerformedAction),
        (status = 404, description = "This shell is not driven", body = ProblemDocument),
        (status = 409, description = "No shell is driven, or it runs a command", body = ProblemDocument)))]
pub async fn show_notice(
    State(state): State<ApiState>,
    JsonBody(body): JsonBody<ShellText>,
) -> Answer<Json<PerformedAction>> {
    check_size(&body.text)?;
    let line = text::one_line(&body.text, NOTICE_LENGTH);
    perform(&state, body.shell_id, ShellAction::Notice(&line)).await
}

fn check_size(text: &str) -> Answer<()> {
    match text.len() {
        0 => Err(Problem::invalid("text is empty", "send one")),
        length if length > MAX_TEXT => Err(Problem::invalid(
            format!("text has {length} bytes; at most {MAX_TEXT} are accepted"),
            "shorten it",
        )),
        _ => Ok(()),
    }
}

/// Returns the shell of these that ran a command last.
fn default_shell(state: &ApiState, shells: &[ShellId]) -> Option<ShellId> {
    let latest = lock(&state.services.shells).latest_first();
    let last = latest.into_iter().find(|shell| shells.contains(shell));
    // After a restart of the daemon, a shell is known from its next prompt on.
    last.or_else(|| shells.first().cloned())
}

async fn perform(
    state: &ApiState,
    shell_id: Option<String>,
    action: ShellAction<'_>,
) -> Answer<Json<PerformedAction>> {
    let shells = state.services.driven_shells.list();
    let shell = match shell_id {
        Some(id) => shells
            .into_iter()
            .find(|shell| shell.as_str() == id)
            .ok_or_else(|| Problem::not_found("no driven shell has this id", HINT))?,
        None => {
            default_shell(state, &shells).ok_or_else(|| conflict("no shell is driven", HINT))?
        }
    };
    let outcome = state.services.driven_shells.perform(&shell, action).await;
    let name = action.name();
    tracing::info!("a client of the HTTP API drives the shell {shell}: {name}: {outcome:?}");
    outcome.map_err(refused)?;
    Ok(Json(PerformedAction {
        shell_id: shell.to_string(),
    }))
}

fn conflict(message: &str, hint: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, "runtime", message, hint)
}

fn refused(refusal: ActionRefusal) -> Problem {
    let (message, hint) = match refusal {
        ActionRefusal::Gone => ("the shell is no longer driven", HINT),
        ActionRefusal::Occupied => ("another request for this shell is in progress", "try again"),
        ActionRefusal::Silent => (
            "the shell did not answer: it is running a command, or its terminal does not report its status",
            "the request was dropped; try again when the shell shows its prompt",
        ),
        ActionRefusal::Busy => (
            "the line editor is busy: a search, a completion, a continuation line or the command mode of vi is active",
            "try again after the next key",
        ),
        ActionRefusal::Unhooked => (
            "another plugin has replaced the hook that keeps a prompt from being run as a command",
            "try again at the next prompt",
        ),
        ActionRefusal::Other => (
            "the command line holds something other than a prompt",
            "empty it, or begin the prompt with llm --",
        ),
        ActionRefusal::Empty => ("the command line holds no prompt", "append one first"),
        ActionRefusal::Full => (
            "the prompt on the command line would be too long",
            "submit or shorten it first",
        ),
    };
    conflict(message, hint)
}
