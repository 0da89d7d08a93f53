//! The effect of a call, which a question shows in addition to its arguments.

use serde::{Deserialize, Serialize};

use crate::chat::{DataSensitivity, OperationClass};

/// The effect of a call of a built-in tool, as it was determined before the question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownEffect {
    /// The directory of the workspace in which the call stays; `None` for other tools, and for a call that leaves it.
    pub workspace: Option<String>,
    /// The effect of the call, in one line, where the arguments do not say it: the resolved path of a file outside.
    pub statement: Option<String>,
    /// The difference that the call makes in files. It replaces the arguments in the question.
    #[serde(default)]
    pub difference: Vec<ToolDiffLine>,
    /// The possible harm, in one line: `deletes files recursively outside this directory`.
    pub danger: Option<String>,
    /// The answer `yes` must be typed in full.
    #[serde(default)]
    pub typed_yes: bool,
    /// The call runs a command again that the sandbox blocked, outside of it.
    #[serde(default)]
    pub is_second_run: bool,
}

/// The parts of a tool that were not shown to the person before its question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnseenTool {
    /// Its server and all tools of it.
    Server,
    /// The tool.
    Tool,
}

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDiffLine {
    /// `+`, `-`, a space, or `@` for a heading such as the name of a file.
    pub sign: char,
    /// The line.
    pub text: String,
}

/// The intent that a model declares for a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredIntent {
    /// The declared operation.
    pub operation_type: OperationClass,
    /// The declared sensitivity of the data.
    pub data_sensitivity: Option<DataSensitivity>,
    /// The reason.
    pub reason: Option<String>,
}
