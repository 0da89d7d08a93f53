//! Names, schemas and descriptions of the built-in tools that work on the user's files, commands and pages. They are sent with
//! every request that offers them, so they are short. Pure.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::definitions::builtin_tool;
use crate::chat::{ToolAnnotations, ToolDefinition};
use crate::safety::policy::BuiltinAction;

/// Reads a file.
pub const READ_FILE: &str = "read_file";
/// Lists a directory.
pub const LIST_DIR: &str = "list_dir";
/// Searches the text of files.
pub const GREP: &str = "grep";
/// Searches files by name.
pub const FIND_FILES: &str = "find_files";
/// Writes a whole file.
pub const WRITE_FILE: &str = "write_file";
/// Replaces a text in a file.
pub const EDIT_FILE: &str = "edit_file";
/// Changes several files in one call.
pub const PATCH: &str = "patch";
/// Runs a command in a separate shell.
pub const SHELL: &str = "shell";
/// Reads the state and the history of a git repository.
pub const GIT: &str = "git";
/// Reads a web page.
pub const FETCH_URL: &str = "fetch_url";
/// Searches files by name, the journal, and the web.
pub const SEARCH: &str = "search";
/// Runs Python code that calls helpers.
pub const PYTHON: &str = "python";

/// The groups in which the tools are selected, with their tools: `--tools fs,shell,git`.
pub const TOOL_GROUPS: [(&str, &[&str]); 5] = [
    (
        "fs",
        &[
            READ_FILE, LIST_DIR, GREP, FIND_FILES, WRITE_FILE, EDIT_FILE, PATCH,
        ],
    ),
    ("shell", &[SHELL]),
    ("git", &[GIT]),
    ("web", &[FETCH_URL, SEARCH]),
    (PYTHON, &[PYTHON]),
];

/// Returns the group of a built-in tool.
pub fn tool_group(name: &str) -> Option<&'static str> {
    let mut groups = TOOL_GROUPS.iter();
    groups
        .find(|(_, tools)| tools.contains(&name))
        .map(|(group, _)| *group)
}

/// Returns the action of calls of a built-in tool, as far as it follows from the tool without arguments.
pub fn tool_action(tool: &ToolDefinition) -> Option<BuiltinAction> {
    let only_reads = tool.annotations.reads_only();
    match (tool_group(&tool.name)?, tool.name.as_str()) {
        ("fs", _) if !only_reads => Some(BuiltinAction::FsWrite),
        ("shell", _) => Some(BuiltinAction::Shell),
        (_, FETCH_URL) => Some(BuiltinAction::Network),
        (_, PYTHON) => None,
        _ => Some(BuiltinAction::FsRead),
    }
}

/// Only reads, in the same way each time, on this machine.
const READS: ToolAnnotations = ToolAnnotations {
    read_only: Some(true),
    destructive: Some(false),
    idempotent: Some(true),
    open_world: Some(false),
};
/// Only reads, from other machines.
const READS_REMOTE: ToolAnnotations = ToolAnnotations {
    open_world: Some(true),
    ..READS
};
/// Changes files; the previous contents are kept for `llm :undo`.
const WRITES: ToolAnnotations = ToolAnnotations {
    read_only: Some(false),
    destructive: Some(false),
    idempotent: Some(false),
    open_world: Some(false),
};
/// The same, and a second call changes nothing more.
const WRITES_WHOLE: ToolAnnotations = ToolAnnotations {
    idempotent: Some(true),
    ..WRITES
};

static WORK_DEFINITIONS: LazyLock<Vec<ToolDefinition>> = LazyLock::new(definitions);

/// Returns the built-in tools that work on files, commands and pages, in the order in which they are offered.
pub fn work_tools() -> &'static [ToolDefinition] {
    &WORK_DEFINITIONS
}

/// Returns the tool of [`work_tools`] with this name, as `aish.TOOL` or as `aish-helper call` takes it.
pub fn find_work_tool(name: &str) -> Option<&'static ToolDefinition> {
    let (alias, name) = name.split_once(['.', ':'])?;
    let mut tools = work_tools().iter();
    tools.find(|tool| alias == tool.server && name == tool.name)
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn definitions() -> Vec<ToolDefinition> {
    let path =
        json!({"type": "string", "description": "Relative to the working directory, or absolute"});
    let mut all = file_definitions(&path);
    all.push(builtin_tool(
        SHELL,
        "Runs a command in a new zsh in the working directory and returns its output and exit code. It runs in a sandbox: \
         writes stay in the workspace, and there is no network unless asked for. It does not change the user's shell; \
         propose a CMD: line for that, or for a program that needs the terminal.",
        &object(
            &json!({
                "command": {"type": "string"},
                "dir": {"type": "string", "description": "Where to run it, if not in the working directory"},
                "timeout": {"type": "integer", "minimum": 1, "maximum": 3600, "default": 120, "description": "In seconds"},
                "network": {"type": "boolean", "default": false, "description": "Needs the network"},
                "outside_sandbox": {
                    "type": "boolean",
                    "default": false,
                    "description": "Only after the sandbox has blocked what is needed; the user is asked",
                },
            }),
            &["command"],
        ),
        WRITES,
    ));
    all.push(builtin_tool(
        GIT,
        "Reads a git repository: status, diff, log, show or blame.",
        &object(
            &json!({
                "command": {"type": "string", "enum": ["status", "diff", "log", "show", "blame"]},
                "revision": {"type": "string", "description": "A commit or a range, such as HEAD~3..HEAD"},
                "path": path,
                "staged": {"type": "boolean", "description": "For diff: what is staged"},
                "max_count": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "For log"},
            }),
            &["command"],
        ),
        READS,
    ));
    all.push(builtin_tool(
        FETCH_URL,
        "Reads a web page as text.",
        &object(&json!({"url": {"type": "string"}}), &["url"]),
        READS_REMOTE,
    ));
    all.push(builtin_tool(
        SEARCH,
        "Searches by words: the names of files in the workspace, the user's earlier prompts, answers and commands, or the web \
         where the user has configured it.",
        &object(
            &json!({
                "query": {"type": "string"},
                "in": {"type": "string", "enum": ["files", "history", "web"]},
            }),
            &["query", "in"],
        ),
        READS_REMOTE,
    ));
    all.push(builtin_tool(
        PYTHON,
        "Runs a block of Python code that combines calls of the helpers. Each helper is a function, by its name; the user may be asked \
         about each call, and a refused one raises HelperError. Returns what the code prints and the value of its last expression. \
         It runs in a sandbox without network, and changes no files itself.",
        &object(&json!({"code": {"type": "string"}}), &["code"]),
        WRITES,
    ));
    all
}

