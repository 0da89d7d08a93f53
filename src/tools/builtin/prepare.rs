//! Prepares calls of the built-in tools that work on files, commands and pages: reads the arguments, resolves the paths, and
//! determines what the call will do.

use std::time::Instant;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::helper_run;
use super::prepared::{PrepareError, PreparedCall, PreparedWork, on_paths, resolve};
use super::scope::WorkScope;
use super::work_definitions::{
    EDIT_FILE, FETCH_URL, FIND_FILES, GIT, GREP, LIST_DIR, PATCH, PYTHON, READ_FILE, SEARCH, SHELL,
    WRITE_FILE, work_tools,
};
use super::{prepare_change, prepare_shell};
use crate::address::NetworkZone;
use crate::safety::policy::BuiltinAction;
use crate::web::fetch::web_url;
use crate::workspace::git::{GitCommand, GitRequest};
use crate::workspace::grep::GrepRequest;

/// Why a question to git is asked about whose answer may have the text of a file that a reading tool asks about.
const HOME_REPOSITORY: &str =
    "it may show secrets of your home directory, which no rule and no earlier answer covers";

/// Prepares a call, which is given up soon after `deadline`. Reads files, so it does not belong on the runtime thread.
///
/// # Errors
/// The arguments are wrong, or a path cannot be used; for the model.
pub fn prepare(
    scope: &WorkScope,
    tool: &str,
    arguments: &str,
    deadline: Instant,
) -> Result<PreparedCall, PrepareError> {
    let arguments = &with_types(tool, arguments);
    check_ranges(tool, arguments)?;
    match tool {
        READ_FILE => read_file(scope, parse(arguments)?),
        LIST_DIR => list_dir(scope, parse(arguments)?),
        GREP => grep(scope, parse(arguments)?),
        FIND_FILES => find_files(scope, parse(arguments)?),
        WRITE_FILE => prepare_change::write_file(scope, parse(arguments)?),
        EDIT_FILE => prepare_change::edit_file(scope, parse(arguments)?),
        PATCH => prepare_change::patch(scope, parse(arguments)?, deadline),
        SHELL => prepare_shell::shell(scope, parse(arguments)?),
        GIT => git(scope, parse(arguments)?),
        FETCH_URL => fetch_url(parse(arguments)?),
        SEARCH => search(scope, parse(arguments)?),
        PYTHON => helper_run::python(scope, parse(arguments)?),
        _ if scope.helpers.catalog.find(tool).is_some() => {
            helper_run::helper(scope, tool, arguments)
        }
        _ => Err(PrepareError::from(format!("there is no tool {tool}"))),
    }
}

/// Checks numbers against the limits in the schema of a built-in tool.
fn check_ranges(tool: &str, arguments: &str) -> Result<(), PrepareError> {
    let Some(definition) = work_tools().iter().find(|known| known.name == tool) else {
        return Ok(());
    };
    // Other faults are reported where the arguments are parsed.
    let schema: Value = serde_json::from_str(&definition.schema).unwrap_or_default();
    let given: Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
    for (name, value) in &given {
        let limits = schema.get("properties").and_then(|all| all.get(name));
        let limit = |bound: &str| limits.and_then(|limits| limits.get(bound)?.as_i64());
        let Some(number) = value.as_f64() else {
            continue;
        };
        let is_below = limit("minimum").is_some_and(|least| number < least as f64);
        let is_above = limit("maximum").is_some_and(|most| number > most as f64);
        if is_below || is_above {
            let range = match (limit("minimum"), limit("maximum")) {
                (Some(least), Some(most)) => format!("from {least} to {most}"),
                (Some(least), None) => format!("at least {least}"),
                (None, most) => format!("at most {}", most.unwrap_or_default()),
            };
            return Err(PrepareError::from(format!(
                "the arguments are wrong: {name} must be {range}, not {value}"
            )));
        }
    }
    Ok(())
}

/// Returns the arguments with a number or a boolean for each string that is one, where the schema wants it.
fn with_types(tool: &str, arguments: &str) -> String {
    let definition = work_tools().iter().find(|known| known.name == tool);
    let schema = definition.and_then(|known| serde_json::from_str::<Value>(&known.schema).ok());
    let given = serde_json::from_str::<Map<String, Value>>(arguments);
    let (Some(schema), Ok(mut given)) = (schema, given) else {
        return arguments.to_owned();
    };
    for (name, value) in &mut given {
        let wanted = schema.pointer(&format!("/properties/{name}/type"));
        let (Some(wanted), Some(text)) = (wanted.and_then(Value::as_str), value.as_str()) else {
            continue;
        };
        let text = text.trim();
        let typed = match wanted {
            "integer" => text.parse::<i64>().ok().map(Value::from),
            "boolean" => text
                .to_ascii_lowercase()
                .parse::<bool>()
                .ok()
                .map(Value::from),
            _ => None,
        };
        if let Some(typed) = typed {
            *value = typed;
        }
    }
    Value::Object(given).to_string()
}