fn file_definitions(path: &Value) -> Vec<ToolDefinition> {
    vec![
        builtin_tool(
            READ_FILE,
            "Reads a file: numbered lines of a text, an image, or the text of a PDF.",
            &object(
                &json!({
                    "path": path,
                    "offset": {"type": "integer", "minimum": 1, "description": "The first line"},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 2000, "description": "Number of lines"},
                }),
                &["path"],
            ),
            READS,
        ),
        builtin_tool(
            LIST_DIR,
            "Lists a directory.",
            &object(
                &json!({
                    "path": path,
                    "depth": {"type": "integer", "minimum": 1, "maximum": 5, "default": 1},
                }),
                &[],
            ),
            READS,
        ),
        builtin_tool(
            GREP,
            "Searches files for a regular expression, as ripgrep does; ignored files are left out.",
            &object(
                &json!({
                    "pattern": {"type": "string"},
                    "path": path,
                    "glob": {"type": "string", "description": "Only these files, such as *.rs; ignored ones too"},
                    "ignore_case": {"type": "boolean"},
                    "fixed": {"type": "boolean", "description": "The pattern is a plain text"},
                    "context": {"type": "integer", "minimum": 0, "maximum": 20, "description": "Lines around each match"},
                    "files_only": {"type": "boolean", "description": "Only the names of the files"},
                }),
                &["pattern"],
            ),
            READS,
        ),
        builtin_tool(
            FIND_FILES,
            "Finds files by a glob or a part of their path; ignored files are left out.",
            &object(
                &json!({"pattern": {"type": "string"}, "path": path}),
                &["pattern"],
            ),
            READS,
        ),
        builtin_tool(
            WRITE_FILE,
            "Writes a whole file. To change a part of one, use edit_file.",
            &object(
                &json!({"path": path, "content": {"type": "string"}}),
                &["path", "content"],
            ),
            WRITES_WHOLE,
        ),
        builtin_tool(
            EDIT_FILE,
            "Replaces a text in a file. old_text must occur exactly once: take enough lines around it, as read_file \
             shows them, without their numbers. Give both texts with their full indentation: an exact text is replaced as it is.",
            &object(
                &json!({
                    "path": path,
                    "old_text": {"type": "string"},
                    "new_text": {"type": "string"},
                    "replace_all": {"type": "boolean", "default": false},
                }),
                &["path", "old_text", "new_text"],
            ),
            WRITES,
        ),
        builtin_tool(
            PATCH,
            "Changes several files, all or none. The patch begins with `*** Begin Patch`, then has for each file `*** Add File: P`, \
             `*** Delete File: P` or `*** Update File: P` (with `*** Move to: P` to rename), `@@` and lines that begin with a space, - \
             or +, and ends with `*** End Patch`.",
            &object(&json!({"patch": {"type": "string"}}), &["patch"]),
            WRITES,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::OperationClass;

    #[test]
    fn every_tool_belongs_to_one_group_and_has_exact_annotations() {
        let mut grouped: Vec<&str> = TOOL_GROUPS
            .iter()
            .flat_map(|(_, tools)| *tools)
            .copied()
            .collect();
        let mut names: Vec<&str> = work_tools().iter().map(|tool| tool.name.as_str()).collect();
        grouped.sort_unstable();
        names.sort_unstable();
        assert_eq!(grouped, names);
        for tool in work_tools() {
            let hints = &tool.annotations;
            assert!(hints.read_only.is_some() && hints.destructive.is_some());
            assert!(hints.idempotent.is_some() && hints.open_world.is_some());
            let writes =
                [WRITE_FILE, EDIT_FILE, PATCH, SHELL, PYTHON].contains(&tool.name.as_str());
            let expected = if writes {
                OperationClass::Write
            } else {
                OperationClass::Read
            };
            assert_eq!(hints.operation(), expected, "{}", tool.name);
            let schema: Value = serde_json::from_str(&tool.schema).unwrap();
            assert_eq!(schema["additionalProperties"], false);
            for required in schema["required"].as_array().unwrap() {
                assert!(
                    schema["properties"]
                        .get(required.as_str().unwrap())
                        .is_some()
                );
            }
        }
    }
}