fn parse<T: DeserializeOwned>(arguments: &str) -> Result<T, PrepareError> {
    let wrong = |message: String| PrepareError::from(format!("the arguments are wrong: {message}"));
    // From a value: errors then have no position in a text that nobody sees.
    let value: Value = serde_json::from_str(arguments).map_err(|e| wrong(e.to_string()))?;
    serde_path_to_error::deserialize(value).map_err(|e| {
        let (path, message) = (e.path().to_string(), e.inner().to_string());
        let kinds = ["invalid type: ", "invalid value: "];
        let rest = kinds.iter().find_map(|kind| message.strip_prefix(kind));
        match rest.and_then(|rest| rest.split_once(", expected ")) {
            Some((found, expected)) if path != "." => {
                let expected = match expected {
                    "u32" | "u64" | "usize" => "a whole number",
                    "a boolean" => "true or false",
                    other => other,
                };
                wrong(format!("{path} must be {expected}, not {found}"))
            }
            // The name of a field that is missing or unknown is in the message.
            _ => wrong(message),
        }
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadFileArguments {
    path: String,
    offset: Option<u64>,
    limit: Option<usize>,
}

fn read_file(scope: &WorkScope, call: ReadFileArguments) -> Result<PreparedCall, PrepareError> {
    let path = resolve(scope, &call.path)?;
    let work = PreparedWork::ReadFile {
        path: path.clone(),
        offset: call.offset.unwrap_or(1),
        limit: call.limit.unwrap_or(usize::MAX),
    };
    Ok(on_paths(scope, BuiltinAction::FsRead, &[&path], work))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListDirArguments {
    #[serde(default = "here")]
    path: String,
    depth: Option<usize>,
}

fn here() -> String {
    ".".to_owned()
}

fn list_dir(scope: &WorkScope, call: ListDirArguments) -> Result<PreparedCall, PrepareError> {
    let path = resolve(scope, &call.path)?;
    let depth = call.depth.unwrap_or(1);
    let work = PreparedWork::ListDir {
        path: path.clone(),
        depth,
    };
    Ok(on_paths(scope, BuiltinAction::FsRead, &[&path], work))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GrepArguments {
    pattern: String,
    #[serde(default = "here")]
    path: String,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    fixed: bool,
    #[serde(default)]
    context: usize,
    #[serde(default)]
    files_only: bool,
}

fn grep(scope: &WorkScope, call: GrepArguments) -> Result<PreparedCall, PrepareError> {
    let path = resolve(scope, &call.path)?;
    let request = GrepRequest {
        glob: call.glob,
        ignore_case: call.ignore_case,
        fixed: call.fixed,
        context: call.context,
        files_only: call.files_only,
        ..GrepRequest::new(call.pattern, path.clone())
    };
    let work = PreparedWork::Grep(Box::new(request));
    Ok(on_paths(scope, BuiltinAction::FsRead, &[&path], work))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FindFilesArguments {
    pattern: String,
    #[serde(default = "here")]
    path: String,
}

fn find_files(scope: &WorkScope, call: FindFilesArguments) -> Result<PreparedCall, PrepareError> {
    // A slash at the start binds a glob to the directory of the search, unless it is the path of a directory in the workspace.
    let is_path = |place: &str| {
        let dir = resolve(scope, place);
        !call.pattern.starts_with('/') || dir.is_ok_and(|dir| dir.workspace.is_some())
    };
    let split = split_pattern(&call.path, &call.pattern).filter(|(place, _)| is_path(place));
    let (place, pattern) = split.unwrap_or((call.path, call.pattern));
    let dir = resolve(scope, &place)?;
    let work = PreparedWork::FindFiles {
        pattern,
        dir: dir.clone(),
    };
    Ok(on_paths(scope, BuiltinAction::FsRead, &[&dir], work))
}

/// Splits a pattern that begins with a path (`/`, `~/`, `./` or `../`) into the directory before its first glob, in which the
/// search begins, and the rest, which is a glob from there on. `None` for other patterns.
fn split_pattern(dir: &str, pattern: &str) -> Option<(String, String)> {
    let has_path = ["/", "~/", "./", "../"]
        .iter()
        .any(|start| pattern.starts_with(start));
    let is_glob = |c: char| "*?[{".contains(c);
    let before_glob = pattern.split(is_glob).next().unwrap_or(pattern);
    let (place, _) = before_glob.rsplit_once('/').filter(|_| has_path)?;
    let rest = pattern.get(place.len() + 1..).unwrap_or_default();
    let is_absolute = pattern.starts_with(['/', '~']);
    let place = match is_absolute {
        true => format!("{place}/"),
        false => format!("{dir}/{place}"),
    };
    let rest = match pattern.contains(is_glob) {
        // A slash at the start binds a glob to the directory.
        true => format!("/{rest}"),
        false => rest.to_owned(),
    };
    Some((place, rest))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UrlArguments {
    url: String,
}

fn fetch_url(call: UrlArguments) -> Result<PreparedCall, PrepareError> {
    let url = web_url(&call.url).map_err(|e| PrepareError::from(e.message))?;
    let host = url.host_str().unwrap_or_default().to_owned();
    // An address has many spellings: the question names, and the call reads, its normal form.
    let typed = call.url.trim_end_matches('/');
    let statement = (url.as_str().trim_end_matches('/') != typed).then(|| url.to_string());
    let zone = NetworkZone::named(&url);
    let reason = (zone != NetworkZone::Outside).then(|| {
        format!(
            "{host} {}, which no rule and no earlier answer covers",
            zone.description()
        )
    });
    Ok(PreparedCall {
        reason,
        statement,
        ..on_network(PreparedWork::FetchUrl(url.into()))
    })
}

fn on_network(work: PreparedWork) -> PreparedCall {
    PreparedCall {
        action: Some(BuiltinAction::Network),
        second_action: None,
        workspace: None,
        operation: None,
        reason: None,
        files: Vec::new(),
        command: None,
        statement: None,
        difference: Vec::new(),
        danger: None,
        typed_yes: false,
        is_second_run: false,
        work,
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    query: String,
    #[serde(rename = "in")]
    place: SearchPlace,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SearchPlace {
    Files,
    History,
    Web,
}

fn search(scope: &WorkScope, call: SearchArguments) -> Result<PreparedCall, PrepareError> {
    match call.place {
        SearchPlace::Files => {
            let top = scope.workspace.top();
            let work = PreparedWork::SearchFiles(call.query);
            Ok(on_paths(scope, BuiltinAction::FsRead, &[&top], work))
        }
        SearchPlace::History => {
            let work = PreparedWork::SearchHistory(call.query);
            Ok(PreparedCall {
                action: Some(BuiltinAction::FsRead),
                statement: Some(
                    "the earlier prompts, answers and commands of all sessions".to_owned(),
                ),
                // Another project's session is nobody else's business: no rule about files covers it.
                reason: Some("it searches the history of all sessions".to_owned()),
                ..on_network(work)
            })
        }
        SearchPlace::Web => match &scope.search_url {
            Some(server) => Ok(PreparedCall {
                statement: Some(format!("the search server {server}")),
                ..on_network(PreparedWork::SearchWeb {
                    server: server.clone(),
                    query: call.query,
                })
            }),
            None => Err(PrepareError::from(
                "no web search is configured; the user can set search_url in [tools]".to_owned(),
            )),
        },
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GitArguments {
    command: GitCommandName,
    revision: Option<String>,
    path: Option<String>,
    #[serde(default)]
    staged: bool,
    max_count: Option<u32>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GitCommandName {
    Status,
    Diff,
    Log,
    Show,
    Blame,
}

impl From<GitCommandName> for GitCommand {
    fn from(name: GitCommandName) -> GitCommand {
        match name {
            GitCommandName::Status => GitCommand::Status,
            GitCommandName::Diff => GitCommand::Diff,
            GitCommandName::Log => GitCommand::Log,
            GitCommandName::Show => GitCommand::Show,
            GitCommandName::Blame => GitCommand::Blame,
        }
    }
}

fn git(scope: &WorkScope, call: GitArguments) -> Result<PreparedCall, PrepareError> {
    let path = match &call.path {
        Some(path) => Some(resolve(scope, path)?),
        None => None,
    };
    let top = scope.workspace.top();
    let is_any_revision = call.revision.is_some();
    let request = GitRequest {
        revision: call.revision,
        path: path.clone(),
        staged: call.staged,
        max_count: call.max_count,
        ..GitRequest::new(call.command.into())
    };
    let work = PreparedWork::Git(Box::new(request));
    let paths = match &path {
        Some(path) => vec![&top, path],
        None => vec![&top],
    };
    let mut prepared = on_paths(scope, BuiltinAction::FsRead, &paths, work);
    // A revision can name any object of the repository.
    let limit = path.filter(|_| !is_any_revision);
    let shown = limit.map_or(top.absolute, |path| path.absolute);
    let shows_files = matches!(call.command, GitCommandName::Diff | GitCommandName::Show);
    if shows_files && prepared.reason.is_none() && scope.home_files.may_be_below(&shown) {
        prepared.reason = Some(HOME_REPOSITORY.to_owned());
    }
    Ok(prepared)
}

#[cfg(test)]
mod tests;
